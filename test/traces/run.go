package main

import "fmt"

// Run is the specification's own state: what follows from the lines up to here.
type Run struct {
	*Judgement
	processes map[string]*Process  // by incarnation
	registers map[string]*Register // by election
	clocks    map[string]*Line     // by node
	terms     map[string][]*Term   // by election, in the order of their begins
	first     map[string][]*Line   // by node, the first line of each incarnation
	ended     map[string]uint64    // by session: it had ended by that index
	proofs    []*Line
}

// Process is an instance from its start to its end; its workers come and go.
type Process struct {
	keyLeases bool
	node      *Line            // the last line of its machine; nil: another worker
	elections map[string]*Line // likewise
	session   Session
	pending   map[string]*Write // by election: the write in flight
	open      map[string]*Term  // by election
	calm      map[string]int64  // by election: no renewal was in flight then
}

// wrong notes that a line is no step of the specification.
func (r *Run) wrong(line *Line, format string, args ...any) {
	where := line.Node
	if line.Election != "" {
		where += ", " + line.Election
	}
	r.Wrong = append(r.Wrong, fmt.Sprintf("%s:%d: %s at %.6f s: %s", line.file, line.number,
		where, float64(line.At)/1e9, fmt.Sprintf(format, args...)))
}

// must is a check.
func (r *Run) must(about string, ok bool, line *Line, format string, args ...any) {
	r.Checks[about]++
	if !ok {
		r.wrong(line, format, args...)
	}
}

// Judge takes the lines of a run in their order in time.
func Judge(lines []*Line) *Judgement {
	r := &Run{Judgement: &Judgement{Checks: map[string]int{}},
		processes: map[string]*Process{},
		registers: map[string]*Register{},
		clocks:    map[string]*Line{},
		terms:     map[string][]*Term{},
		first:     map[string][]*Line{},
		ended:     map[string]uint64{}}
	r.Lines = len(lines)
	for _, line := range lines {
		r.take(line)
	}
	for _, p := range r.processes {
		r.forget(p)
	}
	for _, reg := range r.registers {
		r.judgeRegister(reg)
	}
	r.judgeSessions()
	r.judgeBeliefs()
	return r.Judgement
}

func (r *Run) process(line *Line) *Process {
	p := r.processes[line.Incarnation]
	if p == nil {
		p = &Process{elections: map[string]*Line{}, pending: map[string]*Write{},
			open: map[string]*Term{}, calm: map[string]int64{}}
		r.processes[line.Incarnation] = p
		r.first[line.Node] = append(r.first[line.Node], line)
	}
	return p
}

func (r *Run) register(line *Line) *Register {
	reg := r.registers[line.Election]
	if reg == nil {
		reg = newRegister(line.Election)
		r.registers[line.Election] = reg
	}
	return reg
}

func (r *Run) take(line *Line) {
	switch line.Line {
	case "clock":
		r.clocks[line.Node] = line
	case "deed":
		r.deed(line)
	case "worker":
		r.worker(line)
	case "accept":
		r.register(line).highest = 0
		delete(r.process(line).elections, line.Election)
	case "unlock":
		r.unlock(line)
	case "unlocked":
		r.unlocked(line)
	case "claim":
		r.claim(line)
	case "node", "node resumed":
		p := r.process(line)
		r.nodeContinues(p, line)
		if line.Input != nil {
			r.nodeStep(p, line)
		} else {
			r.resumed(line, "state", "epoch", "renewing", "proving", "prove_again", "prove_at",
				"renew_at", "step_at", "lease", "ttl", "margin")
		}
	case "election", "election resumed":
		p := r.process(line)
		r.electionContinues(p, line)
		if line.Input != nil {
			r.electionStep(p, line)
		} else {
			r.resumed(line, "renewing", "renew_at", "timer_at")
		}
	}
}

// worker: one has started. The one before may have ended between a decision and
// its line, and nobody has heard what became of its writes.
func (r *Run) worker(line *Line) {
	p := r.process(line)
	r.Workers++
	p.keyLeases = line.KeyLeases != 0
	p.node = nil
	p.elections = map[string]*Line{}
	r.forget(p)
}

// forget: nobody will hear what became of the writes in flight.
func (r *Run) forget(p *Process) {
	for _, w := range p.pending {
		if w.fate == open {
			r.registers[w.line.Election].unheard(w)
		}
	}
	p.pending = map[string]*Write{}
}

// resumed: a new worker changes no more than this; least of all a term.
func (r *Run) resumed(line *Line, may ...string) {
	for _, name := range differences(line.Was, line.Is) {
		if !Sends(may).has(name) {
			r.wrong(line, "a new worker has changed %s", name)
		}
	}
	r.Checks["a new worker resumes"]++
}

const nobodyElse = "nobody else changes a machine"

// nodeContinues: what an input finds is what the one before has left.
func (r *Run) nodeContinues(p *Process, line *Line) {
	last := p.node
	p.node = line
	if last == nil {
		return
	}
	names := differences(last.Is, line.Was)
	for _, name := range names {
		switch name {
		case "margin": // settings count at once
		case "lease", "ttl": // but a session keeps its lease
			if last.Is.State != "none" {
				r.wrong(line, "the session's %s changed between two inputs", name)
			}
		default:
			r.wrong(line, "the node's %s changed between two inputs", name)
		}
	}
	r.Checks[nobodyElse]++
}

// electionContinues: the worker may raise the floor of tokens, take the timer,
// and send a renewal or not.
func (r *Run) electionContinues(p *Process, line *Line) {
	last := p.elections[line.Election]
	p.elections[line.Election] = line
	if last == nil || fresh(line.Was) {
		return
	}
	r.Checks[nobodyElse]++
	for _, name := range differences(last.Is, line.Was) {
		switch name {
		case "token_floor":
			if line.Was.Floor < last.Is.Floor {
				r.wrong(line, "the floor of tokens sank between two inputs")
			}
		case "timer_at":
			if line.Was.Timer != 0 && line.Was.State != "draining" {
				r.wrong(line, "somebody set a timer")
			}
		case "renewing", "renew_at":
			if line.Was.Deadline == 0 {
				r.wrong(line, "a renewal of what has no lease")
			}
		default:
			r.wrong(line, "%s changed between two inputs", name)
		}
	}
}

// fresh: the election has got a slot anew.
func fresh(s *State) bool {
	return s.State == "idle" && s.Wanted == 0 && s.Token == 0 && s.Attempt == 0
}
