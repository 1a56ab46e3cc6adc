package api

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	gateway "github.com/leader-election/leader_election/gateway"
	"github.com/leader-election/leader_election/gateway/internal/auth"
)

// soon is the limit for an answer that need not wait.
const soon = 5 * time.Second

// connection need not finish its requests.
type connection struct {
	*testing.T
	net.Conn
	in *bufio.Reader
}

func (f *fixture) dial() *connection {
	f.Helper()
	c, err := net.Dial("tcp", f.http.Listener.Addr().String())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { c.Close() })
	return &connection{f.T, c, bufio.NewReader(c)}
}

func (c *connection) send(format string, args ...any) *connection {
	c.Helper()
	if _, err := fmt.Fprintf(c.Conn, format, args...); err != nil {
		c.Fatal(err)
	}
	return c
}

// status is that of the answer, 0 if there is none in time. A needless 100
// Continue is an answer, too.
func (c *connection) status() (code int, closes bool) {
	c.SetReadDeadline(time.Now().Add(soon))
	line, err := c.in.Peek(len("HTTP/1.1 100"))
	if err != nil {
		return 0, false
	}
	if strings.HasSuffix(string(line), " 100") {
		return 100, false
	}
	r, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.Fatal(err)
	}
	io.Copy(io.Discard, r.Body)
	return r.StatusCode, r.Close
}

func withTokens(t *testing.T) func(*Options) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens")
	os.WriteFile(file, []byte("billing token-of-billing-1 billing/\nroot token-of-root-0001 *\n"), 0o600)
	tokens, err := auth.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return func(o *Options) { o.Tokens = tokens }
}

// Connections that never finish their bodies keep nobody out.
func TestUnfinishedBodies(t *testing.T) {
	f := newFixture(t, nil) // allows 8 requests at once
	for i := range 40 {
		path := fmt.Sprintf("PUT /v1/locks/slow%d", i)
		if i%2 == 1 {
			path = "POST /v1/renew"
		}
		f.dial().send("%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{\"owner\":", path)
	}
	time.Sleep(50 * time.Millisecond) // a head start; the test is as good without
	for i := range 8 {
		f.want("PUT", fmt.Sprintf("/v1/locks/honest%d", i), `{"owner":"o"}`, 201, "")
		f.want("POST", "/v1/renew", fmt.Sprintf(`{"owner":"o","locks":[{"name":"honest%d","token":1,"rev":1}]}`, i), 200, "")
	}
}

// A request that its head decides is answered at once, without its body, and no
// client is told to continue.
func TestJudgedByHead(t *testing.T) {
	root, billing := "Authorization: Bearer token-of-root-0001\r\n", "Authorization: Bearer token-of-billing-1\r\n"
	for _, c := range []struct {
		head   string
		status int
	}{
		{"PUT /v1/locks/a HTTP/1.1\r\nContent-Length: 100\r\n", 401},
		{"PUT /v1/locks/a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", 401},
		{"PUT /v1/locks/a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 100\r\n", 401},
		{"PUT /v1/locks/a HTTP/1.1\r\nContent-Length: 100\r\n" + billing, 403},
		{"PUT /v1/locks/a HTTP/1.1\r\nOrigin: http://evil.example\r\nContent-Length: 100\r\n" + root, 403},
		{"PUT /v1/locks/a/../b HTTP/1.1\r\nContent-Length: 100\r\n" + root, 400},
		{"PUT /v2/locks HTTP/1.1\r\nContent-Length: 100\r\n" + root, 404},
		{"PATCH /v1/locks/a HTTP/1.1\r\nContent-Length: 100\r\n" + root, 405},
		{"POST /healthz HTTP/1.1\r\nContent-Length: 100\r\n", 405},
		{"PUT /v1/locks/a HTTP/1.1\r\nContent-Length: 65537\r\n" + root, 413},
		{"POST /v1/renew HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 99000000\r\n" + root, 413},
		{"PUT /v1/locks/a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 100\r\n" + root, 100},
		// a body that nobody reads
		{"GET /v1/locks/a HTTP/1.1\r\nContent-Length: 100\r\n" + root, 404},
		{"GET /v1/locks HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + root, 200},
		{"GET /metrics HTTP/1.1\r\nContent-Length: 100\r\n", 200},
	} {
		t.Run(strings.ReplaceAll(strings.TrimSpace(c.head), "\r\n", ", "), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, withTokens(t))
			if got, closes := f.dial().send("%sHost: localhost\r\n\r\n", c.head).status(); got != c.status {
				t.Errorf("%d, want %d", got, c.status)
			} else if got != 100 && !closes {
				t.Error("the connection is not closed, though the request has not ended")
			}
		})
	}
}

