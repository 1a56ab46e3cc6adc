package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// TestOneNode covers everything that needs no faults, on one node.
func TestOneNode(t *testing.T) {
	cluster(t, "start", "1")
	refused, err := schema(t, "--replication", "datacenter1=1", "--apply")
	if err == nil || !strings.Contains(refused, "no majority is left") {
		t.Fatalf("a keyspace that does not survive a node was not refused: %s", refused)
	}
	for _, variant := range []string{"v2", "v1"} {
		t.Run(variant, func(t *testing.T) {
			cluster(t, "paxos", variant)
			ks := "one_" + variant
			keyspace(t, ks, 1)
			g := start(t, ks)
			if !strings.Contains(g.log.String(), "does not survive") {
				t.Error("no warning about the replication")
			}
			g.warm(t)
			// a hundred at once beside all others may overload a node
			t.Run("batch", func(t *testing.T) { batch(t, g) })
			for _, c := range []struct {
				name string
				run  func(*testing.T, *proc, string)
			}{
				{"curl", curlShape}, {"recipe of 2014", recipe2014}, {"late duplicates", lateDuplicates},
				{"expiry", expiry}, {"waiting", waiting}, {"list", list}, {"claims", claims},
				{"hidden by a foreign write", foreignWrite}, {"token survives", tokenSurvives}, {"names", names},
				{"statements", statements}, {"model", model},
			} {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.run(t, g, ks)
				})
			}
		})
	}
	t.Run("schema check", schemaCheck)
	t.Run("graceful shutdown", gracefulShutdown)
	if long {
		t.Run("latency", latency)
	}
}

// statements runs the test of the bare statements, which is in their package.
func statements(t *testing.T, _ *proc, ks string) {
	cmd := exec.Command(os.Getenv("STATEMENTS"), "-test.run", "TestStatements", "-test.v")
	cmd.Env = append(os.Environ(), "STATEMENTS_HOSTS="+strings.Join(nodes(t), ","), "STATEMENTS_KEYSPACE="+ks)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestStatements") {
		t.Errorf("%v\n%s", err, out)
	}
}

// curlShape is the plain REST shape with curl alone: first PUT 201, second
// 409, after the TTL 201 again.
func curlShape(t *testing.T, g *proc, _ string) {
	curl := func(args ...string) string {
		out, err := exec.Command("curl", append([]string{"-s", "-o", "/dev/null", "-w", "%{http_code}"}, args...)...).Output()
		must(t, err)
		return string(out)
	}
	u := g.url + "/v1/locks/my_lock"
	if a, b := curl("-X", "PUT", u), curl("-X", "PUT", u); a != "201" || b != "409" {
		t.Errorf("without a body: %s, then %s", a, b)
	}
	u = g.url + "/v1/locks/my_lock_5"
	begin := time.Now()
	if a, b := curl("-X", "PUT", u, "-d", `{"ttl": 5}`), curl("-X", "PUT", u, "-d", `{"ttl": 5}`); a != "201" || b != "409" {
		t.Errorf("with a TTL: %s, then %s", a, b)
	}
	until(t, "201 after the TTL", func() bool { return curl("-X", "PUT", u, "-d", `{"ttl": 5}`) == "201" })
	if took := time.Since(begin); took < 4*time.Second || took > 7*time.Second {
		t.Errorf("the lock was free again after %v", took)
	}
	if s := curl(u); s != "200" {
		t.Errorf("GET answers %s", s)
	}
}

// recipe2014: renewing only the owner, as the well-known recipe does, loses
// the value after the first TTL. The gateway does not.
func recipe2014(t *testing.T, g *proc, ks string) {
	s := session(t, nodes(t)[0])
	table := ks + ".recipe"
	must(t, s.Query("CREATE TABLE "+table+" (name text PRIMARY KEY, owner text, value text) WITH default_time_to_live = 5").Exec())
	applied, err := s.Query("INSERT INTO " + table + " (name, owner, value) VALUES ('l', 'me', 'v') IF NOT EXISTS").MapScanCAS(m{})
	if err != nil || !applied {
		t.Fatal(applied, err)
	}
	ours := expect(t, 201, "")(g.put("recipe", "me", "a", 5))
	begin := ours.sent
	var owner, value *string
	until(t, "two TTLs, and the end of the recipe's value", func() bool {
		if applied, err = s.Query("UPDATE " + table + " SET owner = 'me' WHERE name = 'l' IF owner = 'me'").MapScanCAS(m{}); err != nil || !applied {
			t.Fatal("the recipe's renewal failed", err)
		}
		ours = expect(t, 200, "")(g.renew("recipe", ours, 5))
		must(t, s.Query("SELECT owner, value FROM "+table+" WHERE name = 'l'").Consistency(gocql.Serial).Scan(&owner, &value))
		return value == nil && ours.sent.Sub(begin) > 11*time.Second
	})
	if owner == nil {
		t.Error("the recipe should have kept the owner")
	}
	now := expect(t, 200, "")(g.get("recipe", ""))
	if now.Owner != "me" || now.Value != "of me" || now.Token != 1 || now.Rev != ours.Rev {
		t.Errorf("after two TTLs: %s", now.raw)
	}
}

