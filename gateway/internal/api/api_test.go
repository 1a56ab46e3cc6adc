package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	gateway "github.com/leader-election/leader_election/gateway"
	"github.com/leader-election/leader_election/gateway/internal/auth"
	"github.com/leader-election/leader_election/gateway/internal/lease"
	"github.com/leader-election/leader_election/gateway/internal/lease/leasetest"
	"github.com/leader-election/leader_election/gateway/internal/metrics"
)

// fixture is a gateway on the model store. Each of its answers is checked
// against openapi.yaml.
type fixture struct {
	*testing.T
	db     *leasetest.Model
	svc    *lease.Service
	srv    *Server
	http   *httptest.Server
	spec   routers.Router
	bearer string
	ready  atomic.Pointer[error]
}

func newFixture(t *testing.T, change func(*Options)) *fixture {
	t.Helper()
	f := &fixture{T: t, db: leasetest.New()}
	f.svc = lease.New(f.db, lease.Options{MaxClockSkew: 2 * time.Second, Budget: 300 * time.Millisecond,
		Poll: 50 * time.Millisecond, Parallel: 4, Log: slog.New(slog.DiscardHandler), Observer: &leasetest.Quiet{}})
	opt := Options{MaxRequests: 8, MaxWaiters: 2, OpenAPI: gateway.OpenAPI, Log: slog.New(slog.DiscardHandler),
		Metrics: metrics.New(f.svc.Held), Version: map[string]string{"version": "1", "go": "1", "api": "v1"},
		Ready: func(context.Context) error {
			if err := f.ready.Load(); err != nil {
				return *err
			}
			return nil
		}}
	if change != nil {
		change(&opt)
	}
	f.srv = New(f.svc, opt)
	f.http = httptest.NewServer(f.srv)
	t.Cleanup(f.http.Close)
	f.spec = loadSpec(t)
	return f
}

func loadSpec(t *testing.T) routers.Router {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(gateway.OpenAPI)
	if err == nil {
		err = doc.Validate(t.Context())
	}
	if err != nil {
		t.Fatalf("openapi.yaml: %v", err)
	}
	doc.Servers = nil
	r, err := gorillamux.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

type answer struct {
	status int
	header http.Header
	raw    string
	doc    map[string]any
}

// typ is the last part of a problem's type.
func (a answer) typ() string {
	s, _ := a.doc["type"].(string)
	return strings.TrimPrefix(s, urn)
}

func (a answer) num(key string) int64 {
	n, _ := a.doc[key].(float64)
	return int64(n)
}

// do sends a request and checks request and answer against the description.
// The description must accept all requests that the gateway accepts.
func (f *fixture) do(method, path, body string) answer {
	f.Helper()
	req, err := http.NewRequestWithContext(f.Context(), method, f.http.URL+path, strings.NewReader(body))
	if err != nil {
		f.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if f.bearer != "" {
		req.Header.Set("Authorization", "Bearer "+f.bearer)
	}
	resp, err := http.DefaultTransport.RoundTrip(req) // redirects are answers too
	if err != nil {
		f.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		f.Fatal(err)
	}
	a := answer{status: resp.StatusCode, header: resp.Header, raw: string(raw)}
	if strings.Contains(resp.Header.Get("Content-Type"), "json") {
		if err := json.Unmarshal(raw, &a.doc); err != nil {
			f.Fatalf("%s %s: %v in %s", method, path, err, raw)
		}
	}
	f.validate(req, body, a)
	return a
}

// inWords lists the inputs that only the description's words forbid.
var inWords = regexp.MustCompile(`go together|given twice|named twice|cannot be read|claim must be new|the body may have|the body has more than one|not UTF-8`)

func (f *fixture) validate(req *http.Request, body string, a answer) {
	f.Helper()
	u, _ := url.Parse(req.URL.String())
	// The validator's router knows only one segment per name.
	if rt, err := match(req.Method, req.URL); err == nil && rt.name != "" {
		u.RawPath = strings.Replace(u.EscapedPath(), rt.name, url.PathEscape(rt.name), 1)
	}
	route, params, err := f.spec.FindRoute(&http.Request{Method: req.Method, URL: u, Host: u.Host})
	if err != nil {
		if a.status != 404 && a.status != 405 && a.status != 400 {
			f.Errorf("%s %s answers %d, but the description does not know it: %v", req.Method, u.Path, a.status, err)
		}
		return
	}
	for k, v := range params { // the router leaves them escaped
		params[k], _ = url.PathUnescape(v)
	}
	check := req.Clone(f.Context())
	check.URL = u
	check.Body = io.NopCloser(strings.NewReader(body))
	in := &openapi3filter.RequestValidationInput{Request: check, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true}}
	err = openapi3filter.ValidateRequest(f.Context(), in)
	if err != nil && a.status < 400 {
		f.Errorf("%s %s is accepted, but not by the description: %v", req.Method, u, err)
	}
	if detail, _ := a.doc["detail"].(string); err == nil && (a.status == 400 || a.status == 413) && !inWords.MatchString(detail) {
		f.Errorf("%s %s is refused (%s), but not by the description", req.Method, u, detail)
	}
	err = openapi3filter.ValidateResponse(f.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: a.status, Header: a.header,
		Body: io.NopCloser(bytes.NewReader([]byte(a.raw))), Options: in.Options})
	if err != nil {
		f.Errorf("answer %d to %s %s does not match the description: %v", a.status, req.Method, u, err)
	}
}

