-- Signatures and markings.  Each list is complete: a function that is added
-- without thought of its volatility, or loses its STRICT, fails here.
BEGIN;
SELECT plan(10);

-- the functions of the extension
CREATE TEMP VIEW mine AS
	SELECT p.* FROM pg_proc p
	JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
	WHERE d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass
	  AND d.refobjid = (SELECT oid FROM pg_extension
						WHERE extname = 'leader_election');

SELECT bag_eq(
	$$SELECT proname::text, pg_get_function_arguments(oid) FROM mine$$,
	$$VALUES
	('le_acquire', 'election text, value text DEFAULT NULL::text, '
		'wait interval DEFAULT ''00:00:00''::interval, '
		'scope text DEFAULT ''node''::text, '
		'on_loss text DEFAULT NULL::text, '
		'progress_within interval DEFAULT NULL::interval'),
	('le_fence_guard', 'rel regclass, election text'),
	('le_require_leader', 'election text, '
		'min_remaining interval DEFAULT ''00:00:00''::interval, '
		'on_loss text DEFAULT NULL::text'),
	('le_renew', 'election text, value text DEFAULT NULL::text'),
	('le_release', 'election text'),
	('le_campaign', 'election text, value text DEFAULT NULL::text, '
		'progress_within interval DEFAULT NULL::interval'),
	('le_withdraw', 'election text'),
	('le_step_down', 'election text DEFAULT NULL::text, '
		'hold_off interval DEFAULT ''00:00:30''::interval'),
	('le_accept_store', 'election text DEFAULT NULL::text'),
	('le_is_leader', 'election text'),
	('le_seeks', 'election text'),
	('le_progress', 'election text'),
	('le_fencing_token', 'election text'),
	('le_remaining', 'election text'),
	('le_current_leader', 'election text, '
		'max_staleness interval DEFAULT ''00:00:00''::interval'),
	('le_leader', 'INOUT election text, '
		'max_staleness interval DEFAULT ''00:00:00''::interval, '
		'OUT leader text, OUT value text, OUT fencing_token bigint, '
		'OUT is_self boolean, OUT observed_at timestamp with time zone'),
	('le_claim', 'election text, job text, tick timestamp with time zone'),
	('le_claim_tick', 'election text, job text, '
		'tick timestamp with time zone, catch_up boolean DEFAULT false, '
		'every interval DEFAULT NULL::interval, '
		'missed text DEFAULT ''skip''::text, '
		'max_missed integer DEFAULT 100, '
		'wait interval DEFAULT ''00:00:00''::interval'),
	('le_complete', 'election text, job text, tick timestamp with time zone'),
	('le_fail', 'election text, job text, tick timestamp with time zone'),
	('le_forget_job', 'election text, job text'),
	('le_run', 'IN election text, IN command text, '
		'IN job text DEFAULT NULL::text, '
		'IN every interval DEFAULT NULL::interval, '
		'IN tick timestamp with time zone '
		'DEFAULT NULL::timestamp with time zone, '
		'IN wait interval DEFAULT ''00:00:00''::interval, '
		'IN catch_up boolean DEFAULT false, '
		'IN on_loss text DEFAULT ''cancel''::text, '
		'IN missed text DEFAULT ''skip''::text, '
		'IN max_missed integer DEFAULT 100, '
		'IN timeout interval DEFAULT ''00:00:00''::interval'),
	('le_tick', ''),
	('le_run_call', 'election text, command text, '
		'job text DEFAULT NULL::text, '
		'every interval DEFAULT NULL::interval, '
		'wait interval DEFAULT ''00:00:00''::interval, '
		'catch_up boolean DEFAULT false, '
		'on_loss text DEFAULT ''cancel''::text, '
		'missed text DEFAULT ''skip''::text, '
		'max_missed integer DEFAULT 100, '
		'timeout interval DEFAULT ''00:00:00''::interval'),
	('le_run_command', 'call text, OUT election text, OUT job text, '
		'OUT command text'),
	('le_cron_timezone', ''),
	('le_cron_server', 'nodename text, nodeport integer'),
	('le_cron_taken', 'job text, election text, username text'),
	('le_cron_check', ''),
	('le_cron_ticks', 'schedule text, OUT every interval, '
		'OUT each boolean'),
	('le_cron_every', 'schedule text'),
	('le_cron_jobs', 'OUT jobid bigint, OUT job text, OUT schedule text, '
		'OUT command text, OUT database text, OUT username text, '
		'OUT server text, OUT election text, OUT runs text'),
	('le_cron_schedule', 'OUT jobid bigint, job text, schedule text, '
		'INOUT command text, election text, '
		'INOUT every interval DEFAULT NULL::interval, '
		'wait interval DEFAULT ''00:00:00''::interval, '
		'catch_up boolean DEFAULT false, '
		'on_loss text DEFAULT ''cancel''::text, '
		'missed text DEFAULT NULL::text, '
		'max_missed integer DEFAULT 100, '
		'timeout interval DEFAULT ''00:00:00''::interval'),
	('le_cron_unschedule', 'job text'),
	('le_cron_alter', 'jobid bigint, command text'),
	('le_cron_adopt', 'election text, jobs text, '
		'dry_run boolean DEFAULT true, force boolean DEFAULT false, '
		'OUT jobid bigint, OUT job text, OUT every interval, OUT old_command text, '
		'OUT new_command text, OUT remark text'),
	('le_cron_release', 'election text, jobs text DEFAULT ''%''::text, '
		'dry_run boolean DEFAULT true, OUT jobid bigint, OUT job text, '
		'OUT old_command text, OUT new_command text'),
	('le_claims', 'OUT election text, OUT job text, OUT state text, '
		'OUT tick timestamp with time zone, OUT try integer, '
		'OUT node text, OUT fencing_token bigint, '
		'OUT claimed_at timestamp with time zone, '
		'OUT ended_at timestamp with time zone, OUT claim text'),
	('le_jobs', 'max_staleness interval DEFAULT ''00:00:00''::interval, '
		'OUT election text, OUT job text, OUT state text, '
		'OUT observed_at timestamp with time zone, '
		'OUT late boolean, OUT ahead boolean, OUT failures integer, '
		'OUT tick timestamp with time zone, OUT try integer, '
		'OUT node text, OUT duration interval, OUT error text, '
		'OUT started_at timestamp with time zone, '
		'OUT ended_at timestamp with time zone, '
		'OUT last_success timestamp with time zone, OUT every interval, '
		'OUT next_expected timestamp with time zone, '
		'OUT fencing_token bigint'),
	('le_history', 'election text DEFAULT NULL::text, '
		'job text DEFAULT NULL::text, max_rows integer DEFAULT 20, '
		'OUT election text, OUT job text, '
		'OUT tick timestamp with time zone, OUT state text, '
		'OUT try integer, OUT node text, OUT duration interval, '
		'OUT error text, OUT started_at timestamp with time zone, '
		'OUT ended_at timestamp with time zone'),
	('le_version', ''),
	('le_status', 'OUT election text, OUT state text, OUT scope text, '
		'OUT holder text, OUT fencing_token bigint, '
		'OUT expires_at timestamp with time zone, OUT pid integer, '
		'OUT term_started_at timestamp with time zone, '
		'OUT last_renewed_at timestamp with time zone, '
		'OUT progress_at timestamp with time zone, '
		'OUT progress_due timestamp with time zone, '
		'OUT last_change_at timestamp with time zone, OUT last_loss text, '
		'OUT store text, OUT last_error_at timestamp with time zone, '
		'OUT last_error text, OUT value text'),
	('le_nodes', 'OUT node text, OUT is_self boolean, OUT state text, '
		'OUT lease interval, '
		'OUT last_proof_seen_at timestamp with time zone, '
		'OUT incarnation text, OUT store_session text'),
	('le_events', 'OUT number bigint, OUT at timestamp with time zone, '
		'OUT event text, OUT election text, OUT node text, '
		'OUT fencing_token bigint, OUT pid integer, OUT detail text'),
	('le_stat', 'OUT election text, OUT terms bigint, OUT releases bigint, '
		'OUT losses bigint, OUT gate_passed bigint, '
		'OUT gate_refused bigint, OUT fence_aborts bigint, '
		'OUT cancels bigint, OUT claims bigint, OUT runs bigint, '
		'OUT skips bigint, OUT failed bigint, OUT missed bigint, '
		'OUT run_time double precision, OUT renewals bigint, OUT failures bigint, '
		'OUT unknown bigint, OUT waits bigint, OUT round_trips bigint, '
		'OUT total_time double precision, OUT last_time double precision, '
		'OUT min_time double precision, OUT avg_time double precision, '
		'OUT max_time double precision, OUT longest_turn double precision, '
		'OUT last_answer_at timestamp with time zone, '
		'OUT stats_reset timestamp with time zone'),
	('le_stat_reset', ''),
	('le_check_config', 'OUT level text, OUT topic text, OUT message text')$$,
	'arguments and defaults');

