-- Terms that must see progress.
CREATE EXTENSION leader_election;

-- off by default; arguments
SHOW leader_election.progress_within;
SELECT le_acquire('regress/progress', progress_within => '-1 s');
\echo :LAST_ERROR_SQLSTATE
SELECT le_acquire('regress/progress', progress_within => '1 month');
\echo :LAST_ERROR_SQLSTATE
SELECT le_acquire('regress/progress', progress_within => '366 days 1 microsecond');
SELECT le_acquire('regress/progress', progress_within => '999 ms');
\echo :LAST_ERROR_SQLSTATE
SELECT le_campaign('regress/progress', progress_within => '999999 microseconds');
SELECT le_campaign('regress/progress', progress_within => '-1 day');
SELECT le_campaign('regress/progress', progress_within => '1 year');
-- infinite intervals exist since PostgreSQL 17
DO $$
BEGIN
	PERFORM le_campaign('regress/progress',
		progress_within => 'infinity'::text::interval);
	RAISE 'accepted';
EXCEPTION
	WHEN invalid_parameter_value OR invalid_datetime_format THEN
		RAISE NOTICE 'refused';
END $$;
SELECT count(*) FROM le_status WHERE election = 'regress/progress';
SELECT le_progress(NULL), le_progress('regress/progress');
SELECT le_progress('a b');
\echo :LAST_ERROR_SQLSTATE

-- progress is shown even without a limit
CREATE VIEW progress AS SELECT state,
	progress_at BETWEEN term_started_at - interval '1 s' AND clock_timestamp()
		AS since,
	date_trunc('minute', progress_due - progress_at + '30 s') AS within
FROM le_status WHERE election = 'regress/progress';
CREATE VIEW progress_at AS SELECT progress_at
FROM le_status WHERE election = 'regress/progress';
SELECT le_acquire('regress/progress');
TABLE progress;

-- the strictest limit of several calls for the same term counts
SELECT le_acquire('regress/progress', progress_within => '366 days');
SELECT le_acquire('regress/progress', progress_within => '1 hour');
SELECT le_acquire('regress/progress', progress_within => '2 hours');
SELECT le_acquire('regress/progress', progress_within => '0');
TABLE progress;

-- a campaign sets the limit from then on
SELECT le_campaign('regress/progress', progress_within => '90 min');
TABLE progress;
SELECT le_campaign('regress/progress', progress_within => '0');
TABLE progress;
SELECT le_campaign('regress/progress');
TABLE progress;

-- calls that count as progress, and calls that do not
CREATE FUNCTION moved(before timestamptz) RETURNS boolean LANGUAGE sql VOLATILE
AS $$ SELECT progress_at > $1 + interval '100 ms' FROM progress_at $$;
TABLE progress_at \gset
SELECT pg_sleep(0.2);
SELECT le_is_leader('regress/progress'), le_renew('regress/progress'),
	le_fencing_token('regress/progress') IS NOT NULL AS token;
BEGIN;
SELECT le_require_leader('regress/progress') IS NOT NULL AS bound;
ROLLBACK;
SELECT moved(:'progress_at') AS by_reading;

SELECT le_progress('regress/progress');
SELECT moved(:'progress_at') AS by_le_progress;

TABLE progress_at \gset
SELECT pg_sleep(0.2);
SELECT le_require_leader('regress/progress') IS NOT NULL AS bound;
SELECT moved(:'progress_at') AS by_gate;

CREATE TABLE guard (election text PRIMARY KEY, fencing_token bigint);
TABLE progress_at \gset
SELECT pg_sleep(0.2);
SELECT le_fence_guard('guard', 'regress/progress') IS NOT NULL AS bound;
SELECT moved(:'progress_at') AS by_guard;

TABLE progress_at \gset
SELECT pg_sleep(0.2);
SELECT le_claim('regress/progress', 'job', '2026-01-01 00:00+00');
SELECT le_complete('regress/progress', 'job', '2026-01-01 00:00+00');
SELECT moved(:'progress_at') AS by_le_complete;

-- a tick that was claimed before, and a new one
TABLE progress_at \gset
SELECT pg_sleep(0.2);
CALL le_run('regress/progress', 'SELECT 1', job => 'job', tick => '2026-01-01 00:00+00');
SELECT moved(:'progress_at') AS by_looking;
TABLE progress_at \gset
SELECT pg_sleep(0.2);
CALL le_run('regress/progress', 'SELECT 1/0', job => 'job', tick => '2026-01-01 00:01+00');
SELECT moved(:'progress_at') AS by_claiming;

-- no term, no progress; a session's term
SELECT le_withdraw('regress/progress');
TABLE progress;
SELECT le_progress('regress/progress');
SELECT le_acquire('regress/progress', scope => 'session', wait => '1 min',
	progress_within => '1 day');
TABLE progress;
SELECT le_release('regress/progress');

-- the same for a transaction
BEGIN;
SELECT le_acquire('regress/progress', scope => 'transaction', wait => '1 min',
	progress_within => '10 min');
TABLE progress;
COMMIT;

DROP VIEW progress, progress_at CASCADE;
DROP TABLE guard;
DROP FUNCTION moved;
DROP EXTENSION leader_election;
