package api

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"testing"
	"time"

	"github.com/leader-election/leader_election/gateway/internal/auth"
)

// fill takes all slots that a caller gets and returns their number.
func fill(s *slots, o op, who string) (n int) {
	for {
		if _, err := s.enter(o, who); err != nil {
			return n
		}
		n++
	}
}

func TestShares(t *testing.T) {
	type take struct {
		op   op
		who  string
		want int
	}
	for _, c := range []struct {
		name              string
		requests, waiters int
		takes             []take
	}{
		{"one greedy caller leaves half", 256, 4096, []take{{opAcquire, "a", 96}, {opAcquire, "b", 48}, {opAcquire, "c", 24}}},
		{"of the long polls, too", 256, 4096, []take{{opWait, "a", 2048}, {opWait, "b", 1024}, {opAcquire, "a", 96}}},
		{"who cannot be told apart shares with nobody", 256, 4096, []take{{opAcquire, "", 192}, {opWait, "", 4096}}},
		{"renewals are not behind acquires", 256, 4096, []take{{opAcquire, "", 192}, {opGet, "", 0}, {opRenew, "", 64}}},
		{"releases and ends of jobs, too", 256, 4096, []take{{opClaim, "", 192}, {opRelease, "", 64}, {opComplete, "", 0}}},
		{"a caller that seeks may still renew", 256, 4096, []take{{opAcquire, "a", 96}, {opRenew, "a", 80}}},
		{"acquires are not behind renewals of others", 256, 4096, []take{{opRenew, "a", 128}, {opAcquire, "b", 64}}},
		{"batches have fewer", 256, 4096, []take{{opBatch, "", 32}, {opList, "", 32}, {opRenew, "", 192}}},
		{"of each kind", 256, 4096, []take{{opAcquireMany, "", 32}, {opGetMany, "", 32}, {opReleaseMany, "", 32}, {opBatch, "", 32}}},
		{"a rush of batches leaves renewals theirs", 256, 4096, []take{{opAcquireMany, "", 32}, {opGetMany, "", 32}, {opAcquire, "", 128}, {opReleaseMany, "", 32}, {opBatch, "", 32}}},
		{"the least", 1, 1, []take{{opBatch, "a", 1}, {opAcquire, "b", 0}, {opWait, "b", 1}, {opWait, "c", 0}}},
		{"few", 4, 2, []take{{opAcquire, "", 3}, {opRenew, "", 1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSlots(c.requests, c.waiters)
			for _, k := range c.takes {
				if n := fill(s, k.op, k.who); n != k.want {
					t.Errorf("%s of %q: %d slots, want %d", k.op, k.who, n, k.want)
				}
			}
		})
	}
	s := newSlots(8, 8)
	leave, _ := s.enter(opBatch, "a")
	if leave(); len(s.by) != 0 || s.free(laneKeep) != 8 || s.large[opBatch] != 0 {
		t.Errorf("what was left is still counted: %+v", s)
	}
}

// A token that parks as many long polls as it can leaves room for others.
func TestOneTokenDoesNotParkEverywhere(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		withTokens(t)(o)
		o.MaxWaiters = 4
	})
	ask := func(token string) *connection {
		return f.dial().send("GET /v1/locks/billing/a?wait=20s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", token)
	}
	for range 8 {
		ask("token-of-root-0001")
	}
	time.Sleep(100 * time.Millisecond) // a head start; the test is as good without
	f.bearer = "token-of-billing-1"
	f.want("GET", "/v1/locks/billing/a?wait=1ms", "", 404, "free")
}

// A token that fills its share keeps nobody else out.
func TestOneTokenDoesNotFillTheGateway(t *testing.T) {
	f := newFixture(t, withTokens(t)) // allows 8 requests and 2 waiters
	fill(f.srv.slots, opAcquire, "root")
	fill(f.srv.slots, opWait, "root")
	f.bearer = "token-of-root-0001"
	f.want("PUT", "/v1/locks/billing/a", "", 503, "overloaded")
	f.want("GET", "/v1/locks/billing/a?wait=1ms", "", 503, "overloaded")
	f.want("POST", "/v1/locks/l/renew", `{"owner":"o","token":1,"rev":1}`, 409, "lost")
	f.bearer = "token-of-billing-1"
	f.want("PUT", "/v1/locks/billing/a", "", 201, "")
	f.want("GET", "/v1/locks/billing/b?wait=1ms", "", 404, "free")
}

func TestCallerOf(t *testing.T) {
	cert := func(name string) *tls.ConnectionState {
		return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Raw: []byte(name + "."), Subject: pkix.Name{CommonName: name}}}}
	}
	seen := make(map[string]string)
	for _, c := range []struct {
		who, remote string
		tls         *tls.ConnectionState
		caller      *auth.Caller
	}{
		{"", "127.0.0.1:1", nil, auth.Everyone},
		{"", "[::1]:1", nil, auth.Everyone},
		{"address 1", "10.0.0.1:1", nil, auth.Everyone},
		{"address 1", "10.0.0.1:2", nil, auth.Everyone},
		{"address 2", "10.0.0.2:1", nil, auth.Everyone},
		{"certificate 1", "127.0.0.1:1", cert("db1"), auth.Everyone},
		{"certificate 1", "10.0.0.2:1", cert("db1"), auth.Everyone},
		{"certificate 2", "10.0.0.2:1", cert("db2"), auth.Everyone},
		{"certificate without name", "10.0.0.2:1", cert(""), auth.Everyone},
		{"token", "127.0.0.1:1", cert("db1"), &auth.Caller{Label: "x"}},
		{"token", "127.0.0.1:1", nil, &auth.Caller{Label: "x"}},
	} {
		got := callerOf(&http.Request{RemoteAddr: c.remote, TLS: c.tls}, c.caller)
		if (got == "") != (c.who == "") {
			t.Errorf("%s from %s: %q", c.who, c.remote, got)
		}
		for other, who := range seen {
			if (other == got) != (who == c.who) {
				t.Errorf("%s is %q, %s is %q", c.who, got, who, other)
			}
		}
		seen[got] = c.who
	}
}
