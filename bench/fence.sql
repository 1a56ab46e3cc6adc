-- bench/fence.sql: run by bench/run.
--
-- What the gate and the check at commit add to a transaction: the same
-- transaction, of one trivial statement, without and with them.  All kinds
-- take turns; the clock is the time that the process spent on a processor.
\set ON_ERROR_STOP on
\pset footer off
\pset tuples_only on
SET client_min_messages = warning;

CREATE TABLE bench_spent (kind int, round int, ns float8);
CREATE TABLE bench_rows (i int);
CREATE FUNCTION bench_clock_ns() RETURNS float8 LANGUAGE sql VOLATILE AS $$
	SELECT COALESCE(
		split_part(pg_read_file('/proc/self/schedstat', 0, 100, true), ' ', 1),
		(extract(epoch FROM clock_timestamp()) * 1e9)::text)::float8
$$;

CREATE PROCEDURE bench_fence(kind int, round int, n int) LANGUAGE plpgsql AS $$
DECLARE
	started float8 := bench_clock_ns();
BEGIN
	FOR i IN 1..n LOOP
		CASE kind
			WHEN 1 THEN
				PERFORM pg_is_in_recovery();
			WHEN 2 THEN
				PERFORM le_require_leader('bench/fence');
			WHEN 3 THEN
				PERFORM le_require_leader('bench/fence', on_loss => 'cancel');
			WHEN 4 THEN
				PERFORM pg_is_in_recovery();
				INSERT INTO bench_rows VALUES (i);
			WHEN 5 THEN
				PERFORM le_require_leader('bench/fence');
				INSERT INTO bench_rows VALUES (i);
		END CASE;
		COMMIT;
	END LOOP;
	INSERT INTO bench_spent VALUES (kind, round,
		(bench_clock_ns() - started) / n);
END $$;

SELECT le_acquire('bench/fence') \g /dev/null
SET synchronous_commit = off;
SELECT format('CALL bench_fence(%s, %s, %s)', kind, round, 20000)
FROM generate_series(0, 9) round, generate_series(1, 5) kind
ORDER BY round, kind \gexec

\echo
\echo Cost of a transaction, in ns: median over 9 rounds of 20,000 each
\pset tuples_only off
WITH spent AS (
	SELECT kind, percentile_cont(0.5) WITHIN GROUP (ORDER BY ns) AS ns
	FROM bench_spent WHERE round > 0 GROUP BY kind)
SELECT title AS transaction, round(ns) AS ns,
	round(ns - (SELECT ns FROM spent bare WHERE bare.kind = base)) AS added
FROM spent JOIN (VALUES
	(1, 1, 'bare'),
	(2, 1, 'le_require_leader()'),
	(3, 1, 'le_require_leader(on_loss => ''cancel'')'),
	(4, 4, 'bare, writes a row'),
	(5, 4, 'le_require_leader(), writes a row')) t (kind, base, title)
	USING (kind)
ORDER BY kind;
