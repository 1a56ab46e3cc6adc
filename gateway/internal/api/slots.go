package api

import (
	"crypto/sha256"
	"net"
	"net/http"
	"sync"

	"github.com/leader-election/leader_election/gateway/internal/auth"
)

// lane is the class of a request. Requests that seek a term, or only read,
// leave a quarter of the slots to those that keep or end one: a rush for a term
// must not cost its holder the term.
type lane int

const (
	laneSeek lane = iota
	laneKeep
	laneWait
	lanes
)

// laneOf is the lane of an operation, if not the default.
var laneOf = map[op]lane{
	opRenew:       laneKeep,
	opBatch:       laneKeep,
	opRelease:     laneKeep,
	opReleaseMany: laneKeep,
	opComplete:    laneKeep,
	opWait:        laneWait,
}

// large lists the operations with answers a hundred times as long as others:
// each may take an eighth of the slots.
var large = map[op]bool{opAcquireMany: true, opBatch: true, opReleaseMany: true, opGetMany: true, opList: true}

// slots bounds the number of requests at once, in all and of one caller.
type slots struct {
	requests, waiters int // the limits

	mu    sync.Mutex
	taken [lanes]int
	by    map[holder]int
	large map[op]int
}

type holder struct {
	lane lane
	who  string
}

func newSlots(requests, waiters int) *slots {
	return &slots{requests: requests, waiters: waiters, by: make(map[holder]int), large: make(map[op]int)}
}

// free is how many slots a lane has left.
func (s *slots) free(l lane) int {
	switch all := s.requests - s.taken[laneSeek] - s.taken[laneKeep]; l {
	case laneSeek:
		return min(all, s.requests-s.requests/4-s.taken[laneSeek])
	case laneWait:
		return s.waiters - s.taken[laneWait]
	default:
		return all
	}
}

// enter takes a slot and returns a function that gives it back, or an error if
// no slot is left. An identified caller (who is not empty) cannot have more
// slots of a lane than are left in it: one flood gets half of them, two floods a
// third each, and one slot is always left for the next caller.
func (s *slots) enter(o op, who string) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := holder{laneOf[o], who}
	free := s.free(h.lane)
	switch {
	case free < 1 || large[o] && s.large[o] >= max(1, s.requests/8):
		return nil, overloaded("the gateway has as many requests of this kind under way as it may")
	case who != "" && s.by[h] >= free:
		return nil, overloaded("the caller has its share of the requests that the gateway may have under way")
	}
	s.add(h, o, 1)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.add(h, o, -1)
	}, nil
}

func (s *slots) add(h holder, o op, n int) {
	s.taken[h.lane] += n
	if large[o] {
		s.large[o] += n
	}
	if s.by[h] += n; s.by[h] == 0 {
		delete(s.by, h)
	}
}

func overloaded(detail string) error {
	return &problem{Type: "overloaded", Outcome: "not-applied", Detail: detail}
}

// callerOf names the caller that a request counts for: the label of its token,
// else its certificate, else its address. All callers on this machine without
// token and certificate are one, without a share.
func callerOf(r *http.Request, c *auth.Caller) string {
	if c != auth.Everyone {
		return c.Label
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		cert := r.TLS.PeerCertificates[0]
		if cn := cert.Subject.String(); cn != "" {
			return cn
		}
		sum := sha256.Sum256(cert.Raw)
		return string(sum[:])
	}
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return ""
	}
	return host
}
