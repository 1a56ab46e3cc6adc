package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Forged records: the judge must accept the good ones, and reject each in which
// one thing is changed, with the words for it. Leases are of 5000 ns here.

// worker is the line of one that has started, with what its store has.
func worker(at int, node, has string) string {
	return fmt.Sprintf(`{"at":%d,"line":"worker","node":"%s","incarnation":"%[2]s1","%s":1}`,
		at, node, has)
}

// node is a step of a node's machine: the states before and after, the input,
// and what is sent, with more of the actions.
func node(at int, node, was, input, send, is string) string {
	const timing = `,"lease":5000,"ttl":9000,"margin":500`
	return fmt.Sprintf(`{"at":%d,"line":"node","node":"%s","incarnation":"%[2]s1",`+
		`"session":"s%[2]s","was":{"state":%s%s},"input":{"now":%[1]d,"kind":%[5]s},`+
		`"does":{"send":[%s]},"is":{"state":%s%[4]s}}`, at, node, was, timing, input, send, is)
}

// elect is a step of the election "e".
func elect(at int, node, was, input, does, is string) string {
	return fmt.Sprintf(`{"at":%d,"line":"election","node":"%s","incarnation":"%[2]s1",`+
		`"session":"s%[2]s","election":"e","was":{"state":%s},"input":{"now":%[1]d,"lease":5000,`+
		`"margin":500,"kind":%[4]s},"does":{%s},"is":{"state":%s}}`, at, node, was, input, does, is)
}

// other is a line without a machine.
func other(at int, node, line string) string {
	return fmt.Sprintf(`{"at":%d,"node":"%s","incarnation":"%[2]s1","session":"s%[2]s","line":%s}`,
		at, node, line)
}

