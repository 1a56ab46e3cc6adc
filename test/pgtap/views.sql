-- The views that people and dashboards read.
BEGIN;
SELECT plan(16);

SELECT bag_eq(
	$$SELECT attnum::int, attname::text, format_type(atttypid, atttypmod)
	FROM pg_attribute
	WHERE attrelid = 'le_status'::regclass AND attnum > 0$$,
	$$VALUES
	(1, 'election', 'text'),
	(2, 'state', 'text'),
	(3, 'scope', 'text'),
	(4, 'pid', 'integer'),
	(5, 'holder', 'text'),
	(6, 'value', 'text'),
	(7, 'fencing_token', 'bigint'),
	(8, 'term_started_at', 'timestamp with time zone'),
	(9, 'expires_at', 'timestamp with time zone'),
	(10, 'last_renewed_at', 'timestamp with time zone'),
	(11, 'last_change_at', 'timestamp with time zone'),
	(12, 'last_loss', 'text'),
	(13, 'last_error', 'text'),
	(14, 'store', 'text')$$,
	'columns of le_status');

SELECT bag_eq(
	$$SELECT attnum::int, attname::text, format_type(atttypid, atttypmod)
	FROM pg_attribute
	WHERE attrelid = 'le_nodes'::regclass AND attnum > 0$$,
	$$VALUES
	(1, 'node', 'text'),
	(2, 'is_self', 'boolean'),
	(3, 'state', 'text'),
	(4, 'incarnation', 'text'),
	(5, 'store_session', 'text'),
	(6, 'lease', 'interval'),
	(7, 'last_proof_seen_at', 'timestamp with time zone')$$,
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
	(2, 'acquisitions', 'bigint'),
	(3, 'releases', 'bigint'),
	(4, 'losses', 'bigint'),
	(5, 'renewals', 'bigint'),
	(6, 'failures', 'bigint'),
	(7, 'unknown', 'bigint'),
	(8, 'gate_passed', 'bigint'),
	(9, 'gate_refused', 'bigint'),
	(10, 'fence_aborts', 'bigint'),
	(11, 'claims', 'bigint'),
	(12, 'runs', 'bigint'),
	(13, 'skips', 'bigint'),
	(14, 'cancels', 'bigint'),
	(15, 'round_trips', 'bigint'),
	(16, 'last_round_trip_time', 'double precision'),
	(17, 'min_round_trip_time', 'double precision'),
	(18, 'avg_round_trip_time', 'double precision'),
	(19, 'max_round_trip_time', 'double precision'),
	(20, 'stats_reset', 'timestamp with time zone')$$,
	'columns of le_stat');

SELECT bag_eq(
	$$SELECT attnum::int, attname::text, format_type(atttypid, atttypmod)
	FROM pg_attribute
	WHERE attrelid = 'le_claims'::regclass AND attnum > 0$$,
	$$VALUES
	(1, 'election', 'text'),
	(2, 'job', 'text'),
	(3, 'tick', 'timestamp with time zone'),
	(4, 'try', 'integer'),
	(5, 'state', 'text'),
	(6, 'node', 'text'),
	(7, 'fencing_token', 'bigint'),
	(8, 'claimed_at', 'timestamp with time zone'),
	(9, 'ended_at', 'timestamp with time zone'),
	(10, 'claim', 'text')$$,
	'columns of le_claims');

SELECT isnt(obj_description('le_status'::regclass, 'pg_class'), NULL,
	'le_status has a comment');
SELECT isnt(obj_description('le_nodes'::regclass, 'pg_class'), NULL,
	'le_nodes has a comment');
SELECT isnt(obj_description('le_events'::regclass, 'pg_class'), NULL,
	'le_events has a comment');
SELECT isnt(obj_description('le_stat'::regclass, 'pg_class'), NULL,
	'le_stat has a comment');

SELECT isnt(obj_description('le_claims'::regclass, 'pg_class'), NULL,
	'le_claims has a comment');

-- not only by name: the rows are as the functions declare them
SELECT lives_ok('SELECT * FROM le_status', 'le_status can be read');
SELECT lives_ok('SELECT * FROM le_nodes', 'le_nodes can be read');
SELECT lives_ok('SELECT * FROM le_events', 'le_events can be read');
SELECT lives_ok('SELECT * FROM le_stat', 'le_stat can be read');
SELECT lives_ok('SELECT * FROM le_claims', 'le_claims can be read');
SELECT lives_ok(
	'SELECT s.election, n.node FROM le_status s, le_nodes n
	 WHERE s.holder = n.node', 'and joined');
SELECT * FROM finish();
ROLLBACK;
