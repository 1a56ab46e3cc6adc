package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Forged histories: each checker must accept the good one and reject each bad
// one. Times are in seconds here.

const s = int64(1e9)

func belief(holder, election string, token, low, first, last, until int64) Record {
	return Record{Type: "belief", Holder: holder, Node: nodeOf(holder), Election: election,
		Token: token, Low: low * s, First: first * s, Last: last * s, Until: until * s}
}

func op(holder, name, result string, token, call, back int64) Record {
	return Record{Type: "op", Op: name, Holder: holder, Node: nodeOf(holder), Election: "e",
		Result: result, Token: token, Call: call * s, Return: back * s}
}

func read(leader string, call, back int64) Record {
	return Record{Type: "op", Op: "read", Holder: "r", Election: "e", Result: "true",
		Leader: leader, Call: call * s, Return: back * s}
}

func commit(holder string, token, call int64) Record {
	return Record{Type: "commit", Holder: holder, Election: "e", Token: token, Result: "true",
		Call: call * s, Return: (call + 1) * s}
}

func begun(tick string) Record {
	return Record{Type: "begun", Holder: "a", Election: "e", Job: "j", Tick: tick}
}

func claim(holder, tick string, try, token int64) Record {
	return Record{Type: "claim", Holder: holder, Election: "e", Job: "j", Tick: tick, Try: try,
		Token: token, Result: "true"}
}

func key(index, lock int64, session, value string) Record {
	return Record{Type: "key", Election: "e", Index: index, LockIndex: lock, Session: session,
		ValueSession: value, Released: session == ""}
}

// lock is a gateway's answer; an owner of "" means a free lock.
func lock(owner string, token, call, back int64) Record {
	return Record{Type: "lock", Election: "e", Owner: owner, Free: owner == "", Token: token,
		Call: call * s, Return: back * s}
}

func exempt(check string, from, to int64) Record {
	return Record{Type: "exempt", Election: "e", From: from * s, To: to * s, Checks: []string{check}}
}