// want sends a request and expects a status and, for an error, its type.
func (f *fixture) want(method, path, body string, status int, typ string) answer {
	f.Helper()
	a := f.do(method, path, body)
	if a.status != status || a.typ() != typ {
		f.Errorf("%s %s %.80s: %d %s, want %d %s\n%s", method, path, body, a.status, a.typ(), status, typ, a.raw)
	}
	return a
}

func TestLife(t *testing.T) {
	f := newFixture(t, nil)
	a := f.want("PUT", "/v1/locks/my_lock", "", 201, "")
	if a.num("token") != 1 || a.num("rev") != 1 || a.num("expires_in_ms") != 180000 || a.num("trust_ms") != 177000 || a.doc["owner"] == "" {
		t.Errorf("%s", a.raw)
	}
	a = f.want("PUT", "/v1/locks/my_lock", "", 409, "held")
	if a.header.Get("Retry-After") != "180" || a.num("token") != 1 {
		t.Errorf("%v %s", a.header, a.raw)
	}
	body := `{"owner":"n#1","value":"{\"host\":\"a\"}","ttl":"14500ms","attempt":"x","min_token":7}`
	a = f.want("PUT", "/v1/locks/a%2Fb", body, 201, "")
	if a.num("token") != 8 || a.num("expires_in_ms") != 15000 || a.doc["name"] != "a/b" {
		t.Errorf("%s", a.raw)
	}
	f.want("PUT", "/v1/locks/a/b", body, 200, "") // one canonical form
	a = f.want("POST", "/v1/locks/a%2Fb/renew", `{"owner":"n#1","token":8,"rev":1,"ttl":15}`, 200, "")
	if a.num("rev") != 2 || a.num("trust_ms") != 12000 || a.doc["value"] != `{"host":"a"}` {
		t.Errorf("%s", a.raw)
	}
	a = f.want("POST", "/v1/locks/a/b/renew", `{"owner":"n#1","token":7,"rev":2}`, 409, "lost")
	if a.doc["owner"] != "n#1" || a.num("token") != 8 {
		t.Errorf("%s", a.raw)
	}
	f.want("POST", "/v1/locks/a/b/renew", `{"owner":"n#1","token":8,"rev":9}`, 409, "stale-revision")
	f.want("GET", "/v1/locks/a%2Fb", "", 200, "")
	f.want("GET", "/v1/locks/a/b?wait=100ms&token=8&rev=2", "", 200, "")
	f.want("DELETE", "/v1/locks/a/b?owner=n%231&token=8&rev=1", "", 409, "stale-revision")
	f.want("DELETE", "/v1/locks/a/b?owner=other&token=8&rev=2", "", 409, "not-yours")
	f.want("DELETE", "/v1/locks/a/b?owner=n%231&token=8&rev=2", "", 204, "")
	f.want("DELETE", "/v1/locks/a/b?owner=n%231&token=8&rev=2", "", 404, "free")
	a = f.want("GET", "/v1/locks/a/b", "", 404, "free")
	if a.num("token") != 8 {
		t.Errorf("%s", a.raw)
	}
}

