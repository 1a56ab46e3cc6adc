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
my $minute = '2020-01-01 00:00:00+00';

my @crc_table = map {
	my $crc = $_;

	$crc = $crc & 1 ? ($crc >> 1) ^ 0x82f63b78 : $crc >> 1 foreach 1 .. 8;
	$crc;
} 0 .. 255;

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
is(claim('nightly', '2019-12-31 23:59:59.999+00'), 'f', 'nor an older tick');
is(claim('other', $minute), 't', 'another job');
is( record('nightly', "election, tick = '$minute', try, state, node, "
		  . 'fencing_token, claimed_at <= now(), ended_at, length(claim)'),
	"billing|t|1|running|local|$token|t||32",
	'as recorded');
is(claim('nightly', '2020-01-01 00:00:00.001+00'), 't', 'a newer tick');

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
is(claim('late', '2021-01-01'), 'f', 'no claim after the term');
$node->acquire('billing');
cmp_ok($node->token('billing'), '>', $token, 'a later term');
is(claim('late', $minute), 'f', 'what is done stays done');
is(claim('undone', $minute), 'f', 'and what is taken stays taken');

# a superseded claim is not completed
is($session->query("SELECT le_claim('billing', 'slow', '$minute')"), 't', 'slow: claimed');
is(claim('slow', '2020-01-01 00:01+00'), 't', 'slow: the next tick');
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
	is(claim('slow', '2020-01-01 00:01+00'), 'f', "kill -9, $how: taken");
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
	[ "'billing', 'j', '2020-01-01 00:00:00.0001+00'", qr/22023: tick is not a whole millisecond/ ],
	[ "NULL, 'j', '$minute'", qr/22004: argument "election" must not be null/ ],
	[ "'billing', NULL, '$minute'", qr/22004: argument "job" must not be null/ ],
	[ "'billing', 'j', NULL", qr/22004: argument "tick" must not be null/ ])
{
	my ($arguments, $error) = @$case;

	like($node->sql_error("SELECT $_($arguments)"), $error, "$_($arguments)")
	  foreach 'le_claim', 'le_complete';
}
is($node->sql('SELECT count(*) FROM le_claims'), $rows, 'nothing recorded');

# One tick in the future would silence the job until then.
sub ahead { return "date_trunc('second', now()) + interval '$_[0]'"; }

foreach my $call (
	"SELECT le_claim('billing', 'ahead', %s)",
	"SELECT le_claim('elsewhere', 'ahead', %s)",
	"CALL le_run('billing', 'SELECT 1', job => 'ahead', tick => %s)")
{
	foreach my $tick (ahead('25 hours'), "'9999-01-01Z'")
	{
		like($node->sql_error(sprintf($call, $tick)),
			qr/22008: tick is too far in the future.*"leader_election.max_tick_ahead" is 86400 s/s,
			sprintf($call, $tick));
	}
}
is($node->sql("SELECT count(*) FROM le_claims WHERE job = 'ahead'"), 0, 'nothing recorded');
$node->configure(max_tick_ahead => '1h');
like($node->sql_error("SELECT le_claim('billing', 'ahead', " . ahead('2 hours') . ')'), qr/22008/, 'less than a day');
$node->configure(max_tick_ahead => '1d');
is($node->sql("SELECT le_claim('billing', 'ahead', " . ahead('23 hours') . ')'), 't', 'by mistake');
is($node->sql("SELECT le_claim('billing', 'ahead', " . ahead('1 hour') . ')'), 'f', 'all before it are taken');

my ($rc, $out, $said) = $node->psql('postgres', "SELECT le_forget_job('billing', 'ahead')");

is($out, 't', 'the record begins anew');
like($said, qr/WARNING:  the record of job "ahead" of election "billing" begins anew/, 'with a warning');
is(record('ahead', "abs(extract(epoch FROM now() - tick)) < 60, try, state, fencing_token = le_fencing_token('billing')"),
	't|1|failed|t', 'now, with nothing to do');
is($node->sql("SELECT le_claim('billing', 'ahead', " . ahead('-1 hour') . ')'), 'f', 'what is past stays taken');
is($node->sql("SELECT le_claim('billing', 'ahead', " . ahead('1 hour') . ')'), 't', 'what is to come is not');
($rc, $out, $said) = $node->psql('postgres', "SELECT le_forget_job('billing', 'nobody')");
is($out, 'f', 'a job without a record');
like($said, qr/WARNING:  job "nobody" of election "billing" has no record/, 'is said to have none');
like($node->sql_error("SELECT le_forget_job('elsewhere', 'ahead')"), qr/LE001: not leader of election "elsewhere"/, 'on the leader only');
$node->sql('CREATE ROLE claims_only LOGIN; GRANT EXECUTE ON FUNCTION le_claim TO claims_only');
like(LeaderElection::Session->new($node, user => 'claims_only')->error("SELECT le_forget_job('billing', 'ahead')"),
	qr/42501/, 'not by who may claim');
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

# There are only so many jobs of an election.
$node->configure(max_jobs => 100);
like(
	$node->sql_error("SELECT le_claim('billing', 'one more', '$minute')"),
	qr/LE005: .*leader_election\.max_jobs/s,
	'one more than there may be');
is(claim('many/ä 1', '2020-01-02 00:00+00'), 't', 'those that are there go on');
$node->acquire('other');
is(claim('one more', $minute, 'other'), 't', 'and other elections');
$node->configure(max_jobs => 1000);
is(claim('one more', $minute), 't', 'one more, when there may be');

# Many of them hold nobody up, and what is over for long makes room.
sub days_ago { return int((time() - $_[0] * 86400) * 1000); }

sub old_claim
{
	my ($election, $job, $days) = @_;
	my $text = sprintf('%s {"proto":1,"node":"local","job":"%s","tick":%d,"try":1,"token":7,'
		  . '"claim":"%032x","state":"done","claimed_at":%d,"ended_at":%d}',
		$election, $job, days_ago($days), 7, (days_ago($days)) x 2);

	return sprintf("%08x %s\n", crc32c($text), $text);
}

$node->stop;
append_to_file($file, join('', map { old_claim('flood', "job $_", 10) } 1 .. 20_000));
append_to_file($file, join('', map { old_claim('full', "old $_", 91) } 1 .. 3));
append_to_file($file, old_claim('full', 'young', 89));

my $seconds = timed(
	sub {
		$node->start;
		poll_until(sub { $node->acquire('full') }, 'a term with many claims');
		is( $node->sql(q{SELECT count(*), count(DISTINCT job) FROM le_claims WHERE election = 'flood'}),
			'20000|20000', 'each is shown once');
	});

cmp_ok($seconds, '<', 10, sprintf('in %.1f s, with the start', $seconds));
$node->configure(max_jobs => 4);
is(claim('new', $minute, 'full'), 't', 'a new job, with room made for it');
is($node->sql(q{SELECT string_agg(job, ',' ORDER BY job) FROM le_claims WHERE election = 'full'}),
	'new,young', 'by those that were over for long');
is(claim("new $_", $minute, 'full'), 't', 'as many as there may be') foreach 1, 2;
like($node->sql_error("SELECT le_claim('full', 'new 3', '$minute')"), qr/LE005: .*leader_election\.max_jobs/s, 'and no more');

done_testing();

# As PostgreSQL's.
sub crc32c
{
	my ($text) = @_;
	my $crc = 0xffffffff;

	$crc = $crc_table[ ($crc ^ $_) & 0xff ] ^ ($crc >> 8) foreach unpack('C*', $text);
	return $crc ^ 0xffffffff;
}
