package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

var batchPaths = []string{"/v1/acquire", "/v1/renew", "/v1/release", "/v1/read"}

// results sends a batch and returns the result of each lock.
func (f *fixture) results(path, body string) []resultDoc {
	f.Helper()
	a := f.want("POST", path, body, 200, "")
	var doc struct{ Results []resultDoc }
	if err := json.Unmarshal([]byte(a.raw), &doc); err != nil {
		f.Fatalf("%v: %s", err, a.raw)
	}
	return doc.Results
}

// outcome is a result in short: its name, status and problem.
func outcome(r resultDoc) string {
	s := fmt.Sprint(r.Name, " ", r.Status)
	if r.Problem != nil {
		s += " " + strings.TrimPrefix(r.Problem.Type, urn)
	}
	if (r.Lock != nil) != (r.Status < 300 && r.Status != 204) || r.Problem != nil && r.Problem.Status != r.Status {
		s += " and what does not go with it"
	}
	return s
}

func (f *fixture) outcomes(path, body string, want ...string) []resultDoc {
	f.Helper()
	list := f.results(path, body)
	var got []string
	for _, r := range list {
		got = append(got, outcome(r))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		f.Fatalf("%s: %q, not %q", path, got, want)
	}
	return list
}

func TestBatch(t *testing.T) {
	f := newFixture(t, nil)
	f.want("PUT", "/v1/locks/a", `{"owner":"o"}`, 201, "")
	f.want("PUT", "/v1/locks/b", `{"owner":"other"}`, 201, "")
	r := f.outcomes("/v1/renew", `{"owner":"o","ttl":"20s","locks":[{"name":"a","token":1,"rev":1,"value":"v"},{"name":"b","token":1,"rev":1},{"name":"c","token":1,"rev":1}]}`,
		"a 200", "b 409 lost", "c 409 lost")
	if r[0].Lock.Rev != 2 || r[0].Lock.Value != "v" || *r[0].Lock.TrustMS != 17000 || *r[1].Problem.Owner != "other" {
		t.Errorf("%+v", r)
	}
}

// Each lock is answered in its place, as in a request for it alone.
func TestAcquireMany(t *testing.T) {
	f := newFixture(t, nil)
	f.want("PUT", "/v1/locks/mine", `{"owner":"o","attempt":"x"}`, 201, "")
	f.want("PUT", "/v1/locks/theirs", `{"owner":"other","value":"w"}`, 201, "")
	body := `{"owner":"o","ttl":"20s","locks":[{"name":"theirs","attempt":"x"},{"name":"new","attempt":"x","value":"v","min_token":6},` +
		`{"name":"far","attempt":"x","min_token":9007199254740992},{"name":"mine","attempt":"x"},{"name":"a/b","attempt":"y"}]}`
	r := f.outcomes("/v1/acquire", body, "theirs 409 held", "new 201", "far 422 token-jump", "mine 200", "a/b 201")
	if p := r[0].Problem; *p.Owner != "other" || *p.Value != "w" || *p.Token != 1 || *p.Rev != 1 || *p.ExpiresMS <= 0 {
		t.Errorf("%+v", p)
	}
	if l := r[1].Lock; l.Name != "new" || l.Owner != "o" || l.Value != "v" || l.Token != 7 || l.Rev != 1 || *l.TrustMS != 17000 {
		t.Errorf("%+v", l)
	}
	// its lease was longer: trust only the TTL of this request
	if l := r[3].Lock; l.Token != 1 || *l.TrustMS != 17000 || l.ExpiresMS <= 20000 {
		t.Errorf("%+v", l)
	}
	r = f.outcomes("/v1/acquire", body, "theirs 409 held", "new 200", "far 422 token-jump", "mine 200", "a/b 200")
	if l := r[1].Lock; l.Token != 7 || *l.TrustMS > 17000 {
		t.Errorf("repeated: %+v", l)
	}
	f.outcomes("/v1/acquire", `{"owner":"o","locks":[{"name":"mine","attempt":"y"}]}`, "mine 409 held")
	f.want("POST", "/v1/acquire", `{"owner":"o","ttl":4,"locks":[{"name":"late","attempt":"x"}]}`, 422, "bad-ttl")
	f.want("GET", "/v1/locks/late", "", 404, "free")
}

func TestReleaseMany(t *testing.T) {
	f := newFixture(t, nil)
	for _, name := range []string{"a", "b", "c", "d"} {
		f.want("PUT", "/v1/locks/"+name, `{"owner":"o"}`, 201, "")
	}
	f.want("PUT", "/v1/locks/theirs", `{"owner":"other"}`, 201, "")
	r := f.outcomes("/v1/release", `{"owner":"o","locks":[{"name":"b","token":1,"rev":2},{"name":"a","token":1,"rev":1},{"name":"none","token":1,"rev":1},`+
		`{"name":"theirs","token":1,"rev":1},{"name":"d","token":1,"rev":1}]}`,
		"b 409 stale-revision", "a 204", "none 404 free", "theirs 409 not-yours", "d 204")
	if *r[0].Problem.Rev != 1 || *r[3].Problem.Owner != "other" {
		t.Errorf("%+v", r)
	}
	f.outcomes("/v1/read", `{"locks":[{"name":"a"},{"name":"b"},{"name":"c"},{"name":"d"}]}`, "a 404 free", "b 200", "c 200", "d 404 free")
}

