package lease

import (
	"sync"
	"time"
)

// terms keeps the last write of this service to each lock. A renewal must write
// the value and the attempt again, since every cell has its own TTL, and a
// renewal that keeps the value would otherwise have to read it first. It is only
// a cache: the revision in the statement's condition checks it.
type terms struct {
	mu    sync.Mutex
	m     map[string]term
	sweep int // size at which the expired ones are thrown out
}

type term struct {
	row   Row
	until time.Time
}

func newTerms() *terms { return &terms{m: make(map[string]term), sweep: 1024} }

func (t *terms) put(name string, row Row, ttl int, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.m[name] = term{row, now.Add(time.Duration(ttl) * time.Second)}
	if len(t.m) >= t.sweep {
		t.expire(now)
		t.sweep = max(1024, 2*len(t.m))
	}
}

// get returns the row of exactly this term and revision.
func (t *terms) get(name, owner string, token, rev int64) (Row, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k, ok := t.m[name]
	return k.row, ok && k.row.is(owner, token) && k.row.Rev == rev
}

// forget drops a term that is over, but not its successor.
func (t *terms) forget(name string, token int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m[name].row.Epoch <= token {
		delete(t.m, name)
	}
}

func (t *terms) count(now time.Time) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire(now)
	return len(t.m)
}

func (t *terms) expire(now time.Time) {
	for name, k := range t.m {
		if now.After(k.until) {
			delete(t.m, name)
		}
	}
}
