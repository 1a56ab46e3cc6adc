-- The privileges of each role, unless somebody grants more.
BEGIN;
SELECT plan(123);

CREATE ROLE le_tap_nobody;
CREATE ROLE le_tap_monitor IN ROLE pg_monitor;

-- everybody
SELECT function_privs_are('public', name, args, 'le_tap_nobody',
	ARRAY['EXECUTE'], name || ' is for everybody')
FROM (VALUES
	('le_is_leader', ARRAY['text']),
	('le_seeks', ARRAY['text']),
	('le_fencing_token', ARRAY['text']),
	('le_remaining', ARRAY['text']),
	('le_tick', ARRAY[]::text[]),
	('le_version', ARRAY[]::text[]),
	('le_run_call', ARRAY['text', 'text', 'text', 'interval', 'interval',
		'boolean', 'text', 'text', 'integer', 'interval']),
	('le_run_command', ARRAY['text']),
	('le_cron_timezone', ARRAY[]::text[]),
	('le_cron_server', ARRAY['text', 'integer']),
	('le_cron_taken', ARRAY['text', 'text', 'text']),
	('le_cron_check', ARRAY[]::text[]),
	('le_cron_ticks', ARRAY['text']),
	('le_cron_every', ARRAY['text']),
	('le_cron_jobs', ARRAY[]::text[]),
	('le_cron_schedule', ARRAY['text', 'text', 'text', 'text', 'interval',
		'interval', 'boolean', 'text', 'text', 'integer', 'interval']),
	('le_cron_unschedule', ARRAY['text']),
	('le_cron_alter', ARRAY['bigint', 'text']),
	('le_cron_adopt', ARRAY['text', 'text', 'boolean', 'boolean']),
	('le_cron_release', ARRAY['text', 'text', 'boolean'])) f (name, args);

-- nobody without a grant, monitoring included: these change state or cause
-- network traffic
CREATE TEMP TABLE restricted (name name, args text[]);
INSERT INTO restricted VALUES
	('le_acquire', ARRAY['text', 'text', 'interval', 'text', 'text',
		'interval']),
	('le_progress', ARRAY['text']),
	('le_require_leader', ARRAY['text', 'interval', 'text']),
	('le_fence_guard', ARRAY['regclass', 'text']),
	('le_renew', ARRAY['text', 'text']),
	('le_release', ARRAY['text']),
	('le_claim', ARRAY['text', 'text', 'timestamptz']),
	('le_claim_tick', ARRAY['text', 'text', 'timestamptz', 'boolean',
		'interval', 'text', 'integer', 'interval']),
	('le_complete', ARRAY['text', 'text', 'timestamptz']),
	('le_fail', ARRAY['text', 'text', 'timestamptz']),
	('le_forget_job', ARRAY['text', 'text']),
	('le_run', ARRAY['text', 'text', 'text', 'interval', 'timestamptz',
		'interval', 'boolean', 'text', 'text', 'integer', 'interval']),
	('le_campaign', ARRAY['text', 'text', 'interval']),
	('le_withdraw', ARRAY['text']),
	('le_step_down', ARRAY['text', 'interval']),
	('le_accept_store', ARRAY['text']),
	('le_current_leader', ARRAY['text', 'interval']),
	('le_leader', ARRAY['text', 'interval']),
	('le_stat_reset', ARRAY[]::text[]),
	('le_check_config', ARRAY[]::text[]);
SELECT function_privs_are('public', name, args, role, ARRAY[]::text[],
	name || ' is not for ' || role)
FROM restricted, (VALUES ('le_tap_nobody'), ('le_tap_monitor'),
	('pg_monitor')) r (role)
ORDER BY name, role;

-- monitoring
SELECT function_privs_are('public', name, ARRAY[]::text[], role,
	CASE WHEN role = 'le_tap_nobody' THEN ARRAY[]::text[]
	ELSE ARRAY['EXECUTE'] END, name || '() and ' || role)
