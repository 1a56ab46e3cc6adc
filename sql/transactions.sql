-- Scope "transaction" follows pg_advisory_xact_lock(); the other scopes
-- survive the end of a transaction.
CREATE EXTENSION leader_election;

-- node and session survive a rollback, as session-level locks do
BEGIN;
SELECT le_acquire('regress/node'), le_acquire('regress/session', scope => 'session');
ROLLBACK;
SELECT le_is_leader('regress/node'), le_is_leader('regress/session');
BEGIN;
SELECT le_release('regress/node'), le_release('regress/session');
ROLLBACK;
SELECT le_is_leader('regress/node'), le_is_leader('regress/session');

-- commit and rollback end it at once
BEGIN;
SELECT le_acquire('regress/xact', scope => 'transaction');
SELECT le_is_leader('regress/xact');
SELECT le_fencing_token('regress/xact') AS token \gset
SELECT scope, pid = pg_backend_pid() AS my_pid FROM le_status
WHERE election = 'regress/xact';
COMMIT;
SELECT le_is_leader('regress/xact'), le_fencing_token('regress/xact');
BEGIN;
SELECT le_acquire('regress/xact', scope => 'transaction', wait => '1 min');
SELECT le_fencing_token('regress/xact') > :token AS higher;
ROLLBACK;
SELECT le_is_leader('regress/xact');

-- so does an error
BEGIN;
SELECT le_acquire('regress/xact', scope => 'transaction', wait => '1 min');
SELECT 1 / 0;
COMMIT;
SELECT le_is_leader('regress/xact');

-- without a transaction block the statement is one
SELECT le_acquire('regress/xact', scope => 'transaction', wait => '1 min');
SELECT le_is_leader('regress/xact');

-- released by hand: the transaction is bound to a term that is over, and a
-- later one does not help
BEGIN;
SELECT le_acquire('regress/xact', scope => 'transaction', wait => '1 min');
SELECT le_acquire('regress/xact', scope => 'transaction');
SELECT le_renew('regress/xact', 'x');
SELECT le_release('regress/xact');
SELECT le_is_leader('regress/xact');
\set VERBOSITY sqlstate
COMMIT;
BEGIN;
SELECT le_acquire('regress/xact', scope => 'transaction', wait => '1 min');
SELECT le_release('regress/xact');
SELECT le_acquire('regress/xact', scope => 'transaction', wait => '1 min');
\set VERBOSITY default
ROLLBACK;
SELECT le_is_leader('regress/xact');

-- ROLLBACK TO ends only leases taken since the savepoint
BEGIN;
SELECT le_acquire('regress/xact/1', scope => 'transaction');
SAVEPOINT a;
SELECT le_acquire('regress/xact/2', scope => 'transaction');
SAVEPOINT b;
SELECT le_acquire('regress/xact/3', scope => 'transaction');
RELEASE SAVEPOINT b;
SELECT i, le_is_leader('regress/xact/' || i) FROM generate_series(1, 3) i;
ROLLBACK TO SAVEPOINT a;
SELECT i, le_is_leader('regress/xact/' || i) FROM generate_series(1, 3) i;
-- a lease from before the savepoint stays, even if acquired again inside
SAVEPOINT c;
SELECT le_acquire('regress/xact/1', scope => 'transaction');
ROLLBACK TO SAVEPOINT c;
SELECT le_is_leader('regress/xact/1');
COMMIT;
SELECT i, le_is_leader('regress/xact/' || i) FROM generate_series(1, 3) i;

-- a block with an exception handler is a savepoint as well
BEGIN;
DO $$
BEGIN
	PERFORM le_acquire('regress/xact', scope => 'transaction', wait => '1 min');
	RAISE NOTICE 'inside: %', le_is_leader('regress/xact');
	RAISE division_by_zero;
EXCEPTION WHEN division_by_zero THEN
	RAISE NOTICE 'after: %', le_is_leader('regress/xact');
END $$;
DO $$
BEGIN
	PERFORM le_acquire('regress/xact', scope => 'transaction', wait => '1 min');
EXCEPTION WHEN division_by_zero THEN
	NULL;
END $$;
SELECT le_is_leader('regress/xact');
COMMIT;
SELECT le_is_leader('regress/xact');

-- a term must not outlive its session unnoticed
BEGIN;
SELECT le_acquire('regress/xact', scope => 'transaction', wait => '1 min');
PREPARE TRANSACTION 'regress_le';
\echo :LAST_ERROR_SQLSTATE
SELECT le_is_leader('regress/xact');

-- the session has it, so its transaction must not end it
SELECT le_acquire('regress/session', scope => 'session');
BEGIN;
SELECT le_acquire('regress/session', scope => 'transaction');
ROLLBACK;
SELECT le_is_leader('regress/session');
BEGIN;
SELECT le_acquire('regress/session', scope => 'session');
ROLLBACK;
SELECT le_is_leader('regress/session');
SELECT le_release('regress/session');

-- a canceled wait leaves nothing, even if the transaction goes on
SELECT le_acquire('regress/node');
BEGIN;
SAVEPOINT a;
SET LOCAL statement_timeout = '200 ms';
SELECT le_acquire('regress/node', scope => 'transaction', wait => '1 hour');
ROLLBACK TO a;
SELECT le_release('regress/node');
SELECT le_is_leader('regress/node');
SELECT le_acquire('regress/node', scope => 'transaction', wait => '1 min');
COMMIT;
SELECT le_is_leader('regress/node');

-- read-only and serializable transactions can ask and lead
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY;
SELECT le_acquire('regress/xact', scope => 'transaction', wait => '1 min');
SELECT le_is_leader('regress/xact');
COMMIT;

-- nothing is left
SELECT count(*) FROM le_status
WHERE election LIKE 'regress/%' AND fencing_token IS NOT NULL
  AND le_is_leader(election);

DROP EXTENSION leader_election;
