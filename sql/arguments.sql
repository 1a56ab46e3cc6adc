-- Every argument that cannot be used is refused by name, with an SQLSTATE of
-- class 22, before anything happens.
CREATE EXTENSION leader_election;

-- names
SELECT le_acquire('');
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY terse
SELECT le_acquire('/');
SELECT le_acquire('/a');
SELECT le_acquire('a/');
SELECT le_acquire('a//b');
SELECT le_acquire('.');
SELECT le_acquire('..');
SELECT le_acquire('a/./b');
SELECT le_acquire('a/../b');
SELECT le_acquire('a b');
SELECT le_acquire('a%2fb');
SELECT le_acquire('a?b');
SELECT le_acquire(E'a\nb');
SELECT le_acquire(U&'b\00fccher');
SELECT le_acquire(repeat('x', 201));
-- every function that takes a name refuses it alike
SELECT le_renew('a b');
SELECT le_release('a b');
SELECT le_campaign('a b');
SELECT le_withdraw('a b');
SELECT le_step_down('a b');
SELECT le_accept_store('a b');
SELECT le_current_leader('a b');
SELECT * FROM le_leader('a b');
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY default
-- but a check returns false
SELECT name, le_is_leader(name), le_fencing_token(name), le_remaining(name)
FROM unnest(ARRAY['', 'a b', U&'b\00fccher']) name;
SELECT le_is_leader(repeat('x', 201)), le_is_leader(repeat('x', 1000000));

-- the longest and oddest valid names
SELECT le_acquire(repeat('x', 200)), le_is_leader(repeat('x', 200)),
	le_is_leader(repeat('x', 199)), le_release(repeat('x', 200));
SELECT le_acquire('regress/.a../..b/c..d/-_.9Z');
SELECT le_release('regress/.a../..b/c..d/-_.9Z');

-- null
SELECT le_is_leader(NULL), le_fencing_token(NULL), le_remaining(NULL);
SELECT le_acquire(NULL);
\echo :LAST_ERROR_SQLSTATE
SELECT le_renew(NULL);
SELECT le_release(NULL);
SELECT le_campaign(NULL);
SELECT le_withdraw(NULL);
SELECT le_current_leader(NULL);
SELECT * FROM le_leader(NULL);
SELECT le_acquire('regress/arg', wait => NULL);
SELECT le_acquire('regress/arg', scope => NULL);
SELECT le_current_leader('regress/arg', NULL);
SELECT * FROM le_leader('regress/arg', NULL);
SELECT le_step_down('regress/arg', NULL);
SELECT le_step_down(NULL, NULL);
\echo :LAST_ERROR_SQLSTATE

-- scopes
SELECT le_acquire('regress/arg', scope => 'cluster');
\echo :LAST_ERROR_SQLSTATE
SELECT le_acquire('regress/arg', scope => 'Node');
SELECT le_acquire('regress/arg', scope => '');

-- intervals
SELECT le_acquire('regress/arg', wait => '-1 microsecond');
\echo :LAST_ERROR_SQLSTATE
SELECT le_acquire('regress/arg', wait => '1 day -25 hours');
SELECT le_acquire('regress/arg', wait => '1 month');
\echo :LAST_ERROR_SQLSTATE
SELECT le_acquire('regress/arg', wait => '1 month -30 days');
SELECT le_acquire('regress/arg', wait => '1 year');
SELECT le_acquire('regress/arg', wait => '366 days 1 microsecond');
\echo :LAST_ERROR_SQLSTATE
SELECT le_acquire('regress/arg', wait => '2000000000 days');
SELECT le_current_leader('regress/arg', '-1s');
SELECT le_current_leader('regress/arg', '1 month');
SELECT * FROM le_leader('regress/arg', '-1s');
SELECT le_step_down('regress/arg', '-1s');
SELECT le_step_down(hold_off => '1 month');
-- infinite intervals exist since PostgreSQL 17; before that their name is not
-- a valid interval
DO $$
BEGIN
	PERFORM le_acquire('regress/arg', wait => 'infinity'::text::interval);
	RAISE 'accepted';
