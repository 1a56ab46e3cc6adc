package gateway_test

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// TestThreeNodes covers everything that needs a majority that can be lost.
func TestThreeNodes(t *testing.T) {
	cluster(t, "start", "3")
	s := session(t, nodes(t)[0])
	until(t, "three nodes up", func() bool {
		var n int
		return s.Query("SELECT count(*) FROM system.peers_v2").Scan(&n) == nil && n == 2
	})
	for _, variant := range pick([]string{"v2"}, []string{"v2", "v1"}) {
		t.Run(variant, func(t *testing.T) {
			cluster(t, "paxos", variant)
			ks := "three_" + variant
			keyspace(t, ks, 3)
			start(t, ks).warm(t)
			run := func(name string, test func(*testing.T, string)) {
				t.Run(name, func(t *testing.T) { test(t, ks) })
			}
			t.Run("together", func(t *testing.T) {
				for name, test := range map[string]func(*testing.T, string){
					"answers to clients lost": clientAnswersLost, "answers of Cassandra lost": storeAnswersLost,
					"gateway killed": gatewayKilled, "gateway paused": gatewayPaused,
					"clock within bounds": clockWithinBounds} {
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						test(t, ks)
					})
				}
			})
			run("clock out of bounds", clockOutOfBounds)
			run("clock an hour ahead", clockAnHourAhead)
			run("contenders", contenders)
			run("one node frozen", oneFrozen)
			run("two nodes frozen", twoFrozen)
			run("nodes killed", nodesKilled)
			if long && variant == "v2" {
				run("latency", func(t *testing.T, ks string) { measure(t, ks, 1000, 1000) })
			}
		})
	}
}

// clientAnswersLost: the answer to each kind of request is lost between
// gateway and client, and the request repeated. Its effect shows once.
func clientAnswersLost(t *testing.T, ks string) {
	g := start(t, ks)
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(g.url, "http://"))
	via := newProxy(t, "127.0.0.1:0", "127.0.0.1:"+port)
	far := &proc{url: "http://" + via.Listen}
	lost := func(done func() bool, request func(*proc) (lock, error)) (lock, error) {
		t.Helper()
		via.dropAnswers()
		failed := make(chan error, 1)
		go func() { _, err := request(far); failed <- err }()
		until(t, "effect of the request", done)
		via.passAnswers() // which closes the connection
		if err := <-failed; err == nil {
			t.Fatal("the answer was not lost")
		}
		return request(far)
	}
	stands := func(token, rev int64) func() bool {
		return func() bool { l, err := g.get("lost", ""); return err == nil && l.Token == token && l.Rev == rev }
	}
	claimed := func(state string) func() bool {
		return func() bool {
			l, err := send(g.url, "GET", "/v1/locks/lost/claims/j", nil)
			return err == nil && l.State == state
		}
	}
	a := expect(t, 200, "")(lost(stands(1, 1), func(p *proc) (lock, error) { return p.put("lost", "a", "a1", 60) }))
	if a.Token != 1 || a.TrustMS > 57000 {
		t.Errorf("%s", a.raw)
	}
	b := expect(t, 200, "")(lost(stands(1, 2), func(p *proc) (lock, error) { return p.renew("lost", a, 60) }))
	if b.Rev != 2 || b.TrustMS > 57000 {
		t.Errorf("%s", b.raw)
	}
	expect(t, 200, "")(lost(claimed("running"), func(p *proc) (lock, error) { return p.claim("lost", "j", a, "c1", "", "") }))
	expect(t, 200, "")(lost(claimed("done"), func(p *proc) (lock, error) { return p.complete("lost", "j", "c1", "done") }))
	expect(t, 404, "free")(lost(stands(1, 0), func(p *proc) (lock, error) { return p.release("lost", b) }))
	locks := []m{{"name": "lost", "token": 2, "rev": 1}}
	expect(t, 201, "")(g.put("lost", "a", "a2", 60))
	l := expect(t, 200, "")(lost(stands(2, 2), func(p *proc) (lock, error) {
		return send(p.url, "POST", "/v1/renew", m{"owner": "a", "ttl": 60, "locks": locks})
	}))
	if !strings.Contains(l.raw, `"status":200`) {
		t.Errorf("%s", l.raw)
	}
}