// lateDuplicates: each request once more, after the next term began.
func lateDuplicates(t *testing.T, g *proc, _ string) {
	a := expect(t, 201, "")(g.put("dup", "a", "a1", 10))
	expect(t, 201, "")(g.claim("dup", "job", a, "c1", "", ""))
	a2 := expect(t, 200, "")(g.renew("dup", a, 10))
	expect(t, 409, "stale-revision")(g.release("dup", a)) // also refused within the term
	a3 := expect(t, 200, "")(g.renew("dup", a2, 10))
	if l := expect(t, 409, "stale-revision")(g.renew("dup", a, 60)); l.Rev != a3.Rev {
		t.Errorf("%s", l.raw)
	}
	expect(t, 204, "")(g.release("dup", a3))
	expect(t, 404, "free")(g.release("dup", a3))
	denied(t, 409, "claim-refused")(g.claim("dup", "job", a, "c2", "c1", "running"))
	b := expect(t, 201, "")(g.put("dup", "b", "b1", 10))
	higher(t, a.Token, b.Token, "after a release")
	expect(t, 201, "")(g.claim("dup", "job", b, "c2", "c1", "running"))
	expect(t, 409, "held")(g.put("dup", "a", "a1", 10))
	denied(t, 409, "lost")(g.renew("dup", a2, 10))
	denied(t, 409, "lost")(g.renew("dup", a3, 10))
	denied(t, 409, "not-yours")(g.release("dup", a))
	denied(t, 409, "not-yours")(g.release("dup", a3))
	denied(t, 409, "claim-refused")(g.claim("dup", "job", a, "c1", "", ""))
	denied(t, 409, "claim-refused")(g.claim("dup", "job", a, "c9", "c2", "running"))
	expect(t, 409, "claim-refused")(g.complete("dup", "job", "c1", "done"))
	now := expect(t, 200, "")(g.get("dup", ""))
	if now.Owner != "b" || now.Token != b.Token || now.Rev != 1 {
		never(t, "the duplicates changed the lock: %s", now.raw)
	}
	// The same owner again, at the same revision: only the token differs.
	expect(t, 204, "")(g.release("dup", b))
	c := expect(t, 201, "")(g.put("dup", "a", "a2", 10))
	expect(t, 409, "held")(g.put("dup", "a", "a1", 10))
	denied(t, 409, "lost")(g.renew("dup", a, 10))
	denied(t, 409, "not-yours")(g.release("dup", a))
	denied(t, 409, "claim-refused")(g.claim("dup", "job", a, "c9", "c2", "running"))
	if now := expect(t, 200, "")(g.get("dup", "")); now.Token != c.Token || now.Rev != 1 {
		never(t, "the duplicates changed the lock: %s", now.raw)
	}
}

// slack is the extra time allowed on a busy machine, in transactions at its
// present speed.
const slack = 5

// expiry: no client gets in while the holder believes, one does after the TTL,
// and the old holder is told.
func expiry(t *testing.T, g *proc, _ string) {
	a := expect(t, 201, "")(g.put("exp", "a", "a1", "5500ms")) // rounded up to 6
	if a.TrustMS != 3000 || a.ExpiresMS > 6000 {
		t.Errorf("%s", a.raw)
	}
	first := expect(t, 409, "held")(g.put("exp", "b", "b0", 6))
	left, err := strconv.Atoi(first.RetryAfter)
	if err != nil || left < 5-int(time.Since(a.sent).Seconds()) || left > 6 || first.Value != "of a" {
		t.Errorf("Retry-After %s: %s", first.RetryAfter, first.raw)
	}
	a = expect(t, 200, "")(g.renew("exp", a, 6))
	again := expect(t, 200, "")(g.renew("exp", lock{Owner: "a", Token: a.Token, Rev: 1}, 6))
	if again.Rev != 2 || again.TrustMS > 3000 {
		t.Errorf("a repeated renewal got %s", again.raw)
	}
	var b lock
	var request time.Duration
	until(t, "takeover", func() bool {
		var err error
		begin := time.Now()
		b, err = g.put("exp", "b", "b1", 6)
		request = time.Since(begin)
		must(t, err)
		return b.Status == 201
	})
	if took := time.Since(a.sent); took < 5*time.Second || took > 6500*time.Millisecond+slack*request {
		t.Errorf("taken over %v after the renewal for 6 s, by a request of %v", took, request)
	}
	if time.Now().Before(a.until()) {
		never(t, "taken over %v before the end of belief", time.Until(a.until()))
	}
	higher(t, a.Token, b.Token, "taken over")
	denied(t, 409, "lost")(g.renew("exp", a, 6))
}

