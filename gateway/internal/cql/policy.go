package cql

import (
	"errors"
	"sync"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// How long a node that did not answer is asked last: at first, and at most.
const (
	silentFirst = 5 * time.Second
	silentMost  = 60 * time.Second
)

// avoidSilent wraps a policy so that a node is tried last for a while after a
// timeout. The driver notices a closed connection at once, but a frozen node
// only when the node's peers report it; until then every statement of its locks
// would run into the timeout.
func avoidSilent(p gocql.HostSelectionPolicy) gocql.HostSelectionPolicy {
	return &silentLast{HostSelectionPolicy: p, hosts: make(map[string]silence), now: time.Now}
}

type silence struct {
	until time.Time
	span  time.Duration
}

type silentLast struct {
	gocql.HostSelectionPolicy
	now func() time.Time

	mu    sync.Mutex
	hosts map[string]silence
}

func (p *silentLast) Pick(stmt gocql.ExecutableStatement) gocql.NextHost {
	next := p.HostSelectionPolicy.Pick(stmt)
	var later []gocql.SelectedHost
	return func() gocql.SelectedHost {
		for h := next(); h != nil; h = next() {
			if !p.silent(h) {
				return &marking{h, p}
			}
			later = append(later, h)
		}
		if len(later) == 0 {
			return nil
		}
		h := later[0]
		later = later[1:]
		return &marking{h, p}
	}
}

func (p *silentLast) silent(h gocql.SelectedHost) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now().Before(p.hosts[key(h)].until)
}

// mark notes how a statement went. A node that stays silent is tried less and
// less often.
func (p *silentLast) mark(h gocql.SelectedHost, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !errors.Is(err, gocql.ErrTimeoutNoResponse) && !errors.Is(err, gocql.ErrConnectionClosed) {
		if err == nil {
			delete(p.hosts, key(h))
		}
		return
	}
	k := key(h)
	now, old := p.now(), p.hosts[k]
	if now.Before(old.until) {
		return // several statements timed out together: one silence
	}
	span := min(max(2*old.span, silentFirst), silentMost)
	p.hosts[k] = silence{now.Add(span), span}
}

func key(h gocql.SelectedHost) string {
	if info := h.Info(); info != nil {
		return info.ConnectAddressAndPort()
	}
	return ""
}

type marking struct {
	gocql.SelectedHost
	p *silentLast
}

func (m *marking) Mark(err error) {
	m.p.mark(m.SelectedHost, err)
	m.SelectedHost.Mark(err)
}