FROM unnest(ARRAY['le_status', 'le_nodes', 'le_claims', 'le_events',
	'le_stat']) name,
	unnest(ARRAY['le_tap_nobody', 'le_tap_monitor']) role
ORDER BY name, role;
SELECT function_privs_are('public', name, args, role,
	CASE WHEN role = 'le_tap_nobody' THEN ARRAY[]::text[]
	ELSE ARRAY['EXECUTE'] END, name || '() and ' || role)
FROM (VALUES ('le_jobs', ARRAY['interval']),
	('le_history', ARRAY['text', 'text', 'integer'])) f (name, args),
	unnest(ARRAY['le_tap_nobody', 'le_tap_monitor']) role
ORDER BY name, role;
SELECT table_privs_are('public', name, role,
	CASE WHEN role = 'le_tap_nobody' THEN ARRAY[]::text[]
	ELSE ARRAY['SELECT'] END, 'view ' || name || ' and ' || role)
FROM unnest(ARRAY['le_status', 'le_nodes', 'le_claims', 'le_events',
	'le_stat', 'le_stat_jobs', 'le_stat_store', 'le_stat_info', 'le_jobs']) name,
	unnest(ARRAY['le_tap_nobody', 'le_tap_monitor', 'pg_monitor']) role
ORDER BY name, role;

-- the same seen from the other side: all grants to somebody but the owner
SELECT bag_eq(
	$$SELECT p.proname::text, CASE acl.grantee WHEN 0 THEN 'public'
		ELSE acl.grantee::regrole::text END
	FROM pg_proc p, aclexplode(COALESCE(p.proacl,
		acldefault('f', p.proowner))) acl
	WHERE p.proname LIKE 'le\_%' AND acl.grantee <> p.proowner$$,
	$$VALUES ('le_is_leader', 'public'), ('le_seeks', 'public'), ('le_fencing_token', 'public'),
		('le_version', 'public'), ('le_status', 'pg_monitor'),
		('le_tick', 'public'), ('le_remaining', 'public'),
		('le_claims', 'pg_monitor'),
		('le_jobs', 'pg_monitor'), ('le_history', 'pg_monitor'),
		('le_run_call', 'public'), ('le_run_command', 'public'),
		('le_cron_every', 'public'), ('le_cron_jobs', 'public'),
		('le_cron_ticks', 'public'),
		('le_cron_timezone', 'public'), ('le_cron_server', 'public'),
		('le_cron_taken', 'public'),
		('le_cron_check', 'public'),
		('le_cron_schedule', 'public'), ('le_cron_unschedule', 'public'),
		('le_cron_alter', 'public'), ('le_cron_adopt', 'public'),
		('le_cron_release', 'public'),
		('le_nodes', 'pg_monitor'), ('le_events', 'pg_monitor'),
		('le_stat', 'pg_monitor')$$,
	'grants of functions');
SELECT bag_eq(
	$$SELECT c.relname::text, acl.grantee::regrole::text, acl.privilege_type
	FROM pg_class c, aclexplode(c.relacl) acl
	WHERE c.relname LIKE 'le\_%' AND acl.grantee <> c.relowner$$,
	$$VALUES ('le_status', 'pg_monitor', 'SELECT'),
		('le_nodes', 'pg_monitor', 'SELECT'),
		('le_claims', 'pg_monitor', 'SELECT'),
		('le_jobs', 'pg_monitor', 'SELECT'),
		('le_events', 'pg_monitor', 'SELECT'),
		('le_stat', 'pg_monitor', 'SELECT'),
		('le_stat_jobs', 'pg_monitor', 'SELECT'),
		('le_stat_store', 'pg_monitor', 'SELECT'),
		('le_stat_info', 'pg_monitor', 'SELECT')$$,
	'grants of views');

SELECT * FROM finish();
ROLLBACK;