// waiting: a change made through the same gateway answers at once, one made
// through another within a second; a renewal does not answer at all.
func waiting(t *testing.T, g *proc, ks string) {
	other := start(t, ks)
	a := expect(t, 201, "")(g.put("wait", "a", "a1", 60))
	wait := func(query string, limit time.Duration, do func()) lock {
		t.Helper()
		var got lock
		var err error
		var took time.Duration
		var all sync.WaitGroup
		all.Go(func() { got, err = g.get("wait", query) })
		g.waiter(t, "wait")
		begin := time.Now()
		do()
		change := time.Since(begin)
		all.Wait()
		took = time.Since(begin) - change
		must(t, err)
		if took > limit+slack*change {
			t.Errorf("GET %s answered %v after the change, which took %v", query, took, change)
		}
		t.Logf("GET %s answered after %v", query, took)
		return got
	}
	query := func() string { return fmt.Sprintf("?wait=30s&token=%d&rev=%d", a.Token, a.Rev) }
	publish := func(p *proc, value string) {
		a = expect(t, 200, "")(send(p.url, "POST", "/v1/locks/wait/renew", m{"owner": "a", "token": a.Token, "rev": a.Rev, "value": value, "ttl": 60}))
	}
	if l := wait(query(), 300*time.Millisecond, func() { publish(g, "x") }); l.Value != "x" {
		t.Errorf("%s", l.raw)
	}
	if l := wait(query(), time.Second, func() { publish(other, "y") }); l.Value != "y" {
		t.Errorf("%s", l.raw)
	}
	begin := time.Now()
	wait("?wait=3s", 3500*time.Millisecond, func() { a = expect(t, 200, "")(other.renew("wait", a, 60)) })
	if time.Since(begin) < 2900*time.Millisecond {
		t.Error("a mere renewal woke the waiter")
	}
	if l := wait("?wait=30s", time.Second, func() { expect(t, 204, "")(other.release("wait", a)) }); l.problem() != "free" {
		t.Errorf("%s", l.raw)
	}
	free := fmt.Sprintf("?wait=30s&token=%d&rev=0", a.Token)
	if l := wait(free, time.Second, func() { a = expect(t, 201, "")(other.put("wait", "b", "b1", 60)) }); l.Owner != "b" {
		t.Errorf("%s", l.raw)
	}
	if l := wait(query(), 300*time.Millisecond, func() { expect(t, 204, "")(g.release("wait", a)) }); l.problem() != "free" {
		t.Errorf("%s", l.raw)
	}
}

func list(t *testing.T, g *proc, _ string) {
	for i := range 30 {
		expect(t, 201, "")(g.put(fmt.Sprintf("list/%02d", i), "o", "a", 60))
	}
	expect(t, 204, "")(g.release("list/00", lock{Owner: "o", Token: 1, Rev: 1}))
	pages := func(query string) (names int, calls int) {
		next := ""
		for {
			r, err := http.Get(g.url + "/v1/locks?limit=7&prefix=list/" + query + next)
			must(t, err)
			var doc struct {
				Locks []struct {
					Name, Owner string
					Rev         int64
				}
				Next string
			}
			must(t, json.NewDecoder(r.Body).Decode(&doc))
			r.Body.Close()
			names, calls = names+len(doc.Locks), calls+1
			if doc.Next == "" {
				return names, calls
			}
			next = "&page=" + doc.Next
		}
	}
	if n, calls := pages(""); n != 29 || calls < 5 {
		t.Errorf("%d locks in %d pages", n, calls)
	}
	if n, _ := pages("&free=true"); n != 30 {
		t.Errorf("%d locks with free ones", n)
	}
	expect(t, 400, "bad-request")(send(g.url, "GET", "/v1/locks?page=bm9uc2Vuc2U", nil))
}

