-- Which tables le_fence_guard() takes, and what it says of one that does not
-- show the token.  Tokens differ from run to run.
CREATE EXTENSION leader_election;
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE FUNCTION told(rel regclass) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	message text;
	detail text;
	hint text;
BEGIN
	RETURN CASE WHEN le_fence_guard(rel, 'regress/guard') = le_fencing_token('regress/guard')
		THEN 'passes' END;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
		hint = PG_EXCEPTION_HINT;
	RETURN regexp_replace(concat_ws(E'\n', sqlstate, message, detail, nullif(hint, '')),
		'token (than )?[0-9]+', 'token \1N');
END $$;
SELECT le_acquire('regress/guard', wait => '1 min');

-- no key: an older leader would be let in by a second row
CREATE TABLE guard (election text, fencing_token bigint, note text);
INSERT INTO guard VALUES ('regress/guard', 9000000000000000000);
SELECT told('guard');
SELECT count(*) FROM guard;
\pset tuples_only on
-- nor any of these
CREATE INDEX guard_index ON guard (election);
SELECT split_part(told('guard'), E'\n', 1);
DROP INDEX guard_index;
CREATE UNIQUE INDEX guard_index ON guard (election) WHERE note IS NULL;
SELECT split_part(told('guard'), E'\n', 1);
DROP INDEX guard_index;
CREATE UNIQUE INDEX guard_index ON guard (lower(election));
SELECT split_part(told('guard'), E'\n', 1);
DROP INDEX guard_index;
CREATE UNIQUE INDEX guard_index ON guard (election, note);
SELECT split_part(told('guard'), E'\n', 1);
DROP INDEX guard_index;
CREATE UNIQUE INDEX guard_index ON guard (note);
SELECT split_part(told('guard'), E'\n', 1);
DROP INDEX guard_index;
ALTER TABLE guard ADD CONSTRAINT guard_index UNIQUE (election) DEFERRABLE;
SELECT split_part(told('guard'), E'\n', 1);
ALTER TABLE guard DROP CONSTRAINT guard_index;
INSERT INTO guard VALUES ('regress/guard', 1);
CREATE UNIQUE INDEX CONCURRENTLY guard_index ON guard (election);
SELECT split_part(told('guard'), E'\n', 1);
DROP INDEX guard_index;
DELETE FROM guard WHERE fencing_token = 1;
-- but these
CREATE UNIQUE INDEX guard_index ON guard (election) INCLUDE (note);
SELECT told('guard');
DROP INDEX guard_index;
ALTER TABLE guard ADD PRIMARY KEY (election);
SELECT told('guard');
DELETE FROM guard;
SELECT told('guard'), told('guard');

-- the rows of inheriting tables are none of the guard's
CREATE TABLE heir () INHERITS (guard);
INSERT INTO heir VALUES ('regress/guard', 1);
SELECT told('guard'), (SELECT fencing_token FROM heir);
SELECT split_part(told('heir'), E'\n', 1);
DROP TABLE heir;

-- partitions
CREATE TABLE parted (election text, fencing_token bigint, PRIMARY KEY (election))
	PARTITION BY HASH (election);
CREATE TABLE part PARTITION OF parted FOR VALUES WITH (MODULUS 1, REMAINDER 0);
SELECT told('parted'), told('parted');
UPDATE parted SET fencing_token = fencing_token + 1;
SELECT told('parted');
SELECT told('part');
DROP TABLE parted;
CREATE TABLE parted (election text, fencing_token bigint, PRIMARY KEY (election, fencing_token))
	PARTITION BY RANGE (fencing_token);
CREATE TABLE part PARTITION OF parted DEFAULT;
SELECT split_part(told('parted'), E'\n', 1);
DROP TABLE parted;
CREATE TABLE parted (election text, fencing_token bigint) PARTITION BY LIST (election);
CREATE TABLE part PARTITION OF parted DEFAULT;
CREATE UNIQUE INDEX ON ONLY parted (election);
SELECT split_part(told('parted'), E'\n', 1);
DROP TABLE parted;

