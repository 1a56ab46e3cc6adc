package lease_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/leader-election/leader_election/gateway/internal/lease"
	"github.com/leader-election/leader_election/gateway/internal/lease/leasetest"
)

const (
	skew   = 2 * time.Second
	budget = time.Second // the time of a request
)

type fixture struct {
	*Service
	db  *leasetest.Model
	obs *leasetest.Quiet
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{db: leasetest.New(), obs: &leasetest.Quiet{}}
	f.Service = f.another()
	t.Cleanup(func() { f.Close(context.Background()) })
	return f
}

// another is a second service on the same store, like another gateway.
func (f *fixture) another() *Service { return f.on(f.db) }

func (f *fixture) on(db DB) *Service {
	return New(db, Options{MaxClockSkew: skew, Budget: budget, Poll: 50 * time.Millisecond,
		Parallel: 4, Log: slog.New(slog.DiscardHandler), Observer: f.obs})
}

// fault gives the statements of a kind these faults, one after the other; the
// last one stays.
func (f *fixture) fault(kind string, faults ...leasetest.Fault) {
	f.db.Fault = func(k string) leasetest.Fault {
		if k != kind || len(faults) == 0 {
			return leasetest.None
		}
		now := faults[0]
		if len(faults) > 1 {
			faults = faults[1:]
		}
		return now
	}
}

func ask(owner, attempt string) AcquireRequest {
	return AcquireRequest{Name: "l", Owner: owner, Value: "v", Attempt: attempt, TTL: 10 * time.Second}
}

func (f *fixture) acquire(t *testing.T, owner string) Grant {
	t.Helper()
	g, err := f.Acquire(t.Context(), ask(owner, owner+"-1"))
	if err != nil {
		t.Fatalf("acquire by %s: %v", owner, err)
	}
	return g
}

func renewal(g Grant) RenewRequest {
	return RenewRequest{Name: "l", Owner: g.Owner, Token: g.Epoch, Rev: g.Rev, TTL: 10 * time.Second}
}

// The kind of an error, for tables.
func what(err error) string {
	var r *RefusedError
	var u *UnknownError
	var n *NotAppliedError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &r):
		return string(r.Reason)
	case errors.As(err, &u):
		return "unknown"
	case errors.As(err, &n):
		return "not-applied"
	}
	return "?" + err.Error()
}

func want(t *testing.T, err error, kind string) {
	t.Helper()
	if got := what(err); got != kind {
		t.Fatalf("got %s (%v), want %s", got, err, kind)
	}
}

func TestAcquire(t *testing.T) {
	release := func(t *testing.T, f *fixture) {
		g := f.acquire(t, "a")
		want(t, f.Release(t.Context(), "l", "a", g.Epoch, g.Rev), "ok")
	}
	for _, c := range []struct {
		name    string
		before  func(*testing.T, *fixture)
		req     AcquireRequest
		err     string
		token   int64
		repeats bool
	}{
		{"no row", nil, ask("b", "1"), "ok", 1, false},
		{"expired", func(t *testing.T, f *fixture) { f.acquire(t, "a"); f.db.Expire("l") }, ask("b", "1"), "ok", 2, false},
		{"released", release, ask("b", "1"), "ok", 2, false},
		{"held", func(t *testing.T, f *fixture) { f.acquire(t, "a") }, ask("b", "1"), "held", 0, false},
		{"same owner, other attempt", func(t *testing.T, f *fixture) { f.acquire(t, "b") }, ask("b", "x"), "held", 0, false},
		{"same attempt, other owner", func(t *testing.T, f *fixture) { f.acquire(t, "a") }, ask("b", "a-1"), "held", 0, false},
		{"repeated", func(t *testing.T, f *fixture) { f.acquire(t, "b") }, ask("b", "b-1"), "ok", 1, true},
		{"min_token", nil, AcquireRequest{Name: "l", Owner: "b", Attempt: "1", TTL: MinTTL, MinToken: 41}, "ok", 42, false},
		{"min_token below", release, AcquireRequest{Name: "l", Owner: "b", Attempt: "1", TTL: MinTTL, MinToken: 1}, "ok", 2, false},
		{"largest jump", nil, AcquireRequest{Name: "l", Owner: "b", Attempt: "1", TTL: MinTTL, MinToken: MaxTokenJump - 1}, "ok", MaxTokenJump, false},
		{"jump", nil, AcquireRequest{Name: "l", Owner: "b", Attempt: "1", TTL: MinTTL, MinToken: MaxTokenJump}, "token-jump", 0, false},
		{"past 2^53", nil, AcquireRequest{Name: "l", Owner: "b", Attempt: "1", TTL: MinTTL, MinToken: 1<<63 - 1}, "token-jump", 0, false},
		{"short ttl", nil, AcquireRequest{Name: "l", Owner: "b", Attempt: "1", TTL: MinTTL - 1}, "bad-ttl", 0, false},
		{"no ttl", nil, AcquireRequest{Name: "l", Owner: "b", Attempt: "1"}, "bad-ttl", 0, false},
		{"long ttl", nil, AcquireRequest{Name: "l", Owner: "b", Attempt: "1", TTL: MaxTTL + 1}, "bad-ttl", 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			if c.before != nil {
				c.before(t, f)
			}
			g, err := f.Acquire(t.Context(), c.req)
			want(t, err, c.err)
			if g.Epoch != c.token || g.Repeated != c.repeats {
				t.Errorf("token %d, repeated %v; want %d, %v", g.Epoch, g.Repeated, c.token, c.repeats)
			}
		})
	}
}

