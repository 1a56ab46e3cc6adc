// Package gateway_test runs the real le-gateway against a real Cassandra. It
// is started by test/gateway/run, which sets:
//
//	GATEWAY       the binary under test
//	CLUSTER       the script that starts and stops Cassandra
//	CLUSTER_DIR   where its nodes live
//	STATEMENTS    the tests of the gateway's CQL package
//	SIM           the simulator, whose models are compared with what is real
//	LONG          set: the long profile
package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

var (
	binary = os.Getenv("GATEWAY")
	script = os.Getenv("CLUSTER")
	dir    = os.Getenv("CLUSTER_DIR")
	long   = os.Getenv("LONG") != ""
)

func TestMain(m *testing.M) {
	if binary == "" || script == "" || dir == "" {
		fmt.Println("these tests are started by test/gateway/run")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// pick chooses between the short and the long profile.
func pick[T any](short, onDemand T) T {
	if long {
		return onDemand
	}
	return short
}

// cluster runs the script.
func cluster(t testing.TB, args ...string) string {
	t.Helper()
	args = append([]string{args[0], dir}, args[1:]...)
	cmd := exec.Command(script, args...)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("cluster %v: %v\n%s", args, err, errOut.String())
	}
	return strings.TrimSpace(string(out))
}

func nodes(t testing.TB) []string { return strings.Split(cluster(t, "hosts"), ",") }

// schema creates a keyspace through the gateway's own command.
func schema(t testing.TB, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"schema", "--hosts", nodes(t)[0]}, args...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// keyspace creates one for the gateways, with so many copies of each row. A
// single one must be allowed, since it does not survive its node.
func keyspace(t testing.TB, name string, copies int) {
	t.Helper()
	args := []string{"--replication", fmt.Sprint("datacenter1=", copies), "--apply", "--keyspace", name}
	if copies == 1 {
		args = append(args, "--allow-fragile")
	}
	if out, err := schema(t, args...); err != nil {
		t.Fatal(out)
	}
}

// patience is the limit of all waits: generous, since no test measures by it.
const patience = 180 * time.Second

// until polls for a condition.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// never fails a test for an event that is wrong at any speed of the machine;
// such a failure is final (test/verdict).
func never(t testing.TB, format string, args ...any) {
	t.Helper()
	t.Errorf("must never happen: "+format, args...)
}

// proc is a running gateway.
type proc struct {
	url  string
	cmd  *exec.Cmd
	log  *lockedBuffer
	done chan struct{}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) add(line string) { b.mu.Lock(); b.b.WriteString(line + "\n"); b.mu.Unlock() }
func (b *lockedBuffer) String() string  { b.mu.Lock(); defer b.mu.Unlock(); return b.b.String() }

var address = regexp.MustCompile(`msg=listening address=(\S+)`)

// launch starts a gateway without waiting for Cassandra.
func launch(t testing.TB, scheme string, args ...string) *proc {
	t.Helper()
	p := &proc{cmd: exec.Command(binary, append([]string{"--listen", "127.0.0.1:0"}, args...)...),
		log: &lockedBuffer{}, done: make(chan struct{})}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	errOut, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found := make(chan string, 1)
	go func() {
		defer close(p.done)
		for lines := bufio.NewScanner(errOut); lines.Scan(); {
			p.log.add(lines.Text())
			if m := address.FindStringSubmatch(lines.Text()); m != nil {
				found <- m[1]
			}
		}
		p.cmd.Wait()
	}()
	t.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		<-p.done
		if strings.Contains(p.log.String(), "WARNING: DATA RACE") {
			never(t, "a data race in the gateway")
		}
		if t.Failed() {
			t.Logf("gateway %v:\n%s", args, p.log)
		}
	})
	select {
	case a := <-found:
		p.url = scheme + "://" + a
	case <-p.done:
		t.Fatalf("the gateway ended:\n%s", p.log)
	case <-time.After(20 * time.Second):
		t.Fatalf("the gateway does not listen:\n%s", p.log)
	}
	return p
}

func (p *proc) signal(s syscall.Signal) { p.cmd.Process.Signal(s) }

