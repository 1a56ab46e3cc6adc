# Tier: test, 55 s
#
# Claims with the store local: a tick is taken once, by the leader, and stays taken
# whatever becomes of the instance.

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

# Which claims were granted: none is again, on any machine.
my %granted;

sub claim
{
	my ($job, $tick, $election, $session) = @_;
	my ($sql, $claim, $answer);

	$election //= 'billing';
	$claim = "'$election', '$job', '$tick'";
	$sql = "SELECT le_claim($claim)";
	$answer = $session ? $session->query($sql) : $node->sql($sql);
	denied('G4', $answer, "$claim: not granted twice") if $granted{$claim};
	$granted{$claim} = 1 if $answer eq 't';
	return $answer;
}

sub record
{
	my ($job, $columns) = @_;

	return $node->sql("SELECT $columns FROM le_claims WHERE job = '$job'");
}

denied('G4', claim('nightly', $minute), 'not without leading');
is($node->sql('SELECT count(*) FROM le_claims'), 0, 'and nothing recorded');
$node->acquire('billing');
my $token = $node->token('billing');

# it stays: a session that ends leaves its claims abandoned
my $claimant = LeaderElection::Session->new($node);

is(claim('nightly', $minute, undef, $claimant), 't', 'the first caller');
is(claim('nightly', $minute), 'f', 'and no other');
is(claim('nightly', '2019-12-31 23:59:59.999+00'), 'f', 'nor an older tick');
is(claim('other', $minute), 't', 'another job');
is( record('nightly', "election, tick = '$minute', try, state, node, "
		  . 'fencing_token, claimed_at <= now(), ended_at, length(claim)'),
	"billing|t|1|running|local|$token|t||32",
	'as recorded');
is(claim('nightly', '2020-01-01 00:00:00.001+00'), 't', 'a newer tick');

# only the session that claimed may complete
my $session = LeaderElection::Session->new($node);
is(claim('weekly', $minute, 'billing', $session), 't', 'claimed by a session');
is(claim('weekly', $minute, 'billing', $session), 'f', 'which gets it once as well');
is($node->sql("SELECT le_complete('billing', 'weekly', '$minute')"),
	'f', 'not completed by another');
is(record('weekly', 'state'), 'running', 'and still running');
is($session->query("SELECT le_complete('billing', 'weekly', '$minute')"), 't', 'but by this one');
is(record('weekly', 'state, ended_at >= claimed_at'), 'done|t', 'done');
is($session->query("SELECT le_complete('billing', 'weekly', '$minute')"), 'f', 'once');

# claims do not roll back
$session->query('BEGIN');
is(claim('undone', $minute, 'billing', $session), 't', 'claimed in a transaction');
$session->query('ROLLBACK');
is(claim('undone', $minute), 'f', 'that was undone: still taken');

# ended without the term: work that is done is done
is(claim('late', $minute, 'billing', $session), 't', 'claimed in time');
$node->release('billing');
is($session->query("SELECT le_complete('billing', 'late', '$minute')"), 't', 'completed after the term');
is(record('late', 'state'), 'done', 'and recorded');
denied('G4', claim('late', '2021-01-01'), 'no claim after the term');
$node->acquire('billing');
guarantee('G2', [ $token, $node->token('billing') ], 'a later term');
is(claim('late', $minute), 'f', 'a done tick stays done');
is(claim('undone', $minute), 'f', 'and a taken tick stays taken');

# a superseded claim is not completed
is(claim('slow', $minute, 'billing', $session), 't', 'slow: claimed');
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
my $line = (split /^/, slurp_file($file))[1];
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
my $files = q(SELECT level || ':' || message FROM le_check_config() WHERE topic = 'files');

