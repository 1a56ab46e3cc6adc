// Package leasetest is a model of the lease table in memory, with statements
// that can fail in Cassandra's ways. The tests against a real Cassandra check
// the model; the model reaches cases that those tests cannot time.
package leasetest

import (
	"context"
	"errors"
	"sort"
	"sync"
	"time"

	"github.com/leader-election/leader_election/gateway/internal/lease"
)

// Fault is the fate of a statement.
type Fault int

const (
	None       Fault = iota
	AnswerLost       // applied, but the answer does not arrive
	NeverRuns        // not applied, and nobody can tell
	RunsLate         // not applied now, but by Model.Late
	NotSent
	Rejected
)

var errLost = errors.New("no answer")

type stored struct {
	lease.Row
	until  time.Time
	claims map[string]lease.Claim
}

// Model is a lease.DB.
type Model struct {
	mu     sync.Mutex
	locks  map[string]*stored
	late   []func() bool
	Counts map[string]int
	// Fault chooses the fault of the next statement of a kind; nil: none.
	Fault func(kind string) Fault
	// Slow makes every statement take its time.
	Slow time.Duration
	// PollSees, when set, is the row that a poll shows.
	PollSees *lease.Row
	// Answer is called after a read, before its answer.
	Answer func()
}

// New makes an empty table.
func New() *Model {
	return &Model{locks: make(map[string]*stored), Counts: make(map[string]int)}
}

// Late runs the statements that were held back and returns how many applied.
func (m *Model) Late() (applied int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, run := range m.late {
		if run() {
			applied++
		}
	}
	m.late = nil
	return applied
}

// Row shows a lock.
func (m *Model) Row(name string) lease.Row {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at(name).Row
}

// Expire ends a lock's lease at once.
func (m *Model) Expire(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at(name).until = time.Time{}
}

// Shorten shortens a lock's lease, as a slow coordinator does.
func (m *Model) Shorten(name string, by time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.at(name)
	s.until = s.until.Add(-by)
}

// Count tells how many statements of a kind arrived.
func (m *Model) Count(kind string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.Counts[kind]
}

// at returns a lock without its expired cells.
func (m *Model) at(name string) *stored {
	s := m.locks[name]
	if s == nil {
		s = &stored{claims: make(map[string]lease.Claim)}
		m.locks[name] = s
	}
	left := time.Until(s.until)
	if left <= 0 {
		s.Row = lease.Row{Epoch: s.Epoch}
	}
	s.TTL = int((left + time.Second - 1) / time.Second)
	if s.Free() {
		s.TTL = 0
	}
	return s
}

// cas runs a conditional statement with the fault that is due.
func (m *Model) cas(ctx context.Context, kind string, run func() bool) (bool, error) {
	fault, err := m.begin(ctx, kind)
	if err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch fault {
	case AnswerLost:
		run()
		return false, errLost
	case NeverRuns:
		return false, errLost
	case RunsLate:
		m.late = append(m.late, run)
		return false, errLost
	case NotSent:
		return false, lease.ErrNotSent
	case Rejected:
		return false, lease.ErrRejected
	}
	return run(), nil
}

func (m *Model) begin(ctx context.Context, kind string) (Fault, error) {
	m.mu.Lock()
	m.Counts[kind]++
	var fault Fault
	if m.Fault != nil {
		fault = m.Fault(kind)
	}
	m.mu.Unlock()
	if m.Slow > 0 {
		select {
		case <-time.After(m.Slow):
		case <-ctx.Done():
		}
	}
	return fault, ctx.Err()
}

func (m *Model) read(ctx context.Context, run func()) error {
	fault, err := m.begin(ctx, "read")
	if err == nil && fault == NotSent {
		err = lease.ErrNotSent
	} else if err == nil && fault != None {
		err = errLost
	}
	if err != nil {
		return err
	}
	m.mu.Lock()
	run()
	answer := m.Answer
	m.mu.Unlock()
	if answer != nil {
		answer()
	}
	return nil
}

// Read reads a lock.
func (m *Model) Read(ctx context.Context, name string, level lease.Level) (row lease.Row, err error) {
	err = m.read(ctx, func() {
		row = m.at(name).Row
		if m.PollSees != nil && level == lease.Poll {
			row = *m.PollSees
		}
	})
	return row, err
}

