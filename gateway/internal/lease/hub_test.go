package lease

import (
	"strconv"
	"testing"
	"time"
)

func TestLooksAreShared(t *testing.T) {
	h := &hub{s: &Service{opt: Options{Poll: 250 * time.Millisecond}}, m: make(map[string]*watched)}
	for _, c := range []struct {
		watched int
		every   time.Duration
	}{
		{1, 250 * time.Millisecond},
		{250, 250 * time.Millisecond},
		{500, 500 * time.Millisecond},
		{4096, 800 * time.Millisecond},
	} {
		for i := len(h.m); i < c.watched; i++ {
			h.m[strconv.Itoa(i)] = &watched{}
		}
		if every := h.interval(); every != c.every {
			t.Errorf("%d watched: looked at every %v, want %v", c.watched, every, c.every)
		}
	}
	h.s.opt.Poll = time.Second // a longer setting counts
	if every := h.interval(); every != time.Second {
		t.Errorf("looked at every %v, want what the setting asks for", every)
	}
}
