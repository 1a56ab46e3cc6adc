package lease

import (
	"context"
	"errors"
)

// States of a claim.
const (
	Running = "running"
	Done    = "done"
	Failed  = "failed"
)

// ClaimRequest takes a tick of a job for the term (Owner, Claim.Token), if the
// job's record is still (PrevID, PrevState), or there is none and both are
// empty.
type ClaimRequest struct {
	Name, Owner string
	Claim
	PrevID, PrevState string
}

// Claim records that a tick is taken. The lock and the job's record are
// checked in the same transaction that writes it.
func (s *Service) Claim(ctx context.Context, q ClaimRequest) (Claim, bool, error) {
	q.State = Running
	work, cancel := s.work(ctx)
	defer cancel()
	t, err := s.enter(ctx, work, q.Name)
	if err != nil {
		return Claim{}, false, err
	}
	defer t.leave()
	maybe := false
	for p := newPause(); ; {
		applied, cause := s.db.Claim(work, q.Name, q.Owner, q.Claim, q.PrevID, q.PrevState)
		switch {
		case cause == nil && applied:
			return q.Claim, false, nil
		case cause == nil:
		case harmless(cause) && !maybe:
			return Claim{}, false, s.outcome("claim", false, cause)
		default:
			maybe = true
		}
		row, now, err := s.settleClaim(work, q.Name, q.Job, maybe)
		if err != nil {
			return Claim{}, false, s.outcome("claim", maybe, errors.Join(cause, err))
		}
		if now.ID == q.ID {
			return repeatedClaim(q.Claim, row, now)
		}
		// An expired owner does not settle a claim that may still be under way:
		// a coordinator with a slower clock may see the owner alive.
		over := row.Epoch != q.Token || !row.Free() && row.Owner != q.Owner || row.Free() && !maybe
		if over || now.ID != q.PrevID || now.State != q.PrevState {
			if maybe {
				s.opt.Observer.Unknown("claim", "not-applied")
			}
			return Claim{}, false, refuseClaim(q, row, now)
		}
		if !p.wait(work) {
			return Claim{}, false, s.outcome("claim", maybe, cause)
		}
	}
}

// repeatedClaim: the id says that the record is ours; the rest must agree.
func repeatedClaim(want Claim, row Row, now Claim) (Claim, bool, error) {
	if now.Tick.Equal(want.Tick) && now.Try == want.Try && now.Token == want.Token {
		return now, true, nil
	}
	return Claim{}, false, &RefusedError{Reason: Taken, Row: row, Claim: &now,
		Detail: "the claim id was used for another claim"}
}

func refuseClaim(q ClaimRequest, row Row, now Claim) error {
	e := &RefusedError{Reason: Taken, Row: row, Detail: "the job's record is not the expected one"}
	if !row.is(q.Owner, q.Token) {
		e.Detail = "the term is over"
	}
	if now.ID != "" {
		e.Claim = &now
	}
	return e
}

// Complete ends a claim. It depends on the claim alone, not on the term: work
// that was done before a loss shall not be repeated.
func (s *Service) Complete(ctx context.Context, name, job, id, state, info string) (Claim, error) {
	work, cancel := s.work(ctx)
	defer cancel()
	t, err := s.enterFirst(ctx, work, name)
	if err != nil {
		return Claim{}, err
	}
	defer t.leave()
	maybe := false
	for p := newPause(); ; {
		_, cause := s.db.Complete(work, name, job, id, state, info)
		switch {
		case cause == nil:
		case harmless(cause) && !maybe:
			return Claim{}, s.outcome("complete", false, cause)
		default:
			maybe = true
		}
		row, now, err := s.settleClaim(work, name, job, maybe || cause == nil)
		switch {
		case err != nil:
			return Claim{}, s.outcome("complete", maybe || cause == nil, errors.Join(cause, err))
		case now.ID == "":
			return Claim{}, refuse(NoClaim, row, "the job was never claimed")
		case now.ID == id && now.State == state:
			return now, nil
		case now.ID != id || now.State != Running:
			return Claim{}, &RefusedError{Reason: Taken, Row: row, Claim: &now,
				Detail: "the claim is " + now.State + ", or another one"}
		}
		if !p.wait(work) {
			return Claim{}, s.outcome("complete", maybe, cause)
		}
	}
}

// GetClaim reads one job's record linearizably.
func (s *Service) GetClaim(ctx context.Context, name, job string) (Claim, error) {
	work, cancel := s.work(ctx)
	defer cancel()
	row, c, err := s.settleClaim(work, name, job, false)
	if err != nil {
		return c, s.outcome("read", false, err)
	}
	if c.ID == "" {
		return c, refuse(NoClaim, row, "the job was never claimed")
	}
	return c, nil
}

// GetClaims reads the records of all jobs of an election linearizably.
func (s *Service) GetClaims(ctx context.Context, name string) ([]Claim, error) {
	work, cancel := s.work(ctx)
	defer cancel()
	list, err := s.db.ReadClaims(work, name)
	if err != nil {
		return nil, s.outcome("read", false, err)
	}
	return list, nil
}

func (s *Service) settleClaim(work context.Context, name, job string, open bool) (Row, Claim, error) {
	for p := newPause(); ; {
		row, c, err := s.db.ReadClaim(work, name, job)
		if err == nil || !open && harmless(err) || !p.wait(work) {
			return row, c, err
		}
	}
}
