-- The views that people and dashboards read.
BEGIN;
SELECT plan(7);

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

SELECT isnt(obj_description('le_status'::regclass, 'pg_class'), NULL,
	'le_status has a comment');
SELECT isnt(obj_description('le_nodes'::regclass, 'pg_class'), NULL,
	'le_nodes has a comment');

-- not only by name: the rows are as the functions declare them
SELECT lives_ok('SELECT * FROM le_status', 'le_status can be read');
SELECT lives_ok('SELECT * FROM le_nodes', 'le_nodes can be read');
SELECT lives_ok(
	'SELECT s.election, n.node FROM le_status s, le_nodes n
	 WHERE s.holder = n.node', 'and joined');
SELECT * FROM finish();
ROLLBACK;
