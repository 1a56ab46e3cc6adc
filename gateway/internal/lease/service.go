package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"math"
	mrand "math/rand/v2"
	"sync"
	"time"
)

// Observer hears what operators want to count.
type Observer interface {
	Contention(op string)       // a transaction lost against another
	Unknown(op, outcome string) // an unknown outcome and what became of it
	ClockSkew()                 // coordinators differ by more than was allowed
	Waiters(delta int)          // long polls under way
}

// Options are the service's settings.
type Options struct {
	// MaxClockSkew is by how much the clocks of any two Cassandra nodes may
	// differ. Coordinators write and judge expiry, each by its own clock.
	MaxClockSkew time.Duration
	// Budget is how long one request may take, unknown outcomes included.
	Budget time.Duration
	// Poll is how often a watched lock is looked at, where few are watched.
	Poll time.Duration
	// Parallel is how many locks of a batch are worked on at once.
	Parallel int
	Log      *slog.Logger
	Observer Observer
}

// Service answers the requests for all locks. It keeps nothing that another
// service on the same store would have to know.
type Service struct {
	db    DB
	opt   Options
	lines *lines
	terms *terms
	hub   *hub

	life    context.Context // ends when the service is closed
	end     context.CancelFunc
	pending sync.WaitGroup // background settlements
}

// New makes a service on a store.
func New(db DB, opt Options) *Service {
	s := &Service{db: db, opt: opt, lines: newLines(), terms: newTerms()}
	s.life, s.end = context.WithCancel(context.Background())
	s.hub = newHub(s)
	return s
}

// Drain ends all waiting: long polls answer at once with what is there.
func (s *Service) Drain() { s.end() }

// Close waits until the background settlements have ended.
func (s *Service) Close(ctx context.Context) {
	s.end()
	done := make(chan struct{})
	go func() { s.pending.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Held counts the terms that this service granted or renewed last and that
// have not run out since.
func (s *Service) Held() int { return s.terms.count(time.Now()) }

// pulseName is none that a lock can have.
const pulseName = "//pulse"

// Pulse goes where a request for a lock goes, and comes back by the limit whatever
// the store does, unless something in here stands still. The error is the store's.
func (s *Service) Pulse(limit time.Duration) error {
	s.hub.part(s.hub.join(pulseName))
	s.Held()
	_, err := s.Get(context.WithValue(context.Background(), endKey{}, time.Now().Add(limit)), pulseName)
	return err
}

// work gives an operation its time, which of a batch ends with that of all. It is
// not tied to the caller's connection: a transaction that is abandoned half way
// is an unknown outcome for nothing.
func (s *Service) work(ctx context.Context) (context.Context, context.CancelFunc) {
	end := time.Now().Add(s.opt.Budget)
	if all, ok := ctx.Value(endKey{}).(time.Time); ok && all.Before(end) {
		end = all
	}
	return context.WithDeadline(context.WithoutCancel(ctx), end)
}

// enter takes the turn on a lock, for callers that will wait no longer than
// their own patience and the budget.
func (s *Service) enter(ctx, work context.Context, name string) (*turn, error) {
	return s.queue(ctx, work, name, false)
}

// enterFirst is enter for those who keep or end a term.
func (s *Service) enterFirst(ctx, work context.Context, name string) (*turn, error) {
	return s.queue(ctx, work, name, true)
}

func (s *Service) queue(ctx, work context.Context, name string, keeps bool) (*turn, error) {
	if ctx.Err() != nil {
		return nil, &NotAppliedError{errors.New("no time was left to begin")}
	}
	both, cancel := context.WithCancel(work)
	defer cancel()
	stop := context.AfterFunc(ctx, cancel)
	defer stop()
	t, err := s.lines.enter(both, name, keeps)
	if err != nil {
		return nil, &NotAppliedError{errors.New("other requests for this lock took all the time")}
	}
	return t, nil
}

// read looks at the row and tells those who wait in the line.
func (s *Service) read(work context.Context, t *turn, level Level) (Row, error) {
	since := time.Now()
	row, err := s.db.Read(work, t.name, level)
	if err == nil {
		t.note(row, since, level)
	}
	return row, err
}

// settle reads linearizably until it succeeds or the time is over. Where no
// outcome is open, a store that is not there is not waited for: the caller can
// try the next gateway meanwhile.
func (s *Service) settle(work context.Context, t *turn, open bool) (Row, error) {
	for p := newPause(); ; {
		row, err := s.read(work, t, Decide)
		if err == nil || !open && harmless(err) || !p.wait(work) {
			return row, err
		}
	}
}

// trust is how long after the sending of its request a holder may believe in
// a lease with so many seconds to live.
func (s *Service) trust(ttl int) time.Duration {
	return max(0, time.Duration(ttl)*time.Second-Granularity-s.opt.MaxClockSkew)
}

// CheckTTL refuses leases that could not be believed for an instant.
func (s *Service) CheckTTL(ttl time.Duration) error {
	least := max(MinTTL, Granularity+s.opt.MaxClockSkew+time.Second)
	if ttl < least || ttl > MaxTTL {
		return refuse(BadTTL, Row{},
			"ttl must be between %v and %v: %v of it are lost to the store's granularity and %v to its clocks",
			least, MaxTTL, Granularity, s.opt.MaxClockSkew)
	}
	return nil
}

// began notes a term that is seen to be held, or held on.
func (s *Service) began(name string, row Row) {
	s.terms.put(name, row, row.TTL, time.Now())
	s.hub.changed(name)
}

func fresh(row Row, trust time.Duration) Grant {
	return Grant{Row: row, Trust: trust, Expires: time.Duration(row.TTL) * time.Second}
}

// repeated is a grant that a read has shown: only what is left may be
// believed, never a whole lease. Nor more than the TTL of the request, which is
// what shows where the lease was written by a clock that is ahead: the next
// renewal, written by another, makes it shorter, and its answer may be lost.
func (s *Service) repeated(row Row, ttl time.Duration) Grant {
	return Grant{Row: row, Repeated: true, Trust: s.trust(min(row.TTL, WholeTTL(ttl))),
		Expires: time.Duration(row.TTL) * time.Second}
}

// harmless tells whether a failed statement certainly had no effect.
func harmless(err error) bool {
	return errors.Is(err, ErrNotSent) || errors.Is(err, ErrRejected)
}

// outcome turns the failure of an operation into what the caller is told.
func (s *Service) outcome(op string, maybe bool, err error) error {
	if err == nil {
		err = context.DeadlineExceeded
	}
	if maybe {
		s.opt.Observer.Unknown(op, "unresolved")
		return &UnknownError{err}
	}
	return &NotAppliedError{err}
}

// NewID makes a name that nobody else uses.
func NewID() string { return rand.Text() }

// pause grows from try to try and is never the same for two contenders.
type pause struct{ next time.Duration }

func newPause() *pause { return &pause{20 * time.Millisecond} }

// wait pauses; false when there is no time left.
func (p *pause) wait(ctx context.Context) bool {
	d := time.Duration(float64(p.next) * (0.5 + mrand.Float64()))
	p.next = time.Duration(math.Min(float64(2*p.next), float64(300*time.Millisecond)))
	if at, ok := ctx.Deadline(); ok && time.Until(at) <= d {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
