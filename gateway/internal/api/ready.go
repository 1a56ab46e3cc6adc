package api

import (
	"context"
	"sync"
	"time"
)

// readyKept is how long an answer to /readyz is given again. Anybody may ask,
// and each question is a read of a majority: a second is soon enough for
// whoever balances the load, and bounds what the asking can cost.
const readyKept = time.Second

// readiness asks the store whether it is there, one question at a time.
type readiness struct {
	ask  func(context.Context) error
	kept time.Duration

	mu   sync.Mutex
	at   time.Time // of the last answer
	last error
}

func (r *readiness) check(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.IsZero() || time.Since(r.at) >= r.kept {
		// Others hear the answer, too, also if this caller goes away.
		r.last = r.ask(context.WithoutCancel(ctx))
		r.at = time.Now()
	}
	return r.last
}