// Trust is TTL - 1 s - skew for a lease that this request applied, and the
// row's time left for all others.
func TestTrust(t *testing.T) {
	f := newFixture(t)
	g := f.acquire(t, "a")
	if g.Trust != 10*time.Second-time.Second-skew {
		t.Errorf("fresh lease is trusted for %v", g.Trust)
	}
	f.db.Shorten("l", 4500*time.Millisecond)
	again, err := f.Acquire(t.Context(), ask("a", "a-1"))
	want(t, err, "ok")
	if again.Trust != 3*time.Second { // 5.5 s left show as TTL 6
		t.Errorf("repeated acquire is trusted for %v", again.Trust)
	}
	f.db.Shorten("l", 4*time.Second)
	again, err = f.Acquire(t.Context(), ask("a", "a-1"))
	want(t, err, "ok")
	if again.Trust != 0 {
		t.Errorf("nearly expired lease is trusted for %v", again.Trust)
	}
	r, err := f.Renew(t.Context(), renewal(g))
	want(t, err, "ok")
	if r.Trust != 7*time.Second || r.Repeated {
		t.Errorf("renewal is trusted for %v", r.Trust)
	}
	f.db.Shorten("l", 4500*time.Millisecond)
	r, err = f.Renew(t.Context(), renewal(g))
	want(t, err, "ok")
	if r.Trust != 3*time.Second || !r.Repeated || r.Rev != 2 {
		t.Errorf("repeated renewal: %+v", r)
	}
}

// A lease that a clock ahead of others wrote shows more than its TTL, until the
// next renewal, by another clock, makes it shorter: the excess is not trusted.
func TestLongerThanAskedForIsNotTrusted(t *testing.T) {
	f := newFixture(t)
	g := f.acquire(t, "a")
	f.db.Shorten("l", -2*time.Second)
	again, err := f.Acquire(t.Context(), ask("a", "a-1"))
	want(t, err, "ok")
	if again.Trust != 7*time.Second || again.Expires != 12*time.Second || !again.Repeated {
		t.Errorf("repeated acquire: %+v", again)
	}
	_, err = f.Renew(t.Context(), renewal(g))
	want(t, err, "ok")
	f.db.Shorten("l", -2*time.Second)
	r, err := f.Renew(t.Context(), renewal(g))
	want(t, err, "ok")
	if r.Trust != 7*time.Second || r.Expires != 12*time.Second || !r.Repeated {
		t.Errorf("repeated renewal: %+v", r)
	}
}

func TestAcquireFaults(t *testing.T) {
	type fault = leasetest.Fault
	for _, c := range []struct {
		name   string
		faults []fault
		err    string
		held   bool // afterwards, late statements included
	}{
		{"answer lost", []fault{leasetest.AnswerLost, leasetest.None}, "ok", true},
		{"request lost", []fault{leasetest.NeverRuns, leasetest.None}, "ok", true},
		{"request late, retried", []fault{leasetest.RunsLate, leasetest.None}, "ok", true},
		{"always late", []fault{leasetest.RunsLate}, "not-applied", false},
		{"always lost", []fault{leasetest.NeverRuns}, "not-applied", false},
		{"not sent", []fault{leasetest.NotSent}, "not-applied", false},
		{"rejected", []fault{leasetest.Rejected}, "not-applied", false},
		{"late, then not sent", []fault{leasetest.RunsLate, leasetest.NotSent}, "not-applied", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.fault("acquire", c.faults...)
			g, err := f.Acquire(t.Context(), ask("a", "1"))
			want(t, err, c.err)
			f.Close(t.Context())
			late := f.db.Late()
			if held := !f.db.Row("l").Free(); held != c.held {
				t.Errorf("held afterwards: %v (%d late statements applied)", held, late)
			}
			if err == nil && g.Epoch != 1 {
				t.Errorf("token %d", g.Epoch)
			}
		})
	}
}