$node->stop;
mkdir "$file.tmp";
$node->start;
poll_until(sub { $node->acquire('billing') }, 'a term with a bad disk');
foreach my $try (1 .. 3)
{
	like(
		$node->sql_error("SELECT le_claim('billing', 'disk', '$minute')"),
		qr/LE005: could not claim a tick of election "billing".*DETAIL: +could not write file "leader_election.claims": Is a directory/s,
		'no claim without its record');
}
is(claim('after', $minute), 'f', 'claimed ticks are known');
like($node->sql($files), qr/^error:Nothing can be claimed: could not write file "leader_election.claims": Is a directory$/, 'the check');
is($node->sql(q(SELECT count(*) FROM le_events WHERE event = 'file trouble')), 1, 'one event');
rmdir "$file.tmp";
is(claim('disk', $minute), 't', 'once the disk is well again');
is($node->sql(q(SELECT count(*) FROM le_events WHERE event = 'file written')), 1, 'which is said');
like($node->sql($files), qr/^ok:[^\n]*$/, 'by the check as well');
is($node->sql("SELECT count(*) FROM le_claims WHERE job IN ('slow', 'after', 'disk')"), 3, 'nothing is forgotten');

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
	't|1|done|t', 'now, with nothing to do');
is($node->sql("SELECT le_claim('billing', 'ahead', " . ahead('-1 hour') . ')'), 'f', 'past ticks stay taken');
is($node->sql("SELECT le_claim('billing', 'ahead', " . ahead('1 hour') . ')'), 't', 'future ticks are not');
($rc, $out, $said) = $node->psql('postgres', "SELECT le_forget_job('billing', 'nobody')");
is($out, 'f', 'a job without a record');
like($said, qr/WARNING:  job "nobody" of election "billing" has no record/, 'is said to have none');
like($node->sql_error("SELECT le_forget_job('elsewhere', 'ahead')"), qr/LE001: not leader of election "elsewhere"/, 'on the leader only');
$node->sql('CREATE ROLE claims_only LOGIN; GRANT EXECUTE ON FUNCTION le_claim TO claims_only');
like(LeaderElection::Session->new($node, user => 'claims_only')->error("SELECT le_forget_job('billing', 'ahead')"),
	qr/42501/, 'not by a role that may only claim');
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
is(claim('many/ä 1', '2020-01-02 00:00+00'), 't', 'existing jobs go on');
$node->acquire('other');
is(claim('one more', $minute, 'other'), 't', 'and other elections');
$node->configure(max_jobs => 1000);
is(claim('one more', $minute), 't', 'one more under a higher limit');

# Many jobs hold nobody up, and those that were silent for long make room.
sub days_ago { return int((time() - $_[0] * 86400) * 1000); }