func history(t *testing.T, records ...Record) *History {
	t.Helper()
	h := &History{}
	all := append([]Record{
		{Type: "run", Store: "forged", Seed: 1, Lease: 10 * s, Margin: 1 * s, Bound: 30 * s,
			CancelBound: 1 * s, At: 1},
		{Type: "end", At: 1000 * s},
	}, records...)
	for _, r := range all {
		if err := h.add(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.arrange(); err != nil {
		t.Fatal(err)
	}
	return h
}

func check(t *testing.T, name string, h *History) (violations []string, judged, excused int) {
	t.Helper()
	for _, c := range checkers {
		if c.Name == name {
			return c.Check(h)
		}
	}
	t.Fatalf("no check %s", name)
	return
}

var forged = []struct {
	check string
	name  string
	bad   bool
	with  []Record
}{
	{"I1", "one after the other", false, []Record{
		belief("a", "e", 1, 0, 10, 20, 21), belief("b", "e", 2, 0, 20, 30, 0)}},
	{"I1", "two at once", true, []Record{
		belief("a", "e", 1, 0, 10, 20, 21), belief("b", "e", 2, 0, 19, 30, 0)}},
	{"I1", "one within the other", true, []Record{
		belief("a", "e", 1, 0, 10, 40, 41), belief("b", "e", 2, 0, 19, 20, 0)}},
	{"I1", "the third meets the first", true, []Record{
		belief("a", "e", 1, 0, 10, 40, 41), belief("b", "f", 2, 0, 11, 12, 0),
		belief("c", "e", 3, 0, 39, 50, 0)}},
	{"I1", "two sessions of one instance", true, []Record{
		belief("a/s1", "e", 1, 0, 10, 20, 0), belief("a/s2", "e", 2, 0, 15, 30, 0)}},
	{"I1", "different elections", false, []Record{
		belief("a", "e", 1, 0, 10, 20, 0), belief("b", "f", 2, 0, 15, 30, 0)}},
	{"I1", "a single sample proves nothing", false, []Record{
		belief("a", "e", 1, 0, 10, 20, 0), belief("b", "e", 2, 0, 15, 14, 0)}},
	{"I1", "key deleted by the harness", false, []Record{exempt("I1", 14, 16),
		belief("a", "e", 1, 0, 10, 20, 0), belief("b", "e", 2, 0, 15, 30, 0)}},
	{"I1", "after what the harness did is over", true, []Record{exempt("I1", 11, 14),
		belief("a", "e", 1, 0, 10, 20, 0), belief("b", "e", 2, 0, 15, 30, 0)}},
	{"I1", "exempt from another check only", true, []Record{exempt("I8", 14, 16),
		belief("a", "e", 1, 0, 10, 20, 0), belief("b", "e", 2, 0, 15, 30, 0)}},
	{"I1", "told in parts", true, []Record{
		belief("a", "e", 1, 0, 10, 12, 0), belief("a", "e", 1, 0, 10, 20, 0),
		belief("b", "e", 2, 0, 15, 30, 0)}},

	{"I2", "rising", false, []Record{
		belief("a", "e", 1, 5, 10, 20, 21), belief("b", "e", 2, 19, 22, 30, 0)}},
	{"I2", "falling", true, []Record{
		belief("a", "e", 2, 5, 10, 20, 21), belief("b", "e", 1, 19, 22, 30, 0)}},
	{"I2", "falling, not certainly", false, []Record{
		belief("a", "e", 2, 5, 10, 20, 21), belief("b", "e", 1, 9, 22, 30, 0)}},
	{"I2", "two holders", true, []Record{
		belief("a", "e", 2, 5, 10, 20, 21), belief("b", "e", 2, 19, 22, 30, 0)}},
	{"I2", "below what an acquire returned", true, []Record{
		op("a", "acquire", "true", 7, 1, 2), belief("b", "e", 6, 19, 22, 30, 0)}},
	{"I2", "below the one before the last", true, []Record{
		belief("a", "e", 9, 5, 10, 20, 21), belief("a", "e", 12, 20, 22, 23, 24),
		belief("b", "e", 10, 25, 26, 30, 0)}},
	{"I2", "a term that was out of sight for a while", false, []Record{
		belief("a", "e", 1, 5, 10, 20, 21), belief("b", "e", 2, 19, 22, 30, 0),
		belief("a", "f", 1, 25, 26, 27, 0)}},

	{"I3", "committed in its term", false, []Record{
		belief("a", "e", 1, 5, 10, 20, 21), commit("a", 1, 15), belief("b", "e", 2, 19, 22, 30, 0)}},
	{"I3", "committed after the next one led", true, []Record{
		belief("a", "e", 1, 5, 10, 20, 21), commit("a", 1, 23), belief("b", "e", 2, 19, 22, 30, 0)}},

	{"I4", "once", false, []Record{claim("a", "1", 1, 5), claim("a", "2", 1, 5)}},
	{"I4", "twice", true, []Record{claim("a", "1", 1, 5), claim("b", "1", 1, 6)}},
	{"I4", "again in a later term", false, []Record{claim("a", "1", 1, 5), claim("b", "1", 2, 6)}},
	{"I4", "again in the same term", true, []Record{claim("a", "1", 1, 5), claim("a", "1", 2, 5)}},
	{"I4", "never", true, []Record{{Type: "tick", Election: "e", Job: "j", Tick: "1", Required: true}}},
	{"I4", "caught up", false, []Record{begun("1"), begun("2"), {Type: "ran", Election: "e", Job: "j", Tick: "1"}}},
	{"I4", "the last is left", false, []Record{begun("1"), begun("1")}},
	{"I4", "vanished", true, []Record{begun("9"), begun("10"), {Type: "ran", Election: "e", Job: "j", Tick: "10"}}},
	{"I4", "vanished, another job's is done", true, []Record{begun("1"), begun("2"), {Type: "ran", Election: "e", Job: "k", Tick: "1"}}},
	{"I4", "never, in a fault", false, []Record{{Type: "tick", Election: "e", Job: "j", Tick: "1"}}},

	{"I5", "in time", false, []Record{belief("a", "e", 1, 5, 10, 20, 21),
		{Type: "gated", Holder: "a", Election: "e", Token: 1, From: 15 * s, To: 22 * s}}},
	{"I5", "too late", true, []Record{belief("a", "e", 1, 5, 10, 20, 21),
		{Type: "gated", Holder: "a", Election: "e", Token: 1, From: 15 * s, To: 23 * s}}},

	{"I5", "too late, but stopped itself", false, []Record{belief("a", "e", 1, 5, 10, 20, 21),
		{Type: "fault", Kind: "backend stopped", Target: "a", From: 20 * s, To: 23 * s},
		{Type: "gated", Holder: "a", Election: "e", Token: 1, From: 15 * s, To: 24 * s}}},
	{"I5", "too late, another was stopped", true, []Record{belief("a", "e", 1, 5, 10, 20, 21),
		{Type: "fault", Kind: "backend stopped", Target: "b", From: 20 * s, To: 23 * s},
		{Type: "gated", Holder: "a", Election: "e", Token: 1, From: 15 * s, To: 24 * s}}},

	{"I6", "released by its holder", false, []Record{key(1, 1, "S", "S"), key(2, 1, "", "S")}},
	{"I6", "released by another", true, []Record{key(1, 1, "S", "S"), key(2, 1, "", "R")}},
	{"I6", "somebody was missed in between", false, []Record{key(1, 1, "S", "S"), key(3, 2, "", "R")}},
	{"I6", "believed in until it was released", false, []Record{belief("a", "e", 1, 5, 10, 20, 21),
		lock("a", 1, 15, 16), lock("", 1, 22, 23)}},
	{"I6", "free at some time while it was asked for", false, []Record{belief("a", "e", 1, 5, 10, 20, 21),
		lock("a", 1, 15, 16), lock("", 1, 18, 21)}},
	{"I6", "believed in though the store has it free", true, []Record{belief("a", "e", 1, 5, 10, 20, 21),
		lock("a", 1, 15, 16), lock("", 1, 17, 18)}},
	{"I6", "freed by its predecessor's release, and taken at once", true, []Record{
		belief("a", "e", 1, 5, 10, 12, 13), belief("b", "e", 2, 14, 15, 30, 0),
		lock("a", 1, 11, 12), lock("b", 2, 20, 21), lock("c", 3, 24, 25)}},
	{"I6", "believed in anew after it was over", true, []Record{belief("a", "e", 1, 5, 10, 12, 13),
		belief("a", "e", 1, 20, 21, 22, 0), lock("a", 1, 11, 12), lock("", 1, 14, 15)}},
	{"I6", "its successor is seen at once", false, []Record{
		belief("a", "e", 1, 5, 10, 12, 13), belief("b", "e", 2, 14, 15, 30, 0),
		lock("a", 1, 11, 12), lock("b", 2, 14, 16), lock("b", 2, 20, 21)}},
	{"I6", "another election's lock is free", false, []Record{belief("a", "f", 1, 5, 10, 20, 21),
		lock("", 1, 17, 18)}},
	{"I6", "freed by the harness", false, []Record{belief("a", "e", 1, 5, 10, 20, 21), exempt("I6", 16, 22),
		lock("a", 1, 15, 16), lock("", 1, 17, 18)}},
	{"I6", "the store forgets a term", true, []Record{lock("a", 2, 15, 16), lock("", 1, 17, 18)}},
	{"I6", "something stays held", true, []Record{{Type: "left", What: "key e held by S"}}},

	{"I7", "led all the time", false, []Record{belief("a", "e", 1, 5, 10, 200, 0),
		{Type: "heal", At: 100 * s, To: 200 * s, Elections: []string{"e"}}}},
	{"I7", "led in time", false, []Record{belief("a", "e", 1, 5, 125, 200, 0),
		{Type: "heal", At: 100 * s, To: 200 * s, Elections: []string{"e"}}}},
	{"I7", "led too late", true, []Record{belief("a", "e", 1, 5, 135, 200, 0),
		{Type: "heal", At: 100 * s, To: 200 * s, Elections: []string{"e"}}}},
	{"I7", "never", true, []Record{
		{Type: "heal", At: 100 * s, To: 200 * s, Elections: []string{"e"}}}},
	{"I7", "the next fault came too soon to tell", false, []Record{
		{Type: "heal", At: 100 * s, To: 120 * s, Elections: []string{"e"}}}},

	{"I8", "acquire, release, acquire", false, []Record{
		op("a", "acquire", "true", 1, 1, 2), op("b", "acquire", "false", 0, 3, 4),
		read("a", 3, 4), op("a", "renew", "true", 0, 5, 6), op("a", "release", "true", 0, 7, 8),
		read("", 9, 10), op("b", "acquire", "true", 2, 11, 12)}},
	{"I8", "acquired while held", true, []Record{
		op("a", "acquire", "true", 1, 1, 2), belief("a", "e", 1, 1, 2, 20, 0),
		op("b", "acquire", "true", 2, 11, 12)}},
	{"I8", "acquired after the term ended", false, []Record{
		op("a", "acquire", "true", 1, 1, 2), belief("a", "e", 1, 1, 2, 10, 11),
		op("b", "acquire", "true", 2, 11, 12)}},
	{"I8", "a lower token", true, []Record{
		op("a", "acquire", "true", 2, 1, 2), op("a", "release", "true", 0, 3, 4),
		op("b", "acquire", "true", 1, 11, 12)}},
	{"I8", "the same token again", true, []Record{
		op("a", "acquire", "true", 2, 1, 2), op("a", "release", "true", 0, 3, 4),
		op("b", "acquire", "true", 2, 11, 12)}},
	{"I8", "refused though free", true, []Record{
		op("a", "acquire", "true", 1, 1, 2), op("a", "release", "true", 0, 3, 4),
		op("b", "acquire", "false", 0, 11, 12)}},
	{"I8", "refused while another took it and gave it back", false, []Record{
		op("a", "acquire", "gave back", 0, 1, 2), op("b", "acquire", "false", 0, 3, 4),
		op("b", "acquire", "true", 1, 5, 6)}},
	{"I8", "refused before another took it and gave it back", true, []Record{
		op("b", "acquire", "false", 0, 1, 2), op("a", "acquire", "gave back", 0, 3, 4)}},
	{"I8", "led by who gave it back", true, []Record{
		op("a", "acquire", "gave back", 0, 1, 2), op("a", "renew", "true", 0, 3, 4),
		op("b", "acquire", "true", 1, 5, 6), op("a", "renew", "true", 0, 7, 8)}},
	{"I8", "refused while another is granted, by one step", true, []Record{
		op("a", "acquire", "true", 1, 1, 9), belief("a", "e", 1, 1, 9, 20, 0),
		op("b", "acquire", "false", 0, 2, 3), read("", 4, 5), op("a", "release", "true", 0, 21, 22)}},
	{"I8", "refused to its holder", true, []Record{
		op("a", "acquire", "true", 1, 1, 2), belief("a", "e", 1, 1, 2, 20, 0),
		op("a", "acquire", "false", 0, 11, 12)}},
	{"I8", "released by who does not hold it", true, []Record{
		op("a", "acquire", "true", 1, 1, 2), belief("a", "e", 1, 1, 2, 20, 0),
		op("b", "release", "true", 0, 3, 4)}},
	{"I8", "renewed after another led", true, []Record{
		op("a", "acquire", "true", 1, 1, 2), belief("a", "e", 1, 1, 2, 3, 4),
		op("b", "acquire", "true", 2, 5, 6), op("a", "renew", "true", 0, 7, 8)}},
	{"I8", "renewed after it was seen to be over", true, []Record{
		op("a", "acquire", "true", 1, 1, 2), belief("a", "e", 1, 1, 2, 3, 4),
		op("a", "renew", "true", 0, 7, 8)}},
	{"I8", "a stale read", true, []Record{
		op("a", "acquire", "true", 1, 1, 2), op("a", "release", "true", 0, 3, 4),
		op("b", "acquire", "true", 2, 5, 6), read("a", 7, 8)}},
	{"I8", "a read of nobody while held", true, []Record{
		op("a", "acquire", "true", 1, 1, 2), belief("a", "e", 1, 1, 2, 20, 0), read("", 7, 8)}},
	{"I8", "reads that flap after the end", false, []Record{
		op("a", "acquire", "true", 1, 1, 2), belief("a", "e", 1, 1, 2, 3, 4),
		read("a", 5, 6), read("", 7, 8), read("a", 9, 10), op("b", "acquire", "true", 2, 11, 12)}},
	{"I8", "a read of nobody after the store has freed it", false, []Record{
		op("a", "acquire", "true", 1, 1, 2), belief("a", "e", 1, 1, 2, 20, 0),
		{Type: "freed", Holder: "a", From: 6 * s}, read("", 7, 8), op("a", "renew", "false", 0, 9, 10)}},
	{"I8", "a read of nobody before the store has freed it", true, []Record{
		op("a", "acquire", "true", 1, 1, 2), belief("a", "e", 1, 1, 2, 20, 0),
		{Type: "freed", Holder: "a", From: 9 * s}, read("", 7, 8), read("", 11, 12)}},
	{"I8", "acquired while believed in, though the store has freed it", true, []Record{
		op("a", "acquire", "true", 1, 1, 2), belief("a", "e", 1, 1, 2, 20, 0),
		{Type: "freed", Holder: "a", From: 6 * s}, op("b", "acquire", "true", 2, 11, 12)}},
	{"I8", "refused after a release, since the store had freed it", false, []Record{
		op("a", "acquire", "true", 1, 1, 2), belief("a", "e", 1, 1, 2, 6, 7),
		{Type: "freed", Holder: "a", From: 4 * s}, op("a", "release", "true", 0, 5, 6),
		op("b", "acquire", "false", 0, 7, 8), read("", 9, 10), op("b", "acquire", "true", 2, 11, 12)}},
	{"I8", "refused after a release, before the store freed it", true, []Record{
		op("a", "acquire", "true", 1, 1, 2), belief("a", "e", 1, 1, 2, 6, 7),
		op("a", "release", "true", 0, 5, 6), {Type: "freed", Holder: "a", From: 7 * s},
		op("b", "acquire", "false", 0, 7, 8), read("", 9, 10)}},
	{"I8", "shown as leader after a release, though the store had freed it", true, []Record{
		op("a", "acquire", "true", 1, 1, 2), belief("a", "e", 1, 1, 2, 6, 7),
		{Type: "freed", Holder: "a", From: 4 * s}, op("a", "release", "true", 0, 5, 6),
		read("a", 9, 10), read("", 11, 12)}},
	{"I8", "another's was freed", true, []Record{
		op("a", "acquire", "true", 1, 1, 2), belief("a", "e", 1, 1, 2, 20, 0),
		{Type: "freed", Holder: "b", From: 6 * s}, read("", 7, 8)}},
	{"I8", "a stale read from a leader of the store that was thawed", false, []Record{
		op("a", "acquire", "true", 1, 1, 2), belief("a", "e", 1, 1, 2, 20, 0), read("", 7, 8),
		{Type: "fault", Kind: "store leader stopped", Target: "store", From: 4 * s, To: 8 * s}}},
	{"I8", "a stale read long after that", true, []Record{
		op("a", "acquire", "true", 1, 1, 2), belief("a", "e", 1, 1, 2, 20, 0), read("", 9, 10),
		{Type: "fault", Kind: "store leader stopped", Target: "store", From: 4 * s, To: 8 * s}}},
	{"I8", "acquired while held, from a leader of the store that was thawed", true, []Record{
		op("a", "acquire", "true", 1, 1, 2), belief("a", "e", 1, 1, 2, 20, 0),
		{Type: "fault", Kind: "store leader stopped", Target: "store", From: 4 * s, To: 9 * s},
		op("b", "acquire", "true", 2, 7, 8)}},
	{"I8", "an unknown acquire that was applied", false, []Record{
		op("a", "acquire", "unknown", 0, 1, 2), read("a", 3, 4), op("b", "acquire", "false", 0, 5, 6),
		op("b", "acquire", "true", 2, 11, 12)}},
	{"I8", "canceled when it was granted, and renewed", false, []Record{
		op("a", "acquire", "unknown", 0, 1, 2), op("a", "renew", "true", 0, 3, 4),
		op("b", "acquire", "false", 0, 5, 6), op("a", "release", "true", 0, 7, 8)}},
	{"I8", "renewed after another led, though once canceled", true, []Record{
		op("a", "acquire", "unknown", 0, 1, 2), op("b", "acquire", "true", 5, 3, 4),
		belief("b", "e", 5, 3, 4, 20, 0), op("a", "renew", "true", 0, 5, 6)}},
	{"I8", "an acquire that was not sent, and applied", true, []Record{
		op("a", "acquire", "unavailable", 0, 1, 2), read("a", 3, 4)}},
	{"I8", "an unknown release that was applied", false, []Record{
		op("a", "acquire", "true", 1, 1, 2), op("a", "release", "unknown", 0, 3, 4),
		op("b", "acquire", "true", 2, 5, 6)}},

	{"G5", "until its deadline", false, []Record{belief("a", "e", 1, 5, 10, 109, 0),
		{Type: "silence", Holder: "a", Kind: "cut", From: 100 * s, To: 200 * s}}},
	{"G5", "past its deadline", true, []Record{belief("a", "e", 1, 5, 10, 110, 0),
		{Type: "silence", Holder: "a", Kind: "cut", From: 100 * s, To: 200 * s}}},
	{"G5", "in scope session, past its deadline", true, []Record{belief("a/s1", "e", 1, 5, 10, 110, 0),
		{Type: "silence", Holder: "a", Kind: "cut", From: 100 * s, To: 200 * s}}},
	{"G5", "begun in silence", true, []Record{belief("a", "e", 1, 5, 110, 120, 0),
		{Type: "silence", Holder: "a", Kind: "cut", From: 100 * s, To: 200 * s}}},
	{"G5", "silence too short", false, []Record{belief("a", "e", 1, 5, 10, 150, 0),
		{Type: "silence", Holder: "a", Kind: "cut", From: 100 * s, To: 108 * s}}},
	{"G5", "the other one was silent", false, []Record{belief("a", "e", 1, 5, 10, 150, 0),
		{Type: "silence", Holder: "b", Kind: "cut", From: 100 * s, To: 200 * s}}},
}

func TestForged(t *testing.T) {
	bad := map[string]int{}
	for _, c := range forged {
		t.Run(c.check+" "+c.name, func(t *testing.T) {
			violations, _, _ := check(t, c.check, history(t, c.with...))
			if (len(violations) > 0) != c.bad {
				t.Errorf("violations: %q", violations)
			}
		})
		if c.bad {
			bad[c.check]++
		}
	}
	for _, c := range checkers {
		if bad[c.Name] == 0 {
			t.Errorf("%s has no history that it must reject", c.Name)
		}
	}
}

// After the next acquire no read names the releaser any more.
func TestReleased(t *testing.T) {
	for _, c := range []struct {
		name string
		bad  bool
		with []Record
	}{
		{"nobody", false, []Record{read("", 5, 6)}},
		{"the last", true, []Record{read("a", 5, 6)}},
		{"the last, as the next one takes it", true, []Record{read("a", 9, 10),
			op("b", "acquire", "true", 2, 8, 12), read("b", 13, 14)}},
		{"the next, as he takes it", false, []Record{read("", 9, 10), read("b", 10, 11),
			op("b", "acquire", "true", 2, 8, 12), read("b", 13, 14)}},
	} {
		violations, _, _ := check(t, "I8", history(t, append([]Record{
			op("a", "acquire", "true", 1, 1, 2), belief("a", "e", 1, 1, 2, 3, 4),
			op("a", "release", "true", 0, 3, 4)}, c.with...)...))
		if (len(violations) > 0) != c.bad {
			t.Errorf("%s: violations: %q", c.name, violations)
		}
	}
}

// A holder whose acquire was granted, but not answered yet, is visible to
// others, and does not lead when another of its sessions asks.
func TestUnheard(t *testing.T) {
	for _, asked := range []string{"release", "renew"} {
		for _, c := range []struct {
			name string
			bad  bool
			with []Record
		}{
			{"while it is granted", false, []Record{
				op("a", "acquire", "true", 1, 1, 10), op("a", asked, "false", 0, 5, 6)}},
			{"when it was told", true, []Record{
				op("a", "acquire", "true", 1, 1, 4), op("a", asked, "false", 0, 5, 6)}},
			{"when another session was told", true, []Record{
				op("a", "acquire", "true", 1, 1, 4), op("a", "acquire", "true", 1, 2, 10),
				op("a", asked, "false", 0, 5, 6)}},
			{"of a term of long ago", true, []Record{
				op("a", "acquire", "true", 1, 1, 4), op("a", "acquire", "true", 1, 5, 10),
				op("a", asked, "false", 0, 6, 7)}},
			{"while another's is granted", true, []Record{
				op("a", "acquire", "true", 1, 1, 4), op("b", "acquire", "false", 0, 5, 10),
				op("a", asked, "false", 0, 6, 7)}},
		} {
			violations, _, _ := check(t, "I8", history(t, append([]Record{
				belief("a", "e", 1, 1, 10, 20, 21), read("a", 3, 4)}, c.with...)...))
			if (len(violations) > 0) != c.bad {
				t.Errorf("%s, %s: violations: %q", asked, c.name, violations)
			}
		}
	}
}

// A check without records to judge must report it.
func TestCounts(t *testing.T) {
	h := history(t, belief("a", "e", 1, 0, 10, 20, 21), exempt("I1", 10, 16),
		belief("b", "e", 2, 0, 15, 30, 0))
	if v, judged, excused := check(t, "I1", h); judged != 2 || excused != 0 ||
		len(v) != 0 || h.apart["I1"] != 1 {
		t.Errorf("judged %d, excused %d, apart %d: %q", judged, excused, h.apart["I1"], v)
	}
	if _, judged, _ := check(t, "I3", h); judged != 0 {
		t.Errorf("judged %d commits of none", judged)
	}
	h = history(t, belief("a", "e", 1, 0, 10, 20, 21), belief("b", "e", 2, 22, 23, 30, 0),
		lock("a", 1, 15, 16), lock("", 1, 21, 22), lock("b", 2, 24, 25))
	if _, judged, _ := check(t, "I6", h); judged != 1 {
		t.Errorf("judged %d of one term that is over", judged)
	}
	for to, want := range map[int64]int{108: 0, 110: 1} { // the deadline is at 109
		h = history(t, belief("a", "e", 1, 0, 10, 105, 106),
			Record{Type: "silence", Holder: "a", From: 100 * s, To: to * s})
		if _, judged, _ := check(t, "G5", h); judged != want {
			t.Errorf("silence until %d: judged %d", to, judged)
		}
	}
}

// each has a little work for each check
var each = []Record{
	belief("a", "e", 1, 0, 10, 20, 21), commit("a", 1, 15), claim("a", "1", 1, 1),
	{Type: "gated", Holder: "a", Election: "e", Token: 1, From: 15 * s, To: 20 * s},
	key(1, 1, "S", "S"), key(2, 1, "", "S"), op("a", "acquire", "true", 1, 8, 9),
	{Type: "heal", At: 12 * s, To: 100 * s, Elections: []string{"e"}},
	{Type: "silence", Holder: "a", Kind: "cut", From: 15 * s, To: 40 * s},
}

// A check that judged no record fails the run, unless that was to be expected.
func TestIdle(t *testing.T) {
	for missing, c := range map[string]struct {
		without int
		idle    string
	}{
		"nothing": {-1, ""}, "commits": {1, "I3"}, "claims": {2, "I4"}, "gated statements": {3, "I5"},
		"releases": {5, "I6"}, "heals": {7, "I7"}, "silences": {8, "G5"},
	} {
		var some []Record
		for i, r := range each {
			if i != c.without {
				some = append(some, r)
			}
		}
		for _, partial := range []string{"", "some kinds of faults"} {
			var out bytes.Buffer
			h := history(t, some...)
			h.run.Partial = partial
			violations, idle := Report(&out, h)
			want := c.idle
			if partial != "" {
				want = ""
			}
			if violations != 0 || strings.Join(idle, " ") != want {
				t.Errorf("without %s: %d violations, idle %q\n%s", missing, violations, idle, &out)
			}
			if c.idle != "" && !strings.Contains(out.String(), map[bool]string{
				true: "NOTHING JUDGED by " + c.idle + "\n", false: c.idle + " judged nothing"}[partial == ""]) {
				t.Errorf("without %s, the report:\n%s", missing, &out)
			}
		}
	}
}

// Behavior of some stores only.
type ofStore struct {
	name   string
	grants string
	bad    bool
	with   []Record
}

func (c ofStore) run(t *testing.T) {
	h := history(t, c.with...)
	h.run.Grants = c.grants
	violations, _, _ := linearizable(h)
	if (len(violations) > 0) != c.bad {
		t.Errorf("violations: %q", violations)
	}
}

// A grant in two steps: an acquire in between is refused, and nobody leads.
func TestGrantBySteps(t *testing.T) {
	for _, c := range []ofStore{
		{"refused in between", "counted, in steps", false, []Record{
			op("a", "acquire", "true", 1, 1, 9), belief("a", "e", 1, 1, 9, 20, 0),
			op("b", "acquire", "false", 0, 2, 3), read("", 4, 5)}},
		{"refused in between, by another store", "", true, []Record{
			op("a", "acquire", "true", 1, 1, 9), belief("a", "e", 1, 1, 9, 20, 0),
			op("b", "acquire", "false", 0, 2, 3), read("", 4, 5)}},
		{"refused before it", "counted, in steps", true, []Record{
			op("b", "acquire", "false", 0, 2, 3), op("a", "acquire", "true", 1, 4, 9)}},
		{"refused after it", "counted, in steps", true, []Record{
			op("a", "acquire", "true", 1, 1, 2), op("a", "release", "true", 0, 3, 4),
			op("b", "acquire", "false", 0, 5, 6)}},
		{"refused by its own", "counted, in steps", true, []Record{
			op("b", "acquire", "true", 1, 1, 9), belief("b", "e", 1, 1, 9, 20, 0),
			op("b", "acquire", "false", 0, 2, 3), read("", 4, 5)}},
		{"refused by what may have been granted", "counted, in steps", false, []Record{
			op("a", "acquire", "unknown", 0, 1, 2), op("b", "acquire", "false", 0, 5, 6)}},
	} {
		t.Run(c.name, c.run)
	}
}

// An acquire that is granted twice, as news of the first grant came too late.
func TestGrantLetGoOf(t *testing.T) {
	for _, c := range []ofStore{
		{"shown as leader in between", "counted", false, []Record{
			op("a", "acquire", "true", 2, 1, 9), belief("a", "e", 2, 1, 9, 20, 0),
			read("a", 2, 3), read("", 4, 5), op("b", "acquire", "false", 0, 2, 3)}},
		{"another is granted in between", "counted", false, []Record{
			op("a", "acquire", "true", 3, 1, 9), belief("a", "e", 3, 1, 9, 20, 0), read("a", 2, 3),
			op("b", "acquire", "true", 2, 4, 5), op("b", "release", "true", 0, 6, 7)}},
		{"none of its tokens is missing", "counted", true, []Record{
			op("a", "acquire", "true", 1, 1, 9), belief("a", "e", 1, 1, 9, 20, 0),
			read("a", 2, 3), read("", 4, 5)}},
		{"none of its tokens is missing, though another's came in between", "counted", true, []Record{
			op("a", "acquire", "true", 2, 1, 9), belief("a", "e", 2, 1, 9, 20, 0),
			op("b", "acquire", "true", 1, 2, 3), op("b", "release", "true", 0, 4, 5),
			read("a", 5, 6), read("", 7, 8)}},
		{"the missing one is another's", "counted", true, []Record{
			op("a", "acquire", "true", 1, 1, 9), belief("a", "e", 1, 1, 9, 10, 11),
			read("a", 2, 3), read("", 4, 5), op("b", "acquire", "true", 3, 13, 14)}},
		{"more often than tokens are missing", "counted", true, []Record{
			op("a", "acquire", "true", 2, 1, 9), belief("a", "e", 2, 1, 9, 20, 0), read("a", 2, 3),
			op("c", "acquire", "true", 3, 31, 32), op("c", "release", "true", 0, 33, 34),
			op("b", "acquire", "true", 4, 41, 49), belief("b", "e", 4, 41, 49, 60, 0),
			read("b", 42, 43), read("", 44, 45)}},
		{"before it was called", "counted", true, []Record{
			op("a", "acquire", "true", 2, 4, 9), belief("a", "e", 2, 4, 9, 20, 0), read("a", 2, 3)}},
		{"by a store that does not count", "", true, []Record{
			op("a", "acquire", "true", 2, 1, 9), belief("a", "e", 2, 1, 9, 20, 0),
			read("a", 2, 3), read("", 4, 5)}},
	} {
		t.Run(c.name, c.run)
	}
}

func TestRead(t *testing.T) {
	run := `{"type":"run","store":"x","lease":1}` + "\n"
	end := `{"type":"end","at":5}` + "\n"
	for _, c := range []struct {
		name, text, wants string
	}{
		{"whole", run + end, ""},
		{"cut off in a line", run + end + `{"type":"bel`, ""},
		{"garbage", run + "garbage\n" + end, "line 2"},
		{"unknown type", run + `{"type":"surprise"}` + "\n" + end, "surprise"},
		{"unknown field", run + `{"type":"end","when":5}` + "\n", "when"},
		{"no run", end, "no record \"run\""},
		{"no end", run, "cut short"},
		{"two runs", run + run + end, "two records"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "h.jsonl"), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Read(dir)
			if (err == nil) != (c.wants == "") || (err != nil && !strings.Contains(err.Error(), c.wants)) {
				t.Errorf("error: %v", err)
			}
		})
	}
	if _, err := Read(t.TempDir()); err == nil {
		t.Error("an empty directory is a history")
	}
}

