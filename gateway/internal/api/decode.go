package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/leader-election/leader_election/gateway/internal/lease"
)

const (
	valueBytes = bodyLimit
	ownerBytes = 512
	idBytes    = 128
	infoChars  = 2048
	waitLimit  = time.Minute
)

// duration is a time in JSON: a whole number with its unit ("15s", "1500ms"),
// or a number of seconds.
type duration time.Duration

func (d *duration) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		var text string
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
		v, err := parseDuration(text)
		*d = duration(v)
		return err
	}
	seconds, err := strconv.ParseFloat(string(b), 64)
	if err != nil || !(seconds >= 0 && seconds < 1e9) {
		return invalid("bad-duration", "the duration %.40s is no number of seconds; or write 15s, with quotes", b)
	}
	round := math.Floor
	if seconds > lease.MaxTTL.Seconds() { // by less than a nanosecond, too
		round = math.Ceil
	}
	*d = duration(round(seconds * float64(time.Second)))
	return nil
}

// Go would also take a sign, a fraction or several units, but no schema could
// say which of these are too long.
var durationForm = regexp.MustCompile(`^[0-9]+(ms|s|m|h)$`)

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || !durationForm.MatchString(text) {
		return 0, invalid("bad-duration", "%.40q is not a duration; write a whole number with its unit: 1500ms, 15s, 2m, 1h", text)
	}
	return d, nil
}

// decode reads JSON strictly: one object, known fields, each once and in the
// case that it is described in, valid UTF-8.
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
	return checkKeys(raw)
}

// keyForm is the form of all field names. A key of this form that encoding/json
// matched with a field is the field's name.
var keyForm = regexp.MustCompile(`^[a-z_]+$`)

// checkKeys refuses keys in another case and duplicate keys in a body, since
// encoding/json accepts both.
func checkKeys(raw []byte) error {
	var open []map[string]bool // keys of each open object; nil: an array
	atKey := false
	d := json.NewDecoder(bytes.NewReader(raw))
	for {
		t, err := d.Token()
		if err != nil {
			return nil // the end; the body has been decoded before
		}
		if key, ok := t.(string); ok && atKey {
			if !keyForm.MatchString(key) {
				return invalid("bad-request", "unknown field %.40q", key)
			}
			seen := open[len(open)-1]
			if seen[key] {
				return invalid("bad-request", "the field %.40q is there twice", key)
			}
			seen[key] = true
			atKey = false
			continue
		}
		switch t {
		case json.Delim('{'):
			open = append(open, map[string]bool{})
		case json.Delim('['):
			open = append(open, nil)
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
		}
		atKey = len(open) > 0 && open[len(open)-1] != nil
	}
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

type claimBody struct {
	Owner     string  `json:"owner"`
	Token     int64   `json:"token"`
	Tick      *int64  `json:"tick"`
	Try       int32   `json:"try"`
	Claim     string  `json:"claim"`
	PrevClaim *string `json:"prev_claim"`
	PrevState *string `json:"prev_state"`
	Info      *string `json:"info"`
}

// maxTick keeps ticks within a 64-bit count of microseconds.
const maxTick = int64(1) << 52

func (b claimBody) request(r route) (lease.ClaimRequest, error) {
	q := lease.ClaimRequest{Name: r.name, Owner: b.Owner}
	if err := errors.Join(checkTerm(b.Owner, b.Token, 1), checkText("claim", b.Claim, idBytes), checkInfo(b.Info)); err != nil {
		return q, err
	}
	switch {
	case b.Tick == nil || *b.Tick > maxTick || *b.Tick < -maxTick:
		return q, invalid("bad-request", "tick is required, in milliseconds since 1970-01-01 UTC")
	case b.Try < 1:
		return q, invalid("bad-request", "try starts at 1")
	case (b.PrevClaim == nil) != (b.PrevState == nil):
		return q, invalid("bad-request", "prev_claim and prev_state go together")
	case b.PrevClaim == nil:
	case *b.PrevClaim == "" || *b.PrevClaim == b.Claim:
		return q, invalid("bad-request", "claim must be new, not prev_claim again, and prev_claim not empty")
	case !ended(*b.PrevState) && *b.PrevState != lease.Running:
		return q, invalid("bad-request", "prev_state is running, done or failed")
	default:
		q.PrevID, q.PrevState = *b.PrevClaim, *b.PrevState
	}
	q.Claim = lease.Claim{Job: r.job, Tick: time.UnixMilli(*b.Tick).UTC(), Try: int(b.Try), ID: b.Claim, Token: b.Token,
		Info: infoOf(b.Info)}
	return q, nil
}

// checkInfo bounds the length alone: the text is the claimant's.
func checkInfo(info *string) error {
	if info != nil && utf8.RuneCountInString(*info) > infoChars {
		return invalid("bad-request", "info has at most %d characters", infoChars)
	}
	return nil
}

func infoOf(info *string) string {
	if info == nil {
		return ""
	}
	return *info
}

func ended(state string) bool { return state == lease.Done || state == lease.Failed }

type completeBody struct {
	Claim string  `json:"claim"`
	State string  `json:"state"`
	Info  *string `json:"info"`
}

func (b completeBody) check() error {
	if !ended(b.State) && b.State != lease.Running {
		return invalid("bad-request", "state is done, failed or running")
	}
	return errors.Join(checkText("claim", b.Claim, idBytes), checkInfo(b.Info))
}
