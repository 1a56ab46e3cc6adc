package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/leader-election/leader_election/gateway/internal/auth"
	"github.com/leader-election/leader_election/gateway/internal/lease"
)

// batchLocks is the most locks of one request.
const batchLocks = 100

// batch holds the entries of a request about several locks.
type batch[T any] []T

// UnmarshalJSON stops at the first excess or malformed lock. encoding/json
// alone would make hundreds of thousands of locks out of a megabyte before we
// could count them.
func (l *batch[T]) UnmarshalJSON(b []byte) error {
	*l = nil
	if string(b) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if start, err := d.Token(); err != nil || start != json.Delim('[') {
		return invalid("bad-request", "locks must be an array")
	}
	for d.More() {
		if len(*l) == batchLocks {
			return wrongCount()
		}
		var one T
		if err := d.Decode(&one); err != nil {
			return err
		}
		*l = append(*l, one)
	}
	return nil
}

// manyOf reads the body of a batch and makes its requests.
func manyOf[Q any](raw []byte, body interface{ requests() ([]Q, error) }) ([]Q, error) {
	if err := decode(raw, body); err != nil {
		return nil, err
	}
	return body.requests()
}

func wrongCount() error {
	return invalid("bad-request", "locks must have 1 to %d entries; send several requests", batchLocks)
}

// named is an entry of a batch.
type named interface{ lock() string }

// requestsOf makes a request of each entry. A malformed entry spoils the
// batch: its sender means something else.
func requestsOf[T named, Q any](locks batch[T], request func(T) (Q, error)) ([]Q, error) {
	if len(locks) == 0 {
		return nil, wrongCount()
	}
	var list []Q
	seen := make(map[string]bool)
	for i, l := range locks {
		q, err := request(l)
		err = errors.Join(checkName(l.lock()), err)
		if err == nil && seen[l.lock()] {
			err = invalid("bad-request", "the lock is named twice")
		}
		if err != nil {
			var p *problem
			errors.As(err, &p)
			return nil, invalid(p.Type, "locks[%d]: %s", i, p.Detail)
		}
		seen[l.lock()] = true
		list = append(list, q)
	}
	return list, nil
}

// checkValue gives a value the same bound as in a request for one lock.
func checkValue(value *string) error {
	if value != nil && len(*value) > valueBytes {
		return invalid("too-large", "a value may have %d bytes", valueBytes)
	}
	return nil
}

type acquireEntry struct {
	Name     string  `json:"name"`
	Attempt  string  `json:"attempt"`
	Value    *string `json:"value"`
	MinToken int64   `json:"min_token"`
}

type renewEntry struct {
	Name  string  `json:"name"`
	Token int64   `json:"token"`
	Rev   int64   `json:"rev"`
	Value *string `json:"value"`
}

type releaseEntry struct {
	Name  string `json:"name"`
	Token int64  `json:"token"`
	Rev   int64  `json:"rev"`
}

type getEntry struct {
	Name string `json:"name"`
}

func (e acquireEntry) lock() string { return e.Name }
func (e renewEntry) lock() string   { return e.Name }
func (e releaseEntry) lock() string { return e.Name }
func (e getEntry) lock() string     { return e.Name }

type acquireManyBody struct {
	Owner string              `json:"owner"`
	TTL   *duration           `json:"ttl"`
	Locks batch[acquireEntry] `json:"locks"`
}

// requests makes up no owner and no attempts: after a lost answer none of a
// hundred locks could be given back.
func (b acquireManyBody) requests() ([]lease.AcquireRequest, error) {
	return requestsOf(b.Locks, func(e acquireEntry) (lease.AcquireRequest, error) {
		one := acquireBody{Owner: b.Owner, TTL: b.TTL, Attempt: e.Attempt, MinToken: e.MinToken}
		if e.Value != nil {
			one.Value = *e.Value
		}
		q, err := one.request(e.Name)
		return q, errors.Join(checkText("owner", b.Owner, ownerBytes), checkText("attempt", e.Attempt, idBytes),
			err, checkValue(e.Value))
	})
}

type batchBody struct {
	Owner string            `json:"owner"`
	TTL   *duration         `json:"ttl"`
	Locks batch[renewEntry] `json:"locks"`
}

func (b batchBody) requests() ([]lease.RenewRequest, error) {
	return requestsOf(b.Locks, func(e renewEntry) (lease.RenewRequest, error) {
		q, err := renewBody{Owner: b.Owner, Token: e.Token, Rev: e.Rev, Value: e.Value, TTL: b.TTL}.request(e.Name)
		return q, errors.Join(err, checkValue(e.Value))
	})
}

type releaseManyBody struct {
	Owner string              `json:"owner"`
	Locks batch[releaseEntry] `json:"locks"`
}

