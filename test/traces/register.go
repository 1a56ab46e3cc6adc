package main

import (
	"fmt"
	"sort"
)

type fate int

const (
	open    fate = iota // no answer yet
	applied             // with an index
	maybe               // nobody has heard
)

// Write is one that a worker has sent.
type Write struct {
	line  *Line
	what  string
	on    uint64 // the index that it names; 0: no key exists
	token uint64 // of the term that publishes
	fate  fate
	index uint64 // its result
}

func (w *Write) String() string {
	return fmt.Sprintf("%s by %s on %d", w.what, w.line.Node, w.on)
}

// holds: the key is held after it.
func (w *Write) holds() bool {
	return w.what == "acquire" || w.what == "take over" || w.what == "publish"
}

// Register is the key of an election: what was written, and on which index.
// Where keys have leases of their own, the index is the token.
type Register struct {
	election string
	at       map[uint64]*Write // by the index that it left
	on       map[uint64]*Write // by the index that it was based on
	maybe    []*Write
	sent     []*Write
	views    []*Line
	shown    map[uint64][]*Line // views, by index
	freed    map[uint64]*Line   // by index: freed without a word by its holder
	deeds    []*Line
	highest  uint64 // token of any term
	anewAt   int64  // tokens begin anew; 0: they do not
}

func newRegister(election string) *Register {
	return &Register{election: election, at: map[uint64]*Write{}, on: map[uint64]*Write{},
		shown: map[uint64][]*Line{}, freed: map[uint64]*Line{}}
}

const minute = 61 * int64(1e9)

// deed: somebody else has written the key, or ended its lease.
func (r *Run) deed(line *Line) {
	reg := r.register(line)
	if line.What == "lower tokens count" {
		r.accepted(reg)
		return
	}
	reg.deeds = append(reg.deeds, line)
	if line.What == "tokens begin anew" {
		reg.anewAt = line.At
		reg.highest = 0
	}
}

// accepted: an operator has said so of an election, to all nodes.
func (r *Run) accepted(reg *Register) {
	reg.highest = 0
	for _, p := range r.processes {
		delete(p.elections, reg.election)
	}
}

// touched: has somebody else written the key by then, at most so long ago?
func (reg *Register) touched(at, within int64) bool {
	for _, deed := range reg.deeds {
		if deed.At <= at && (within == 0 || deed.At >= at-within) {
			return true
		}
	}
	return false
}

// rises: tokens of terms do, but for a while after they began anew: there are
// terms of before.
func (reg *Register) rises(at int64, token uint64) bool {
	if reg.anewAt != 0 && at <= reg.anewAt+minute {
		reg.highest = 0
		return true
	}
	return token > reg.highest
}

func (reg *Register) unheard(w *Write) {
	w.fate = maybe
	reg.maybe = append(reg.maybe, w)
}

const writes = "writes on one register"

// applied: at most one write on each index, and none without moving it.
func (r *Run) applied(reg *Register, w *Write, index uint64, line *Line) {
	w.fate, w.index = applied, index
	keyLeases := r.process(w.line).keyLeases
	if index == w.on && (w.what == "publish" || keyLeases && !w.holds()) {
		return // an identical rewrite; a lease that ends
	}
	r.must(writes, index > w.on, line, "%s gave index %d", w, index)
	if other := reg.at[index]; other != nil && other != w && !sameAttempt(other, w) {
		r.must(writes, keyLeases && reg.touched(line.At, 0), line,
			"index %d is that of %s and of %s", index, other, w)
	}
	reg.at[index] = w
	if keyLeases || w.on == 0 {
		return
	}
	other := reg.on[w.on]
	r.must(writes, other == nil || other == w || sameAttempt(other, w), line,
		"%s and %s were both applied", other, w)
	reg.on[w.on] = w
}

// sameAttempt: copies of one request.
func sameAttempt(a, b *Write) bool {
	return a.line.Incarnation == b.line.Incarnation && a.on == b.on && a.what == b.what &&
		a.line.Is != nil && a.line.Is.Attempt == b.line.Is.Attempt
}