EXCEPTION
	WHEN invalid_parameter_value OR invalid_datetime_format THEN
		RAISE NOTICE 'refused';
END $$;
DO $$
BEGIN
	PERFORM le_step_down('regress/arg', '-infinity'::text::interval);
	RAISE 'accepted';
EXCEPTION
	WHEN invalid_parameter_value OR invalid_datetime_format THEN
		RAISE NOTICE 'refused';
END $$;
-- nothing happened so far
SELECT count(*) FROM le_status WHERE election = 'regress/arg';
-- the longest and the shortest wait, for a free election
SELECT le_acquire('regress/arg', wait => '366 days');
SELECT le_acquire('regress/arg', wait => '-1 day 25 hours');
SELECT le_current_leader('regress/arg', '366 days') IS NOT NULL AS known;

-- values: at most 1024 bytes in UTF-8
SELECT le_renew('regress/arg', repeat('x', 1024));
SELECT length(value) FROM le_leader('regress/arg');
SELECT le_renew('regress/arg', repeat('x', 1025));
\echo :LAST_ERROR_SQLSTATE
SELECT le_renew('regress/arg', repeat(U&'\00fc', 513));
SELECT le_acquire('regress/arg', repeat('x', 1025));
SELECT le_campaign('regress/arg', repeat('x', 1025));
SELECT le_renew('regress/arg', repeat(U&'\20ac', 341));
SELECT octet_length(value), value = repeat(U&'\20ac', 341) AS same
FROM le_leader('regress/arg');
SELECT value = repeat(U&'\20ac', 341) AS same
FROM le_status WHERE election = 'regress/arg';
-- any text will do, JSON or not
SELECT le_renew('regress/arg', E'{"a": "\\u0000 \t\n \\\\ '' \x7f"]');
SELECT value = E'{"a": "\\u0000 \t\n \\\\ '' \x7f"]' AS same
FROM le_leader('regress/arg');
SELECT le_release('regress/arg');

-- settings are the server's, not the session's
SET leader_election.eligible = off;
SET leader_election.backend = 'consul';

-- databases in other encodings: values travel as UTF-8
SELECT current_database() AS home \gset
SET client_min_messages = error;
DROP DATABASE IF EXISTS regress_le_latin1;
DROP DATABASE IF EXISTS regress_le_ascii;
RESET client_min_messages;
CREATE DATABASE regress_le_latin1 ENCODING 'LATIN1' LOCALE 'C'
	TEMPLATE template0;
CREATE DATABASE regress_le_ascii ENCODING 'SQL_ASCII' LOCALE 'C'
	TEMPLATE template0;
\c regress_le_latin1
SET client_encoding = 'UTF8';
CREATE EXTENSION leader_election;
SELECT le_acquire('regress/latin1', convert_from('\xfc', 'LATIN1'));
SELECT convert_to(value, 'LATIN1') AS latin1, convert_to(value, 'UTF8') AS utf8
FROM le_leader('regress/latin1');
-- 1024 of these are 2048 bytes of UTF-8
SELECT le_renew('regress/latin1', repeat(convert_from('\xfc', 'LATIN1'), 1024));
-- nothing fails for a character missing in this encoding
SELECT value FROM le_status WHERE election = 'regress/latin1';
\c :home
SELECT le_renew('regress/latin1', U&'\20ac');
\c regress_le_latin1
SET client_encoding = 'UTF8';
SELECT value FROM le_status WHERE election = 'regress/latin1';
SELECT value FROM le_leader('regress/latin1');
\c regress_le_ascii
CREATE EXTENSION leader_election;
SELECT le_renew('regress/latin1', E'\xfc');
\echo :LAST_ERROR_SQLSTATE
SELECT le_renew('regress/latin1', E'\xc3\xbc');
SELECT convert_to(value, 'SQL_ASCII') FROM le_leader('regress/latin1');
SELECT le_release('regress/latin1');
\c :home
DROP DATABASE regress_le_latin1;
DROP DATABASE regress_le_ascii;

DROP EXTENSION leader_election;
