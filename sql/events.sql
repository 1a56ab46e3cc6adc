-- Events and counters, as far as they are the same in each run.
CREATE EXTENSION leader_election;

-- the events of a term, the newest last
SELECT COALESCE(max(number), 0) AS before FROM le_events \gset
SELECT le_acquire('regress/events', scope => 'session');
SELECT le_fencing_token('regress/events') AS token \gset
SELECT le_release('regress/events');
SELECT event, node IS NOT NULL AS node, pid > 0 AS pid,
	fencing_token = :token AS same_token, detail,
	at BETWEEN now() - interval '1 min' AND clock_timestamp() AS now
FROM le_events WHERE election = 'regress/events' AND number > :before;
SELECT bool_and(number > earlier) AS in_order
FROM (SELECT number, lag(number) OVER () AS earlier FROM le_events) e
WHERE earlier IS NOT NULL;

-- calls in vain leave no events
SELECT le_release('regress/events/none');
SELECT le_is_leader('regress/events/none');
SELECT count(*) FROM le_events WHERE election = 'regress/events/none';

-- the same, counted
SELECT le_stat_reset();
SELECT le_acquire('regress/events');
SELECT le_renew('regress/events');
SELECT le_acquire('regress/events') AS again;
SELECT terms, releases, losses FROM le_stat WHERE election = 'regress/events';
SELECT renewals > 0 AS renewed, failures, unknown, round_trips > 0 AS asked
FROM le_stat_store WHERE election = 'regress/events';
SELECT stats_reset < now() AS since, last_answer_at > stats_reset AS answered
FROM le_stat_info;
SELECT min_time > 0 AS positive,
	min_time <= avg_time AND avg_time <= max_time AS ordered,
	last_time BETWEEN min_time AND max_time AS last,
	abs(total_time / round_trips - avg_time) <= 0.001 AS total
FROM le_stat_store WHERE election = 'regress/events';

-- one row for counts that concern no election
SELECT count(*) AS rows, sum(terms) AS terms FROM le_stat
WHERE election IS NULL;
SELECT count(*) AS rows, sum(round_trips) > 0 AS asked FROM le_stat_store
WHERE election IS NULL;

-- from zero again
SELECT stats_reset AS before FROM le_stat_info \gset
SELECT le_stat_reset();
SELECT terms, releases FROM le_stat WHERE election = 'regress/events';
SELECT round_trips, total_time, last_time, min_time, avg_time, max_time
FROM le_stat_store WHERE election = 'regress/events';
SELECT stats_reset > :'before' AS since FROM le_stat_info;
SELECT le_release('regress/events');
SELECT terms, releases FROM le_stat WHERE election = 'regress/events';

-- a check is not counted: it costs nothing
SELECT count(le_is_leader('regress/events')) FROM generate_series(1, 100);
SELECT gate_passed, gate_refused FROM le_stat
WHERE election = 'regress/events';

DROP EXTENSION leader_election;
