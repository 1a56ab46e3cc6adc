-- Ticks of jobs, as a user with only the grants that jobs need.
CREATE EXTENSION leader_election;
SET client_min_messages = error;
DROP ROLE IF EXISTS regress_le_nobody, regress_le_job;
RESET client_min_messages;
CREATE ROLE regress_le_nobody;
CREATE ROLE regress_le_job;
GRANT EXECUTE ON FUNCTION le_claim(text, text, timestamptz),
	le_complete(text, text, timestamptz) TO regress_le_job;
GRANT EXECUTE ON PROCEDURE le_run(text, text, text, interval, timestamptz,
	interval, boolean, text, text, integer, interval) TO regress_le_job;
CREATE TABLE regress_le_work (what text, tick timestamptz);
GRANT SELECT, INSERT ON regress_le_work TO regress_le_job;

-- the store keeps claims of earlier tests, so this one's ticks are of now
SELECT date_trunc('milliseconds', clock_timestamp()) AS now \gset
SELECT timestamptz :'now' + interval '1 millisecond' AS later \gset

SET ROLE regress_le_nobody;
SELECT le_claim('regress/jobs', 'nightly', :'now');
SELECT le_complete('regress/jobs', 'nightly', :'now');
CALL le_run('regress/jobs', 'SELECT 1');
SELECT * FROM le_claims;
SELECT le_tick() IS NULL AS none;

-- without leadership nothing happens, and no error
SET ROLE regress_le_job;
SELECT le_claim('regress/jobs', 'nightly', :'now');
CALL le_run('regress/jobs', 'SELECT 1/0');
CALL le_run('regress/jobs', 'SELECT 1/0', job => 'run', tick => :'now');

RESET ROLE;
SELECT le_acquire('regress/jobs');
SET ROLE regress_le_job;
SELECT le_claim('regress/jobs', 'nightly', :'now');
SELECT le_claim('regress/jobs', 'nightly', :'now');
SELECT le_complete('regress/jobs', 'nightly', :'now');
SELECT le_complete('regress/jobs', 'nightly', :'now');
SELECT le_claim('regress/jobs', 'nightly', :'now');
SELECT le_claim('regress/jobs', 'nightly', :'later');

-- a command of le_run() has the rights of the caller
CALL le_run('regress/jobs', 'INSERT INTO regress_le_work VALUES (''run'', le_tick())',
	job => 'run', tick => :'now');
CALL le_run('regress/jobs', 'INSERT INTO regress_le_work VALUES (''run'', le_tick())',
	job => 'run', tick => :'now');
SELECT what, tick = :'now' AS same_tick FROM regress_le_work;
CALL le_run('regress/jobs', 'DELETE FROM regress_le_work', job => 'run',
	tick => :'later');
SELECT * FROM le_claims;

RESET ROLE;
SELECT job, tick = :'now' AS now, try, state,
	fencing_token = le_fencing_token('regress/jobs') AS this_term,
	claimed_at <= clock_timestamp() AS claimed, ended_at >= claimed_at AS ended
FROM le_claims WHERE election = 'regress/jobs' ORDER BY job;

SELECT le_release('regress/jobs');
DROP TABLE regress_le_work;
DROP EXTENSION leader_election;
DROP ROLE regress_le_nobody, regress_le_job;
