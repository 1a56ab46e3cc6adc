package lease

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Get reads a lock linearizably.
func (s *Service) Get(ctx context.Context, name string) (Row, error) {
	work, cancel := s.work(ctx)
	defer cancel()
	t, err := s.enter(ctx, work, name)
	if err != nil {
		return Row{}, err
	}
	defer t.leave()
	if row, ok := t.seenSince(Decide); ok {
		return row, nil
	}
	row, err := s.settle(work, t, false)
	if err != nil {
		return row, s.outcome("read", false, err)
	}
	return row, nil
}

// List reads a page of all locks; it is not linearizable.
func (s *Service) List(ctx context.Context, size int, page []byte) ([]Entry, []byte, error) {
	work, cancel := s.work(ctx)
	defer cancel()
	list, next, err := s.db.List(work, size, page)
	if err != nil {
		return nil, nil, s.outcome("list", false, err)
	}
	return list, next, nil
}

// Known is the state that a waiting caller saw last.
type Known struct{ Token, Rev int64 }

// news is true for a change that a caller at k must hear of. Another revision
// of the same term may or may not carry another value; a stateless gateway
// cannot tell, so it answers.
func (k *Known) news(row Row) bool {
	return row.Epoch != k.Token || row.Rev != k.Rev
}

// differs compares holder, term and value: a mere renewal is no news.
func differs(a, b Row) bool {
	return a.Epoch != b.Epoch || a.Owner != b.Owner || a.Value != b.Value
}

// Wait answers as soon as the lock differs from the caller's state (nil: the
// present state), and at the latest after limit.
func (s *Service) Wait(ctx context.Context, name string, known *Known, limit time.Duration) (Row, error) {
	s.opt.Observer.Waiters(1)
	defer s.opt.Observer.Waiters(-1)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	w := s.hub.join(name) // before the first read, so that nothing falls between
	defer s.hub.part(w)
	first, err := s.Get(ctx, name)
	if err != nil || known != nil && known.news(first) {
		return first, err
	}
	row, seen, next := w.latest()
	for {
		if seen && differs(first, row) { // a poll may be behind: ask
			if now, err := s.Get(ctx, name); err != nil || differs(first, now) {
				return now, err
			}
		}
		select {
		case <-next:
			row, seen, next = w.latest()
		case <-timer.C:
			return s.Get(ctx, name)
		case <-s.life.Done():
			return s.Get(ctx, name)
		case <-ctx.Done():
			return Row{}, &NotAppliedError{ctx.Err()}
		}
	}
}

// Bounds of the load that polling puts on Cassandra: so many reads a second, but
// no longer time between two reads of a lock, unless set.
const (
	looksPerSecond = 1000
	slowestLook    = 800 * time.Millisecond
)

// hub polls each watched lock once, however many wait for it.
type hub struct {
	s  *Service
	mu sync.Mutex
	m  map[string]*watched
}

type watched struct {
	name string
	refs int
	kick chan struct{} // poll now: this gateway has written
	stop context.CancelFunc

	mu   sync.Mutex
	row  Row
	seen bool
	next chan struct{} // closed when row changes
}

func newHub(s *Service) *hub { return &hub{s: s, m: make(map[string]*watched)} }

func (h *hub) join(name string) *watched {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.m[name]
	if w == nil {
		ctx, stop := context.WithCancel(h.s.life)
		w = &watched{name: name, kick: make(chan struct{}, 1), stop: stop, next: make(chan struct{})}
		h.m[name] = w
		go h.poll(ctx, w)
	}
	w.refs++
	return w
}

func (h *hub) part(w *watched) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.refs--; w.refs == 0 {
		delete(h.m, w.name)
		w.stop()
	}
}

// changed tells waiters of this gateway at once of its own writes.
func (h *hub) changed(name string) {
	h.mu.Lock()
	w := h.m[name]
	h.mu.Unlock()
	if w != nil {
		select {
		case w.kick <- struct{}{}:
		default: // a poll is due anyway, and it comes after this change
		}
	}
}

// interval is the time between two polls of a lock: as set, and longer if many
// locks are watched.
func (h *hub) interval() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	shared := time.Duration(len(h.m)) * time.Second / looksPerSecond
	return max(h.s.opt.Poll, min(shared, slowestLook))
}

// poll reads the lock until nobody waits for it. A majority read is enough to
// notice an answered change; the waiter's answer is a linearizable read.
func (h *hub) poll(ctx context.Context, w *watched) {
	for {
		every := h.interval()
		t := time.NewTimer(every*3/4 + rand.N(every/4+1))
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-w.kick:
			t.Stop()
		case <-t.C:
		}
		work, cancel := h.s.work(ctx)
		row, err := h.s.db.Read(work, w.name, Poll)
		cancel()
		if err == nil {
			w.show(row)
		}
	}
}

func (w *watched) show(row Row) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen && !differs(w.row, row) {
		return
	}
	w.row, w.seen = row, true
	close(w.next)
	w.next = make(chan struct{})
}

func (w *watched) latest() (Row, bool, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.row, w.seen, w.next
}
