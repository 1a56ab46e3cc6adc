package api

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/leader-election/leader_election/gateway/internal/lease"
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
	opClaim    op = "claim"
	opComplete op = "complete"
	opGetClaim op = "get_claim"
	opClaims   op = "get_claims"

	// batches
	opBatch       op = "renew_many"
	opAcquireMany op = "acquire_many"
	opReleaseMany op = "release_many"
	opGetMany     op = "get_many"
)

// route is the target of a request.
type route struct {
	op        op
	name, job string
}

var errNoRoute = errors.New("no such resource")

// methodError: the resource exists, but not with this method.
type methodError struct{ allow string }

func (e *methodError) Error() string { return "the resource knows " + e.allow }

// resource maps the methods of a path to operations.
type resource map[string]op

var (
	theLocks    = resource{"GET": opList}
	theAcquires = resource{"POST": opAcquireMany}
	theRenewals = resource{"POST": opBatch}
	theReleases = resource{"POST": opReleaseMany}
	theReads    = resource{"POST": opGetMany}
	aLock       = resource{"GET": opGet, "PUT": opAcquire, "DELETE": opRelease}
	aRenewal    = resource{"POST": opRenew}
	theClaims   = resource{"GET": opClaims}
	aClaim      = resource{"GET": opGetClaim, "POST": opClaim}
	anEnd       = resource{"POST": opComplete}
)

// to finds the operation of a method.
func (r resource) to(method string) (op, error) {
	if o, ok := r[method]; ok {
		return o, nil
	}
	return "", &methodError{strings.Join(slices.Sorted(maps.Keys(r)), ", ")}
}

const locksPath = "/v1/locks/"

// match finds the operation of a request. It works on the escaped path, so
// that a name sent with %2F is one segment and cannot be mistaken for part of
// the interface; a name sent with plain slashes is the part between /v1/locks/
// and the words renew, claims and complete at the end.
func match(method string, u *url.URL) (route, error) {
	what, name, job, err := find(u.EscapedPath())
	if err != nil {
		return route{}, err
	}
	o, err := what.to(method)
	if err != nil || name == nil {
		return route{op: o}, err
	}
	if o == opGet && u.Query().Has("wait") {
		o = opWait
	}
	return lock(o, name, job)
}

// find takes a path apart: the resource, the segments of the lock's name, and
// the job, all still escaped.
func find(path string) (what resource, name []string, job string, err error) {
	switch path {
	case "/v1/locks":
		return theLocks, nil, "", nil
	case "/v1/acquire":
		return theAcquires, nil, "", nil
	case "/v1/renew":
		return theRenewals, nil, "", nil
	case "/v1/release":
		return theReleases, nil, "", nil
	case "/v1/read":
		return theReads, nil, "", nil
	}
	rest, ok := strings.CutPrefix(path, locksPath)
	if !ok {
		return nil, nil, "", errNoRoute
	}
	seg := strings.Split(rest, "/")
	n := len(seg)
	last := func(i int) string { // from the end; "" before the beginning
		if i > n {
			return ""
		}
		return seg[n-i]
	}
	switch {
	case n > 3 && last(1) == "complete" && last(3) == "claims":
		return anEnd, seg[:n-3], last(2), nil
	case n > 2 && last(2) == "claims":
		return aClaim, seg[:n-2], last(1), nil
	case n > 1 && last(1) == "claims":
		return theClaims, seg[:n-1], "", nil
	case n > 1 && last(1) == "renew":
		return aRenewal, seg[:n-1], "", nil
	}
	return aLock, seg, "", nil
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

// checkName refuses invalid names of locks.
func checkName(name string) error {
	if err := lease.CheckName(name); err != nil {
		return invalid("bad-name", "%v", err)
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
