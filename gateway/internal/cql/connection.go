package cql

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/leader-election/leader_election/gateway/internal/lease"
)

// Options say which Cassandra to use, and how.
type Options struct {
	Hosts    []string
	Port     int
	LocalDC  string
	Discover bool // use all nodes of the cluster, not just Hosts
	Keyspace string
	// LocalSerial keeps Paxos inside one datacenter. All gateways of a
	// keyspace must agree on it: the two kinds do not see each other.
	LocalSerial  bool
	Timeout      time.Duration // for one statement
	Username     string
	PasswordFile string
	TLS          bool
	CAFile       string
	CertFile     string
	KeyFile      string
	Log          *slog.Logger
}

func (o Options) serial() gocql.Consistency {
	if o.LocalSerial {
		return gocql.LocalSerial
	}
	return gocql.Serial
}

func (o Options) write() gocql.Consistency {
	if o.LocalSerial {
		return gocql.LocalQuorum
	}
	return gocql.Quorum
}

func (o Options) readLevel(l lease.Level) gocql.Consistency {
	if l == lease.Decide {
		return o.serial()
	}
	return o.write()
}

// Table is the qualified name of the lease table.
func (o Options) Table() string { return quote(o.Keyspace) + ".leases" }

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// connection holds the session, once it is open and the schema is right.
type connection struct {
	s   atomic.Pointer[gocql.Session]
	why atomic.Pointer[error]
	// unfit is the fault of a schema that was right when the session was opened.
	unfit atomic.Pointer[error]
	// missed is set when a statement found no connection to go over.
	missed atomic.Bool
}

func (c *connection) session() (*gocql.Session, error) {
	if unfit := c.unfit.Load(); unfit != nil {
		return nil, *unfit
	}
	if s := c.s.Load(); s != nil {
		return s, nil
	}
	if why := c.why.Load(); why != nil {
		return nil, *why
	}
	return nil, errors.New("not connected to Cassandra yet")
}

// New makes a store that is not connected yet.
func New(opt Options, obs Observer) *DB {
	return &DB{opt: opt, st: newStatements(opt.Table()), obs: obs}
}

// Connect connects, and keeps connected until ctx ends. A gateway may start
// before its Cassandra.
func (db *DB) Connect(ctx context.Context) {
	for {
		s := db.open(ctx)
		if s == nil {
			return
		}
		if old := db.conn.s.Swap(s); old != nil {
			time.AfterFunc(2*db.opt.Timeout, old.Close) // statements under way finish
		}
		db.opt.Log.Info("connected to Cassandra", "keyspace", db.opt.Keyspace,
			"serial_consistency", db.opt.serial(), "consistency", db.opt.write())
		db.conn.unfit.Store(nil)
		watching, stop := context.WithCancel(ctx)
		go db.watchSchema(watching, s)
		db.watch(ctx)
		stop()
	}
}

// schemaLook is how often the schema is looked at. An unfit table does harm by
// and by: tokens expire, Paxos forgets.
const schemaLook = 5 * time.Second

// watchSchema refuses to serve while the schema is unfit, as after an ALTER.
func (db *DB) watchSchema(ctx context.Context, s *gocql.Session) {
	look := time.NewTicker(schemaLook)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		work, cancel := context.WithTimeout(ctx, db.opt.Timeout)
		db.judge(CheckSchema(work, s, db.opt))
		cancel()
	}
}

// judge notes what a look at the schema found. One that failed says nothing of
// the schema.
func (db *DB) judge(err error) {
	var unfit *Unfit
	switch {
	case errors.As(err, &unfit):
		if old := db.conn.unfit.Swap(&err); old == nil || (*old).Error() != err.Error() {
			db.opt.Log.Error("cannot use Cassandra any more", "error", err)
		}
	case err == nil && db.conn.unfit.Swap(nil) != nil:
		db.opt.Log.Info("the schema is right again")
	}
}