// withSessions: a leads, publishes, releases; b waits for that, leads, and ends.
func withSessions() string {
	return strings.Join([]string{
		worker(1000, "a", "sessions"),
		node(1000, "a", `"none"`, `"want"`, `"create"`, `"creating"`),
		node(1010, "a", `"creating"`, `"done","sent":1000`, `"register"`, `"registering"`),
		node(1020, "a", `"registering"`, `"done","sent":1010,"index":7`, ``, `"live","deadline":5510`),
		elect(1020, "a", `"idle"`, `"want"`, `"send":"read"`, `"reading","wanted":1`),
		elect(1030, "a", `"reading","wanted":1`, `"read","view":{"holder":"free"}`,
			`"send":"acquire"`, `"acquiring","wanted":1,"attempt_number":1`),
		elect(1040, "a", `"acquiring","wanted":1,"attempt_number":1`, `"done","index":8`,
			`"term_begins":1`, `"held","wanted":1,"attempt_number":1,"token":8,"write_index":8,"token_floor":8`),
		worker(1500, "b", "sessions"),
		node(1500, "b", `"none"`, `"want"`, `"create"`, `"creating"`),
		node(1510, "b", `"creating"`, `"done","sent":1500`, `"register"`, `"registering"`),
		node(1520, "b", `"registering"`, `"done","sent":1510,"index":9`, ``, `"live","deadline":6010`),
		elect(1520, "b", `"idle"`, `"want"`, `"send":"read"`, `"reading","wanted":1`),
		elect(1530, "b", `"reading","wanted":1`,
			`"read","view":{"holder":"other","exists":1,"usable":1,"index":8,"token":8}`, ``,
			`"waiting","wanted":1`),
		node(2000, "a", `"live","deadline":5510`, `"timer"`, `"renew","proof"`,
			`"live","deadline":5510,"proving":1,"renewing":1`),
		node(2010, "a", `"live","deadline":5510,"proving":1,"renewing":1`,
			`"proved","sent":2000,"index":10`, ``, `"live","deadline":6500,"renewing":1`),
		node(2020, "a", `"live","deadline":6500,"renewing":1`, `"renewed","sent":2000`, ``,
			`"live","deadline":6500`),
		elect(3000, "a", `"held","wanted":1,"attempt_number":1,"token":8,"write_index":8,"token_floor":8`,
			`"publish"`, `"send":"publish","index":8`,
			`"publishing","wanted":1,"attempt_number":1,"token":8,"write_index":8,"token_floor":8`),
		elect(3010, "a", `"publishing","wanted":1,"attempt_number":1,"token":8,"write_index":8,"token_floor":8`,
			`"done","index":11`, ``,
			`"held","wanted":1,"attempt_number":1,"token":8,"write_index":11,"token_floor":8`),
		worker(3020, "a", "sessions"),
		other(3020, "a", `"node resumed","was":{"state":"live","deadline":6500,"lease":5000,"ttl":9000,"margin":500}`),
		other(3020, "a", `"election resumed","election":"e","was":{"state":"held","wanted":1,"attempt_number":1,"token":8,"write_index":11,"token_floor":8}`),
		elect(4000, "a", `"held","wanted":1,"attempt_number":1,"token":8,"write_index":11,"token_floor":8`,
			`"unwant"`, `"term_ends":1,"send":"release","index":11`,
			`"releasing","attempt_number":1,"write_index":11,"token_floor":8`),
		elect(4010, "a", `"releasing","attempt_number":1,"write_index":11,"token_floor":8`,
			`"done","index":12`, ``, `"idle","attempt_number":1,"write_index":11,"token_floor":8`),
		elect(4020, "b", `"waiting","wanted":1,"token_floor":12`,
			`"seen","view":{"holder":"free","exists":1,"usable":1,"released":1,"index":12}`,
			`"send":"acquire","index":12`, `"acquiring","wanted":1,"attempt_number":1,"token_floor":12`),
		elect(4030, "b", `"acquiring","wanted":1,"attempt_number":1,"token_floor":12`, `"done","index":13`,
			`"term_begins":1`, `"held","wanted":1,"attempt_number":1,"token":13,"write_index":13,"token_floor":13`),
		elect(4035, "b", `"held","wanted":1,"attempt_number":1,"token":13,"write_index":13,"token_floor":13`,
			`"seen","view":{"holder":"ours","exists":1,"usable":1,"index":13,"token":13}`, ``,
			`"held","wanted":1,"attempt_number":1,"token":13,"write_index":13,"token_floor":13`),
		other(4040, "b", `"claim","election":"e","job":"j","found":{"exists":1,"tick":60,"try":1,"token":8,"state":"done"},"wish":{"tick":120,"token":13},"verdict":"take","try":1`),
		elect(4050, "a", `"idle","attempt_number":1,"write_index":11,"token_floor":13`,
			`"seen","view":{"holder":"other","exists":1,"usable":1,"index":13,"token":13}`, ``,
			`"idle","attempt_number":1,"write_index":11,"token_floor":13`),
		elect(5000, "b", `"held","wanted":1,"attempt_number":1,"token":13,"write_index":13,"token_floor":13`,
			`"node ended"`, `"term_ends":1`, `"waiting","wanted":1,"attempt_number":1,"write_index":13,"token_floor":13`),
		other(5010, "b", `"unlock","election":"e","index":13`),
		other(5020, "b", `"unlocked","election":"e","index":13,"outcome":"done","written":14`),
		elect(5030, "a", `"idle","attempt_number":1,"write_index":11,"token_floor":14`,
			`"seen","view":{"holder":"free","exists":1,"usable":1,"released":1,"index":14}`, ``,
			`"idle","attempt_number":1,"write_index":11,"token_floor":14`),
		node(5040, "b", `"live","deadline":6010`, `"proved","sent":5035,"index":15`, ``, `"live","deadline":6010`),
	}, "\n") + "\n"
}