sub old_claim
{
	my ($election, $job, $days) = @_;
	my $text = sprintf('%s {"proto":1,"node":"local","job":"%s","tick":%d,"try":1,"token":7,'
		  . '"claim":"%032x","state":"done","claimed_at":%d,"ended_at":%d}',
		$election, $job, days_ago($days), 7, (days_ago($days)) x 2);

	return sprintf("%s %08x\n", $text, crc32c($text));
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

# a hundred times what it takes
cmp_ok($seconds, '<', 60, sprintf('in %.1f s, with the start', $seconds));
$node->configure(max_jobs => 4);
is(claim('new', $minute, 'full'), 't', 'a new job, with room made for it');
is($node->sql(q{SELECT string_agg(job, ',' ORDER BY job) FROM le_claims WHERE election = 'full'}),
	'new,young', 'by those that were over for long');
is(claim("new $_", $minute, 'full'), 't', 'as many as the limit allows') foreach 1, 2;
like($node->sql_error("SELECT le_claim('full', 'new 3', '$minute')"), qr/LE005: .*leader_election\.max_jobs/s, 'and no more');

$node->stop;

# A changed file is noticed and kept, and nothing is claimed until there is a file
# that is whole: ticks that have run would run again.
my $lost = LeaderElection::Node->create('lost');

$file = $lost->data_dir . '/leader_election.claims';
my $rest = "$file.rest";
my $good = PostgreSQL::Test::Utils::tempdir . '/claims';
my $offer = qr/put a whole copy in its place, or rename "leader_election.claims.rest" to it/;

# They stay, up to a crash: one that ends writes that its claim is abandoned.
my @callers;

sub try_to
{
	my ($job) = @_;
	my $result;

	push @callers, LeaderElection::Session->new($lost);
	$result = $callers[-1]->start("SELECT le_claim('e', '$job', '$minute')")->finish;
	$granted{$job} = 1 if $result->{output} eq 't';
	return $result->{output} || $result->{error};
}

# One that was granted before, and not lost on purpose.
sub again
{
	my ($job) = @_;
	my $was_granted = $granted{$job};
	my $answer = try_to($job);

	denied('G4', $was_granted && $answer eq 't', "$job: not granted twice");
	return $answer;
}

sub write_to
{
	my ($name, $text) = @_;

	open(my $fh, '>:raw', $name) or die "$name: $!";
	print $fh $text;
	close $fh;
	return;
}

sub restarted_after
{
	my ($change) = @_;
	my $offset;

	$lost->stop('immediate');
	@callers = ();
	$change->();
	$offset = $lost->log_offset;
	$lost->start;
	poll_until(sub { $lost->acquire('e') }, 'a term');
	return $offset;
}

sub brought
{
	my ($what) = @_;

	write_to($file, slurp_file($good));
	is(again('one'), 'f', "$what: with a good copy the ticks are taken");
	like($lost->sql($files), qr/^(warning:[^\n]* put aside[^\n]*\n)?ok:[^\n]*$/, "$what: the check");
	ok(!-e $rest, "$what: and nothing is offered any more");
	is($lost->sql(q(SELECT count(*) > 0 FROM le_events WHERE event = 'file written')), 't', "$what: an event");
	unlink glob "$file.damaged.*";
	rmdir foreach glob "$file.damaged.*";
	return;
}

$lost->acquire('e');
is(try_to($_), 't', "claimed: $_") foreach 'one', 'two', 'three';
restarted_after(sub { });
is(again('one'), 'f', 'after a crash');
$lost->stop;
write_to($good, slurp_file($file));
$lost->start;

my @whole = split /^/, slurp_file($good) =~ s/\0+\z//r;

is(scalar @whole, 4, 'a line for each, and the first');
foreach my $case (
	[ 'empty', 'it is empty', sub { write_to($file, '') } ],
	[ 'cut off in a line', 'line 4 is not what was written', sub { write_to($file, substr(join('', @whole), 0, -5)) } ],
	[ 'cut off between lines', 'it has 2 lines of 3', sub { write_to($file, join('', @whole[ 0 .. 2 ])) } ],
	[ 'cut off behind the lines', 'it has \d+ bytes of 16384', sub { write_to($file, join('', @whole)) } ],
	[ 'a line is not what was written', 'line 3 is not what was written', sub { write_to($file, slurp_file($good) =~ s/"two"/"owt"/r) } ],
	[ 'random', 'its first line is not what it should be', sub { write_to($file, join '', map { chr rand 256 } 1 .. 5000) } ],
	[ 'a directory', 'it is a directory', sub { unlink $file; mkdir $file or die "$file: $!" } ])
{
	my ($what, $why, $change) = @$case;
	my $offset = restarted_after($change);
	my @kept = glob "$file.damaged.*";

	ok($lost->log_like(
			qr/LOG: +file "leader_election.claims" is damaged: $why\n.*DETAIL: +It is kept as "leader_election.claims.damaged.\d+"/, $offset),
		"$what: the log");
	is(scalar @kept, 1, "$what: it is kept");
	is($lost->sql(q(SELECT count(*) FROM le_events WHERE event = 'file trouble' AND detail LIKE '%is damaged%kept as%')),
		1, "$what: an event");
	like($lost->sql($files), qr/^error:Nothing can be claimed: "leader_election.claims" was damaged or removed: $offer/m, "$what: the check");
	like(try_to('four'), qr/LE005: .*DETAIL: +"leader_election.claims" was damaged or removed: $offer/s, "$what: nothing new is claimed");
	isnt(again('three'), 't', "$what: nor what was claimed before");
	restarted_after(sub { });
	like(try_to('four'), qr/LE005/, "$what: nor after a restart");
	isnt(again('one'), 't', "$what: neither the other");
	brought($what);
}

# The readable part counts, if an administrator says so.
restarted_after(sub { write_to($file, join('', @whole[ 0 .. 2 ])) });
is(again('two'), 'f', 'readable claims are known');
restarted_after(sub { });
is(again('two'), 'f', 'after a restart as well');
rename($rest, $file) or die $!;
is(again('two'), 'f', 'and when one goes on with it');
is(try_to('three'), 't', 'which forgets the rest');

# No file, although there was one; and one that is being copied.
restarted_after(sub { unlink $file or die "$file: $!" });
like(again('one'), qr/LE005: .*DETAIL: +"leader_election.claims" was damaged or removed: $offer/s, 'removed');
unlink $rest or die $!;
restarted_after(sub { });
like(again('one'), qr/LE005/, 'nothing is settled by removing more');

my $half = substr(slurp_file($good), 0, 500);

write_to($file, $half);
like(again('one'), qr/LE005: .*DETAIL: +"leader_election.claims" is not whole, line 4 is not what was written: $offer/s, 'a copy that has just begun');
is(slurp_file($file), $half, 'is left alone');
restarted_after(sub { });
like(again('one'), qr/LE005: .* is not whole/s, 'also by a restart');
is(slurp_file($file), $half, 'which does not touch it either');
brought('copied');

# It cannot be read.
restarted_after(
	sub {
		unlink $file or die $!;
		symlink('/proc/self/mem', $file) or die $!;
	});
like(again('one'), qr{LE005: .*DETAIL: +could not read file "leader_election.claims": Input/output error}s, 'an error of the disk');
like($lost->sql($files), qr{^error:Nothing can be claimed: could not read file "leader_election.claims": Input/output error}m, 'the check');
ok(-l $file, 'it is not written anew');
unlink $file or die $!;
brought('read again');

# Removed or replaced under the worker: all that it knows is written anew.
is(try_to('five'), 't', 'one more');
unlink $file or die $!;
is(try_to('six'), 't', 'claimed without a file');
restarted_after(sub { });
is(again($_), 'f', "$_: in the new one") foreach 'one', 'five', 'six';
write_to("$file.old", slurp_file($good));
rename("$file.old", $file) or die $!;
is(try_to('seven'), 't', 'claimed with another file');
restarted_after(sub { });
is(again($_), 'f', "$_: in the right one") foreach 'one', 'five', 'six', 'seven';

# A crash may leave the first line of a write without the others: nobody was told.
sub wiped
{
	my ($job) = @_;

	return sub {
		write_to($file, slurp_file($file) =~ s/^[^\n]*"job":"$job"[^\n]*\n/"\0" x length $&/emr);
	};
}

is(try_to('eight'), 't', 'the last claim but one');
is(try_to('last'), 't', 'the last claim');
my $offset = restarted_after(wiped('last'));
ok(!$lost->log_like(qr/is damaged/, $offset), 'the last line is missing: no alarm');
is(again('eight'), 'f', 'claims from before are');
is(try_to('last'), 't', 'and it can be had');
is(try_to('behind'), 't', 'one more');
$offset = restarted_after(wiped('last'));
ok($lost->log_like(qr/is damaged/, $offset), 'one before it is missing: damaged');
rename($rest, $file) or die $!;
is(again('behind'), 'f', 'the readable part counts');

# The file is full from time to time: it goes on in a new one.
my $many = "SELECT count(*) FROM generate_series(1, 300) n WHERE le_claim('e', 'many ' || n, '$minute')";
my $had = $lost->sql($many);
is($had, 300, 'more than there was room for');
cmp_ok(-s $file, '>', 65536, 'a larger file');
is((-s $file) % 16384, 0, 'in steps');
restarted_after(sub { });
my $more = $lost->sql($many);
is($more, 0, 'all are there');
denied('G4', $more > 300 - $had, 'and none is granted twice');

# No room on the disk, not even to write within the file.
system_or_bail('prlimit', '--pid', $lost->worker_pid, '--fsize=0:');
$lost->configure(request_timeout => '200ms');
like(try_to('full'), qr/LE004: .*could not claim/s, 'a write that fails: nobody knows');
like(try_to('fuller'), qr/LE005: .*DETAIL: +could not write file "leader_election.claims": File too large/s, 'and then nobody tries');
like($lost->sql($files), qr/^error:Nothing can be claimed: could not write file "leader_election.claims": File too large/m, 'the check');
system_or_bail('prlimit', '--pid', $lost->worker_pid, '--fsize=unlimited:');
is(try_to('fuller'), 't', 'there is room again');
restarted_after(sub { });
is(again('fuller'), 'f', 'and it was used');
$lost->stop;

done_testing();

# As PostgreSQL's.
sub crc32c
{
	my ($text) = @_;
	my $crc = 0xffffffff;

	$crc = $crc_table[ ($crc ^ $_) & 0xff ] ^ ($crc >> 8) foreach unpack('C*', $text);
	return $crc ^ 0xffffffff;
}
