// Package config reads the settings of le-gateway: flags, and for each flag an
// environment variable, and refuses unsafe ones.
package config

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/leader-election/leader_election/gateway/internal/cql"
	"github.com/leader-election/leader_election/gateway/internal/lease"
)

// Env is the prefix of the environment variables.
const Env = "LE_GATEWAY_"

// Config is everything that can be set.
type Config struct {
	Listen      string
	Insecure    bool
	allowHosts  string
	TokenFile   string
	TLSCert     string
	TLSKey      string
	ClientCA    string
	MaxRequests int
	MaxWaiters  int
	Shutdown    time.Duration
	LogLevel    slog.Level
	LogFormat   string

	Cassandra    cql.Options
	hosts        string
	serial       string
	MaxClockSkew time.Duration
	Budget       time.Duration
	Poll         time.Duration
	Parallel     int

	// for the subcommand schema
	Replication string
	Apply       bool
	Fragile     bool
}

type group struct {
	title string
	flags []string
}

func (c *Config) cassandraFlags(f *flag.FlagSet) group {
	o := &c.Cassandra
	f.StringVar(&c.hosts, "hosts", "127.0.0.1", "`addresses` of Cassandra nodes to start from, comma-separated")
	f.IntVar(&o.Port, "port", 9042, "native transport `port` of Cassandra")
	f.BoolVar(&o.Discover, "discover", true, "use all nodes of the cluster as coordinators, not just --hosts")
	f.StringVar(&o.LocalDC, "local-dc", "", "`datacenter` of the gateway: only its nodes are asked")
	f.StringVar(&o.Keyspace, "keyspace", "leader_election", "`keyspace` of the table leases")
	f.StringVar(&c.serial, "serial-consistency", "SERIAL",
		"SERIAL: one leader in all datacenters; LOCAL_SERIAL: Paxos stays in the gateway's. Must be the same in all gateways of a keyspace (`level`)")
	f.DurationVar(&o.Timeout, "statement-timeout", 2*time.Second, "how long one statement may take before its outcome counts as unknown")
	f.StringVar(&o.Username, "username", "", "`user` to log in to Cassandra with")
	f.StringVar(&o.PasswordFile, "password-file", "", "`file` that holds the password")
	f.BoolVar(&o.TLS, "cassandra-tls", false, "speak TLS to Cassandra and verify its certificate and name")
	f.StringVar(&o.CAFile, "cassandra-ca-file", "", "`file` with the certificate authorities of Cassandra (default: the system's)")
	f.StringVar(&o.CertFile, "cassandra-cert-file", "", "`file` with the gateway's certificate for Cassandra")
	f.StringVar(&o.KeyFile, "cassandra-key-file", "", "`file` with the key of that certificate")
	return group{"Cassandra", []string{"hosts", "port", "discover", "local-dc", "keyspace", "serial-consistency",
		"statement-timeout", "username", "password-file", "cassandra-tls", "cassandra-ca-file",
		"cassandra-cert-file", "cassandra-key-file"}}
}

func (c *Config) serveFlags(f *flag.FlagSet) []group {
	f.StringVar(&c.Listen, "listen", "127.0.0.1:7480", "`address` to listen on")
	f.StringVar(&c.TokenFile, "token-file", "", "`file` of bearer tokens: lines of LABEL SECRET PREFIX...; read again on SIGHUP")
	f.StringVar(&c.TLSCert, "tls-cert", "", "`file` with the certificate to serve TLS with; read again on SIGHUP")
	f.StringVar(&c.TLSKey, "tls-key", "", "`file` with its key")
	f.StringVar(&c.ClientCA, "client-ca", "", "`file` with certificate authorities: clients must show a certificate of one of them")
	f.BoolVar(&c.Insecure, "insecure-listen", false, "allow a non-loopback address without tokens or client certificates")
	f.StringVar(&c.allowHosts, "allow-hosts", "", "`names` by which this machine's clients may call a gateway without authentication, besides localhost and loopback addresses; comma-separated")
	f.DurationVar(&c.MaxClockSkew, "max-clock-skew", 2*time.Second, "by how much the clocks of two Cassandra nodes may differ; leases are believed for that much less")
	f.DurationVar(&c.Budget, "request-timeout", 4500*time.Millisecond, "how long a request may take, unknown outcomes resolved; keep it below the clients' timeout")
	f.DurationVar(&c.Poll, "poll-interval", 250*time.Millisecond, "how often a lock is looked at while clients wait for its change; where more than 250 are watched more seldom, down to each 800ms")
	f.IntVar(&c.Parallel, "batch-parallel", 8, "how many locks of one batch are worked on at once (`n`)")
	f.IntVar(&c.MaxRequests, "max-requests", 256, "at most `n` requests at once; more are answered 503. A quarter is kept for renewals and releases, and one caller gets half at most")
	f.IntVar(&c.MaxWaiters, "max-waiters", 4096, "at most `n` long polls at once, half of them for one caller; more are answered 503")
	f.DurationVar(&c.Shutdown, "shutdown-timeout", 10*time.Second, "how long requests under way may take when the gateway is stopped")
	f.TextVar(&c.LogLevel, "log-level", slog.LevelInfo, "debug, info, warn or error (`level`)")
	f.StringVar(&c.LogFormat, "log-format", "text", "text or json (`format`)")
	return []group{
		{"Service", []string{"listen", "token-file", "tls-cert", "tls-key", "client-ca", "insecure-listen", "allow-hosts",
			"max-requests", "max-waiters", "shutdown-timeout", "log-level", "log-format"}},
		{"Leases", []string{"max-clock-skew", "request-timeout", "poll-interval", "batch-parallel"}},
	}
}