func TestReport(t *testing.T) {
	var out bytes.Buffer
	good := []Record{belief("a", "e", 1, 0, 10, 20, 21), belief("b", "e", 2, 0, 22, 30, 0),
		belief("a", "e", 5, 0, 40, 60, 0), {Type: "fault", Kind: "worker killed", From: 1, To: 2},
		{Type: "heal", At: 15 * s, To: 70 * s, Elections: []string{"e"}}}
	if n, _ := Report(&out, history(t, good...)); n != 0 {
		t.Errorf("%d violations:\n%s", n, &out)
	}
	for _, want := range []string{"no violations", "holder to another: 2\n", "2000.000 ms (least)", "worker killed"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no \"%s\" in:\n%s", want, &out)
		}
	}
	out.Reset()
	if n, _ := Report(&out, history(t, append(good, belief("b", "e", 6, 0, 50, 70, 0))...)); n != 1 {
		t.Errorf("%d violations", n)
	}
	if !strings.Contains(out.String(), "VIOLATION I1: e: a (token 5) and b (token 6)") ||
		strings.Contains(out.String(), "95 %") {
		t.Errorf("report:\n%s", &out)
	}
}

func TestUpperBound(t *testing.T) {
	for n, want := range map[int]string{1: "0.95", 100: "0.02951", 10000: "0.0002995"} {
		if got := fmt.Sprintf("%.4g", UpperBound(n)); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}
