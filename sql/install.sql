-- The extension is created, moved and dropped like any other; terms of the
-- instance do not depend on it.
CREATE EXTENSION leader_election;
CREATE EXTENSION leader_election;
SELECT extversion = le_version() AS same_version, extrelocatable
FROM pg_extension WHERE extname = 'leader_election';

-- its members (row types are implied by the views)
SELECT pg_describe_object(classid, objid, objsubid) COLLATE "C" AS member
FROM pg_depend
WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
  AND refobjid = (SELECT oid FROM pg_extension
				  WHERE extname = 'leader_election')
  AND classid IN ('pg_proc'::regclass, 'pg_class'::regclass)
ORDER BY 1;

-- relocatable, and nothing depends on the search path
CREATE SCHEMA le;
ALTER EXTENSION leader_election SET SCHEMA le;
-- terse, since the other parts of the message differ by version
\set VERBOSITY terse
SELECT le_is_leader('regress/install');
\set VERBOSITY default
SET search_path = '';
SELECT le.le_acquire('regress/install');
SELECT le.le_is_leader('regress/install');
SELECT election, state, scope FROM le.le_status
WHERE election = 'regress/install';
SELECT count(*) FROM le.le_nodes WHERE is_self;
SELECT leader = le.le_current_leader('regress/install') AS same_leader
FROM le.le_leader('regress/install');
RESET search_path;

-- a lease belongs to the instance: dropping the functions does not end it
DROP EXTENSION leader_election;
\set VERBOSITY terse
SELECT le.le_is_leader('regress/install');
\set VERBOSITY default
CREATE EXTENSION leader_election SCHEMA le;
SELECT le.le_is_leader('regress/install');
SELECT le.le_release('regress/install');
ALTER EXTENSION leader_election SET SCHEMA public;
SELECT le_is_leader('regress/install');

-- there is one version so far
ALTER EXTENSION leader_election UPDATE;

-- views that use it prevent its DROP without CASCADE
CREATE VIEW regress_le_view AS
	SELECT le_is_leader('regress/install') AS leads;
\set VERBOSITY terse
DROP EXTENSION leader_election;
\set VERBOSITY default
SELECT * FROM regress_le_view;
DROP VIEW regress_le_view;

DROP EXTENSION leader_election;
DROP SCHEMA le;
SELECT count(*) FROM pg_proc WHERE proname LIKE 'le\_%';