SELECT bag_eq(
	$$SELECT proname::text, pg_get_function_result(oid) FROM mine$$,
	$$VALUES
	('le_acquire', 'boolean'),
	('le_renew', 'boolean'),
	('le_release', 'boolean'),
	('le_campaign', 'void'),
	('le_withdraw', 'boolean'),
	('le_step_down', 'boolean'),
	('le_accept_store', 'void'),
	('le_is_leader', 'boolean'),
	('le_seeks', 'boolean'),
	('le_fencing_token', 'bigint'),
	('le_progress', 'boolean'),
	('le_remaining', 'interval'),
	('le_require_leader', 'bigint'),
	('le_fence_guard', 'bigint'),
	('le_current_leader', 'text'),
	('le_leader', 'record'),
	('le_claim', 'boolean'),
	('le_claim_tick', 'timestamp with time zone'),
	('le_complete', 'boolean'),
	('le_fail', 'boolean'),
	('le_forget_job', 'boolean'),
	('le_run', NULL),
	('le_tick', 'timestamp with time zone'),
	('le_run_call', 'text'),
	('le_run_command', 'record'),
	('le_cron_timezone', 'text'),
	('le_cron_server', 'text'),
	('le_cron_taken', 'boolean'),
	('le_cron_check', 'void'),
	('le_cron_ticks', 'record'),
	('le_cron_every', 'interval'),
	('le_cron_jobs', 'SETOF record'),
	('le_cron_schedule', 'record'),
	('le_cron_unschedule', 'boolean'),
	('le_cron_alter', 'void'),
	('le_cron_adopt', 'SETOF record'),
	('le_cron_release', 'SETOF record'),
	('le_claims', 'SETOF record'),
	('le_jobs', 'SETOF record'),
	('le_history', 'SETOF record'),
	('le_version', 'text'),
	('le_status', 'SETOF record'),
	('le_nodes', 'SETOF record'),
	('le_events', 'SETOF record'),
	('le_stat', 'SETOF record'),
	('le_stat_reset', 'void'),
	('le_check_config', 'SETOF record')$$,
	'results');