func claims(t *testing.T, g *proc, _ string) {
	denied(t, 409, "claim-refused")(g.claim("cl", "j", lock{Owner: "a", Token: 1}, "c0", "", "")) // no such lock
	a := expect(t, 201, "")(g.put("cl", "a", "a1", 30))
	expect(t, 404, "no-claim")(send(g.url, "GET", "/v1/locks/cl/claims/j", nil))
	if l := expect(t, 200, "")(send(g.url, "GET", "/v1/locks/cl/claims", nil)); !strings.Contains(l.raw, `"claims":[]`) {
		t.Errorf("claims of a lock without jobs: %s", l.raw)
	}
	denied(t, 409, "claim-refused")(g.claim("cl", "j", lock{Owner: "b", Token: a.Token}, "c0", "", ""))
	denied(t, 409, "claim-refused")(g.claim("cl", "j", lock{Owner: "a", Token: a.Token + 1}, "c0", "", ""))
	expect(t, 201, "")(g.claim("cl", "j", a, "c1", "", ""))
	expect(t, 200, "")(g.claim("cl", "j", a, "c1", "", ""))
	if l := denied(t, 409, "claim-refused")(g.claim("cl", "j", a, "c2", "", "")); !strings.Contains(string(l.Claim), `"claim":"c1"`) {
		t.Errorf("the refusal does not show the present claim: %s", l.raw)
	}
	expect(t, 200, "")(g.complete("cl", "j", "c1", "done"))
	expect(t, 200, "")(g.complete("cl", "j", "c1", "done"))
	expect(t, 409, "claim-refused")(g.complete("cl", "j", "c1", "failed"))
	denied(t, 409, "claim-refused")(g.claim("cl", "j", a, "c2", "c1", "running")) // done stays done
	expect(t, 201, "")(g.claim("cl", "j", a, "c2", "c1", "done"))
	expect(t, 204, "")(g.release("cl", a))
	denied(t, 409, "claim-refused")(g.claim("cl", "j", a, "c3", "c2", "running"))
	expect(t, 200, "")(g.complete("cl", "j", "c2", "failed")) // work done before the loss
	b := expect(t, 201, "")(g.put("cl", "b", "b1", 30))
	// One of many claims for a tick wins.
	won := make(chan string, 16)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			id := fmt.Sprint("many", i)
			if l, err := g.claim("cl", "j", b, id, "c2", "failed"); err == nil && l.Status/100 == 2 {
				won <- id
			}
		})
	}
	all.Wait()
	if len(won) > 1 {
		never(t, "%d claims won", len(won))
	} else if len(won) != 1 {
		t.Error("no claim won")
	}
}

// foreignWrite: an unconditional foreign write of a row, with a timestamp in
// the future, hides the gateway's writes. That must never become leadership.
func foreignWrite(t *testing.T, g *proc, ks string) {
	s := session(t, nodes(t)[0])
	future := time.Now().Add(240 * time.Hour).UnixMicro()
	must(t, s.Query("UPDATE "+ks+".leases USING TIMESTAMP ? SET epoch = 5 WHERE name = 'foreign'", future).Exec())
	for range 2 {
		denied(t, 503, "unknown")(g.put("foreign", "a", "a1", 10))
	}
}

func tokenSurvives(t *testing.T, g *proc, ks string) {
	s := session(t, nodes(t)[0])
	a := expect(t, 201, "")(g.put("survive", "a", "a1", 60))
	expect(t, 204, "")(g.release("survive", a))
	cluster(t, "flush", ks)
	cluster(t, "compact", ks)
	b := expect(t, 201, "")(g.put("survive", "b", "b1", 60))
	higher(t, a.Token, b.Token, "after flush and compaction")
	// After a TRUNCATE, or a restore, the caller's highest token keeps the
	// order.
	gone := ks + "_truncated"
	keyspace(t, gone, 1)
	other := start(t, gone)
	last := int64(0)
	for i := range 3 {
		b = expect(t, 201, "")(other.put("l", "b", fmt.Sprint(i), 60))
		higher(t, last, b.Token, "from nothing")
		last = b.Token
		expect(t, 204, "")(other.release("l", b))
	}
	must(t, s.Query("TRUNCATE "+gone+".leases").Exec())
	c := expect(t, 201, "")(send(other.url, "PUT", "/v1/locks/l", m{"owner": "c", "min_token": b.Token}))
	higher(t, b.Token, c.Token, "after a TRUNCATE")
	expect(t, 422, "token-jump")(send(g.url, "PUT", "/v1/locks/jump", m{"min_token": int64(1) << 40}))
	expect(t, 422, "token-jump")(send(g.url, "PUT", "/v1/locks/jump", m{"min_token": int64(1) << 53}))
	l := expect(t, 201, "")(send(g.url, "PUT", "/v1/locks/jump", m{"min_token": int64(1)<<40 - 1}))
	higher(t, 1<<40-1, l.Token, "by min_token")
}