// If reads fail, too, nothing can be resolved: the answer is unknown, and a
// transaction that may still apply is burned once the store answers again.
func TestAcquireUnknownIsBurnedLater(t *testing.T) {
	f := newFixture(t)
	var down atomic.Bool
	f.db.Fault = func(kind string) leasetest.Fault {
		switch {
		case kind == "acquire":
			down.Store(true)
			return leasetest.RunsLate
		case down.Load():
			return leasetest.NeverRuns
		}
		return leasetest.None
	}
	_, err := f.Acquire(t.Context(), ask("a", "1"))
	want(t, err, "unknown")
	down.Store(false)
	eventually(t, func() bool { return f.db.Row("l").Epoch == 1 })
	if n := f.db.Late(); n != 0 {
		t.Errorf("%d late acquires applied after the burn", n)
	}
}

// An applied acquire is released if its caller cannot name it; otherwise it is
// not: the caller may repeat and believe it.
func TestUnknownAcquireThatApplied(t *testing.T) {
	for _, anonymous := range []bool{true, false} {
		f := newFixture(t)
		var down atomic.Bool
		f.db.Fault = func(kind string) leasetest.Fault {
			switch {
			case kind == "acquire":
				down.Store(true)
				return leasetest.AnswerLost
			case kind == "read" && down.Load():
				return leasetest.NeverRuns
			}
			return leasetest.None
		}
		req := ask("a", "1")
		req.Anonymous = anonymous
		_, err := f.Acquire(t.Context(), req)
		want(t, err, "unknown")
		down.Store(false)
		f.pendingDone(t)
		if free := f.db.Row("l").Free(); free != anonymous {
			t.Errorf("anonymous %v: free afterwards %v", anonymous, free)
		}
		if !anonymous {
			f.db.Fault = nil
			g, err := f.Acquire(t.Context(), req)
			want(t, err, "ok")
			if !g.Repeated || g.Epoch != 1 {
				t.Errorf("repetition: %+v", g)
			}
		}
	}
}

func (f *fixture) pendingDone(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	f.Close(ctx)
	if ctx.Err() != nil {
		t.Fatal("background work did not end")
	}
}

// A caller that hangs up leaves no term behind that nobody can name.
func TestCallerGone(t *testing.T) {
	f := newFixture(t)
	f.db.Slow = 20 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(30*time.Millisecond, cancel)
	req := ask("a", "1")
	req.Anonymous = true
	if _, err := f.Acquire(ctx, req); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { r := f.db.Row("l"); return r.Epoch == 1 && r.Free() })
}

func TestBornExpired(t *testing.T) {
	f := newFixture(t)
	f.db.Fault = func(kind string) leasetest.Fault {
		if kind == "read" && f.db.Counts["acquire"] == 1 {
			go f.db.Expire("l") // as if a coordinator's clock is slow by more than the TTL
			time.Sleep(time.Millisecond)
		}
		return leasetest.None
	}
	f.db.Slow = 20 * time.Millisecond
	_, err := f.Acquire(t.Context(), ask("a", "1"))
	want(t, err, "unknown") // a slower clock may show it held
	if f.obs.Skews() != 1 {
		t.Error("clock skew was not counted")
	}
}

// taken calls a function as soon as a lock is taken, before anybody reads it.
type taken struct {
	*leasetest.Model
	then func()
}

func (m taken) Acquire(ctx context.Context, name string, e0 int64, r Row) (bool, error) {
	defer m.then()
	return m.Model.Acquire(ctx, name, e0, r)
}

// A lock that was taken, and freed by hand before it was read back, had a
// holder for a moment: that is an effect.
func TestTakenAndLetGoByHand(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault leasetest.Fault // the acquire's
		then  leasetest.Fault // the next statement's
		err   string
	}{
		{"answered", leasetest.None, leasetest.None, "unknown"},
		{"answer lost", leasetest.AnswerLost, leasetest.NotSent, "unknown"},
		{"answer lost, rejected", leasetest.AnswerLost, leasetest.Rejected, "unknown"},
		{"answer lost, then late ones", leasetest.AnswerLost, leasetest.RunsLate, "unknown"},
		{"answer lost, then granted", leasetest.AnswerLost, leasetest.None, "ok"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.fault("acquire", c.fault, c.then)
			var once sync.Once
			f.Service = f.on(taken{f.db, func() {
				once.Do(func() {
					if ok, err := f.db.Release(t.Context(), "l", "a", 1, 1); !ok || err != nil {
						t.Errorf("by hand: %v %v", ok, err)
					}
				})
			}})
			g, err := f.Acquire(t.Context(), ask("a", "1"))
			want(t, err, c.err)
			if err == nil && g.Epoch != 2 {
				t.Errorf("token %d", g.Epoch)
			}
			f.pendingDone(t)
			if f.db.Late(); err != nil && !f.db.Row("l").Free() {
				t.Error("held afterwards")
			}
		})
	}
}