-- v: asks again each time; u, r: not in a parallel worker, which is another
-- backend and holds nothing in its own name
SELECT bag_eq(
	$$SELECT proname::text, provolatile::text, proisstrict, proparallel::text
	FROM mine$$,
	$$VALUES
	('le_acquire', 'v', false, 'u'),
	('le_renew', 'v', false, 'u'),
	('le_release', 'v', false, 'u'),
	('le_campaign', 'v', false, 'u'),
	('le_withdraw', 'v', false, 'u'),
	('le_step_down', 'v', false, 'u'),
	('le_accept_store', 'v', false, 'u'),
	('le_is_leader', 'v', true, 'r'),
	('le_seeks', 'v', true, 'r'),
	('le_fencing_token', 'v', true, 'r'),
	('le_progress', 'v', false, 'r'),
	('le_remaining', 'v', true, 'r'),
	('le_require_leader', 'v', false, 'u'),
	('le_fence_guard', 'v', false, 'u'),
	('le_current_leader', 'v', false, 'u'),
	('le_leader', 'v', false, 'u'),
	('le_claim', 'v', false, 'u'),
	('le_claim_tick', 'v', false, 'u'),
	('le_complete', 'v', false, 'u'),
	('le_fail', 'v', false, 'u'),
	('le_forget_job', 'v', false, 'u'),
	('le_run', 'v', false, 'u'),
	('le_tick', 'v', true, 'r'),
	('le_run_call', 's', false, 'r'),
	('le_run_command', 'i', true, 's'),
	('le_cron_timezone', 's', true, 's'),
	('le_cron_server', 's', true, 's'),
	('le_cron_taken', 's', true, 'u'),
	('le_cron_check', 's', true, 'u'),
	('le_cron_ticks', 's', true, 'u'),
	('le_cron_every', 's', true, 'u'),
	('le_cron_jobs', 's', false, 'u'),
	('le_cron_schedule', 'v', false, 'u'),
	('le_cron_unschedule', 'v', true, 'u'),
	('le_cron_alter', 'v', true, 'u'),
	('le_cron_adopt', 'v', false, 'u'),
	('le_cron_release', 'v', false, 'u'),
	('le_claims', 'v', true, 'u'),
	('le_jobs', 'v', false, 'u'),
	('le_history', 'v', false, 'r'),
	('le_version', 's', true, 's'),
	('le_status', 'v', true, 'r'),
	('le_nodes', 'v', true, 'r'),
	('le_events', 'v', true, 'r'),
	('le_stat', 'v', true, 'r'),
	('le_stat_reset', 'v', true, 'r'),
	('le_check_config', 'v', true, 'u')$$,
	'volatility, strictness, parallel safety');

