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

// Observer counts events for operators.
type Observer interface {
	Contention(op string)       // a transaction lost against another
	Unknown(op, outcome string) // an unknown outcome and its resolution
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
	// Poll is the time between two reads of a watched lock, if these are few.
	Poll time.Duration
	// Parallel is how many locks of a batch are worked on at once.
	Parallel int
	Log      *slog.Logger
	Observer Observer
}

// Service answers the requests for all locks. Other services on the same store
// need not know its state.
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

// Drain ends all waiting: long polls answer at once with the present state.
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

// Held counts the terms that this service granted or renewed last and that have
// not expired since.
func (s *Service) Held() int { return s.terms.count(time.Now()) }

// pulseName is no valid name of a lock.
const pulseName = "//pulse"

// Pulse takes the path of a request for a lock, and returns by the limit even
// if the store hangs, unless the service itself does. The error is the store's.
func (s *Service) Pulse(limit time.Duration) error {
	s.hub.part(s.hub.join(pulseName))
	s.Held()
	_, err := s.Get(context.WithValue(context.Background(), endKey{}, time.Now().Add(limit)), pulseName)
	return err
}

// work gives an operation its time; all operations of a batch share one end. The
// caller's connection does not end it: a transaction that is abandoned half way
// would be a needless unknown outcome.
func (s *Service) work(ctx context.Context) (context.Context, context.CancelFunc) {
	end := time.Now().Add(s.opt.Budget)
	if all, ok := ctx.Value(endKey{}).(time.Time); ok && all.Before(end) {
		end = all
	}
	return context.WithDeadline(context.WithoutCancel(ctx), end)
}

// enter takes the turn on a lock, within the caller's patience and the budget.
func (s *Service) enter(ctx, work context.Context, name string) (*turn, error) {
	return s.queue(ctx, work, name, false)
}

// enterFirst is enter for requests that keep or end a term.
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

// read reads the row and shows it to the others in the line.
func (s *Service) read(work context.Context, t *turn, level Level) (Row, error) {
	since := time.Now()
	row, err := s.db.Read(work, t.name, level)
	if err == nil {
		t.note(row, since, level)
	}
	return row, err
}

// settle reads linearizably until it succeeds or the time is over. Without an
// open outcome it does not wait for an absent store: the caller can try the
// next gateway meanwhile.
func (s *Service) settle(work context.Context, t *turn, open bool) (Row, error) {
	for p := newPause(); ; {
		row, err := s.read(work, t, Decide)
		if err == nil || !open && harmless(err) || !p.wait(work) {
			return row, err
		}
	}
}

// trust is for how long, from the sending of its request, a holder may believe
// in a lease with so many seconds to live.
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

// began keeps a term that was granted or renewed.
func (s *Service) began(name string, row Row) {
	s.terms.put(name, row, row.TTL, time.Now())
	s.hub.changed(name)
}

func fresh(row Row, trust time.Duration) Grant {
	return Grant{Row: row, Trust: trust, Expires: time.Duration(row.TTL) * time.Second}
}

// repeated is a grant that a read has shown: only the time left may be believed,
// never a whole lease, nor more than the request's TTL. A lease shows more if a
// clock that is ahead wrote it: the next renewal, by another clock, makes it
// shorter, and its answer may be lost.
func (s *Service) repeated(row Row, ttl time.Duration) Grant {
	return Grant{Row: row, Repeated: true, Trust: s.trust(min(row.TTL, WholeTTL(ttl))),
		Expires: time.Duration(row.TTL) * time.Second}
}

// harmless tells whether a failed statement certainly had no effect.
func harmless(err error) bool {
	return errors.Is(err, ErrNotSent) || errors.Is(err, ErrRejected)
}

// outcome turns the failure of an operation into the caller's error.
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

// NewID makes a unique name.
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