// withLeases: a leads by a lease of the key's own, renews it and lets it run out;
// then b has it.
func withLeases() string {
	return strings.Join([]string{
		worker(1000, "a", "key_leases"),
		elect(1000, "a", `"idle"`, `"want"`, `"send":"read"`, `"reading","wanted":1`),
		elect(1010, "a", `"reading","wanted":1`, `"read","view":{"holder":"free"}`,
			`"send":"acquire"`, `"acquiring","wanted":1,"attempt_number":1`),
		elect(1020, "a", `"acquiring","wanted":1,"attempt_number":1`,
			`"done","index":1,"sent":1010,"deadline":5510`, `"term_begins":1,"deadline_moved":1`,
			`"held","wanted":1,"attempt_number":1,"token":1,"write_index":1,"token_floor":1,"deadline":5510`),
		elect(2020, "a", `"held","wanted":1,"attempt_number":1,"token":1,"write_index":1,"token_floor":1,"deadline":5510,"renewing":1`,
			`"renewed","sent":2000,"deadline":6500`, `"deadline_moved":1`,
			`"held","wanted":1,"attempt_number":1,"token":1,"write_index":1,"token_floor":1,"deadline":6500`),
		worker(3000, "b", "key_leases"),
		elect(3000, "b", `"idle"`, `"want"`, `"send":"read"`, `"reading","wanted":1`),
		elect(3010, "b", `"reading","wanted":1`, `"read","view":{"holder":"other","exists":1,"usable":1,"index":1,"token":1}`,
			``, `"waiting","wanted":1`),
		elect(7000, "b", `"waiting","wanted":1`, `"seen","view":{"holder":"free","exists":1,"usable":1,"released":1,"index":1,"token":1}`,
			`"send":"acquire","index":1`, `"acquiring","wanted":1,"attempt_number":1`),
		elect(7010, "b", `"acquiring","wanted":1,"attempt_number":1`,
			`"done","index":2,"sent":7000,"deadline":11500`, `"term_begins":1,"deadline_moved":1`,
			`"held","wanted":1,"attempt_number":1,"token":2,"write_index":2,"token_floor":2,"deadline":11500`),
		elect(7020, "b", `"held","wanted":1,"attempt_number":1,"token":2,"write_index":2,"token_floor":2,"deadline":11500`,
			`"seen","view":{"holder":"ours","exists":1,"usable":1,"index":2,"token":2}`, ``,
			`"held","wanted":1,"attempt_number":1,"token":2,"write_index":2,"token_floor":2,"deadline":11500`),
	}, "\n") + "\n"
}

// withLeasesFirst: a store where a lease comes before its token. The first acquire of a
// was applied, which a has not heard, and its lease ran out. The next one has the
// lease, and its token is not written yet: a sees its own token of before, under a
// lease that is another's. So it does again after its term.
func withLeasesFirst() string {
	const floor1 = `,"token_floor":1`
	const held2 = `"held","wanted":1,"attempt_number":2,"token":2,"write_index":2,"token_floor":2,"deadline":10550`
	const tried3 = `"wanted":1,"attempt_number":3,"write_index":2,"token_floor":2`
	return strings.Join([]string{
		worker(1000, "a", "key_leases"),
		elect(1000, "a", `"idle"`, `"want"`, `"send":"read"`, `"reading","wanted":1`),
		elect(1010, "a", `"reading","wanted":1`, `"read","view":{"holder":"free"}`,
			`"send":"acquire"`, `"acquiring","wanted":1,"attempt_number":1`),
		elect(1020, "a", `"acquiring","wanted":1,"attempt_number":1`, `"unknown"`,
			`"send":"read"`, `"acquire unsure","wanted":1,"attempt_number":1`),
		elect(6030, "a", `"acquire unsure","wanted":1,"attempt_number":1`+floor1,
			`"read","view":{"holder":"free","exists":1,"usable":1,"released":1,"index":1,"token":1}`,
			`"send":"acquire","index":1`, `"acquiring","wanted":1,"attempt_number":2`+floor1),
		elect(6040, "a", `"acquiring","wanted":1,"attempt_number":2`+floor1, `"unknown"`,
			`"send":"read"`, `"acquire unsure","wanted":1,"attempt_number":2`+floor1),
		elect(6050, "a", `"acquire unsure","wanted":1,"attempt_number":2`+floor1,
			`"read","view":{"holder":"other","exists":1,"usable":1,"index":1,"token":1}`,
			`"send":"acquire","index":1`, `"acquiring","wanted":1,"attempt_number":2`+floor1),
		elect(6060, "a", `"acquiring","wanted":1,"attempt_number":2`+floor1,
			`"done","index":2,"sent":6050,"deadline":10550`, `"term_begins":1,"deadline_moved":1`, held2),
		elect(6100, "a", held2, `"seen","view":{"holder":"ours","exists":1,"usable":1,"index":2,"token":2}`,
			``, held2),
		elect(10560, "a", held2, `"expired"`, `"term_ends":1,"send":"release","index":2`,
			`"releasing","wanted":1,"attempt_number":2,"write_index":2,"token_floor":2`),
		elect(10570, "a", `"releasing","wanted":1,"attempt_number":2,"write_index":2,"token_floor":2`,
			`"done","index":2`, `"send":"acquire","index":2`, `"acquiring",`+tried3),
		elect(10580, "a", `"acquiring",`+tried3, `"unknown"`, `"send":"read"`, `"acquire unsure",`+tried3),
		elect(10590, "a", `"acquire unsure",`+tried3,
			`"read","view":{"holder":"other","exists":1,"usable":1,"index":2,"token":2}`,
			`"send":"acquire","index":2`, `"acquiring",`+tried3),
		elect(10600, "a", `"acquiring",`+tried3,
			`"done","index":3,"sent":10590,"deadline":15090`, `"term_begins":1,"deadline_moved":1`,
			`"held","wanted":1,"attempt_number":3,"token":3,"write_index":3,"token_floor":3,"deadline":15090`),
	}, "\n") + "\n"
}

