-- Values that settings refuse.  ALTER SYSTEM checks a value as the server's
-- start and a reload do; nothing is changed here.

-- the store's URL; credentials belong into the token file
ALTER SYSTEM SET leader_election.consul_url = '';
ALTER SYSTEM SET leader_election.consul_url = '127.0.0.1:8500';
ALTER SYSTEM SET leader_election.consul_url = 'ftp://127.0.0.1';
ALTER SYSTEM SET leader_election.consul_url = 'http://';
ALTER SYSTEM SET leader_election.consul_url = 'https:///v1';
ALTER SYSTEM SET leader_election.consul_url = 'http://user:secret@127.0.0.1:8500';
ALTER SYSTEM SET leader_election.consul_url = 'http://127.0.0.1:8500?token=secret';
ALTER SYSTEM SET leader_election.consul_url = 'http://127.0.0.1:8500#x';
ALTER SYSTEM SET leader_election.consul_url = E'http://127.0.0.1:8500\r\nX: y';
ALTER SYSTEM SET leader_election.consul_url = 'unix:run/consul.sock';

-- the gateways' URLs, one to sixteen
ALTER SYSTEM SET leader_election.gateway_url = ' , ';
ALTER SYSTEM SET leader_election.gateway_url = 'http://127.0.0.1:7480, 127.0.0.1:7481';
ALTER SYSTEM SET leader_election.gateway_url = 'http://user:secret@127.0.0.1:7480';
SELECT string_agg('http://h', ',') AS urls FROM generate_series(1, 17) \gset
ALTER SYSTEM SET leader_election.gateway_url = :'urls';

-- keys and datacenters become part of URLs
ALTER SYSTEM SET leader_election.consul_key_prefix = '';
ALTER SYSTEM SET leader_election.consul_key_prefix = '/x';
ALTER SYSTEM SET leader_election.consul_key_prefix = 'x/';
ALTER SYSTEM SET leader_election.consul_key_prefix = 'a/../b';
ALTER SYSTEM SET leader_election.consul_key_prefix = 'a b';
ALTER SYSTEM SET leader_election.consul_datacenter = 'dc1&stale';
ALTER SYSTEM SET leader_election.consul_datacenter = 'dc 1';

-- published names and values
ALTER SYSTEM SET leader_election.node_name = E'a\nb';
ALTER SYSTEM SET leader_election.node_name = E'a\x7f';
ALTER SYSTEM SET leader_election.campaign = 'good, not good, fine';
ALTER SYSTEM SET leader_election.campaign = '../etc';
\set long `printf '%0201d' 0`
ALTER SYSTEM SET leader_election.consul_key_prefix = :'long';
ALTER SYSTEM SET leader_election.campaign = :'long';
\set VERBOSITY terse
\set long `printf '%0256d' 0`
ALTER SYSTEM SET leader_election.node_name = :'long';
\set long `printf '%01025d' 0`
ALTER SYSTEM SET leader_election.node_value = :'long';
\set VERBOSITY default

-- ranges and units
ALTER SYSTEM SET leader_election.backend = 'zookeeper';
ALTER SYSTEM SET leader_election.eligible = 'perhaps';
-- the wording of ranges differs between versions
\set VERBOSITY sqlstate
ALTER SYSTEM SET leader_election.max_elections = 0;
ALTER SYSTEM SET leader_election.max_elections = 100001;
ALTER SYSTEM SET leader_election.lease_ttl = '2999ms';
ALTER SYSTEM SET leader_election.lease_ttl = '61s';
ALTER SYSTEM SET leader_election.lease_ttl = '15 parsecs';
ALTER SYSTEM SET leader_election.renew_interval = '-1';
ALTER SYSTEM SET leader_election.renew_interval = '31s';
ALTER SYSTEM SET leader_election.safety_margin = '99ms';
ALTER SYSTEM SET leader_election.safety_margin = '31s';
ALTER SYSTEM SET leader_election.request_timeout = '99ms';
ALTER SYSTEM SET leader_election.request_timeout = '61s';
ALTER SYSTEM SET leader_election.shutdown_timeout = '-1';
ALTER SYSTEM SET leader_election.shutdown_timeout = '61s';
ALTER SYSTEM SET leader_election.cancel_lead = '9ms';
ALTER SYSTEM SET leader_election.cancel_lead = '31s';
ALTER SYSTEM SET leader_election.commit_margin = '-1';
ALTER SYSTEM SET leader_election.commit_margin = '31s';
ALTER SYSTEM SET leader_election.drain_timeout = '-1';
ALTER SYSTEM SET leader_election.drain_timeout = '11min';
ALTER SYSTEM SET leader_election.progress_within = '-1';
ALTER SYSTEM SET leader_election.progress_within = '367d';
SET leader_election.on_loss = 'kill';
