package api

import (
	"log/slog"
	"sync"
	"time"
)

// failures logs failed requests, at most one line a second for each type of
// problem: the first at once, later ones within the second as a count.
type failures struct {
	log  *slog.Logger
	mu   sync.Mutex
	more map[string]int // failures not logged, by type, within its second
}

func (f *failures) warn(kind string, args []any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n, quiet := f.more[kind]; quiet {
		f.more[kind] = n + 1
		return
	}
	if f.more == nil {
		f.more = make(map[string]int)
	}
	f.more[kind] = 0
	f.log.Warn("request failed", args...)
	time.AfterFunc(time.Second, func() { f.tell(kind) })
}

func (f *failures) tell(kind string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.more[kind]
	if n == 0 {
		delete(f.more, kind)
		return
	}
	f.more[kind] = 0
	f.log.Warn("more requests failed", "type", kind, "count", n)
	time.AfterFunc(time.Second, func() { f.tell(kind) })
}