// An acquire that a read has settled after a lost answer of Cassandra may belong
// to an earlier request; but not if nobody else can know its attempt.
func TestSettledAcquire(t *testing.T) {
	f := newFixture(t, nil)
	for name, c := range map[string]struct {
		body   string
		status int
	}{
		"bare":    {"", 201},
		"owner":   {`{"owner":"o"}`, 201},
		"attempt": {`{"owner":"o","attempt":"a"}`, 200},
	} {
		lost := false
		f.db.Fault = func(kind string) leasetest.Fault {
			if kind != "acquire" || lost {
				return leasetest.None
			}
			lost = true
			return leasetest.AnswerLost
		}
		a := f.want("PUT", "/v1/locks/"+name, c.body, c.status, "")
		if a.num("token") != 1 || a.num("trust_ms") > 177000 || !lost {
			t.Errorf("%s: %s", name, a.raw)
		}
		f.want("PUT", "/v1/locks/"+name, "", 409, "held")
	}
}

// infoLife: a claimant's info is shown with its claim, until the next claim.
func infoLife(f *fixture, t *testing.T) {
	shown := func(want string) {
		t.Helper()
		c := f.want("GET", "/v1/locks/l/claims/j", "", 200, "").doc
		if got, _ := c["info"].(string); got != want {
			t.Errorf("info is %q, not %q", got, want)
		}
	}
	next := `{"owner":"o","token":1,"tick":2000,"try":1,"claim":"c2","prev_claim":"c1","prev_state":"done"`
	shown("")
	f.want("POST", "/v1/locks/l/claims/j", next+`,"info":"`+strings.Repeat("é", infoChars+1)+`"}`, 400, "bad-request")
	f.want("POST", "/v1/locks/l/claims/j", next+`,"info":"`+strings.Repeat("é", infoChars)+`"}`, 201, "")
	shown(strings.Repeat("é", infoChars))
	f.want("POST", "/v1/locks/l/claims/j/complete", `{"claim":"c2","state":"done"}`, 200, "")
	shown(strings.Repeat("é", infoChars))
	f.want("POST", "/v1/locks/l/claims/j",
		`{"owner":"o","token":1,"tick":3000,"try":1,"claim":"c3","prev_claim":"c2","prev_state":"done"}`, 201, "")
	shown("")
	f.want("POST", "/v1/locks/l/claims/j/complete", `{"claim":"c3","state":"failed","info":"why"}`, 200, "")
	shown("why")
}

func TestClaimLife(t *testing.T) {
	f := newFixture(t, nil)
	f.want("PUT", "/v1/locks/l", `{"owner":"o"}`, 201, "")
	claim := `{"owner":"o","token":1,"tick":1000,"try":1,"claim":"c1"}`
	f.want("GET", "/v1/locks/l/claims/j", "", 404, "no-claim")
	f.want("POST", "/v1/locks/l/claims/j", claim, 201, "")
	f.want("POST", "/v1/locks/l/claims/j", claim, 200, "")
	a := f.want("POST", "/v1/locks/l/claims/j", strings.Replace(claim, "c1", "c2", 1), 409, "claim-refused")
	if c, _ := a.doc["claim"].(map[string]any); c["claim"] != "c1" || c["state"] != "running" {
		t.Errorf("%s", a.raw)
	}
	f.want("POST", "/v1/locks/l/claims/j/complete", `{"claim":"c1","state":"undone"}`, 400, "bad-request")
	a = f.want("POST", "/v1/locks/l/claims/j/complete", `{"claim":"c1","state":"running"}`, 200, "")
	if a.doc["state"] != "running" {
		t.Errorf("%s", a.raw)
	}
	f.want("POST", "/v1/locks/l/claims/j/complete", `{"claim":"c1","state":"done"}`, 200, "")
	infoLife(f, t)
	f.want("POST", "/v1/locks/l/claims/j/complete", `{"claim":"c1","state":"failed"}`, 409, "claim-refused")
	f.want("POST", "/v1/locks/l/claims/a%2Fb%20%C3%A9", claim, 201, "")
	a = f.want("GET", "/v1/locks/l/claims", "", 200, "")
	if list, _ := a.doc["claims"].([]any); len(list) != 2 {
		t.Errorf("%s", a.raw)
	}
	a = f.want("GET", "/v1/locks/l/claims/a%2Fb%20%C3%A9", "", 200, "")
	if a.doc["job"] != "a/b é" || a.num("tick") != 1000 {
		t.Errorf("%s", a.raw)
	}
	for _, bad := range []string{
		`{"owner":"o","token":1,"try":1,"claim":"c"}`, `{"owner":"o","token":1,"tick":1,"claim":"c"}`,
		`{"owner":"o","token":1,"tick":1,"try":1}`, `{"owner":"o","tick":1,"try":1,"claim":"c"}`,
		`{"owner":"o","token":1,"tick":1,"try":1,"claim":"c","prev_claim":"d"}`,
		`{"owner":"o","token":1,"tick":1,"try":1,"claim":"c","prev_claim":"c","prev_state":"done"}`,
		`{"owner":"o","token":1,"tick":1,"try":1,"claim":"c","prev_claim":"d","prev_state":"lost"}`,
		`{"owner":"o","token":1,"tick":"2026-01-01","try":1,"claim":"c"}`,
	} {
		f.want("POST", "/v1/locks/l/claims/j", bad, 400, "bad-request")
	}
}

