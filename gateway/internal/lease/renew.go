package lease

import (
	"context"
	"errors"
	"time"
)

// RenewRequest prolongs a term and, if Value is set, publishes a new value.
type RenewRequest struct {
	Name, Owner string
	Token, Rev  int64
	Value       *string
	TTL         time.Duration
}

// judgeRenew judges by a row the renewal from q.Rev to its successor: not done
// yet (nil, nil), done before (a grant), or refused.
func (s *Service) judgeRenew(q RenewRequest, row Row) (*Grant, error) {
	switch {
	case !row.is(q.Owner, q.Token):
		return nil, refuse(Lost, row, "the term %d of %s is over", q.Token, q.Owner)
	case row.Rev == q.Rev:
		return nil, nil
	case row.Rev == q.Rev+1 && (q.Value == nil || *q.Value == row.Value):
		g := s.repeated(row, q.TTL)
		return &g, nil
	}
	return nil, refuse(Stale, row, "the term is at revision %d, not at %d", row.Rev, q.Rev)
}

// Renew prolongs a term.
func (s *Service) Renew(ctx context.Context, q RenewRequest) (Grant, error) {
	if err := s.CheckTTL(q.TTL); err != nil {
		return Grant{}, err
	}
	work, cancel := s.work(ctx)
	defer cancel()
	t, err := s.enterFirst(ctx, work, q.Name)
	if err != nil {
		return Grant{}, err
	}
	defer t.leave()
	next, done, err := s.successor(work, t, q)
	if done != nil || err != nil {
		return deref(done), err
	}
	maybe := false
	for p := newPause(); ; {
		applied, cause := s.db.Renew(work, q.Name, next)
		switch {
		case cause == nil && applied:
			s.began(q.Name, next)
			return fresh(next, s.trust(next.TTL)), nil
		case cause == nil:
			s.opt.Observer.Contention("renew")
		case harmless(cause) && !maybe:
			return Grant{}, s.outcome("renew", false, cause)
		default:
			maybe = true
		}
		row, err := s.settle(work, t, maybe)
		if err != nil {
			return Grant{}, s.outcome("renew", maybe, errors.Join(cause, err))
		}
		if done, err := s.judgeRenew(q, row); done != nil || err != nil {
			if maybe {
				s.opt.Observer.Unknown("renew", resolution(done != nil))
			}
			if done != nil {
				s.began(q.Name, row)
			} else {
				s.terms.forget(q.Name, q.Token)
			}
			return deref(done), err
		}
		if !p.wait(work) {
			return Grant{}, s.outcome("renew", maybe, cause)
		}
	}
}

// successor is the row the renewal has to write: value and attempt must be
// written again, or they would expire before the owner.
func (s *Service) successor(work context.Context, t *turn, q RenewRequest) (Row, *Grant, error) {
	row, known := s.terms.get(q.Name, q.Owner, q.Token, q.Rev)
	if !known {
		var err error
		for _, level := range []Level{Poll, Decide} { // a poll may be behind
			if row, err = s.read(work, t, level); err != nil {
				return row, nil, s.outcome("renew", false, err)
			}
			if row.is(q.Owner, q.Token) && row.Rev == q.Rev {
				break
			}
		}
		if done, err := s.judgeRenew(q, row); done != nil || err != nil {
			return row, done, err
		}
	}
	row.Rev++
	row.TTL = WholeTTL(q.TTL)
	if q.Value != nil {
		row.Value = *q.Value
	}
	return row, nil, nil
}

// Release ends a term.
func (s *Service) Release(ctx context.Context, name, owner string, token, rev int64) error {
	work, cancel := s.work(ctx)
	defer cancel()
	t, err := s.enterFirst(ctx, work, name)
	if err != nil {
		return err
	}
	defer t.leave()
	maybe := false
	for p := newPause(); ; {
		applied, cause := s.db.Release(work, name, owner, token, rev)
		switch {
		case cause == nil && applied:
			s.ended(t, name, token)
			return nil
		case cause == nil:
		case harmless(cause) && !maybe:
			return s.outcome("release", false, cause)
		default:
			maybe = true
		}
		row, err := s.settle(work, t, maybe)
		if err != nil {
			return s.outcome("release", maybe, errors.Join(cause, err))
		}
		if !row.is(owner, token) || row.Rev != rev {
			if maybe {
				s.opt.Observer.Unknown("release", resolution(row.Free()))
			}
			s.ended(t, name, token)
			return released(row, owner, token, maybe)
		}
		if !p.wait(work) {
			return s.outcome("release", maybe, cause)
		}
	}
}

// released answers a release by the row in the store after it.
func released(row Row, owner string, token int64, sent bool) error {
	switch {
	case row.is(owner, token):
		return refuse(Stale, row, "the term is at revision %d", row.Rev)
	case !row.Free():
		return refuse(NotYours, row, "the lock is held by %s", row.Owner)
	case sent && row.Epoch == token:
		return nil
	}
	return refuse(IsFree, row, "nobody holds the lock")
}

func (s *Service) ended(t *turn, name string, token int64) {
	t.line.filled = false // the kept row is no longer true
	s.terms.forget(name, token)
	s.hub.changed(name)
}

func resolution(applied bool) string {
	if applied {
		return "applied"
	}
	return "not-applied"
}

func deref(g *Grant) Grant {
	if g == nil {
		return Grant{}
	}
	return *g
}