// Nor is it certain once somebody else has taken the lock after that.
func TestLetGoByHandAndTakenByAnother(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault leasetest.Fault // the acquire's
	}{
		{"answered", leasetest.None},
		{"answer lost", leasetest.AnswerLost},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.fault("acquire", c.fault, leasetest.None)
			other := f.another()
			var once sync.Once
			f.Service = f.on(taken{f.db, func() {
				once.Do(func() {
					if ok, err := f.db.Release(t.Context(), "l", "a", 1, 1); !ok || err != nil {
						t.Errorf("by hand: %v %v", ok, err)
					}
					if _, err := other.Acquire(t.Context(), ask("b", "1")); err != nil {
						t.Error(err)
					}
				})
			}})
			_, err := f.Acquire(t.Context(), ask("a", "1"))
			want(t, err, "unknown")
			f.pendingDone(t)
			if row := f.db.Row("l"); row.Owner != "b" || row.Epoch != 2 {
				t.Errorf("afterwards %v", row)
			}
		})
	}
}

// A lock that another has taken under the very token that we wanted was never
// ours: that is certain even without an answer.
func TestOvertaken(t *testing.T) {
	f := newFixture(t)
	f.fault("acquire", leasetest.NeverRuns, leasetest.None)
	other := f.another()
	var once sync.Once
	f.Service = f.on(taken{f.db, func() {
		once.Do(func() {
			if _, err := other.Acquire(t.Context(), ask("b", "1")); err != nil {
				t.Error(err)
			}
		})
	}})
	_, err := f.Acquire(t.Context(), ask("a", "1"))
	want(t, err, "held")
	if f.obs.Unknowns("acquire not-applied") != 1 {
		t.Error("what became of it was not counted")
	}
}

func TestShortenedLeaseIsTrustedLess(t *testing.T) {
	f := newFixture(t)
	f.db.Fault = func(kind string) leasetest.Fault {
		if kind == "read" && f.db.Counts["acquire"] == 1 {
			go f.db.Shorten("l", 5*time.Second)
		}
		return leasetest.None
	}
	f.db.Slow = 20 * time.Millisecond
	g, err := f.Acquire(t.Context(), ask("a", "1"))
	want(t, err, "ok")
	if g.Trust != 2*time.Second || f.obs.Skews() != 1 {
		t.Errorf("trusted for %v, skews %d", g.Trust, f.obs.Skews())
	}
}

func TestRenew(t *testing.T) {
	f := newFixture(t)
	g := f.acquire(t, "a")
	value := "new"
	q := renewal(g)
	q.Value = &value
	r, err := f.Renew(t.Context(), q)
	want(t, err, "ok")
	if r.Rev != 2 || r.Value != "new" || r.Epoch != g.Epoch {
		t.Fatalf("%+v", r)
	}
	if row := f.db.Row("l"); row.Attempt != "a-1" {
		t.Errorf("the attempt was not kept: %+v", row)
	}
	_, err = f.Renew(t.Context(), q) // the same again
	want(t, err, "ok")
	other := "other"
	q.Value = &other
	_, err = f.Renew(t.Context(), q) // same revision, another value: not published
	want(t, err, "stale-revision")
	r, err = f.another().Renew(t.Context(), renewal(r)) // through a gateway that never saw it
	want(t, err, "ok")
	if r.Rev != 3 || r.Value != "new" {
		t.Errorf("value was not kept: %+v", r)
	}
	_, err = f.Renew(t.Context(), renewal(g)) // a late duplicate
	want(t, err, "stale-revision")
	want(t, f.Release(t.Context(), "l", "a", r.Epoch, 2), "stale-revision")
	f.db.Expire("l")
	_, err = f.Renew(t.Context(), renewal(r))
	want(t, err, "lost")
	b := f.acquire(t, "b")
	for _, q := range []RenewRequest{renewal(r), {Name: "l", Owner: "b", Token: 1, Rev: 1, TTL: MinTTL}, {Name: "l", Owner: "a", Token: 2, Rev: 1, TTL: MinTTL}} {
		_, err = f.Renew(t.Context(), q)
		want(t, err, "lost")
	}
	if f.db.Row("l").Rev != b.Rev {
		t.Error("a refused renewal changed the lock")
	}
}

func TestRenewFaults(t *testing.T) {
	type fault = leasetest.Fault
	for _, c := range []struct {
		name     string
		faults   []fault
		err      string
		repeated bool
	}{
		{"answer lost", []fault{leasetest.AnswerLost, leasetest.None}, "ok", true},
		{"request lost", []fault{leasetest.NeverRuns, leasetest.None}, "ok", false},
		{"late, retried", []fault{leasetest.RunsLate, leasetest.None}, "ok", false},
		{"always lost", []fault{leasetest.NeverRuns}, "unknown", false},
		{"not sent", []fault{leasetest.NotSent}, "not-applied", false},
		{"lost, then not sent", []fault{leasetest.NeverRuns, leasetest.NotSent}, "unknown", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			g := f.acquire(t, "a")
			f.fault("renew", c.faults...)
			r, err := f.Renew(t.Context(), renewal(g))
			want(t, err, c.err)
			if r.Repeated != c.repeated {
				t.Errorf("repeated: %v", r.Repeated)
			}
			f.db.Late()
			if err == nil && f.db.Row("l").Rev != 2 {
				t.Errorf("revision %d", f.db.Row("l").Rev)
			}
		})
	}
}