// storeAnswersLost: the gateway's statements arrive, the answers do not. The
// gateway's own answers must agree with the store itself, and repeating the
// request must settle it.
func storeAnswersLost(t *testing.T, ks string) {
	hosts := nodes(t)
	// An address of its own for the proxy: drivers know nodes by address.
	front := strings.TrimSuffix(hosts[0], ".1") + fmt.Sprintf(".%d", 100+len(ks)%50+int(proxyCount.Load()))
	via := newProxy(t, front+":9042", hosts[0]+":9042")
	g := pinned(t, ks, front)
	direct := start(t, ks)
	broken := func(request func() (lock, error)) lock {
		t.Helper()
		via.dropAnswers()
		l, err := request()
		via.passAnswers()
		must(t, err)
		g.ready(t)
		return l
	}
	// The driver needs a moment to connect again, and may fail once more while
	// it does. The same request, repeated, settles it.
	again := func(request func() (lock, error)) (l lock, err error) {
		until(t, "connection", func() bool {
			l, err = request()
			return err != nil || l.Status != 503
		})
		if l.Status == 201 {
			l.Status = 200
		}
		return l, err
	}
	// A statement that was sent must be called unknown; the driver may also
	// have been without a connection, and then it must say so.
	open := func(what string, l lock) {
		t.Helper()
		if l.Status != 503 || l.Outcome != "unknown" && !strings.HasPrefix(l.Detail, "not sent") {
			t.Errorf("%s: %s", what, l.raw)
		}
	}
	name := "store"
	// The acquire's first read gets no answer, so nothing was sent.
	l := broken(func() (lock, error) { return g.put(name, "a", "a1", 60) })
	if l.Status != 503 || l.Outcome != "not-applied" {
		t.Errorf("acquire: %s", l.raw)
	}
	expect(t, 404, "free")(direct.get(name, ""))
	a := expect(t, 200, "")(again(func() (lock, error) { return g.put(name, "a", "a1", 60) }))
	l = broken(func() (lock, error) { return g.renew(name, a, 60) })
	open("renew", l)
	now := expect(t, 200, "")(direct.get(name, ""))
	t.Logf("the unknown renewal left revision %d", now.Rev)
	a2 := expect(t, 200, "")(again(func() (lock, error) { return g.renew(name, a, 60) }))
	if a2.Rev != 2 || now.Rev == 2 && a2.TrustMS >= 57000 {
		t.Errorf("after the unknown renewal %s, repeated %s", now.raw, a2.raw)
	}
	l = broken(func() (lock, error) { return g.claim(name, "j", a2, "c1", "", "") })
	open("claim", l)
	expect(t, 200, "")(again(func() (lock, error) { return g.claim(name, "j", a2, "c1", "", "") }))
	l = broken(func() (lock, error) { return g.release(name, a2) })
	open("release", l)
	gone, err := again(func() (lock, error) { return g.release(name, a2) })
	if err != nil || gone.Status != 204 && gone.problem() != "free" {
		t.Errorf("repeated release: %s, %v", gone.raw, err)
	}
	expect(t, 404, "free")(direct.get(name, ""))
	// Answers lost for a moment only are resolved within the request.
	b := expect(t, 200, "")(again(func() (lock, error) { return g.put(name, "b", "b1", 60) }))
	via.dropAnswers()
	time.AfterFunc(700*time.Millisecond, via.passAnswers)
	l = expect(t, 200, "")(again(func() (lock, error) { return g.renew(name, b, 60) }))
	if l.Rev != 2 || l.TrustMS > 57000 {
		t.Errorf("a renewal resolved within the request: %s", l.raw)
	}
	if n := g.metric(t, `le_gateway_unknown_outcomes_total{op="renew"`); n < 1 {
		t.Error("no unknown outcome was counted")
	}
}

// gatewayKilled: a gateway dies between the transaction and its answer; the
// same attempt through another one tells the outcome.
func gatewayKilled(t *testing.T, ks string) {
	other := start(t, ks)
	for i := range pick(4, 40) {
		name := fmt.Sprint("killed-", i)
		g := start(t, ks)
		expect(t, 201, "")(g.put(name+"-before", "a", "a1", 60)) // statements are prepared now
		time.AfterFunc(time.Duration(4+4*(i%10))*time.Millisecond, func() { g.signal(syscall.SIGKILL) })
		first, err := g.put(name, "a", "a1", 60)
		again, err2 := other.put(name, "a", "a1", 60)
		must(t, err2)
		t.Logf("killed answer: %v %d, repeated: %d", err != nil, first.Status, again.Status)
		if again.Status != 200 && again.Status != 201 || again.Token != 1 {
			t.Errorf("repeated acquire: %s", again.raw)
		}
		if err == nil && (first.Status != 201 || again.Status != 200) {
			t.Errorf("first %s, again %s", first.raw, again.raw)
		}
	}
}