// A body has to keep coming; otherwise it is given up, with nothing done.
func TestStalledBody(t *testing.T) {
	for _, c := range []struct {
		name, encoding, body string
		every                time.Duration // the body comes in pieces of a letter
		status               int
	}{
		{"stalls", "Content-Length: 1000", `{"owner":`, 0, 408},
		{"stalls in a chunk", "Transfer-Encoding: chunked", "a\r\n{\"owner\"", 0, 408},
		{"drips", "Content-Length: 1000", strings.Repeat(" ", 900), 20 * time.Millisecond, 408},
		{"comes late", "Content-Length: 13", `{"owner":"o"}`, time.Millisecond, 201},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, nil)
			f.srv.pace = pace{patience: 500 * time.Millisecond, rate: 64 << 10}
			con := f.dial().send("PUT /v1/locks/l HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n", c.encoding)
			if c.every == 0 {
				con.send("%s", c.body)
			} else {
				go func() {
					for _, b := range []byte(c.body) {
						if _, err := con.Write([]byte{b}); err != nil {
							return
						}
						time.Sleep(c.every)
					}
				}()
			}
			if got, _ := con.status(); got != c.status {
				t.Errorf("%d, want %d", got, c.status)
			}
			if done := f.db.Count("acquire") > 0; done != (c.status == 201) {
				t.Errorf("an acquire was sent: %v", done)
			}
		})
	}
}

// The memory of all incoming bodies together is bounded; small ones always get
// through.
func TestBodiesAreBoundedTogether(t *testing.T) {
	f := newFixture(t, nil)
	f.srv.inbound.most = 100 << 10
	f.srv.pace.patience = 500 * time.Millisecond
	big := strings.Repeat(" ", 60<<10)
	var slow []*connection
	for range 3 {
		slow = append(slow, f.dial().send("POST /v1/renew HTTP/1.1\r\nHost: localhost\r\nContent-Length: 65000\r\n\r\n%s", big))
	}
	f.want("PUT", "/v1/locks/l", `{"owner":"o"}`, 201, "")
	statuses := make(map[int]int)
	for _, c := range slow {
		got, _ := c.status()
		statuses[got]++
	}
	if statuses[503] != 1 || statuses[408] != 2 {
		t.Errorf("%v, want one 503", statuses)
	}
	if left := f.srv.inbound.taken.Load(); left != 0 {
		t.Errorf("%d bytes are still counted", left)
	}
}

// A client that asks for long lists and does not read them holds no slot for
// long.
func TestUnreadAnswers(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.MaxRequests = 64 })
	value := strings.Repeat("\\u0001", 10<<10)
	for i := range 200 {
		f.want("PUT", fmt.Sprintf("/v1/locks/l%d", i), `{"owner":"o","value":"`+value+`"}`, 201, "")
	}
	f.srv.patience = 300 * time.Millisecond
	before := f.db.Count("read")
	for range 8 { // all the slots for lists
		f.dial().send("GET /v1/locks?limit=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	for end := time.Now().Add(2 * soon); ; time.Sleep(time.Millisecond) {
		f.srv.slots.mu.Lock()
		busy := f.srv.slots.large[opList]
		f.srv.slots.mu.Unlock()
		if busy == 0 && f.db.Count("read") == before+8 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d lists are still being written", busy, f.db.Count("read")-before)
		}
	}
}

// A flood of refusals does not become a flood of lines.
func TestFailuresAreCounted(t *testing.T) {
	var log lines
	f := newFixture(t, func(o *Options) {
		o.MaxRequests, o.Log = 1, slog.New(slog.NewTextHandler(&log, nil))
	})
	fill(f.srv.slots, opAcquire, "")
	started := time.Now()
	for range 100 {
		f.want("PUT", "/v1/locks/l", "", 503, "overloaded")
	}
	most := 2 + int(time.Since(started)/time.Second)
	told := 0
	for told < 100 {
		if time.Since(started) > 20*time.Second {
			t.Fatalf("%d of 100 are told of in\n%s", told, log.String())
		}
		time.Sleep(10 * time.Millisecond)
		told = strings.Count(log.String(), `msg="request failed"`)
		for _, m := range regexp.MustCompile(`msg="more requests failed".*count=(\d+)`).FindAllStringSubmatch(log.String(), -1) {
			n, _ := strconv.Atoi(m[1])
			told += n
		}
	}
	if n := strings.Count(log.String(), "\n"); told != 100 || n > most {
		t.Errorf("%d refusals are told of in %d lines, which may be %d:\n%s", told, n, most, log.String())
	}
}

// lines is a log that can be read while it is written.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// net/http itself refuses invalid or excessive HTTP, in plain text: the
// description says so for every operation.
func TestPlainRefusals(t *testing.T) {
	f := newFixture(t, nil)
	doc, err := openapi3.NewLoader().LoadFromData(gateway.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	for head, status := range map[string]int{
		"GET /healthz HTTP/1.1\r\n":                                                     400, // no host
		"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n":                               400,
		"GET /healthz HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 2<<20) + "\r\n": 431,
	} {
		c := f.dial()
		go c.Write([]byte(head + "\r\n"))
		c.SetReadDeadline(time.Now().Add(soon))
		r, err := http.ReadResponse(c.in, nil)
		if err != nil || r.StatusCode != status {
			t.Fatalf("%.40q: %v %v, want %d", head, r, err, status)
		}
		kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
		for path, item := range doc.Paths.Map() {
			for method, o := range item.Operations() {
				if a := o.Responses.Status(status); a == nil || a.Value.Content.Get(kind) == nil {
					t.Errorf("%s %s: %d as %s is not described", method, path, status, kind)
				}
			}
		}
	}
}