func TestReleaseFaults(t *testing.T) {
	type fault = leasetest.Fault
	for _, c := range []struct {
		name   string
		faults []fault
		err    string
	}{
		{"fine", nil, "ok"},
		{"answer lost", []fault{leasetest.AnswerLost, leasetest.None}, "ok"},
		{"request lost", []fault{leasetest.NeverRuns, leasetest.None}, "ok"},
		{"always lost", []fault{leasetest.NeverRuns}, "unknown"},
		{"not sent", []fault{leasetest.NotSent}, "not-applied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			g := f.acquire(t, "a")
			f.fault("release", c.faults...)
			want(t, f.Release(t.Context(), "l", "a", g.Epoch, g.Rev), c.err)
			if c.err != "ok" {
				return
			}
			want(t, f.Release(t.Context(), "l", "a", g.Epoch, g.Rev), "free")
			f.acquire(t, "b")
			want(t, f.Release(t.Context(), "l", "a", g.Epoch, g.Rev), "not-yours")
		})
	}
}

func tick(f *fixture, t *testing.T, g Grant, id, prevID, prevState string) (Claim, bool, error) {
	return f.Claim(t.Context(), ClaimRequest{Name: "l", Owner: g.Owner, PrevID: prevID, PrevState: prevState,
		Claim: Claim{Job: "j", Tick: time.UnixMilli(1000), Try: 1, ID: id, Token: g.Epoch}})
}

func TestClaims(t *testing.T) {
	f := newFixture(t)
	g := f.acquire(t, "a")
	_, err := f.GetClaim(t.Context(), "l", "j")
	want(t, err, "no-claim")
	_, again, err := tick(f, t, g, "c1", "", "")
	want(t, err, "ok")
	if again {
		t.Error("the first claim counts as repeated")
	}
	_, again, err = tick(f, t, g, "c1", "", "")
	want(t, err, "ok")
	if !again {
		t.Error("the repeated claim counts as new")
	}
	_, _, err = tick(f, t, g, "c2", "", "")
	want(t, err, "claim-refused")
	_, err = f.Complete(t.Context(), "l", "j", "c1", Done, "")
	want(t, err, "ok")
	_, err = f.Complete(t.Context(), "l", "j", "c1", Done, "")
	want(t, err, "ok")
	_, err = f.Complete(t.Context(), "l", "j", "c1", Failed, "")
	want(t, err, "claim-refused")
	_, err = f.Complete(t.Context(), "l", "other", "c1", Done, "")
	want(t, err, "no-claim")
	_, _, err = tick(f, t, g, "c2", "c1", Running) // the record has moved on
	want(t, err, "claim-refused")
	f.fault("claim", leasetest.AnswerLost, leasetest.None)
	_, again, err = tick(f, t, g, "c2", "c1", Done)
	want(t, err, "ok")
	if !again {
		t.Error("a claim resolved by a read counts as applied in the request")
	}
	f.fault("complete", leasetest.AnswerLost, leasetest.None)
	_, err = f.Complete(t.Context(), "l", "j", "c2", Failed, "")
	want(t, err, "ok")
	f.db.Fault = nil
	want(t, f.Release(t.Context(), "l", "a", g.Epoch, g.Rev), "ok")
	_, _, err = tick(f, t, g, "c3", "c2", Failed)
	want(t, err, "claim-refused")
}

// A claim that may still be under way is not refused just because the owner
// has expired: a coordinator with a slower clock may see it alive.
func TestClaimUnknownAtExpiry(t *testing.T) {
	f := newFixture(t)
	g := f.acquire(t, "a")
	f.db.Expire("l")
	f.fault("claim", leasetest.RunsLate)
	_, _, err := tick(f, t, g, "c1", "", "")
	want(t, err, "unknown")
}

// Contenders that wait behind each other share the read of one of them.
func TestContendersShareReads(t *testing.T) {
	f := newFixture(t)
	f.acquire(t, "a")
	f.db.Slow = 20 * time.Millisecond
	before := f.db.Count("read")
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			_, err := f.Acquire(context.Background(), ask(fmt.Sprint("b", i), "1"))
			if what(err) != "held" {
				t.Errorf("contender: %v", err)
			}
		})
	}
	all.Wait()
	if n := f.db.Count("read") - before; n > 5 {
		t.Errorf("50 contenders caused %d reads", n)
	}
}

