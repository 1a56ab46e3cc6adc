// Package notify reports the gateway's state to the service manager, by the
// protocol of sd_notify(3). Without a manager it does nothing.
package notify

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// States of the service. A reload ends with Ready. Reloading lacks the time that
// Type=notify-reload needs: the unit has Type=notify, since the systemd of
// Debian 12 has no other.
const (
	Ready     = "READY=1"
	Reloading = "RELOADING=1"
	Stopping  = "STOPPING=1"
	alive     = "WATCHDOG=1"
)

// patience is how long a manager may leave its socket full.
const patience = time.Second

// Manager is the service manager.
type Manager struct {
	socket   string        // empty: there is no manager
	interval time.Duration // the watchdog's; 0: there is none
}

// FromEnvironment finds the manager in systemd's environment variables.
func FromEnvironment() *Manager {
	m := &Manager{socket: os.Getenv("NOTIFY_SOCKET")}
	if m.socket != "" {
		m.interval = watchdog(os.Getenv("WATCHDOG_USEC"), os.Getenv("WATCHDOG_PID"), os.Getpid())
	}
	return m
}

// watchdog reads the time after which silence counts as a hang. It is meant for
// one process, and not for the children that inherit the environment.
func watchdog(usec, pid string, self int) time.Duration {
	if pid != "" && pid != strconv.Itoa(self) {
		return 0
	}
	n, err := strconv.ParseInt(usec, 10, 64)
	if err != nil || n <= 0 || n > int64(time.Duration(1<<63-1)/time.Microsecond) {
		return 0
	}
	return time.Duration(n) * time.Microsecond
}

// Tell sends a state and a text for people, which can be empty.
func (m *Manager) Tell(state, text string) error {
	if m.socket == "" {
		return nil
	}
	if text != "" {
		state += "\nSTATUS=" + strings.ReplaceAll(text, "\n", " ")
	}
	return m.send(state)
}

func (m *Manager) send(message string) error {
	// to net, too, @ begins a name of the abstract namespace
	if m.socket[0] != '/' && m.socket[0] != '@' {
		return fmt.Errorf("NOTIFY_SOCKET %q is no local socket", m.socket)
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetWriteDeadline(time.Now().Add(patience))
	_, err = c.Write([]byte(message))
	return err
}

// Watch does the work again and again until ctx ends, and feeds the watchdog
// each time the work returns, with any result: work that hangs does not feed it.
// The work gets a quarter of the watchdog's time, and returns a text for people.
// Without a watchdog Watch does nothing.
func (m *Manager) Watch(ctx context.Context, work func(limit time.Duration) string) {
	if m.interval == 0 {
		return
	}
	for {
		text := work(m.interval / 4)
		m.Tell(alive, text) // after a failure, the silence is enough
		select {
		case <-ctx.Done():
			return
		case <-time.After(m.interval / 2):
		}
	}
}
