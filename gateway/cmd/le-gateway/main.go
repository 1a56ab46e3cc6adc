// Le-gateway serves leases over HTTP on lightweight transactions of Apache
// Cassandra.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	gateway "github.com/leader-election/leader_election/gateway"
	"github.com/leader-election/leader_election/gateway/internal/api"
	"github.com/leader-election/leader_election/gateway/internal/auth"
	"github.com/leader-election/leader_election/gateway/internal/config"
	"github.com/leader-election/leader_election/gateway/internal/cql"
	"github.com/leader-election/leader_election/gateway/internal/lease"
	"github.com/leader-election/leader_election/gateway/internal/metrics"
	"github.com/leader-election/leader_election/gateway/internal/notify"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, out, errOut io.Writer) int {
	command := "serve"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		command, args = args[0], args[1:]
	}
	var err error
	switch command {
	case "serve":
		err = serve(args, out, errOut)
	case "schema":
		err = schema(args, out, errOut)
	case "version":
		fmt.Fprintln(out, "le-gateway", gateway.Version, runtime.Version())
	case "help":
		_, err = config.Serve([]string{"--help"}, out)
	default:
		err = fmt.Errorf("unknown command %q; see le-gateway --help", command)
	}
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	default:
		fmt.Fprintln(errOut, "le-gateway:", err)
		return 1
	}
}

// helpTo returns standard output for help that was asked for.
func helpTo(args []string, out, errOut io.Writer) io.Writer {
	for _, a := range args {
		if a == "-h" || a == "-help" || a == "--help" {
			return out
		}
	}
	return errOut
}

func schema(args []string, out, errOut io.Writer) error {
	c, err := config.Schema(args, helpTo(args, out, errOut))
	if err != nil {
		return err
	}
	r, err := cql.ParseReplication(c.Replication)
	if err != nil {
		return err
	}
	if err := r.Survives(c.Cassandra); err != nil && !c.Fragile {
		return fmt.Errorf("--replication %s: %w (--allow-fragile for tests)", c.Replication, err)
	}
	if !c.Apply {
		for _, s := range cql.Schema(c.Cassandra, r) {
			fmt.Fprintln(out, s+";")
		}
		return nil
	}
	c.Cassandra.Log = slog.New(slog.NewTextHandler(errOut, &slog.HandlerOptions{Level: slog.LevelWarn}))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c.Cassandra.Timeout = max(c.Cassandra.Timeout, 20*time.Second)
	return cql.Apply(ctx, c.Cassandra, r)
}

// observer lets the lease service count into metrics that are made after it.
type observer struct{ *metrics.Set }

func serve(args []string, out, errOut io.Writer) error {
	c, err := config.Serve(args, helpTo(args, out, errOut))
	if err != nil {
		return err
	}
	log := c.Logger(errOut)
	c.Cassandra.Log = log
	var tokens *auth.Tokens
	if c.TokenFile != "" {
		if tokens, err = auth.Load(c.TokenFile); err != nil {
			return err
		}
	}
	certs, err := loadCerts(c)
	if err != nil {
		return err
	}

	obs := &observer{}
	db := cql.New(c.Cassandra, obs)
	svc := lease.New(db, c.Lease(log, obs))
	obs.Set = metrics.New(svc.Held)
	handler := api.New(svc, api.Options{Tokens: tokens, Local: c.Local(), Hosts: c.AllowHosts(), MaxRequests: c.MaxRequests, MaxWaiters: c.MaxWaiters,
		Ready: db.Ready, OpenAPI: gateway.OpenAPI, Metrics: obs.Set, Log: log,
		Version: map[string]string{"version": gateway.Version, "go": runtime.Version(), "api": "v1"}})
	srv := &http.Server{Handler: handler, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: c.Budget + 10*time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}

	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return err
	}
	if certs != nil {
		listener = tls.NewListener(listener, certs.config())
	}
	warn(log, c)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	manager := notify.FromEnvironment()
	tell := func(state, text string) {
		if err := manager.Tell(state, text); err != nil {
			log.Warn("could not notify the service manager", "state", state, "error", err)
		}
	}
	go db.Connect(ctx)
	go reload(ctx, hup, tell, log, c, tokens, certs)
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(listener) }()
	// Ready without Cassandra: a boot must not wait for it, systemd would end and
	// repeat a long start in vain, and the answer "not-applied" meanwhile sends
	// clients to the next gateway.
	tell(notify.Ready, "listening on "+listener.Addr().String())
	watched, unwatch := context.WithCancel(context.Background()) // while it stops, too
	defer unwatch()
	go manager.Watch(watched, pulse(handler))
	log.Info("listening", "address", listener.Addr().String(), "version", gateway.Version, "tls", certs != nil,
		"tokens", tokens != nil, "max_clock_skew", c.MaxClockSkew)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	tell(notify.Stopping, "")
	log.Info("stopping: new requests are refused, those under way finish", "limit", c.Shutdown)
	return shutdown(c.Shutdown, handler, srv, svc, db)
}

