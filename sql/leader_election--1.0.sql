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
	on_loss pg_catalog.text DEFAULT NULL,
	progress_within pg_catalog.interval DEFAULT NULL)
RETURNS pg_catalog.bool
AS 'MODULE_PATHNAME', 'le_acquire'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION le_acquire(pg_catalog.text, pg_catalog.text, pg_catalog.interval, pg_catalog.text, pg_catalog.text, pg_catalog.interval) IS
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
	value pg_catalog.text DEFAULT NULL,
	progress_within pg_catalog.interval DEFAULT NULL)
RETURNS pg_catalog.void
AS 'MODULE_PATHNAME', 'le_campaign'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION le_campaign(pg_catalog.text, pg_catalog.text, pg_catalog.interval) IS
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

CREATE FUNCTION le_accept_store(election pg_catalog.text DEFAULT NULL)
RETURNS pg_catalog.void
AS 'MODULE_PATHNAME', 'le_accept_store'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION le_accept_store(pg_catalog.text) IS
'accept what the store says now of an election, or of all: lower fencing tokens and older records of jobs than were seen, after it was rebuilt or restored';

--
-- Asking
--
CREATE FUNCTION le_is_leader(election pg_catalog.text)
RETURNS pg_catalog.bool
AS 'MODULE_PATHNAME', 'le_is_leader'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION le_is_leader(pg_catalog.text) IS
'may the caller act as leader at this moment? reads shared memory only';

CREATE FUNCTION le_seeks(election pg_catalog.text)
RETURNS pg_catalog.bool
AS 'MODULE_PATHNAME', 'le_seeks'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION le_seeks(pg_catalog.text) IS
'does this instance hold or seek the election? reads shared memory only';

CREATE FUNCTION le_progress(election pg_catalog.text)
RETURNS pg_catalog.bool
AS 'MODULE_PATHNAME', 'le_progress'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION le_progress(pg_catalog.text) IS
'le_is_leader(), and tell that the caller does its work, which keeps the term where progress_within is set';

CREATE FUNCTION le_fencing_token(election pg_catalog.text)
RETURNS pg_catalog.int8
AS 'MODULE_PATHNAME', 'le_fencing_token'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION le_fencing_token(pg_catalog.text) IS
'the fencing token of the caller''s term, null if it does not lead';

CREATE FUNCTION le_remaining(election pg_catalog.text)
RETURNS pg_catalog.interval
AS 'MODULE_PATHNAME', 'le_remaining'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION le_remaining(pg_catalog.text) IS
'for how long the caller''s term is good from now on if nothing renews it, null if it does not lead';

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
'the node that holds an election, and its published value';

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
	OUT holder pg_catalog.text,
	OUT fencing_token pg_catalog.int8,
	OUT expires_at pg_catalog.timestamptz,
	OUT pid pg_catalog.int4,
	OUT term_started_at pg_catalog.timestamptz,
	OUT last_renewed_at pg_catalog.timestamptz,
	OUT progress_at pg_catalog.timestamptz,
	OUT progress_due pg_catalog.timestamptz,
	OUT last_change_at pg_catalog.timestamptz,
	OUT last_loss pg_catalog.text,
	OUT store pg_catalog.text,
	OUT last_error_at pg_catalog.timestamptz,
	OUT last_error pg_catalog.text,
	OUT value pg_catalog.text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'le_status'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION le_status() IS
'the elections that this instance holds, seeks or has seen';

CREATE VIEW le_status AS
	SELECT * FROM le_status();

COMMENT ON VIEW le_status IS
'the elections that this instance holds, seeks or has seen';

COMMENT ON COLUMN le_status.election IS
'its name';
COMMENT ON COLUMN le_status.state IS
'role of this instance in it: leader, waiting, candidate, idle ...';
COMMENT ON COLUMN le_status.scope IS
'owner of the term on this instance: node, session or transaction';
COMMENT ON COLUMN le_status.holder IS
'the leader, as lately seen; null: none, or not known';
COMMENT ON COLUMN le_status.fencing_token IS
'fencing token of this instance''s term';
COMMENT ON COLUMN le_status.expires_at IS
'the deadline of this instance''s term, on the wall clock';
COMMENT ON COLUMN le_status.pid IS
'process id of the session that leads, in scope session or transaction';
COMMENT ON COLUMN le_status.term_started_at IS
'when this instance''s term began';
COMMENT ON COLUMN le_status.last_renewed_at IS
'when the store last confirmed this instance''s term';
COMMENT ON COLUMN le_status.progress_at IS
'when this instance last did something in its term, or began it';
COMMENT ON COLUMN le_status.progress_due IS
'it gives the term up then, unless there is progress; null: never for that';
COMMENT ON COLUMN le_status.last_change_at IS
'when the last term of this instance began or ended';
COMMENT ON COLUMN le_status.last_loss IS
'why the last term of this instance ended';
COMMENT ON COLUMN le_status.store IS
'the store that decides who leads';
COMMENT ON COLUMN le_status.last_error_at IS
'when last_error happened';
COMMENT ON COLUMN le_status.last_error IS
'trouble with the election, or between this instance and the store; null: none any more';
COMMENT ON COLUMN le_status.value IS
'the value that this instance publishes as the leader';

