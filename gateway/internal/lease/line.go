package lease

import (
	"context"
	"slices"
	"sync"
	"time"
)

// lines lets requests for the same lock pass one after the other. Transactions
// on one partition exclude each other in Paxos anyway; letting them compete
// would only burn rounds.
type lines struct {
	mu sync.Mutex
	m  map[string]*line
}

// line is the queue of one lock. It exists while a request is in it.
type line struct {
	refs  int
	taken bool
	// Waiting requests, in order of arrival: those that keep or end a term come
	// before all others.
	first, rest []chan struct{}
	seen        Row
	since       time.Time // when the request that brought seen was sent
	level       Level
	filled      bool
}

// turn is the right to talk to the store about one lock.
type turn struct {
	lines   *lines
	name    string
	line    *line
	arrived time.Time
}

func newLines() *lines { return &lines{m: make(map[string]*line)} }

// enter waits for the turn. A request that keeps a term waits for one other at
// most, the one with the turn, however many contend for the lock.
func (q *lines) enter(ctx context.Context, name string, keeps bool) (*turn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	arrived := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.m[name]
	if l == nil {
		l = &line{}
		q.m[name] = l
	}
	l.refs++
	t := &turn{lines: q, name: name, line: l, arrived: arrived}
	if !l.taken {
		l.taken = true
		return t, nil
	}
	mine, queue := make(chan struct{}), &l.rest
	if keeps {
		queue = &l.first
	}
	*queue = append(*queue, mine)
	q.mu.Unlock()
	select {
	case <-mine:
	case <-ctx.Done():
	}
	q.mu.Lock()
	if i := slices.Index(*queue, mine); i >= 0 {
		*queue = slices.Delete(*queue, i, i+1)
		t.drop()
		return nil, ctx.Err()
	}
	return t, nil // also if the time was over just then
}

// leave gives the turn to the next.
func (t *turn) leave() {
	t.lines.mu.Lock()
	defer t.lines.mu.Unlock()
	l := t.line
	queue := &l.first
	if len(*queue) == 0 {
		queue = &l.rest
	}
	if l.taken = len(*queue) > 0; l.taken {
		close((*queue)[0])
		*queue = slices.Delete(*queue, 0, 1)
	}
	t.drop()
}

func (t *turn) drop() {
	if t.line.refs--; t.line.refs == 0 {
		delete(t.lines.m, t.name)
	}
}

// note keeps the row that a request sent at since has shown, for the others.
func (t *turn) note(row Row, since time.Time, level Level) {
	l := t.line
	l.seen, l.since, l.level, l.filled = row, since, level, true
}

// seenSince returns the row that another request has read. Only a read sent
// after we arrived will do: an older one could miss a release that was
// answered before our caller asked.
func (t *turn) seenSince(level Level) (Row, bool) {
	l := t.line
	if !l.filled || l.level < level || l.since.Before(t.arrived) {
		return Row{}, false
	}
	row := l.seen
	row.TTL -= int(time.Since(l.since) / time.Second)
	if !row.Free() && row.TTL < 1 {
		return Row{}, false // may have expired meanwhile: look again
	}
	return row, true
}
