-- Jobs of pg_cron, as far as possible without pg_cron.
CREATE EXTENSION leader_election;
\set VERBOSITY terse
\set SHOW_CONTEXT never

-- the longest interval by which no two runs have the same tick
-- and whether each tick has a run, as long after it as the others
SELECT schedule, t.* FROM unnest(ARRAY[
	'* * * * *', '*/5 * * * *', '0,15,30,45 * * * *', '*/7 * * * *',
	'0,7,14 * * * *', '58,59 * * * *', '*/40 * * * *', '7 * * * *',
	'0 */6 * * *', '0 */5 * * *', '30 8-18 * * *', '*/5 8-17 * * 1-5',
	'10 2,14 * * *', '0 0,23 * * *', '0 3 * * *', '0 3 * * 1-5',
	'0 3 * * mon', '0 3 * * 1,4', '0 3 * * 0', '0 3 * * 7', '0 3 * * SUN',
	'0 3 1 * *', '0 3 1,15 * *', '0 3 13 * 5', '0 3 */2 * 5', '0 3 $ * *',
	'0 3 1 jan,Jul *', '0 3 1 1 *', '0 3 29 2 *', '0 3,4 1 * *',
	'@hourly', '@daily', '@midnight', '@weekly', '@monthly',
	'1 second', '5 seconds', ' 30  Seconds ', '59 seconds',
	E'\t*/10   *\t* * * ']) schedule, le_cron_ticks(schedule) t;

-- invalid schedules, and schedules that are never due
CREATE FUNCTION regress_le_refused(schedule text) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
	RETURN le_cron_every(schedule)::text;
EXCEPTION WHEN invalid_parameter_value THEN
	RETURN 'refused';
END $$;
SELECT schedule, regress_le_refused(schedule)
FROM unnest(ARRAY[
	'', '@reboot', '* * * *', '* * * * * *', '60 * * * *', '* 24 * * *',
	'* * 0 * *', '* * 32 * *', '* * * 13 *', '* * * * 8', '* * * foo *',
	'5/15 * * * *', '*/0 * * * *', '9-5 * * * *', '1,,2 * * * *',
	'-1 * * * *', '1- * * * *', 'mon * * * *', '0 3 30 2 *', '0 seconds',
	'60 seconds', '5 minutes', '999999999999 seconds', '1.5 * * * *']) schedule;
\set VERBOSITY default
SELECT le_cron_every('@reboot');
\set VERBOSITY terse

-- summer time takes an hour, and the tick's boundaries are those of UTC: a day
-- has a run of its own only where both hours are in the same one
SET cron.timezone = 'Europe/Berlin';
SELECT schedule, t.*
FROM unnest(ARRAY['*/5 * * * *', '0 * * * *', '0,59 1,3 * * *', '0 */6 * * *',
	'30 0 * * *', '0 1 * * *', '30 1 * * *', '0 2 * * *', '30 2 * * *',
	'0 3 * * *', '0 3 * * 1', '30 1 * * 1', '30 1,23 * * 1',
	'0 3 1 * *']) schedule, le_cron_ticks(schedule) t;
-- all runs of ten years at 03:00 in Berlin, and their ticks of a day
SELECT every, count(*) = count(DISTINCT date_bin(every,
	t AT TIME ZONE 'Europe/Berlin', '2000-01-01 00:00Z'))
FROM le_cron_every('0 3 * * *') every,
	generate_series('2026-01-01 03:00', timestamp '2036-01-01 03:00', '1 day') t
GROUP BY every;
SET cron.timezone = 'America/New_York';
SELECT schedule, le_cron_every(schedule)
FROM unnest(ARRAY['0 18 * * *', '0 19 * * *', '0 20 * * *']) schedule;
SET cron.timezone = 'Asia/Kolkata';
SELECT schedule, le_cron_every(schedule)
FROM unnest(ARRAY['0 3 * * *', '0 3,12 * * *', '0 3,12 * * 1',
	'10,50 5 * * *']) schedule;
RESET cron.timezone;

