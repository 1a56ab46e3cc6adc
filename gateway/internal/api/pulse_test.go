package api

import (
	"testing"
	"time"
)

// Slots that nobody can take or give back are a hang. Full slots alone are none,
// but do not hide a hang below.
func TestPulse(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.MaxRequests = 1 })
	if err := f.srv.Pulse(time.Second); err != nil {
		t.Error(err)
	}
	leave, err := f.srv.slots.enter(opAcquire, "")
	if err != nil {
		t.Fatal("a pulse keeps its slot: ", err)
	}
	reads := f.db.Count("read")
	if err := f.srv.Pulse(time.Second); err != nil || f.db.Count("read") != reads+1 {
		t.Errorf("without a slot: %v, %d reads", err, f.db.Count("read")-reads)
	}
	leave()
	f.srv.slots.mu.Lock()
	done := make(chan error, 1)
	go func() { done <- f.srv.Pulse(time.Second) }()
	select {
	case err := <-done:
		t.Errorf("it came back though slots stand still: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	f.srv.slots.mu.Unlock()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