// ownFound: a copy was refused since another had the key, as index tells.
func (r *Run) ownFound(reg *Register, w *Write, index uint64, line *Line) {
	if reg.at[index] != nil {
		return
	}
	for _, m := range append(reg.maybe, w) {
		if m.fate != applied && m.line.Incarnation == w.line.Incarnation && m.holds() && m.on < index {
			r.applied(reg, m, index, line)
			return
		}
	}
}

// unlock: the worker frees a key of a session that ends. A list has shown it as
// that session's, at this index.
func (r *Run) unlock(line *Line) {
	p, reg := r.process(line), r.register(line)
	if !p.keyLeases {
		listed := *line
		listed.Input = &Input{View: &View{Holder: "ours", Exists: 1, Usable: 1,
			Index: line.Index, listed: true}}
		reg.show(&listed)
	}
	w := &Write{line: line, what: "unlock", on: line.Index}
	p.pending[unlockOf(line)] = w
	reg.unheard(w)
}

func (r *Run) unlocked(line *Line) {
	p := r.process(line)
	w := p.pending[unlockOf(line)]
	delete(p.pending, unlockOf(line))
	if w != nil && w.fate == maybe && line.Outcome == "done" {
		r.applied(r.register(line), w, line.Written, line)
	}
}

func unlockOf(line *Line) string {
	return fmt.Sprintf("%s\x00%d", line.Election, line.Index)
}

const views = "views show what was written"

// show notes what an answer showed.
func (reg *Register) show(line *Line) {
	reg.views = append(reg.views, line)
	index := line.Input.View.Index
	reg.shown[index] = append(reg.shown[index], line)
}

// seen: what an answer showed must have been written, by a worker if not by the
// store or by hand.
func (r *Run) seen(reg *Register, line *Line) {
	v := line.Input.View
	if v.Exists == 0 || v.Usable == 0 {
		return
	}
	r.Checks[views]++
	w := reg.at[v.Index]
	if w == nil {
		w = r.unheardOf(reg, line)
	}
	keyLeases := r.process(line).keyLeases
	switch {
	case v.listed:
		return // it tells who has written the key, if nobody else did
	case w == nil:
		r.byOthers(reg, line)
	case v.Holder == "ours" && w.line.Session != line.Session && reg.anewAt == 0:
		r.wrong(line, "ours at index %d, which is that of %s", v.Index, w)
	case v.Holder == "other" && w.line.Session == line.Session && len(reg.deeds) == 0 &&
		!reg.unstamped(keyLeases, line):
		r.wrong(line, "another's at index %d, which is that of %s", v.Index, w)
	case keyLeases:
		return // the index tells no more than the term
	case v.Holder == "free" && w.holds():
		r.wrong(line, "free at index %d, which is that of %s", v.Index, w)
	case v.Holder != "free" && !w.holds():
		r.wrong(line, "held at index %d, which is that of %s", v.Index, w)
	}
}

// unheardOf: the write without an answer that could have left this: of those that
// agree with most of what was shown of this index, the newest.
func (r *Run) unheardOf(reg *Register, line *Line) *Write {
	keyLeases := r.process(line).keyLeases
	before := reg.before(line.Input.View.Index)
	var best *Write
	most := 0
	for _, m := range reg.maybe {
		based := m.on >= before || m.on == 0 && reg.touched(line.At, 0) || keyLeases
		if m.fate != maybe || !based || !reg.fits(m, line, keyLeases) {
			continue
		}
		agreed := reg.agreed(m, line.Input.View.Index, keyLeases)
		if best == nil || agreed > most || agreed == most && m.line.At >= best.line.At {
			best, most = m, agreed
		}
	}
	if again := reg.again(line, keyLeases); again != nil &&
		(best == nil || reg.agreed(again, line.Input.View.Index, keyLeases) > most) {
		best = again
	}
	if best == nil && keyLeases {
		best = reg.copyOf(line)
	}
	if best != nil && (!keyLeases || line.Input.View.Holder == "ours") {
		r.Checks["writes of which nobody heard"]++
		r.applied(reg, best, line.Input.View.Index, line)
	}
	return best
}

