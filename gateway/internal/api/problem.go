package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/leader-election/leader_election/gateway/internal/lease"
)

// urn makes a stable problem type of its last part.
const urn = "urn:leader-election:problem:"

// problem is an error in the form of RFC 9457, plus facts that let the caller
// go on. Inside the gateway, Type is only the last part of the URN.
type problem struct {
	Type    string `json:"type"`
	Title   string `json:"title"`
	Status  int    `json:"status"`
	Detail  string `json:"detail,omitempty"`
	Outcome string `json:"outcome,omitempty"` // unknown or not-applied, of a 503

	Name      string    `json:"name,omitempty"`
	Owner     *string   `json:"owner,omitempty"`
	Value     *string   `json:"value,omitempty"`
	Token     *int64    `json:"token,omitempty"`
	Rev       *int64    `json:"rev,omitempty"`
	ExpiresMS *int64    `json:"expires_in_ms,omitempty"`
	Claim     *claimDoc `json:"claim,omitempty"`

	retryAfter int
	allow      string // the resource's methods, of a 405
}

func (p *problem) Error() string { return p.Type + ": " + p.Detail }

// kinds lists all problems, with status and title. Clients match on the type,
// so neither the words nor the numbers ever change.
var kinds = map[string]struct {
	status int
	title  string
}{
	"bad-request":    {400, "The request is malformed"},
	"bad-name":       {400, "The name is not one a lock can have"},
	"bad-duration":   {400, "A duration is malformed"},
	"unauthorized":   {401, "A valid bearer token is required"},
	"forbidden":      {403, "The token does not open this name"},
	"cross-origin":   {403, "Browsers cannot do this from another site"},
	"no-resource":    {404, "There is no such resource"},
	"free":           {404, "Nobody holds the lock"},
	"no-claim":       {404, "The job was never claimed"},
	"method":         {405, "The resource does not know this method"},
	"timeout":        {408, "The request was not finished in time"},
	"held":           {409, "Somebody holds the lock"},
	"lost":           {409, "The term is over"},
	"stale-revision": {409, "The term stands at another revision"},
	"not-yours":      {409, "Somebody else holds the lock"},
	"claim-refused":  {409, "The claim is refused"},
	"too-large":      {413, "The body is too large"},
	"bad-ttl":        {422, "The TTL is out of bounds"},
	"token-jump":     {422, "The token would jump too far"},
	"internal":       {500, "The gateway failed"},
	"unknown":        {503, "The outcome is unknown"},
	"not-applied":    {503, "The request could not be carried out"},
	"overloaded":     {503, "Too many requests at once"},
}

// describe turns any failure into the problem that the caller sees.
func describe(name string, err error) *problem {
	var (
		p       *problem
		refused *lease.RefusedError
		unknown *lease.UnknownError
		nothing *lease.NotAppliedError
		method  *methodError
	)
	switch {
	case errors.As(err, &p):
	case errors.Is(err, errNoRoute):
		p = &problem{Type: "no-resource"}
	case errors.As(err, &method):
		p = &problem{Type: "method", Detail: method.Error(), allow: method.allow}
	case errors.As(err, &refused):
		p = refusal(refused)
	case errors.As(err, &unknown):
		p = &problem{Type: "unknown", Outcome: "unknown", Detail: unknown.Err.Error()}
	case errors.As(err, &nothing):
		p = &problem{Type: "not-applied", Outcome: "not-applied", Detail: nothing.Err.Error()}
	default:
		p = &problem{Type: "internal", Detail: err.Error()}
	}
	k := kinds[p.Type]
	if k.status == 503 {
		p.retryAfter = max(1, p.retryAfter)
	}
	p.Type, p.Status, p.Title, p.Name = urn+p.Type, k.status, k.title, name
	return p
}

// refusal shows the holder of the lock. Retry-After is the holder's remaining
// time: an earlier try is of no use unless the holder releases.
func refusal(e *lease.RefusedError) *problem {
	p := &problem{Type: string(e.Reason), Detail: e.Detail}
	if e.Reason == lease.BadTTL {
		return p
	}
	p.Token, p.Rev = &e.Row.Epoch, &e.Row.Rev
	if !e.Row.Free() {
		p.Owner, p.Value = &e.Row.Owner, &e.Row.Value
		ms := (time.Duration(e.Row.TTL) * time.Second).Milliseconds()
		p.ExpiresMS = &ms
		if e.Reason == lease.Held {
			p.retryAfter = max(1, e.Row.TTL)
		}
	}
	if e.Claim != nil {
		c := claimOf(*e.Claim)
		p.Claim = &c
	}
	return p
}

func (p *problem) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	if p.allow != "" {
		h.Set("Allow", p.allow)
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="le-gateway"`)
	}
	w.WriteHeader(p.Status)
	json.NewEncoder(w).Encode(p)
}