func judge(t *testing.T, text string) *Judgement {
	t.Helper()
	file := filepath.Join(t.TempDir(), "worker-1.jsonl")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	lines, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	return Judge(lines)
}

func TestAcceptsSteps(t *testing.T) {
	for _, record := range []string{withSessions(), withLeases(), withLeasesFirst()} {
		j := judge(t, record)
		for _, wrong := range j.Wrong {
			t.Error(wrong)
		}
		handovers := strings.Count(record, `"line":"worker","node":"b"`)
		if j.Terms != 2 || j.Handovers != handovers || j.sum() < 20 {
			t.Errorf("%d terms, %d handovers, %d checks", j.Terms, j.Handovers, j.sum())
		}
	}
}

// Each: in which record what becomes of which text, and the words for it.
var forged = []struct {
	record   func() string
	from, to string
	words    string
}{
	// deadlines of sessions
	{withSessions, `"live","deadline":5510`, `"live","deadline":5511`, "later than lease - margin after the proof"},
	{withSessions, `"proved","sent":2000,"index":10`, `"proved","sent":2000,"index":7`, "later than lease - margin after the proof"},
	{withSessions, `"done","sent":1000`, `"done","sent":-3000`, "later than session TTL - margin after the renewal"},
	{withSessions, `"proved","sent":2000`, `"proved","sent":1999`, "at which it was not sent"},
	{withSessions, `"renewed","sent":2000`, `"renewed","sent":2020`, "at which it was not sent"},
	{withSessions, `"renew","proof"`, `"renew","proof","destroy"`, "that may hold keys"},
	// requests
	{withSessions, `"was":{"state":"publishing"`, `"was":{"state":"held"`, "an answer to a write that nobody sent"},
	{withSessions, `"was":{"state":"reading"`, `"was":{"state":"waiting"`, "an answer to a read that nobody sent"},
	// one register
	{withSessions, `"done","index":11`, `"done","index":7`, "gave index 7"},
	{withSessions, `"send":"acquire","index":12`, `"send":"acquire","index":8`, "were both applied"},
	{withSessions, `"done","index":13`, `"done","index":12`, "gave index 12"},
	{withSessions, `"send":"release","index":11`, `"send":"release","index":9`, "which nobody has shown"},
	{withSessions, `"releasing","attempt_number":1,`, `"releasing","token":8,"attempt_number":1,`, "released while believing"},
	{withSessions, `"index":8,"token":8}`, `"index":9,"token":9}`, "which nobody here wrote"},
	{withSessions, `"other","exists":1,"usable":1,"index":13`, `"ours","exists":1,"usable":1,"index":13`, "ours at index 13"},
	{withSessions, `"other","exists":1,"usable":1,"index":13`, `"free","exists":1,"usable":1,"index":13`, "free at index 13"},
	{withSessions, `"index":14}`, `"index":16}`, "which nobody here wrote"},
	{withSessions, `"written":14`, `"written":13`, "gave index 13"},
	{withSessions, `"send":"acquire","index":12`, `"send":"take over","index":12`, "somebody who is not silent"},
	{withSessions, `"usable":1,"released":1,"index":14}`, `"usable":1,"index":15}`, "without a word"},
	// terms
	{withSessions, `"done","index":13`, `"done","index":14`, "which the store did not give"},
	{withSessions, `"term_ends":1,"send":"release"`, `"send":"release"`, "before the end of token 8"},
	// claims
	{withSessions, `"tick":60`, `"tick":180`, "tick 120 is claimed after 180"},
	{withSessions, `"tick":60`, `"tick":120`, "not to catch up"},
	{withSessions, `"verdict":"take","try":1`, `"verdict":"take","try":2`, "a first try is number 2"},
	// nobody else changes a machine
	{withSessions, `"waiting","wanted":1,"token_floor":12`, `"waiting","token_floor":12`, "wanted changed"},
	{withSessions, `"idle","attempt_number":1,"write_index":11,"token_floor":14`, `"idle","attempt_number":1,"write_index":11,"token_floor":12`, "sank"},
	{withSessions, `"was":{"state":"live","deadline":6500,"renewing":1,"lease":5000`, `"was":{"state":"live","deadline":6500,"renewing":1,"lease":6000`, "lease changed"},
	{withSessions, `"token":8,"write_index":11,"token_floor":8}}`, `"token":8,"write_index":11,"token_floor":8},"is":{"state":"held"}}`, "a new worker has changed token"},
	{withSessions, `"deadline":6500,"lease":5000,"ttl":9000,"margin":500}}`, `"deadline":6500,"lease":5000,"ttl":9000,"margin":500},"is":{"state":"live","deadline":6501}}`, "a new worker has changed deadline"},
	// leases of keys
	{withLeases, `"deadline":5510`, `"deadline":5511`, "trust beyond lease - margin"},
	{withLeases, `"sent":1010`, `"sent":1009`, "at which it was not sent"},
	{withLeases, `"sent":2000,"deadline":6500`, `"sent":1019,"deadline":5519`, "not the answer's"},
	{withLeases, `"deadline":5510,"renewing":1`, `"deadline":5510`, "a renewal that was not sent"},
	{withLeases, `"done","index":2`, `"done","index":1`, "gave index 1"},
	{withLeases, `"other","exists":1`, `"ours","exists":1`, "ours at index 1"},
	{withLeases, `"at":7010`, `"at":6020`, "before the end of token 1"},
	// one's own token, under the lease of another acquire
	{withSessions, `"ours","exists":1,"usable":1,"index":13`, `"other","exists":1,"usable":1,"index":13`, "another's at index 13"},
	{withLeases, `"ours","exists":1,"usable":1,"index":2`, `"other","exists":1,"usable":1,"index":2`, "another's at index 2"},
	{withLeasesFirst, `"ours","exists":1,"usable":1,"index":2`, `"other","exists":1,"usable":1,"index":2`, "another's at index 2"},
	{withLeasesFirst, `"send":"acquire","index":1`, `"send":"acquire"`, "other at index 1, which nobody here wrote"},
	{withLeasesFirst, `"send":"acquire","index":2`, `"send":"acquire","index":1`, "another's at index 2"},
	{withLeasesFirst, `"key_leases"`, `"sessions"`, "other at index 1, which nobody here wrote"},
}