func TestRefusesNonsense(t *testing.T) {
	f := newFixture(t, nil)
	long := strings.Repeat("n", 200)
	for _, c := range []struct {
		method, path, body string
		status             int
		typ                string
	}{
		{"PUT", "/v1/locks/" + long, "", 201, ""},
		{"PUT", "/v1/locks/" + long + "n", "", 400, "bad-name"},
		{"PUT", "/v1/locks/", "", 400, "bad-name"},
		{"PUT", "/v1/locks/a//b", "", 400, "bad-name"},
		{"PUT", "/v1/locks/a%2F%2Fb", "", 400, "bad-name"},
		{"PUT", "/v1/locks/a/../b", "", 400, "bad-name"},
		{"PUT", "/v1/locks/a/%2E%2E/b", "", 400, "bad-name"},
		{"PUT", "/v1/locks/.", "", 400, "bad-name"},
		{"PUT", "/v1/locks/a/", "", 400, "bad-name"},
		{"PUT", "/v1/locks/a%20b", "", 400, "bad-name"},
		{"PUT", "/v1/locks/%C3%A9", "", 400, "bad-name"},
		{"PUT", "/v1/locks/a%252Fb", "", 400, "bad-name"},
		{"PUT", "/v1/locks/a%00", "", 400, "bad-name"},
		{"PUT", "/v1/locks/claims%2Frenew", "", 201, ""},
		{"PUT", "/v1/locks", "", 405, "method"},
		{"POST", "/v1/locks/a", "", 405, "method"},
		{"PATCH", "/v1/locks/a", "", 405, "method"},
		{"GET", "/v1/renew", "", 405, "method"},
		{"POST", "/healthz", "", 405, "method"},
		{"GET", "/v2/locks/a", "", 404, "no-resource"},
		{"GET", "/", "", 404, "no-resource"},
		{"PUT", "/v1/locks/x", `{"owner":"o","colour":"red"}`, 400, "bad-request"},
		{"PUT", "/v1/locks/x", `{"owner":1}`, 400, "bad-request"},
		{"PUT", "/v1/locks/x", `{"owner":"o"} {}`, 400, "bad-request"},
		{"PUT", "/v1/locks/x", `{"owner":"o"`, 400, "bad-request"},
		{"PUT", "/v1/locks/x", `[]`, 400, "bad-request"},
		{"PUT", "/v1/locks/x", `null`, 400, "bad-request"},
		{"PUT", "/v1/locks/x", "{\"owner\":\"\xff\"}", 400, "bad-request"},
		{"PUT", "/v1/locks/x", `{"owner":"a\nb"}`, 400, "bad-request"},
		{"PUT", "/v1/locks/x", `{"owner":"` + strings.Repeat("o", 513) + `"}`, 400, "bad-request"},
		{"PUT", "/v1/locks/x", `{"min_token":-1}`, 400, "bad-request"},
		{"PUT", "/v1/locks/x", `{"min_token":1.5}`, 400, "bad-request"},
		{"PUT", "/v1/locks/x", `{"min_token":9223372036854775807}`, 422, "token-jump"},
		{"PUT", "/v1/locks/x", `{"min_token":1099511627776}`, 422, "token-jump"},
		{"PUT", "/v1/locks/x", `{"value":"` + strings.Repeat("x", 64<<10) + `"}`, 413, "too-large"},
		{"PUT", "/v1/locks/x", `{"ttl":"soon"}`, 400, "bad-duration"},
		{"PUT", "/v1/locks/x", `{"ttl":"15"}`, 400, "bad-duration"},
		{"PUT", "/v1/locks/x", `{"ttl":-15}`, 400, "bad-duration"},
		{"PUT", "/v1/locks/x", `{"ttl":true}`, 400, "bad-duration"},
		{"PUT", "/v1/locks/x", `{"ttl":1e300}`, 400, "bad-duration"},
		{"PUT", "/v1/locks/x", `{"ttl":0}`, 422, "bad-ttl"},
		{"PUT", "/v1/locks/x", `{"ttl":"900ms"}`, 422, "bad-ttl"},
		{"PUT", "/v1/locks/x", `{"ttl":"4999ms"}`, 422, "bad-ttl"},
		{"PUT", "/v1/locks/x", `{"ttl":"25h"}`, 422, "bad-ttl"},
		{"PUT", "/v1/locks/x", `{"ttl":86400.00000000001}`, 422, "bad-ttl"},
		{"PUT", "/v1/locks/x", `{"ttl":4.9999999999}`, 422, "bad-ttl"},
		{"PUT", "/v1/locks/x", `{"ttl":null}`, 201, ""},
		{"POST", "/v1/locks/x/renew", "", 400, "bad-request"},
		{"POST", "/v1/locks/x/renew", `{"owner":"o","token":1}`, 400, "bad-request"},
		{"POST", "/v1/locks/x/renew", `{"owner":"o","rev":1}`, 400, "bad-request"},
		{"POST", "/v1/locks/x/renew", `{"token":1,"rev":1}`, 400, "bad-request"},
		{"DELETE", "/v1/locks/x", "", 400, "bad-request"},
		{"DELETE", "/v1/locks/x?owner=o&token=1", "", 400, "bad-request"},
		{"DELETE", "/v1/locks/x?owner=o&token=a&rev=1", "", 400, "bad-request"},
		{"GET", "/v1/locks/x?wait=61s", "", 400, "bad-duration"},
		{"GET", "/v1/locks/x?wait=x", "", 400, "bad-duration"},
		{"GET", "/v1/locks/x?wait=1s&token=1", "", 400, "bad-request"},
		{"GET", "/v1/locks/x?token=1&rev=1", "", 400, "bad-request"},
		{"GET", "/v1/locks?limit=0", "", 400, "bad-request"},
		{"GET", "/v1/locks?limit=1001", "", 400, "bad-request"},
		{"GET", "/v1/locks?free=maybe", "", 400, "bad-request"},
		{"GET", "/v1/locks?page=%21", "", 400, "bad-request"},
		{"GET", "/v1/locks?free=", "", 400, "bad-request"},
		{"GET", "/v1/locks?free=true&free=false", "", 400, "bad-request"},
		{"GET", "/v1/locks?limit=%zz", "", 400, "bad-request"},
		{"DELETE", "/v1/locks/x?owner=o&token=1&rev=1&owner=p", "", 400, "bad-request"},
		{"DELETE", "/v1/locks/x?owner=&token=1&rev=1", "", 400, "bad-request"},
		{"DELETE", "/v1/locks/x?owner=o&token=9007199254740994&rev=1", "", 400, "bad-request"},
		{"GET", "/v1/locks/x?wait=", "", 400, "bad-duration"},
		{"GET", "/v1/locks/x?wait=61", "", 400, "bad-duration"},
		{"GET", "/v1/locks/x?wait=1e1", "", 400, "bad-duration"},
		{"GET", "/v1/locks/y?wait=0", "", 404, "free"},
		{"GET", "/v1/locks/x?wait=0&token=9007199254740994&rev=0", "", 400, "bad-request"},
		{"PUT", "/v1/locks/x", `{"ttl":"1.5h"}`, 400, "bad-duration"},
		{"PUT", "/v1/locks/x", `{"ttl":"1h30m"}`, 400, "bad-duration"},
		{"PUT", "/v1/locks/x", `{"ttl":"+15s"}`, 400, "bad-duration"},
		{"PUT", "/v1/locks/x", `{"ttl":"99999999999999h"}`, 400, "bad-duration"},
		{"POST", "/v1/locks/x/claims/j", `{"owner":"o","token":1,"tick":1,"try":1,"claim":"c","prev_claim":"","prev_state":""}`, 400, "bad-request"},
		{"POST", "/v1/locks/x/claims/j", `{"owner":"o","token":1,"tick":1,"try":1,"claim":"c","prev_claim":null,"prev_state":null}`, 409, "claim-refused"},
	} {
		f.want(c.method, c.path, c.body, c.status, c.typ)
	}
}

