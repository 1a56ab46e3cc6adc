package api

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	bodyLimit  = 64 << 10
	batchLimit = 1 << 20

	// answerLimit is the time to send an answer after the end of the body.
	answerLimit = 30 * time.Second

	// inboundFree bytes of each incoming body are free; inboundMost bounds the
	// rest of all bodies together.
	inboundFree = 16 << 10
	inboundMost = 64 << 20
)

// bodies lists the operations with a body, its greatest length, and if it may
// be empty. Bodies of other operations are not read.
var bodies = map[op]struct {
	limit    int64
	optional bool
}{
	opAcquire:     {bodyLimit, true},
	opRenew:       {bodyLimit, false},
	opAcquireMany: {batchLimit, false},
	opBatch:       {batchLimit, false},
	opReleaseMany: {batchLimit, false},
	opGetMany:     {batchLimit, false},
	opClaim:       {bodyLimit, false},
	opComplete:    {bodyLimit, false},
}

// pace is the least speed of a body: no silence longer than patience, and
// after that time at least rate bytes a second.
type pace struct {
	patience time.Duration
	rate     int
}

var defaultPace = pace{patience: 4 * time.Second, rate: 64 << 10}

// deadline is the limit for the next piece, with n bytes read since start.
func (p pace) deadline(start time.Time, n int) time.Time {
	earned := time.Duration(n) * time.Second / time.Duration(p.rate)
	next, last := time.Now().Add(p.patience), start.Add(p.patience+earned)
	if next.After(last) {
		return last
	}
	return next
}

// budget bounds a resource that requests share.
type budget struct {
	taken atomic.Int64
	most  int64
}

func (b *budget) take(n int64) bool {
	if b.taken.Add(n) <= b.most {
		return true
	}
	b.taken.Add(-n)
	return false
}

// untilRead closes the connection soon after an answer that goes out before
// the end of the request. net/http would first wait for the rest, for as long
// as the client likes.
func untilRead(w http.ResponseWriter) (answered func()) {
	w.Header().Set("Connection", "close")
	return func() {
		if w.Header().Get("Connection") != "" {
			http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Second))
		}
	}
}

// receive reads a body to its end before the request takes a slot: a slow
// client, or one that never finishes, is in nobody's way. The head is judged
// first, so that no client is told to continue in vain.
func (s *Server) receive(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	tooLarge := invalid("too-large", "the body may have %d bytes", limit)
	switch {
	case limit == 0 || r.ContentLength == 0:
		return nil, nil
	case r.ContentLength > limit:
		return nil, tooLarge
	}
	var counted int64
	defer func() { s.inbound.taken.Add(-counted) }()
	conn, start := http.NewResponseController(w), time.Now()
	// The buffer grows with the bytes received, not with the announced length.
	for buf := make([]byte, 0, 4<<10); ; {
		conn.SetReadDeadline(s.pace.deadline(start, len(buf)))
		n, err := r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		var late interface{ Timeout() bool }
		switch {
		case int64(len(buf)) > limit:
			return nil, tooLarge
		case errors.Is(err, io.EOF):
			w.Header().Del("Connection")
			// The server's limit began with the head.
			conn.SetWriteDeadline(time.Now().Add(answerLimit))
			return buf, nil
		case errors.As(err, &late) && late.Timeout():
			return nil, &problem{Type: "timeout", Outcome: "not-applied", Detail: "the body came too slowly"}
		case err != nil:
			return nil, invalid("bad-request", "the body could not be read: %v", err)
		case len(buf) < cap(buf):
			continue
		}
		more := int64(cap(buf))
		if more >= inboundFree {
			if !s.inbound.take(more) {
				s.opt.Metrics.Overloaded()
				return nil, overloaded("too much is being sent to the gateway at once")
			}
			counted += more
		}
		buf = append(make([]byte, 0, 2*more), buf...)
	}
}

// empty is true for a body of blanks.
func empty(raw []byte) bool { return len(bytes.TrimSpace(raw)) == 0 }