// A read from before a caller's arrival is not good enough for it: the lock
// may have been released, and the caller told so, in between.
func TestSharedReadIsNotStale(t *testing.T) {
	f := newFixture(t)
	g := f.acquire(t, "a")
	reading, answer := make(chan struct{}), make(chan struct{})
	var once sync.Once
	f.db.Answer = func() { once.Do(func() { close(reading); <-answer }) }
	done := later(func() { f.Get(context.Background(), "l") })
	<-reading // and has seen that a holds
	want(t, f.another().Release(t.Context(), "l", "a", g.Epoch, g.Rev), "ok")
	time.AfterFunc(30*time.Millisecond, func() { close(answer) })
	_, err := f.Acquire(t.Context(), ask("b", "1"))
	want(t, err, "ok")
	<-done
}

// A poll may be behind: it can refuse, but never grants.
func TestPollNeverGrants(t *testing.T) {
	f := newFixture(t)
	g := f.acquire(t, "a")
	old := f.db.Row("l")
	want(t, f.Release(t.Context(), "l", "a", g.Epoch, g.Rev), "ok")
	f.db.PollSees = &old
	again, err := f.Acquire(t.Context(), ask("a", "a-1"))
	want(t, err, "ok")
	if again.Epoch != 2 || again.Repeated {
		t.Errorf("a term that was over was granted again: %+v", again)
	}
}

// Waiters hear at once of their own gateway's writes.
func TestLocalChangesAnswerAtOnce(t *testing.T) {
	f := newFixture(t)
	s := New(f.db, Options{MaxClockSkew: skew, Budget: time.Second, Poll: time.Minute,
		Log: slog.New(slog.DiscardHandler), Observer: f.obs})
	defer s.Close(context.Background())
	var g Grant
	value := "new"
	for i, change := range []func() error{
		func() (err error) { g, err = s.Acquire(context.Background(), ask("a", "1")); return err },
		func() (err error) {
			q := renewal(g)
			q.Value = &value
			g, err = s.Renew(context.Background(), q)
			return err
		},
		func() error { return s.Release(context.Background(), "l", "a", g.Epoch, g.Rev) },
	} {
		done := later(func() {
			if err := change(); err != nil {
				t.Error(err)
			}
		})
		start := time.Now()
		if _, err := s.Wait(t.Context(), "l", nil, 5*time.Second); err != nil || time.Since(start) > time.Second {
			t.Errorf("change %d answered after %v, %v", i, time.Since(start), err)
		}
		<-done
	}
}

func TestWait(t *testing.T) {
	f := newFixture(t)
	g := f.acquire(t, "a")
	wait := func(known *Known, limit time.Duration) (Row, time.Duration) {
		start := time.Now()
		row, err := f.Wait(t.Context(), "l", known, limit)
		want(t, err, "ok")
		return row, time.Since(start)
	}
	now := &Known{g.Epoch, g.Rev}
	if _, took := wait(now, 150*time.Millisecond); took < 140*time.Millisecond {
		t.Errorf("answered after %v without news", took)
	}
	if _, took := wait(&Known{g.Epoch, g.Rev + 1}, time.Minute); took > 100*time.Millisecond {
		t.Errorf("an outdated caller waited %v", took)
	}
	// A renewal is no news, a value is, through this gateway or another.
	r, _ := f.Renew(t.Context(), renewal(g))
	for _, s := range []*Service{f.Service, f.another()} {
		known := &Known{r.Epoch, r.Rev}
		done := later(func() { r, _ = s.Renew(context.Background(), renewal(r)) })
		row, took := wait(known, 200*time.Millisecond)
		<-done
		if took < 190*time.Millisecond || row.Rev != r.Rev {
			t.Errorf("a renewal answered after %v: %+v", took, row)
		}
		value := fmt.Sprint("v", r.Rev)
		known = &Known{r.Epoch, r.Rev}
		done = later(func() {
			q := renewal(r)
			q.Value = &value
			r, _ = s.Renew(context.Background(), q)
		})
		row, took = wait(known, 5*time.Second)
		<-done
		if took > time.Second || row.Value != value {
			t.Errorf("a new value answered after %v: %+v", took, row)
		}
	}
	time.AfterFunc(20*time.Millisecond, func() { f.Release(context.Background(), "l", "a", r.Epoch, r.Rev) })
	if row, took := wait(nil, 5*time.Second); took > time.Second || !row.Free() {
		t.Errorf("the release answered after %v: %+v", took, row)
	}
	time.AfterFunc(20*time.Millisecond, f.Drain)
	if _, took := wait(nil, 5*time.Second); took > time.Second {
		t.Errorf("stopping answered after %v", took)
	}
}

// later calls a function while the caller waits.
func later(do func()) <-chan struct{} {
	done := make(chan struct{})
	time.AfterFunc(20*time.Millisecond, func() { defer close(done); do() })
	return done
}

