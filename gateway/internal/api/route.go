package api

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// op names an operation, for routing and for metrics.
type op string

const (
	opAcquire  op = "acquire"
	opRenew    op = "renew"
	opRelease  op = "release"
	opGet      op = "get"
	opWait     op = "wait"
	opList     op = "list"
	opBatch    op = "renew_many"
	opClaim    op = "claim"
	opComplete op = "complete"
	opGetClaim op = "get_claim"
	opClaims   op = "get_claims"
)

// route is what a request is about.
type route struct {
	op        op
	name, job string
}

var (
	errNoRoute  = errors.New("no such resource")
	errNoMethod = errors.New("method not allowed here")
)

const locksPath = "/v1/locks/"

// match finds the operation of a request. It works on the escaped path, so
// that a name sent with %2F is one segment and cannot be mistaken for part of
// the interface; a name sent with plain slashes is whatever stands between
// /v1/locks/ and the words renew, claims and complete at the end.
func match(method string, u *url.URL) (route, error) {
	path := u.EscapedPath()
	switch path {
	case "/v1/locks":
		return only(method, "GET", route{op: opList})
	case "/v1/renew":
		return only(method, "POST", route{op: opBatch})
	}
	rest, ok := strings.CutPrefix(path, locksPath)
	if !ok {
		return route{}, errNoRoute
	}
	seg := strings.Split(rest, "/")
	n := len(seg)
	last := func(i int) string { // from the end; "" before the beginning
		if i > n {
			return ""
		}
		return seg[n-i]
	}
	switch method {
	case "PUT":
		return lock(opAcquire, seg, "")
	case "DELETE":
		return lock(opRelease, seg, "")
	case "GET":
		switch {
		case n > 2 && last(2) == "claims":
			return lock(opGetClaim, seg[:n-2], last(1))
		case n > 1 && last(1) == "claims":
			return lock(opClaims, seg[:n-1], "")
		case u.Query().Has("wait"):
			return lock(opWait, seg, "")
		}
		return lock(opGet, seg, "")
	case "POST":
		switch {
		case n > 3 && last(1) == "complete" && last(3) == "claims":
			return lock(opComplete, seg[:n-3], last(2))
		case n > 2 && last(2) == "claims":
			return lock(opClaim, seg[:n-2], last(1))
		case n > 1 && last(1) == "renew":
			return lock(opRenew, seg[:n-1], "")
		}
	}
	return route{}, errNoMethod
}

func only(method, want string, r route) (route, error) {
	if method != want {
		return route{}, errNoMethod
	}
	return r, nil
}

func lock(o op, seg []string, job string) (route, error) {
	name, err := url.PathUnescape(strings.Join(seg, "/"))
	if err != nil {
		return route{}, invalid("bad-name", "the name is not properly escaped")
	}
	if err := checkName(name); err != nil {
		return route{}, err
	}
	r := route{op: o, name: name}
	if o == opClaim || o == opComplete || o == opGetClaim {
		if r.job, err = url.PathUnescape(job); err != nil {
			return route{}, invalid("bad-name", "the job is not properly escaped")
		}
		if err := checkText("job", r.job, 200); err != nil {
			return route{}, err
		}
	}
	return r, nil
}

// checkName accepts the names of elections: 1 to 200 bytes of A-Z a-z 0-9 . _
// - and /, without empty, . and .. segments.
func checkName(name string) error {
	if len(name) < 1 || len(name) > 200 {
		return invalid("bad-name", "a lock's name has 1 to 200 bytes, not %d", len(name))
	}
	for _, c := range []byte(name) {
		if !('A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9' ||
			c == '.' || c == '_' || c == '-' || c == '/') {
			return invalid("bad-name", "a lock's name is made of A-Z a-z 0-9 . _ - and /, it cannot contain %q", c)
		}
	}
	for seg := range strings.SplitSeq(name, "/") {
		if seg == "" || seg == "." || seg == ".." {
			return invalid("bad-name", "a lock's name cannot have the segment %q", seg)
		}
	}
	return nil
}

// checkText accepts identifiers that are shown to people and stored.
func checkText(what, s string, most int) error {
	if s == "" || len(s) > most || !utf8.ValidString(s) {
		return invalid("bad-request", "%s must be 1 to %d bytes of UTF-8", what, most)
	}
	if i := strings.IndexFunc(s, unicode.IsControl); i >= 0 {
		return invalid("bad-request", "%s cannot contain control characters", what)
	}
	return nil
}

func invalid(slug, format string, args ...any) error {
	return &problem{Type: slug, Detail: fmt.Sprintf(format, args...)}
}
