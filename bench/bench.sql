-- bench/bench.sql: run by bench/run.
--
-- A case is a query that evaluates an expression once per row.  All cases of
-- a group take turns, so that a busy moment of the machine meets each of them
-- alike, and the median of the differences to the group's first case, the
-- empty loop, is what the expression costs.  The clock is the time that the
-- process spent on a processor, where the kernel counts it.
\set ON_ERROR_STOP on
\pset footer off
SET client_min_messages = warning;
CREATE EXTENSION leader_election;

CREATE TEMP TABLE names AS
	SELECT 'bench/' || i AS name FROM generate_series(1, 10000) i;
CREATE TEMP TABLE cases (
	n int GENERATED ALWAYS AS IDENTITY, elections int, title text, query text);
CREATE TEMP TABLE results (n int, round int, ns float8);
ANALYZE names;

CREATE FUNCTION pg_temp.clock_ns() RETURNS float8 VOLATILE
RETURN COALESCE(
	split_part(pg_read_file('/proc/self/schedstat', 0, 100, true), ' ', 1),
	(extract(epoch FROM clock_timestamp()) * 1e9)::text)::float8;

CREATE PROCEDURE pg_temp.measure(how_many int, rounds int, nrows int)
LANGUAGE plpgsql AS $$
DECLARE
	c record;
	started float8;
BEGIN
	FOR r IN 0..rounds LOOP
		FOR c IN SELECT * FROM cases WHERE elections = how_many ORDER BY n LOOP
			started := pg_temp.clock_ns();
			EXECUTE c.query;
			CONTINUE WHEN r = 0;	-- to get warm
			INSERT INTO results VALUES (c.n, r,
				(pg_temp.clock_ns() - started) / nrows);
		END LOOP;
	END LOOP;
END $$;

-- all cases of a number of elections, nrows evaluations each
CREATE PROCEDURE pg_temp.prepare(how_many int, nrows int)
LANGUAGE sql AS $$
	INSERT INTO cases (elections, title, query)
	SELECT how_many, title,
		format('SELECT count(%s) FROM generate_series(1, 1000) a, '
			'generate_series(1, %s) b', expression, nrows / 1000)
	FROM (VALUES
		(1, 'empty loop', 'true'),
		(2, 'pg_is_in_recovery()', 'pg_is_in_recovery()'),
		(3, 'le_is_leader(), held', 'le_is_leader(''bench/1'')'),
		(4, 'le_is_leader(), not held', 'le_is_leader(''bench/0'')'),
		(5, 'le_is_leader(), unknown name', 'le_is_leader(''bench/none'')'),
		(6, 'le_fencing_token(), held', 'le_fencing_token(''bench/1'')'))
		c (place, title, expression)
	ORDER BY place;
$$;

SELECT le_acquire('bench/0'), le_release('bench/0'), le_acquire('bench/1')
\g /dev/null
CALL pg_temp.prepare(1, 1000000);
CALL pg_temp.measure(1, 9, 1000000);

SELECT count(le_acquire(name)) FROM names \g /dev/null
CALL pg_temp.prepare(10000, 1000000);
CALL pg_temp.measure(10000, 9, 1000000);

-- every name in turn: nothing that a session could remember helps
INSERT INTO cases (elections, title, query)
SELECT -10000, title, format('SELECT count(%s) FROM names, '
	'generate_series(1, 100)', expression)
FROM (VALUES (1, 'empty loop', 'name'),
	(2, 'le_is_leader(), each in turn', 'le_is_leader(name)'))
	c (place, title, expression)
ORDER BY place;
CALL pg_temp.measure(-10000, 9, 1000000);

\echo
\echo Cost of one call, in ns: median over 9 rounds of 1,000,000 calls each
WITH spent AS (
	SELECT r.*, c.elections, c.title,
		r.ns - first_value(r.ns) OVER (PARTITION BY c.elections, r.round
									   ORDER BY c.n) AS cost
	FROM results r JOIN cases c USING (n))
SELECT abs(elections) AS elections, title AS call,
	round(percentile_cont(0.5) WITHIN GROUP (ORDER BY cost)::numeric, 1)
		AS median,
	round(min(cost)::numeric, 1) AS least,
	round(max(cost)::numeric, 1) AS most
FROM spent WHERE title <> 'empty loop'
GROUP BY n, elections, title ORDER BY n;

-- round trips, with few elections again
SELECT le_step_down(hold_off => '0') \g /dev/null
CREATE TEMP TABLE trips (title text, us float8);
DO $$
DECLARE
	t0 timestamptz;
	t1 timestamptz;
	t2 timestamptz;
BEGIN
	FOR i IN 1..2100 LOOP
		t0 := clock_timestamp();
		PERFORM le_acquire('bench/trip');
		t1 := clock_timestamp();
		PERFORM le_release('bench/trip');
		t2 := clock_timestamp();
		CONTINUE WHEN i <= 100;
		INSERT INTO trips VALUES
			('le_acquire()', extract(epoch FROM t1 - t0) * 1e6),
			('le_release()', extract(epoch FROM t2 - t1) * 1e6);
	END LOOP;
END $$;

\echo Round trips through the worker, store local, in us, 2,000 each
\echo (le_acquire() flushes WAL once)
SELECT title AS call,
	round(percentile_cont(0.5) WITHIN GROUP (ORDER BY us)::numeric) AS median,
	round(percentile_cont(0.99) WITHIN GROUP (ORDER BY us)::numeric) AS "99 %",
	round(max(us)::numeric) AS most
FROM trips GROUP BY title ORDER BY title;
