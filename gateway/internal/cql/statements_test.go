package cql

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/leader-election/leader_election/gateway/internal/lease"
)

type silent struct{}

func (silent) Statement(string, string, time.Duration) {}

// connected is a DB on the nodes and keyspace that test/gateway/run names.
func connected(t *testing.T, obs Observer) (*DB, context.Context) {
	hosts := os.Getenv("STATEMENTS_HOSTS")
	if hosts == "" {
		t.Skip("STATEMENTS_HOSTS is not set: run test/gateway/run")
	}
	opt := Options{Hosts: strings.Split(hosts, ","), Port: 9042, Discover: true, Keyspace: os.Getenv("STATEMENTS_KEYSPACE"),
		Timeout: 10 * time.Second, Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	db := New(opt, obs)
	go db.Connect(ctx)
	t.Cleanup(func() { db.Close() })
	for db.Ready(ctx) != nil {
		if ctx.Err() != nil {
			t.Fatal("not connected")
		}
		time.Sleep(20 * time.Millisecond)
	}
	return db, ctx
}

// after calls a function once, when the first of its statements has ended.
type after struct{ what func() }

func (a *after) Statement(string, string, time.Duration) {
	if what := a.what; what != nil {
		a.what = nil
		what()
	}
}

// TestStatementsBetweenReads: between the statements that read a claim the
// claim is written, and its term ends. A reader that sees the end of the term
// must not miss the claim.
func TestStatementsBetweenReads(t *testing.T) {
	db, ctx := connected(t, silent{})
	hook := &after{}
	reader, _ := connected(t, hook)
	name := "between-" + lease.NewID()
	do := func(applied bool, err error) {
		t.Helper()
		if err != nil || !applied {
			t.Fatal(applied, err)
		}
	}
	do(db.Acquire(ctx, name, 0, lease.Row{Epoch: 1, Owner: "a", Attempt: "x", Rev: 1, TTL: 60}))
	hook.what = func() {
		do(db.Claim(ctx, name, "a", lease.Claim{Job: "j", Tick: time.UnixMilli(1000), Try: 1, ID: "c1", Token: 1}, "", ""))
		do(db.Release(ctx, name, "a", 1, 1))
		do(db.Acquire(ctx, name, 1, lease.Row{Epoch: 2, Owner: "b", Attempt: "y", Rev: 1, TTL: 60}))
	}
	row, c, err := reader.ReadClaim(ctx, name, "j")
	if err != nil || row.Epoch == 2 && c.ID != "c1" {
		t.Errorf("the term is over (%+v), and its claim is not seen (%+v): %v", row, c, err)
	}
}

// TestStatements sends each statement late and twice to a real Cassandra,
// past the decisions that would hold most of them back.
func TestStatements(t *testing.T) {
	db, ctx := connected(t, silent{})
	name := "statements-" + lease.NewID()
	want := func(what string, want bool) func(bool, error) {
		return func(applied bool, err error) {
			t.Helper()
			if err != nil || applied != want {
				t.Errorf("%s: applied %v, %v", what, applied, err)
			}
		}
	}
	row := func(epoch, rev int64, value string) lease.Row {
		return lease.Row{Epoch: epoch, Owner: "a", Value: value, Attempt: "x", Rev: rev, TTL: 60}
	}
	claim := func(token int64, id string) lease.Claim {
		return lease.Claim{Job: "j", Tick: time.UnixMilli(1000), Try: 1, ID: id, Token: token}
	}
	want("acquire", true)(db.Acquire(ctx, name, 0, row(1, 1, "v1")))
	want("acquire while held", false)(db.Acquire(ctx, name, 1, row(2, 1, "v1")))
	want("burn while held", false)(db.Burn(ctx, name, 1, 2))
	want("claim", true)(db.Claim(ctx, name, "a", claim(1, "c1"), "", ""))
	want("claim twice", false)(db.Claim(ctx, name, "a", claim(1, "c1"), "", ""))
	want("renew", true)(db.Renew(ctx, name, row(1, 2, "v2")))
	want("renew twice", false)(db.Renew(ctx, name, row(1, 2, "v2")))
	want("renew", true)(db.Renew(ctx, name, row(1, 3, "v3")))
	want("late renew of the same term", false)(db.Renew(ctx, name, row(1, 2, "v2")))
	want("renew from the future", false)(db.Renew(ctx, name, row(1, 5, "v5")))
	want("late release of the same term", false)(db.Release(ctx, name, "a", 1, 2))
	want("release by another owner", false)(db.Release(ctx, name, "b", 1, 3))
	want("release", true)(db.Release(ctx, name, "a", 1, 3))
	want("release twice", false)(db.Release(ctx, name, "a", 1, 3))
	want("claim after the release", false)(db.Claim(ctx, name, "a", claim(1, "c2"), "c1", "running"))
	want("late acquire", false)(db.Acquire(ctx, name, 0, row(1, 1, "v1")))
	want("burn", true)(db.Burn(ctx, name, 1, 2))
	want("acquire of a burned epoch", false)(db.Acquire(ctx, name, 1, row(2, 1, "v1")))
	// The same owner, attempt and revision again: only the epoch differs.
	want("next term", true)(db.Acquire(ctx, name, 2, row(3, 1, "w1")))
	for rev := int64(1); rev <= 3; rev++ {
		want("late renew of the old term", false)(db.Renew(ctx, name, row(1, rev+1, "v")))
		want("late release of the old term", false)(db.Release(ctx, name, "a", 1, rev))
	}
	want("late claim of the old term", false)(db.Claim(ctx, name, "a", claim(1, "c2"), "c1", "running"))
	want("claim in the wrong state", false)(db.Claim(ctx, name, "a", claim(3, "c2"), "c1", "done"))
	want("complete", true)(db.Complete(ctx, name, "j", "c1", "done", ""))
	want("complete twice", false)(db.Complete(ctx, name, "j", "c1", "failed", ""))
	want("claim again what is done", false)(db.Claim(ctx, name, "a", claim(3, "c2"), "c1", "running"))
	want("next claim", true)(db.Claim(ctx, name, "a", claim(3, "c2"), "c1", "done"))
	want("complete a superseded claim", false)(db.Complete(ctx, name, "j", "c1", "failed", ""))
	now, err := db.Read(ctx, name, lease.Decide)
	if err != nil || now.Epoch != 3 || now.Rev != 1 || now.Value != "w1" || now.TTL < 50 {
		t.Errorf("the lock is %+v, %v", now, err)
	}
}