-- the CALL, quoted, and back
SELECT le_run_call('e', 'SELECT 1');
SELECT le_run_call('e', $q$SELECT 'it''s', $$a\b$$, "x"; -- end$q$, 'night''s',
	'1 day', '5 min', true, 'none');
SELECT le_run_call('e', 'SELECT 1', 'j', '1 min', missed => 'all',
	max_missed => 7, timeout => '90 s');
SET intervalstyle = 'iso_8601';
SELECT le_run_call('e', 'SELECT 1', 'j', '1 day 02:03:04.5');
RESET intervalstyle;
SELECT c = back.command AS same, back.election, back.job
FROM unnest(ARRAY[
	'SELECT 1', E'SELECT ''it''''s'';\n\tSELECT $$a\\b$$;',
	$q$DO $x$ BEGIN PERFORM 'y'; END $x$$q$, E'SELECT E''\\n'' -- no end',
	'CALL p($_$ ''a'' $_$)', 'SELECT ''é''']) c,
	le_run_command(le_run_call('e/f', c, E'back\\slash''s', '1 min')) back;
SELECT call, back.* FROM unnest(ARRAY[
	'CALL public.le_run(command => ''SELECT 1'', election => ''e'');',
	'CALL "le_run"(''e'', $$SELECT 1$$, every => interval ''1 min'', job => ''j'')',
	'CALL le_run(''e'', ''SELECT '' || 1)', 'CALL le_run(''e'', NULL)',
	'CALL le_run(''e'', ''SELECT 1''); SELECT 2', 'CALL other(''e'', ''x'')',
	'SELECT le_run(''e'', ''x'')', '', '-- CALL le_run(''e'', ''x'')']) call,
	le_run_command(call) back;

-- refused as le_run() does
SELECT le_run_call(NULL, 'SELECT 1');
SELECT le_run_call('e', NULL);
SELECT le_run_call('no name', 'SELECT 1');
SELECT le_run_call('e', '');
SELECT le_run_call('e', 'SELEC');
SELECT le_run_call('e', 'SELECT 1; VACUUM');
SELECT le_run_call('e', 'BEGIN; SELECT 1; COMMIT');
SELECT le_run_call('e', 'SELECT 1', every => '1 day');
SELECT le_run_call('e', 'SELECT 1', 'j', '1 month');
SELECT le_run_call('e', 'SELECT 1', 'j', '1 min', '1 min');
SELECT le_run_call('e', 'SELECT 1', 'j', '1 min', on_loss => 'never');
SELECT le_run_call('e', 'SELECT 1', 'j', '1 min', missed => 'never');
SELECT le_run_call('e', 'SELECT 1', 'j', '1 min', missed => NULL);
SELECT le_run_call('e', 'SELECT 1', 'j', '1 min', max_missed => 0);
SELECT le_run_call('e', 'SELECT 1', 'j', '1 min', timeout => '-1 s');
SELECT le_run_call('e', 'SELECT 1', missed => 'all');

SELECT * FROM le_cron_adopt(NULL, '%');
SELECT * FROM le_cron_adopt('e', jobs => NULL);
SELECT * FROM le_cron_adopt('e', '%', dry_run => NULL);
SELECT * FROM le_cron_release(NULL);
SELECT * FROM le_cron_release('e', dry_run => NULL);

-- without pg_cron, and where it is elsewhere
\set VERBOSITY default
SELECT le_cron_schedule('j', '* * * * *', 'SELECT 1', 'e');
SET cron.database_name = 'elsewhere';
SELECT * FROM le_cron_adopt('e', '%');
RESET cron.database_name;
\set VERBOSITY terse
SELECT le_cron_unschedule('j');
SELECT * FROM le_cron_jobs();
SELECT * FROM le_cron_adopt('no name', '%');
SELECT * FROM le_cron_release('e', dry_run => false);

-- another table of that name is not taken for pg_cron's
CREATE SCHEMA cron CREATE TABLE job (jobid bigint, jobname text, schedule text,
	command text, database text, username text);
SELECT * FROM le_cron_jobs();
SELECT le_cron_alter(1, 'SELECT 1');
DROP SCHEMA cron CASCADE;

DROP FUNCTION regress_le_refused;
DROP EXTENSION leader_election;
