-- One session takes, keeps, asks about and gives up elections.
CREATE EXTENSION leader_election;

-- an election that was never sought has no leader
SELECT le_is_leader('regress/acquire');
SELECT le_fencing_token('regress/acquire');
SELECT le_current_leader('regress/acquire');
SELECT election, leader, value, fencing_token, is_self,
	observed_at > now() - interval '1 minute' AS fresh
FROM le_leader('regress/acquire');

-- acquired; a second call is true as well
SELECT le_acquire('regress/acquire');
SELECT le_fencing_token('regress/acquire') AS token \gset
SELECT le_acquire('regress/acquire');
SELECT le_is_leader('regress/acquire');
SELECT le_fencing_token('regress/acquire') = :token AS same_token,
	:token > 0 AS positive;

-- names differ by every byte
SELECT le_is_leader(name) FROM unnest(ARRAY['regress/acquir',
	'regress/acquire ', 'regress/Acquire', 'regress/acquire/', '']) name;

-- the leader, and its published value
SELECT leader = le_current_leader('regress/acquire') AS same_leader,
	fencing_token = :token AS same_token, is_self
FROM le_leader('regress/acquire');
SELECT leader = value::jsonb ->> 'node' AS names_itself,
	(value::jsonb ->> 'port')::int = current_setting('port')::int AS same_port,
	(SELECT string_agg(key, ', ' ORDER BY key)
	 FROM jsonb_object_keys(value::jsonb) key) AS keys
FROM le_leader('regress/acquire');
SELECT le_current_leader('regress/acquire', '1 hour') IS NOT NULL AS cached;

-- renewing keeps the token, with another value or without
SELECT le_renew('regress/acquire');
SELECT le_renew('regress/acquire', 'hello');
SELECT value, fencing_token = :token AS same_token
FROM le_leader('regress/acquire');
SELECT le_renew('regress/acquire');
SELECT value FROM le_leader('regress/acquire');
SELECT le_renew('regress/acquire', '');
SELECT value, value IS NULL AS is_null FROM le_leader('regress/acquire');
SELECT le_renew('regress/nobody');

-- acquiring again does not replace the value
SELECT le_acquire('regress/acquire', 'other');
SELECT value FROM le_leader('regress/acquire');

-- released: once
SELECT le_release('regress/acquire');
SELECT le_is_leader('regress/acquire');
SELECT le_fencing_token('regress/acquire');
SELECT le_current_leader('regress/acquire');
SELECT le_release('regress/acquire');
SELECT le_release('regress/never');
SELECT le_renew('regress/acquire');

-- the next term has a higher token, and a value of its own
SELECT le_acquire('regress/acquire', 'second');
SELECT le_fencing_token('regress/acquire') > :token AS higher;
SELECT value FROM le_leader('regress/acquire');
SELECT le_release('regress/acquire');

-- twenty terms: tokens strictly increase
CREATE TEMP TABLE terms (n int, acquired bool, token int8, released bool);
DO $$
BEGIN
	FOR i IN 1..20 LOOP
		INSERT INTO terms (n, acquired) SELECT i, le_acquire('regress/terms');
		UPDATE terms SET token = le_fencing_token('regress/terms') WHERE n = i;
		UPDATE terms SET released = le_release('regress/terms') WHERE n = i;
	END LOOP;
END $$;
SELECT count(*), bool_and(acquired) AS acquired, bool_and(released) AS released,
	bool_and(token > previous) AS increasing
FROM (SELECT *, lag(token, 1, 0::int8) OVER (ORDER BY n) AS previous
	  FROM terms) t;

-- many elections in one statement, each checked by itself
SELECT count(*) FILTER (WHERE le_acquire('regress/many/' || i))
FROM generate_series(1, 50) i;
SELECT count(*) FILTER (WHERE le_is_leader('regress/many/' || i)) AS led,
	count(DISTINCT le_fencing_token('regress/many/' || i)) AS tokens
FROM generate_series(1, 60) i;
SELECT count(*) FILTER (WHERE le_release('regress/many/' || i))
FROM generate_series(1, 50) i;
SELECT count(*) FILTER (WHERE le_is_leader('regress/many/' || i)) AS led
FROM generate_series(1, 60) i;

-- a campaign wins by itself, until it is withdrawn
SELECT le_campaign('regress/campaign', 'mine');
SELECT le_acquire('regress/campaign', wait => '1 min');
SELECT value FROM le_leader('regress/campaign');
SELECT le_campaign('regress/campaign');
SELECT le_withdraw('regress/campaign');
SELECT le_is_leader('regress/campaign');
SELECT le_withdraw('regress/campaign');
SELECT le_withdraw('regress/never');

-- stepped down: campaigns and calls are kept off for a while
SELECT le_campaign('regress/step');
SELECT le_acquire('regress/step', wait => '1 min');
SELECT le_step_down('regress/step', '1 hour');
SELECT le_is_leader('regress/step');
SELECT le_step_down('regress/step', '1 hour');
\set VERBOSITY terse
SELECT le_acquire('regress/step');
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY default
-- a new campaign ends the pause
SELECT le_campaign('regress/step');
SELECT le_acquire('regress/step', wait => '1 min');
SELECT le_withdraw('regress/step');

-- releasing a campaign's election steps down, too
SELECT le_campaign('regress/step');
SELECT le_acquire('regress/step', wait => '1 min');
SELECT le_release('regress/step');
\set VERBOSITY terse
SELECT le_acquire('regress/step');
\set VERBOSITY default
SELECT le_withdraw('regress/step');
-- a hold-off of zero ends one
SELECT le_step_down('regress/step', '0');
SELECT le_acquire('regress/step');
SELECT le_step_down('regress/step', '0');

-- everything at once
SELECT le_acquire('regress/all/1'), le_acquire('regress/all/2');
SELECT le_step_down(hold_off => '0');
SELECT le_is_leader('regress/all/1'), le_is_leader('regress/all/2');
SELECT le_step_down(hold_off => '0');

-- but no election that is neither held nor sought here
SELECT le_step_down('regress/all/1', '1 hour');
SELECT le_step_down(hold_off => '1 hour');
SELECT le_acquire('regress/all/1'), le_acquire('regress/all/2');
SELECT le_step_down('regress/all/1', '1 hour');
SELECT election, state, last_loss FROM le_status
WHERE election LIKE 'regress/all/%' ORDER BY election;
SELECT event FROM le_events WHERE election = 'regress/all/1'
ORDER BY number DESC LIMIT 1;
SELECT le_release('regress/all/2');
SELECT le_step_down('regress/all/1', '0');

-- tokens go on increasing after the memory of them was dropped
SELECT le_acquire('regress/acquire');
SELECT le_fencing_token('regress/acquire') AS token \gset
SELECT le_release('regress/acquire');
SELECT le_accept_store('regress/acquire');
SELECT le_acquire('regress/acquire');
SELECT le_fencing_token('regress/acquire') > :token AS higher;
SELECT le_release('regress/acquire');

DROP EXTENSION leader_election;
