package main

import (
	"fmt"
	"math"
	"sort"
	"strconv"
)

// Violation is a proof that a promise was broken: checks report only certain
// breaches, given how the records were taken.
type Violation struct {
	Check string
	Text  string
}

// Checker judges a history; it also counts the records that it judged, so that
// a check that saw none does not pass for a success.
type Checker struct {
	Name  string
	What  string
	Check func(*History) (violations []string, judged, excused int)
}

var checkers = []Checker{
	{"I1", "beliefs of two holders never overlap", disjoint},
	{"I2", "tokens strictly increase, one holder each", increasing},
	{"I3", "no fenced commit after a later term began", fenced},
	{"I4", "at most one run per tick and try, none lost", claimed},
	{"I5", "gated statements end when the term does", stopped},
	{"I6", "no release frees a successor, nothing stays held", released},
	{"I7", "a leader within the bound once faults stop", led},
	{"I8", "acquire, renew, release, read are linearizable", linearizable},
	{"G5", "who hears nothing stops believing by its deadline", silenced},
}

func ms(ns int64) string {
	return fmt.Sprintf("%.3f ms", float64(ns)/1e6)
}

// disjoint: I1. An interval of belief lasts from the first answer to the last
// question, so it is never longer than the true belief.
func disjoint(h *History) (violations []string, judged, excused int) {
	for _, election := range sortedKeys(byElection(h.beliefs)) {
		beliefs := byElection(h.beliefs)[election] // by First
		var open []Record
		for _, b := range beliefs {
			still := open[:0]
			for _, a := range open {
				if a.Last > b.First {
					still = append(still, a)
				}
			}
			open = still
			for _, a := range open {
				to := min64(a.Last, b.Last)
				if to <= b.First || (a.Holder == b.Holder && a.Token == b.Token) {
					continue
				}
				if h.exempt("I1", election, b.First) {
					continue
				}
				violations = append(violations, fmt.Sprintf(
					"%s: %s (token %d) and %s (token %d) both led for %s from %d on",
					election, a.Holder, a.Token, b.Holder, b.Token, ms(to-b.First), b.First))
			}
			open = append(open, b)
			judged++
		}
	}
	return
}

// increasing: I2. A token was issued not before Low and not after First; an
// acquire that returned it was over at Return.
func increasing(h *History) (violations []string, judged, excused int) {
	type issue struct {
		token, low, high int64
		holders          map[string]bool
	}
	all := map[string]map[int64]*issue{}
	note := func(election, holder string, token, low, high int64) {
		if token == 0 {
			return
		}
		if all[election] == nil {
			all[election] = map[int64]*issue{}
		}
		i := all[election][token]
		if i == nil {
			i = &issue{token: token, high: math.MaxInt64, holders: map[string]bool{}}
			all[election][token] = i
		}
		i.holders[holder] = true
		i.low = max64(i.low, low)
		i.high = min64(i.high, high)
	}
	lowest := map[string]map[string]map[int64]int64{}
	for _, b := range h.beliefs {
		// The first sighting with this holder tells when it was issued.
		e := lowest[b.Election]
		if e == nil {
			e = map[string]map[int64]int64{}
			lowest[b.Election] = e
		}
		if e[b.Holder] == nil {
			e[b.Holder] = map[int64]int64{}
		}
		low := b.Low
		if _, again := e[b.Holder][b.Token]; again {
			low = 0
		}
		e[b.Holder][b.Token] = low
		note(b.Election, b.Holder, b.Token, low, b.First)
	}
	for _, o := range h.ops {
		if o.Op == "acquire" && o.Result == "true" {
			note(o.Election, o.Holder, o.Token, 0, o.Return)
		}
	}
	for _, election := range sortedKeys(all) {
		var issues []*issue
		for _, i := range all[election] {
			issues = append(issues, i)
		}
		sort.Slice(issues, func(a, b int) bool { return issues[a].token > issues[b].token })
		earliest := &issue{high: math.MaxInt64}
		for _, i := range issues {
			judged++
			if len(i.holders) > 1 {
				violations = append(violations, fmt.Sprintf("%s: token %d of several holders: %v",
					election, i.token, sortedKeys(i.holders)))
			}
			if i.low > earliest.high {
				violations = append(violations, fmt.Sprintf(
					"%s: token %d (%v) was given after %d, when token %d (%v) was in use",
					election, i.token, sortedKeys(i.holders), i.low,
					earliest.token, sortedKeys(earliest.holders)))
			}
			if i.high < earliest.high {
				earliest = i
			}
		}
	}
	return
}

// fenced: I3. The check at commit is made after COMMIT was sent. If another
// holder had led by then, the term was over.
func fenced(h *History) (violations []string, judged, excused int) {
	beliefs := byElection(h.beliefs)
	for _, c := range h.commits {
		if c.Result != "true" {
			continue
		}
		judged++
		for _, b := range beliefs[c.Election] {
			if b.Token <= c.Token || b.First >= c.Call {
				continue
			}
			if h.exempt("I3", c.Election, c.Call) {
				break
			}
			violations = append(violations, fmt.Sprintf(
				"%s: %s committed with token %d, sent at %d, %s after %s led with token %d",
				c.Election, c.Holder, c.Token, c.Call, ms(c.Call-b.First), b.Holder, b.Token))
			break
		}
	}
	return
}

