package cql

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// minGrace keeps the Paxos state, which lives for gc_grace_seconds, longer than
// any contention for a ballot can last.
const minGrace = 3 * 3600

// columns of the lease table: type and kind.
var columns = map[string][2]string{
	"name": {"text", "partition_key"}, "job": {"text", "clustering"},
	"epoch": {"bigint", "static"}, "owner": {"text", "static"}, "value": {"text", "static"},
	"attempt": {"text", "static"}, "rev": {"bigint", "static"},
	"tick": {"timestamp", "regular"}, "try": {"int", "regular"}, "claim": {"text", "regular"},
	"by_epoch": {"bigint", "regular"}, "state": {"text", "regular"},
	"info": {"text", "regular"},
}

// Replication is the number of copies per datacenter.
type Replication map[string]int

var datacenter = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// ParseReplication reads "dc1=3,dc2=3".
func ParseReplication(text string) (Replication, error) {
	r := Replication{}
	for part := range strings.SplitSeq(text, ",") {
		dc, copies, found := strings.Cut(strings.TrimSpace(part), "=")
		n, err := strconv.Atoi(copies)
		if !found || err != nil || n < 1 || !datacenter.MatchString(dc) {
			return nil, fmt.Errorf("replication %q: write datacenter=copies, for instance dc1=3,dc2=3", text)
		}
		if _, twice := r[dc]; twice {
			return nil, fmt.Errorf("replication %q names %s twice", text, dc)
		}
		r[dc] = n
	}
	return r, nil
}

// Survives tells whether every lock stays usable with one node down: a
// majority must be left, of all copies or, with LOCAL_SERIAL, of those in the
// gateway's datacenter (every one of them, where none is named).
func (r Replication) Survives(opt Options) error {
	total := 0
	for _, dc := range slices.Sorted(maps.Keys(r)) {
		total += r[dc]
		if opt.LocalSerial && (opt.LocalDC == "" || opt.LocalDC == dc) && r[dc] < 3 {
			return fmt.Errorf("%d copies in %s: with one node down no majority is left there; 3 are needed", r[dc], dc)
		}
	}
	if opt.LocalSerial && opt.LocalDC != "" && r[opt.LocalDC] == 0 {
		return fmt.Errorf("no copies in %s, the gateway's datacenter", opt.LocalDC)
	}
	if total < 3 {
		return fmt.Errorf("%d copies: with one node down no majority is left; 3 are needed", total)
	}
	return nil
}

// Schema returns the statements that create keyspace and table.
func Schema(opt Options, r Replication) []string {
	var dcs []string
	for _, dc := range slices.Sorted(maps.Keys(r)) {
		dcs = append(dcs, fmt.Sprintf("'%s': %d", dc, r[dc]))
	}
	return []string{
		"CREATE KEYSPACE IF NOT EXISTS " + quote(opt.Keyspace) +
			"\n  WITH replication = {'class': 'NetworkTopologyStrategy', " + strings.Join(dcs, ", ") + "}",
		"CREATE TABLE IF NOT EXISTS " + opt.Table() + ` (
  name     text,
  job      text,
  epoch    bigint static,
  owner    text   static,
  value    text   static,
  attempt  text   static,
  rev      bigint static,
  tick     timestamp,
  try      int,
  claim    text,
  by_epoch bigint,
  state    text,
  info     text,
  PRIMARY KEY (name, job)
) WITH default_time_to_live = 0 AND gc_grace_seconds = 864000`,
	}
}

// Apply creates missing parts and checks existing ones.
func Apply(ctx context.Context, opt Options, r Replication) error {
	s, err := Open(opt)
	if err != nil {
		return err
	}
	defer s.Close()
	for _, stmt := range Schema(opt, r) {
		if err := s.Query(stmt).ExecContext(ctx); err != nil {
			return err
		}
	}
	if err := s.AwaitSchemaAgreement(ctx); err != nil {
		return err
	}
	found, err := replication(ctx, s, opt)
	if err != nil {
		return err
	}
	if !maps.Equal(found, r) {
		return fmt.Errorf("keyspace %s existed before with replication %v, not %v: left as it is", opt.Keyspace, found, r)
	}
	if err := CheckSchema(ctx, s, opt); err != nil {
		return err
	}
	return warnOfReplication(ctx, s, opt)
}

// Unfit is the fault of a schema that was read.
type Unfit struct{ what string }

func (u *Unfit) Error() string { return u.what }

func unfit(format string, args ...any) error { return &Unfit{fmt.Sprintf(format, args...)} }

// CheckSchema refuses a table that would break the statements: with a default
// TTL a token could expire, with a short gc_grace a won ballot could be below
// a stored one.
func CheckSchema(ctx context.Context, s *gocql.Session, opt Options) error {
	var ttl, grace int
	err := s.Query(`SELECT default_time_to_live, gc_grace_seconds FROM system_schema.tables
		WHERE keyspace_name = ? AND table_name = 'leases'`, opt.Keyspace).Consistency(gocql.One).ScanContext(ctx, &ttl, &grace)
	switch {
	case errors.Is(err, gocql.ErrNotFound):
		return unfit("table %s does not exist: run le-gateway schema --apply", opt.Table())
	case err != nil:
		return err
	case ttl != 0:
		return unfit("table %s has default_time_to_live = %d: fencing tokens would expire; it must be 0", opt.Table(), ttl)
	case grace < minGrace:
		return unfit("table %s has gc_grace_seconds = %d: Paxos would forget too early; it must be %d or more",
			opt.Table(), grace, minGrace)
	}
	if err := checkColumns(ctx, s, opt); err != nil {
		return err
	}
	return nil
}

// warnOfReplication tells that a lost node would take locks with it.
func warnOfReplication(ctx context.Context, s *gocql.Session, opt Options) error {
	r, err := replication(ctx, s, opt)
	if err != nil {
		return err
	}
	if err := r.Survives(opt); err != nil {
		opt.Log.Warn("keyspace does not survive the loss of a node", "keyspace", opt.Keyspace, "reason", err)
	}
	return nil
}

func checkColumns(ctx context.Context, s *gocql.Session, opt Options) error {
	it := s.Query(`SELECT column_name, type, kind FROM system_schema.columns
		WHERE keyspace_name = ? AND table_name = 'leases'`, opt.Keyspace).Consistency(gocql.One).IterContext(ctx)
	found := make(map[string][2]string)
	var name, typ, kind string
	for it.Scan(&name, &typ, &kind) {
		found[name] = [2]string{typ, kind}
	}
	if err := it.Close(); err != nil {
		return err
	}
	for name, want := range columns {
		if found[name] != want {
			return unfit("table %s: column %s should be %s, %s and is %v", opt.Table(), name, want[0], want[1], found[name])
		}
	}
	return nil
}

// replication reads how many copies each datacenter has. SimpleStrategy knows
// no datacenters; its copies count under the strategy's own name.
func replication(ctx context.Context, s *gocql.Session, opt Options) (Replication, error) {
	var m map[string]string
	err := s.Query(`SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?`,
		opt.Keyspace).Consistency(gocql.One).ScanContext(ctx, &m)
	r := Replication{}
	for dc, copies := range m {
		n, err := strconv.Atoi(strings.TrimSpace(copies))
		switch {
		case err != nil: // the class
		case dc == "replication_factor":
			r["SimpleStrategy"] = n
		default:
			r[dc] = n
		}
	}
	return r, err
}
