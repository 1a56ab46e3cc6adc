-- The gate and the fence, as far as one session can show them: store local,
-- terms that end by a release.  Messages contain the token, which differs from
-- run to run, so most errors are shown by their SQLSTATE.
CREATE EXTENSION leader_election;
CREATE TEMP TABLE done (what text);
\set VERBOSITY terse

-- arguments
SELECT le_require_leader(NULL);
SELECT le_require_leader('regress/gate', NULL);
SELECT le_require_leader('regress/gate', '-1 s');
SELECT le_require_leader('regress/gate', '1 month');
SELECT le_require_leader('not good');
SELECT le_require_leader('regress/gate', on_loss => 'kill');
SELECT le_acquire('regress/gate', scope => 'transaction', on_loss => 'kill');
SELECT le_acquire('regress/gate', on_loss => 'cancel');
SELECT le_is_leader('regress/gate');

-- the gate
SELECT le_require_leader('regress/gate');
\echo :LAST_ERROR_SQLSTATE
SELECT le_acquire('regress/gate');
SELECT le_require_leader('regress/gate') = le_fencing_token('regress/gate') AS token;
SELECT le_require_leader('regress/gate', '1 s') > 0 AS passes;
\set VERBOSITY sqlstate
SELECT le_require_leader('regress/gate', '1 hour');
\set VERBOSITY terse

-- it holds until the commit, which needs the same term
BEGIN;
SELECT le_require_leader('regress/gate') > 0 AS passes;
INSERT INTO done VALUES ('held');
COMMIT;
BEGIN;
SELECT le_require_leader('regress/gate') > 0 AS passes;
INSERT INTO done VALUES ('released');
SELECT le_release('regress/gate');
COMMIT;
\echo :LAST_ERROR_SQLSTATE
BEGIN;
SELECT le_acquire('regress/gate', wait => '1 min');
SELECT le_require_leader('regress/gate') > 0 AS passes;
INSERT INTO done VALUES ('another term');
SELECT le_release('regress/gate');
SELECT le_acquire('regress/gate', wait => '1 min');
COMMIT;
\echo :LAST_ERROR_SQLSTATE
BEGIN;
SELECT le_require_leader('regress/gate') > 0 AS passes;
SELECT le_release('regress/gate');
SELECT le_acquire('regress/gate', wait => '1 min');
\set VERBOSITY sqlstate
SELECT le_require_leader('regress/gate');
\set VERBOSITY terse
ROLLBACK;
-- a transaction that is not bound can commit
BEGIN;
INSERT INTO done VALUES ('not bound');
SELECT le_is_leader('regress/gate');
SELECT le_release('regress/gate');
COMMIT;
SELECT * FROM done;
TRUNCATE done;

-- several elections: all of them count
SELECT le_acquire('regress/one'), le_acquire('regress/two');
BEGIN;
SELECT le_require_leader('regress/one') > 0, le_require_leader('regress/two') > 0;
INSERT INTO done VALUES ('both');
COMMIT;
BEGIN;
SELECT le_require_leader('regress/one') > 0, le_require_leader('regress/two') > 0;
INSERT INTO done VALUES ('one');
SELECT le_release('regress/two');
COMMIT;
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM done;
TRUNCATE done;

-- savepoints: a rollback ends the binding, a release passes it on
BEGIN;
SAVEPOINT a;
SELECT le_require_leader('regress/one') > 0 AS passes;
ROLLBACK TO a;
SELECT le_release('regress/one');
INSERT INTO done VALUES ('rolled back to');
COMMIT;
SELECT le_acquire('regress/one', wait => '1 min');
BEGIN;
SAVEPOINT a;
SAVEPOINT b;
SELECT le_require_leader('regress/one') > 0 AS passes;
RELEASE b;
RELEASE a;
SELECT le_release('regress/one');
INSERT INTO done VALUES ('released');
COMMIT;
\echo :LAST_ERROR_SQLSTATE
SELECT le_acquire('regress/one', wait => '1 min');
BEGIN;
SELECT le_require_leader('regress/one') > 0 AS passes;
SAVEPOINT a;
SELECT le_require_leader('regress/one') > 0 AS passes;
ROLLBACK TO a;
SELECT le_release('regress/one');
INSERT INTO done VALUES ('bound before');
COMMIT;
\echo :LAST_ERROR_SQLSTATE
-- an error that is caught ends it as well
BEGIN;
DO $$
BEGIN
	PERFORM le_acquire('regress/one', wait => '1 min');
	PERFORM le_require_leader('regress/one');
	RAISE division_by_zero;
EXCEPTION WHEN division_by_zero THEN
	PERFORM le_release('regress/one');
END $$;
INSERT INTO done VALUES ('caught');
COMMIT;
-- LE001 can be caught; LE002 comes too late for that
DO $$
BEGIN
	PERFORM le_require_leader('regress/one');
EXCEPTION WHEN SQLSTATE 'LE001' THEN
	INSERT INTO done VALUES ('not leader');