func TestGetMany(t *testing.T) {
	f := newFixture(t, nil)
	f.want("PUT", "/v1/locks/b", `{"owner":"o","value":"v","min_token":4}`, 201, "")
	r := f.outcomes("/v1/read", `{"locks":[{"name":"a"},{"name":"b"},{"name":"c"}]}`, "a 404 free", "b 200", "c 404 free")
	if l := r[1].Lock; l.Name != "b" || l.Owner != "o" || l.Value != "v" || l.Token != 5 || l.Rev != 1 || l.TrustMS != nil {
		t.Errorf("%+v", l)
	}
	if *r[0].Problem.Token != 0 {
		t.Errorf("%+v", r[0].Problem)
	}
}

// An invalid batch is refused before anything is done.
func TestBatchesAreChecked(t *testing.T) {
	f := newFixture(t, nil)
	entry := map[string]string{
		"/v1/acquire": `{"name":%q,"attempt":"x"}`,
		"/v1/renew":   `{"name":%q,"token":1,"rev":1}`,
		"/v1/release": `{"name":%q,"token":1,"rev":1}`,
		"/v1/read":    `{"name":%q}`,
	}
	for _, path := range batchPaths {
		many := func(names ...string) string {
			var list []string
			for _, name := range names {
				list = append(list, fmt.Sprintf(entry[path], name))
			}
			owner := `"owner":"o",`
			if path == "/v1/read" {
				owner = ""
			}
			return `{` + owner + `"locks":[` + strings.Join(list, ",") + `]}`
		}
		var names []string
		for i := range 101 {
			names = append(names, fmt.Sprint("l", i))
		}
		if n := len(f.results(path, many(names[:100]...))); n != 100 {
			t.Errorf("%s: %d results", path, n)
		}
		f.want("POST", path, many(names...), 400, "bad-request")
		f.want("POST", path, many(), 400, "bad-request")
		f.want("POST", path, many("a", "b", "a"), 400, "bad-request")
		if a := f.want("POST", path, many("a..", "../a"), 400, "bad-name"); !strings.Contains(a.raw, "locks[1]") {
			t.Errorf("%s: %s", path, a.raw)
		}
		f.want("POST", path, strings.Replace(many("a"), `"name"`, `"nothing":1,"name"`, 1), 400, "bad-request")
		f.want("POST", path, strings.Replace(many("a"), `"a"`, `"`+strings.Repeat("x", 1<<20)+`"`, 1), 413, "too-large")
		f.want("POST", path, "", 400, "bad-request")
	}
	for _, c := range []struct{ path, body string }{
		{"/v1/acquire", `{"locks":[{"name":"b","attempt":"x"}]}`},
		{"/v1/acquire", `{"owner":"o","locks":[{"name":"b"}]}`},
		{"/v1/acquire", `{"owner":"o","locks":[{"name":"b","attempt":"x"},{"name":"c","attempt":"x","min_token":-1}]}`},
		{"/v1/acquire", `{"owner":"o","locks":[{"name":"b","attempt":"x\n"}]}`},
		{"/v1/release", `{"locks":[{"name":"b","token":1,"rev":1}]}`},
		{"/v1/release", `{"owner":"o","locks":[{"name":"b","token":1}]}`},
		{"/v1/release", `{"owner":"o","locks":[{"name":"b","rev":1}]}`},
		{"/v1/read", `{"owner":"o","locks":[{"name":"b"}]}`},
	} {
		f.want("POST", c.path, c.body, 400, "bad-request")
	}
	f.want("GET", "/v1/locks/b", "", 404, "free")
}

// A name that the token does not open is refused in its place, and its lock is
// neither shown nor touched. A batch of renewals is refused as a whole.
func TestBatchesAndTokens(t *testing.T) {
	f := newFixture(t, withTokens(t))
	f.bearer = "token-of-root-0001"
	f.want("PUT", "/v1/locks/other", `{"owner":"o","value":"secret"}`, 201, "")
	f.bearer = "token-of-billing-1"
	f.want("PUT", "/v1/locks/billing/a", `{"owner":"o"}`, 201, "")
	r := f.outcomes("/v1/read", `{"locks":[{"name":"other"},{"name":"billing/a"},{"name":"nothing"}]}`,
		"other 403 forbidden", "billing/a 200", "nothing 403 forbidden")
	if r[0].Problem.Value != nil || r[0].Problem.Token != nil {
		t.Errorf("%+v", r[0].Problem)
	}
	f.outcomes("/v1/acquire", `{"owner":"p","locks":[{"name":"nothing","attempt":"x"},{"name":"billing/b","attempt":"x"}]}`,
		"nothing 403 forbidden", "billing/b 201")
	f.outcomes("/v1/release", `{"owner":"o","locks":[{"name":"billing/a","token":1,"rev":1},{"name":"other","token":1,"rev":1}]}`,
		"billing/a 204", "other 403 forbidden")
	f.outcomes("/v1/read", `{"locks":[{"name":"other"}]}`, "other 403 forbidden")
	f.want("POST", "/v1/renew", `{"owner":"p","locks":[{"name":"billing/b","token":1,"rev":1},{"name":"other","token":1,"rev":1}]}`, 403, "forbidden")
	f.bearer = "token-of-root-0001"
	f.want("GET", "/v1/locks/other", "", 200, "")
	f.want("GET", "/v1/locks/nothing", "", 404, "free")
	f.bearer = "token-of-nobody-01"
	for _, path := range batchPaths {
		f.want("POST", path, `{"locks":[]}`, 401, "unauthorized")
	}
}