// Serve reads the settings of the daemon.
func Serve(args []string, out io.Writer) (*Config, error) {
	c := &Config{}
	f := flag.NewFlagSet("le-gateway", flag.ContinueOnError)
	groups := append(c.serveFlags(f), c.cassandraFlags(f))
	usage(f, out, `le-gateway - leases over HTTP, on lightweight transactions of Apache Cassandra

  le-gateway [serve] [flags]    run the gateway in the foreground
  le-gateway schema [flags]     print or apply the keyspace and table it needs
  le-gateway version            print the version

A lock is taken with PUT /v1/locks/NAME, prolonged with POST .../renew and let
go with DELETE; GET /openapi.yaml describes the whole interface. Gateways keep
no state: run any number of them behind one name. SIGHUP reads tokens and
certificates again; SIGTERM stops after the requests under way.

Try it:
  le-gateway schema --hosts 10.0.0.1 --replication dc1=3 --apply
  le-gateway --hosts 10.0.0.1,10.0.0.2 --local-dc dc1
  curl -X PUT http://127.0.0.1:7480/v1/locks/my_lock
`, groups)
	if err := parse(f, args); err != nil {
		return nil, err
	}
	return c, errors.Join(c.finish(), c.checkServe())
}

// Schema reads the settings of the subcommand schema.
func Schema(args []string, out io.Writer) (*Config, error) {
	c := &Config{}
	f := flag.NewFlagSet("le-gateway schema", flag.ContinueOnError)
	f.StringVar(&c.Replication, "replication", "", "copies per datacenter, for instance `dc1=3,dc2=3`; required")
	f.BoolVar(&c.Apply, "apply", false, "create keyspace and table, instead of printing the statements")
	f.BoolVar(&c.Fragile, "allow-fragile", false, "allow a replication that does not survive the loss of a node (tests)")
	groups := []group{{"Schema", []string{"replication", "apply", "allow-fragile"}}, c.cassandraFlags(f)}
	usage(f, out, `le-gateway schema - print or apply the keyspace and table of the gateway
`, groups)
	if err := parse(f, args); err != nil {
		return nil, err
	}
	if c.Replication == "" {
		return nil, errors.New("--replication is required, for instance --replication dc1=3")
	}
	return c, c.finish()
}

// usage prints the flags by topic, with defaults and environment variables.
func usage(f *flag.FlagSet, out io.Writer, head string, groups []group) {
	f.SetOutput(out)
	f.Usage = func() {
		fmt.Fprint(out, head)
		for _, g := range groups {
			fmt.Fprintf(out, "\n%s:\n", g.title)
			for _, name := range g.flags {
				fl := f.Lookup(name)
				arg, text := flag.UnquoteUsage(fl)
				fmt.Fprintf(out, "  --%s %s\n        %s", name, arg, text)
				if fl.DefValue != "" && fl.DefValue != "false" {
					fmt.Fprintf(out, " (default %s)", fl.DefValue)
				}
				fmt.Fprintln(out)
			}
		}
		fmt.Fprintf(out, "\nEvery flag can be set by the environment: --max-clock-skew is %sMAX_CLOCK_SKEW.\n"+
			"A flag wins over the environment. Durations are written like 1500ms, 15s or 2m.\n", Env)
	}
}