// gatewayPaused: a renewal that sat in a stopped gateway for longer than the
// TTL is refused when it wakes.
func gatewayPaused(t *testing.T, ks string) {
	g, other := start(t, ks), start(t, ks)
	a := expect(t, 201, "")(g.put("paused", "a", "a1", 5))
	g.signal(syscall.SIGSTOP)
	type reply struct {
		l   lock
		err error
	}
	got := make(chan reply, 1)
	go func() { l, err := g.renew("paused", a, 60); got <- reply{l, err} }()
	var b lock
	// The lease ends after 5 s by the clock of a node, and clockWithinBounds sets
	// one of them apart from the others meanwhile: 10 s by the test's clock.
	until(t, "takeover", func() bool {
		var err error
		b, err = other.put("paused", "b", "b1", 60)
		return err == nil && b.Status == 201
	})
	g.signal(syscall.SIGCONT)
	r := <-got
	if r.err == nil && r.l.Outcome == "unknown" { // it was stopped half way
		r.l, r.err = g.renew("paused", a, 60)
	}
	denied(t, 409, "lost")(r.l, r.err)
	now := expect(t, 200, "")(other.get("paused", ""))
	if now.Owner != "b" {
		never(t, "%s", now.raw)
	}
	higher(t, a.Token, now.Token, "taken over")
}

// setClock sets node 2 apart from the others, until the test ends at latest.
func setClock(t *testing.T, millis int) {
	t.Helper()
	cluster(t, "clock", "2", strconv.Itoa(millis))
	t.Cleanup(func() { cluster(t, "clock", "2", "0") })
}

// takeover holds a lock through one coordinator and takes it over through
// another; it returns how long before (negative) or after the end of the
// holder's belief the other got it.
func takeover(t *testing.T, ks string, holder, taker string, ttl int) time.Duration {
	t.Helper()
	a, b := pinned(t, ks, holder), pinned(t, ks, taker)
	name := fmt.Sprint("skew-", time.Now().UnixNano())
	held := expect(t, 201, "")(a.put(name, "a", "a1", ttl))
	var got time.Time
	until(t, "takeover", func() bool {
		l, err := b.put(name, "b", "b1", ttl)
		must(t, err)
		got = time.Now()
		return l.Status == 201
	})
	return got.Sub(held.until())
}

// clockWithinBounds: nodes whose clocks differ by less than max-clock-skew, in
// either direction, never let two holders believe.
func clockWithinBounds(t *testing.T, ks string) {
	h := nodes(t)
	for _, offset := range []int{1900, -1900} {
		setClock(t, offset)
		var all sync.WaitGroup
		for _, c := range [][2]string{{h[0], h[1]}, {h[1], h[0]}, {h[1], h[1]}} {
			all.Go(func() {
				after := takeover(t, ks, c[0], c[1], 6)
				t.Logf("node 2 %+d ms: lease written by %s, taken over through %s %v after the end of belief", offset, c[0], c[1], after)
				if after < 0 {
					never(t, "two believed for %v", -after)
				}
			})
		}
		all.Wait()
	}
}

// clockOutOfBounds shows the limit: a coordinator that is fast by more than
// max-clock-skew takes a lease over while its holder believes.
func clockOutOfBounds(t *testing.T, ks string) {
	h := nodes(t)
	setClock(t, 7500) // several requests' time before the end of belief
	after := takeover(t, ks, h[0], h[1], 12)
	t.Logf("node 2 +7500 ms: taken over %v after the end of belief", after)
	if after >= 0 {
		t.Error("no overlap: the test of the bound above proves nothing")
	}
}