// claimed: I4.
func claimed(h *History) (violations []string, judged, excused int) {
	type run struct {
		election, job, tick string
		try                 int64
	}
	first := map[run]Record{}
	last := map[run]Record{} // by tick, try 0: the newest
	for _, c := range h.claims {
		judged++
		if c.Result != "true" {
			continue
		}
		r := run{c.Election, c.Job, c.Tick, c.Try}
		if other, twice := first[r]; twice {
			violations = append(violations, fmt.Sprintf(
				"%s: job %s, tick %s, try %d: claimed by %s (token %d) and by %s (token %d)",
				c.Election, c.Job, c.Tick, c.Try, other.Holder, other.Token, c.Holder, c.Token))
		}
		first[r] = c
	}
	for r, c := range first {
		t := run{r.election, r.job, r.tick, 0}
		if l, ok := last[t]; !ok || c.Try > l.Try {
			last[t] = c
		}
	}
	for r, c := range first {
		for other, d := range first {
			if other.election == r.election && other.job == r.job && other.tick == r.tick &&
				other.try > r.try && d.Token <= c.Token {
				violations = append(violations, fmt.Sprintf(
					"%s: job %s, tick %s: try %d with token %d, not above token %d of try %d",
					r.election, r.job, r.tick, other.try, d.Token, c.Token, r.try))
			}
		}
	}
	for _, t := range h.ticks {
		if !t.Required {
			continue
		}
		judged++
		if _, ok := last[run{t.Election, t.Job, t.Tick, 0}]; !ok {
			violations = append(violations, fmt.Sprintf(
				"%s: job %s, tick %s: no run, though no fault came near it",
				t.Election, t.Job, t.Tick))
		}
	}
	vanished, n := vanished(h)
	violations = append(violations, vanished...)
	judged += n
	sort.Strings(violations)
	return
}

// vanished: of jobs that catch up, a tick that was begun is committed before a
// newer one is claimed, by any run. The last one begun may be left.
func vanished(h *History) (violations []string, judged int) {
	type job struct{ election, job string }
	type run struct {
		job
		tick int64
	}
	newest := map[job]int64{}
	begun := map[run]Record{}
	ran := map[run]bool{}
	for _, r := range h.ran {
		ran[run{job{r.Election, r.Job}, number(r.Tick)}] = true
	}
	for _, b := range h.begun {
		r := run{job{b.Election, b.Job}, number(b.Tick)}
		begun[r] = b
		newest[r.job] = max64(newest[r.job], r.tick)
	}
	for r, b := range begun {
		if r.tick == newest[r.job] {
			continue
		}
		judged++
		if !ran[r] {
			violations = append(violations, fmt.Sprintf(
				"%s: job %s, tick %d: begun by %s, never done, and the tick %d was begun",
				r.election, r.job.job, r.tick, b.Holder, newest[r.job]))
		}
	}
	return
}

