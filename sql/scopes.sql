-- The owner of an election on this instance: the instance, a session or a
-- transaction (transactions.sql).
CREATE EXTENSION leader_election;

-- a session's
SELECT le_acquire('regress/session', scope => 'session');
SELECT le_is_leader('regress/session');
SELECT le_fencing_token('regress/session') AS token \gset
SELECT le_acquire('regress/session', scope => 'session');
SELECT le_fencing_token('regress/session') = :token AS same_token;
SELECT le_remaining('regress/session') > '0'
	AND le_remaining('regress/session') <=
		current_setting('leader_election.lease_ttl')::interval AS remains;
SELECT scope, pid = pg_backend_pid() AS my_pid FROM le_status
WHERE election = 'regress/session';
SELECT le_current_leader('regress/session') IS NOT NULL AS known;
-- renewed and released by the session that holds it
SELECT le_renew('regress/session', 'x');
SELECT le_release('regress/session');
SELECT le_is_leader('regress/session');

-- it ends with the session, and the next session has another
SELECT le_acquire('regress/session', scope => 'session');
SELECT le_fencing_token('regress/session') AS token \gset
SELECT current_database() AS home \gset
\c :home
SELECT le_is_leader('regress/session');
SELECT le_fencing_token('regress/session');
SELECT le_renew('regress/session');
SELECT le_acquire('regress/session', scope => 'session', wait => '1 min');
SELECT pid = pg_backend_pid() AS my_pid FROM le_status
WHERE election = 'regress/session';
SELECT le_fencing_token('regress/session') > :token AS higher;
SELECT le_release('regress/session');

-- one scope keeps the others out: false, not an error
SELECT le_acquire('regress/scope');
SELECT le_acquire('regress/scope', scope => 'session');
SELECT le_acquire('regress/scope', scope => 'transaction');
SELECT le_is_leader('regress/scope');
SELECT le_release('regress/scope');
SELECT le_acquire('regress/scope', scope => 'session');
SELECT le_acquire('regress/scope');
SELECT scope FROM le_status WHERE election = 'regress/scope';
-- the session itself would wait for itself
SELECT le_acquire('regress/scope', scope => 'transaction');
\echo :LAST_ERROR_SQLSTATE
SELECT le_release('regress/scope');

-- waiting ends in time, and leaves nothing behind
SELECT le_acquire('regress/scope');
SELECT le_acquire('regress/scope', scope => 'session', wait => '200 ms');
SET statement_timeout = '200 ms';
SELECT le_acquire('regress/scope', scope => 'session', wait => '1 hour');
RESET statement_timeout;
\echo :LAST_ERROR_SQLSTATE
SELECT le_release('regress/scope');
SELECT le_is_leader('regress/scope');
-- and a canceled call does not win later
SELECT le_acquire('regress/scope', wait => '1 min');
SELECT scope FROM le_status WHERE election = 'regress/scope';
SELECT le_release('regress/scope');

-- stepping down ends terms of sessions, too
SELECT le_acquire('regress/scope', scope => 'session');
SELECT le_step_down('regress/scope', '0');
SELECT le_is_leader('regress/scope');

-- the node's survives the session
SELECT le_acquire('regress/node');
\c :home
SELECT le_is_leader('regress/node');
SELECT le_release('regress/node');

DROP EXTENSION leader_election;
