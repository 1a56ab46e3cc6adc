package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/leader-election/leader_election/gateway/internal/lease"
)

const (
	bodyLimit  = 64 << 10
	batchLimit = 1 << 20
	batchLocks = 100
	ownerBytes = 512
	idBytes    = 128
	waitLimit  = time.Minute
)

// duration is a time in JSON: a string with unit ("15s", "1500ms") or a
// number of seconds.
type duration time.Duration

func (d *duration) UnmarshalJSON(b []byte) error {
	text := string(b)
	if len(b) > 0 && b[0] == '"' {
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
		if _, err := strconv.ParseFloat(text, 64); err == nil {
			return invalid("bad-duration", "the duration %q has no unit; write 15s, or the number 15", text)
		}
	}
	v, err := parseDuration(text)
	*d = duration(v)
	return err
}

// parseDuration reads "15s", or "15" for seconds.
func parseDuration(text string) (time.Duration, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		if !(seconds >= 0 && seconds < 1e9) { // also catches NaN
			return 0, invalid("bad-duration", "the duration %s is out of bounds", text)
		}
		return time.Duration(seconds * float64(time.Second)), nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, invalid("bad-duration", "%.40q is not a duration; write 15s, 1500ms, 2m", text)
	}
	return d, nil
}

// body reads and decodes a request's JSON strictly: one value, known fields,
// valid UTF-8, and no more than limit bytes. An empty body is allowed where
// empty says that nothing is required.
func body(w http.ResponseWriter, r *http.Request, limit int64, empty bool, into any) error {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return invalid("too-large", "the body may have %d bytes", limit)
	case err != nil:
		return invalid("bad-request", "the body could not be read: %v", err)
	case len(bytes.TrimSpace(raw)) == 0 && empty:
		return nil
	}
	return decode(raw, into)
}

