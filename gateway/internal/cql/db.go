// Package cql is the lease store on Apache Cassandra: one statement per
// method, each sent at most once. Decisions about leases are made elsewhere.
package cql

import (
	"context"
	"errors"
	"fmt"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/leader-election/leader_election/gateway/internal/lease"
)

// statements of the lease table. The lock is in static columns, so that one
// transaction can cover it and a job's claim. Each statement that writes a
// cell gives its TTL: the table must have no default.
type statements struct {
	read, epoch, hold, burn, renew, release   string
	list, claim, complete, oneClaim, allClaim string
}

func newStatements(table string) statements {
	return statements{
		read:  `SELECT epoch, owner, value, attempt, rev, TTL(owner) FROM ` + table + ` WHERE name = ? LIMIT 1`,
		epoch: `UPDATE ` + table + ` USING TTL 0 SET epoch = ? WHERE name = ? IF epoch = ? AND owner = NULL`,
		hold:  `UPDATE ` + table + ` USING TTL ? SET owner = ?, value = ?, attempt = ?, rev = 1 WHERE name = ?`,
		burn:  `UPDATE ` + table + ` USING TTL 0 SET epoch = ? WHERE name = ? IF epoch = ? AND owner = NULL`,
		renew: `UPDATE ` + table + ` USING TTL ? SET owner = ?, value = ?, attempt = ?, rev = ?` +
			` WHERE name = ? IF epoch = ? AND owner = ? AND rev = ?`,
		release: `DELETE owner, value, attempt, rev FROM ` + table + ` WHERE name = ? IF epoch = ? AND owner = ? AND rev = ?`,
		list:    `SELECT DISTINCT name, epoch, owner, value, rev, TTL(owner) FROM ` + table,
		claim: `UPDATE ` + table + ` USING TTL 0 SET tick = ?, try = ?, claim = ?, by_epoch = ?, info = ?, state = 'running'` +
			` WHERE name = ? AND job = ? IF epoch = ? AND owner = ? AND claim = ? AND state = ?`,
		complete: `UPDATE ` + table + ` USING TTL 0 SET state = ?, info = ? WHERE name = ? AND job = ? IF claim = ? AND state = 'running'`,
		oneClaim: `SELECT epoch, owner, value, attempt, rev, TTL(owner), job, tick, try, claim, by_epoch, state, info FROM ` + table + ` WHERE name = ? AND job = ?`,
		allClaim: `SELECT job, tick, try, claim, by_epoch, state, info FROM ` + table + ` WHERE name = ?`,
	}
}

// Observer hears of every statement.
type Observer interface {
	Statement(kind, outcome string, took time.Duration)
}

// DB is a lease.DB on a Cassandra session. Before the session is open, it
// answers that nothing was sent.
type DB struct {
	opt Options
	st  statements
	obs Observer

	conn connection
}

var _ lease.DB = (*DB)(nil)