// A caller of a gateway without a store is refused at once, unless its outcome
// is open.
func TestStoreAway(t *testing.T) {
	f := newFixture(t)
	g := f.acquire(t, "a")
	f.db.Fault = func(string) leasetest.Fault { return leasetest.NotSent }
	start := time.Now()
	_, err := f.Get(t.Context(), "l")
	want(t, err, "not-applied")
	_, err = f.GetClaim(t.Context(), "l", "j")
	want(t, err, "not-applied")
	_, err = f.Acquire(t.Context(), ask("b", "1"))
	want(t, err, "not-applied")
	if took := time.Since(start); took > 200*time.Millisecond {
		t.Errorf("three refusals took %v", took)
	}
	reads := 0
	f.db.Fault = func(kind string) leasetest.Fault {
		if kind == "renew" && reads == 0 {
			return leasetest.AnswerLost
		}
		if reads++; kind == "read" && reads < 3 {
			return leasetest.NotSent
		}
		return leasetest.None
	}
	r, err := f.Renew(t.Context(), renewal(g))
	want(t, err, "ok")
	if !r.Repeated {
		t.Errorf("%+v", r)
	}
}

func TestHeld(t *testing.T) {
	f := newFixture(t)
	g := f.acquire(t, "a")
	if n := f.Held(); n != 1 {
		t.Errorf("%d held", n)
	}
	f.Release(t.Context(), "l", "a", g.Epoch, g.Rev)
	if n := f.Held(); n != 0 {
		t.Errorf("%d held after the release", n)
	}
}

func TestRenewMany(t *testing.T) {
	f := newFixture(t)
	g := f.acquire(t, "a")
	reqs := []RenewRequest{renewal(g)}
	for i := range 20 {
		q := renewal(g)
		q.Name = fmt.Sprint("none", i)
		reqs = append(reqs, q)
	}
	grants, errs := f.RenewMany(t.Context(), reqs)
	want(t, errs[0], "ok")
	if grants[0].Rev != 2 {
		t.Errorf("%+v", grants[0])
	}
	for _, err := range errs[1:] {
		want(t, err, "lost")
	}
}

// A batch has the time of one request, not of one for each of its locks.
func TestRenewManyEnds(t *testing.T) {
	f := newFixture(t) // a request may take 1 s
	f.db.Slow = 100 * time.Millisecond
	g := f.acquire(t, "a")
	var reqs []RenewRequest
	for i := range 100 {
		q := renewal(g)
		if q.Name = fmt.Sprint("l", i); i == 0 {
			q.Name = "l"
		}
		reqs = append(reqs, q)
	}
	started := time.Now()
	_, errs := f.RenewMany(t.Context(), reqs)
	if took := time.Since(started); took > 3*time.Second { // one by one: 5 s
		t.Errorf("it took %v", took)
	}
	want(t, errs[0], "ok")
	want(t, errs[99], "not-applied")
}

// A renewal does not wait behind contenders, however many they are and however
// slow the store.
func TestRenewalsComeFirst(t *testing.T) {
	f := newFixture(t)
	g := f.acquire(t, "a")
	f.db.Slow = 20 * time.Millisecond
	var order []string
	var mu sync.Mutex
	done := func(who string) {
		mu.Lock()
		order = append(order, who)
		mu.Unlock()
	}
	var all sync.WaitGroup
	other := f.another()
	for i := range 8 {
		all.Go(func() {
			// claims are not shared, unlike reads of a held lock
			c := Claim{Job: "j", Tick: time.UnixMilli(1), Try: 1, ID: fmt.Sprint(i), Token: g.Epoch}
			other.Claim(t.Context(), ClaimRequest{Name: "l", Owner: "a", Claim: c})
			done("claim")
		})
	}
	eventually(t, func() bool { return f.db.Count("claim") > 0 })
	all.Go(func() {
		_, err := other.Renew(t.Context(), renewal(g))
		done("renewal")
		if err != nil {
			t.Error(err)
		}
	})
	all.Wait()
	for i, who := range order {
		if who == "renewal" && i > 2 {
			t.Errorf("%v", order)
		}
	}
}

// A caller that gives up leaves the line unchanged for the others.
func TestLinePassesOn(t *testing.T) {
	f := newFixture(t)
	f.db.Slow = 5 * time.Millisecond
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%20)*time.Millisecond)
			defer cancel()
			if i%3 == 0 {
				f.Release(ctx, "l", "a", 1, 1)
			} else {
				f.Get(ctx, "l")
			}
		})
	}
	all.Wait()
	if _, err := f.Get(t.Context(), "l"); what(err) != "ok" {
		t.Error(err)
	}
}

func TestWholeTTL(t *testing.T) {
	for d, n := range map[time.Duration]int{900 * time.Millisecond: 1, time.Second: 1, time.Second + 1: 2, 5 * time.Second: 5} {
		if WholeTTL(d) != n {
			t.Errorf("%v: %d", d, WholeTTL(d))
		}
	}
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("did not happen within 5 s")
		}
	}
}

