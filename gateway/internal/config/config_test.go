package config

import (
	"errors"
	"flag"
	"io"
	"regexp"
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