// start starts a gateway on all nodes and waits until it is ready.
func start(t testing.TB, keyspace string, args ...string) *proc {
	t.Helper()
	p := launch(t, "http", append([]string{"--hosts", strings.Join(nodes(t), ","), "--keyspace", keyspace}, args...)...)
	p.ready(t)
	return p
}

// pinned starts a gateway that has one node as its coordinator.
func pinned(t testing.TB, keyspace, host string, args ...string) *proc {
	t.Helper()
	p := launch(t, "http", append([]string{"--hosts", host, "--discover=false", "--keyspace", keyspace}, args...)...)
	p.ready(t)
	return p
}

func (p *proc) ready(t testing.TB) {
	t.Helper()
	until(t, "readyz", func() bool {
		r, err := http.Get(p.url + "/readyz")
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == 200
	})
}

// warm has the nodes work until they answer as they will from then on. A Java
// machine that has just begun takes a thousand times as long, and much more where
// processors are few: the gateway rightly gives up meanwhile.
func (p *proc) warm(t testing.TB) {
	t.Helper()
	quick := 0
	until(t, "Cassandra to have warmed up", func() bool {
		began := time.Now()
		l, err := p.put("warm", "o", "", 5)
		if err == nil && l.Status == 201 {
			l, err = p.release("warm", l)
		}
		if err == nil && l.Status == 204 && time.Since(began) < 500*time.Millisecond {
			quick++
		} else {
			quick = 0
		}
		return quick == 20
	})
}

// lock is the gateway's view of a lock, in answers and in problems.
type lock struct {
	Status     int    `json:"-"`
	RetryAfter string `json:"-"`
	Type       string `json:"type"`
	Outcome    string `json:"outcome"`
	Detail     string `json:"detail"`
	Owner      string `json:"owner"`
	Value      string `json:"value"`
	Token      int64  `json:"token"`
	Rev        int64  `json:"rev"`
	ExpiresMS  int64  `json:"expires_in_ms"`
	TrustMS    int64  `json:"trust_ms"`
	// in claims
	State string          `json:"state"`
	Claim json.RawMessage `json:"claim"`

	raw  string
	sent time.Time
}

func (l lock) problem() string { return strings.TrimPrefix(l.Type, "urn:leader-election:problem:") }

// until tells when belief in a grant ends.
func (l lock) until() time.Time { return l.sent.Add(time.Duration(l.TrustMS) * time.Millisecond) }

// client does not keep connections, so that nothing but the tests repeats a
// request.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 75 * time.Second}

func send(base, method, path string, body any) (lock, error) {
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return lock{}, err
		}
		r = bytes.NewReader(b)
	}
	req, err := http.NewRequest(method, base+path, r)
	if err != nil {
		return lock{}, err
	}
	l := lock{sent: time.Now()}
	resp, err := client.Do(req)
	if err != nil {
		return l, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return l, err
	}
	l.Status, l.RetryAfter, l.raw = resp.StatusCode, resp.Header.Get("Retry-After"), string(raw)
	if len(raw) > 0 && strings.Contains(resp.Header.Get("Content-Type"), "json") {
		err = json.Unmarshal(raw, &l)
	}
	return l, err
}

type m map[string]any

func (p *proc) put(name, owner, attempt string, ttl any) (lock, error) {
	return send(p.url, "PUT", "/v1/locks/"+url.PathEscape(name), m{"owner": owner, "value": "of " + owner, "attempt": attempt, "ttl": ttl})
}

func (p *proc) renew(name string, g lock, ttl any) (lock, error) {
	return send(p.url, "POST", "/v1/locks/"+url.PathEscape(name)+"/renew", m{"owner": g.Owner, "token": g.Token, "rev": g.Rev, "ttl": ttl})
}

func (p *proc) release(name string, g lock) (lock, error) {
	return send(p.url, "DELETE", fmt.Sprintf("/v1/locks/%s?owner=%s&token=%d&rev=%d", url.PathEscape(name),
		url.QueryEscape(g.Owner), g.Token, g.Rev), nil)
}

func (p *proc) get(name, query string) (lock, error) {
	return send(p.url, "GET", "/v1/locks/"+url.PathEscape(name)+query, nil)
}

