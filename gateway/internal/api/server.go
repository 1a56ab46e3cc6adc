// Package api is the HTTP interface: it reads requests strictly, calls the
// lease service, and writes unambiguous answers.
package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/leader-election/leader_election/gateway/internal/auth"
	"github.com/leader-election/leader_election/gateway/internal/lease"
	"github.com/leader-election/leader_election/gateway/internal/metrics"
)

// Options are the interface's settings.
type Options struct {
	Tokens      *auth.Tokens // nil: no tokens are asked for
	Local       bool         // only this machine can connect, and need not authenticate
	Hosts       []string     // names it goes by besides localhost, in lower case
	MaxRequests int
	MaxWaiters  int
	Ready       func(context.Context) error
	Version     map[string]string
	OpenAPI     []byte
	Metrics     *metrics.Set
	Log         *slog.Logger
}

// Server is the HTTP handler of a gateway.
type Server struct {
	svc       *lease.Service
	opt       Options
	slots     *slots
	metrics   http.Handler
	origin    *http.CrossOriginProtection
	closing   atomic.Bool
	inbound   budget // bytes of bodies that are coming in
	pace      pace
	patience  time.Duration // with clients that do not read their answers
	failures  failures
	readiness readiness
}

// New makes the handler.
func New(svc *lease.Service, opt Options) *Server {
	return &Server{svc: svc, opt: opt, slots: newSlots(opt.MaxRequests, opt.MaxWaiters), metrics: opt.Metrics.Handler(),
		origin: http.NewCrossOriginProtection(), inbound: budget{most: inboundMost}, pace: defaultPace, patience: 10 * time.Second,
		failures: failures{log: opt.Log}, readiness: readiness{ask: opt.Ready, kept: readyKept}}
}

// Drain makes /readyz fail and answers the long polls.
func (s *Server) Drain() {
	s.closing.Store(true)
	s.svc.Drain()
}

// Pulse is a request that the gateway makes to itself, for its watchdog: if it
// hangs, so do all requests. It keeps no slot, and needs none: if hanging
// requests take all slots, it must hang, too.
func (s *Server) Pulse(limit time.Duration) error {
	if leave, err := s.slots.enter(opGet, ""); err == nil {
		leave()
	}
	return s.svc.Pulse(limit)
}

// ServeHTTP routes by hand: the standard mux would redirect names with empty
// or dotted segments to other names, that is, to other locks.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.ContentLength != 0 {
		defer untilRead(w)()
	}
	if err := s.checkHost(r); err != nil {
		describe("", err).write(w)
		return
	}
	switch r.URL.EscapedPath() {
	case "/healthz":
		s.plain(w, r, func() { reply(w, 200, map[string]string{"status": "ok"}) })
	case "/readyz":
		s.plain(w, r, func() { s.ready(w, r) })
	case "/version":
		s.plain(w, r, func() { reply(w, 200, s.opt.Version) })
	case "/metrics":
		s.plain(w, r, func() { s.metrics.ServeHTTP(w, r) })
	case "/openapi.yaml":
		s.plain(w, r, func() {
			w.Header().Set("Content-Type", "application/yaml")
			w.Write(s.opt.OpenAPI)
		})
	default:
		s.locks(w, r)
	}
}

func (s *Server) plain(w http.ResponseWriter, r *http.Request, answer func()) {
	if r.Method != "GET" && r.Method != "HEAD" {
		describe("", &methodError{"GET, HEAD"}).write(w)
		return
	}
	answer()
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	err := s.readiness.check(r.Context())
	if s.closing.Load() {
		err = errors.New("the gateway is being stopped")
	}
	if err != nil {
		describe("", &lease.NotAppliedError{Err: err}).write(w)
		return
	}
	reply(w, 200, map[string]string{"status": "ready"})
}

// locks answers requests for locks: route, caller, limit, operation.
func (s *Server) locks(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	rt, err := match(r.Method, r.URL)
	code := 0
	if err == nil {
		code, err = s.admitted(w, r, rt)
	}
	if err != nil {
		p := describe(rt.name, err)
		p.write(w)
		code = p.Status
		s.log(r, rt, p)
	}
	name := string(rt.op)
	if name == "" {
		name = "none"
	}
	s.opt.Metrics.Request(name, code, time.Since(start), rt.op == opWait)
}