func (b releaseManyBody) requests() ([]lease.ReleaseRequest, error) {
	return requestsOf(b.Locks, func(e releaseEntry) (lease.ReleaseRequest, error) {
		return lease.ReleaseRequest{Name: e.Name, Owner: b.Owner, Token: e.Token, Rev: e.Rev}, checkTerm(b.Owner, e.Token, e.Rev)
	})
}

type getManyBody struct {
	Locks batch[getEntry] `json:"locks"`
}

func (b getManyBody) requests() ([]string, error) {
	return requestsOf(b.Locks, func(e getEntry) (string, error) { return e.Name, nil })
}

// resultDoc is the answer for one lock of a batch: the status of a request for
// it alone, and the lock, if that shows one, or the problem.
type resultDoc struct {
	Name    string   `json:"name"`
	Status  int      `json:"status"`
	Lock    *lockDoc `json:"lock,omitempty"`
	Problem *problem `json:"problem,omitempty"`
}

// result makes the answer for one lock.
func result(name string, status int, lock *lockDoc, err error) resultDoc {
	if err != nil {
		p := describe(name, err)
		return resultDoc{Name: name, Status: p.Status, Problem: p}
	}
	return resultDoc{Name: name, Status: status, Lock: lock}
}

func forbidden(c *auth.Caller, name string) error {
	return invalid("forbidden", "the token of %s does not open %s", c.Label, name)
}

// each carries out the requests of a batch that the caller's token opens, and
// answers every one in its place.
func each[Q any](s *Server, w http.ResponseWriter, c *auth.Caller, all []Q, name func(Q) string, do func([]Q) func(int) resultDoc) (int, error) {
	var open []Q
	for _, q := range all {
		if c.May(name(q)) {
			open = append(open, q)
		}
	}
	done, next := do(open), 0
	out := begin(w, s.patience, `{"results":[`)
	for _, q := range all {
		if !c.May(name(q)) {
			out.add(result(name(q), 0, nil, forbidden(c, name(q))))
			continue
		}
		out.add(done(next))
		next++
	}
	return out.end(`]}`)
}

func (s *Server) acquireMany(w http.ResponseWriter, r *http.Request, c *auth.Caller, raw []byte) (int, error) {
	var b acquireManyBody
	all, err := manyOf(raw, &b)
	if err != nil {
		return 0, err
	}
	if err := s.svc.CheckTTL(ttlOf(b.TTL)); err != nil { // it is that of all
		return 0, err
	}
	name := func(q lease.AcquireRequest) string { return q.Name }
	return each(s, w, c, all, name, func(open []lease.AcquireRequest) func(int) resultDoc {
		grants, errs := s.svc.AcquireMany(r.Context(), open)
		return func(i int) resultDoc {
			d := grantOf(open[i].Name, grants[i])
			return result(open[i].Name, acquired(grants[i], open[i].Attempt), &d, errs[i])
		}
	})
}

// renewMany renews nothing if the token does not open all locks: a holder has
// acquired its term with a token that opened the lock.
func (s *Server) renewMany(w http.ResponseWriter, r *http.Request, c *auth.Caller, raw []byte) (int, error) {
	var b batchBody
	all, err := manyOf(raw, &b)
	if err != nil {
		return 0, err
	}
	for _, q := range all {
		if !c.May(q.Name) {
			return 0, forbidden(c, q.Name)
		}
	}
	if err := s.svc.CheckTTL(ttlOf(b.TTL)); err != nil { // it is that of all
		return 0, err
	}
	grants, errs := s.svc.RenewMany(r.Context(), all)
	out := begin(w, s.patience, `{"results":[`)
	for i, q := range all {
		d := grantOf(q.Name, grants[i])
		out.add(result(q.Name, http.StatusOK, &d, errs[i]))
	}
	return out.end(`]}`)
}

func (s *Server) releaseMany(w http.ResponseWriter, r *http.Request, c *auth.Caller, raw []byte) (int, error) {
	var b releaseManyBody
	all, err := manyOf(raw, &b)
	if err != nil {
		return 0, err
	}
	name := func(q lease.ReleaseRequest) string { return q.Name }
	return each(s, w, c, all, name, func(open []lease.ReleaseRequest) func(int) resultDoc {
		errs := s.svc.ReleaseMany(r.Context(), open)
		return func(i int) resultDoc { return result(open[i].Name, http.StatusNoContent, nil, errs[i]) }
	})
}

func (s *Server) getMany(w http.ResponseWriter, r *http.Request, c *auth.Caller, raw []byte) (int, error) {
	var b getManyBody
	all, err := manyOf(raw, &b)
	if err != nil {
		return 0, err
	}
	name := func(name string) string { return name }
	return each(s, w, c, all, name, func(open []string) func(int) resultDoc {
		rows, errs := s.svc.GetMany(r.Context(), open)
		return func(i int) resultDoc {
			if errs[i] == nil {
				errs[i] = held(rows[i])
			}
			d := lockOf(open[i], rows[i])
			return result(open[i], http.StatusOK, &d, errs[i])
		}
	})
}
