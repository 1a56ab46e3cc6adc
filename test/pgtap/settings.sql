-- The settings: all of them, when they can be changed, their units and
-- ranges.  The documentation names the same.
BEGIN;
SELECT plan(9);

CREATE TEMP VIEW mine AS
	SELECT *, replace(name, 'leader_election.', '') AS short
	FROM pg_settings WHERE name LIKE 'leader\_election.%';

SELECT bag_eq(
	'SELECT short, vartype, context FROM mine',
	$$VALUES
	('backend', 'enum', 'postmaster'),
	('node_name', 'string', 'postmaster'),
	('max_elections', 'integer', 'postmaster'),
	('max_events', 'integer', 'postmaster'),
	('max_jobs', 'integer', 'sighup'),
	('max_tick_ahead', 'integer', 'sighup'),
	('max_clock_offset', 'integer', 'sighup'),
	('job_check_interval', 'integer', 'sighup'),
	('log_error', 'bool', 'superuser'),
	('node_value', 'string', 'sighup'),
	('campaign', 'string', 'sighup'),
	('eligible', 'bool', 'sighup'),
	('standby_eligible', 'bool', 'sighup'),
	('clone_eligible', 'bool', 'sighup'),
	('read_only_eligible', 'bool', 'sighup'),
	('lease_ttl', 'integer', 'sighup'),
	('renew_interval', 'integer', 'sighup'),
	('safety_margin', 'integer', 'sighup'),
	('request_timeout', 'integer', 'sighup'),
	('shutdown_timeout', 'integer', 'sighup'),
	('allowed_elections', 'string', 'superuser'),
	('max_hold_off', 'integer', 'superuser'),
	('on_loss', 'enum', 'user'),
	('cancel_lead', 'integer', 'sighup'),
	('commit_margin', 'integer', 'sighup'),
	('drain_timeout', 'integer', 'sighup'),
	('progress_within', 'integer', 'sighup'),
	('consul_url', 'string', 'sighup'),
	('consul_token_file', 'string', 'sighup'),
	('consul_datacenter', 'string', 'sighup'),
	('consul_key_prefix', 'string', 'sighup'),
	('consul_takeover', 'bool', 'sighup'),
	('gateway_url', 'string', 'sighup'),
	('gateway_token_file', 'string', 'sighup'),
	('azure_container_url', 'string', 'sighup'),
	('azure_prefix', 'string', 'sighup'),
	('azure_sas_file', 'string', 'sighup'),
	('azure_identity', 'string', 'sighup'),
	('azure_identity_url', 'string', 'sighup'),
	('azure_poll_interval', 'integer', 'sighup'),
	('ca_file', 'string', 'sighup'),
	('cert_file', 'string', 'sighup'),
	('key_file', 'string', 'sighup')$$,
	'names, types, contexts');

SELECT bag_eq(
	$$SELECT short, boot_val, unit, min_val, max_val FROM mine
	WHERE vartype = 'integer'$$,
	$$VALUES
	('max_elections', '256', NULL, '1', '100000'),
	('max_events', '1000', NULL, '16', '1000000'),
	('max_jobs', '1000', NULL, '1', '1000000'),
	('max_tick_ahead', '86400', 's', '0', '31622400'),
	('max_clock_offset', '60', 's', '1', '31622400'),
	('job_check_interval', '60000', 'ms', '0', '3600000'),
	('lease_ttl', '15000', 'ms', '3000', '60000'),
	('renew_interval', '0', 'ms', '0', '30000'),
	('safety_margin', '1000', 'ms', '100', '30000'),
	('request_timeout', '5000', 'ms', '100', '60000'),
	('shutdown_timeout', '2000', 'ms', '0', '60000'),
	('max_hold_off', '86400', 's', '30', '31622400'),
	('cancel_lead', '1000', 'ms', '10', '30000'),
	('commit_margin', '250', 'ms', '0', '30000'),
	('drain_timeout', '5000', 'ms', '0', '600000'),
	('progress_within', '0', 's', '0', '31622400'),
	('azure_poll_interval', '2000', 'ms', '500', '30000')$$,
	'defaults, units and ranges');

SELECT bag_eq(
	$$SELECT short, boot_val FROM mine WHERE vartype <> 'integer'$$,
	$$VALUES
	('backend', 'local'),
	('node_name', ''),
	('node_value', ''),
	('campaign', ''),
	('eligible', 'on'),
	('log_error', 'off'),
	('standby_eligible', 'off'),
	('clone_eligible', 'off'),
	('read_only_eligible', 'off'),
	('allowed_elections', '*'),
	('on_loss', 'none'),
	('consul_url', 'http://127.0.0.1:8500'),
	('consul_token_file', ''),
	('consul_datacenter', ''),
	('consul_key_prefix', 'leader_election'),
	('consul_takeover', 'on'),
	('gateway_url', 'http://127.0.0.1:7480'),
	('gateway_token_file', ''),
	('azure_container_url',
		'http://127.0.0.1:10000/devstoreaccount1/leader-election'),
	('azure_prefix', 'leader_election'),
	('azure_sas_file', ''),
	('azure_identity', ''),
	('azure_identity_url', 'http://169.254.169.254'),
	('ca_file', ''),
	('cert_file', ''),
	('key_file', '')$$,
	'other defaults');

SELECT is((SELECT enumvals FROM mine WHERE short = 'backend'),
	ARRAY['local', 'consul', 'cassandra', 'azure'], 'stores');
SELECT is((SELECT enumvals FROM mine WHERE short = 'on_loss'),
	ARRAY['none', 'cancel'], 'what a loss can do');

SELECT is_empty(
	$$SELECT name FROM mine WHERE short_desc !~ '^[A-Z].*[.]$'
	   OR extra_desc !~ '^["A-Z0].*[.]$' OR category <> 'Customized Options'$$,
	'each is described in a sentence');

-- units are understood, and shown in a way that reads well
SELECT is(current_setting('leader_election.lease_ttl'), '15s', 'in seconds');
SELECT is(current_setting('leader_election.request_timeout')::interval,
	interval '5 s', 'as an interval');

SELECT throws_ok($$SET leader_election.lease_ttl = '20s'$$, '55P02', NULL,
	'not for a session to change');

SELECT * FROM finish();
ROLLBACK;
