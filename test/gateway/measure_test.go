package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

type sample []time.Duration

func (s sample) String() string {
	slices.Sort(s)
	ms := func(q float64) float64 { return float64(s[int(q*float64(len(s)-1))].Microseconds()) / 1000 }
	return fmt.Sprintf("median %.1f ms, p99 %.1f ms, max %.1f ms (%d)", ms(.5), ms(.99), ms(1), len(s))
}

// latency measures acquire, renew and release through the gateway beside the
// bare CQL renewal in the same run.
func latency(t *testing.T) {
	keyspace(t, "latency", 1)
	measure(t, "latency", 1000, 1000)
}

func measure(t *testing.T, ks string, times, most int) {
	g := start(t, ks)
	s := session(t, nodes(t)[0])
	keep := &http.Client{}
	call := func(method, path, body string) ([]byte, time.Duration) {
		req, _ := http.NewRequest(method, g.url+path, strings.NewReader(body))
		begin := time.Now()
		r, err := keep.Do(req)
		must(t, err)
		raw, err := io.ReadAll(r.Body)
		must(t, err)
		r.Body.Close()
		if r.StatusCode/100 != 2 {
			t.Fatalf("%s %s: %d %s", method, path, r.StatusCode, raw)
		}
		return raw, time.Since(begin)
	}
	var acquire, renew, release, bare sample
	token := 0
	for range times {
		token++
		_, took := call("PUT", "/v1/locks/lat", `{"owner":"o","ttl":60}`)
		acquire = append(acquire, took)
		_, took = call("POST", "/v1/locks/lat/renew", fmt.Sprintf(`{"owner":"o","token":%d,"rev":1,"ttl":60}`, token))
		renew = append(renew, took)
		begin := time.Now()
		applied, err := s.Query("UPDATE "+ks+".leases USING TTL 60 SET owner='o', value='', attempt='', rev=3 WHERE name='lat' IF epoch=? AND owner='o' AND rev=2", token).
			Consistency(gocql.Quorum).SerialConsistency(gocql.Serial).MapScanCAS(m{})
		bare = append(bare, time.Since(begin))
		if err != nil || !applied {
			t.Fatal(applied, err)
		}
		_, took = call("DELETE", fmt.Sprintf("/v1/locks/lat?owner=o&token=%d&rev=3", token), "")
		release = append(release, took)
	}
	t.Logf("acquire  %v", acquire)
	t.Logf("renew    %v", renew)
	t.Logf("bare CQL %v (the same renewal)", bare)
	t.Logf("release  %v", release)
	for _, n := range []int{1, 100, 1000} {
		if n > most {
			break
		}
		t.Logf("renewal of %4d locks per round: %v", n, rounds(t, g, n, pick(2, 5)))
	}
}

// rounds renews n locks of one node, 100 a request, several times.
func rounds(t *testing.T, g *proc, n, times int) sample {
	type term struct {
		Name  string `json:"name"`
		Token int64  `json:"token"`
		Rev   int64  `json:"rev"`
	}
	locks := make([]term, n)
	prefix := fmt.Sprintf("round-%d-%d", n, time.Now().UnixNano()) // an earlier call's may still be held
	var all sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i := range locks {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			name := fmt.Sprintf("%s/%04d", prefix, i)
			l, err := g.put(name, "node#1", "a", 180)
			if err != nil || l.Status != 201 {
				t.Errorf("%s: %d %v", name, l.Status, err)
			}
			locks[i] = term{name, l.Token, l.Rev}
		})
	}
	all.Wait()
	var s sample
	for range times {
		begin := time.Now()
		for part := range slices.Chunk(locks, 100) {
			l := expect(t, 200, "")(send(g.url, "POST", "/v1/renew", m{"owner": "node#1", "ttl": 180, "locks": part}))
			var doc struct{ Results []struct{ Status int } }
			must(t, json.Unmarshal([]byte(l.raw), &doc))
			for i, r := range doc.Results {
				if r.Status != 200 {
					t.Fatalf("%+v: %d", part[i], r.Status)
				}
				part[i].Rev++
			}
		}
		s = append(s, time.Since(begin))
	}
	return s
}