// clockAnHourAhead: a clock that jumps ahead and back leaves ballots from the
// future behind; tokens still grow, and every acquire tells the truth.
func clockAnHourAhead(t *testing.T, ks string) {
	h := nodes(t)
	g1, g2 := pinned(t, ks, h[0]), pinned(t, ks, h[1])
	token := int64(0)
	term := func(g *proc, owner string) {
		t.Helper()
		a := expect(t, 201, "")(g.put("hour", owner, owner+strconv.FormatInt(token, 10), 60))
		if a.Token <= token {
			never(t, "token %d after %d", a.Token, token)
		}
		token = a.Token
		expect(t, 204, "")(g.release("hour", expect(t, 200, "")(g.renew("hour", a, 60))))
	}
	term(g1, "a")
	setClock(t, 3600000)
	until(t, "the jump", func() bool {
		a, err := g2.put("jump", "x", strconv.FormatInt(time.Now().UnixNano(), 10), 60)
		must(t, err)
		if a.Status != 201 { // written before the jump, read back after it
			return false
		}
		l := expect(t, 200, "")(g1.get("jump", ""))
		a, err = g2.release("jump", a)
		must(t, err)
		// 404: written before the jump, and long over when read after it
		return a.Status == 204 && l.ExpiresMS > 3600000
	})
	term(g2, "b")
	term(g1, "c")
	setClock(t, 0)
	try := 0
	until(t, "the way back", func() bool { // the jump's ballots stand in no new lock
		try++
		name := fmt.Sprint("back-", try)
		expect(t, 201, "")(g2.put(name, "x", "x1", 60))
		return expect(t, 200, "")(g1.get(name, "")).ExpiresMS <= 60000
	})
	term(g1, "d")
	term(g2, "e")
	restart(t, ks, "2") // or it numbers its rounds from there for an hour
}

// restart ends a node with kill -9 and starts it again.
func restart(t *testing.T, ks, node string) {
	t.Helper()
	cluster(t, "kill", node)
	startAgain(t, ks)
}

// startAgain starts the nodes that were killed, with the tested variant.
func startAgain(t *testing.T, ks string) {
	t.Helper()
	cluster(t, "start", "3")
	cluster(t, "paxos", ks[len(ks)-2:])
	allUp(t, ks)
}

// keep renews a term until told to stop, as a node does, and counts the
// results. The term must never be lost.
type keeper struct {
	t       testing.TB
	g       []*proc
	name    string
	ttl     int
	term    lock
	stop    chan struct{}
	done    sync.WaitGroup
	failed  int
	renewed atomic.Int64
	slowest time.Duration
	least   time.Duration             // smallest rest of belief at a renewal
	until   atomic.Pointer[time.Time] // the end of belief
}

func keep(t testing.TB, name string, term lock, ttl int, g ...*proc) *keeper {
	k := &keeper{t: t, g: g, name: name, ttl: ttl, term: term, stop: make(chan struct{}), least: time.Hour}
	end := term.until()
	k.until.Store(&end)
	k.done.Go(k.run)
	return k
}

func (k *keeper) run() {
	for i := 0; ; {
		select {
		case <-k.stop:
			return
		case <-time.After(time.Duration(k.ttl) * time.Second / 10):
		}
		l, err := k.g[i%len(k.g)].renew(k.name, k.term, k.ttl)
		k.slowest = max(k.slowest, time.Since(l.sent))
		if err != nil || l.Status == 503 {
			k.failed++
			i++ // as the extension does: the next gateway
			continue
		}
		if l.Status != 200 {
			if l.problem() == "lost" && time.Now().Before(*k.until.Load()) {
				never(k.t, "a believed term was lost: %s", l.raw)
			}
			k.t.Errorf("renewal of a live term: %d %s", l.Status, l.raw)
			return
		}
		k.least = min(k.least, time.Until(k.term.until()))
		k.term = l
		k.renewed.Add(1)
		if end := l.until(); end.After(*k.until.Load()) {
			k.until.Store(&end)
		}
	}
}

// rival judges another client's answer. Where the machine stood still the term
// may have run out, and be that client's; but not while the keeper believes.
func (k *keeper) rival(l lock, err error) {
	k.t.Helper()
	now := time.Now()
	if err == nil && l.Status/100 == 2 && now.Before(l.until()) && now.Before(*k.until.Load()) {
		never(k.t, "%s: two believe: %s", k.name, l.raw)
	}
	if err != nil || l.Status != 409 && l.Status != 503 {
		k.t.Errorf("contender: %d %v", l.Status, err)
	}
}

func (k *keeper) end() lock {
	close(k.stop)
	k.done.Wait()
	k.t.Logf("%s: revision %d, %d renewals failed, the slowest took %v, at least %v of belief left", k.name, k.term.Rev, k.failed,
		k.slowest.Round(time.Millisecond), k.least.Round(time.Millisecond))
	if k.least < 0 {
		k.t.Errorf("%s: belief ran out for %v", k.name, -k.least)
	}
	return k.term
}