func names(t *testing.T, g *proc, _ string) {
	a := expect(t, 201, "")(send(g.url, "PUT", "/v1/locks/n/a/m%2Fe", m{"owner": "o"}))
	for _, path := range []string{"n/a/m/e", "n%2Fa%2Fm%2Fe", "n%2fa/m/e"} {
		if l := expect(t, 200, "")(send(g.url, "GET", "/v1/locks/"+path, nil)); l.Token != a.Token {
			t.Errorf("%s is another lock", path)
		}
	}
	// now_in_seconds and timestamps cannot be reached.
	for _, field := range []string{"now_in_seconds", "timestamp", "serial_consistency"} {
		expect(t, 400, "bad-request")(send(g.url, "PUT", "/v1/locks/n", m{field: 1}))
	}
	expect(t, 400, "bad-name")(send(g.url, "PUT", "/v1/locks/n//x", nil))
}

// result is the outcome for one lock of a batch.
type result struct {
	Name   string
	Status int
	Lock   *lock
}

func results(t *testing.T, g *proc, path string, body m) []result {
	t.Helper()
	l := expect(t, 200, "")(send(g.url, "POST", path, body))
	var doc struct{ Results []result }
	must(t, json.Unmarshal([]byte(l.raw), &doc))
	if len(doc.Results) != len(body["locks"].([]m)) {
		t.Fatalf("%s: %d results", path, len(doc.Results))
	}
	return doc.Results
}

// warmBatch has a node work until it can acquire a hundred locks at once within
// the time the gateway gives it; warm does so for one after the other.
func warmBatch(t *testing.T, g *proc) {
	round := 0
	until(t, "a hundred locks at once", func() bool {
		var locks []m
		for i := range 100 {
			locks = append(locks, m{"name": fmt.Sprintf("warm/%d/%03d", round, i), "attempt": "a"})
		}
		round++
		return !slices.ContainsFunc(results(t, g, "/v1/acquire", m{"owner": "w", "ttl": 5, "locks": locks}),
			func(r result) bool { return r.Status != 201 })
	})
	t.Logf("a hundred locks at once: %d tries", round)
}

// batch takes a hundred locks at once through a term: acquired, asked for once
// more, renewed, read, released. Another client holds one of them, and one is
// named at another token.
func batch(t *testing.T, g *proc) {
	warmBatch(t, g)
	var acquires, terms, names []m
	for i := range 100 {
		name := fmt.Sprintf("batch/%03d", i)
		acquires = append(acquires, m{"name": name, "attempt": "a", "value": "old"})
		terms = append(terms, m{"name": name, "token": 1, "rev": 1, "value": "new"})
		names = append(names, m{"name": name})
	}
	expect(t, 201, "")(g.put("batch/007", "other", "a", 60))
	terms[50]["token"] = 2
	check := func(path string, body m, fine func(int, result) bool) {
		t.Helper()
		for i, r := range results(t, g, path, body) {
			if want := names[i]["name"]; r.Name != want || !fine(i, r) {
				t.Errorf("%s: result %d: %+v %+v", path, i, r, r.Lock)
			}
		}
	}
	acquire := m{"owner": "o", "ttl": 60, "locks": acquires}
	check("/v1/acquire", acquire, func(i int, r result) bool {
		return i == 7 && r.Status == 409 ||
			i != 7 && r.Status == 201 && r.Lock.Token == 1 && r.Lock.Value == "old" && r.Lock.TrustMS == 57000
	})
	check("/v1/acquire", acquire, func(i int, r result) bool {
		return i == 7 && r.Status == 409 || i != 7 && r.Status == 200 && r.Lock.Token == 1 && r.Lock.TrustMS <= 57000
	})
	check("/v1/renew", m{"owner": "o", "ttl": 60, "locks": terms}, func(i int, r result) bool {
		return (i == 7 || i == 50) && r.Status == 409 ||
			r.Status == 200 && r.Lock.Rev == 2 && r.Lock.Value == "new" && r.Lock.TrustMS == 57000
	})
	check("/v1/read", m{"locks": names}, func(i int, r result) bool {
		return r.Status == 200 && (r.Lock.Owner == "other") == (i == 7) && (r.Lock.Rev == 1) == (i == 7 || i == 50)
	})
	for i, term := range terms {
		delete(term, "value")
		term["token"], term["rev"] = 1, 2
		if i == 50 {
			term["rev"] = 1
		}
	}
	terms[60]["rev"] = 3
	check("/v1/release", m{"owner": "o", "locks": terms}, func(i int, r result) bool {
		return (i == 7 || i == 60) && r.Status == 409 || i != 7 && i != 60 && r.Status == 204
	})
	check("/v1/read", m{"locks": names}, func(i int, r result) bool {
		return (i == 7 || i == 60) && r.Status == 200 || i != 7 && i != 60 && r.Status == 404
	})
}

