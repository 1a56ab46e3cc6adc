-- The views that people and dashboards read.
BEGIN;
SELECT plan(31);

SELECT bag_eq(
	$$SELECT attnum::int, attname::text, format_type(atttypid, atttypmod)
	FROM pg_attribute
	WHERE attrelid = 'le_status'::regclass AND attnum > 0$$,
	$$VALUES
	(1, 'election', 'text'),
	(2, 'state', 'text'),
	(3, 'scope', 'text'),
	(4, 'holder', 'text'),
	(5, 'fencing_token', 'bigint'),
	(6, 'expires_at', 'timestamp with time zone'),
	(7, 'pid', 'integer'),
	(8, 'term_started_at', 'timestamp with time zone'),
	(9, 'last_renewed_at', 'timestamp with time zone'),
	(10, 'progress_at', 'timestamp with time zone'),
	(11, 'progress_due', 'timestamp with time zone'),
	(12, 'last_change_at', 'timestamp with time zone'),
	(13, 'last_loss', 'text'),
	(14, 'store', 'text'),
	(15, 'last_error_at', 'timestamp with time zone'),
	(16, 'last_error', 'text'),
	(17, 'value', 'text')$$,
	'columns of le_status');

SELECT bag_eq(
	$$SELECT attnum::int, attname::text, format_type(atttypid, atttypmod)
	FROM pg_attribute
	WHERE attrelid = 'le_nodes'::regclass AND attnum > 0$$,
	$$VALUES
	(1, 'node', 'text'),
	(2, 'is_self', 'boolean'),
	(3, 'state', 'text'),
	(4, 'lease', 'interval'),
	(5, 'last_proof_seen_at', 'timestamp with time zone'),
	(6, 'incarnation', 'text'),
	(7, 'store_session', 'text')$$,
	'columns of le_nodes');

SELECT bag_eq(
	$$SELECT attnum::int, attname::text, format_type(atttypid, atttypmod)
	FROM pg_attribute
	WHERE attrelid = 'le_events'::regclass AND attnum > 0$$,
	$$VALUES
	(1, 'number', 'bigint'),
	(2, 'at', 'timestamp with time zone'),
	(3, 'event', 'text'),
	(4, 'election', 'text'),
	(5, 'node', 'text'),
	(6, 'fencing_token', 'bigint'),
	(7, 'pid', 'integer'),
	(8, 'detail', 'text')$$,
	'columns of le_events');

SELECT bag_eq(
	$$SELECT attnum::int, attname::text, format_type(atttypid, atttypmod)
	FROM pg_attribute
	WHERE attrelid = 'le_stat'::regclass AND attnum > 0$$,
	$$VALUES
	(1, 'election', 'text'),
	(2, 'terms', 'bigint'),
	(3, 'releases', 'bigint'),
	(4, 'losses', 'bigint'),
	(5, 'gate_passed', 'bigint'),
	(6, 'gate_refused', 'bigint'),
	(7, 'fence_aborts', 'bigint'),
	(8, 'cancels', 'bigint')$$,
	'columns of le_stat');

SELECT bag_eq(
	$$SELECT attnum::int, attname::text, format_type(atttypid, atttypmod)
	FROM pg_attribute
	WHERE attrelid = 'le_stat_jobs'::regclass AND attnum > 0$$,
	$$VALUES
	(1, 'election', 'text'),
	(2, 'claims', 'bigint'),
	(3, 'runs', 'bigint'),
	(4, 'skips', 'bigint'),
	(5, 'failed', 'bigint'),
	(6, 'missed', 'bigint'),
	(7, 'run_time', 'double precision')$$,
	'columns of le_stat_jobs');

SELECT bag_eq(
	$$SELECT attnum::int, attname::text, format_type(atttypid, atttypmod)
	FROM pg_attribute
	WHERE attrelid = 'le_stat_store'::regclass AND attnum > 0$$,
	$$VALUES
	(1, 'election', 'text'),
	(2, 'renewals', 'bigint'),
	(3, 'failures', 'bigint'),
	(4, 'unknown', 'bigint'),
	(5, 'round_trips', 'bigint'),
	(6, 'total_time', 'double precision'),
	(7, 'last_time', 'double precision'),
	(8, 'min_time', 'double precision'),
	(9, 'avg_time', 'double precision'),
	(10, 'max_time', 'double precision')$$,
	'columns of le_stat_store');

SELECT bag_eq(
	$$SELECT attnum::int, attname::text, format_type(atttypid, atttypmod)
	FROM pg_attribute
	WHERE attrelid = 'le_stat_info'::regclass AND attnum > 0$$,
	$$VALUES
	(1, 'last_answer_at', 'timestamp with time zone'),
	(2, 'waits', 'bigint'),
	(3, 'longest_turn', 'double precision'),
	(4, 'stats_reset', 'timestamp with time zone')$$,
	'columns of le_stat_info');

