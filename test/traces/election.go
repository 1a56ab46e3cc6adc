package main

import "strings"

// electionStep: one write at a time, each on an index that is known, and a term
// only on what the store gave.
func (r *Run) electionStep(p *Process, line *Line) {
	reg := r.register(line)
	if line.Input.View != nil {
		reg.show(line)
	}
	r.awaited(line)
	asked := r.answered(p, reg, line)
	r.lease(p, line, asked)
	r.sent(p, reg, line)
	r.term(p, reg, line)
	if line.Is.Renewing == 0 {
		p.calm[line.Election] = line.Input.Now
	}
}

// awaited: an answer comes to a request.
func (r *Run) awaited(line *Line) {
	state := line.Was.State
	unsure := strings.HasSuffix(state, "unsure") && line.Was.Timer == 0
	switch line.Input.Kind {
	case "done", "conflict", "not applied", "unknown":
		r.must("an answer comes to a request", state == "acquiring" || state == "publishing" ||
			state == "releasing", line, "an answer to a write that nobody sent")
	case "read", "read failed":
		r.must("an answer comes to a request", state == "reading" || unsure, line,
			"an answer to a read that nobody sent")
	}
}

// answered: what became of the write in flight. The instant at which it was
// decided on, or 0.
func (r *Run) answered(p *Process, reg *Register, line *Line) int64 {
	w := p.pending[line.Election]
	in := line.Input
	if w == nil {
		return 0
	}
	switch in.Kind {
	case "done":
		r.applied(reg, w, in.Index, line)
	case "conflict":
		if in.Conflict == "own" {
			r.ownFound(reg, w, in.Index, line)
		}
		reg.unheard(w)
	case "not applied", "unknown", "node ended", "not ours", "renew failed":
		// a refusal is of one copy; proxies, too, send a request again
		if line.Is.Request == line.Was.Request && in.Kind == "renew failed" {
			return 0 // nor has the term ended
		}
		reg.unheard(w)
	default:
		return 0
	}
	delete(p.pending, line.Election)
	return w.line.Input.Now
}

// sent: the next request.
func (r *Run) sent(p *Process, reg *Register, line *Line) {
	if len(line.Does.Send) == 0 || line.Does.Send[0] == "" || line.Does.Send[0] == "read" {
		return
	}
	what := line.Does.Send[0]
	r.Checks["one write at a time"]++
	if earlier := p.pending[line.Election]; earlier != nil {
		reg.unheard(earlier)
		r.wrong(line, "a second write, to %s, beside one to %s", what, earlier.what)
	}
	w := &Write{line: line, what: what, on: line.Does.Index, token: line.Is.Token}
	p.pending[line.Election] = w
	reg.sent = append(reg.sent, w)
	view := line.Input.View
	switch what {
	case "release":
		known := line.Does.Index == line.Was.Write || line.Does.Index == line.Input.Index ||
			(view != nil && line.Does.Index == view.Index)
		r.must("releases", known, line, "a release on index %d, which nobody has shown",
			line.Does.Index)
		r.must("releases", line.Is.Token == 0, line, "released while believing")
	case "take over":
		silent := view != nil && (view.HolderEnded != 0 ||
			view.SilentAt != 0 && view.SilentAt <= line.Input.Now)
		r.must("takeovers", silent, line, "taken over from somebody who is not silent")
		r.must("takeovers", !p.keyLeases, line, "a takeover of a key with a lease of its own")
	}
}

// lease: the deadline of a key with a lease of its own.
func (r *Run) lease(p *Process, line *Line, asked int64) {
	in, is, was := line.Input, line.Is, line.Was
	switch {
	case in.Kind == "renewed":
		r.must(deadlines, was.Renewing != 0, line, "a renewal that was not sent")
		asked = p.calm[line.Election] // it was sent after that
		fallthrough
	case in.Kind == "done" && in.Deadline != 0:
		r.must(deadlines, in.Deadline == 0 || in.Deadline <= in.Sent+in.Lease-in.Margin, line,
			"trust beyond lease - margin from the sending of the request")
		r.counted(line, asked, "a lease")
	}
	if is.Deadline == was.Deadline || is.Token == 0 {
		return
	}
	r.must(deadlines, is.Deadline == in.Deadline, line, "the deadline is not the answer's")
	r.must(deadlines, was.Deadline == 0 || in.Now < was.Deadline, line,
		"a deadline that has passed moves")
	r.must(deadlines, is.Deadline > was.Deadline, line, "a deadline comes earlier")
	if t := p.open[line.Election]; t != nil {
		t.until = r.trueTime(line.Node, is.Deadline)
	}
}

// term: begins and ends.
func (r *Run) term(p *Process, reg *Register, line *Line) {
	if line.Does.TermEnds != 0 {
		if t := p.open[line.Election]; t != nil {
			t.end = line.At
			delete(p.open, line.Election)
		}
	}
	if line.Does.TermBegins == 0 {
		return
	}
	token := line.Is.Token
	if w := reg.at[token]; w == nil && line.Input.View != nil {
		r.seen(reg, line)
	}
	w := reg.at[token]
	r.must("terms are the store's", w != nil && w.line.Incarnation == line.Incarnation ||
		reg.touched(line.At, 0), line,
		"a term with token %d, which the store did not give", token)
	t := &Term{line: line, token: token, ownLease: line.Is.Deadline != 0}
	deadline := line.Is.Deadline
	if !t.ownLease {
		deadline = p.session.deadline
	}
	t.until = r.trueTime(line.Node, deadline)
	p.open[line.Election] = t
	r.Terms++
	if t.until > line.At {
		r.must("tokens rise", reg.rises(line.At, token) || r.excused(line.Election, t), line,
			"token %d after %d", token, reg.highest)
		reg.highest = max(reg.highest, token)
		r.terms[line.Election] = append(r.terms[line.Election], t)
	}
}
