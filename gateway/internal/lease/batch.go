package lease

import (
	"context"
	"sync"
	"time"
)

// endKey is where a context keeps the end of a batch's time, or of a pulse's.
type endKey struct{}

// together calls do for each of n locks, several at a time. A batch has the time
// of one request, as a caller waits no longer, and begins locks in its first two
// thirds only: a late one has time to learn its outcome, and one that comes too
// late is not applied.
func (s *Service) together(ctx context.Context, n int, do func(ctx context.Context, i int)) {
	now := time.Now()
	ctx = context.WithValue(ctx, endKey{}, now.Add(s.opt.Budget))
	ctx, cancel := context.WithDeadline(ctx, now.Add(s.opt.Budget*2/3))
	defer cancel()
	slots := make(chan struct{}, max(1, s.opt.Parallel))
	var all sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			do(ctx, i)
		})
	}
	all.Wait()
}

// ReleaseRequest ends a term.
type ReleaseRequest struct {
	Name, Owner string
	Token, Rev  int64
}

// AcquireMany acquires locks for one owner.
func (s *Service) AcquireMany(ctx context.Context, reqs []AcquireRequest) ([]Grant, []error) {
	grants, errs := make([]Grant, len(reqs)), make([]error, len(reqs))
	s.together(ctx, len(reqs), func(ctx context.Context, i int) { grants[i], errs[i] = s.Acquire(ctx, reqs[i]) })
	return grants, errs
}

// RenewMany renews the locks of one node.
func (s *Service) RenewMany(ctx context.Context, reqs []RenewRequest) ([]Grant, []error) {
	grants, errs := make([]Grant, len(reqs)), make([]error, len(reqs))
	s.together(ctx, len(reqs), func(ctx context.Context, i int) { grants[i], errs[i] = s.Renew(ctx, reqs[i]) })
	return grants, errs
}

// ReleaseMany ends terms of one owner.
func (s *Service) ReleaseMany(ctx context.Context, reqs []ReleaseRequest) []error {
	errs := make([]error, len(reqs))
	s.together(ctx, len(reqs), func(ctx context.Context, i int) {
		q := reqs[i]
		errs[i] = s.Release(ctx, q.Name, q.Owner, q.Token, q.Rev)
	})
	return errs
}

// GetMany reads locks, each linearizably.
func (s *Service) GetMany(ctx context.Context, names []string) ([]Row, []error) {
	rows, errs := make([]Row, len(names)), make([]error, len(names))
	s.together(ctx, len(names), func(ctx context.Context, i int) { rows[i], errs[i] = s.Get(ctx, names[i]) })
	return rows, errs
}
