package api

import (
	"context"
	"sync"
	"time"
)

// readyKept is how long an answer to /readyz is repeated. Anybody may ask, and
// each check is a read of a majority: a second is soon enough for a load
// balancer, and bounds the cost.
const readyKept = time.Second

// readiness checks the store, one check at a time.
type readiness struct {
	ask  func(context.Context) error
	kept time.Duration

	mu   sync.Mutex
	at   time.Time // the last answer's
	last error
}

func (r *readiness) check(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.IsZero() || time.Since(r.at) >= r.kept {
		// Others get the answer, too, even if this caller goes away.
		r.last = r.ask(context.WithoutCancel(ctx))
		r.at = time.Now()
	}
	return r.last
}
