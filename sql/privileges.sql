-- Functions that need no grant, those of the documented grants, and the rest.
CREATE EXTENSION leader_election;
SET client_min_messages = error;
DROP ROLE IF EXISTS regress_le_nobody, regress_le_job, regress_le_monitor;
RESET client_min_messages;
CREATE ROLE regress_le_nobody;
CREATE ROLE regress_le_job;
CREATE ROLE regress_le_monitor;
SELECT le_acquire('regress/led');

-- every role may check whether this instance leads
SET ROLE regress_le_nobody;
SELECT le_is_leader('regress/led'), le_is_leader('regress/other');
SELECT le_fencing_token('regress/led') > 0 AS has_token,
	le_fencing_token('regress/other') AS other;
SELECT le_version() <> '' AS has_version;

-- and nothing else
SELECT le_acquire('regress/privileges');
\echo :LAST_ERROR_SQLSTATE
SELECT le_renew('regress/led');
SELECT le_release('regress/led');
SELECT le_campaign('regress/privileges');
SELECT le_withdraw('regress/privileges');
SELECT le_step_down();
SELECT le_step_down('regress/led');
SELECT le_accept_store('regress/led');
SELECT le_require_leader('regress/led');
SELECT le_fence_guard('pg_class', 'regress/led');
SELECT le_current_leader('regress/led');
SELECT * FROM le_leader('regress/led');
SELECT * FROM le_status;
SELECT * FROM le_nodes;
SELECT * FROM le_status();
SELECT * FROM le_nodes();
SELECT * FROM le_events;
SELECT * FROM le_stat;
SELECT le_stat_reset();
SELECT * FROM le_check_config();
SET leader_election.eligible = off;
ALTER SYSTEM SET leader_election.eligible = off;
RESET ROLE;

-- the grants of a job
GRANT EXECUTE ON FUNCTION le_acquire(text, text, interval, text, text, interval),
	le_renew(text, text), le_release(text) TO regress_le_job;
SET ROLE regress_le_job;
SELECT le_acquire('regress/privileges', scope => 'session');
SELECT le_renew('regress/privileges');
SELECT le_is_leader('regress/privileges');
SELECT le_release('regress/privileges');
SELECT le_step_down('regress/privileges');
SELECT le_campaign('regress/privileges');
SELECT * FROM le_status;
RESET ROLE;

-- le_accept_store() is for superusers, even with a grant
GRANT EXECUTE ON FUNCTION le_accept_store(text) TO regress_le_job;
SET ROLE regress_le_job;
SELECT le_accept_store('regress/privileges');
\echo :LAST_ERROR_SQLSTATE
RESET ROLE;

-- monitoring sees the views, and changes nothing
GRANT pg_monitor TO regress_le_monitor;
SET ROLE regress_le_monitor;
SELECT election, state FROM le_status WHERE election = 'regress/led';
SELECT count(*) FROM le_nodes;
SELECT count(*) > 0 AS events FROM le_events WHERE election = 'regress/led';
SELECT count(*) FROM le_stat WHERE election = 'regress/led';
SELECT le_stat_reset();
SELECT le_release('regress/led');
SELECT le_current_leader('regress/led');
RESET ROLE;

-- through a function of an owner with the grants
CREATE FUNCTION regress_le_take(text) RETURNS bool
	LANGUAGE sql SECURITY DEFINER
	RETURN le_acquire($1, scope => 'session');
ALTER FUNCTION regress_le_take(text) OWNER TO regress_le_job;
SET ROLE regress_le_nobody;
SELECT regress_le_take('regress/privileges');
SELECT le_is_leader('regress/privileges');
RESET ROLE;
SELECT le_release('regress/privileges');

SELECT le_is_leader('regress/led');
SELECT le_release('regress/led');
DROP FUNCTION regress_le_take(text);
DROP EXTENSION leader_election;
DROP ROLE regress_le_nobody, regress_le_job, regress_le_monitor;
