package lease

import (
	"context"
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

// line is the queue of one lock. It exists while somebody stands in it.
type line struct {
	refs   int
	turn   chan struct{} // holds one element while nobody has the turn
	seen   Row
	since  time.Time // when the request that brought seen was sent
	level  Level
	filled bool
}

// turn is the right to talk to the store about one lock.
type turn struct {
	lines   *lines
	name    string
	line    *line
	arrived time.Time
}

func newLines() *lines { return &lines{m: make(map[string]*line)} }

// enter waits for the turn. Channels serve waiters in order of arrival, so a
// renewal is not starved by contenders.
func (q *lines) enter(ctx context.Context, name string) (*turn, error) {
	arrived := time.Now()
	q.mu.Lock()
	l := q.m[name]
	if l == nil {
		l = &line{turn: make(chan struct{}, 1)}
		l.turn <- struct{}{}
		q.m[name] = l
	}
	l.refs++
	q.mu.Unlock()
	t := &turn{lines: q, name: name, line: l, arrived: arrived}
	select {
	case <-l.turn:
		return t, nil
	case <-ctx.Done():
		t.drop()
		return nil, ctx.Err()
	}
}

func (t *turn) leave() {
	t.line.turn <- struct{}{}
	t.drop()
}

func (t *turn) drop() {
	t.lines.mu.Lock()
	defer t.lines.mu.Unlock()
	if t.line.refs--; t.line.refs == 0 {
		delete(t.lines.m, t.name)
	}
}

// note keeps what a request sent at since has shown, for those who wait.
func (t *turn) note(row Row, since time.Time, level Level) {
	l := t.line
	l.seen, l.since, l.level, l.filled = row, since, level, true
}

// seenSince returns what others have read for us. Only a read that was sent
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
