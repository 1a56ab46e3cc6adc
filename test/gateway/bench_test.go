package gateway_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// These are for bench/rows, against a Cassandra that runs; each prints lines
// "sample CASE NUMBER". TIMES is their number for each case, COPIES that of
// each row's copies.

func envInt(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

func say(what string, number float64) { fmt.Printf("sample %s %g\n", what, number) }

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func benchKeyspace(t *testing.T) string {
	if os.Getenv("BENCH") == "" {
		t.Skip("only for bench/rows")
	}
	name := "bench" + os.Getenv("BENCH")
	keyspace(t, name, envInt("COPIES", 1))
	return name
}

// bareLock takes, renews and releases a lock by the statements of the gateway
// (gateway/internal/cql), as its only user: it knows the row.
type bareLock struct {
	s           *gocql.Session
	table, name string
	epoch       int64
}

func (b *bareLock) cas(statement string, args ...any) error {
	applied, err := b.s.Query(statement, args...).Consistency(gocql.Quorum).
		SerialConsistency(gocql.Serial).MapScanCAS(m{})
	if err == nil && !applied {
		err = fmt.Errorf("not applied: %s", statement)
	}
	return err
}

func (b *bareLock) acquire() error {
	var before *int64
	if b.epoch > 0 {
		e := b.epoch
		before = &e
	}
	batch := b.s.Batch(gocql.LoggedBatch).Consistency(gocql.Quorum).SerialConsistency(gocql.Serial)
	batch.Query("UPDATE "+b.table+" USING TTL 0 SET epoch = ? WHERE name = ? IF epoch = ? AND owner = NULL",
		b.epoch+1, b.name, before)
	batch.Query("UPDATE "+b.table+" USING TTL ? SET owner = ?, value = ?, attempt = ?, rev = 1 WHERE name = ?",
		60, "o", "", "", b.name)
	applied, iter, err := batch.MapExecCAS(m{})
	if iter != nil {
		iter.Close()
	}
	if err == nil && !applied {
		err = fmt.Errorf("%s was not acquired", b.name)
	}
	b.epoch++
	return err
}

func (b *bareLock) renew() error {
	return b.cas("UPDATE "+b.table+" USING TTL ? SET owner = ?, value = ?, attempt = ?, rev = ?"+
		" WHERE name = ? IF epoch = ? AND owner = ? AND rev = ?",
		60, "o", "", "", int64(2), b.name, b.epoch, "o", int64(1))
}

func (b *bareLock) release(rev int64) error {
	return b.cas("DELETE owner, value, attempt, rev FROM "+b.table+
		" WHERE name = ? IF epoch = ? AND owner = ? AND rev = ?", b.name, b.epoch, "o", rev)
}

// TestBenchBare: the statements of one lock, over and over.
func TestBenchBare(t *testing.T) {
	ks := benchKeyspace(t)
	b := &bareLock{session(t, nodes(t)[0]), ks + ".leases", fmt.Sprint("bare", time.Now().UnixNano()), 0}
	times := envInt("TIMES", 100)
	for i := range times + 5 {
		began := time.Now()
		must(t, b.acquire())
		acquired := time.Now()
		must(t, b.renew())
		renewed := time.Now()
		must(t, b.release(2))
		if i < 5 { // to get warm
			continue
		}
		say("acquire", ms(acquired.Sub(began)))
		say("renew", ms(renewed.Sub(acquired)))
		say("release", ms(time.Since(renewed)))
	}
}

// TestBenchLoad: so many clients acquire and release locks of their own, for a
// while, through a gateway and by the same statements, in turn.
func TestBenchLoad(t *testing.T) {
	ks := benchKeyspace(t)
	g := start(t, ks)
	s := session(t, nodes(t)...)
	keep := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	during := time.Duration(envInt("MILLIS", 2000)) * time.Millisecond
	g.warm(t)
	var gatewayFailed, bareFailed int
	for _, clients := range []int{1, 4, 16, 64} {
		gatewayFailed += load(t, "gateway", clients, during, func(name string, token int64) (time.Duration, error) {
			began := time.Now()
			err := reply(keep, "PUT", g.url+"/v1/locks/"+name, `{"owner":"o","ttl":60}`)
			took := time.Since(began)
			if err == nil {
				err = reply(keep, "DELETE", fmt.Sprintf("%s/v1/locks/%s?owner=o&token=%d&rev=1", g.url, name, token), "")
			}
			return took, err
		})
		bareFailed += load(t, "bare", clients, during, func(name string, token int64) (time.Duration, error) {
			b := &bareLock{s, ks + ".leases", name, token - 1}
			began := time.Now()
			err := b.acquire()
			took := time.Since(began)
			if err == nil {
				err = b.release(1)
			}
			return took, err
		})
	}
	say("gateway_failed", float64(gatewayFailed))
	say("bare_failed", float64(bareFailed))
	for _, took := range rounds(t, g, envInt("LOCKS", 1000), 3) {
		say("batch", ms(took))
	}
}

// answerError is an answer other than 2xx.
type answerError struct {
	status int
	text   string
}

func (e *answerError) Error() string { return e.text }

// gaveUp tells whether Cassandra has given up on a statement, as it does on an
// overloaded machine: it says so itself, the driver has had no answer, or the
// gateway reports either by a 503.
func gaveUp(err error) bool {
	var write *gocql.RequestErrWriteTimeout
	var read *gocql.RequestErrReadTimeout
	var unknown *gocql.RequestErrCASWriteUnknown
	var answer *answerError
	return errors.As(err, &write) || errors.As(err, &read) || errors.As(err, &unknown) ||
		errors.Is(err, gocql.ErrTimeoutNoResponse) ||
		errors.As(err, &answer) && answer.status == http.StatusServiceUnavailable
}

func reply(client *http.Client, method, url, body string) error {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = &answerError{resp.StatusCode, fmt.Sprintf("%s %s: %d %s", method, url, resp.StatusCode, raw)}
	}
	return err
}

// load has so many clients acquire and release, and returns the number of their
// failed pairs. The times include failed ones; the client of one goes on with
// another lock, as the state of the last one is unknown.
func load(t *testing.T, how string, clients int, during time.Duration, pair func(name string, token int64) (time.Duration, error)) int {
	var all sync.WaitGroup
	var mu sync.Mutex
	var took []time.Duration
	failed := 0
	began := time.Now()
	for i := range clients {
		all.Go(func() {
			var mine []time.Duration
			lost := 0
			token := int64(0)
			for time.Since(began) < during {
				token++
				name := fmt.Sprintf("%s-%d-%d-%d-%d", how, clients, i, lost, began.UnixNano())
				d, err := pair(name, token)
				if gaveUp(err) {
					t.Log(err)
					lost++
					token = 0
				} else if err != nil {
					t.Error(err)
					return
				}
				mine = append(mine, d)
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, mine...)
			failed += lost
		})
	}
	all.Wait()
	seconds := time.Since(began).Seconds()
	if len(took) == failed {
		t.Fatalf("%s: no lock was acquired", how)
	}
	slices.Sort(took)
	at := func(q float64) float64 { return ms(took[int(q*float64(len(took)-1))]) }
	say(fmt.Sprintf("%s_%d_rate", how, clients), float64(len(took)-failed)/seconds)
	say(fmt.Sprintf("%s_%d_p50", how, clients), at(.5))
	say(fmt.Sprintf("%s_%d_p99", how, clients), at(.99))
	return failed
}
