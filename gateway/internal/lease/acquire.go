package lease

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// AcquireRequest asks for a lock.
type AcquireRequest struct {
	Name, Owner, Value string
	// Attempt names this try. A repetition with the same owner and attempt
	// learns its outcome.
	Attempt  string
	TTL      time.Duration
	MinToken int64
	// Anonymous: the gateway made up owner and attempt, so a caller without an
	// answer can never use its term.
	Anonymous bool
}

// acquiring is one acquire under way.
type acquiring struct {
	s     *Service
	work  context.Context
	t     *turn
	req   AcquireRequest
	ttl   int
	start time.Time
	// A transaction e0 -> want without an answer, which may still apply as
	// long as no read shows another epoch.
	open     bool
	e0, want int64
	// An unanswered transaction can no longer apply, but may have: the epoch
	// has moved, and the term that moved it is over.
	lost bool
	err  error // why the last statement failed
}

// Acquire begins a term, if nobody holds the lock.
func (s *Service) Acquire(ctx context.Context, req AcquireRequest) (Grant, error) {
	if err := s.CheckTTL(req.TTL); err != nil {
		return Grant{}, err
	}
	work, cancel := s.work(ctx)
	defer cancel()
	start := time.Now()
	t, err := s.enter(ctx, work, req.Name)
	if err != nil {
		return Grant{}, err
	}
	defer t.leave()
	a := &acquiring{s: s, work: work, t: t, req: req, ttl: WholeTTL(req.TTL), start: start}
	g, err := a.run()
	if ctx.Err() != nil && err == nil && req.Anonymous {
		// Nobody can name this term any more.
		s.abandon(req, g.Epoch-1, g.Epoch)
	}
	return g, err
}

func (a *acquiring) mine(row Row) bool {
	return !row.Free() && row.Owner == a.req.Owner && row.Attempt == a.req.Attempt
}

func (a *acquiring) run() (Grant, error) {
	row, known := a.t.seenSince(Poll)
	if !known || a.mine(row) || row.Free() {
		var err error
		if row, err = a.s.read(a.work, a.t, Poll); err != nil {
			return Grant{}, a.s.outcome("acquire", false, err)
		}
	}
	if a.mine(row) { // a poll refuses, it never grants
		var err error
		if row, err = a.s.settle(a.work, a.t, false); err != nil {
			return Grant{}, a.s.outcome("acquire", false, err)
		}
	}
	for p := newPause(); ; {
		if !row.Free() {
			return a.taken(row)
		}
		applied, err := a.try(row)
		if err != nil {
			return Grant{}, err
		}
		if row, err = a.s.settle(a.work, a.t, applied || a.open); err != nil {
			a.err = err
			return a.giveUp(applied)
		}
		a.look(row)
		if applied {
			return a.confirm(row)
		}
		if row.Free() && !p.wait(a.work) {
			return a.giveUp(false)
		}
	}
}

// taken answers when somebody holds the lock, perhaps this very attempt. An
// earlier request of the same attempt may have written even our own
// transaction, so only the time left counts.
func (a *acquiring) taken(row Row) (Grant, error) {
	if !a.mine(row) && a.lost {
		return Grant{}, a.s.outcome("acquire", true, a.err)
	}
	if !a.mine(row) {
		return Grant{}, refuse(Held, row, "the lock is held by %s", row.Owner)
	}
	if a.want == row.Epoch {
		a.s.opt.Observer.Unknown("acquire", "applied")
	}
	a.s.began(a.req.Name, row)
	return a.s.repeated(row, a.req.TTL), nil
}

// try sends the transaction. Without an error, true means applied, and false
// that a read must tell.
func (a *acquiring) try(row Row) (bool, error) {
	if !a.open {
		want, err := nextToken(row.Epoch, a.req.MinToken)
		if err != nil {
			return false, err
		}
		a.e0, a.want = row.Epoch, want
	}
	r := Row{Epoch: a.want, Owner: a.req.Owner, Value: a.req.Value, Attempt: a.req.Attempt, Rev: 1, TTL: a.ttl}
	applied, err := a.s.db.Acquire(a.work, a.req.Name, a.e0, r)
	if err != nil && harmless(err) && !a.open {
		return false, a.s.outcome("acquire", a.lost, err)
	}
	if err != nil {
		a.open, a.err = true, err
	} else if !applied {
		a.s.opt.Observer.Contention("acquire")
	}
	return applied, nil
}