func (p *proc) claim(name, job string, g lock, id, prev, prevState string) (lock, error) {
	body := m{"owner": g.Owner, "token": g.Token, "tick": 1000, "try": 1, "claim": id}
	if prev != "" {
		body["prev_claim"], body["prev_state"] = prev, prevState
	}
	return send(p.url, "POST", "/v1/locks/"+url.PathEscape(name)+"/claims/"+url.PathEscape(job), body)
}

func (p *proc) complete(name, job, id, state string) (lock, error) {
	return send(p.url, "POST", "/v1/locks/"+url.PathEscape(name)+"/claims/"+url.PathEscape(job)+"/complete", m{"claim": id, "state": state})
}

// expect checks status and problem type of an answer and returns it.
func expect(t testing.TB, status int, problem string) func(lock, error) lock {
	t.Helper()
	return func(l lock, err error) lock {
		t.Helper()
		if err != nil {
			t.Fatalf("no answer: %v", err)
		}
		if l.Status != status || l.problem() != problem {
			t.Fatalf("answer %d %s, want %d %s: %s", l.Status, l.problem(), status, problem, l.raw)
		}
		return l
	}
}

// denied is expect for an answer that must not be a grant, at any speed of the
// machine.
func denied(t testing.TB, status int, problem string) func(lock, error) lock {
	t.Helper()
	return func(l lock, err error) lock {
		t.Helper()
		if err == nil && l.Status/100 == 2 {
			never(t, "granted, not %d %s: %d %s", status, problem, l.Status, l.raw)
		}
		return expect(t, status, problem)(l, err)
	}
}

// higher fails a test unless the second of two terms has the higher token; one
// that is not the next may be that of a third term.
func higher(t testing.TB, before, token int64, what string) {
	t.Helper()
	if token <= before {
		never(t, "token %d after %d: %s", token, before, what)
	} else if token != before+1 {
		t.Errorf("token %d after %d: %s", token, before, what)
	}
}

// waiter returns when a long poll of the lock waits. The gateway carries out one
// request of a lock after the other: once ours is answered, the poll's own read,
// which came first, is over.
func (p *proc) waiter(t testing.TB, name string) {
	t.Helper()
	until(t, "waiter", func() bool { return p.metric(t, "le_gateway_waiters") >= 1 })
	_, err := p.get(name, "")
	must(t, err)
}

// metric reads one value of the gateway's metrics; absent is 0.
func (p *proc) metric(t testing.TB, name string) (sum float64) {
	t.Helper()
	r, err := http.Get(p.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), name); ok {
			var v float64
			fmt.Sscan(rest[strings.LastIndex(rest, " ")+1:], &v)
			sum += v
		}
	}
	return sum
}

// proxies makes toxiproxy's proxies inside the test.
var proxies = toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())

type proxy struct {
	t testing.TB
	*toxiproxy.Proxy
}

var proxyCount atomic.Int32

func newProxy(t testing.TB, listen, upstream string) *proxy {
	t.Helper()
	p := &proxy{t, toxiproxy.NewProxy(proxies, fmt.Sprint("p", proxyCount.Add(1)), listen, upstream)}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

// dropAnswers swallows all bytes from the server from now on; requests pass.
func (p *proxy) dropAnswers() {
	p.t.Helper()
	_, err := p.Toxics.AddToxicJson(strings.NewReader(
		`{"name":"drop","type":"timeout","stream":"downstream","attributes":{"timeout":0}}`))
	if err != nil {
		p.t.Fatal(err)
	}
}

// passAnswers heals it. Connections whose bytes were lost are closed.
func (p *proxy) passAnswers() {
	p.t.Helper()
	if err := p.Toxics.RemoveToxic(context.Background(), "drop"); err != nil {
		p.t.Fatal(err)
	}
}

// session is a plain driver session, for access that bypasses the gateways.
func session(t testing.TB, hosts ...string) *gocql.Session {
	t.Helper()
	c := gocql.NewCluster(hosts...)
	c.Timeout = 20 * time.Second
	c.ConnectTimeout = 20 * time.Second
	c.Consistency = gocql.Quorum
	c.Logger = gocql.NewLogger(gocql.LogLevelNone)
	var s *gocql.Session
	until(t, "driver session", func() (ok bool) {
		var err error
		s, err = c.CreateSession()
		return err == nil
	})
	t.Cleanup(s.Close)
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