CREATE FUNCTION le_nodes(
	OUT node pg_catalog.text,
	OUT is_self pg_catalog.bool,
	OUT state pg_catalog.text,
	OUT lease pg_catalog.interval,
	OUT last_proof_seen_at pg_catalog.timestamptz,
	OUT incarnation pg_catalog.text,
	OUT store_session pg_catalog.text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'le_nodes'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION le_nodes() IS
'the nodes that take part, as this instance last saw them in the store';

CREATE VIEW le_nodes AS
	SELECT * FROM le_nodes();

COMMENT ON VIEW le_nodes IS
'the nodes that take part, as this instance last saw them in the store';

COMMENT ON COLUMN le_nodes.node IS
'its name';
COMMENT ON COLUMN le_nodes.is_self IS
'is it this instance?';
COMMENT ON COLUMN le_nodes.state IS
'live: it may lead; ineligible, standby, readonly, stopping, clone, refused: it cannot; silent; ended, revoked: gone';
COMMENT ON COLUMN le_nodes.lease IS
'how long its leases last without renewal';
COMMENT ON COLUMN le_nodes.last_proof_seen_at IS
'when it was last seen to be alive';
COMMENT ON COLUMN le_nodes.incarnation IS
'a random id, another after each start';
COMMENT ON COLUMN le_nodes.store_session IS
'its session at the store';

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
'the last events on this instance, the newest last';

CREATE VIEW le_events AS
	SELECT * FROM le_events();

COMMENT ON VIEW le_events IS
'the last events on this instance, the newest last';

COMMENT ON COLUMN le_events.number IS
'counts from 1; one that is missing was written over or dropped';
COMMENT ON COLUMN le_events.at IS
'when it happened';
COMMENT ON COLUMN le_events.event IS
'kind of the event';
COMMENT ON COLUMN le_events.election IS
'election of the event; null: none';
COMMENT ON COLUMN le_events.node IS
'node of the event';
COMMENT ON COLUMN le_events.fencing_token IS
'fencing token of the event''s term';
COMMENT ON COLUMN le_events.pid IS
'id of the process that recorded it';
COMMENT ON COLUMN le_events.detail IS
'more, for people';

CREATE FUNCTION le_stat(
	OUT election pg_catalog.text,
	OUT terms pg_catalog.int8,
	OUT releases pg_catalog.int8,
	OUT losses pg_catalog.int8,
	OUT gate_passed pg_catalog.int8,
	OUT gate_refused pg_catalog.int8,
	OUT fence_aborts pg_catalog.int8,
	OUT cancels pg_catalog.int8,
	OUT claims pg_catalog.int8,
	OUT runs pg_catalog.int8,
	OUT skips pg_catalog.int8,
	OUT failed pg_catalog.int8,
	OUT missed pg_catalog.int8,
	OUT run_time pg_catalog.float8,
	OUT renewals pg_catalog.int8,
	OUT failures pg_catalog.int8,
	OUT unknown pg_catalog.int8,
	OUT waits pg_catalog.int8,
	OUT round_trips pg_catalog.int8,
	OUT total_time pg_catalog.float8,
	OUT last_time pg_catalog.float8,
	OUT min_time pg_catalog.float8,
	OUT avg_time pg_catalog.float8,
	OUT max_time pg_catalog.float8,
	OUT longest_turn pg_catalog.float8,
	OUT last_answer_at pg_catalog.timestamptz,
	OUT stats_reset pg_catalog.timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'le_stat'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION le_stat() IS
'counters of each election on this instance; election null: counts that concern none';

-- In four parts, none of them wider than a screen.
CREATE VIEW le_stat AS
	SELECT election, terms, releases, losses, gate_passed, gate_refused,
		fence_aborts, cancels
	FROM le_stat();

COMMENT ON VIEW le_stat IS
'terms of each election on this instance, and what was bound to them, counted; election null: counts that concern none';
COMMENT ON COLUMN le_stat.election IS 'null: counts that concern no election in particular';
COMMENT ON COLUMN le_stat.terms IS 'terms that began here';
COMMENT ON COLUMN le_stat.releases IS 'terms that this instance ended';
COMMENT ON COLUMN le_stat.losses IS 'terms that ended otherwise';
COMMENT ON COLUMN le_stat.gate_passed IS 'calls of le_require_leader() that passed';
COMMENT ON COLUMN le_stat.gate_refused IS 'calls of le_require_leader() that were refused';
COMMENT ON COLUMN le_stat.fence_aborts IS 'transactions refused because their term was over';
COMMENT ON COLUMN le_stat.cancels IS 'sessions stopped before the end of the lease';

CREATE VIEW le_stat_jobs AS
	SELECT election, claims, runs, skips, failed, missed, run_time
	FROM le_stat();

COMMENT ON VIEW le_stat_jobs IS
'jobs of each election on this instance, counted; election null: counts that concern none';
COMMENT ON COLUMN le_stat_jobs.election IS 'null: counts that concern no election in particular';
COMMENT ON COLUMN le_stat_jobs.claims IS 'ticks claimed';
COMMENT ON COLUMN le_stat_jobs.runs IS 'commands run by le_run()';
COMMENT ON COLUMN le_stat_jobs.skips IS 'calls of le_run() that had nothing to do here';
COMMENT ON COLUMN le_stat_jobs.failed IS 'runs that ended in an error, and ticks claimed by hand that ended as failed';
COMMENT ON COLUMN le_stat_jobs.missed IS 'ticks that no leader has ever claimed';
COMMENT ON COLUMN le_stat_jobs.run_time IS 'time of all runs together, in milliseconds';

CREATE VIEW le_stat_store AS
	SELECT election, renewals, failures, unknown, round_trips, total_time,
		last_time, min_time, avg_time, max_time
	FROM le_stat();

COMMENT ON VIEW le_stat_store IS
'requests to the store about each election, counted; election null: about none';
COMMENT ON COLUMN le_stat_store.election IS 'null: counts that concern no election in particular';
COMMENT ON COLUMN le_stat_store.renewals IS 'confirmations of the store by which a term was kept';
COMMENT ON COLUMN le_stat_store.failures IS 'requests that certainly changed nothing';
COMMENT ON COLUMN le_stat_store.unknown IS 'requests with an unknown outcome';
COMMENT ON COLUMN le_stat_store.round_trips IS 'answers of the store';
COMMENT ON COLUMN le_stat_store.total_time IS 'time of all these together, in milliseconds';
COMMENT ON COLUMN le_stat_store.last_time IS 'time of the last one, in milliseconds';
COMMENT ON COLUMN le_stat_store.min_time IS 'time of the fastest, in milliseconds';
COMMENT ON COLUMN le_stat_store.avg_time IS 'mean time, in milliseconds';
COMMENT ON COLUMN le_stat_store.max_time IS 'time of the slowest, in milliseconds';

CREATE VIEW le_stat_info AS
	SELECT pg_catalog.max(last_answer_at) AS last_answer_at,
		pg_catalog.sum(waits)::pg_catalog.int8 AS waits,
		pg_catalog.max(longest_turn) AS longest_turn,
		pg_catalog.max(stats_reset) AS stats_reset
	FROM le_stat();

COMMENT ON VIEW le_stat_info IS
'one row about the counters of this instance';
COMMENT ON COLUMN le_stat_info.last_answer_at IS 'when the store last answered';
COMMENT ON COLUMN le_stat_info.waits IS 'requests that waited until others were answered';
COMMENT ON COLUMN le_stat_info.longest_turn IS 'for how long the worker was busy at a time, at most, in milliseconds';
COMMENT ON COLUMN le_stat_info.stats_reset IS 'when the counting began';

CREATE FUNCTION le_stat_reset()
RETURNS pg_catalog.void
AS 'MODULE_PATHNAME', 'le_stat_reset'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION le_stat_reset() IS
'set all counters of le_stat, le_stat_jobs and le_stat_store to zero';

CREATE FUNCTION le_check_config(
	OUT level pg_catalog.text,
	OUT topic pg_catalog.text,
	OUT message pg_catalog.text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'le_check_config'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION le_check_config() IS
'the effect of this instance''s settings, and the state of worker, store and clock';

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

CREATE FUNCTION le_claim_tick(
	election pg_catalog.text,
	job pg_catalog.text,
	tick pg_catalog.timestamptz,
	catch_up pg_catalog.bool DEFAULT false,
	every pg_catalog.interval DEFAULT NULL,
	missed pg_catalog.text DEFAULT 'skip',
	max_missed pg_catalog.int4 DEFAULT 100,
	wait pg_catalog.interval DEFAULT '0')
RETURNS pg_catalog.timestamptz
AS 'MODULE_PATHNAME', 'le_claim_tick'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION le_claim_tick(pg_catalog.text, pg_catalog.text, pg_catalog.timestamptz, pg_catalog.bool, pg_catalog.interval, pg_catalog.text, pg_catalog.int4, pg_catalog.interval) IS
'take a tick of a job, or first one that was left undone or missed, as catch_up and missed say: the tick taken, null if none was; wait: how long callers wait for their turn, for le_jobs';

CREATE FUNCTION le_fail(
	election pg_catalog.text,
	job pg_catalog.text,
	tick pg_catalog.timestamptz)
RETURNS pg_catalog.bool
AS 'MODULE_PATHNAME', 'le_fail_tick'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION le_fail(pg_catalog.text, pg_catalog.text, pg_catalog.timestamptz) IS
'mark a tick that this session has claimed as failed, for good; false: it is not running any more';

CREATE FUNCTION le_forget_job(
	election pg_catalog.text,
	job pg_catalog.text)
RETURNS pg_catalog.bool
AS 'MODULE_PATHNAME', 'le_forget_job'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION le_forget_job(pg_catalog.text, pg_catalog.text) IS
'begin the record of a job anew, on the leader: ticks up to now count as taken, later ones can be claimed';

CREATE PROCEDURE le_run(
	election pg_catalog.text,
	command pg_catalog.text,
	job pg_catalog.text DEFAULT NULL,
	every pg_catalog.interval DEFAULT NULL,
	tick pg_catalog.timestamptz DEFAULT NULL,
	wait pg_catalog.interval DEFAULT '0',
	catch_up pg_catalog.bool DEFAULT false,
	on_loss pg_catalog.text DEFAULT 'cancel',
	missed pg_catalog.text DEFAULT 'skip',
	max_missed pg_catalog.int4 DEFAULT 100,
	timeout pg_catalog.interval DEFAULT '0')
AS 'MODULE_PATHNAME', 'le_run'
LANGUAGE C;

COMMENT ON PROCEDURE le_run(pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.interval, pg_catalog.timestamptz, pg_catalog.interval, pg_catalog.bool, pg_catalog.text, pg_catalog.text, pg_catalog.int4, pg_catalog.interval) IS
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
	OUT state pg_catalog.text,
	OUT tick pg_catalog.timestamptz,
	OUT try pg_catalog.int4,
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

COMMENT ON COLUMN le_claims.election IS
'election whose leader claimed the tick';
COMMENT ON COLUMN le_claims.job IS
'job of the tick';
COMMENT ON COLUMN le_claims.state IS
'running, done or failed';
COMMENT ON COLUMN le_claims.tick IS
'the planned time';
COMMENT ON COLUMN le_claims.try IS
'1, or more after a leader was lost in the middle';
COMMENT ON COLUMN le_claims.node IS
'node that claimed it';
COMMENT ON COLUMN le_claims.fencing_token IS
'fencing token of the term that claimed it';
COMMENT ON COLUMN le_claims.claimed_at IS
'when, by the clock of the claimant';
COMMENT ON COLUMN le_claims.ended_at IS
'when it was done or failed, by the clock of the claimant';
COMMENT ON COLUMN le_claims.claim IS
'a random id';

CREATE FUNCTION le_jobs(
	IN max_staleness pg_catalog.interval DEFAULT '0',
	OUT election pg_catalog.text,
	OUT job pg_catalog.text,
	OUT state pg_catalog.text,
	OUT observed_at pg_catalog.timestamptz,
	OUT late pg_catalog.bool,
	OUT ahead pg_catalog.bool,
	OUT failures pg_catalog.int4,
	OUT tick pg_catalog.timestamptz,
	OUT try pg_catalog.int4,
	OUT node pg_catalog.text,
	OUT duration pg_catalog.interval,
	OUT error pg_catalog.text,
	OUT started_at pg_catalog.timestamptz,
	OUT ended_at pg_catalog.timestamptz,
	OUT last_success pg_catalog.timestamptz,
	OUT every pg_catalog.interval,
	OUT next_expected pg_catalog.timestamptz,
	OUT fencing_token pg_catalog.int8)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'le_jobs'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION le_jobs(pg_catalog.interval) IS
'the last tick of each job, from the store, or as seen no longer ago than max_staleness; null: as last seen, without asking';

CREATE VIEW le_jobs AS
	SELECT * FROM le_jobs(interval '5 s');

COMMENT ON VIEW le_jobs IS
'the last tick of each job, the same on every instance, no more than 5 s old; with the store cassandra only jobs of the elections that the instance has in le_status';

COMMENT ON COLUMN le_jobs.election IS
'election whose leader runs the job';
COMMENT ON COLUMN le_jobs.job IS
'its name';
COMMENT ON COLUMN le_jobs.state IS
'state of its last tick: running, done, failed, abandoned: it ran when its session or its leader''s term ended, or lost: the store has lost its record';
COMMENT ON COLUMN le_jobs.late IS
'the next tick was not claimed by next_expected, nor within the wait of le_run() after it; null: it is not known when';
COMMENT ON COLUMN le_jobs.ahead IS
'the tick, or its claim, lies ahead of this instance''s clock: one of the clocks is or was wrong, and the job rests until the tick has passed';
COMMENT ON COLUMN le_jobs.failures IS
'ticks in a row, up to the last, that were not done';
COMMENT ON COLUMN le_jobs.tick IS
'the planned time';
COMMENT ON COLUMN le_jobs.try IS
'1, or more after a leader was lost in the middle';
COMMENT ON COLUMN le_jobs.node IS
'node that claimed it';
COMMENT ON COLUMN le_jobs.duration IS
'duration of the run, so far';
COMMENT ON COLUMN le_jobs.error IS
'why it failed: SQLSTATE, and the message where leader_election.log_error is on';
COMMENT ON COLUMN le_jobs.started_at IS
'when it was claimed, by the clock of the claimant';
COMMENT ON COLUMN le_jobs.ended_at IS
'when it was done or failed, by the clock of the claimant';
COMMENT ON COLUMN le_jobs.last_success IS
'when a tick was last done, by the clock of its claimant';
COMMENT ON COLUMN le_jobs.every IS
'the interval that le_run() was given';
COMMENT ON COLUMN le_jobs.next_expected IS
'when the next tick should be claimed: as long after its time as this one was, at most one interval';
COMMENT ON COLUMN le_jobs.fencing_token IS
'fencing token of the term that claimed it';
COMMENT ON COLUMN le_jobs.observed_at IS
'when the worker began to read the records of jobs';

CREATE FUNCTION le_history(
	IN election pg_catalog.text DEFAULT NULL,
	IN job pg_catalog.text DEFAULT NULL,
	IN max_rows pg_catalog.int4 DEFAULT 20,
	OUT election pg_catalog.text,
	OUT job pg_catalog.text,
	OUT tick pg_catalog.timestamptz,
	OUT state pg_catalog.text,
	OUT try pg_catalog.int4,
	OUT node pg_catalog.text,
	OUT duration pg_catalog.interval,
	OUT error pg_catalog.text,
	OUT started_at pg_catalog.timestamptz,
	OUT ended_at pg_catalog.timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'le_history'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION le_history(pg_catalog.text, pg_catalog.text, pg_catalog.int4) IS
'the last runs that this instance has seen, the newest first';

--
-- Jobs of pg_cron
--
CREATE FUNCTION le_run_call(
	election pg_catalog.text,
	command pg_catalog.text,
	job pg_catalog.text DEFAULT NULL,
	every pg_catalog.interval DEFAULT NULL,
	wait pg_catalog.interval DEFAULT '0',
	catch_up pg_catalog.bool DEFAULT false,
	on_loss pg_catalog.text DEFAULT 'cancel',
	missed pg_catalog.text DEFAULT 'skip',
	max_missed pg_catalog.int4 DEFAULT 100,
	timeout pg_catalog.interval DEFAULT '0')
RETURNS pg_catalog.text
AS 'MODULE_PATHNAME', 'le_run_call'
LANGUAGE C STABLE PARALLEL RESTRICTED;

COMMENT ON FUNCTION le_run_call(pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.interval, pg_catalog.interval, pg_catalog.bool, pg_catalog.text, pg_catalog.text, pg_catalog.int4, pg_catalog.interval) IS
'a CALL of le_run() with these arguments, which are checked, as text';

CREATE FUNCTION le_run_command(
	IN call pg_catalog.text,
	OUT election pg_catalog.text,
	OUT job pg_catalog.text,
	OUT command pg_catalog.text)
AS 'MODULE_PATHNAME', 'le_run_command'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION le_run_command(pg_catalog.text) IS
'election, job and command of a CALL of le_run(), without evaluating it; null: it is none';

CREATE FUNCTION le_cron_timezone()
RETURNS pg_catalog.text
AS 'MODULE_PATHNAME', 'le_cron_timezone'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION le_cron_timezone() IS
'the time zone of the schedules of pg_cron';

CREATE FUNCTION le_cron_server(
	nodename pg_catalog.text,
	nodeport pg_catalog.int4)
RETURNS pg_catalog.text
AS 'MODULE_PATHNAME', 'le_cron_server'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION le_cron_server(pg_catalog.text, pg_catalog.int4) IS
'the server on which pg_cron runs a job with these columns, null if it is this one';

-- The functions below find each other in the schema of the extension, "ours",
-- and no objects of others on the caller's search_path or in that schema: each
-- call names its schema, and has arguments of known types.

-- every: the longest by which no two runs have the same tick.  each: all ticks have
-- a run, each as long after it as the others; otherwise nobody knows when one is due.
CREATE FUNCTION le_cron_ticks(
	IN schedule pg_catalog.text,
	OUT every pg_catalog.interval,
	OUT each pg_catalog.bool)
LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	-- minutes, hours, days of the month, months, days of the week
	low CONSTANT int[] := '{0, 0, 1, 1, 0}';
	high CONSTANT int[] := '{59, 23, 31, 12, 7}';
	names CONSTANT text[] := ARRAY['', '', '',
		'jan feb mar apr may jun jul aug sep oct nov dec',
		'sun mon tue wed thu fri sat'];
	line text := btrim(schedule, E' \t\n');
	fields text[];
	item text;
	parts text[];
	ends int[];
	step int;
	due bigint[] := '{0, 0, 0, 0, 0}';	-- a bit per value
	last_day bool;
	agree bool;
	ours text;
	zone text;
	gap int;		-- the minutes between two runs, in local time
	longest int;
	apart int;		-- the days between two days with runs
	once bool;		-- one run on each
	slip int;		-- the days of UTC by which summer time moves them
	shift int;		-- the minutes by which it does
BEGIN
	each := false;
	IF line ~* '^[0-9]{1,2}\s*seconds?$' THEN
		step := substring(line, '^[0-9]+');
		IF step BETWEEN 1 AND 59 THEN
			every := make_interval(secs => step);
			RETURN;
		END IF;
	END IF;

	<<cron_line>>
	BEGIN
		line := CASE line
			WHEN '@hourly' THEN '0 * * * *'
			WHEN '@daily' THEN '0 0 * * *'
			WHEN '@midnight' THEN '0 0 * * *'
			WHEN '@weekly' THEN '0 0 * * 0'
			WHEN '@monthly' THEN '0 0 1 * *'
			ELSE line END;
		fields := regexp_split_to_array(lower(line), '[ \t]+');
		EXIT cron_line WHEN cardinality(fields) <> 5;
		last_day := fields[3] = '$';
		-- with a star, both fields of days must match; else one is enough
		agree := fields[3] LIKE '*%' OR fields[5] LIKE '*%';

		FOR i IN 1..5 LOOP
			CONTINUE WHEN i = 3 AND last_day;
			FOREACH item IN ARRAY string_to_array(fields[i], ',') LOOP
				parts := regexp_match(item,
					'^(?:(\*)|([0-9]{1,2}|[a-z]{3})(?:-([0-9]{1,2}|[a-z]{3}))?)(?:/([0-9]{1,2}))?$');
				-- no step without a range
				EXIT cron_line WHEN parts IS NULL OR
					parts[4] IS NOT NULL AND coalesce(parts[1], parts[3]) IS NULL;
				step := coalesce(parts[4], '1');
				parts := CASE WHEN parts[1] IS NULL
					THEN ARRAY[parts[2], coalesce(parts[3], parts[2])]
					ELSE ARRAY[low[i], high[i]]::text[] END;
				ends := ARRAY(
					SELECT CASE WHEN part ~ '^[0-9]' THEN part::int
						ELSE array_position(string_to_array(names[i], ' '),
							part) - 1 + low[i] END
					FROM unnest(parts) WITH ORDINALITY AS p (part, n)
					ORDER BY n);
				EXIT cron_line WHEN
					(step > 0 AND low[i] <= ends[1] AND ends[1] <= ends[2] AND
						ends[2] <= high[i]) IS NOT TRUE;
				due[i] := due[i] | (SELECT bit_or(1::bigint << v)
					FROM generate_series(ends[1], ends[2], step) v);
			END LOOP;
		END LOOP;

		SELECT extnamespace::regnamespace INTO STRICT ours
		FROM pg_extension WHERE extname = 'leader_election';
		EXECUTE format('SELECT %s.le_cron_timezone()', ours) INTO zone;
		-- days of the month and of the week come round in 28 years
		WITH times AS (
			SELECT h * 60 + m AS t
			FROM generate_series(0, 23) h, generate_series(0, 59) m
			WHERE due[2] >> h & 1 = 1 AND due[1] >> m & 1 = 1),
		days AS (
			SELECT n, date '2000-01-01' + n AS day
			FROM generate_series(0, 29 * 365) n),
		due_days AS (
			SELECT n FROM (
				SELECT n, extract(month FROM day)::int AS month,
					due[3] >> extract(day FROM day)::int & 1 = 1 OR
					last_day AND extract(day FROM day + 1) = 1 AS by_month,
					due[5] >> extract(dow FROM day)::int & 1 = 1 OR
					due[5] >> extract(isodow FROM day)::int & 1 = 1 AS by_week
				FROM days) d
			WHERE due[4] >> month & 1 = 1 AND
				CASE WHEN agree THEN by_month AND by_week
				ELSE by_month OR by_week END),
		gaps AS (
			SELECT t - lag(t) OVER (ORDER BY t) AS minutes, NULL::int AS days
			FROM times
			UNION ALL
			SELECT (n - lag(n) OVER (ORDER BY n)) * 1440 +
				(SELECT min(t) - max(t) FROM times),
				n - lag(n) OVER (ORDER BY n)
			FROM due_days)
		SELECT min(minutes), max(minutes), min(days), (SELECT count(*) = 1 FROM times)
			INTO gap, longest, apart, once
			FROM gaps;
		EXIT cron_line WHEN apart IS NULL;

		-- Ticks are those of UTC.  Which runs share one shows in the days around
		-- now, and around each change to or from summer time within a year, on
		-- whichever day it will be.  A time that comes twice then is one run.
		WITH hours AS (
			SELECT t, (t AT TIME ZONE zone) - (t AT TIME ZONE 'UTC') AS ahead
			FROM generate_series(date_trunc('hour', now()),
				now() + interval '1 year', interval '1 hour') t),
		changes AS (
			SELECT t, ahead FROM (
				SELECT t, ahead, lag(ahead) OVER (ORDER BY t) AS before
				FROM hours) h
			WHERE ahead IS DISTINCT FROM before),
		runs AS (
			SELECT c.t AS around, due_at::date - date '1970-01-01' AS day,
				min(extract(epoch FROM i)::int / 60) AS at
			FROM changes c,
				generate_series(c.t - interval '2 days',
					c.t + interval '2 days', interval '1 minute') i,
				timezone(zone, i) due_at
			WHERE due[2] >> extract(hour FROM due_at)::int & 1 = 1
			  AND due[1] >> extract(minute FROM due_at)::int & 1 = 1
			GROUP BY c.t, due_at),
		pairs AS (
			SELECT at, lag(at) OVER (PARTITION BY around,
				CASE WHEN apart > 1 THEN day END ORDER BY at) AS last
			FROM runs)
		SELECT (SELECT max(n) FROM generate_series(1, 1440) n
				WHERE 1440 % n = 0 AND
					NOT EXISTS (SELECT FROM pairs WHERE at / n = last / n)),
			(SELECT max(at / 1440 - day) - min(at / 1440 - day) FROM runs),
			(SELECT extract(epoch FROM max(ahead) - min(ahead))::int / 60
				FROM changes)
			INTO step, slip, shift;

		-- A divisor of a day, so that ticks are at the same times each day, or as many
		-- days as there are between two runs.
		IF step = 1440 AND once THEN
			step := least(greatest(apart - slip, 1), 366) * 1440;
		END IF;
		every := make_interval(days => step / 1440, mins => step % 1440);
		each := gap = longest AND gap = step AND shift % gap = 0;
		RETURN;
	END;
	RAISE EXCEPTION 'cannot derive "every" from schedule "%"', schedule
		USING ERRCODE = 'invalid_parameter_value',
		HINT = 'Give the argument "every": the tick of a run is the last multiple of it, and runs of the same tick count as one.';
END $$;

COMMENT ON FUNCTION le_cron_ticks(pg_catalog.text) IS
'the longest interval by which no two runs of a schedule of pg_cron have the same tick, and whether each tick has a run, as long after it as the others';

CREATE FUNCTION le_cron_every(schedule pg_catalog.text)
RETURNS pg_catalog.interval
LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	ours text;
	every interval;
BEGIN
	SELECT extnamespace::regnamespace INTO STRICT ours
	FROM pg_extension WHERE extname = 'leader_election';
	EXECUTE format('SELECT every FROM %s.le_cron_ticks($1)', ours)
		INTO every USING schedule;
	RETURN every;
END $$;

COMMENT ON FUNCTION le_cron_every(pg_catalog.text) IS
'the longest interval by which no two runs of a schedule of pg_cron have the same tick';

-- The schema "cron" is pg_cron's only if pg_cron owns its table.
CREATE FUNCTION le_cron_check()
RETURNS pg_catalog.void
LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	cron_database text;
BEGIN
	BEGIN
		cron_database := nullif(current_setting('cron.database_name', true), '');
	EXCEPTION WHEN insufficient_privilege THEN
		NULL;	-- the check for the extension is enough
	END;
	IF cron_database <> current_database() THEN
		RAISE EXCEPTION 'pg_cron is not in this database'
			USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = format('Its jobs are in database "%s".', cron_database),
			HINT = 'Connect to that one, and create the extension leader_election there.';
	END IF;
	IF NOT EXISTS (
		SELECT FROM pg_extension e
		JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass
			AND d.refobjid = e.oid AND d.deptype = 'e'
		WHERE e.extname = 'pg_cron' AND d.classid = 'pg_class'::regclass
		  AND d.objid = to_regclass('cron.job'))
	THEN
		RAISE EXCEPTION 'extension "pg_cron" is not installed'
			USING ERRCODE = 'object_not_in_prerequisite_state',
			HINT = 'Add pg_cron to "shared_preload_libraries", restart the server, and run CREATE EXTENSION pg_cron.';
	END IF;
END $$;

COMMENT ON FUNCTION le_cron_check() IS
'raise an error unless pg_cron has its jobs in this database';

CREATE FUNCTION le_cron_taken(
	job pg_catalog.text,
	election pg_catalog.text,
	username pg_catalog.text)
RETURNS pg_catalog.bool
AS 'MODULE_PATHNAME', 'le_cron_taken'
LANGUAGE C STABLE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION le_cron_taken(pg_catalog.text, pg_catalog.text, pg_catalog.text) IS
'does a job of pg_cron that another role has call le_run() by that name in that election?';

CREATE FUNCTION le_cron_jobs(
	OUT jobid pg_catalog.int8,
	OUT job pg_catalog.text,
	OUT schedule pg_catalog.text,
	OUT command pg_catalog.text,
	OUT database pg_catalog.text,
	OUT username pg_catalog.text,
	OUT server pg_catalog.text,
	OUT election pg_catalog.text,
	OUT runs pg_catalog.text)
RETURNS SETOF record
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	ours text;
	said record;
	jobname text;
BEGIN
	SELECT extnamespace::regnamespace INTO STRICT ours
	FROM pg_extension WHERE extname = 'leader_election';
	EXECUTE format('SELECT %s.le_cron_check()', ours);

	FOR jobid, jobname, schedule, command, database, username, server IN
		EXECUTE format('SELECT j.jobid, j.jobname, j.schedule, j.command,
				j.database, j.username,
				%s.le_cron_server(j.nodename, j.nodeport)
			FROM cron.job j ORDER BY j.jobid', ours)
	LOOP
		BEGIN
			EXECUTE format('SELECT * FROM %s.le_run_command($1)', ours)
				INTO said USING command;
			election := said.election;
			runs := said.command;
			job := said.job;
		EXCEPTION WHEN OTHERS THEN	-- it cannot be parsed
			election := NULL;
			runs := NULL;
			job := NULL;
		END;
		-- The same on each instance, although jobids may differ.
		job := coalesce(jobname, job, 'cron-' ||
			left(md5(schedule || E'\n' || command), 16));
		RETURN NEXT;
	END LOOP;
END $$;

COMMENT ON FUNCTION le_cron_jobs() IS
'the jobs of pg_cron that the caller may see, and what those run that call le_run()';

CREATE FUNCTION le_cron_schedule(
	OUT jobid pg_catalog.int8,
	IN job pg_catalog.text,
	IN schedule pg_catalog.text,
	INOUT command pg_catalog.text,
	IN election pg_catalog.text,
	INOUT every pg_catalog.interval DEFAULT NULL,
	IN wait pg_catalog.interval DEFAULT '0',
	IN catch_up pg_catalog.bool DEFAULT false,
	IN on_loss pg_catalog.text DEFAULT 'cancel',
	IN missed pg_catalog.text DEFAULT NULL,
	IN max_missed pg_catalog.int4 DEFAULT 100,
	IN timeout pg_catalog.interval DEFAULT '0')
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	ours text;
	taken bool;
	ticks record;
	seeks bool;
	server text;
BEGIN
	SELECT extnamespace::regnamespace INTO STRICT ours
	FROM pg_extension WHERE extname = 'leader_election';

	EXECUTE format('SELECT %s.le_cron_check()', ours);
	EXECUTE format('SELECT %s.le_cron_taken($1, $2, $3)', ours)
		INTO taken USING job, election, current_user::text;
	IF taken THEN
		RAISE EXCEPTION 'job "%" of election "%" exists', job, election
			USING ERRCODE = 'duplicate_object',
			DETAIL = 'It is of another role; both would have the same ticks, and one of the two would run at each.',
			HINT = 'Choose another name.';
	END IF;
	IF schedule IS NULL THEN
		RAISE EXCEPTION 'argument "schedule" must not be null'
			USING ERRCODE = 'null_value_not_allowed';
	END IF;
	IF NOT has_function_privilege(format('%s.le_run(text, text, text, interval, timestamptz, interval, boolean, text, text, integer, interval)', ours), 'EXECUTE') THEN
		RAISE EXCEPTION 'permission denied for procedure le_run'
			USING ERRCODE = 'insufficient_privilege';
	END IF;

	-- A tick that is never due is not missed, and not to be run.
	IF every IS NULL THEN
		EXECUTE format('SELECT * FROM %s.le_cron_ticks($1)', ours)
			INTO ticks USING schedule;
		every := ticks.every;
		IF missed IN ('last', 'all') AND NOT ticks.each THEN
			RAISE EXCEPTION 'schedule "%" does not have a run exactly every %',
				schedule, every
				USING ERRCODE = 'invalid_parameter_value',
				DETAIL = format('With missed => %L ticks that it leaves out would be run as well.', missed),
				HINT = 'Give the argument "every" if it has a run for each multiple of that.';
		END IF;
		missed := coalesce(missed,
			CASE WHEN ticks.each THEN 'skip' ELSE 'ignore' END);
	ELSE
		BEGIN
			EXECUTE format('SELECT * FROM %s.le_cron_ticks($1)', ours)
				INTO ticks USING schedule;
			IF every > ticks.every THEN
				RAISE WARNING 'argument "every" is too long for schedule "%"', schedule
					USING DETAIL = format('Two of its runs can be in the same tick of %s, and the second then does nothing.', every),
					HINT = format('The longest with a tick for each run is %s.', ticks.every);
			END IF;
		EXCEPTION WHEN invalid_parameter_value THEN
			NULL;	-- nobody knows, as with @reboot
		END;
	END IF;
	EXECUTE format('SELECT %s.le_run_call($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)', ours)
		INTO command USING election, command, job, every, wait, catch_up,
			on_loss, coalesce(missed, 'skip'), max_missed, timeout;
	EXECUTE format('SELECT %s.le_seeks($1)', ours) INTO seeks USING election;
	IF NOT seeks THEN
		RAISE WARNING 'this instance does not seek election "%"', election
			USING DETAIL = 'Until it does, and leads, the job does nothing here.',
			HINT = format('Is the name spelled right, and in "leader_election.campaign"? To see the leader, run SELECT %s.le_current_leader(%L) as a role that may call it.', ours, election);
	END IF;
	jobid := cron.schedule(job, schedule, command);
	IF NOT EXISTS (SELECT FROM cron.job j
		WHERE j.jobid = le_cron_schedule.jobid
		  AND j.jobname::text = le_cron_schedule.job)
	THEN
		RAISE EXCEPTION 'job name "%" is too long for pg_cron', job
			USING ERRCODE = 'name_too_long';
	END IF;
	-- A job that existed keeps its server.
	EXECUTE format('SELECT j.server FROM %s.le_cron_jobs() j WHERE j.jobid = $1',
		ours) INTO server USING jobid;
	IF server IS NOT NULL THEN
		RAISE EXCEPTION 'job "%" runs on server "%"', job, server
			USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = 'It exists, and pg_cron runs its command there, not on this instance.',
			HINT = 'Unschedule it first, or choose another name.';
	END IF;
END $$;

COMMENT ON FUNCTION le_cron_schedule(pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.interval, pg_catalog.interval, pg_catalog.bool, pg_catalog.text, pg_catalog.text, pg_catalog.int4, pg_catalog.interval) IS
'schedule a command with pg_cron, to be run by le_run(), once per tick';

CREATE FUNCTION le_cron_unschedule(job pg_catalog.text)
RETURNS pg_catalog.bool
LANGUAGE plpgsql VOLATILE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	ours text;
	found_job record;
BEGIN
	SELECT extnamespace::regnamespace INTO STRICT ours
	FROM pg_extension WHERE extname = 'leader_election';

	EXECUTE format('SELECT * FROM %s.le_cron_jobs() j
		WHERE j.job = $1 AND j.username = current_user', ours)
		INTO found_job USING job;
	IF found_job.jobid IS NULL THEN
		RETURN false;
	END IF;
	IF found_job.election IS NULL THEN
		RAISE EXCEPTION 'job "%" does not call le_run()', job
			USING ERRCODE = 'object_not_in_prerequisite_state',
			HINT = 'Use cron.unschedule().';
	END IF;
	RETURN cron.unschedule(found_job.jobid);
END $$;

COMMENT ON FUNCTION le_cron_unschedule(pg_catalog.text) IS
'unschedule a job that calls le_run(); false: the caller has no job of that name';

CREATE FUNCTION le_cron_alter(
	jobid pg_catalog.int8,
	command pg_catalog.text)
RETURNS pg_catalog.void
LANGUAGE plpgsql VOLATILE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	ours text;
	job record;
BEGIN
	SELECT extnamespace::regnamespace INTO STRICT ours
	FROM pg_extension WHERE extname = 'leader_election';
	EXECUTE format('SELECT %s.le_cron_check()', ours);

	IF has_function_privilege(to_regprocedure(
		'cron.alter_job(bigint, text, text, text, text, boolean)'), 'EXECUTE')
	THEN
		PERFORM cron.alter_job(jobid, command => le_cron_alter.command);
		RETURN;
	END IF;
	-- every role may schedule its own job anew, by name
	SELECT j.jobname::text, j.schedule INTO job FROM cron.job j
	WHERE j.jobid = le_cron_alter.jobid AND j.jobname IS NOT NULL
	  AND j.username = current_user;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'permission denied to change job %', jobid
			USING ERRCODE = 'insufficient_privilege',
			HINT = 'A job that has no name, or is of another role, can be changed by cron.alter_job() only.';
	END IF;
	PERFORM cron.schedule(job.jobname, job.schedule, command);
END $$;

COMMENT ON FUNCTION le_cron_alter(pg_catalog.int8, pg_catalog.text) IS
'give a job of pg_cron another command';

CREATE FUNCTION le_cron_adopt(
	IN election pg_catalog.text,
	IN jobs pg_catalog.text,
	IN dry_run pg_catalog.bool DEFAULT true,
	IN force pg_catalog.bool DEFAULT false,
	OUT jobid pg_catalog.int8,
	OUT job pg_catalog.text,
	OUT every pg_catalog.interval,
	OUT old_command pg_catalog.text,
	OUT new_command pg_catalog.text,
	OUT remark pg_catalog.text)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	gate CONSTANT text :=
		'\m(le_(?:is_leader|require_leader|fence_guard|fencing_token|remaining|progress|acquire|claim|claim_tick|run))"?\s*\(';
	-- at the beginning of a statement
	begins CONSTANT text := '(?:^|;|\mbegin\M)(?:\s|/\*.*?\*/|--[^\n]*\n)*';
	-- Work that an instance does for itself, since no other can do it: a pattern
	-- each, and the words for such a job.
	own CONSTANT text[] := ARRAY[
		['\mcron"?\s*\.', 'works on tables of pg_cron'],
		[begins || 'vacuum\M', 'runs VACUUM'],
		['\mreindex\M', 'runs REINDEX'],
		[begins || 'analy[sz]e\M', 'runs ANALYZE'],
		[begins || 'cluster\M', 'runs CLUSTER'],
		[begins || 'checkpoint\M', 'runs CHECKPOINT'],
		['\mrefresh\s+materialized\s+view\M', 'refreshes a materialized view'],
		['\mpg_stat\w*_reset\w*"?\s*\(', 'resets statistics'],
		['\mrun_maintenance(?:_proc)?"?\s*\(', 'maintains partitions'],
		['\mpg_(?:terminate|cancel)_backend"?\s*\(', 'ends sessions'],
		['\mpg_(?:reload_conf|rotate_logfile|switch_wal|prewarm)"?\s*\(', 'looks after the server']];
	ours text;
	seeks bool;
	likely text;
	taken bool;
	hint text;
	old record;
	ticks record;
BEGIN
	SELECT extnamespace::regnamespace INTO STRICT ours
	FROM pg_extension WHERE extname = 'leader_election';
	-- refuses an invalid name
	EXECUTE format('SELECT %s.le_run_call($1, ''SELECT''::text)', ours)
		USING election;
	IF jobs IS NULL OR dry_run IS NULL OR force IS NULL THEN
		RAISE EXCEPTION 'argument "%" must not be null',
			CASE WHEN jobs IS NULL THEN 'jobs' WHEN dry_run IS NULL THEN 'dry_run'
				ELSE 'force' END
			USING ERRCODE = 'null_value_not_allowed';
	END IF;

	-- Working jobs would stop doing anything, and report success.
	EXECUTE format('SELECT %s.le_seeks($1)', ours) INTO seeks USING election;
	hint := format('Is the name spelled right, and in "leader_election.campaign"? To see the leader, run SELECT %s.le_current_leader(%L) as a role that may call it.', ours, election);
	IF NOT seeks AND dry_run THEN
		RAISE WARNING 'this instance does not seek election "%"', election
			USING DETAIL = 'Its jobs would do nothing here.',
			HINT = hint;
	ELSIF NOT seeks AND NOT force THEN
		RAISE EXCEPTION 'this instance does not seek election "%"', election
			USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = 'Its jobs would do nothing here.',
			HINT = hint || ' With force => true jobs are adopted all the same.';
	END IF;

	FOR old IN
		EXECUTE format('SELECT * FROM (
				SELECT j.*, count(*) OVER (PARTITION BY j.job) AS namesakes
				FROM %s.le_cron_jobs() j) j
			WHERE j.job LIKE $1 ORDER BY j.jobid', ours) USING jobs
	LOOP
		jobid := old.jobid;
		job := old.job;
		old_command := old.command;
		every := NULL;
		new_command := NULL;
		BEGIN
			remark := CASE
				WHEN old.election IS NOT NULL THEN
					format('is run by le_run() already, election "%s"',
						old.election)
				WHEN old.command ~* gate THEN
					format('calls %s() itself',
						(regexp_match(old.command, gate, 'i'))[1])
				WHEN old.database <> current_database() THEN
					format('runs in database "%s"', old.database)
				WHEN old.server IS NOT NULL THEN
					format('runs on server "%s"', old.server)
				WHEN old.namesakes > 1 THEN
					format('%s jobs would have the name "%s"', old.namesakes,
						old.job)
				WHEN NOT has_function_privilege(old.username, format(
						'%s.le_run(text, text, text, interval, timestamptz, interval, boolean, text, text, integer, interval)', ours), 'EXECUTE') OR
					NOT has_schema_privilege(old.username,
						ours::regnamespace, 'USAGE') THEN
					format('role "%s" may not call le_run()', old.username)
				END;
			IF remark IS NULL THEN
				EXECUTE format('SELECT %s.le_cron_taken($1, $2, $3)', ours)
					INTO taken USING job, election, old.username;
				IF taken THEN
					remark := format('another role has a job "%s" in election "%s"',
						job, election);
				END IF;
			END IF;
			IF remark IS NULL THEN
				likely := NULL;
				FOR i IN 1..array_length(own, 1) LOOP
					IF old.command ~* own[i][1] THEN
						likely := 'is likely each instance''s own: ' || own[i][2];
						EXIT;
					END IF;
				END LOOP;
				remark := likely;
			END IF;
			-- Whoever names such a job means it.
			IF remark IS NULL OR remark = likely AND job = jobs THEN
				EXECUTE format('SELECT * FROM %s.le_cron_ticks($1)', ours)
					INTO ticks USING old.schedule;
				every := ticks.every;
				EXECUTE format('SELECT %s.le_run_call($1, $2, $3, $4, missed => $5)', ours)
					INTO new_command USING election, old.command, job, every,
						CASE WHEN ticks.each THEN 'skip' ELSE 'ignore' END;
				new_command := '/* le_cron_adopt */ ' || new_command;
			END IF;
		EXCEPTION WHEN OTHERS THEN
			every := NULL;
			remark := SQLERRM;
		END;
		IF new_command IS NOT NULL AND NOT dry_run THEN
			EXECUTE format('SELECT %s.le_cron_alter($1, $2)', ours)
				USING jobid, new_command;
		END IF;
		RETURN NEXT;
	END LOOP;
END $$;

COMMENT ON FUNCTION le_cron_adopt(pg_catalog.text, pg_catalog.text, pg_catalog.bool, pg_catalog.bool) IS
'let existing jobs of pg_cron be run by le_run(); dry_run: only show what would become of them; force: even where this instance does not seek the election';

CREATE FUNCTION le_cron_release(
	IN election pg_catalog.text,
	IN jobs pg_catalog.text DEFAULT '%',
	IN dry_run pg_catalog.bool DEFAULT true,
	OUT jobid pg_catalog.int8,
	OUT job pg_catalog.text,
	OUT old_command pg_catalog.text,
	OUT new_command pg_catalog.text)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	ours text;
BEGIN
	SELECT extnamespace::regnamespace INTO STRICT ours
	FROM pg_extension WHERE extname = 'leader_election';
	-- refuses an invalid name
	EXECUTE format('SELECT %s.le_run_call($1, ''SELECT''::text)', ours)
		USING election;
	IF jobs IS NULL OR dry_run IS NULL THEN
		RAISE EXCEPTION 'argument "%" must not be null',
			CASE WHEN jobs IS NULL THEN 'jobs' ELSE 'dry_run' END
			USING ERRCODE = 'null_value_not_allowed';
	END IF;

	FOR jobid, job, old_command, new_command IN
		EXECUTE format('SELECT j.jobid, j.job, j.command, j.runs
			FROM %s.le_cron_jobs() j
			WHERE j.election = $1 AND j.job LIKE $2
			  AND j.command LIKE ''/* le\_cron\_adopt */ %%''
			  AND j.runs IS NOT NULL
			ORDER BY j.jobid', ours) USING election, jobs
	LOOP
		IF NOT dry_run THEN
			EXECUTE format('SELECT %s.le_cron_alter($1, $2)', ours)
				USING jobid, new_command;
		END IF;
		RETURN NEXT;
	END LOOP;
END $$;

COMMENT ON FUNCTION le_cron_release(pg_catalog.text, pg_catalog.text, pg_catalog.bool) IS
'undo le_cron_adopt(); dry_run: only show what would become of the jobs';

--
-- Privileges: functions that change state or cause network traffic need a
-- grant; status is for monitoring.
--
REVOKE ALL ON FUNCTION
	le_acquire(pg_catalog.text, pg_catalog.text, pg_catalog.interval, pg_catalog.text, pg_catalog.text, pg_catalog.interval),
	le_renew(pg_catalog.text, pg_catalog.text),
	le_release(pg_catalog.text),
	le_campaign(pg_catalog.text, pg_catalog.text, pg_catalog.interval),
	le_withdraw(pg_catalog.text),
	le_step_down(pg_catalog.text, pg_catalog.interval),
	le_accept_store(pg_catalog.text),
	le_progress(pg_catalog.text),
	le_require_leader(pg_catalog.text, pg_catalog.interval, pg_catalog.text),
	le_fence_guard(pg_catalog.regclass, pg_catalog.text),
	le_current_leader(pg_catalog.text, pg_catalog.interval),
	le_leader(pg_catalog.text, pg_catalog.interval),
	le_claim(pg_catalog.text, pg_catalog.text, pg_catalog.timestamptz),
	le_claim_tick(pg_catalog.text, pg_catalog.text, pg_catalog.timestamptz, pg_catalog.bool, pg_catalog.interval, pg_catalog.text, pg_catalog.int4, pg_catalog.interval),
	le_complete(pg_catalog.text, pg_catalog.text, pg_catalog.timestamptz),
	le_fail(pg_catalog.text, pg_catalog.text, pg_catalog.timestamptz),
	le_forget_job(pg_catalog.text, pg_catalog.text),
	le_claims(),
	le_jobs(pg_catalog.interval),
	le_history(pg_catalog.text, pg_catalog.text, pg_catalog.int4),
	le_status(),
	le_nodes(),
	le_events(),
	le_stat(),
	le_stat_reset(),
	le_check_config()
FROM PUBLIC;

REVOKE ALL ON PROCEDURE
	le_run(pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.interval, pg_catalog.timestamptz, pg_catalog.interval, pg_catalog.bool, pg_catalog.text, pg_catalog.text, pg_catalog.int4, pg_catalog.interval)
FROM PUBLIC;

REVOKE ALL ON le_status, le_nodes, le_events, le_stat, le_stat_jobs,
	le_stat_store, le_stat_info, le_claims, le_jobs FROM PUBLIC;
GRANT EXECUTE ON FUNCTION le_status(), le_nodes(), le_events(), le_stat(),
	le_claims(), le_jobs(pg_catalog.interval),
	le_history(pg_catalog.text, pg_catalog.text, pg_catalog.int4)
TO pg_monitor;
GRANT SELECT ON le_status, le_nodes, le_events, le_stat, le_stat_jobs,
	le_stat_store, le_stat_info, le_claims, le_jobs TO pg_monitor;
