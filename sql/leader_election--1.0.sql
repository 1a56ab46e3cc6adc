/* sql/leader_election--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION leader_election" to load this file. \quit

--
-- Leading
--
CREATE FUNCTION le_acquire(
	election pg_catalog.text,
	value pg_catalog.text DEFAULT NULL,
	wait pg_catalog.interval DEFAULT '0',
	scope pg_catalog.text DEFAULT 'node',
	on_loss pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.bool
AS 'MODULE_PATHNAME', 'le_acquire'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION le_acquire(pg_catalog.text, pg_catalog.text, pg_catalog.interval, pg_catalog.text, pg_catalog.text) IS
'seek to lead an election: true, the scope holds it now; false, somebody else does or may';

CREATE FUNCTION le_renew(
	election pg_catalog.text,
	value pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.bool
AS 'MODULE_PATHNAME', 'le_renew'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION le_renew(pg_catalog.text, pg_catalog.text) IS
'prove the term at the store now, optionally publishing another value; false: lost or never held';

CREATE FUNCTION le_release(election pg_catalog.text)
RETURNS pg_catalog.bool
AS 'MODULE_PATHNAME', 'le_release'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION le_release(pg_catalog.text) IS
'stop leading an election; true once the store has confirmed it';

CREATE FUNCTION le_campaign(
	election pg_catalog.text,
	value pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.void
AS 'MODULE_PATHNAME', 'le_campaign'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION le_campaign(pg_catalog.text, pg_catalog.text) IS
'contend for an election, for the whole instance, until le_withdraw() or a restart';

CREATE FUNCTION le_withdraw(election pg_catalog.text)
RETURNS pg_catalog.bool
AS 'MODULE_PATHNAME', 'le_withdraw'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION le_withdraw(pg_catalog.text) IS
'end a le_campaign() and release what it holds; false: there was none';

CREATE FUNCTION le_step_down(
	election pg_catalog.text DEFAULT NULL,
	hold_off pg_catalog.interval DEFAULT '30s')
RETURNS pg_catalog.bool
AS 'MODULE_PATHNAME', 'le_step_down'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION le_step_down(pg_catalog.text, pg_catalog.interval) IS
'release an election, or all that this instance holds or seeks, and do not contend for hold_off; false: it neither held nor sought any';

CREATE FUNCTION le_reset_token(election pg_catalog.text)
RETURNS pg_catalog.void
AS 'MODULE_PATHNAME', 'le_reset_token'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION le_reset_token(pg_catalog.text) IS
'accept lower fencing tokens than seen before, after the store was rebuilt';

--
-- Asking
--
CREATE FUNCTION le_is_leader(election pg_catalog.text)
RETURNS pg_catalog.bool
AS 'MODULE_PATHNAME', 'le_is_leader'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION le_is_leader(pg_catalog.text) IS
'may the caller act as leader at this moment? reads shared memory only';

CREATE FUNCTION le_fencing_token(election pg_catalog.text)
RETURNS pg_catalog.int8
AS 'MODULE_PATHNAME', 'le_fencing_token'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION le_fencing_token(pg_catalog.text) IS
'the fencing token of the caller''s term, null if it does not lead';

CREATE FUNCTION le_require_leader(
	election pg_catalog.text,
	min_remaining pg_catalog.interval DEFAULT '0',
	on_loss pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.int8
AS 'MODULE_PATHNAME', 'le_require_leader'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION le_require_leader(pg_catalog.text, pg_catalog.interval, pg_catalog.text) IS
'raise an error unless the caller leads; bind its transaction to the term, so that it cannot commit after it; the fencing token';

CREATE FUNCTION le_fence_guard(
	rel pg_catalog.regclass,
	election pg_catalog.text)
RETURNS pg_catalog.int8
AS 'MODULE_PATHNAME', 'le_fence_guard'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION le_fence_guard(pg_catalog.regclass, pg_catalog.text) IS
'le_require_leader(), and raise an error if a later term has been noted in the table; note this one';

CREATE FUNCTION le_current_leader(
	election pg_catalog.text,
	max_staleness pg_catalog.interval DEFAULT '0')
RETURNS pg_catalog.text
AS 'MODULE_PATHNAME', 'le_current_leader'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION le_current_leader(pg_catalog.text, pg_catalog.interval) IS
'the name of the node that holds an election, null if none; asks the store unless max_staleness allows otherwise';

CREATE FUNCTION le_leader(
	INOUT election pg_catalog.text,
	IN max_staleness pg_catalog.interval DEFAULT '0',
	OUT leader pg_catalog.text,
	OUT value pg_catalog.text,
	OUT fencing_token pg_catalog.int8,
	OUT is_self pg_catalog.bool,
	OUT observed_at pg_catalog.timestamptz)
AS 'MODULE_PATHNAME', 'le_leader'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION le_leader(pg_catalog.text, pg_catalog.interval) IS
'who holds an election, and what it publishes';

CREATE FUNCTION le_version()
RETURNS pg_catalog.text
AS 'MODULE_PATHNAME', 'le_version'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION le_version() IS
'version of the loaded leader_election library';

--
-- Looking
--
CREATE FUNCTION le_status(
	OUT election pg_catalog.text,
	OUT state pg_catalog.text,
	OUT scope pg_catalog.text,
	OUT pid pg_catalog.int4,
	OUT holder pg_catalog.text,
	OUT value pg_catalog.text,
	OUT fencing_token pg_catalog.int8,
	OUT term_started_at pg_catalog.timestamptz,
	OUT expires_at pg_catalog.timestamptz,
	OUT last_renewed_at pg_catalog.timestamptz,
	OUT last_change_at pg_catalog.timestamptz,
	OUT last_loss pg_catalog.text,
	OUT last_error pg_catalog.text,
	OUT store pg_catalog.text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'le_status'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION le_status() IS
'the elections that this instance holds, seeks or has seen';

CREATE VIEW le_status AS
	SELECT * FROM le_status();

COMMENT ON VIEW le_status IS
'the elections that this instance holds, seeks or has seen';

CREATE FUNCTION le_nodes(
	OUT node pg_catalog.text,
	OUT is_self pg_catalog.bool,
	OUT state pg_catalog.text,
	OUT incarnation pg_catalog.text,
	OUT store_session pg_catalog.text,
	OUT lease pg_catalog.interval,
	OUT last_proof_seen_at pg_catalog.timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'le_nodes'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION le_nodes() IS
'the nodes that take part, as this instance last saw them in the store';

CREATE VIEW le_nodes AS
	SELECT * FROM le_nodes();

COMMENT ON VIEW le_nodes IS
'the nodes that take part, as this instance last saw them in the store';

CREATE FUNCTION le_events(
	OUT number pg_catalog.int8,
	OUT at pg_catalog.timestamptz,
	OUT event pg_catalog.text,
	OUT election pg_catalog.text,
	OUT node pg_catalog.text,
	OUT fencing_token pg_catalog.int8,
	OUT pid pg_catalog.int4,
	OUT detail pg_catalog.text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'le_events'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION le_events() IS
'what happened last on this instance, the newest last';

CREATE VIEW le_events AS
	SELECT * FROM le_events();

COMMENT ON VIEW le_events IS
'what happened last on this instance, the newest last';

CREATE FUNCTION le_stat(
	OUT election pg_catalog.text,
	OUT acquisitions pg_catalog.int8,
	OUT releases pg_catalog.int8,
	OUT losses pg_catalog.int8,
	OUT renewals pg_catalog.int8,
	OUT failures pg_catalog.int8,
	OUT unknown pg_catalog.int8,
	OUT gate_passed pg_catalog.int8,
	OUT gate_refused pg_catalog.int8,
	OUT fence_aborts pg_catalog.int8,
	OUT claims pg_catalog.int8,
	OUT runs pg_catalog.int8,
	OUT skips pg_catalog.int8,
	OUT cancels pg_catalog.int8,
	OUT round_trips pg_catalog.int8,
	OUT last_round_trip_time pg_catalog.float8,
	OUT min_round_trip_time pg_catalog.float8,
	OUT avg_round_trip_time pg_catalog.float8,
	OUT max_round_trip_time pg_catalog.float8,
	OUT stats_reset pg_catalog.timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'le_stat'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION le_stat() IS
'counters of each election on this instance; election null: what is about none';

CREATE VIEW le_stat AS
	SELECT * FROM le_stat();

COMMENT ON VIEW le_stat IS
'counters of each election on this instance; election null: what is about none';

CREATE FUNCTION le_stat_reset()
RETURNS pg_catalog.void
AS 'MODULE_PATHNAME', 'le_stat_reset'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION le_stat_reset() IS
'set all counters of le_stat to zero';

CREATE FUNCTION le_check_config(
	OUT level pg_catalog.text,
	OUT topic pg_catalog.text,
	OUT message pg_catalog.text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'le_check_config'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION le_check_config() IS
'what the settings of this instance amount to, and whether worker, store and clock are as they should be';

--
-- Jobs
--
CREATE FUNCTION le_claim(
	election pg_catalog.text,
	job pg_catalog.text,
	tick pg_catalog.timestamptz)
RETURNS pg_catalog.bool
AS 'MODULE_PATHNAME', 'le_claim'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION le_claim(pg_catalog.text, pg_catalog.text, pg_catalog.timestamptz) IS
'take a tick of a job: true for exactly one caller, who leads the election';

CREATE FUNCTION le_complete(
	election pg_catalog.text,
	job pg_catalog.text,
	tick pg_catalog.timestamptz)
RETURNS pg_catalog.bool
AS 'MODULE_PATHNAME', 'le_complete'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION le_complete(pg_catalog.text, pg_catalog.text, pg_catalog.timestamptz) IS
'mark a tick that this session has claimed as done; false: it is not running any more';

CREATE PROCEDURE le_run(
	election pg_catalog.text,
	command pg_catalog.text,
	job pg_catalog.text DEFAULT NULL,
	every pg_catalog.interval DEFAULT NULL,
	tick pg_catalog.timestamptz DEFAULT NULL,
	wait pg_catalog.interval DEFAULT '0',
	catch_up pg_catalog.bool DEFAULT false,
	on_loss pg_catalog.text DEFAULT 'cancel')
AS 'MODULE_PATHNAME', 'le_run'
LANGUAGE C;

COMMENT ON PROCEDURE le_run(pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.interval, pg_catalog.timestamptz, pg_catalog.interval, pg_catalog.bool, pg_catalog.text) IS
'run a command on the leader, once per tick, bound to the leader''s term';

CREATE FUNCTION le_tick()
RETURNS pg_catalog.timestamptz
AS 'MODULE_PATHNAME', 'le_tick'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION le_tick() IS
'the tick that le_run() is running in this session, else null';

CREATE FUNCTION le_claims(
	OUT election pg_catalog.text,
	OUT job pg_catalog.text,
	OUT tick pg_catalog.timestamptz,
	OUT try pg_catalog.int4,
	OUT state pg_catalog.text,
	OUT node pg_catalog.text,
	OUT fencing_token pg_catalog.int8,
	OUT claimed_at pg_catalog.timestamptz,
	OUT ended_at pg_catalog.timestamptz,
	OUT claim pg_catalog.text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'le_claims'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION le_claims() IS
'the last tick claimed of each job, from the store';

CREATE VIEW le_claims AS
	SELECT * FROM le_claims();

COMMENT ON VIEW le_claims IS
'the last tick claimed of each job, from the store';

--
-- Privileges: what changes state or causes network traffic is for those who
-- are granted it; status is for monitoring.
--
REVOKE ALL ON FUNCTION
	le_acquire(pg_catalog.text, pg_catalog.text, pg_catalog.interval, pg_catalog.text, pg_catalog.text),
	le_renew(pg_catalog.text, pg_catalog.text),
	le_release(pg_catalog.text),
	le_campaign(pg_catalog.text, pg_catalog.text),
	le_withdraw(pg_catalog.text),
	le_step_down(pg_catalog.text, pg_catalog.interval),
	le_reset_token(pg_catalog.text),
	le_require_leader(pg_catalog.text, pg_catalog.interval, pg_catalog.text),
	le_fence_guard(pg_catalog.regclass, pg_catalog.text),
	le_current_leader(pg_catalog.text, pg_catalog.interval),
	le_leader(pg_catalog.text, pg_catalog.interval),
	le_claim(pg_catalog.text, pg_catalog.text, pg_catalog.timestamptz),
	le_complete(pg_catalog.text, pg_catalog.text, pg_catalog.timestamptz),
	le_claims(),
	le_status(),
	le_nodes(),
	le_events(),
	le_stat(),
	le_stat_reset(),
	le_check_config()
FROM PUBLIC;

REVOKE ALL ON PROCEDURE
	le_run(pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.interval, pg_catalog.timestamptz, pg_catalog.interval, pg_catalog.bool, pg_catalog.text)
FROM PUBLIC;

REVOKE ALL ON le_status, le_nodes, le_events, le_stat, le_claims FROM PUBLIC;
GRANT EXECUTE ON FUNCTION le_status(), le_nodes(), le_events(), le_stat(),
	le_claims() TO pg_monitor;
GRANT SELECT ON le_status, le_nodes, le_events, le_stat, le_claims
	TO pg_monitor;