func TestList(t *testing.T) {
	f := newFixture(t, nil)
	for _, n := range []string{"a/1", "a/2", "b/1"} {
		f.want("PUT", "/v1/locks/"+n, `{"owner":"o"}`, 201, "")
	}
	f.want("DELETE", "/v1/locks/a/2?owner=o&token=1&rev=1", "", 204, "")
	for query, n := range map[string]int{"": 2, "?prefix=a/": 1, "?prefix=a/&free=true": 2, "?free=true": 3, "?prefix=c": 0} {
		a := f.want("GET", "/v1/locks"+query, "", 200, "")
		if list, _ := a.doc["locks"].([]any); len(list) != n || a.doc["linearizable"] != false {
			t.Errorf("%s: %s", query, a.raw)
		}
	}
}

// A possible effect is never reported like none.
func TestUnknownIsNotNotApplied(t *testing.T) {
	f := newFixture(t, nil)
	f.want("PUT", "/v1/locks/l", `{"owner":"o"}`, 201, "")
	for fault, want := range map[leasetest.Fault]string{leasetest.NeverRuns: "unknown", leasetest.NotSent: "not-applied"} {
		f.db.Fault = func(kind string) leasetest.Fault {
			if kind == "read" {
				return leasetest.None
			}
			return fault
		}
		for _, r := range [][3]string{{"POST", "/v1/locks/l/renew", `{"owner":"o","token":1,"rev":1}`},
			{"DELETE", "/v1/locks/l?owner=o&token=1&rev=1", ""},
			{"POST", "/v1/locks/l/claims/j", `{"owner":"o","token":1,"tick":1,"try":1,"claim":"c"}`}} {
			a := f.want(r[0], r[1], r[2], 503, want)
			if a.doc["outcome"] != want || a.header.Get("Retry-After") != "1" {
				t.Errorf("%v %s", a.header, a.raw)
			}
		}
	}
}