// Each lock of a batch is answered in its place and for itself: a refusal or an
// unknown outcome of one does not concern the others.
func TestBatchesAnswerEach(t *testing.T) {
	f := newFixture(t)
	f.acquire(t, "other") // the lock l
	var reqs []AcquireRequest
	for i := range 20 {
		q := ask("a", fmt.Sprint("x", i))
		if q.Name = fmt.Sprint("l", i); i == 7 {
			q.Name = "l"
		}
		reqs = append(reqs, q)
	}
	grants, errs := f.AcquireMany(t.Context(), reqs)
	var ends []ReleaseRequest
	var names []string
	for i, g := range grants {
		if i == 7 {
			want(t, errs[i], "held")
		} else if want(t, errs[i], "ok"); g.Attempt != reqs[i].Attempt {
			t.Errorf("%d: %+v", i, g)
		}
		ends = append(ends, ReleaseRequest{Name: reqs[i].Name, Owner: "a", Token: 1, Rev: int64(1 + i%2)})
		names = append(names, reqs[i].Name)
	}
	rows, errs := f.GetMany(t.Context(), names)
	for i, row := range rows {
		if want(t, errs[i], "ok"); row.Owner != map[bool]string{true: "other", false: "a"}[i == 7] {
			t.Errorf("%d: %+v", i, row)
		}
	}
	for i, err := range f.ReleaseMany(t.Context(), ends) {
		switch {
		case i == 7:
			want(t, err, "not-yours")
		case i%2 == 1:
			want(t, err, "stale-revision")
		default:
			want(t, err, "ok")
		}
	}
}

// deadlines is a store that notes the deadlines of its reads, and when the last
// one began.
type deadlines struct {
	DB
	mu   sync.Mutex
	ends map[time.Time]bool
	last time.Time
}

func (d *deadlines) Read(ctx context.Context, name string, level Level) (Row, error) {
	end, _ := ctx.Deadline()
	d.mu.Lock()
	d.ends[end] = true
	d.last = time.Now()
	d.mu.Unlock()
	return d.DB.Read(ctx, name, level)
}

// instants counts the deadlines before then: background settlement, on a slow
// machine, has a time of its own, which is longer.
func (d *deadlines) instants(before time.Time) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for end := range d.ends {
		if end.Before(before) {
			n++
		}
	}
	return n
}

// A batch has the time of one request, unknown outcomes included: its caller
// waits no longer, and would have to take all outcomes for unknown.
func TestBatchesEndTogether(t *testing.T) {
	f := newFixture(t)
	f.db.Slow = 60 * time.Millisecond
	store := &deadlines{DB: f.db}
	s := f.on(store)
	var acquires []AcquireRequest
	var releases []ReleaseRequest
	var names []string
	for i := range 100 {
		q := ask("a", "x")
		q.Name = fmt.Sprint("l", i)
		acquires = append(acquires, q)
		releases = append(releases, ReleaseRequest{Name: q.Name, Owner: "a", Token: 1, Rev: 1})
		names = append(names, q.Name)
	}
	for kind, run := range map[string]func() []error{
		"acquire": func() []error { _, errs := s.AcquireMany(context.Background(), acquires); return errs },
		"release": func() []error { return s.ReleaseMany(context.Background(), releases) },
		"read":    func() []error { _, errs := s.GetMany(context.Background(), names); return errs },
	} {
		store.mu.Lock()
		store.ends = make(map[time.Time]bool)
		store.mu.Unlock()
		started := time.Now()
		errs := run()
		if took := time.Since(started); took > 3*time.Second { // all of them: 4.5 s to acquire
			t.Errorf("%s: it took %v", kind, took)
		}
		if n := store.instants(started.Add(2 * budget)); n != 1 {
			t.Errorf("%s: time ends at %d instants", kind, n)
		}
		want(t, errs[99], "not-applied")
	}
}

// No lock of a batch begins in the last third of the time: it could not learn
// its outcome.
func TestBatchesBeginInTime(t *testing.T) {
	f := newFixture(t)
	f.db.Slow = 60 * time.Millisecond // one after the other: 6 s
	store := &deadlines{DB: f.db, ends: make(map[time.Time]bool)}
	s := New(store, Options{MaxClockSkew: skew, Budget: 1200 * time.Millisecond, Poll: time.Minute, Parallel: 1,
		Log: slog.New(slog.DiscardHandler), Observer: f.obs})
	defer s.Close(context.Background())
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprint("l", i))
	}
	started := time.Now()
	_, errs := s.GetMany(context.Background(), names)
	want(t, errs[0], "ok")
	want(t, errs[99], "not-applied")
	if began := store.last.Sub(started); began > time.Second {
		t.Errorf("one began after %v", began)
	}
}