// log logs failures only: refusals are the daily business of a lock.
func (s *Server) log(r *http.Request, rt route, p *problem) {
	args := []any{"op", string(rt.op), "lock", rt.name, "status", p.Status, "type", p.Type,
		"detail", p.Detail, "remote", r.RemoteAddr}
	if p.Status >= 500 {
		s.failures.warn(p.Type, args)
	} else {
		s.opt.Log.Debug("request refused", args...)
	}
}

func (s *Server) admitted(w http.ResponseWriter, r *http.Request, rt route) (int, error) {
	if err := s.origin.Check(r); err != nil {
		return 0, invalid("cross-origin", "%v", err)
	}
	caller, err := s.caller(r)
	if err != nil {
		return 0, err
	}
	if err := checkQuery(r); err != nil {
		return 0, err
	}
	if rt.name != "" && !caller.May(rt.name) {
		return 0, forbidden(caller, rt.name)
	}
	raw, err := s.receive(w, r, bodies[rt.op].limit)
	if err != nil {
		return 0, err
	}
	leave, err := s.slots.enter(rt.op, callerOf(r, caller))
	if err != nil {
		s.opt.Metrics.Overloaded()
		return 0, err
	}
	defer leave()
	if rt.op != opWait {
		s.opt.Metrics.InFlight(1)
		defer s.opt.Metrics.InFlight(-1)
	}
	return s.handle(w, r, rt, caller, raw)
}

// checkQuery refuses parameters that could be read in more than one way.
func checkQuery(r *http.Request) error {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return invalid("bad-request", "the parameters cannot be read: %v", err)
	}
	for name, values := range q {
		if len(values) > 1 {
			return invalid("bad-request", "the parameter %.40q is given twice", name)
		}
	}
	return nil
}

func (s *Server) caller(r *http.Request) (*auth.Caller, error) {
	if s.opt.Tokens == nil {
		return auth.Everyone, nil
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "bearer") {
		if c, ok := s.opt.Tokens.Caller(strings.TrimSpace(token)); ok {
			return c, nil
		}
	}
	return nil, invalid("unauthorized", "send Authorization: Bearer and a token of the gateway's token file")
}

func (s *Server) handle(w http.ResponseWriter, r *http.Request, rt route, c *auth.Caller, raw []byte) (int, error) {
	switch rt.op {
	case opAcquire:
		return s.acquire(w, r, rt, raw)
	case opRenew:
		return s.renew(w, r, rt, raw)
	case opRelease:
		return s.release(w, r, rt)
	case opGet, opWait:
		return s.get(w, r, rt)
	case opList:
		return s.list(w, r, c)
	case opAcquireMany:
		return s.acquireMany(w, r, c, raw)
	case opBatch:
		return s.renewMany(w, r, c, raw)
	case opReleaseMany:
		return s.releaseMany(w, r, c, raw)
	case opGetMany:
		return s.getMany(w, r, c, raw)
	case opClaim:
		return s.claim(w, r, rt, raw)
	case opComplete:
		return s.complete(w, r, rt, raw)
	case opGetClaim:
		return s.getClaim(w, r, rt)
	}
	return s.getClaims(w, r, rt)
}

func reply(w http.ResponseWriter, code int, doc any) (int, error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(doc)
	return code, nil
}

// listing is an answer that is written item by item: a hundred values, escaped,
// are too long to put together in memory.
type listing struct {
	w     http.ResponseWriter
	items *json.Encoder
	comma string
}

// begin limits the time to write: a client that does not read holds a slot.
func begin(w http.ResponseWriter, patience time.Duration, head string) *listing {
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(patience))
	w.Header().Set("Content-Type", "application/json")
	l := &listing{w: w, items: json.NewEncoder(w)}
	l.text(head)
	return l
}

func (l *listing) text(s string) { io.WriteString(l.w, s) }

func (l *listing) add(item any) {
	l.text(l.comma)
	l.items.Encode(item)
	l.comma = ","
}

func (l *listing) end(tail string) (int, error) {
	l.text(tail + "\n")
	return http.StatusOK, nil
}

// lockDoc is a held lock, or a granted one when it has trust_ms.
type lockDoc struct {
	Name      string `json:"name"`
	Owner     string `json:"owner"`
	Value     string `json:"value"`
	Token     int64  `json:"token"`
	Rev       int64  `json:"rev"`
	ExpiresMS int64  `json:"expires_in_ms"`
	TrustMS   *int64 `json:"trust_ms,omitempty"`
}