// pulse is the work that feeds the watchdog.
func pulse(h *api.Server) func(time.Duration) string {
	return func(limit time.Duration) string {
		if err := h.Pulse(limit); err != nil {
			return "Cassandra: " + err.Error()
		}
		return "Cassandra answers"
	}
}

// shutdown lets requests finish; long polls answer at once.
func shutdown(limit time.Duration, h *api.Server, srv *http.Server, svc *lease.Service, db *cql.DB) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	h.Drain()
	err := srv.Shutdown(ctx)
	svc.Close(ctx)
	db.Close()
	if err != nil {
		return fmt.Errorf("some requests did not finish within %v", limit)
	}
	return nil
}

// reload reads tokens and certificates again on SIGHUP. It reports invalid
// files and keeps the old contents.
func reload(ctx context.Context, hup <-chan os.Signal, tell func(state, text string), log *slog.Logger, c *config.Config,
	tokens *auth.Tokens, certs *certificates) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
		}
		tell(notify.Reloading, "")
		var err error
		if tokens != nil {
			err = tokens.Reload()
		}
		if certs != nil {
			err = errors.Join(err, certs.reload())
		}
		if err != nil {
			log.Error("reload failed, the old settings stay", "error", err)
		} else {
			log.Info("reloaded tokens and certificates")
		}
		warn(log, c)
		tell(notify.Ready, "")
	}
}

// warn logs weak settings and file modes.
func warn(log *slog.Logger, c *config.Config) {
	for _, weak := range c.Weak() {
		log.Warn("weak set-up", "problem", weak)
	}
}

// certificates is the TLS side of the service, reloadable.
type certificates struct {
	c    *config.Config
	pair atomic.Pointer[tls.Certificate]
	pool atomic.Pointer[x509.CertPool]
}

// loadCerts returns nil without TLS.
func loadCerts(c *config.Config) (*certificates, error) {
	if c.TLSCert == "" {
		return nil, nil
	}
	s := &certificates{c: c}
	return s, s.reload()
}

func (s *certificates) reload() error {
	pair, err := tls.LoadX509KeyPair(s.c.TLSCert, s.c.TLSKey)
	if err != nil {
		return err
	}
	if s.c.ClientCA != "" {
		pem, err := os.ReadFile(s.c.ClientCA)
		if err != nil {
			return err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return fmt.Errorf("%s holds no certificate", s.c.ClientCA)
		}
		s.pool.Store(pool)
	}
	s.pair.Store(&pair)
	return nil
}

// config makes a tls.Config for each connection, from the certificates of now.
func (s *certificates) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			conf := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
				Certificates: []tls.Certificate{*s.pair.Load()}}
			if pool := s.pool.Load(); pool != nil {
				conf.ClientAuth, conf.ClientCAs = tls.RequireAndVerifyClientCert, pool
			}
			return conf, nil
		}}
}
