package main

// Session is what follows about a node's store session from the answers alone.
type Session struct {
	proof, renewal             int64 // when the newest ones were sent
	index                      uint64
	deadline                   int64
	askedProof, askedRenewal   int64 // no request in flight is older
	askedCreate, askedRegister int64
}

const deadlines = "deadlines follow from answers"

// nodeStep: a deadline is what proof and renewal carry, and counts from when
// their requests were sent.
func (r *Run) nodeStep(p *Process, line *Line) {
	s, in := &p.session, line.Input
	switch {
	case in.Kind == "done" && line.Was.State == "creating":
		*s = Session{renewal: in.Sent, askedCreate: s.askedCreate}
		r.counted(line, s.askedCreate, "a session")
	case in.Kind == "done" && line.Was.State == "registering":
		s.proof, s.index = in.Sent, in.Index
		r.counted(line, s.askedRegister, "a registration")
	case in.Kind == "renewed":
		s.renewal = max(s.renewal, in.Sent)
		r.counted(line, s.askedRenewal, "a renewal")
	case in.Kind == "proved" && in.Index > s.index:
		s.proof, s.index = max(s.proof, in.Sent), in.Index
		r.counted(line, s.askedProof, "a proof")
	}
	if in.Kind == "proved" && line.Session != "" {
		r.proved(line)
	}
	for what, asked := range map[string]*int64{"proof": &s.askedProof,
		"renew": &s.askedRenewal, "create": &s.askedCreate, "register": &s.askedRegister} {
		if line.Does.Send.has(what) {
			*asked = in.Now
		}
	}
	if line.Is.Deadline != line.Was.Deadline {
		r.moved(p, line)
	}
	if line.Does.Send.has("destroy") {
		empty := in.Kind == "listed" && in.Held == 0 || line.Was.State == "destroying"
		r.must("sessions end empty", empty, line,
			"a session is destroyed that may hold keys")
	}
}

// counted: nothing counts from before its request, or from its answer on.
func (r *Run) counted(line *Line, asked int64, what string) {
	r.must("an answer counts from its request's sending",
		line.Input.Sent >= asked && line.Input.Sent < line.Input.Now, line,
		"%s counts from an instant at which it was not sent", what)
}

func (r *Run) moved(p *Process, line *Line) {
	s, is := &p.session, line.Is
	if is.Deadline != 0 {
		r.must(deadlines, is.Deadline <= s.proof+is.Lease-is.Margin, line,
			"the deadline is later than lease - margin after the proof")
		r.must(deadlines, is.Deadline <= s.renewal+is.TTL-is.Margin, line,
			"the deadline is later than session TTL - margin after the renewal")
		r.must(deadlines, s.deadline == 0 || line.Input.Now < s.deadline, line,
			"a deadline that has passed moves")
		r.must(deadlines, is.Deadline >= s.deadline, line, "a deadline comes earlier")
		for _, t := range p.open {
			if !t.ownLease {
				t.until = r.trueTime(line.Node, is.Deadline)
			}
		}
	}
	s.deadline = is.Deadline
}