// oneFrozen: with one of three nodes stopped, terms go on and no other client
// gets in.
func oneFrozen(t *testing.T, ks string) {
	g := start(t, ks)
	var keepers []*keeper
	for i := range 6 { // so that each node is the first choice of some
		name := fmt.Sprint("frozen-", i)
		keepers = append(keepers, keep(t, name, expect(t, 201, "")(g.put(name, "a", "a1", 15)), 15, g))
	}
	cluster(t, "freeze", "2")
	var before []int64
	for _, k := range keepers {
		before = append(before, k.renewed.Load())
	}
	until(t, "renewals of each term", func() bool {
		keepers[0].rival(g.put("frozen-0", "b", "b1", 15))
		for i, k := range keepers {
			if k.renewed.Load() < before[i]+pick[int64](4, 40) {
				return false
			}
		}
		return true
	})
	cluster(t, "thaw", "2")
	for _, k := range keepers {
		expect(t, 204, "")(g.release(k.name, k.end()))
	}
}

// twoFrozen: without a majority nothing is granted, every answer comes in
// time, and open requests are settled when the nodes are back.
func twoFrozen(t *testing.T, ks string) {
	g, other := start(t, ks), start(t, ks)
	a := expect(t, 201, "")(g.put("two", "a", "a1", 60))
	cluster(t, "freeze", "2")
	cluster(t, "freeze", "3")
	var all sync.WaitGroup
	check := func(what string, request func() (lock, error)) {
		all.Go(func() {
			l, err := request()
			took := time.Since(l.sent)
			if err != nil || l.Status != 503 || l.Outcome == "" || l.RetryAfter == "" || took > 5*time.Second {
				t.Errorf("%s: %d %s after %v, %v", what, l.Status, l.raw, took, err)
			}
			t.Logf("%s: %s after %v", what, l.Outcome, took.Round(time.Millisecond))
		})
	}
	check("acquire", func() (lock, error) { return g.put("two-new", "n", "n1", 60) })
	check("renew", func() (lock, error) { return g.renew("two", a, 60) })
	check("get", func() (lock, error) { return g.get("two", "") })
	check("ready", func() (lock, error) {
		for kept := time.Now().Add(time.Second); ; time.Sleep(50 * time.Millisecond) {
			// an answer from before is given again for a second
			if l, err := send(g.url, "GET", "/readyz", nil); err != nil || l.Status != 200 || time.Now().After(kept) {
				return l, err
			}
		}
	})
	all.Wait()
	cluster(t, "thaw", "2")
	cluster(t, "thaw", "3")
	// The same requests, repeated through another gateway, tell the outcome.
	settle := func(request func() (lock, error)) lock {
		t.Helper()
		var l lock
		until(t, "settled", func() bool {
			var err error
			l, err = request()
			return err == nil && l.Status != 503
		})
		return l
	}
	b := settle(func() (lock, error) { return other.renew("two", a, 60) })
	if b.Status != 200 || b.Token != a.Token || b.Rev != 2 {
		t.Errorf("renewal: %s", b.raw)
	}
	n := settle(func() (lock, error) { return other.put("two-new", "n", "n1", 60) })
	if n.Status/100 != 2 || n.Owner != "n" {
		t.Errorf("acquire: %s", n.raw)
	}
	g.ready(t)
	if l := expect(t, 409, "held")(g.put("two-new", "m", "m1", 60)); l.Token != n.Token {
		never(t, "two holders: %s and %s", n.raw, l.raw)
	}
	expect(t, 204, "")(other.release("two", b))
	expect(t, 204, "")(other.release("two-new", n))
}

// nodesKilled: kill -9 and restart, one node after the other (one only in the
// short profile of v1): the leader keeps its term.
func nodesKilled(t *testing.T, ks string) {
	g, other := start(t, ks), start(t, ks)
	k := keep(t, "killed", expect(t, 201, "")(g.put("killed", "a", "a1", 15)), 15, g, other)
	victims := []string{"3"}
	if long {
		victims = []string{"3", "2", "1"}
	}
	for _, v := range victims {
		cluster(t, "kill", v)
		rev := func() int64 { l, _ := other.get("killed", ""); return l.Rev }
		before := rev()
		until(t, "renewals without node "+v, func() bool { return rev() >= before+2 })
		k.rival(other.put("killed", "b", "b1", 15))
		startAgain(t, ks)
	}
	a := k.end()
	if a.Token != 1 {
		t.Errorf("the term changed: %s", a.raw)
	}
	expect(t, 204, "")(g.release("killed", a))
}

// allUp waits until every node answers a read that needs all three.
func allUp(t *testing.T, ks string) {
	t.Helper()
	for _, h := range nodes(t) {
		s := session(t, h)
		until(t, "all nodes see each other", func() bool {
			return s.Query("SELECT name FROM "+ks+".leases WHERE name = 'x'").Consistency(gocql.All).Exec() == nil
		})
	}
}