func TestRejectsForgedSteps(t *testing.T) {
	for _, f := range forged {
		record := f.record()
		if !strings.Contains(record, f.from) {
			t.Errorf("no %s to forge", f.from)
			continue
		}
		said := strings.Join(judge(t, strings.ReplaceAll(record, f.from, f.to)).Wrong, "\n")
		if !strings.Contains(said, f.words) {
			t.Errorf("%s for %s: not rejected as %q, but: %s", f.to, f.from, f.words, said)
		}
	}
}

// A session of which the store has freed a key proves nothing any more.
func TestSessionsThatHaveEnded(t *testing.T) {
	record := withSessions()
	for _, forge := range [][2]string{
		{`"unlock","election":"e","index":13`, `"accept","election":"other"`},
		{`"unlocked","election":"e"`, `"accept","election":"other"`},
		{`"released":1,"index":14}`, `"index":14}`},
	} {
		record = strings.ReplaceAll(record, forge[0], forge[1])
	}
	j := judge(t, record)
	if len(j.Wrong) != 1 || !strings.Contains(j.Wrong[0], "after its session had ended, at 14") {
		t.Error("a proof by a session that has ended is not all that is wrong: ", j.Wrong)
	}
}

// A deed explains what nobody wrote, and nothing else.
func TestDeeds(t *testing.T) {
	hand := other(1525, "", `"deed","election":"e","what":"key overwritten"`) + "\n"
	written := strings.ReplaceAll(withSessions(), `"index":8,"token":8}`, `"index":9,"token":9}`)
	if j := judge(t, hand+written); len(j.Wrong) > 0 {
		t.Error("a deed does not explain a state of the key: ", j.Wrong)
	}
	late := strings.ReplaceAll(withSessions(), `"live","deadline":5510`, `"live","deadline":5511`)
	if j := judge(t, hand+late); len(j.Wrong) == 0 {
		t.Error("a deed excuses a deadline")
	}
}