-- Each counter is called as le_stat() says, in whichever view it is.
SELECT bag_eq(
	$$SELECT DISTINCT attname::text FROM pg_attribute
	WHERE attrelid IN ('le_stat'::regclass, 'le_stat_jobs'::regclass,
		'le_stat_store'::regclass, 'le_stat_info'::regclass) AND attnum > 0$$,
	$$SELECT unnest(proargnames) FROM pg_proc WHERE proname = 'le_stat'$$,
	'nothing of le_stat() is left out');

SELECT bag_eq(
	$$SELECT attnum::int, attname::text, format_type(atttypid, atttypmod)
	FROM pg_attribute
	WHERE attrelid = 'le_claims'::regclass AND attnum > 0$$,
	$$VALUES
	(1, 'election', 'text'),
	(2, 'job', 'text'),
	(3, 'state', 'text'),
	(4, 'tick', 'timestamp with time zone'),
	(5, 'try', 'integer'),
	(6, 'node', 'text'),
	(7, 'fencing_token', 'bigint'),
	(8, 'claimed_at', 'timestamp with time zone'),
	(9, 'ended_at', 'timestamp with time zone'),
	(10, 'claim', 'text')$$,
	'columns of le_claims');

SELECT bag_eq(
	$$SELECT attnum::int, attname::text, format_type(atttypid, atttypmod)
	FROM pg_attribute
	WHERE attrelid = 'le_jobs'::regclass AND attnum > 0$$,
	$$VALUES
	(1, 'election', 'text'),
	(2, 'job', 'text'),
	(3, 'state', 'text'),
	(4, 'observed_at', 'timestamp with time zone'),
	(5, 'late', 'boolean'),
	(6, 'ahead', 'boolean'),
	(7, 'failures', 'integer'),
	(8, 'tick', 'timestamp with time zone'),
	(9, 'try', 'integer'),
	(10, 'node', 'text'),
	(11, 'duration', 'interval'),
	(12, 'error', 'text'),
	(13, 'started_at', 'timestamp with time zone'),
	(14, 'ended_at', 'timestamp with time zone'),
	(15, 'last_success', 'timestamp with time zone'),
	(16, 'every', 'interval'),
	(17, 'next_expected', 'timestamp with time zone'),
	(18, 'fencing_token', 'bigint')$$,
	'columns of le_jobs');

SELECT isnt(obj_description('le_status'::regclass, 'pg_class'), NULL,
	'le_status has a comment');
SELECT isnt(obj_description('le_nodes'::regclass, 'pg_class'), NULL,
	'le_nodes has a comment');
SELECT isnt(obj_description('le_events'::regclass, 'pg_class'), NULL,
	'le_events has a comment');
SELECT isnt(obj_description('le_stat'::regclass, 'pg_class'), NULL,
	'le_stat has a comment');
SELECT isnt(obj_description('le_stat_jobs'::regclass, 'pg_class'), NULL,
	'le_stat_jobs has a comment');
SELECT isnt(obj_description('le_stat_store'::regclass, 'pg_class'), NULL,
	'le_stat_store has a comment');
SELECT isnt(obj_description('le_stat_info'::regclass, 'pg_class'), NULL,
	'le_stat_info has a comment');

SELECT isnt(obj_description('le_claims'::regclass, 'pg_class'), NULL,
	'le_claims has a comment');
SELECT isnt(obj_description('le_jobs'::regclass, 'pg_class'), NULL,
	'le_jobs has a comment');

SELECT is_empty(
	$$SELECT attrelid::regclass, attname FROM pg_attribute
	WHERE attrelid IN (SELECT oid FROM pg_class WHERE relkind = 'v'
		AND relname ~ '^le_') AND attnum > 0
		AND COALESCE(col_description(attrelid, attnum), '') = ''$$,
	'each of their columns has one');

-- not only by name: the rows are as the functions declare them
SELECT lives_ok('SELECT * FROM le_status', 'le_status can be read');
SELECT lives_ok('SELECT * FROM le_nodes', 'le_nodes can be read');
SELECT lives_ok('SELECT * FROM le_events', 'le_events can be read');
SELECT lives_ok('SELECT * FROM le_stat', 'le_stat can be read');
SELECT lives_ok('SELECT * FROM le_stat_jobs', 'le_stat_jobs can be read');
SELECT lives_ok('SELECT * FROM le_stat_store', 'le_stat_store can be read');
SELECT lives_ok('SELECT * FROM le_stat_info', 'le_stat_info can be read');
SELECT lives_ok('SELECT * FROM le_claims', 'le_claims can be read');
SELECT lives_ok('SELECT * FROM le_jobs', 'le_jobs can be read');
SELECT lives_ok('SELECT * FROM le_history()', 'le_history() can be read');
SELECT lives_ok(
	'SELECT s.election, n.node FROM le_status s, le_nodes n
	 WHERE s.holder = n.node', 'and joined');
SELECT * FROM finish();
ROLLBACK;