// schemaCheck: a gateway does not serve on a table that would break tokens.
func schemaCheck(t *testing.T) {
	s := session(t, nodes(t)[0])
	refusal := func(ks string) string {
		g := launch(t, "http", "--hosts", nodes(t)[0], "--keyspace", ks)
		var why string
		until(t, "reason in readyz", func() bool {
			l, err := send(g.url, "GET", "/readyz", nil)
			why = l.Detail
			return err == nil && l.Status == 503 && !strings.Contains(why, "not connected")
		})
		l := expect(t, 503, "not-applied")(g.put("x", "o", "a", 60))
		if l.Outcome != "not-applied" {
			t.Errorf("%s", l.raw)
		}
		return why
	}
	if why := refusal("missing"); !strings.Contains(why, "le-gateway schema --apply") {
		t.Errorf("missing table: %s", why)
	}
	keyspace(t, "broken", 1)
	for change, word := range map[string]string{"default_time_to_live = 600": "default_time_to_live", "gc_grace_seconds = 600": "gc_grace_seconds"} {
		must(t, s.Query("ALTER TABLE broken.leases WITH "+change).Exec())
		if why := refusal("broken"); !strings.Contains(why, word) {
			t.Errorf("%s: %s", change, why)
		}
		must(t, s.Query("ALTER TABLE broken.leases WITH default_time_to_live = 0 AND gc_grace_seconds = 864000").Exec())
	}
	served := start(t, "broken")
	expect(t, 201, "")(served.put("y", "o", "a", 60))
	must(t, s.Query("ALTER TABLE broken.leases WITH gc_grace_seconds = 600").Exec())
	var l lock
	until(t, "refusal after the ALTER", func() bool {
		var err error
		l, err = served.put("z", "o", "a", 60)
		return err == nil && l.Status == 503
	})
	if !strings.Contains(l.Detail, "gc_grace_seconds") || l.Outcome != "not-applied" {
		t.Errorf("after an ALTER: %s", l.raw)
	}
	must(t, s.Query("ALTER TABLE broken.leases WITH gc_grace_seconds = 864000").Exec())
	until(t, "service with the schema right again", func() bool {
		l, err := served.put("z", "o", "a", 60)
		return err == nil && l.Status == 201
	})
	must(t, s.Query("ALTER TABLE broken.leases DROP info").Exec())
	if why := refusal("broken"); !strings.Contains(why, "column info should be text") {
		t.Errorf("a column is missing: %s", why)
	}
}

// gracefulShutdown: requests under way finish, long polls answer, the process
// ends with 0.
func gracefulShutdown(t *testing.T) {
	keyspace(t, "stop", 1)
	g := start(t, "stop")
	a := expect(t, 201, "")(g.put("stop", "a", "a1", 60))
	var all sync.WaitGroup
	var l lock
	var err error
	all.Go(func() { l, err = g.get("stop", fmt.Sprintf("?wait=60s&token=%d&rev=1", a.Token)) })
	g.waiter(t, "stop")
	begin := time.Now()
	g.signal(syscall.SIGTERM)
	all.Wait()
	if err != nil || l.Status != 200 {
		t.Errorf("the long poll got %d, %v", l.Status, err)
	}
	select {
	case <-g.done:
	case <-time.After(10 * time.Second):
		t.Fatal("the gateway does not end")
	}
	if code := g.cmd.ProcessState.ExitCode(); code != 0 || time.Since(begin) > 5*time.Second {
		t.Errorf("exit code %d after %v", code, time.Since(begin))
	}
}