// contended: a and b acquire a key that nobody has. The one of b is refused; that
// of a was applied, which c sees first, and of which a has no answer yet.
func contended() string {
	const view = `"view":{"holder":"other","exists":1,"usable":1,"index":8,"token":8}`
	return strings.Join([]string{
		worker(1000, "a", "sessions"),
		worker(1000, "b", "sessions"),
		worker(1000, "c", "sessions"),
		elect(1010, "a", `"reading","wanted":1`, `"read","view":{"holder":"free"}`,
			`"send":"acquire"`, `"acquiring","wanted":1,"attempt_number":1`),
		elect(1020, "b", `"reading","wanted":1`, `"read","view":{"holder":"free"}`,
			`"send":"acquire"`, `"acquiring","wanted":1,"attempt_number":1`),
		elect(1030, "b", `"acquiring","wanted":1,"attempt_number":1`, `"conflict","conflict":"held"`,
			``, `"waiting","wanted":1,"attempt_number":1`),
		elect(1040, "c", `"idle"`, `"seen",`+view, ``, `"idle"`),
		elect(1050, "b", `"waiting","wanted":1,"attempt_number":1`, `"seen",`+view, ``,
			`"waiting","wanted":1,"attempt_number":1`),
		elect(1060, "a", `"acquiring","wanted":1,"attempt_number":1`, `"seen",`+
			strings.Replace(view, "other", "ours", 1), ``, `"acquiring","wanted":1,"attempt_number":1`),
	}, "\n") + "\n"
}

// A write without an answer is the one that agrees with all that was shown of it.
func TestUnheard(t *testing.T) {
	if j := judge(t, contended()); len(j.Wrong) > 0 {
		t.Error("what a wrote is not taken for that: ", j.Wrong)
	}
	lines := strings.SplitAfter(contended(), "\n")
	seenByB := strings.Join(lines[:8], "")
	if j := judge(t, seenByB); len(j.Wrong) > 0 {
		t.Error("what b did not write is taken for its own: ", j.Wrong)
	}
	for name, forged := range map[string]string{
		"both see it as theirs": strings.Replace(contended(), `"seen","view":{"holder":"other"`,
			`"seen","view":{"holder":"ours"`, 2),
		"nobody but b has written": strings.Replace(seenByB, lines[3], "", 1),
	} {
		if j := judge(t, forged); len(j.Wrong) == 0 {
			t.Error(name, ": not rejected")
		}
	}
}