// parse reads flags, and the environment for those not given.
func parse(f *flag.FlagSet, args []string) error {
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; see --help", f.Arg(0))
	}
	given := make(map[string]bool)
	f.Visit(func(fl *flag.Flag) { given[fl.Name] = true })
	var err error
	f.VisitAll(func(fl *flag.Flag) {
		key := Env + strings.ToUpper(strings.ReplaceAll(fl.Name, "-", "_"))
		if value, ok := os.LookupEnv(key); ok && !given[fl.Name] {
			if e := f.Set(fl.Name, value); e != nil {
				err = errors.Join(err, fmt.Errorf("%s: invalid value %q: %w", key, value, e))
			}
		}
	})
	return err
}

// finish derives settings from the flags and makes the checks of both commands.
func (c *Config) finish() error {
	o := &c.Cassandra
	for h := range strings.SplitSeq(c.hosts, ",") {
		if h = strings.TrimSpace(h); h != "" {
			o.Hosts = append(o.Hosts, h)
		}
	}
	switch strings.ToUpper(c.serial) {
	case "SERIAL":
	case "LOCAL_SERIAL":
		o.LocalSerial = true
	default:
		return fmt.Errorf("--serial-consistency is SERIAL or LOCAL_SERIAL, not %q", c.serial)
	}
	switch {
	case len(o.Hosts) == 0:
		return errors.New("--hosts names no node")
	case o.Keyspace == "":
		return errors.New("--keyspace is empty")
	case (o.Username == "") != (o.PasswordFile == ""):
		return errors.New("--username and --password-file go together")
	case (o.CertFile == "") != (o.KeyFile == ""):
		return errors.New("--cassandra-cert-file and --cassandra-key-file go together")
	case !o.TLS && (o.CAFile != "" || o.CertFile != ""):
		return errors.New("certificates for Cassandra are given, but not --cassandra-tls")
	case o.Timeout <= 0:
		return errors.New("--statement-timeout must be positive")
	}
	return nil
}

func (c *Config) checkServe() error {
	switch {
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return errors.New("--tls-cert and --tls-key go together")
	case c.ClientCA != "" && c.TLSCert == "":
		return errors.New("--client-ca needs --tls-cert: only TLS carries certificates")
	case c.MaxClockSkew < 0:
		return errors.New("--max-clock-skew cannot be negative")
	case c.MaxClockSkew > time.Minute:
		return fmt.Errorf("--max-clock-skew %v: a lease would lose more than a minute of its life; set the clocks right instead", c.MaxClockSkew)
	case c.Budget < c.Cassandra.Timeout:
		return fmt.Errorf("--request-timeout %v is below --statement-timeout %v: no outcome could ever be resolved", c.Budget, c.Cassandra.Timeout)
	case c.Poll < 10*time.Millisecond || c.Poll > time.Second:
		return errors.New("--poll-interval must be between 10ms and 1s: waiting clients are promised an answer within a second")
	case c.MaxRequests < 1 || c.MaxWaiters < 1 || c.Parallel < 1:
		return errors.New("--max-requests, --max-waiters and --batch-parallel must be at least 1")
	case c.LogFormat != "text" && c.LogFormat != "json":
		return fmt.Errorf("--log-format is text or json, not %q", c.LogFormat)
	}
	return c.checkListen()
}

// Local tells whether the gateway is for this machine alone: it listens on
// loopback, and nobody has to authenticate.
func (c *Config) Local() bool {
	host, _, err := net.SplitHostPort(c.Listen)
	return err == nil && loopback(host) && c.TokenFile == "" && c.ClientCA == ""
}

// AllowHosts is the names that a local gateway may be called by.
func (c *Config) AllowHosts() []string {
	return strings.FieldsFunc(strings.ToLower(c.allowHosts), func(r rune) bool { return r == ',' || r == ' ' })
}

// checkListen refuses to hand locks to a whole network by accident.
func (c *Config) checkListen() error {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	if loopback(host) || c.TokenFile != "" || c.ClientCA != "" || c.Insecure {
		return nil
	}
	return fmt.Errorf("refusing to listen on %s without authentication: anyone who reaches it could take and release every lock; "+
		"set --token-file or --client-ca, or say --insecure-listen", c.Listen)
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// Lease returns the settings of the lease service.
func (c *Config) Lease(log *slog.Logger, obs lease.Observer) lease.Options {
	return lease.Options{MaxClockSkew: c.MaxClockSkew, Budget: c.Budget, Poll: c.Poll, Parallel: c.Parallel,
		Log: log, Observer: obs}
}

// Logger makes the log.
func (c *Config) Logger(w io.Writer) *slog.Logger {
	opt := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opt))
	}
	return slog.New(slog.NewTextHandler(w, opt))
}
