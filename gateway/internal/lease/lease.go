// Package lease decides: it turns a caller's request for a lock into
// lightweight transactions, and their answers, even missing ones, into results
// that the caller may believe. It knows no HTTP and no CQL.
//
// The rules it keeps:
//
//   - A lock is one row. Its epoch is the fencing token: it never expires and
//     only grows. Owner, value, attempt and revision live for one TTL.
//   - Every statement names the term it is meant for (owner, epoch, revision),
//     so that a duplicate that arrives late changes nothing.
//   - A statement whose answer is missing has an unknown outcome. It is
//     resolved by a SERIAL read, and where that does not settle it, the caller
//     is told "unknown", never "no".
//   - Belief is anchored at the sending of the caller's request. A fresh lease
//     is believed only where the transaction was applied in that very request;
//     a lease that a read or a repetition shows is believed for its time left.
package lease

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// Granularity is the error of TTL arithmetic: Cassandra counts whole
	// seconds, so a TTL of n lives more than n-1 and at most n seconds.
	Granularity = time.Second

	// MinTTL leaves a lease something to live on after granularity, clock
	// skew and a contended Paxos round or two.
	MinTTL = 5 * time.Second

	// MaxTTL bounds how long a lost holder can block a lock.
	MaxTTL = 24 * time.Hour

	// DefaultTTL serves callers that give none.
	DefaultTTL = 180 * time.Second

	// MaxToken keeps tokens exact in every JSON reader.
	MaxToken = int64(1) << 53

	// MaxTokenJump bounds how far one request may move the token: a typing
	// error must not use up the space that has to last for ever.
	MaxTokenJump = int64(1) << 40
)

// Row is a lock as stored. The zero Row is a lock that never existed.
type Row struct {
	Epoch   int64 // fencing token of the newest term; 0: there never was one
	Owner   string
	Value   string
	Attempt string // names the acquire that began the term
	Rev     int64  // 1 after the acquire, one more with every renewal
	TTL     int    // whole seconds that owner and value have left
}

// Free tells whether nobody holds the lock.
func (r Row) Free() bool { return r.Owner == "" }

// is tells whether the row is the given term, at any revision.
func (r Row) is(owner string, token int64) bool {
	return !r.Free() && r.Owner == owner && r.Epoch == token
}

// Claim is the record that a tick of a job was taken.
type Claim struct {
	Job   string
	Tick  time.Time
	Try   int
	ID    string // empty: the job was never claimed
	Token int64  // the term that claimed it
	State string // running, done or failed
	Info  string // the claimant's, kept with the record; empty: none
}

// Entry is a row of the list of locks.
type Entry struct {
	Name string
	Row
}

// Level is the consistency of a read.
type Level int

const (
	// Poll reads a majority: it sees every change that was answered before,
	// but an unanswered one may show and vanish again. It may refuse, it
	// never grants.
	Poll Level = iota
	// Decide reads linearizably and settles unfinished transactions.
	Decide
)

// DB is the store: a handful of statements on one row. Each is sent at most
// once. An error that wraps ErrNotSent or ErrRejected had no effect; after any
// other error of a conditional statement its effect is unknown.
type DB interface {
	Read(ctx context.Context, name string, level Level) (Row, error)
	// Acquire begins the term of r if the epoch is still e0 and nobody holds.
	Acquire(ctx context.Context, name string, e0 int64, r Row) (bool, error)
	// Burn uses up an epoch, so that an acquire that counted on e0 can never
	// apply.
	Burn(ctx context.Context, name string, e0, e1 int64) (bool, error)
	// Renew writes r, whose revision must be the successor of the stored one.
	Renew(ctx context.Context, name string, r Row) (bool, error)
	Release(ctx context.Context, name, owner string, token, rev int64) (bool, error)
	List(ctx context.Context, size int, page []byte) ([]Entry, []byte, error)

	ReadClaim(ctx context.Context, name, job string) (Row, Claim, error)
	ReadClaims(ctx context.Context, name string) ([]Claim, error)
	// Claim records c if the lock is held by owner at c.Token and the job's
	// record is still (prevID, prevState).
	Claim(ctx context.Context, name, owner string, c Claim, prevID, prevState string) (bool, error)
	// Complete ends a claim; without an info it keeps the stored one.
	Complete(ctx context.Context, name, job, id, state, info string) (bool, error)
}

var (
	// ErrNotSent: the statement did not leave this process.
	ErrNotSent = errors.New("not sent")
	// ErrRejected: the store refused to execute the statement.
	ErrRejected = errors.New("rejected by the store")
)

// NotAppliedError: the request certainly had no effect and never will.
type NotAppliedError struct{ Err error }

func (e *NotAppliedError) Error() string { return "not applied: " + e.Err.Error() }
func (e *NotAppliedError) Unwrap() error { return e.Err }

// UnknownError: the request may have had its effect, or still have it later.
type UnknownError struct{ Err error }

func (e *UnknownError) Error() string { return "outcome unknown: " + e.Err.Error() }
func (e *UnknownError) Unwrap() error { return e.Err }

// Reason says why a request was refused; the lock's state decides.
type Reason string

const (
	Held     Reason = "held"           // somebody holds the lock
	Lost     Reason = "lost"           // the caller's term is over
	Stale    Reason = "stale-revision" // the caller's term, another revision
	NotYours Reason = "not-yours"      // somebody else's term
	IsFree   Reason = "free"           // nobody holds the lock
	Taken    Reason = "claim-refused"  // the tick cannot be claimed
	NoClaim  Reason = "no-claim"       // the job was never claimed
	TooHigh  Reason = "token-jump"     // min_token is out of bounds
	BadTTL   Reason = "bad-ttl"        // too short to be believed at all, or too long
)

// RefusedError: the answer is no, with the row in the store.
type RefusedError struct {
	Reason Reason
	Row    Row
	Claim  *Claim
	Detail string
}

func (e *RefusedError) Error() string { return string(e.Reason) + ": " + e.Detail }

func refuse(why Reason, row Row, format string, args ...any) error {
	return &RefusedError{Reason: why, Row: row, Detail: fmt.Sprintf(format, args...)}
}

// Grant is a term as its holder may see it.
type Grant struct {
	Row
	Repeated bool          // resolved by a read or a repetition
	Trust    time.Duration // from the sending of the caller's request
	Expires  time.Duration
}

// WholeTTL rounds up to the seconds that Cassandra counts: rounding down would
// turn 900 ms into 0, which means for ever.
func WholeTTL(d time.Duration) int {
	return int((d + time.Second - 1) / time.Second)
}

// nextToken is the token of a term that follows epoch e0.
func nextToken(e0, minToken int64) (int64, error) {
	e1 := max(e0, min(minToken, MaxToken)) + 1 // cannot overflow
	if e1 > MaxToken || e1-e0 > MaxTokenJump {
		return 0, refuse(TooHigh, Row{Epoch: e0},
			"min_token %d would move the token from %d by more than 2^40 or past 2^53", minToken, e0)
	}
	return e1, nil
}