// Acquire begins a term.
func (m *Model) Acquire(ctx context.Context, name string, e0 int64, r lease.Row) (bool, error) {
	return m.cas(ctx, "acquire", func() bool {
		s := m.at(name)
		if s.Epoch != e0 || !s.Free() {
			return false
		}
		s.Row, s.until = r, time.Now().Add(time.Duration(r.TTL)*time.Second)
		return true
	})
}

// Burn uses up an epoch.
func (m *Model) Burn(ctx context.Context, name string, e0, e1 int64) (bool, error) {
	return m.cas(ctx, "burn", func() bool {
		s := m.at(name)
		if s.Epoch != e0 || !s.Free() {
			return false
		}
		s.Epoch = e1
		return true
	})
}

// Renew writes the next revision.
func (m *Model) Renew(ctx context.Context, name string, r lease.Row) (bool, error) {
	return m.cas(ctx, "renew", func() bool {
		s := m.at(name)
		if s.Epoch != r.Epoch || s.Owner != r.Owner || s.Rev != r.Rev-1 {
			return false
		}
		s.Row, s.until = r, time.Now().Add(time.Duration(r.TTL)*time.Second)
		return true
	})
}

// Release ends a term.
func (m *Model) Release(ctx context.Context, name, owner string, token, rev int64) (bool, error) {
	return m.cas(ctx, "release", func() bool {
		s := m.at(name)
		if s.Free() || s.Epoch != token || s.Owner != owner || s.Rev != rev {
			return false
		}
		s.until = time.Time{}
		return true
	})
}

// List lists all locks in one page.
func (m *Model) List(ctx context.Context, _ int, _ []byte) (list []lease.Entry, next []byte, err error) {
	err = m.read(ctx, func() {
		for name := range m.locks {
			list = append(list, lease.Entry{Name: name, Row: m.at(name).Row})
		}
	})
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list, nil, err
}

// ReadClaim reads a job's record.
func (m *Model) ReadClaim(ctx context.Context, name, job string) (row lease.Row, c lease.Claim, err error) {
	err = m.read(ctx, func() { row, c = m.at(name).Row, m.at(name).claims[job] })
	return row, c, err
}

// ReadClaims reads all records.
func (m *Model) ReadClaims(ctx context.Context, name string) (list []lease.Claim, err error) {
	err = m.read(ctx, func() {
		for _, c := range m.at(name).claims {
			list = append(list, c)
		}
	})
	return list, err
}

// Claim records a claim.
func (m *Model) Claim(ctx context.Context, name, owner string, c lease.Claim, prevID, prevState string) (bool, error) {
	return m.cas(ctx, "claim", func() bool {
		s := m.at(name)
		old := s.claims[c.Job]
		if s.Epoch != c.Token || s.Owner != owner || s.Free() || old.ID != prevID || old.State != prevState {
			return false
		}
		s.claims[c.Job] = c
		return true
	})
}

// Complete ends a claim.
func (m *Model) Complete(ctx context.Context, name, job, id, state, info string) (bool, error) {
	return m.cas(ctx, "complete", func() bool {
		s := m.at(name)
		c := s.claims[job]
		if c.ID != id || c.State != lease.Running {
			return false
		}
		c.State = state
		if info != "" {
			c.Info = info
		}
		s.claims[job] = c
		return true
	})
}

// Quiet is an Observer that counts.
type Quiet struct {
	mu      sync.Mutex
	unknown map[string]int
	skew    int
}

// Contention is not kept.
func (q *Quiet) Contention(string) {}

// Waiters is not kept.
func (q *Quiet) Waiters(int) {}

// ClockSkew counts.
func (q *Quiet) ClockSkew() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.skew++
}

// Unknown counts.
func (q *Quiet) Unknown(op, resolved string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.unknown == nil {
		q.unknown = make(map[string]int)
	}
	q.unknown[op+" "+resolved]++
}

// Unknowns returns how often an outcome was unknown and so resolved.
func (q *Quiet) Unknowns(what string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.unknown[what]
}

// Skews tells how often clocks were seen too far apart.
func (q *Quiet) Skews() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.skew
}
