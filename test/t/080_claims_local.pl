# Claims with the store local: a tick is taken once, by who leads, and stays
# taken whatever becomes of the instance.

use strict;
use warnings;

use LeaderElection::Node;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = LeaderElection::Node->create('local');
my $minute = '2030-01-01 00:00:00+00';

sub claim
{
	my ($job, $tick, $election) = @_;

	$election //= 'billing';
	return $node->sql("SELECT le_claim('$election', '$job', '$tick')");
}

sub record
{
	my ($job, $columns) = @_;

	return $node->sql("SELECT $columns FROM le_claims WHERE job = '$job'");
}

is(claim('nightly', $minute), 'f', 'not without leading');
is($node->sql('SELECT count(*) FROM le_claims'), 0, 'and nothing recorded');
$node->acquire('billing');
my $token = $node->token('billing');

is(claim('nightly', $minute), 't', 'the first caller');
is(claim('nightly', $minute), 'f', 'and no other');
is(claim('nightly', '2029-12-31 23:59:59.999+00'), 'f', 'nor an older tick');
is(claim('other', $minute), 't', 'another job');
is( record('nightly', "election, tick = '$minute', try, state, node, "
		  . 'fencing_token, claimed_at <= now(), ended_at, length(claim)'),
	"billing|t|1|running|local|$token|t||32",
	'as recorded');
is(claim('nightly', '2030-01-01 00:00:00.001+00'), 't', 'a newer tick');

# only who claimed may complete
my $session = LeaderElection::Session->new($node);
is($session->query("SELECT le_claim('billing', 'weekly', '$minute')"), 't', 'claimed by a session');
is($session->query("SELECT le_claim('billing', 'weekly', '$minute')"),
	'f', 'which gets it once as well');
is($node->sql("SELECT le_complete('billing', 'weekly', '$minute')"),
	'f', 'not completed by another');
is(record('weekly', 'state'), 'running', 'and still running');
is($session->query("SELECT le_complete('billing', 'weekly', '$minute')"), 't', 'but by this one');
is(record('weekly', 'state, ended_at >= claimed_at'), 'done|t', 'done');
is($session->query("SELECT le_complete('billing', 'weekly', '$minute')"), 'f', 'once');

# claims do not roll back
$session->query('BEGIN');
is($session->query("SELECT le_claim('billing', 'undone', '$minute')"), 't', 'claimed in a transaction');
$session->query('ROLLBACK');
is(claim('undone', $minute), 'f', 'that was undone: still taken');

# ended without the term: work that is done is done
is($session->query("SELECT le_claim('billing', 'late', '$minute')"), 't', 'claimed in time');
$node->release('billing');
is($session->query("SELECT le_complete('billing', 'late', '$minute')"), 't', 'completed after the term');
is(record('late', 'state'), 'done', 'and recorded');
is(claim('late', '2031-01-01'), 'f', 'no claim after the term');
$node->acquire('billing');
cmp_ok($node->token('billing'), '>', $token, 'a later term');
is(claim('late', $minute), 'f', 'what is done stays done');
is(claim('undone', $minute), 'f', 'and what is taken stays taken');

# a superseded claim is not completed
is($session->query("SELECT le_claim('billing', 'slow', '$minute')"), 't', 'slow: claimed');
is(claim('slow', '2030-01-01 00:01+00'), 't', 'slow: the next tick');
is($session->query("SELECT le_complete('billing', 'slow', '$minute')"), 'f', 'slow: too late');
is(record('slow', 'state'), 'running', 'slow: the next one is not touched');
$session->quit;

# kill -9 of a backend, of the worker, of everything
my $before = $node->sql('SELECT * FROM le_claims ORDER BY job');
foreach my $how ('backend', 'worker', 'instance')
{
	my $offset = $node->log_offset;

	if ($how eq 'instance')
	{
		$node->crash;
		$node->start;
	}
	else
	{
		my $victim = LeaderElection::Session->new($node);

		kill('KILL', $how eq 'worker' ? $node->worker_pid : $victim->pid);
		$node->wait_for_log_like(
			qr/database system is ready to accept connections/, $offset);
	}
	poll_until(sub { $node->acquire('billing') }, 'a term after the crash');
	is($node->sql('SELECT * FROM le_claims ORDER BY job'),
		$before, "kill -9, $how: all claims are there");
	is(claim('slow', '2030-01-01 00:01+00'), 'f', "kill -9, $how: taken");
}

# a line that the crash cut short, and one that was damaged
$node->stop('immediate');
my $file = $node->data_dir . '/leader_election.claims';
open(my $log, '>>', $file) or die "$file: $!";
my $line = (split /^/, slurp_file($file))[0];
print $log $line =~ s/"try":1/"try":9/r, substr($line, 0, 40);
close $log;
$node->start;
poll_until(sub { $node->acquire('billing') }, 'a term after the damage');
is($node->sql('SELECT * FROM le_claims ORDER BY job'),
	$before, 'lines that are not whole do not count');
is(claim('after', $minute), 't', 'and the next claim');
$node->stop('immediate');
$node->start;
poll_until(sub { $node->acquire('billing') }, 'a term after a crash');
is(claim('after', $minute), 'f', 'is written where it can be read');

# the file cannot be written: nobody is told yes, and nothing is forgotten
$node->stop;
rename("$file", "$file.saved");
mkdir "$file.tmp";
$node->start;
poll_until(sub { $node->acquire('billing') }, 'a term with a bad disk');
$node->configure(request_timeout => '200ms');
like(
	$node->sql_error("SELECT le_claim('billing', 'disk', '$minute')"),
	qr/LE004: could not claim a tick of election "billing".*could not write the file of claims/s,
	'no claim without its record');
rmdir "$file.tmp";
is(claim('disk', $minute), 't', 'once the disk is well again');

# bad arguments change nothing
my $rows = $node->sql('SELECT count(*) FROM le_claims');
foreach my $case (
	[ "'bad name', 'j', '$minute'", qr/22023: invalid election name/ ],
	[ "'billing', '', '$minute'", qr/22023: invalid job name: ""/ ],
	[ "'billing', E'a\\nb', '$minute'", qr/22023: invalid job name/ ],
	[ "'billing', repeat('a', 201), '$minute'", qr/22023: invalid job name/ ],
	[ "'billing', 'j', 'infinity'", qr/22008: tick out of range/ ],
	[ "'billing', 'j', '1969-12-31 23:59:59+00'", qr/22008: tick out of range/ ],
	[ "'billing', 'j', '2030-01-01 00:00:00.0001+00'", qr/22023: tick is not a whole millisecond/ ],
	[ "NULL, 'j', '$minute'", qr/22004: argument "election" must not be null/ ],
	[ "'billing', NULL, '$minute'", qr/22004: argument "job" must not be null/ ],
	[ "'billing', 'j', NULL", qr/22004: argument "tick" must not be null/ ])
{
	my ($arguments, $error) = @$case;

	like($node->sql_error("SELECT $_($arguments)"), $error, "$_($arguments)")
	  foreach 'le_claim', 'le_complete';
}
is($node->sql('SELECT count(*) FROM le_claims'), $rows, 'nothing recorded');

# names that have to be escaped, and more rows than fit at once
is( $node->sql(
		"SELECT count(*) FROM generate_series(1, 200) n "
		  . "WHERE le_claim('billing', 'many/ä ' || n, '$minute')"),
	200,
	'many jobs');
is( $node->sql(
		q(SELECT count(*), count(DISTINCT claim) FROM le_claims WHERE job LIKE 'many/ä %')
	),
	'200|200',
	'all shown');

done_testing();