// number: the ticks of the harness count intervals.
func number(tick string) int64 {
	n, err := strconv.ParseInt(tick, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// stopped: I5. A process that is itself stopped by the harness cannot end
// anything; its commit would be refused, which is I3's concern.
func stopped(h *History) (violations []string, judged, excused int) {
	ends := ends(h)
	for _, g := range h.gated {
		end, ok := ends[term{g.Holder, g.Election, g.Token}]
		if !ok || end.until == 0 {
			continue
		}
		judged++
		if late := g.To - end.until - h.run.CancelBound; late > 0 {
			if h.hindered(nodeOf(g.Holder), end.until-h.run.CancelBound, g.To) {
				excused++
				continue
			}
			violations = append(violations, fmt.Sprintf(
				"%s: a statement of %s under token %d went on for %s after its term",
				g.Election, g.Holder, g.Token, ms(g.To-end.until)))
		}
	}
	return
}

// hindered tells whether processes of the instance were stopped meanwhile.
func (h *History) hindered(node string, from, to int64) bool {
	for _, f := range h.faults {
		if f.Target == node && f.From < to && f.To > from &&
			(f.Kind == "instance stopped" || f.Kind == "backend stopped") {
			return true
		}
	}
	return false
}

// released: I6, by the store's view of keys, and of the leftovers.
func released(h *History) (violations []string, judged, excused int) {
	for _, check := range []func(*History) ([]string, int, int){byItsHolder, believedNoMore} {
		v, j, e := check(h)
		violations, judged, excused = append(violations, v...), judged+j, excused+e
	}
	for _, l := range h.lefts {
		violations = append(violations, fmt.Sprintf("left behind: %s", l.What))
	}
	return
}

// byItsHolder: Consul counts acquisitions of a key in LockIndex, and its value
// names the releaser. A release by another session than the holder, without an
// acquisition in between, took the key from its holder.
func byItsHolder(h *History) (violations []string, judged, excused int) {
	for _, election := range sortedKeys(byElection(h.keys)) {
		var held Record
		for _, k := range byElection(h.keys)[election] {
			if k.Session != "" {
				held = k
				continue
			}
			if !k.Released || held.Session == "" || held.LockIndex != k.LockIndex {
				continue
			}
			judged++
			if held.Session != k.ValueSession && !h.exempt("I6", election, k.At) {
				violations = append(violations, fmt.Sprintf(
					"%s: held by %s at index %d, released by %s at index %d",
					election, held.Session, held.Index, k.ValueSession, k.Index))
			}
		}
	}
	return
}

// believedNoMore: a free lock in Cassandra keeps only its token, and does not
// name the releaser. But a holder releases its lock, or lets it run out, only
// after it has stopped believing in its term. If it still believes when the
// lock is seen free, or in a later term, then another client has freed it. A
// term that is over stays so; therefore it was over when the answer arrived,
// however old that was. Only terms with a recorded belief are judged.
func believedNoMore(h *History) (violations []string, judged, excused int) {
	locks, beliefs := byElection(h.locks), byElection(h.beliefs)
	for _, election := range sortedKeys(locks) {
		type last struct {
			holder string
			at     int64
		}
		believed := map[int64]last{} // by token
		for _, b := range beliefs[election] {
			if l, ok := believed[b.Token]; !ok || b.Last > l.at {
				believed[b.Token] = last{b.Holder, b.Last}
			}
		}
		var seen int64 // the highest token shown to be over, or to be held
		for _, l := range locks[election] {
			if l.Token < seen {
				violations = append(violations, fmt.Sprintf(
					"%s: the store shows token %d at %d, and had shown %d before",
					election, l.Token, l.Return, seen))
			}
			seen = max64(seen, l.Token)
			for token, b := range believed {
				if token > l.Token || (token == l.Token && !l.Free) {
					continue
				}
				delete(believed, token)
				judged++
				if b.at < l.Return {
					continue
				}
				if h.exempt("I6", election, l.Return) {
					continue
				}
				violations = append(violations, fmt.Sprintf(
					"%s: %s believed in its term, token %d, for %s after the store had shown it to be over",
					election, b.holder, token, ms(b.at-l.Return)))
			}
		}
	}
	sort.Strings(violations)
	return
}

// led: I7. From a heal until the next fault, no fault prevents a leader.
func led(h *History) (violations []string, judged, excused int) {
	beliefs := byElection(h.beliefs)
	for _, heal := range h.heals {
		for _, election := range heal.Elections {
			by := int64(math.MaxInt64)
			for _, b := range beliefs[election] {
				if b.Last >= heal.At {
					by = min64(by, max64(b.First, heal.At))
				}
			}
			limit := heal.At + h.run.Bound
			if by <= limit {
				judged++
			} else if heal.To > limit {
				judged++
				violations = append(violations, fmt.Sprintf(
					"%s: no leader for %s after the faults of %d ended",
					election, ms(min64(by, heal.To)-heal.At), heal.At))
			}
		}
	}
	return
}

// silenced: G5. A proof from before the silence counts from its sending, so the
// deadline is no later than this.
func silenced(h *History) (violations []string, judged, excused int) {
	byHolder := map[string][]Record{}
	for _, b := range h.beliefs {
		byHolder[nodeOf(b.Holder)] = append(byHolder[nodeOf(b.Holder)], b)
	}
	for _, s := range h.silences {
		deadline := s.From + h.run.Lease - h.run.Margin
		if s.To <= deadline {
			continue // over before it could matter
		}
		for _, b := range byHolder[s.Holder] {
			if b.First < s.To && b.Last > s.From {
				judged++
			}
			from, to := max64(b.First, deadline), min64(b.Last, s.To)
			if to <= from {
				continue
			}
			violations = append(violations, fmt.Sprintf(
				"%s: %s (token %d) believed for %s after its deadline, silent (%s) since %d",
				b.Election, b.Holder, b.Token, ms(to-deadline), s.Kind, s.From))
		}
	}
	return
}

// term names one holding; ends() tells when it was last seen, and by when it
// was over (0: never seen to be over).
type term struct {
	holder, election string
	token            int64
}

type termEnd struct {
	last, until int64
}

func ends(h *History) map[term]termEnd {
	m := map[term]termEnd{}
	for _, b := range h.beliefs {
		k := term{b.Holder, b.Election, b.Token}
		if e, ok := m[k]; !ok || b.Last > e.last {
			m[k] = termEnd{b.Last, b.Until}
		}
	}
	return m
}

// nodeOf: "n1/s3" is a session on instance n1.
func nodeOf(holder string) string {
	for i := range holder {
		if holder[i] == '/' {
			return holder[:i]
		}
	}
	return holder
}

func min64(a, b int64) int64 {
	if a < b {
		return a
	}
	return b
}

func max64(a, b int64) int64 {
	if a > b {
		return a
	}
	return b
}
