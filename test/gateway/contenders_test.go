package gateway_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// term is one holding by its holder's belief, on the test's one clock.
type term struct {
	owner      string
	token      int64
	begin, end time.Time // belief's interval
}

// record is the contenders' view.
type record struct {
	mu       sync.Mutex
	terms    []term
	unknown  int // answers that were unknown, or lost
	settled  int // those settled by repeating the request
	refused  int
	renewals sample
}

func (r *record) add(t term) { r.mu.Lock(); r.terms = append(r.terms, t); r.mu.Unlock() }
func (r *record) count(n *int) {
	r.mu.Lock()
	*n++
	r.mu.Unlock()
}

// contenders: 50 contend for one lock over three gateways. One gateway's way
// to Cassandra and another's way to its clients lose answers now and then.
// Beliefs never overlap, tokens strictly increase, every unknown outcome is
// settled.
func contenders(t *testing.T, ks string) {
	span := pick(15*time.Second, 5*time.Minute)
	if strings.HasSuffix(ks, "v2") {
		span = pick(time.Minute, 10*time.Minute)
	}
	hosts := nodes(t)
	front := strings.TrimSuffix(hosts[0], ".1") + ".200"
	store := newProxy(t, front+":9042", hosts[1]+":9042")
	gateways := []*proc{start(t, ks), start(t, ks), pinned(t, ks, front)}
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(gateways[1].url, "http://"))
	http := newProxy(t, "127.0.0.1:0", "127.0.0.1:"+port)
	ways := []*proc{gateways[0], {url: "http://" + http.Listen}, gateways[2]}

	r := &record{}
	end := time.Now().Add(span)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() { contend(t, r, ways, i, end) })
	}
	all.Go(func() {
		for time.Until(end) > 3*time.Second {
			for _, p := range []*proxy{store, http} {
				p.dropAnswers()
				time.Sleep(time.Duration(100+rand.IntN(300)) * time.Millisecond)
				p.passAnswers()
				time.Sleep(time.Duration(1000+rand.IntN(1000)) * time.Millisecond)
			}
		}
	})
	all.Wait()
	r.judge(t)
	for i, g := range gateways {
		t.Logf("gateway %d: unknown outcomes %v (unresolved %v), contention %v", i,
			g.metric(t, "le_gateway_unknown_outcomes_total"), g.metric(t, `le_gateway_unknown_outcomes_total{op="acquire",resolved="unresolved"}`),
			g.metric(t, "le_gateway_contention_total"))
	}
}

// contend is one contender. It repeats an acquire of unknown outcome, or
// without an answer, with the same attempt and through any gateway, until it is
// settled.
func contend(t *testing.T, r *record, ways []*proc, i int, end time.Time) {
	owner := fmt.Sprintf("c%02d", i)
	for n := 0; time.Now().Before(end); n++ {
		g := ways[(i+n)%len(ways)]
		attempt := fmt.Sprint(owner, "-", n)
		l, err := g.put("contended", owner, attempt, 5)
		for open := err != nil || l.Outcome == "unknown"; open; open = err != nil || l.Outcome == "unknown" {
			r.count(&r.unknown)
			time.Sleep(50 * time.Millisecond)
			g = ways[rand.IntN(len(ways))]
			l, err = g.put("contended", owner, attempt, 5)
			if err == nil && l.Outcome != "unknown" {
				r.count(&r.settled)
			}
		}
		switch {
		case l.Status == 201 || l.Status == 200:
			hold(t, r, ways, g, l)
		case l.Status == 409 && l.problem() == "held":
			r.count(&r.refused)
		case l.Outcome == "not-applied":
		default:
			t.Errorf("%s: %d %s", owner, l.Status, l.raw)
			return
		}
		time.Sleep(time.Duration(100+rand.IntN(400)) * time.Millisecond)
	}
}

// hold believes in a term for a while, perhaps renews it, and ends it: by a
// release, or by silence until it runs out.
func hold(t *testing.T, r *record, ways []*proc, g *proc, l lock) {
	trust := l.until()
	b := term{owner: l.Owner, token: l.Token, begin: time.Now()}
	for rand.IntN(3) > 0 && time.Now().Before(trust) {
		time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
		next, err := g.renew("contended", l, 5)
		if err != nil || next.Status == 503 {
			g = ways[rand.IntN(len(ways))]
			continue // the old deadline stands; the same request again
		}
		if next.Status != 200 {
			if time.Now().Before(trust) {
				never(t, "a believed term was lost: %s", next.raw)
			}
			b.end = trust
			r.add(b)
			return
		}
		r.mu.Lock()
		r.renewals = append(r.renewals, time.Since(next.sent))
		r.mu.Unlock()
		if u := next.until(); u.After(trust) {
			trust = u
		}
		l = next
	}
	if rand.IntN(20) == 0 {
		time.Sleep(time.Until(trust)) // dies; believes to the end
		b.end = trust
		r.add(b)
		return
	}
	b.end = time.Now() // belief ends before the store is told
	if b.end.After(trust) {
		b.end = trust
	}
	r.add(b)
	for range 20 {
		d, err := g.release("contended", l)
		if err == nil && d.Status != 503 {
			if d.Status == 409 && d.problem() == "stale-revision" {
				l.Rev = d.Rev
				continue
			}
			return
		}
		g = ways[rand.IntN(len(ways))]
	}
}

func (r *record) judge(t *testing.T) {
	slices.SortFunc(r.terms, func(a, b term) int { return a.begin.Compare(b.begin) })
	for i := 1; i < len(r.terms); i++ {
		a, b := r.terms[i-1], r.terms[i]
		if b.begin.Before(a.end) && b.end.After(b.begin) {
			never(t, "%s (token %d) believed for %v into the term of %s (token %d)", a.owner, a.token, a.end.Sub(b.begin), b.owner, b.token)
		}
		// a grant that was over when it was heard of may be an earlier one
		believed := a.end.After(a.begin) && b.end.After(b.begin)
		if b.token == a.token || b.token < a.token && believed {
			never(t, "token %d after %d", b.token, a.token)
		} else if b.token < a.token {
			t.Errorf("token %d after %d, of a term that nobody believed in", b.token, a.token)
		}
	}
	t.Logf("%d terms, %d renewals (%v), %d refusals, %d unknown or lost answers, %d requests settled by repeating",
		len(r.terms), len(r.renewals), r.renewals, r.refused, r.unknown, r.settled)
	if len(r.terms) < 10 {
		t.Error("hardly anything happened")
	}
}