func TestTokens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	os.WriteFile(file, []byte("billing token-of-billing-1 billing/ shared\nroot token-of-root-0001 *\n"), 0o600)
	tokens, err := auth.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, func(o *Options) { o.Tokens = tokens })
	a := f.want("PUT", "/v1/locks/billing/x", "", 401, "unauthorized")
	if a.header.Get("WWW-Authenticate") == "" {
		t.Error("no WWW-Authenticate")
	}
	f.bearer = "token-of-nobody-01"
	f.want("PUT", "/v1/locks/billing/x", "", 401, "unauthorized")
	f.bearer = "token-of-billing-1"
	f.want("PUT", "/v1/locks/billing/x", "", 201, "")
	f.want("PUT", "/v1/locks/other", "", 403, "forbidden")
	f.want("GET", "/v1/locks/other/claims", "", 403, "forbidden")
	f.want("POST", "/v1/renew", `{"owner":"o","locks":[{"name":"billing/y","token":1,"rev":1},{"name":"other","token":1,"rev":1}]}`, 403, "forbidden")
	f.bearer = "token-of-root-0001"
	f.want("PUT", "/v1/locks/other", "", 201, "")
	f.bearer = "token-of-billing-1"
	if a = f.want("GET", "/v1/locks", "", 200, ""); strings.Contains(a.raw, "other") {
		t.Errorf("the list shows names of others: %s", a.raw)
	}
	f.bearer = ""
	for _, open := range []string{"/healthz", "/readyz", "/version", "/metrics", "/openapi.yaml"} {
		f.want("GET", open, "", 200, "")
	}
	os.WriteFile(file, []byte("root token-of-root-0001 *\n"), 0o600)
	if err := tokens.Reload(); err != nil {
		t.Fatal(err)
	}
	f.bearer = "token-of-billing-1"
	f.want("PUT", "/v1/locks/billing/z", "", 401, "unauthorized")
}

