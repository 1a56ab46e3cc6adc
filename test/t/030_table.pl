# Tier: test, 16 s
#
# The lease table under fire: readers without locks against a worker that
# begins and ends terms, and gives slots to other names, as fast as it can.  A
# reader must never see a term that is over, nor one of another name; and one
# that asks about a term that goes on must never hear "no".

use strict;
use warnings;

use LeaderElection::Node;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $slots = 8;
my $node = LeaderElection::Node->create('table',
	settings => { max_elections => $slots, lease_ttl => '60s' },
	conf => { autovacuum => 'off', jit => 'off' });

# Two questions that arrive before the node has a store session, and room for one
# election: the slot of the first must not be given to the second, or its caller would
# be told that it leads an election that it never asked for.
subtest 'no slot for two questions' => sub {
	my $small = LeaderElection::Node->create('small',
		settings => { max_elections => 1 });
	my @names = ('first', 'second');
	my @sessions = map { LeaderElection::Session->new($small) } @names;
	my $worker = $small->freeze_worker;
	my $wins = 0;

	foreach my $i (0, 1)
	{
		$sessions[$i]->start(
			"SELECT le_acquire('$names[$i]', scope => 'session', wait => '10 s')");
		$small->wait_for(
			"SELECT count(*) = $i + 1 FROM pg_stat_activity "
			  . "WHERE state = 'active' AND wait_event_type = 'Extension'",
			"$names[$i] to be asked for");
	}
	$small->thaw_worker($worker);
	foreach my $i (0, 1)
	{
		my $result = $sessions[$i]->finish;
		my $told = $result->{output} =~ /^t$/m ? 't' : 'f';

		is($sessions[$i]->query("SELECT le_is_leader('$names[$i]')"),
			$told, "$names[$i]: leads if and only if told so");
		if ($told eq 't')
		{
			$wins++;
		}
		else
		{
			like($result->{error}, qr/53400/, 'the other: no room');
		}
	}
	is($wins, 1, 'one wins');
	is($small->sql('SELECT count(*) FROM le_status'), '1', 'one election');
	$_->quit foreach @sessions;
	$small->stop;
};

# A full table refuses new names, says so, and forgets no lease; a slot that is of no
# use any more gets another name, and a session that has cached the old one is not
# misled.
subtest 'full table' => sub {
	my $holder = LeaderElection::Session->new($node);
	my $other = LeaderElection::Session->new($node);
	my $acquire = sub {
		my ($i) = @_;

		return $holder->query(
			"SELECT le_acquire('full/$i', scope => 'session')");
	};
	my $led = sub {
		return $_[0]->query("SELECT string_agg(i::text, ' ' ORDER BY i) "
			  . "FROM generate_series(1, 20) i WHERE le_is_leader('full/' || i)");
	};
	my $all = join(' ', 1 .. $slots);

	is($acquire->($_), 't', "full/$_") foreach 1 .. $slots;
	is($led->($holder), $all, 'all led');
	my $refused = $holder->start(
		"SELECT le_acquire('full/9', scope => 'session')")->finish;
	like($refused->{error}, qr/53400.*no room for another election/,
		'one more: refused');
	like($refused->{error}, qr/HINT:.*max_elections/, 'with a hint');
	like($holder->start("SELECT le_campaign('full/9')")->finish->{error},
		qr/53400/, 'a campaign, too');
	is($led->($holder), $all, 'nothing lost');
	never([ split / /, $led->($other) ], 'nor led by others');
	is($holder->query("SELECT le_is_leader('full/3')"), 't', 'remembered');
	is($holder->query("SELECT le_release('full/3')"), 't', 'released');
	is($acquire->(9), 't', 'now there is room');
	denied('G5', $holder->query("SELECT le_is_leader('full/3')"), 'the old name');
	is($led->($holder), '1 2 4 5 6 7 8 9', 'elections led now');
	is($node->sql('SELECT count(*) FROM le_status'), $slots, 'rows');

	# A hold-off outlives the term, and is not forgotten for a new name.
	is($holder->query("SELECT le_step_down('full/$_', '1 h')"), 't', 'stepped down')
	  foreach 1, 2;
	$refused = $holder->start(
		"SELECT le_acquire('full/10', scope => 'session')")->finish;
	like($refused->{error}, qr/53400.*DETAIL: +2 of its $slots elections are in the hold-off/s,
		'the message names the hold-off');
	like($refused->{error}, qr/HINT:.*le_step_down\(election, '0'\)/, 'and the way to end the hold-off');
	like($holder->error("SELECT le_step_down('full/1', '2 days')"), qr/22023: argument "hold_off" must not exceed 86400 s/,
		'not for as long as anybody likes');
	is($holder->query("SELECT le_step_down('full/1', '0')"), 't', 'ended');
	is($acquire->(10), 't', 'now there is room');
	like($holder->error("SELECT le_acquire('full/2', scope => 'session')"),
		qr/55000.*stepped down/s, 'the other is stayed out of');
	is($holder->query("SELECT le_step_down('full/2', '0')"), 't', 'ended, too');
	$holder->quit;
	$other->quit;
	$node->wait_for(
		"SELECT count(*) = 0 FROM le_status WHERE state <> 'idle'",
		'the slots to be free');
};