-- what is no table
CREATE VIEW guard_view AS SELECT * FROM guard;
SELECT told('guard_view');
CREATE INDEX guard_both ON guard (election, fencing_token);
SELECT told('guard_both');
DROP VIEW guard_view;
DROP INDEX guard_both;

-- what writes elsewhere, or not at all
CREATE TABLE noted (election text, fencing_token bigint);
INSERT INTO noted VALUES ('regress/guard', 0);
UPDATE guard SET fencing_token = 0;
CREATE RULE elsewhere AS ON UPDATE TO guard DO INSTEAD
	UPDATE noted SET fencing_token = new.fencing_token;
SELECT told('guard');
SELECT fencing_token FROM noted;
DROP RULE elsewhere ON guard;
CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS
	'BEGIN RETURN CASE WHEN tg_argv[0] = ''old'' THEN old END; END';
CREATE TRIGGER keep BEFORE INSERT OR UPDATE ON guard FOR EACH ROW EXECUTE FUNCTION keep();
SELECT told('guard');
UPDATE guard SET note = 'unchanged';
SELECT note FROM guard;
-- the token stands there, but this transaction has not locked the row
ALTER TABLE guard DISABLE TRIGGER keep;
UPDATE guard SET fencing_token = le_fencing_token('regress/guard');
ALTER TABLE guard ENABLE TRIGGER keep;
SELECT told('guard');
ALTER TABLE guard DISABLE TRIGGER keep;
UPDATE guard SET fencing_token = 9000000000000000000;
ALTER TABLE guard ENABLE TRIGGER keep;
SELECT told('guard');
DELETE FROM guard;
SELECT told('guard');
ALTER TABLE guard DISABLE TRIGGER keep;
INSERT INTO guard VALUES ('regress/guard', 0);
DROP TRIGGER keep ON guard;
CREATE TRIGGER keep BEFORE UPDATE ON guard FOR EACH ROW EXECUTE FUNCTION keep('old');
SELECT told('guard');
DROP TRIGGER keep ON guard;
UPDATE guard SET fencing_token = NULL;
SELECT told('guard');

-- row-level security
CREATE ROLE regress_le_guard;
GRANT EXECUTE ON FUNCTION le_fence_guard TO regress_le_guard;
GRANT SELECT, INSERT, UPDATE ON guard TO regress_le_guard;
ALTER TABLE guard ENABLE ROW LEVEL SECURITY;
CREATE POLICY reads ON guard FOR SELECT USING (note IS NULL);
CREATE POLICY inserts ON guard FOR INSERT WITH CHECK (true);
UPDATE guard SET fencing_token = 0, note = NULL;
SET ROLE regress_le_guard;
SELECT told('guard');
RESET ROLE;
UPDATE guard SET note = 'hidden';
SET ROLE regress_le_guard;
SELECT told('guard');
RESET ROLE;
CREATE POLICY updates ON guard FOR UPDATE USING (true);
SET ROLE regress_le_guard;
SELECT told('guard');
RESET ROLE;
UPDATE guard SET note = NULL;
SET ROLE regress_le_guard;
SELECT told('guard');
RESET ROLE;
UPDATE guard SET fencing_token = 9000000000000000000;
SET ROLE regress_le_guard;
SELECT told('guard');
RESET ROLE;
DELETE FROM guard;
DROP POLICY inserts ON guard;
SET ROLE regress_le_guard;
SELECT split_part(told('guard'), E'\n', 1);
RESET ROLE;

SELECT le_release('regress/guard');
DROP TABLE guard, noted;
DROP FUNCTION keep, told;
REVOKE EXECUTE ON FUNCTION le_fence_guard FROM regress_le_guard;
DROP ROLE regress_le_guard;
DROP EXTENSION leader_election;