// agreed counts the views of an index that fit the write.
func (reg *Register) agreed(w *Write, index uint64, keyLeases bool) (n int) {
	for _, shown := range reg.shown[index] {
		if !keyLeases && reg.fits(w, shown, false) {
			n++
		}
	}
	return
}

// again: where somebody has deleted the key, a late copy of an acquire that was
// applied, and that expected no key, is applied once more.
func (reg *Register) again(line *Line, keyLeases bool) *Write {
	if keyLeases || !reg.touched(line.At, 0) {
		return nil
	}
	for _, w := range reg.sent {
		if w.what == "acquire" && w.on == 0 && w.fate == applied &&
			w.index < line.Input.View.Index && reg.fits(w, line, false) {
			return &Write{line: w.line, what: w.what}
		}
	}
	return nil
}

// before: the newest index that is known to have been written before this one.
func (reg *Register) before(index uint64) (newest uint64) {
	for at := range reg.at {
		if at < index && at > newest {
			newest = at
		}
	}
	return
}

// copyOf: an acquire of a key with a lease of its own names no index, so a late
// copy of one may be granted once more, to nobody's use.
func (reg *Register) copyOf(line *Line) *Write {
	for _, w := range reg.at {
		if reg.fits(w, line, true) {
			return &Write{line: w.line, what: w.what, on: w.on}
		}
	}
	return nil
}

// unstamped: a store may have the lease of an acquire before the key shows its
// token. Until that is written, or for as long as the lease lasts, the key shows
// the token of the term before, under a holder without a name: another, even to
// the node that had the term, and that has sent the acquire.
func (reg *Register) unstamped(keyLeases bool, line *Line) bool {
	for _, w := range reg.sent {
		if keyLeases && w.what == "acquire" && w.on == line.Input.View.Index &&
			w.line.At <= line.At {
			return true
		}
	}
	return false
}

// fits: could the key look like this after the write?
func (reg *Register) fits(w *Write, line *Line, keyLeases bool) bool {
	v := line.Input.View
	own := w.line.Session == line.Session
	switch {
	case w.line.At > line.At, w.on >= v.Index, v.Holder == "ours" && !own,
		v.Holder == "other" && own && !reg.unstamped(keyLeases, line):
		return false
	case keyLeases:
		return w.what == "acquire" // others leave the token as it is
	case !w.holds():
		return v.Holder == "free" && v.Released != 0
	case w.what == "publish":
		return v.Holder != "free" && (v.listed || v.Token == w.token)
	default:
		return v.Holder != "free" && (v.listed || v.Token == v.Index)
	}
}

// byOthers: the store has freed the key with a session, or somebody has written
// it by hand.
func (r *Run) byOthers(reg *Register, line *Line) {
	v := line.Input.View
	switch {
	case reg.touched(line.At, 0):
		r.Checks["states of a key that were made by hand"]++
	case v.Holder == "free" && v.Released == 0:
		r.Checks["keys freed by the store"]++
		if reg.freed[v.Index] == nil {
			reg.freed[v.Index] = line
		}
	default:
		r.wrong(line, "%s at index %d, which nobody here wrote", v.Holder, v.Index)
	}
}

// judgeRegister: all answers are known.
func (r *Run) judgeRegister(reg *Register) {
	for _, line := range reg.views {
		r.seen(reg, line)
	}
	order := make([]uint64, 0, len(reg.at))
	for index := range reg.at {
		order = append(order, index)
	}
	sort.Slice(order, func(i, k int) bool { return order[i] < order[k] })
	for i := 1; i < len(order); i++ {
		w, before := reg.at[order[i]], reg.at[order[i-1]]
		if r.process(w.line).keyLeases || reg.touched(w.line.At+minute, 0) {
			continue
		}
		r.must(writes, order[i-1] <= w.on, w.line,
			"%s was applied as %d though %s had been, as %d", w, order[i], before, order[i-1])
	}
	for index, line := range reg.freed {
		r.freedBy(reg, index, line, order)
	}
}
