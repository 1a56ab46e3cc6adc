package cql

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/leader-election/leader_election/gateway/internal/lease"
)

func TestReplication(t *testing.T) {
	for _, c := range []struct {
		text     string
		opt      Options
		parses   bool
		survives bool
	}{
		{"dc1=3", Options{}, true, true},
		{"dc1=2", Options{}, true, false},
		{"dc1=1,dc2=1", Options{}, true, false},
		{"dc1=1,dc2=1,dc3=1", Options{}, true, true},
		{"dc1=3,dc2=1", Options{LocalSerial: true}, true, false},
		{"dc1=3,dc2=1", Options{LocalSerial: true, LocalDC: "dc1"}, true, true},
		{"dc1=3", Options{LocalSerial: true, LocalDC: "dc2"}, true, false},
		{"dc1", Options{}, false, false},
		{"dc1=0", Options{}, false, false},
		{"dc1=3,dc1=3", Options{}, false, false},
		{"dc1=3'}; DROP", Options{}, false, false},
		{"", Options{}, false, false},
	} {
		r, err := ParseReplication(c.text)
		if (err == nil) != c.parses {
			t.Errorf("%s: %v", c.text, err)
		}
		if err == nil && (r.Survives(c.opt) == nil) != c.survives {
			t.Errorf("%s %+v: %v", c.text, c.opt, r.Survives(c.opt))
		}
	}
}

func TestLevels(t *testing.T) {
	var all, local Options
	local.LocalSerial = true
	if all.serial() != gocql.Serial || all.write() != gocql.Quorum || all.readLevel(lease.Poll) != gocql.Quorum ||
		all.readLevel(lease.Decide) != gocql.Serial {
		t.Error("SERIAL goes with QUORUM")
	}
	if local.serial() != gocql.LocalSerial || local.write() != gocql.LocalQuorum || local.readLevel(lease.Decide) != gocql.LocalSerial {
		t.Error("LOCAL_SERIAL goes with LOCAL_QUORUM")
	}
}

// A look that failed says nothing of the schema.
func TestServesNothingWhileTheTableIsUnfit(t *testing.T) {
	db := New(Options{Keyspace: "k", Log: slog.New(slog.DiscardHandler)}, nil)
	db.conn.s.Store(new(gocql.Session))
	for _, c := range []struct {
		found  error
		serves bool
	}{
		{nil, true},
		{errors.New("timeout"), true},
		{unfit("tokens would expire"), false},
		{errors.New("timeout"), false},
		{unfit("tokens would expire"), false},
		{nil, true},
	} {
		db.judge(c.found)
		if _, err := db.conn.session(); (err == nil) != c.serves {
			t.Errorf("after a look that found %v: %v", c.found, err)
		}
	}
}

// Each write names one state of a term or a claim, so that a late copy changes
// nothing, and has a TTL.
func TestConditions(t *testing.T) {
	st := newStatements("t")
	for _, c := range []struct{ stmt, begins, condition string }{
		{st.epoch, "UPDATE t USING TTL 0 ", "epoch = ? AND owner = NULL"},
		{st.burn, "UPDATE t USING TTL 0 ", "epoch = ? AND owner = NULL"},
		{st.renew, "UPDATE t USING TTL ? ", "epoch = ? AND owner = ? AND rev = ?"},
		{st.release, "DELETE owner, value, attempt, rev FROM t ", "epoch = ? AND owner = ? AND rev = ?"},
		{st.claim, "UPDATE t USING TTL 0 ", "epoch = ? AND owner = ? AND claim = ? AND state = ?"},
		{st.complete, "UPDATE t USING TTL 0 ", "claim = ? AND state = 'running'"},
		{st.hold, "UPDATE t USING TTL ? ", ""}, // goes with epoch, in one batch
	} {
		_, condition, _ := strings.Cut(c.stmt, " IF ")
		if !strings.HasPrefix(c.stmt, c.begins) || condition != c.condition {
			t.Errorf("%s: wanted %q, on condition of %q", c.stmt, c.begins, c.condition)
		}
	}
}

// Only a statement that certainly had no effect may be called so.
func TestClassify(t *testing.T) {
	for _, c := range []struct {
		err  error
		want error
	}{
		{gocql.ErrNoConnections, lease.ErrNotSent},
		{&gocql.RequestErrInvalid{}, lease.ErrRejected},
		{&gocql.RequestErrUnauthorized{}, lease.ErrRejected},
		{&gocql.RequestErrSyntax{}, lease.ErrRejected},
		{gocql.ErrTimeoutNoResponse, nil},
		{gocql.ErrConnectionClosed, nil},
		{gocql.ErrSessionClosed, nil},
		{&gocql.RequestErrWriteTimeout{WriteType: "CAS"}, nil},
		{&gocql.RequestErrWriteTimeout{WriteType: "SIMPLE"}, nil},
		{&gocql.RequestErrCASWriteUnknown{}, nil},
		{&gocql.RequestErrUnavailable{}, nil},
		{&gocql.RequestErrOverloaded{}, nil},
		{context.DeadlineExceeded, nil},
		{errors.New("anything"), nil},
	} {
		err := classify(fmt.Errorf("wrapped: %w", c.err))
		harmless := errors.Is(err, lease.ErrNotSent) || errors.Is(err, lease.ErrRejected)
		if c.want == nil && harmless || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%v becomes %v", c.err, err)
		}
	}
}

type fixedPolicy struct {
	gocql.HostSelectionPolicy
	hosts []*gocql.HostInfo
}

type picked struct{ h *gocql.HostInfo }

func (p picked) Info() *gocql.HostInfo { return p.h }
func (p picked) Mark(error)            {}

func (p fixedPolicy) Pick(gocql.ExecutableStatement) gocql.NextHost {
	i := 0
	return func() gocql.SelectedHost {
		if i == len(p.hosts) {
			return nil
		}
		i++
		return picked{p.hosts[i-1]}
	}
}

func TestSilentNodesComeLast(t *testing.T) {
	var hosts []*gocql.HostInfo
	for i := range 3 {
		h, err := gocql.NewHostInfoFromAddrPort(net.IPv4(127, 0, 0, byte(i+1)), 9042)
		if err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, h)
	}
	p := avoidSilent(fixedPolicy{hosts: hosts}).(*silentLast)
	now := time.Now()
	p.now = func() time.Time { return now }
	order := func() (s string) {
		next := p.Pick(nil)
		for h := next(); h != nil; h = next() {
			s += fmt.Sprint(h.Info().ConnectAddress().To4()[3])
		}
		return s
	}
	expect := func(want string) {
		t.Helper()
		if got := order(); got != want {
			t.Errorf("order %s, want %s", got, want)
		}
	}
	first := func() gocql.SelectedHost { return p.Pick(nil)() }
	expect("123")
	h := first()
	h.Mark(gocql.ErrTimeoutNoResponse)
	h.Mark(gocql.ErrTimeoutNoResponse) // at the same moment
	expect("231")
	now = now.Add(silentFirst)
	expect("123")
	first().Mark(gocql.ErrTimeoutNoResponse)
	now = now.Add(silentFirst)
	expect("231") // the second silence counts for longer
	now = now.Add(silentFirst)
	expect("123")
	first().Mark(&gocql.RequestErrWriteTimeout{}) // it did answer
	expect("123")
	first().Mark(nil)
	first().Mark(gocql.ErrConnectionClosed)
	now = now.Add(silentFirst)
	expect("123") // an answer wiped the slate
}
