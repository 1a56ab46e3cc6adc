-- The views of a DBA, as far as they are the same in each run.
CREATE EXTENSION leader_election;

-- no row for an election that was never touched
SELECT count(*) FROM le_status WHERE election = 'regress/status';

-- a term
SELECT le_acquire('regress/status', 'my value');
SELECT election, state, scope, pid, value,
	holder = le_current_leader('regress/status') AS same_holder,
	fencing_token = le_fencing_token('regress/status') AS same_token,
	last_loss, last_error, store
FROM le_status WHERE election = 'regress/status';
SELECT term_started_at BETWEEN now() - interval '1 min' AND clock_timestamp()
		AS started,
	last_change_at = term_started_at AS changed,
	last_renewed_at BETWEEN term_started_at AND clock_timestamp() AS renewed,
	expires_at - clock_timestamp() BETWEEN interval '0'
		AND current_setting('leader_election.lease_ttl')::interval AS expires
FROM le_status WHERE election = 'regress/status';

-- proven again: the same term, and its deadline never goes back
SELECT term_started_at, last_renewed_at, expires_at FROM le_status
WHERE election = 'regress/status' \gset
SELECT le_renew('regress/status');
SELECT term_started_at = :'term_started_at' AS same_start,
	last_renewed_at >= :'last_renewed_at' AS renewed,
	expires_at >= :'expires_at'::timestamptz - interval '1 s' AS no_shorter,
	value
FROM le_status WHERE election = 'regress/status';
SELECT le_renew('regress/status', 'new value');
SELECT state, value FROM le_status WHERE election = 'regress/status';

-- its end
SELECT le_release('regress/status');
SELECT election, state, scope, pid, holder, value, fencing_token,
	term_started_at, expires_at, last_renewed_at,
	last_change_at > :'term_started_at' AS changed, last_loss, last_error
FROM le_status WHERE election = 'regress/status';

-- the other states
SELECT le_acquire('regress/status', scope => 'session');
SELECT state, scope, pid = pg_backend_pid() AS mine FROM le_status
WHERE election = 'regress/status';
SELECT le_step_down('regress/status', '1 hour');
SELECT state, scope, pid, last_loss FROM le_status
WHERE election = 'regress/status';
SELECT le_campaign('regress/status');
SELECT le_acquire('regress/status', wait => '1 min');
SELECT state, scope, last_loss FROM le_status
WHERE election = 'regress/status';
SELECT le_withdraw('regress/status');
SELECT state, scope FROM le_status WHERE election = 'regress/status';

-- one row per election, and asking does not add any
SELECT count(*) = count(DISTINCT election) AS one_each FROM le_status;
SELECT le_is_leader('regress/status/ghost'),
	le_fencing_token('regress/status/ghost'),
	le_current_leader('regress/status/ghost');
SELECT count(*) FROM le_status WHERE election = 'regress/status/ghost';

-- this instance is the only node
SELECT is_self, state, lease =
	current_setting('leader_election.lease_ttl')::interval AS same_lease,
	incarnation ~ '^[0-9a-f]+$' AS incarnation,
	last_proof_seen_at > now() - interval '1 min' AS proven,
	store_session IS NOT NULL AS session
FROM le_nodes;

-- the worker names itself
SELECT backend_type, datname FROM pg_stat_activity
WHERE backend_type = 'leader_election worker';

DROP EXTENSION leader_election;