// nullable maps Go's zero values to NULL in a condition.
func nullable[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

func orZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// Read reads a lock. A lock that never existed is the zero row.
func (db *DB) Read(ctx context.Context, name string, level lease.Level) (lease.Row, error) {
	var r lockRow
	err := db.query(ctx, "read", func(s *gocql.Session) error {
		return s.Query(db.st.read, name).Consistency(db.opt.readLevel(level)).ScanContext(ctx, r.columns()...)
	})
	if errors.Is(err, gocql.ErrNotFound) {
		return lease.Row{}, nil
	}
	return r.row(), err
}

type lockRow struct {
	epoch, rev            *int64
	owner, value, attempt *string
	ttl                   *int
}

func (r *lockRow) columns() []any {
	return []any{&r.epoch, &r.owner, &r.value, &r.attempt, &r.rev, &r.ttl}
}

func (r *lockRow) row() lease.Row {
	return lease.Row{Epoch: orZero(r.epoch), Owner: orZero(r.owner), Value: orZero(r.value),
		Attempt: orZero(r.attempt), Rev: orZero(r.rev), TTL: orZero(r.ttl)}
}

// Acquire begins a term.
func (db *DB) Acquire(ctx context.Context, name string, e0 int64, r lease.Row) (applied bool, err error) {
	err = db.query(ctx, "acquire", func(s *gocql.Session) error {
		b := s.Batch(gocql.LoggedBatch).Consistency(db.opt.write()).SerialConsistency(db.opt.serial())
		b.Query(db.st.epoch, r.Epoch, name, nullable(e0))
		b.Query(db.st.hold, r.TTL, r.Owner, r.Value, r.Attempt, name)
		var iter *gocql.Iter
		var err error
		applied, iter, err = b.MapExecCASContext(ctx, map[string]any{})
		if iter != nil {
			err = errors.Join(err, iter.Close())
		}
		return err
	})
	return applied, err
}

// Burn uses up an epoch.
func (db *DB) Burn(ctx context.Context, name string, e0, e1 int64) (bool, error) {
	return db.cas(ctx, "burn", db.st.burn, e1, name, nullable(e0))
}

// Renew writes the next revision of a term.
func (db *DB) Renew(ctx context.Context, name string, r lease.Row) (bool, error) {
	return db.cas(ctx, "renew", db.st.renew, r.TTL, r.Owner, r.Value, r.Attempt, r.Rev,
		name, r.Epoch, r.Owner, r.Rev-1)
}

// Release ends a term. Cells are deleted, never the row: the epoch stays.
func (db *DB) Release(ctx context.Context, name, owner string, token, rev int64) (bool, error) {
	return db.cas(ctx, "release", db.st.release, name, token, owner, rev)
}

// Claim records a claim.
func (db *DB) Claim(ctx context.Context, name, owner string, c lease.Claim, prevID, prevState string) (bool, error) {
	return db.cas(ctx, "claim", db.st.claim, c.Tick, c.Try, c.ID, c.Token, nullable(c.Info), name, c.Job,
		c.Token, owner, nullable(prevID), nullable(prevState))
}

// Complete ends a claim. A cell that is not set stays as it is.
func (db *DB) Complete(ctx context.Context, name, job, id, state, info string) (bool, error) {
	kept := any(gocql.UnsetValue)
	if info != "" {
		kept = info
	}
	return db.cas(ctx, "complete", db.st.complete, state, kept, name, job, id)
}

const (
	// A page is read in pieces of listPiece rows, and is full with listBytes:
	// a value can have 64 kB, and a page a thousand of them.
	listPiece = 250
	listBytes = 4 << 20
)

// List reads a page of all locks at the level of a poll. A page may be short
// and still have a next one.
func (db *DB) List(ctx context.Context, size int, page []byte) (list []lease.Entry, next []byte, err error) {
	next = page
	for bytes := 0; ; {
		var piece []lease.Entry
		piece, next, err = db.listPiece(ctx, min(size-len(list), listPiece), next)
		if err != nil {
			return nil, nil, err
		}
		list = append(list, piece...)
		for _, e := range piece {
			bytes += len(e.Name) + len(e.Owner) + len(e.Value)
		}
		if len(next) == 0 || len(list) >= size || bytes >= listBytes {
			return list, next, nil
		}
	}
}

func (db *DB) listPiece(ctx context.Context, size int, page []byte) (list []lease.Entry, next []byte, err error) {
	err = db.query(ctx, "list", func(s *gocql.Session) error {
		it := s.Query(db.st.list).Consistency(db.opt.readLevel(lease.Poll)).
			PageSize(size).PageState(page).Prefetch(0).IterContext(ctx)
		next = it.PageState()
		for range it.NumRows() {
			var e lease.Entry
			var epoch, rev *int64
			var owner, value *string
			var ttl *int
			if !it.Scan(&e.Name, &epoch, &owner, &value, &rev, &ttl) {
				break
			}
			e.Row = lease.Row{Epoch: orZero(epoch), Owner: orZero(owner), Value: orZero(value),
				Rev: orZero(rev), TTL: orZero(ttl)}
			list = append(list, e)
		}
		return it.Close()
	})
	return list, next, err
}

// ReadClaim reads a job's record and the lock linearizably: as of one instant,
// or, if the job has no record, the lock as of shortly before. Without a record
// only a separate read shows the lock, and it must come first: a term that is
// over by then writes no record any more, so the missing claim will never come.
// In the other order the claim might be written, and the term end, in between.
func (db *DB) ReadClaim(ctx context.Context, name, job string) (lease.Row, lease.Claim, error) {
	row, c, err := db.readRecord(ctx, name, job)
	if !errors.Is(err, gocql.ErrNotFound) {
		return row, c, err
	}
	lock, err := db.Read(ctx, name, lease.Decide)
	if err != nil {
		return lock, lease.Claim{}, err
	}
	row, c, err = db.readRecord(ctx, name, job)
	if errors.Is(err, gocql.ErrNotFound) {
		return lock, lease.Claim{}, nil
	}
	return row, c, err
}

// readRecord reads both at once; ErrNotFound: the job has no record.
func (db *DB) readRecord(ctx context.Context, name, job string) (lease.Row, lease.Claim, error) {
	var l lockRow
	var r claimRow
	err := db.query(ctx, "read", func(s *gocql.Session) error {
		return s.Query(db.st.oneClaim, name, job).Consistency(db.opt.readLevel(lease.Decide)).
			ScanContext(ctx, append(l.columns(), r.columns()...)...)
	})
	return l.row(), r.claim(), err
}

// ReadClaims reads the records of all jobs.
func (db *DB) ReadClaims(ctx context.Context, name string) (list []lease.Claim, err error) {
	err = db.query(ctx, "read", func(s *gocql.Session) error {
		it := s.Query(db.st.allClaim, name).Consistency(db.opt.readLevel(lease.Decide)).IterContext(ctx)
		for {
			var r claimRow
			if !it.Scan(r.columns()...) {
				return it.Close()
			}
			if r.job != nil && r.id != nil { // a lock without jobs is a row without job
				list = append(list, r.claim())
			}
		}
	})
	return list, err
}

type claimRow struct {
	job, id, state, info *string
	tick                 *time.Time
	try                  *int
	token                *int64
}

func (r *claimRow) columns() []any {
	return []any{&r.job, &r.tick, &r.try, &r.id, &r.token, &r.state, &r.info}
}

func (r *claimRow) claim() lease.Claim {
	return lease.Claim{Job: orZero(r.job), Tick: orZero(r.tick).UTC(), Try: orZero(r.try),
		ID: orZero(r.id), Token: orZero(r.token), State: orZero(r.state), Info: orZero(r.info)}
}

// cas sends a conditional statement. It ignores the row of a refusal: its
// columns depend on the stored ones, and the caller reads anyway.
func (db *DB) cas(ctx context.Context, kind, stmt string, args ...any) (applied bool, err error) {
	err = db.query(ctx, kind, func(s *gocql.Session) error {
		var err error
		applied, err = s.Query(stmt, args...).Consistency(db.opt.write()).
			SerialConsistency(db.opt.serial()).MapScanCASContext(ctx, map[string]any{})
		return err
	})
	return applied, err
}

// query runs one statement on the session, if there is one, and classifies
// its failure.
func (db *DB) query(ctx context.Context, kind string, run func(*gocql.Session) error) error {
	s, err := db.conn.session()
	if err != nil {
		return fmt.Errorf("%w: %w", lease.ErrNotSent, err)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", lease.ErrNotSent, err)
	}
	start := time.Now()
	err = classify(run(s))
	if errors.Is(err, gocql.ErrNoConnections) {
		db.conn.missed.Store(true)
	}
	db.obs.Statement(kind, outcome(err), time.Since(start))
	return err
}

// classify marks the failures after which a statement certainly had no
// effect. All others are unknown, even UNAVAILABLE: in Paxos v1 a later round
// of the same request can meet it.
func classify(err error) error {
	if err == nil || errors.Is(err, gocql.ErrNotFound) {
		return err
	}
	if errors.Is(err, gocql.ErrNoConnections) {
		return fmt.Errorf("%w: %w", lease.ErrNotSent, err)
	}
	var (
		syntax       *gocql.RequestErrSyntax
		invalid      *gocql.RequestErrInvalid
		config       *gocql.RequestErrConfig
		unauthorized *gocql.RequestErrUnauthorized
		credentials  *gocql.RequestErrCredentials
	)
	if errors.As(err, &syntax) || errors.As(err, &invalid) || errors.As(err, &config) ||
		errors.As(err, &unauthorized) || errors.As(err, &credentials) || code(err) == gocql.ErrCodeProtocol {
		return fmt.Errorf("%w: %w", lease.ErrRejected, err)
	}
	return err
}

func code(err error) int {
	var e gocql.RequestError
	if errors.As(err, &e) {
		return e.Code()
	}
	return -1
}

func outcome(err error) string {
	switch {
	case err == nil || errors.Is(err, gocql.ErrNotFound):
		return "ok"
	case errors.Is(err, lease.ErrNotSent):
		return "not_sent"
	case errors.Is(err, lease.ErrRejected):
		return "rejected"
	case errors.Is(err, gocql.ErrTimeoutNoResponse) || errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return "error"
}