func TestReadiness(t *testing.T) {
	f := newFixture(t, nil)
	f.srv.readiness.kept = 0
	f.want("GET", "/readyz", "", 200, "")
	err := errors.New("down")
	f.ready.Store(&err)
	f.want("GET", "/readyz", "", 503, "not-applied")
	f.want("GET", "/healthz", "", 200, "")
	f.ready.Store(nil)
	f.srv.Drain()
	f.want("GET", "/readyz", "", 503, "not-applied")
}

func TestOverload(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.MaxRequests, o.MaxWaiters = 1, 1 })
	leave, _ := f.srv.slots.enter(opAcquire, "")
	a := f.want("PUT", "/v1/locks/l", "", 503, "overloaded")
	if a.header.Get("Retry-After") == "" || a.doc["outcome"] != "not-applied" {
		t.Errorf("%v %s", a.header, a.raw)
	}
	f.want("GET", "/healthz", "", 200, "")
	f.want("GET", "/v1/locks/l?wait=1ms", "", 404, "free") // long polls have a limit of their own
	leave()
	fill(f.srv.slots, opWait, "")
	f.want("GET", "/v1/locks/l?wait=1ms", "", 503, "overloaded")
	f.want("PUT", "/v1/locks/l", "", 201, "")
}

// Anybody may ask whether the gateway is ready; few questions reach Cassandra.
func TestReadinessIsKept(t *testing.T) {
	var asked atomic.Int32
	f := newFixture(t, func(o *Options) {
		o.Ready = func(ctx context.Context) error {
			asked.Add(1)
			time.Sleep(20 * time.Millisecond)
			return ctx.Err()
		}
	})
	gone, cancel := context.WithCancel(t.Context())
	cancel() // the first caller has gone away: that is not Cassandra's fault
	f.srv.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(gone, "GET", "/readyz", nil))
	started := time.Now()
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { f.want("GET", "/readyz", "", 200, "") })
	}
	all.Wait()
	if most := 2 + int32(time.Since(started)/time.Second); asked.Load() > most {
		t.Errorf("asked %d times", asked.Load())
	}
	f.srv.Drain()
	f.want("GET", "/readyz", "", 503, "not-applied")
}

// A page of another site under a name that resolves to this machine is refused
// if the machine itself need not authenticate (DNS rebinding).
func TestForeignHost(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Hosts = []string{"db1"} })
	for _, c := range []struct {
		host   string
		local  bool
		status int
	}{
		{"evil.example", true, 403},
		{"evil.example:7480", true, 403},
		{"localhost.evil.example", true, 403},
		{"127.0.0.1.evil.example:7480", true, 403},
		{"10.0.0.1:7480", true, 403},
		{"0.0.0.0:7480", true, 403},
		{"db1.elsewhere", true, 403},
		{"db1", true, 201},
		{"DB1.:7480", true, 201},
		{"localhost", true, 201},
		{"LocalHost.:7480", true, 201},
		{"127.0.0.1:7480", true, 201},
		{"127.0.1.1", true, 201},
		{"[::1]:7480", true, 201},
		{"[::1]", true, 201},
		{"gateway.example", false, 201},
	} {
		f.srv.opt.Local = c.local
		f.db.Expire("l")
		for path, good := range map[string]int{"PUT /v1/locks/l": 201, "GET /v1/locks": 200, "GET /readyz": 200, "GET /metrics": 200} {
			want := good
			if c.status == 403 {
				want = 403
			}
			got, _ := f.dial().send("%s HTTP/1.1\r\nHost: %s\r\nOrigin: http://%s\r\n\r\n", path, c.host, c.host).status()
			if got != want {
				t.Errorf("%s of host %s: %d, want %d", path, c.host, got, want)
			}
		}
	}
}

func TestCrossOrigin(t *testing.T) {
	f := newFixture(t, nil)
	req, _ := http.NewRequest("POST", f.http.URL+"/v1/locks/l/renew", strings.NewReader("{}"))
	req.Header.Set("Origin", "http://elsewhere.example")
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 403 {
		t.Errorf("status %d", resp.StatusCode)
	}
}

func TestMetrics(t *testing.T) {
	f := newFixture(t, nil)
	f.want("PUT", "/v1/locks/l", "", 201, "")
	f.want("PUT", "/v1/locks/l", "", 409, "held")
	a := f.want("GET", "/metrics", "", 200, "")
	for _, line := range []string{`le_gateway_http_requests_total{code="201",op="acquire"} 1`,
		`le_gateway_http_requests_total{code="409",op="acquire"} 1`, `le_gateway_held_locks 1`} {
		if !strings.Contains(a.raw, line) {
			t.Errorf("no %s in the metrics", line)
		}
	}
}

