package notify

import (
	"context"
	"errors"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// manager listens as systemd does, at a path or an abstract name.
func manager(t *testing.T, name string) *net.UnixConn {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// heard returns the next message, or "" if none comes within the time.
func heard(t *testing.T, c *net.UnixConn, within time.Duration) string {
	t.Helper()
	b := make([]byte, 4096)
	c.SetReadDeadline(time.Now().Add(within))
	n, err := c.Read(b)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	return string(b[:n])
}

const soon = 20 * time.Second

func TestTell(t *testing.T) {
	for _, c := range []struct{ state, text, want string }{
		{Ready, "", "READY=1"},
		{Ready, "listening on [::1]:7480", "READY=1\nSTATUS=listening on [::1]:7480"},
		{Reloading, "", "RELOADING=1"},
		{Stopping, "bye", "STOPPING=1\nSTATUS=bye"},
		{alive, "two\nlines\nREADY=1", "WATCHDOG=1\nSTATUS=two lines READY=1"},
	} {
		for kind, name := range map[string]string{
			"file":     filepath.Join(t.TempDir(), "notify"),
			"abstract": "@le-gateway-test/" + strconv.Itoa(os.Getpid()) + t.TempDir(),
		} {
			there := manager(t, name)
			t.Setenv("NOTIFY_SOCKET", name)
			if err := FromEnvironment().Tell(c.state, c.text); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
			if got := heard(t, there, soon); got != c.want {
				t.Errorf("%s: %q, want %q", kind, got, c.want)
			}
		}
	}
}

func TestNobodyThere(t *testing.T) {
	for _, c := range []struct {
		socket string
		fails  bool
	}{
		{"", false},
		{filepath.Join(t.TempDir(), "none"), true},
		{"vsock:2:1234", true},
		{"relative", true},
	} {
		t.Setenv("NOTIFY_SOCKET", c.socket)
		if err := FromEnvironment().Tell(Ready, ""); (err != nil) != c.fails {
			t.Errorf("%q: %v", c.socket, err)
		}
	}
}

// A manager that does not read must not keep the gateway from its work.
func TestFullSocket(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notify")
	manager(t, name)
	t.Setenv("NOTIFY_SOCKET", name)
	m := FromEnvironment()
	for range 10000 {
		if err := m.Tell(Ready, ""); err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
			return
		}
	}
	t.Error("the socket never was full")
}

func TestWatchdog(t *testing.T) {
	for _, c := range []struct {
		usec, pid string
		want      time.Duration
	}{
		{"30000000", "", 30 * time.Second},
		{"30000000", "4711", 30 * time.Second},
		{"30000000", "4712", 0},
		{"30000000", "many", 0},
		{"1", "4711", time.Microsecond},
		{"", "", 0},
		{"", "4711", 0},
		{"0", "", 0},
		{"-5", "", 0},
		{"5s", "", 0},
		{strconv.Itoa(math.MaxInt64), "", 0},
		{"18446744073709551615", "", 0}, // USEC_INFINITY of systemd
	} {
		if got := watchdog(c.usec, c.pid, 4711); got != c.want {
			t.Errorf("WATCHDOG_USEC=%s WATCHDOG_PID=%s: %v, want %v", c.usec, c.pid, got, c.want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	self := strconv.Itoa(os.Getpid())
	for _, c := range []struct {
		socket, usec, pid string
		want              time.Duration
	}{
		{"/run/notify", "2000000", self, 2 * time.Second},
		{"/run/notify", "2000000", "1", 0},
		{"", "2000000", self, 0}, // nobody to tell
	} {
		t.Setenv("NOTIFY_SOCKET", c.socket)
		t.Setenv("WATCHDOG_USEC", c.usec)
		t.Setenv("WATCHDOG_PID", c.pid)
		if got := FromEnvironment().interval; got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// watched makes Watch do some work, until the test ends.
func watched(t *testing.T, interval time.Duration, work func(time.Duration) string) *net.UnixConn {
	t.Helper()
	name := filepath.Join(t.TempDir(), "notify")
	there := manager(t, name)
	m := &Manager{socket: name, interval: interval}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { m.Watch(ctx, work); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return there
}

func TestWatchFeeds(t *testing.T) {
	n := 0
	there := watched(t, 40*time.Millisecond, func(limit time.Duration) string {
		if limit != 10*time.Millisecond {
			t.Error(limit)
		}
		n++
		return strconv.Itoa(n)
	})
	for i := 1; i <= 3; i++ {
		if got, want := heard(t, there, soon), "WATCHDOG=1\nSTATUS="+strconv.Itoa(i); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Hanging work feeds no watchdog until it goes on.
func TestWatchStopsWithTheWork(t *testing.T) {
	stuck, begun := make(chan struct{}), make(chan struct{})
	n := 0
	there := watched(t, 20*time.Millisecond, func(time.Duration) string {
		if n++; n == 3 {
			close(begun)
			<-stuck
		}
		return strconv.Itoa(n)
	})
	<-begun
	for i := 1; i <= 2; i++ {
		if got, want := heard(t, there, soon), "WATCHDOG=1\nSTATUS="+strconv.Itoa(i); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := heard(t, there, 200*time.Millisecond); got != "" {
		t.Errorf("fed while the work stood still: %q", got)
	}
	close(stuck)
	if got := heard(t, there, soon); got != "WATCHDOG=1\nSTATUS=3" {
		t.Errorf("%q after it went on", got)
	}
}

func TestWatchWithoutWatchdog(t *testing.T) {
	(&Manager{socket: "/run/notify"}).Watch(context.Background(), func(time.Duration) string {
		t.Error("there was nothing to do")
		return ""
	})
}