func lockOf(name string, r lease.Row) lockDoc {
	return lockDoc{Name: name, Owner: r.Owner, Value: r.Value, Token: r.Epoch, Rev: r.Rev,
		ExpiresMS: int64(r.TTL) * 1000}
}

func grantOf(name string, g lease.Grant) lockDoc {
	d := lockOf(name, g.Row)
	ms := g.Trust.Milliseconds()
	d.ExpiresMS, d.TrustMS = g.Expires.Milliseconds(), &ms
	return d
}

func (s *Server) acquire(w http.ResponseWriter, r *http.Request, rt route, raw []byte) (int, error) {
	var b acquireBody
	if err := decode(raw, &b); err != nil && !empty(raw) { // nothing is required
		return 0, err
	}
	q, err := b.request(rt.name)
	if err != nil {
		return 0, err
	}
	g, err := s.svc.Acquire(r.Context(), q)
	if err != nil {
		return 0, err
	}
	return reply(w, acquired(g, b.Attempt), grantOf(rt.name, g))
}

// acquired is the status of a grant. An attempt that the gateway made up is
// new, even if only a read has shown the grant.
func acquired(g lease.Grant, attempt string) int {
	if g.Repeated && attempt != "" {
		return http.StatusOK
	}
	return http.StatusCreated
}

func (s *Server) renew(w http.ResponseWriter, r *http.Request, rt route, raw []byte) (int, error) {
	var b renewBody
	if err := decode(raw, &b); err != nil {
		return 0, err
	}
	q, err := b.request(rt.name)
	if err != nil {
		return 0, err
	}
	g, err := s.svc.Renew(r.Context(), q)
	if err != nil {
		return 0, err
	}
	return reply(w, 200, grantOf(rt.name, g))
}

func (s *Server) release(w http.ResponseWriter, r *http.Request, rt route) (int, error) {
	q := r.URL.Query()
	token, err1 := strconv.ParseInt(q.Get("token"), 10, 64)
	rev, err2 := strconv.ParseInt(q.Get("rev"), 10, 64)
	if err1 != nil || err2 != nil {
		return 0, invalid("bad-request", "owner, token and rev of the term are required as parameters")
	}
	if err := checkTerm(q.Get("owner"), token, rev); err != nil {
		return 0, err
	}
	if err := s.svc.Release(r.Context(), rt.name, q.Get("owner"), token, rev); err != nil {
		return 0, err
	}
	w.WriteHeader(http.StatusNoContent)
	return http.StatusNoContent, nil
}

func (s *Server) get(w http.ResponseWriter, r *http.Request, rt route) (int, error) {
	var row lease.Row
	limit, known, err := waiting(r)
	if err != nil {
		return 0, err
	}
	if rt.op == opWait {
		// The server's write timeout is too short for a long poll.
		http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limit + 30*time.Second))
		row, err = s.svc.Wait(r.Context(), rt.name, known, limit)
	} else {
		row, err = s.svc.Get(r.Context(), rt.name)
	}
	if err == nil {
		err = held(row)
	}
	if err != nil {
		return 0, err
	}
	return reply(w, 200, lockOf(rt.name, row))
}

// held refuses to show a lock that nobody holds.
func held(row lease.Row) error {
	if row.Free() {
		return &lease.RefusedError{Reason: lease.IsFree, Row: row, Detail: "nobody holds the lock"}
	}
	return nil
}

// waiting reads the parameters of a long poll.
func waiting(r *http.Request) (limit time.Duration, known *lease.Known, err error) {
	q := r.URL.Query()
	if q.Has("wait") {
		text := q.Get("wait")
		if _, err := strconv.ParseUint(text, 10, 63); err == nil {
			text += "s"
		}
		if limit, err = parseDuration(text); err != nil {
			return 0, nil, err
		}
		if limit > waitLimit {
			return 0, nil, invalid("bad-duration", "wait can be at most %v", waitLimit)
		}
	}
	if !q.Has("token") && !q.Has("rev") {
		return limit, nil, nil
	}
	token, err1 := strconv.ParseInt(q.Get("token"), 10, 64)
	rev, err2 := strconv.ParseInt(q.Get("rev"), 10, 64)
	if err1 != nil || err2 != nil || token < 0 || rev < 0 || token > lease.MaxToken+1 || rev > lease.MaxToken+1 || !q.Has("wait") {
		return 0, nil, invalid("bad-request", "token and rev go together and with wait; a free lock has rev 0")
	}
	return limit, &lease.Known{Token: token, Rev: rev}, nil
}