END $$;
SELECT * FROM done;
TRUNCATE done;

-- a procedure that commits is bound up to its COMMIT, and no further
CREATE PROCEDURE regress_le_work(again bool) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM le_acquire('regress/one', wait => '1 min');
	PERFORM le_require_leader('regress/one');
	INSERT INTO done VALUES ('first');
	COMMIT;
	IF again THEN
		PERFORM le_require_leader('regress/one');
	END IF;
	PERFORM le_release('regress/one');
	INSERT INTO done VALUES ('second');
	COMMIT;
END $$;
CALL regress_le_work(false);
CALL regress_le_work(true);
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM done;
TRUNCATE done;
DROP PROCEDURE regress_le_work;

-- a rollback needs no term, and ends all bindings
SELECT le_acquire('regress/one', wait => '1 min');
BEGIN;
SELECT le_require_leader('regress/one') > 0 AS passes;
SELECT le_release('regress/one');
ROLLBACK;
INSERT INTO done VALUES ('later');
SELECT * FROM done;

-- a prepared transaction could be committed by any session at any time
SELECT le_acquire('regress/one', wait => '1 min');
BEGIN;
SELECT le_require_leader('regress/one') > 0 AS passes;
PREPARE TRANSACTION 'regress_le';
SELECT count(*) FROM pg_prepared_xacts;

-- read-only and serializable transactions
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY;
SELECT le_require_leader('regress/one') > 0 AS passes;
COMMIT;

-- a gate inside a statement
CREATE TABLE regress_le_rows AS
	SELECT i FROM generate_series(1, 3) i, le_require_leader('regress/one');
SELECT count(*) FROM regress_le_rows;
DROP TABLE regress_le_rows;
SELECT le_release('regress/one');
CREATE TABLE regress_le_rows AS
	SELECT i FROM generate_series(1, 3) i, le_require_leader('regress/one');
SELECT to_regclass('regress_le_rows');

-- a table that several instances write to
CREATE TABLE "regress le guard" (note text, election text PRIMARY KEY, fencing_token bigint NOT NULL);
SELECT le_fence_guard(NULL, 'regress/one');
SELECT le_fence_guard('"regress le guard"', NULL);
SELECT le_fence_guard('"regress le guard"', 'regress/one');
SELECT le_acquire('regress/one', wait => '1 min');
SELECT le_fence_guard('done', 'regress/one');
\echo :LAST_ERROR_SQLSTATE
SELECT le_fence_guard(0, 'regress/one');
\echo :LAST_ERROR_SQLSTATE
SELECT le_fence_guard('"regress le guard"', 'regress/one') = le_fencing_token('regress/one') AS token;
SELECT le_fence_guard('"regress le guard"', 'regress/one') = le_fencing_token('regress/one') AS again;
SELECT election, fencing_token = le_fencing_token(election) AS noted FROM "regress le guard";
-- after an older term, this one passes
UPDATE "regress le guard" SET fencing_token = 1;
SELECT le_fence_guard('"regress le guard"', 'regress/one') > 1 AS passes;
-- after a later term, this one is refused
UPDATE "regress le guard" SET fencing_token = fencing_token + 1;
SELECT le_fence_guard('"regress le guard"', 'regress/one');
\echo :LAST_ERROR_SQLSTATE
-- another election, in the same table; it binds the transaction
BEGIN;
SELECT le_fence_guard('"regress le guard"', 'regress/one');
ROLLBACK;
SELECT le_acquire('regress/two', wait => '1 min');
BEGIN;
SELECT le_fence_guard('"regress le guard"', 'regress/two') > 0 AS passes;
SELECT le_release('regress/two');
COMMIT;
\echo :LAST_ERROR_SQLSTATE
SELECT count(*) FROM "regress le guard";
-- objects of others first in the search path do not matter
CREATE SCHEMA regress_le;
CREATE FUNCTION regress_le.yes(bigint, bigint) RETURNS bool LANGUAGE sql RETURN true;
CREATE OPERATOR regress_le.<= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = regress_le.yes);
SET search_path = regress_le, pg_catalog, public;
SELECT le_fence_guard('"regress le guard"', 'regress/one');
RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA regress_le CASCADE;
RESET client_min_messages;
SELECT le_release('regress/one');
DROP TABLE "regress le guard";

-- more elections than one transaction can depend on
SELECT count(le_acquire('regress/n' || i)) FROM generate_series(1, 17) i;
BEGIN;
SELECT count(le_require_leader('regress/n' || i)) FROM generate_series(1, 16) i;
SELECT count(le_require_leader('regress/n' || i)) FROM generate_series(1, 16) i;
SELECT le_require_leader('regress/n17');
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
SELECT le_require_leader('regress/n17') > 0 AS passes;
SELECT count(le_release('regress/n' || i)) FROM generate_series(1, 17) i;

\set VERBOSITY default
DROP EXTENSION leader_election;
