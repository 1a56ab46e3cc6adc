package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
)

// allocated is the number of bytes that a call allocates, freed ones included.
func allocated(run func()) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	run()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A batch is judged while it is decoded: a megabyte of empty locks is refused
// for little more than the megabyte.
func TestBatchIsJudgedWhileDecoded(t *testing.T) {
	f := newFixture(t, nil)
	flood := strings.Repeat("{},", batchLimit/3-20)
	for _, path := range batchPaths {
		for _, body := range []string{
			`{"locks":[` + flood + `{}]}`,
			`{"locks":[` + flood + `{}],"owner":"o","locks":[]}`,
			`{"locks":[` + strings.Repeat(`{"value":"v"},`, batchLimit/14-10) + `{}]}`,
			`{"locks":[` + strings.Repeat(`0,`, batchLimit/2-10) + `0]}`,
		} {
			bytes := allocated(func() {
				r := httptest.NewRecorder()
				f.srv.ServeHTTP(r, httptest.NewRequest("POST", path, strings.NewReader(body)))
				if r.Code != http.StatusBadRequest {
					t.Errorf("%s %.20s: %d %s", path, body, r.Code, r.Body)
				}
			})
			if bytes > 16<<20 {
				t.Errorf("%s %.20s: %d bytes are allocated for one request of %d", path, body, bytes, len(body))
			}
		}
	}
}

// No value is longer than that of an acquire, or a list of locks would have no
// bound.
func TestValuesOfBatchesAreBounded(t *testing.T) {
	f := newFixture(t, nil)
	f.want("PUT", "/v1/locks/a", `{"owner":"o"}`, 201, "")
	renew := func(value string) string {
		return fmt.Sprintf(`{"owner":"o","locks":[{"name":"a","token":1,"rev":1,"value":%q}]}`, value)
	}
	f.want("POST", "/v1/renew", renew(strings.Repeat("v", valueBytes+1)), 413, "too-large")
	f.want("POST", "/v1/renew", renew(strings.Repeat("v", valueBytes)), 200, "")
	acquire := func(value string) string {
		return fmt.Sprintf(`{"owner":"o","locks":[{"name":"b","attempt":"x","value":%q}]}`, value)
	}
	f.want("POST", "/v1/acquire", acquire(strings.Repeat("v", valueBytes+1)), 413, "too-large")
	f.want("POST", "/v1/acquire", acquire(strings.Repeat("v", valueBytes)), 200, "")
}

// An answer is written lock by lock, not put together in memory first.
func TestAnswersAreNotPutTogether(t *testing.T) {
	f := newFixture(t, nil)
	value := strings.Repeat("\\u0001", 10<<10) // six bytes a letter, in JSON
	var locks, attempts, names []string
	for i := range batchLocks {
		f.want("PUT", fmt.Sprintf("/v1/locks/l%d", i), `{"owner":"o","attempt":"a","value":"`+value+`"}`, 201, "")
		locks = append(locks, fmt.Sprintf(`{"name":"l%d","token":1,"rev":1}`, i))
		attempts = append(attempts, fmt.Sprintf(`{"name":"l%d","attempt":"a"}`, i))
		names = append(names, fmt.Sprintf(`{"name":"l%d"}`, i))
	}
	for _, c := range []struct{ method, path, body, list string }{
		{"GET", "/v1/locks", "", "locks"},
		{"POST", "/v1/read", `{"locks":[` + strings.Join(names, ",") + `]}`, "results"},
		{"POST", "/v1/acquire", `{"owner":"o","locks":[` + strings.Join(attempts, ",") + `]}`, "results"},
		{"POST", "/v1/renew", `{"owner":"o","locks":[` + strings.Join(locks, ",") + `]}`, "results"},
	} {
		w := &counting{h: http.Header{}}
		f.srv.ServeHTTP(w, httptest.NewRequest(c.method, c.path, strings.NewReader(c.body)))
		var doc map[string]json.RawMessage
		var list []json.RawMessage
		a := f.do(c.method, c.path, strings.ReplaceAll(c.body, `"rev":1`, `"rev":2`))
		if json.Unmarshal([]byte(a.raw), &doc) != nil || json.Unmarshal(doc[c.list], &list) != nil || len(list) != batchLocks {
			t.Errorf("%s: %d %.200s", c.path, a.status, a.raw)
		}
		// Allocations say less: the race detector empties pools.
		if w.n < 6_000_000 || w.most > 1<<20 {
			t.Errorf("%s: %d bytes, up to %d at a time", c.path, w.n, w.most)
		}
	}
}

type counting struct {
	h       http.Header
	n, most int
}

func (c *counting) Header() http.Header { return c.h }
func (c *counting) WriteHeader(int)     {}
func (c *counting) Write(p []byte) (int, error) {
	c.n += len(p)
	c.most = max(c.most, len(p))
	return len(p), nil
}