const (
	listDefault = 100
	listMost    = 1000
)

// list pages through all locks. It filters the store's pages, so a page may be
// short, or empty, and still have a next one.
func (s *Server) list(w http.ResponseWriter, r *http.Request, c *auth.Caller) (int, error) {
	q := r.URL.Query()
	size, prefix := listDefault, q.Get("prefix")
	if q.Has("limit") {
		n, err := strconv.Atoi(q.Get("limit"))
		if err != nil || n < 1 || n > listMost {
			return 0, invalid("bad-request", "limit is 1 to %d", listMost)
		}
		size = n
	}
	free := q.Get("free")
	if q.Has("free") && free != "true" && free != "false" {
		return 0, invalid("bad-request", "free is true or false")
	}
	page, err := base64.RawURLEncoding.DecodeString(q.Get("page"))
	if err != nil {
		return 0, invalid("bad-request", "page is not one that this gateway gave out")
	}
	entries, next, err := s.svc.List(r.Context(), size, page)
	if errors.Is(err, lease.ErrRejected) && len(page) > 0 {
		return 0, invalid("bad-request", "page is not one that this gateway gave out")
	}
	if err != nil {
		return 0, err
	}
	out := begin(w, s.patience, `{"linearizable":false`)
	if len(next) > 0 {
		out.text(`,"next":"` + base64.RawURLEncoding.EncodeToString(next) + `"`)
	}
	out.text(`,"locks":[`)
	for _, e := range entries {
		if strings.HasPrefix(e.Name, prefix) && c.May(e.Name) && (!e.Free() || free == "true") {
			out.add(lockOf(e.Name, e.Row))
		}
	}
	return out.end(`]}`)
}

// claimDoc is the record of a claim; tick is in milliseconds since 1970.
type claimDoc struct {
	Job   string `json:"job"`
	Tick  int64  `json:"tick"`
	Try   int    `json:"try"`
	Claim string `json:"claim"`
	Token int64  `json:"token"`
	State string `json:"state"`
	Info  string `json:"info,omitempty"`
}

func claimOf(c lease.Claim) claimDoc {
	return claimDoc{Job: c.Job, Tick: c.Tick.UnixMilli(), Try: c.Try, Claim: c.ID, Token: c.Token, State: c.State, Info: c.Info}
}

func (s *Server) claim(w http.ResponseWriter, r *http.Request, rt route, raw []byte) (int, error) {
	var b claimBody
	if err := decode(raw, &b); err != nil {
		return 0, err
	}
	q, err := b.request(rt)
	if err != nil {
		return 0, err
	}
	c, repeated, err := s.svc.Claim(r.Context(), q)
	if err != nil {
		return 0, err
	}
	code := http.StatusCreated
	if repeated {
		code = http.StatusOK
	}
	return reply(w, code, claimOf(c))
}

func (s *Server) complete(w http.ResponseWriter, r *http.Request, rt route, raw []byte) (int, error) {
	var b completeBody
	if err := decode(raw, &b); err != nil {
		return 0, err
	}
	if err := b.check(); err != nil {
		return 0, err
	}
	c, err := s.svc.Complete(r.Context(), rt.name, rt.job, b.Claim, b.State, infoOf(b.Info))
	if err != nil {
		return 0, err
	}
	return reply(w, 200, claimOf(c))
}

func (s *Server) getClaim(w http.ResponseWriter, r *http.Request, rt route) (int, error) {
	c, err := s.svc.GetClaim(r.Context(), rt.name, rt.job)
	if err != nil {
		return 0, err
	}
	return reply(w, 200, claimOf(c))
}

func (s *Server) getClaims(w http.ResponseWriter, r *http.Request, rt route) (int, error) {
	list, err := s.svc.GetClaims(r.Context(), rt.name)
	if err != nil {
		return 0, err
	}
	claims := []claimDoc{}
	for _, c := range list {
		claims = append(claims, claimOf(c))
	}
	return reply(w, 200, map[string]any{"claims": claims})
}