// The description lists every problem type, and no others.
func TestProblemTypesAreDescribed(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData(gateway.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	listed := make(map[string]bool)
	for _, v := range doc.Components.Schemas["Problem"].Value.Properties["type"].Value.Enum {
		listed[strings.TrimPrefix(v.(string), urn)] = true
	}
	for k := range kinds {
		if !listed[k] {
			t.Errorf("%s is not described", k)
		}
	}
	if len(listed) != len(kinds) {
		t.Errorf("%d types described, %d exist", len(listed), len(kinds))
	}
}

// A resource answers an unknown method with its own methods, for all
// operations.
func TestAllow(t *testing.T) {
	f := newFixture(t, nil)
	for path, allow := range map[string]string{
		"/v1/locks":                      "GET",
		"/v1/acquire":                    "POST",
		"/v1/renew":                      "POST",
		"/v1/release":                    "POST",
		"/v1/read":                       "POST",
		"/v1/locks/a":                    "DELETE, GET, PUT",
		"/v1/locks/a/b":                  "DELETE, GET, PUT",
		"/v1/locks/a%2Frenew":            "DELETE, GET, PUT",
		"/v1/locks/a/renew":              "POST",
		"/v1/locks/a/claims":             "GET",
		"/v1/locks/a/claims/j":           "GET, POST",
		"/v1/locks/a/claims/j/complete":  "POST",
		"/v1/locks/a/b/claims/renew":     "GET, POST",
		"/v1/locks/a/b/claims/a%2Frenew": "GET, POST",
		"/healthz":                       "GET, HEAD",
		"/metrics":                       "GET, HEAD",
	} {
		for _, method := range []string{"GET", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "LOCK"} {
			if slices.Contains(strings.Split(allow, ", "), method) {
				continue
			}
			if a := f.want(method, path, "", 405, "method"); a.header.Get("Allow") != allow {
				t.Errorf("%s %s: Allow %q, want %q", method, path, a.header.Get("Allow"), allow)
			}
		}
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		method, path string
		want         route
	}{
		{"PUT", "/v1/locks/a/b", route{opAcquire, "a/b", ""}},
		{"PUT", "/v1/locks/a%2fb", route{opAcquire, "a/b", ""}},
		{"PUT", "/v1/locks/a%2Frenew", route{opAcquire, "a/renew", ""}},
		{"POST", "/v1/locks/a/claims/renew", route{opClaim, "a", "renew"}},
		{"POST", "/v1/locks/a/renew/renew", route{opRenew, "a/renew", ""}},
		{"POST", "/v1/locks/a%2Frenew/renew", route{opRenew, "a/renew", ""}},
		{"GET", "/v1/locks/a%2Fclaims", route{opGet, "a/claims", ""}},
		{"GET", "/v1/locks/claims", route{opGet, "claims", ""}},
		{"GET", "/v1/locks/a/claims", route{opClaims, "a", ""}},
		{"GET", "/v1/locks/a/b/claims/j", route{opGetClaim, "a/b", "j"}},
		{"GET", "/v1/locks/a?wait=1s", route{opWait, "a", ""}},
		{"POST", "/v1/locks/a/claims/complete", route{opClaim, "a", "complete"}},
		{"POST", "/v1/locks/a/claims/j/complete", route{opComplete, "a", "j"}},
		{"POST", "/v1/locks/a/claims/x%2Fy", route{opClaim, "a", "x/y"}},
		{"POST", "/v1/renew", route{opBatch, "", ""}},
		{"POST", "/v1/acquire", route{opAcquireMany, "", ""}},
		{"POST", "/v1/release", route{opReleaseMany, "", ""}},
		{"POST", "/v1/read", route{opGetMany, "", ""}},
		{"PUT", "/v1/locks/v1/acquire", route{opAcquire, "v1/acquire", ""}},
		{"GET", "/v1/locks", route{opList, "", ""}},
	} {
		u, _ := url.Parse(c.path)
		if got, err := match(c.method, u); err != nil || got != c.want {
			t.Errorf("%s %s: %+v, %v", c.method, c.path, got, err)
		}
	}
}