// look judges from the epoch if our transaction may still apply: once the
// epoch has moved it cannot. It certainly did not apply only if somebody else
// holds the lock under the token that it wanted. Otherwise it may have moved
// the epoch itself, and its term have ended since, by hand or by a clock that
// is ahead.
func (a *acquiring) look(row Row) {
	if !a.open || row.Epoch == a.e0 {
		return
	}
	a.open = false
	switch {
	case a.mine(row):
	case !row.Free() && row.Epoch == a.want:
		a.s.opt.Observer.Unknown("acquire", "not-applied")
	default:
		a.lost = true
	}
}

// confirm believes an applied acquire only if a linearizable read shows it.
// The read does not if the coordinator's clock is so slow that the lease was
// born expired, if somebody ended the term by hand, or if a foreign write from
// the future hides it. In each case somebody may have seen a holder.
func (a *acquiring) confirm(row Row) (Grant, error) {
	switch {
	case a.mine(row) && row.Epoch == a.want:
		return a.granted(row), nil
	case row.Epoch >= a.want && !row.Free():
		return Grant{}, &UnknownError{fmt.Errorf("the lease was over when it was read back, and %s has the lock: "+
			"the clocks of the Cassandra nodes differ too much, or somebody ended it by hand", row.Owner)}
	case row.Epoch >= a.want:
		a.s.opt.Observer.ClockSkew()
		return Grant{}, &UnknownError{errors.New("the lease was over when it was read back: " +
			"the clocks of the Cassandra nodes differ too much, or somebody ended it by hand")}
	}
	// The row has an old token: end its term, or a repetition would believe it.
	if a.mine(row) {
		a.s.db.Release(a.work, a.req.Name, row.Owner, row.Epoch, row.Rev)
	}
	return Grant{}, &UnknownError{errors.New(
		"the store confirmed the lease but does not show it: a write with a timestamp in the future hides it")}
}

// granted makes the grant of a term that began in this request. Its lease is
// cut down where the store's clocks are seen to differ by more than allowed.
func (a *acquiring) granted(row Row) Grant {
	trust := a.s.trust(a.ttl)
	passed := time.Since(a.start) + Granularity + a.s.opt.MaxClockSkew
	if time.Duration(row.TTL)*time.Second < time.Duration(a.ttl)*time.Second-passed {
		a.s.opt.Observer.ClockSkew()
		a.s.opt.Log.Warn("a lease is shorter than it was written: the clocks of the Cassandra nodes differ too much",
			"lock", a.req.Name, "written_s", a.ttl, "left_s", row.TTL, "max_clock_skew", a.s.opt.MaxClockSkew)
		trust = min(trust, a.s.trust(row.TTL))
	}
	a.s.began(a.req.Name, row)
	return fresh(row, trust)
}

// giveUp ends an acquire that was not settled in time. It burns a transaction
// that may still apply, in the background if no time is left.
func (a *acquiring) giveUp(applied bool) (Grant, error) {
	pending := applied || a.open
	if pending && !applied && a.work.Err() == nil {
		if burned, err := a.s.db.Burn(a.work, a.req.Name, a.e0, a.want); err == nil && burned {
			a.s.opt.Observer.Unknown("acquire", "burned")
			pending = false
		}
	}
	if pending {
		a.s.abandon(a.req, a.e0, a.want)
	}
	return Grant{}, a.s.outcome("acquire", pending || a.lost, a.err)
}

// abandon makes sure that an acquire e0 -> e1 without a waiting caller does not
// apply later. An applied one is released only if its caller can never learn of
// it: a caller that knows its owner or attempt may find the term by repeating
// the request or reading the lock, and would then believe in it.
func (s *Service) abandon(req AcquireRequest, e0, e1 int64) {
	s.pending.Go(func() {
		work, cancel := context.WithTimeout(context.Background(), 3*s.opt.Budget)
		defer cancel()
		for p := newPause(); ; {
			if s.abandoned(work, req, e0, e1) || !p.wait(work) {
				return
			}
		}
	})
}

func (s *Service) abandoned(work context.Context, req AcquireRequest, e0, e1 int64) bool {
	t, err := s.lines.enter(work, req.Name, false)
	if err != nil {
		return true
	}
	defer t.leave()
	row, err := s.read(work, t, Decide)
	switch {
	case err != nil:
		return false
	case row.Epoch == e0 && row.Free():
		burned, err := s.db.Burn(work, req.Name, e0, e1)
		return err == nil && burned
	case req.Anonymous && row.is(req.Owner, e1):
		released, err := s.db.Release(work, req.Name, req.Owner, e1, row.Rev)
		if released {
			s.terms.forget(req.Name, e1)
			s.hub.changed(req.Name)
		}
		return err == nil
	}
	return true
}