# "clock" orders what different sessions do, without any clock of a machine: a
# writer draws a number after le_release() has returned, a reader looks at the
# last number before it asks.  Token and number tell whether what it saw could
# still be true.
$node->safe_psql('postgres', <<'SQL');
CREATE SEQUENCE clock CACHE 1;
CREATE TABLE terms (name text, token int8, released int8);
CREATE TABLE seen (name text, token int8, asked int8);
CREATE TABLE faults (what text);
CREATE TABLE passes (who text, n int8);

-- Names of each writer, and two that go to and fro between the instance and a
-- session.  Half of them share the bucket of "held", so that the way to it
-- leads through slots that are being given to other names.
CREATE TABLE names AS
SELECT who, name
FROM (SELECT who, name, row_number() OVER (PARTITION BY who, beside) AS n
	  FROM (SELECT who, who || '/' || i AS name,
				((hashtext(who || '/' || i) # hashtext('held')) & 15) = 0 AS beside
			FROM unnest(ARRAY['node1', 'node2', 'session', 'xact', 'none']) who,
				generate_series(1, 1000) i) t) t
WHERE n <= 10
UNION ALL SELECT 'both', 'both/' || i FROM generate_series(1, 2) i;

CREATE FUNCTION name_for(writer text) RETURNS text VOLATILE
RETURN (SELECT name FROM names
		WHERE who = CASE WHEN writer IN ('node1', 'session')
			AND (SELECT random()) < 0.7 THEN 'both' ELSE writer END
		ORDER BY random() LIMIT 1);

-- terms of the instance, seen by all
CREATE PROCEDURE write_node(who text, seconds float8) LANGUAGE plpgsql AS $$
DECLARE
	until timestamptz := clock_timestamp() + seconds * interval '1 s';
	election text;
	t int8;
BEGIN
	WHILE clock_timestamp() < until LOOP
		election := name_for(who);
		CONTINUE WHEN NOT le_acquire(election, wait => '1 min');
		t := le_fencing_token(election);
		IF t IS NULL OR NOT le_is_leader(election) THEN
			INSERT INTO faults VALUES ('writer does not lead ' || election);
		END IF;
		PERFORM pg_sleep(random() * 0.002);
		PERFORM le_release(election);
		IF le_is_leader(election) THEN
			INSERT INTO faults VALUES ('led after release: ' || election);
		END IF;
		INSERT INTO terms VALUES (election, t, nextval('clock'));
	END LOOP;
END $$;

-- terms of a session or a transaction, seen by nobody else
CREATE PROCEDURE write_own(who text, scope text, seconds float8)
LANGUAGE plpgsql AS $$
DECLARE
	until timestamptz := clock_timestamp() + seconds * interval '1 s';
	election text;
	n int8 := 0;
BEGIN
	WHILE clock_timestamp() < until LOOP
		election := name_for(who);
		CONTINUE WHEN NOT le_acquire(election, wait => '1 min',
									 scope => write_own.scope);
		IF NOT le_is_leader(election) THEN
			INSERT INTO faults VALUES ('writer does not lead ' || election);
		END IF;
		IF write_own.scope = 'session' THEN
			PERFORM le_release(election);
		END IF;
		COMMIT;
		-- unless the instance has taken it meanwhile
		IF le_is_leader(election) AND election NOT LIKE 'both/%' THEN
			INSERT INTO faults VALUES ('led after its end: ' || election);
		END IF;
		n := n + 1;
	END LOOP;
	INSERT INTO passes VALUES (who, n);
END $$;

-- one term for the whole time, with ever new values
CREATE PROCEDURE write_value(seconds float8) LANGUAGE plpgsql AS $$
DECLARE
	until timestamptz := clock_timestamp() + seconds * interval '1 s';
	n int8 := 0;
BEGIN
	WHILE clock_timestamp() < until LOOP
		IF NOT le_renew('held', repeat(n::text, 20)) THEN
			INSERT INTO faults VALUES ('held was not renewed');
		END IF;
		n := n + 1;
	END LOOP;
	INSERT INTO passes VALUES ('value', n);
END $$;

CREATE PROCEDURE read_all(reader text, seconds float8) LANGUAGE plpgsql AS $$
DECLARE
	until timestamptz := clock_timestamp() + seconds * interval '1 s';
	election record;
	clock int8;
	n int8 := 0;
	no int8 := 0;
BEGIN
	WHILE clock_timestamp() < until LOOP
		FOR election IN SELECT * FROM names WHERE who = 'both' OR random() < 0.1
		LOOP
			SELECT last_value INTO clock FROM public.clock;
			INSERT INTO seen
			SELECT DISTINCT election.name, token, clock
			FROM (SELECT le_fencing_token(election.name) AS token
				  FROM generate_series(1, 1000)) s
			WHERE token IS NOT NULL;
			-- in turn with another, so that it is looked up each time, and
			-- from the place that is remembered
			SELECT no + count(*) INTO no
			FROM generate_series(1, 500), (VALUES ('held'), ('none')) v (name)
			WHERE le_is_leader(v.name) <> (v.name = 'held');
			SELECT no + count(*) INTO no FROM generate_series(1, 200)
			WHERE NOT le_is_leader('held');
			n := n + 1;
		END LOOP;
	END LOOP;
	IF no > 0 THEN
		INSERT INTO faults VALUES (format('%s times not leader of held', no));
	END IF;
	INSERT INTO passes VALUES (reader, n);
END $$;
SQL

subtest 'readers against writers' => sub {
	my $seconds = 8;

	ok($node->acquire('held'), 'one term for the whole time');

	my $token = $node->token('held');
	my @sessions = map { LeaderElection::Session->new($node)->start("CALL $_") } (
		"write_node('node1', $seconds)", "write_node('node2', $seconds)",
		"write_own('session', 'session', $seconds)",
		"write_own('xact', 'transaction', $seconds)",
		"write_value($seconds)",
		"read_all('reader1', $seconds)", "read_all('reader2', $seconds)");
	my $worker = $node->worker_pid;
	my @readers = map { $_->pid } @sessions[ 5, 6 ];
	my $stops = 0;

	# A worker that stops wherever it happens to be must not be waited for, and
	# a reader that stops in the middle of a check must not put together what
	# does not belong together.
	while (grep { !$_->is_done } @sessions)
	{
		my $pid = ($worker, @readers)[ $stops++ % 3 ];

		kill('STOP', $pid);
		usleep(rand 6_000);
		kill('CONT', $pid);
		usleep(rand 2_000);
	}
	foreach my $session (@sessions)
	{
		is($session->finish->{error}, '', 'no error');
		$session->quit;
	}

	is($node->sql("SELECT string_agg(DISTINCT what, '; ') FROM faults"),
		'', 'no wrong answer');
	denied('G5', $node->sql("SELECT count(*) FROM faults WHERE what LIKE 'led after %'"),
		'no term was led after its end');
	is( $node->sql(
			"SELECT count(*) FROM seen LEFT JOIN terms USING (name, token) "
			  . "WHERE terms.name IS NULL"),
		'0', 'no token but those of the election');
	denied(
		'G5',
		$node->sql(
			"SELECT count(*) FROM seen JOIN terms USING (name, token) "
			  . "WHERE seen.asked >= terms.released"),
		'no term was seen after its release');
	my @terms = split /\n/,
	  $node->sql("SELECT string_agg(token::text, ' ' ORDER BY released) FROM terms "
		  . 'GROUP BY name HAVING count(*) > 1');

	guarantee('G2', [ map { [split] } @terms ], 'tokens of an election increase');
	same_term($token, $node->token('held'), 'the term went on');

	# or nothing was tested
	is($node->sql("SELECT count(DISTINCT name) > $slots FROM terms"),
		't', 'more names than slots');
	is($node->sql("SELECT count(*) > 10 FROM seen"), 't', 'terms were seen');
	is( $node->sql("SELECT count(*) = 5 AND min(n) > 10 FROM passes"),
		't', 'everybody had a turn');
	note $node->sql(
		"SELECT format('%s terms of the instance, %s sightings', "
		  . "(SELECT count(*) FROM terms), (SELECT count(*) FROM seen)), "
		  . "string_agg(who || ' ' || n, ', ') FROM passes"), ", $stops stops";
	ok($node->release('held'), 'released');
};

$node->stop;
done_testing();