func decode(raw []byte, into any) error {
	if !utf8.Valid(raw) {
		return invalid("bad-request", "the body is not UTF-8")
	}
	if first := bytes.TrimSpace(raw); len(first) == 0 || first[0] != '{' {
		return invalid("bad-request", "the body must be a JSON object")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		var p *problem
		if errors.As(err, &p) {
			return p
		}
		return invalid("bad-request", "%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return invalid("bad-request", "the body has more than one JSON value")
	}
	return nil
}

type acquireBody struct {
	Owner    string    `json:"owner"`
	Value    string    `json:"value"`
	TTL      *duration `json:"ttl"`
	Attempt  string    `json:"attempt"`
	MinToken int64     `json:"min_token"`
}

func (b acquireBody) request(name string) (lease.AcquireRequest, error) {
	q := lease.AcquireRequest{Name: name, Owner: b.Owner, Value: b.Value, Attempt: b.Attempt,
		TTL: ttlOf(b.TTL), MinToken: b.MinToken, Anonymous: b.Owner == "" && b.Attempt == ""}
	if q.Owner == "" {
		q.Owner = "anonymous-" + lease.NewID()
	}
	if q.Attempt == "" {
		q.Attempt = lease.NewID()
	}
	if b.MinToken < 0 {
		return q, invalid("bad-request", "min_token cannot be negative")
	}
	return q, errors.Join(checkText("owner", q.Owner, ownerBytes), checkText("attempt", q.Attempt, idBytes))
}

func ttlOf(d *duration) time.Duration {
	if d == nil {
		return lease.DefaultTTL
	}
	return time.Duration(*d)
}

type renewBody struct {
	Owner string    `json:"owner"`
	Token int64     `json:"token"`
	Rev   int64     `json:"rev"`
	Value *string   `json:"value"`
	TTL   *duration `json:"ttl"`
}

func (b renewBody) request(name string) (lease.RenewRequest, error) {
	return lease.RenewRequest{Name: name, Owner: b.Owner, Token: b.Token, Rev: b.Rev,
		Value: b.Value, TTL: ttlOf(b.TTL)}, checkTerm(b.Owner, b.Token, b.Rev)
}

func checkTerm(owner string, token, rev int64) error {
	if err := checkText("owner", owner, ownerBytes); err != nil {
		return err
	}
	if token < 1 || token > lease.MaxToken {
		return invalid("bad-request", "token is required, 1 to 2^53")
	}
	if rev < 1 || rev > lease.MaxToken {
		return invalid("bad-request", "rev is required, 1 to 2^53")
	}
	return nil
}

type batchBody struct {
	Owner string    `json:"owner"`
	TTL   *duration `json:"ttl"`
	Locks []struct {
		Name  string  `json:"name"`
		Token int64   `json:"token"`
		Rev   int64   `json:"rev"`
		Value *string `json:"value"`
	} `json:"locks"`
}

func (b batchBody) requests() ([]lease.RenewRequest, error) {
	if len(b.Locks) < 1 || len(b.Locks) > batchLocks {
		return nil, invalid("bad-request", "locks must have 1 to %d entries; send several requests", batchLocks)
	}
	var list []lease.RenewRequest
	seen := make(map[string]bool)
	for i, l := range b.Locks {
		err := errors.Join(checkName(l.Name), checkTerm(b.Owner, l.Token, l.Rev))
		if err == nil && seen[l.Name] {
			err = invalid("bad-request", "the lock is named twice")
		}
		if err != nil {
			var p *problem
			errors.As(err, &p)
			return nil, invalid(p.Type, "locks[%d]: %s", i, p.Detail)
		}
		seen[l.Name] = true
		list = append(list, lease.RenewRequest{Name: l.Name, Owner: b.Owner, Token: l.Token, Rev: l.Rev,
			Value: l.Value, TTL: ttlOf(b.TTL)})
	}
	return list, nil
}

type claimBody struct {
	Owner     string `json:"owner"`
	Token     int64  `json:"token"`
	Tick      *int64 `json:"tick"`
	Try       int32  `json:"try"`
	Claim     string `json:"claim"`
	PrevClaim string `json:"prev_claim"`
	PrevState string `json:"prev_state"`
}

// maxTick bounds ticks to what a 64-bit count of microseconds can also hold.
const maxTick = int64(1) << 52

func (b claimBody) request(r route) (lease.ClaimRequest, error) {
	q := lease.ClaimRequest{Name: r.name, Owner: b.Owner, PrevID: b.PrevClaim, PrevState: b.PrevState}
	if err := errors.Join(checkTerm(b.Owner, b.Token, 1), checkText("claim", b.Claim, idBytes)); err != nil {
		return q, err
	}
	switch {
	case b.Tick == nil || *b.Tick > maxTick || *b.Tick < -maxTick:
		return q, invalid("bad-request", "tick is required, in milliseconds since 1970-01-01 UTC")
	case b.Try < 1:
		return q, invalid("bad-request", "try starts at 1")
	case (b.PrevClaim == "") != (b.PrevState == ""):
		return q, invalid("bad-request", "prev_claim and prev_state go together")
	case b.PrevClaim == b.Claim:
		return q, invalid("bad-request", "claim must be new, not prev_claim again")
	case b.PrevState != "" && !ended(b.PrevState) && b.PrevState != lease.Running:
		return q, invalid("bad-request", "prev_state is running, done or failed")
	}
	q.Claim = lease.Claim{Job: r.job, Tick: time.UnixMilli(*b.Tick).UTC(), Try: int(b.Try), ID: b.Claim, Token: b.Token}
	return q, nil
}

func ended(state string) bool { return state == lease.Done || state == lease.Failed }

type completeBody struct {
	Claim string `json:"claim"`
	State string `json:"state"`
}

func (b completeBody) check() error {
	if !ended(b.State) {
		return invalid("bad-request", "state is done or failed")
	}
	return checkText("claim", b.Claim, idBytes)
}
