package main

// A session of which the store has freed a key has ended: from then on nothing
// is applied in its name.

// proved: the node key was written at this index.
func (r *Run) proved(line *Line) {
	r.proofs = append(r.proofs, line)
}

// freedBy notes the end of the session that held the key before.
func (r *Run) freedBy(reg *Register, index uint64, line *Line, order []uint64) {
	var holder *Write
	for _, before := range order {
		if before < index {
			holder = reg.at[before]
		}
	}
	// the first lines of a run may show what was there before
	if holder == nil || reg.touched(line.At, 0) {
		return
	}
	for _, m := range reg.maybe {
		if m.fate == maybe && m.holds() && m.on >= holder.index && m.on < index {
			return // it was held for a while, and nobody has heard of that
		}
	}
	if !holder.holds() {
		r.wrong(line, "free at index %d without a word, after %s", index, holder)
		return
	}
	session := holder.line.Session
	if end, there := r.ended[session]; !there || index < end {
		r.ended[session] = index
	}
}

const sessionsEnd = "a session that has ended writes nothing"

func (r *Run) judgeSessions() {
	for _, reg := range r.registers {
		for index, w := range reg.at {
			if end, there := r.ended[w.line.Session]; there {
				r.must(sessionsEnd, index <= end, w.line,
					"%s was applied as %d, after its session had ended, at %d", w, index, end)
			}
		}
	}
	for _, line := range r.proofs {
		if end, there := r.ended[line.Session]; there {
			r.must(sessionsEnd, line.Input.Index <= end, line,
				"a proof of index %d, after its session had ended, at %d", line.Input.Index, end)
		}
	}
}