// open opens a session and checks the schema, again and again until it
// succeeds or ctx ends.
func (db *DB) open(ctx context.Context) *gocql.Session {
	for wait := 250 * time.Millisecond; ctx.Err() == nil; wait = min(2*wait, 4*time.Second) {
		s, err := Open(db.opt)
		if err == nil {
			if err = CheckSchema(ctx, s, db.opt); err == nil {
				err = warnOfReplication(ctx, s, db.opt)
			}
			if err == nil {
				return s
			}
			s.Close()
		}
		if old := db.conn.why.Swap(&err); old == nil || (*old).Error() != err.Error() {
			db.opt.Log.Error("cannot use Cassandra yet", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return nil
}

// deaf is how long a session may be without any connection. The driver
// reconnects by itself, but forgets for good a node that the cluster lists by
// another address than the given one (a proxy, NAT).
const deaf = 4 * time.Second

// watch returns when the session has had no connection for too long.
func (db *DB) watch(ctx context.Context) {
	look := time.NewTicker(time.Second)
	defer look.Stop()
	var since time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		if !db.conn.missed.Swap(false) { // no statement missed a connection
			since = time.Time{}
			continue
		}
		work, cancel := context.WithTimeout(ctx, db.opt.Timeout)
		err := db.Ready(work)
		cancel()
		switch {
		case !errors.Is(err, gocql.ErrNoConnections):
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > deaf:
			db.opt.Log.Warn("the session has lost all nodes: opening another one")
			return
		}
	}
}

// Close ends the session.
func (db *DB) Close() {
	if s := db.conn.s.Swap(nil); s != nil {
		s.Close()
	}
}

// Ready makes sure that a majority answers a linearizable read. No lock can
// have this name.
func (db *DB) Ready(ctx context.Context) error {
	_, err := db.Read(ctx, "//ready", lease.Decide)
	return err
}

// Open makes a session that never sends a statement twice: no retry policy,
// no speculative execution, nothing marked idempotent.
func Open(opt Options) (*gocql.Session, error) {
	c := gocql.NewCluster(opt.Hosts...)
	c.Port = opt.Port
	c.Timeout = opt.Timeout
	c.WriteTimeout = opt.Timeout
	c.ConnectTimeout = opt.Timeout
	c.Consistency = opt.write()
	c.SerialConsistency = opt.serial()
	c.RetryPolicy = nil
	c.DefaultIdempotence = false
	// The ballot stamps every conditional write; a client's timestamp would
	// only be one more clock.
	c.DefaultTimestamp = false
	c.ReconnectInterval = 2 * time.Second
	c.MaxWaitSchemaAgreement = 20 * time.Second
	c.Logger = driverLog{opt.Log}
	c.PoolConfig.HostSelectionPolicy = avoidSilent(selection(opt))
	if !opt.Discover {
		c.DisableInitialHostLookup = true
		c.HostFilter = gocql.WhiteListHostFilter(opt.Hosts...)
		c.Events.DisableTopologyEvents = true
	}
	if err := secure(c, opt); err != nil {
		return nil, err
	}
	return c.CreateSession()
}

// selection sends a lock's statements to the same replica while it answers:
// fewer hops, fewer lost Paxos rounds, and one clock.
func selection(opt Options) gocql.HostSelectionPolicy {
	fallback := gocql.RoundRobinHostPolicy()
	if opt.LocalDC != "" {
		fallback = gocql.DCAwareRoundRobinPolicy(opt.LocalDC)
	}
	return gocql.TokenAwareHostPolicy(fallback, gocql.DoNotShuffleReplicas())
}

func secure(c *gocql.ClusterConfig, opt Options) error {
	if opt.Username != "" {
		password, err := os.ReadFile(opt.PasswordFile)
		if err != nil {
			return fmt.Errorf("password file: %w", err)
		}
		c.Authenticator = gocql.PasswordAuthenticator{
			Username: opt.Username, Password: strings.TrimRight(string(password), "\r\n")}
	}
	if !opt.TLS {
		return nil
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if opt.CAFile != "" {
		pem, err := os.ReadFile(opt.CAFile)
		if err != nil {
			return fmt.Errorf("certificate authority of Cassandra: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("%s holds no certificate", opt.CAFile)
		}
	}
	if opt.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(opt.CertFile, opt.KeyFile)
		if err != nil {
			return fmt.Errorf("client certificate for Cassandra: %w", err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	c.SslOpts = &gocql.SslOptions{Config: conf, EnableHostVerification: true}
	return nil
}

// driverLog passes the driver's log on; the driver's info is our debug.
type driverLog struct{ log *slog.Logger }

func attrs(fields []gocql.LogField) []any {
	var list []any
	for _, f := range fields {
		list = append(list, slog.String(f.Name, f.Value.String()))
	}
	return list
}

func (l driverLog) Error(msg string, f ...gocql.LogField)   { l.log.Warn("driver: "+msg, attrs(f)...) }
func (l driverLog) Warning(msg string, f ...gocql.LogField) { l.log.Warn("driver: "+msg, attrs(f)...) }
func (l driverLog) Info(msg string, f ...gocql.LogField)    { l.log.Debug("driver: "+msg, attrs(f)...) }
func (l driverLog) Debug(msg string, f ...gocql.LogField)   {}
