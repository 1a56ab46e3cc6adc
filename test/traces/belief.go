package main

import "sort"

// Term is one that a node believes in, from its begin to its end, or to its
// deadline if that comes first. Times are true ones.
type Term struct {
	line     *Line // of its begin
	token    uint64
	ownLease bool
	until    int64
	end      int64 // 0: no line tells of it
}

// trueTime of an instant on the clock of a node. On a real machine all processes
// have one clock; in the simulator each node's has a rate of its own.
func (r *Run) trueTime(node string, instant int64) int64 {
	clock := r.clocks[node]
	if clock == nil {
		return instant
	}
	span := instant - clock.Shows
	return clock.At + span - span/(1000000+clock.PPM)*clock.PPM -
		span%(1000000+clock.PPM)*clock.PPM/(1000000+clock.PPM)
}

// last instant of belief. A process that is gone believes until its deadline, or
// until the next one of its instance has begun.
func (r *Run) last(t *Term) int64 {
	end := t.until
	if t.end != 0 {
		end = min(end, t.end)
	}
	for _, next := range r.first[t.line.Node] {
		if next.Incarnation != t.line.Incarnation && next.At > t.line.At {
			end = min(end, next.At)
		}
	}
	return end
}

// judgeBeliefs: never two at a time.
func (r *Run) judgeBeliefs() {
	for election, terms := range r.terms {
		sort.SliceStable(terms, func(i, k int) bool { return terms[i].line.At < terms[k].line.At })
		var longest *Term
		for _, t := range terms {
			if longest != nil && longest.line.Incarnation != t.line.Incarnation {
				r.Handovers++
				if !r.excused(election, t) {
					r.must("no two believe at a time", r.last(longest) <= t.line.At, t.line,
						"token %d begins %.3f ms before the end of token %d of %s", t.token,
						float64(r.last(longest)-t.line.At)/1e6, longest.token, longest.line.Node)
				}
			}
			if longest == nil || r.last(t) > r.last(longest) {
				longest = t
			}
		}
	}
}

// excused: somebody had written the key by hand, or the clocks are beyond what
// is assumed of them.
func (r *Run) excused(election string, t *Term) bool {
	clock := r.clocks[t.line.Node]
	return clock != nil && clock.Beyond != 0 ||
		r.registers[election].touched(t.line.At, minute)
}