// takenOver: c, which stands still, holds two keys, e at 5 and f at 6. A late
// takeover of a, of which it never hears, gets e at 8, and a frees that, at 9,
// when its session ends; the store ends that of c, and frees f at 7. Then c
// releases e, to no effect.
func takenOver() string {
	const held = `"held","wanted":1,"attempt_number":1,"token":5,"write_index":5,"token_floor":5`
	const over = `"silent_at":2000,"exists":1,"usable":1,"index":5,"token":5}`
	f := strings.NewReplacer(`"election":"e"`, `"election":"f"`)
	return strings.Join([]string{
		worker(1000, "a", "sessions"),
		worker(1000, "b", "sessions"),
		worker(1000, "c", "sessions"),
		node(1000, "c", `"registering"`, `"done","index":4`, ``, `"live"`),
		elect(1010, "c", `"reading","wanted":1`, `"read","view":{"holder":"free"}`,
			`"send":"acquire"`, `"acquiring","wanted":1,"attempt_number":1`),
		elect(1020, "c", `"acquiring","wanted":1,"attempt_number":1`, `"done","index":5`, `"term_begins":1`, held),
		f.Replace(elect(1030, "c", `"reading","wanted":1`, `"read","view":{"holder":"free"}`,
			`"send":"acquire"`, `"acquiring","wanted":1,"attempt_number":1`)),
		f.Replace(elect(1040, "c", `"acquiring","wanted":1,"attempt_number":1`, `"done","index":6`,
			``, `"releasing","wanted":1,"attempt_number":1`)),
		elect(2010, "a", `"waiting","wanted":1`, `"seen","view":{"holder":"other",`+over,
			`"send":"take over","index":5`, `"acquiring","wanted":1,"attempt_number":1`),
		elect(2020, "a", `"acquiring","wanted":1,"attempt_number":1`, `"node ended"`,
			``, `"waiting","wanted":1,"attempt_number":1`),
		other(2030, "a", `"unlock","election":"e","index":8`),
		other(2040, "a", `"unlocked","election":"e","index":8,"outcome":"conflict"`),
		elect(2050, "c", held, `"unwant"`, `"term_ends":1,"send":"release","index":5`,
			`"releasing","attempt_number":1,"write_index":5,"token_floor":5`),
		elect(2060, "c", `"releasing","attempt_number":1,"write_index":5,"token_floor":5`, `"node ended"`,
			``, `"idle","attempt_number":1,"write_index":5,"token_floor":5`),
		f.Replace(elect(2070, "b", `"idle"`, `"seen","view":{"holder":"free","exists":1,"usable":1,"index":7}`, ``, `"idle"`)),
		elect(2070, "b", `"idle"`, `"seen","view":{"holder":"free","exists":1,"usable":1,"released":1,"index":9}`, ``, `"idle"`),
	}, "\n") + "\n"
}

// A key that a session frees was that session's.
func TestUnlocks(t *testing.T) {
	if j := judge(t, takenOver()); len(j.Wrong) > 0 {
		t.Error("what c released is taken for what a freed: ", j.Wrong)
	}
	forged := strings.NewReplacer(`"unlock"`, `"accept"`, `"unlocked"`, `"accept"`).Replace(takenOver())
	said := strings.Join(judge(t, forged).Wrong, "\n")
	if !strings.Contains(said, "release by c on 5 was applied as 9, after its session had ended, at 7") {
		t.Error("a session that has ended releases a key: ", said)
	}
}

// outOfOrder: somebody deletes the key of a, of which a has no answer yet, and b
// gets it; then a begins its term, with the lower token.
func outOfOrder(deed string) string {
	return strings.Join([]string{
		worker(1000, "a", "sessions"),
		worker(1000, "b", "sessions"),
		elect(1010, "a", `"reading","wanted":1`, `"read","view":{"holder":"free"}`,
			`"send":"acquire"`, `"acquiring","wanted":1,"attempt_number":1`),
		deed,
		elect(1030, "b", `"reading","wanted":1`, `"read","view":{"holder":"free"}`,
			`"send":"acquire"`, `"acquiring","wanted":1,"attempt_number":1`),
		elect(1040, "b", `"acquiring","wanted":1,"attempt_number":1`, `"done","index":9,"sent":1030,"deadline":5530`,
			`"term_begins":1`, `"held","wanted":1,"attempt_number":1,"token":9,"write_index":9,"token_floor":9,"deadline":5530`),
		elect(1050, "a", `"acquiring","wanted":1,"attempt_number":1`, `"done","index":8,"sent":1010,"deadline":5510`,
			`"term_begins":1`, `"held","wanted":1,"attempt_number":1,"token":8,"write_index":8,"token_floor":8,"deadline":5510`),
	}, "\n") + "\n"
}

