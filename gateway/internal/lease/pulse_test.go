package lease

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"
)

// pulseDB answers each read as set; it gets no other statements.
type pulseDB struct {
	DB
	read func(context.Context) error
}

func (d *pulseDB) Read(ctx context.Context, _ string, _ Level) (Row, error) {
	return Row{}, d.read(ctx)
}

type pulseObserver struct{ Observer }

func pulsed(read func(context.Context) error) *Service {
	return New(&pulseDB{read: read}, Options{Budget: time.Hour, Poll: time.Second,
		Log: slog.New(slog.DiscardHandler), Observer: pulseObserver{}})
}

// A store that is away, refuses or says nothing is no reason to end the gateway.
func TestPulseComesBack(t *testing.T) {
	for name, read := range map[string]func(context.Context) error{
		"answers":  func(context.Context) error { return nil },
		"is away":  func(context.Context) error { return ErrNotSent },
		"refuses":  func(context.Context) error { return ErrRejected },
		"fails":    func(context.Context) error { return errors.New("no answer") },
		"is still": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		s := pulsed(read)
		done := make(chan error, 1)
		go func() { done <- s.Pulse(50 * time.Millisecond) }()
		select {
		case err := <-done:
			if (err == nil) != (name == "answers") {
				t.Errorf("a store that %s: %v", name, err)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("a store that %s holds it up", name)
		}
		if len(s.hub.m)+len(s.lines.m) > 0 {
			t.Errorf("a store that %s: something was left", name)
		}
	}
}

// A hang of all requests holds up the pulse.
func TestPulseStandsStill(t *testing.T) {
	var driver sync.Mutex
	s := pulsed(func(context.Context) error { driver.Lock(); defer driver.Unlock(); return nil })
	for name, mu := range map[string]*sync.Mutex{"lines": &s.lines.mu, "hub": &s.hub.mu, "terms": &s.terms.mu, "driver": &driver} {
		mu.Lock()
		done := make(chan error, 1)
		go func() { done <- s.Pulse(time.Millisecond) }()
		select {
		case err := <-done:
			t.Errorf("it came back though %s stands still: %v", name, err)
		case <-time.After(100 * time.Millisecond):
		}
		mu.Unlock()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			t.Errorf("it does not come back though %s goes on", name)
		}
	}
}
