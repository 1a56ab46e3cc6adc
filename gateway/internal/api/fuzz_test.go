package api

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/leader-election/leader_election/gateway/internal/lease"
)

// FuzzMatch: for any path, an accepted name is a valid name of a lock, and its
// canonical escaped form leads to the same lock.
func FuzzMatch(f *testing.F) {
	for _, path := range []string{"/v1/locks/a", "/v1/locks/a%2Fb/renew", "/v1/locks/a/claims/j/complete",
		"/v1/locks/%2E%2E", "/v1/locks/a%25", "/v1/renew", "/v1/acquire", "/v1/release", "/v1/read"} {
		for _, method := range []string{"GET", "PUT", "POST", "DELETE"} {
			f.Add(method, path)
		}
	}
	f.Fuzz(func(t *testing.T, method, path string) {
		u, err := url.ParseRequestURI(path)
		if err != nil {
			return
		}
		r, err := match(method, u)
		if err != nil {
			if p := describe("", err); p.Status < 400 || p.Status > 405 {
				t.Fatalf("%q: %v", path, err)
			}
			return
		}
		if r.name == "" {
			return
		}
		if checkName(r.name) != nil {
			t.Fatalf("%q: name %q", path, r.name)
		}
		canonical, _ := url.Parse(locksPath + url.PathEscape(r.name))
		if again, err := match("PUT", canonical); err != nil || again.name != r.name {
			t.Fatalf("%q: %q is not the canonical form of %q: %v", path, canonical, r.name, err)
		}
	})
}

// FuzzBodies: any body is refused as the client's mistake, or its values are
// within bounds and survive being written and read again.
func FuzzBodies(f *testing.F) {
	for _, body := range []string{``, `{}`, `{"owner":"o","ttl":"15s","value":"v","attempt":"a","min_token":1}`,
		`{"owner":"o","token":1,"rev":1,"ttl":15}`, `{"owner":"o","ttl":1e9,"locks":[{"name":"a/b","token":1,"rev":1,"value":null}]}`,
		`{"owner":"o","token":1,"tick":-1,"try":1,"claim":"c","prev_claim":"p","prev_state":"done"}`,
		`{"owner":"o","ttl":"15s","locks":[{"name":"a","attempt":"x","min_token":7},{"name":"b","attempt":"y","value":""}]}`,
		`{"owner":"o","locks":[{"name":"a","token":7,"rev":2}]}`, `{"locks":[{"name":"a"},{"name":"a/b"}]}`,
		`{"claim":"c","state":"failed"}`, `{"ttl":"\u0031s"}`, `{"ttl":NaN}`} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, text string) {
		read := func(optional bool, into any) bool {
			if optional && empty([]byte(text)) {
				return true
			}
			return check(t, decode([]byte(text), into))
		}
		var a acquireBody
		if read(true, &a) {
			if q, err := a.request("n"); check(t, err) && (q.Owner == "" || q.Attempt == "" || q.MinToken < 0 || q.TTL < 0) {
				t.Fatalf("%q: %+v", text, q)
			}
		}
		var r renewBody
		if read(false, &r) {
			if q, err := r.request("n"); check(t, err) && (q.Token < 1 || q.Rev < 1 || q.Owner == "") {
				t.Fatalf("%q: %+v", text, q)
			}
		}
		var b batchBody
		if read(false, &b) {
			if list, err := b.requests(); check(t, err) && (len(list) < 1 || len(list) > batchLocks) {
				t.Fatalf("%q: %d locks", text, len(list))
			}
		}
		var am acquireManyBody
		if read(false, &am) {
			if list, err := am.requests(); check(t, err) {
				for _, q := range list {
					if q.Owner == "" || q.Attempt == "" || q.Anonymous || q.MinToken < 0 || checkName(q.Name) != nil {
						t.Fatalf("%q: %+v", text, q)
					}
				}
			}
		}
		var rm releaseManyBody
		if read(false, &rm) {
			if list, err := rm.requests(); check(t, err) && (len(list) > batchLocks || list[0].Token < 1 || list[0].Rev < 1) {
				t.Fatalf("%q: %+v", text, list)
			}
		}
		var gm getManyBody
		if read(false, &gm) {
			if list, err := gm.requests(); check(t, err) && (len(list) < 1 || checkName(list[0]) != nil) {
				t.Fatalf("%q: %q", text, list)
			}
		}
		var c claimBody
		if read(false, &c) {
			if q, err := c.request(route{opClaim, "n", "j"}); check(t, err) {
				again, _ := json.Marshal(claimOf(lease.Claim(q.Claim)))
				if !strings.Contains(string(again), `"job":"j"`) {
					t.Fatalf("%s", again)
				}
			}
		}
		var d completeBody
		if read(false, &d) {
			check(t, d.check())
		}
	})
}

// check is true without an error; an error must be the client's.
func check(t *testing.T, err error) bool {
	t.Helper()
	if err == nil {
		return true
	}
	if p := describe("", err); p.Status < 400 || p.Status >= http.StatusInternalServerError {
		t.Fatalf("%v is reported as %d", err, p.Status)
	}
	return false
}