// Tokens rise, but for a minute after somebody has edited the key.
func TestTokensAfterDeeds(t *testing.T) {
	const deed = `{"at":%d,"line":"deed","election":"%s","what":"two may believe"}`
	if j := judge(t, outOfOrder(fmt.Sprintf(deed, 1020, "e"))); len(j.Wrong) > 0 {
		t.Error("a deed does not excuse a lower token: ", j.Wrong)
	}
	for _, other := range []string{fmt.Sprintf(deed, 1020, "f"), fmt.Sprintf(deed, 1060, "e"),
		fmt.Sprintf(deed, 1050-minute-1, "e")} {
		said := strings.Join(judge(t, outOfOrder(other)).Wrong, "\n")
		if !strings.Contains(said, "token 8 after 9") {
			t.Errorf("%s excuses a lower token: %s", other, said)
		}
	}
}

// twice: b, and then a, which gets it, acquire where no key is. The key is
// deleted, a late copy of the request of a gets it again, and b is refused; c sees it.
func twice(deed string) string {
	const asks, held = `"acquiring","wanted":1,"attempt_number":1`,
		`"held","wanted":1,"attempt_number":1,"token":8,"write_index":8,"token_floor":8`
	return strings.Join([]string{
		worker(1000, "a", "sessions"),
		worker(1000, "b", "sessions"),
		worker(1000, "c", "sessions"),
		node(1000, "a", `"registering"`, `"done","sent":990,"index":7`, ``, `"live","deadline":5490`),
		elect(1010, "a", `"reading","wanted":1`, `"read","view":{"holder":"free"}`, `"send":"acquire"`, asks),
		elect(1010, "b", `"reading","wanted":1`, `"read","view":{"holder":"free"}`, `"send":"acquire"`, asks),
		elect(1020, "a", asks, `"done","index":8`, `"term_begins":1`, held),
		deed,
		elect(1040, "b", asks, `"conflict","outcome":"conflict","conflict":"held"`, ``, `"waiting","wanted":1,"attempt_number":1`),
		elect(1050, "c", `"waiting","wanted":1`,
			`"seen","view":{"holder":"other","exists":1,"usable":1,"index":10,"token":10}`, ``, `"waiting","wanted":1`),
		elect(1060, "a", held, `"seen","view":{"holder":"ours","exists":1,"usable":1,"index":10,"token":10}`,
			`"term_ends":1`, `"reading","wanted":1,"attempt_number":1,"write_index":8,"token_floor":8`),
	}, "\n") + "\n"
}

// A copy of an acquire is applied a second time only if somebody has deleted the
// key.
func TestCopiesAfterDeeds(t *testing.T) {
	const deed = `{"at":%d,"line":"deed","election":"%s","what":"two may believe"}`
	if j := judge(t, twice(fmt.Sprintf(deed, 1030, "e"))); len(j.Wrong) > 0 {
		t.Error("a late copy is not known: ", j.Wrong)
	}
	for _, other := range []string{fmt.Sprintf(deed, 1030, "f"), fmt.Sprintf(deed, 1070, "e")} {
		said := strings.Join(judge(t, twice(other)).Wrong, "\n")
		if !strings.Contains(said, "at index 10, which nobody here wrote") {
			t.Errorf("%s excuses a copy: %s", other, said)
		}
	}
}

// A line that a kill has cut off is none; one of another kind is an error.
func TestReads(t *testing.T) {
	if j := judge(t, withSessions()+`{"at":9000,"line":"elec`); len(j.Wrong) > 0 {
		t.Error("a line that is cut off is judged: ", j.Wrong)
	}
	file := filepath.Join(t.TempDir(), "worker-1.jsonl")
	_ = os.WriteFile(file, []byte(`{"at":9000,"line":"news"}`+"\n"), 0o600)
	if _, err := Read(file); err == nil {
		t.Error("a line of an unknown kind is read")
	}
}

// Nothing to judge is no success.
func TestReports(t *testing.T) {
	var out bytes.Buffer
	Report(&out, judge(t, worker(1000, "a", "sessions")+"\n"), 1)
	if !strings.Contains(out.String(), "NOTHING TO JUDGE") {
		t.Error("a record without a term: ", out.String())
	}
}
