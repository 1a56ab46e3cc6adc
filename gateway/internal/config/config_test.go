package config

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestServe(t *testing.T) {
	for _, c := range []struct{ args, err string }{
		{"", ""},
		{"--listen 127.0.0.1:0", ""},
		{"--listen [::1]:7480", ""},
		{"--listen localhost:7480", ""},
		{"--listen 0.0.0.0:7480", "without authentication"},
		{"--listen :7480", "without authentication"},
		{"--listen gateway.example:7480", "without authentication"},
		{"--listen 0.0.0.0:7480 --insecure-listen", ""},
		{"--listen 0.0.0.0:7480 --token-file t", ""},
		{"--listen 0.0.0.0:7480 --client-ca ca --tls-cert c --tls-key k", ""},
		{"--listen nonsense", "--listen"},
		{"--client-ca ca", "needs --tls-cert"},
		{"--tls-cert c", "go together"},
		{"--username u", "go together"},
		{"--cassandra-cert-file c", "go together"},
		{"--cassandra-ca-file c", "not --cassandra-tls"},
		{"--serial-consistency QUORUM", "SERIAL or LOCAL_SERIAL"},
		{"--serial-consistency local_serial", ""},
		{"--hosts ,", "names no node"},
		{"--max-clock-skew -1s", "negative"},
		{"--max-clock-skew 2m", "more than a minute"},
		{"--statement-timeout 5s", "below --statement-timeout"},
		{"--poll-interval 2s", "within a second"},
		{"--max-requests 0", "at least 1"},
		{"--log-format xml", "text or json"},
		{"--nonsense", "not defined"},
		{"stray", "unexpected argument"},
	} {
		_, err := Serve(strings.Fields(c.args), io.Discard)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", c.args, err, c.err)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("LE_GATEWAY_MAX_CLOCK_SKEW", "500ms")
	t.Setenv("LE_GATEWAY_HOSTS", "10.0.0.1, 10.0.0.2")
	c, err := Serve(nil, io.Discard)
	if err != nil || c.MaxClockSkew != 500*time.Millisecond || len(c.Cassandra.Hosts) != 2 || c.Cassandra.Hosts[1] != "10.0.0.2" {
		t.Errorf("%+v, %v", c, err)
	}
	c, err = Serve([]string{"--max-clock-skew", "3s"}, io.Discard)
	if err != nil || c.MaxClockSkew != 3*time.Second {
		t.Errorf("the environment wins over the flag: %v, %v", c.MaxClockSkew, err)
	}
	t.Setenv("LE_GATEWAY_MAX_CLOCK_SKEW", "soon")
	if _, err = Serve(nil, io.Discard); err == nil || !strings.Contains(err.Error(), "LE_GATEWAY_MAX_CLOCK_SKEW") {
		t.Errorf("%v", err)
	}
}

func TestLocal(t *testing.T) {
	for args, local := range map[string]bool{
		"":                        true,
		"--listen [::1]:7480":     true,
		"--listen localhost:7480": true,
		"--listen localhost:7480 --insecure-listen": true,
		"--token-file t":                           false,
		"--client-ca a --tls-cert c --tls-key k":   false,
		"--tls-cert c --tls-key k":                 true,
		"--listen 10.0.0.1:7480 --insecure-listen": false,
	} {
		c, err := Serve(strings.Fields(args), io.Discard)
		if err != nil || c.Local() != local {
			t.Errorf("%s: %v", args, err)
		}
	}
	c, err := Serve([]string{"--allow-hosts", "DB1, gw.local"}, io.Discard)
	if err != nil || !slices.Equal(c.AllowHosts(), []string{"db1", "gw.local"}) {
		t.Errorf("%v %q", err, c.AllowHosts())
	}
}

// Exactly the allowed but unwise settings are reported.
func TestWeak(t *testing.T) {
	dir := t.TempDir()
	file := func(mode os.FileMode) string {
		name := filepath.Join(dir, fmt.Sprintf("%04o", mode))
		if err := errors.Join(os.WriteFile(name, []byte("secret"), 0o600), os.Chmod(name, mode)); err != nil {
			t.Fatal(err)
		}
		return name
	}
	fine := file(0o640)
	for _, c := range []struct {
		args string
		weak []string
	}{
		{"", nil},
		{"--token-file " + fine, nil},
		{"--token-file " + file(0o600), nil},
		{"--token-file /does/not/exist", nil},
		{"--token-file " + file(0o644), []string{"--token-file .*read by others"}},
		{"--token-file " + file(0o641), []string{"read by others"}},
		{"--token-file " + file(0o660), []string{"mode 0660.*written by others"}},
		{"--tls-cert c --tls-key " + file(0o644), []string{"--tls-key .*read by others"}},
		{"--listen 10.0.0.1:1 --token-file " + fine, []string{"tokens travel in clear text"}},
		{"--listen 10.0.0.1:1 --token-file " + fine + " --tls-cert c --tls-key " + fine, nil},
		{"--listen 10.0.0.1:1 --insecure-listen", []string{"take and release every lock"}},
		{"--listen 10.0.0.1:1 --client-ca a --tls-cert c --tls-key " + fine, []string{"every certificate .* opens every name"}},
		{"--client-ca a --tls-cert c --tls-key " + fine, []string{"every certificate"}},
		{"--client-ca a --tls-cert c --tls-key " + fine + " --token-file " + fine, nil},
		{"--username u --password-file " + fine, []string{"password for Cassandra travels in clear text"}}, // to nodes it discovers
		{"--username u --password-file " + fine + " --discover=false", nil},
		{"--username u --password-file " + fine + " --discover=false --hosts 127.0.0.1,10.0.0.1", []string{"password for Cassandra"}},
		{"--username u --password-file " + fine + " --cassandra-tls", nil},
		{"--username u --password-file " + file(0o604) + " --cassandra-tls", []string{"--password-file .*read by others"}},
		{"--cassandra-tls --cassandra-cert-file c --cassandra-key-file " + file(0o602), []string{"--cassandra-key-file .*written by others"}},
		{"--listen 10.0.0.1:1 --username u --password-file " + fine + " --token-file " + file(0o666),
			[]string{"tokens travel", "password for Cassandra", "--token-file"}},
	} {
		got, err := Serve(strings.Fields(c.args), io.Discard)
		if err != nil {
			t.Errorf("%s: %v", c.args, err)
			continue
		}
		weak := got.Weak()
		if !slices.EqualFunc(weak, c.weak, func(text, want string) bool { return regexp.MustCompile(want).MatchString(text) }) {
			t.Errorf("%s:\n  %s\nwant\n  %s", c.args, strings.Join(weak, "\n  "), strings.Join(c.weak, "\n  "))
		}
	}
}

// Every flag is explained in the help.
func TestHelp(t *testing.T) {
	for name, read := range map[string]func([]string, io.Writer) (*Config, error){"serve": Serve, "schema": Schema} {
		var out strings.Builder
		if _, err := read([]string{"--help"}, &out); !errors.Is(err, flag.ErrHelp) {
			t.Errorf("%s: %v", name, err)
		}
		f := flag.NewFlagSet("", flag.ContinueOnError)
		c := &Config{}
		if name == "serve" {
			c.serveFlags(f)
		}
		c.cassandraFlags(f)
		f.VisitAll(func(fl *flag.Flag) {
			if !regexp.MustCompile(`(?m)^  --` + fl.Name + ` `).MatchString(out.String()) {
				t.Errorf("%s: --%s is not in the help", name, fl.Name)
			}
		})
	}
}

func TestSchema(t *testing.T) {
	if _, err := Schema(nil, io.Discard); err == nil || !strings.Contains(err.Error(), "--replication") {
		t.Errorf("%v", err)
	}
	c, err := Schema([]string{"--replication", "dc1=3", "--keyspace", "k"}, io.Discard)
	if err != nil || c.Replication != "dc1=3" || c.Cassandra.Keyspace != "k" {
		t.Errorf("%+v %v", c, err)
	}
}