SELECT is_empty(
	$$SELECT oid::regprocedure FROM mine
	WHERE prosecdef OR proleakproof
	   OR prokind <> CASE proname WHEN 'le_run' THEN 'p' ELSE 'f' END$$,
	'functions that run with the rights of their caller');
SELECT is_empty(
	$$SELECT oid::regprocedure FROM mine
	WHERE proname LIKE 'le\_cron\_%'
	  AND proname NOT IN ('le_cron_timezone', 'le_cron_server',
		'le_cron_taken')
	  AND proconfig IS DISTINCT FROM '{"search_path=pg_catalog, pg_temp"}'$$,
	'those in PL/pgSQL do not depend on the search path of the caller');
SELECT is_empty(
	$$SELECT oid::regprocedure FROM mine
	WHERE (proname NOT LIKE 'le\_cron\_%'
	   OR proname IN ('le_cron_timezone', 'le_cron_server',
		'le_cron_taken'))
	  AND (prolang <> (SELECT oid FROM pg_language WHERE lanname = 'c')
	   OR probin <> 'leader_election' OR proconfig IS NOT NULL)$$,
	'all others are plain C functions');

SELECT is_empty(
	$$SELECT oid::regprocedure FROM mine
	WHERE COALESCE(obj_description(oid, 'pg_proc'), '') = ''$$,
	'every function has a comment');
SELECT isnt(
	(SELECT obj_description(oid, 'pg_extension') FROM pg_extension
	 WHERE extname = 'leader_election'), NULL, 'so does the extension');

SELECT is(le_version(),
	(SELECT extversion FROM pg_extension WHERE extname = 'leader_election'),
	'library and script are of one version');

-- operators, types of its own, tables and settings of objects: none
SELECT bag_eq(
	$$SELECT classid::regclass::text FROM pg_depend
	WHERE deptype = 'e' AND refclassid = 'pg_extension'::regclass
	  AND refobjid = (SELECT oid FROM pg_extension
					  WHERE extname = 'leader_election')
	  AND classid NOT IN ('pg_proc'::regclass, 'pg_type'::regclass)$$,
	$$VALUES ('pg_class'), ('pg_class'), ('pg_class'), ('pg_class'),
		('pg_class'), ('pg_class'), ('pg_class'), ('pg_class'),
		('pg_class')$$,
	'functions and nine views are all there is');

SELECT * FROM finish();
ROLLBACK;
