-- Elections that a session may change or depend on, and the longest hold-off
-- that it may request.
CREATE EXTENSION leader_election;
CREATE TABLE regress_le_guard (election text PRIMARY KEY, fencing_token bigint);
SHOW leader_election.allowed_elections;
SELECT le_acquire('regress/a/1'), le_acquire('regress/b');

-- all functions that change or bind anything check the list
SET leader_election.allowed_elections = 'regress/a/, regress/c';
SELECT le_acquire('regress/b');
\echo :LAST_ERROR_SQLSTATE
SELECT le_acquire('regress/b', scope => 'session');
SELECT le_acquire('regress/b', scope => 'transaction');
SELECT le_renew('regress/b');
SELECT le_release('regress/b');
SELECT le_campaign('regress/b');
SELECT le_progress('regress/b');
SELECT le_withdraw('regress/b');
SELECT le_step_down('regress/b');
SELECT le_accept_store('regress/b');
SELECT le_require_leader('regress/b');
SELECT le_fence_guard('regress_le_guard', 'regress/b');
SELECT le_claim('regress/b', 'job', '2030-01-01 00:00:00+00');
SELECT le_complete('regress/b', 'job', '2030-01-01 00:00:00+00');
SELECT le_forget_job('regress/b', 'job');
CALL le_run('regress/b', 'SELECT 1', job => 'job');
\echo :LAST_ERROR_SQLSTATE
-- an invalid name is reported first
SELECT le_acquire('regress//b');

-- functions that only read need no entry
SELECT le_is_leader('regress/b'), le_fencing_token('regress/b') > 0 AS has_token,
	le_current_leader('regress/b') IS NOT NULL AS known;
SELECT is_self FROM le_leader('regress/b');

-- a prefix ends in a slash; a name matches only itself
SELECT le_renew('regress/a/1'), le_acquire('regress/c');
SELECT le_acquire('regress/a');
SELECT le_acquire('regress/c/1');
SELECT le_acquire('regress/cc');
SELECT le_require_leader('regress/a/1') > 0 AS bound;

-- stepping down from all means all that are allowed
SET leader_election.allowed_elections = 'regress/d';
SELECT le_step_down();
SELECT le_is_leader('regress/a/1') AS a, le_is_leader('regress/b') AS b,
	le_is_leader('regress/c') AS c;
SET leader_election.allowed_elections = 'regress/a/, regress/c';
SELECT le_step_down();
SELECT le_is_leader('regress/a/1') AS a, le_is_leader('regress/b') AS b,
	le_is_leader('regress/c') AS c;
SELECT election, state FROM le_status
WHERE election IN ('regress/a/1', 'regress/b', 'regress/c') ORDER BY election;
SET leader_election.allowed_elections = '*';
SELECT le_is_leader('regress/b'), le_renew('regress/b');
-- a role that may begin a hold-off may end one
SELECT le_step_down('regress/a/1', '0');
SELECT le_acquire('regress/a/1');

-- none
SET leader_election.allowed_elections = '';
SELECT le_release('regress/b');
SELECT le_step_down();
RESET leader_election.allowed_elections;
SELECT le_is_leader('regress/b');

-- invalid lists
SET leader_election.allowed_elections = 'regress/b, x y';
SET leader_election.allowed_elections = '/';
SET leader_election.allowed_elections = 'regress/*';
SET leader_election.allowed_elections = 'regress//';
DO $$
BEGIN
	PERFORM set_config('leader_election.allowed_elections', repeat('a,', 513), false);
	RAISE 'accepted';
EXCEPTION
	WHEN invalid_parameter_value THEN
		RAISE NOTICE 'refused';
END $$;
SELECT set_config('leader_election.allowed_elections', repeat('a,', 512), false) = repeat('a,', 512) AS longest;
RESET leader_election.allowed_elections;

-- the longest hold-off
SELECT le_step_down('regress/b', '1 day 1 microsecond');
\echo :LAST_ERROR_SQLSTATE
SELECT le_step_down(NULL, '366 days');
SELECT le_is_leader('regress/b');
SET leader_election.max_hold_off = '30s';
SELECT le_step_down('regress/b', '31 s');
SET leader_election.max_hold_off = '366d';
SELECT le_step_down('regress/b', '366 days');
SELECT le_step_down('regress/b', '366 days 1 microsecond');
SELECT le_step_down('regress/b', '0');
RESET leader_election.max_hold_off;

-- a role can change neither setting
CREATE ROLE regress_le_role;
SET ROLE regress_le_role;
SET leader_election.allowed_elections = '*';
SET leader_election.max_hold_off = '2d';
ALTER ROLE regress_le_role SET leader_election.allowed_elections = '*';
RESET ROLE;

SELECT le_step_down(NULL, '0');
DROP ROLE regress_le_role;
DROP TABLE regress_le_guard;
DROP EXTENSION leader_election;
