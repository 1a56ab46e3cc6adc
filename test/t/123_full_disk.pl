# Tier: test, 39 s
#
# The store local on a disk that is full under its claims (test/faults/full_disk.c;
# test/faults has the files of the other stores): each promise holds afterwards,
# however much of it could be written.  Meanwhile it is right to refuse a claim, and
# also to grant one that could be written.

use strict;
use warnings;

use LeaderElection::Node;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $library = "$ENV{LE_BIN}/full-disk.so";

plan skip_all => 'full-disk.so was not built' unless -e $library;

my $control = PostgreSQL::Test::Utils::tempdir . '/full';

$ENV{LD_PRELOAD} = $library;
$ENV{FULL_DISK} = $control;

my $node =
  LeaderElection::Node->create('a', settings => { campaign => 'e' });
my (%granted, @twice);

$node->wait_for_leadership('e');

sub fill
{
	open(my $fh, '>', $control) or die $!;
	print $fh "$_\n" foreach @_;
	close $fh;
	return;
}

# A claimant gets the tick, does not, or does not know ('').
sub claim
{
	my ($job, $tick) = @_;
	my ($rc, $out, $error) = $node->psql('postgres',
		"\\set VERBOSITY verbose\nSELECT le_claim('e', '$job', to_timestamp($tick))");

	push @twice, "$job $tick: " . ++$granted{"$job $tick"} . ' times'
	  if $rc == 0 && $out eq 't' && $granted{"$job $tick"}++;
	like($error, qr/ERROR:  (LE00[345]|53100)/, "$job $tick: an error says why")
	  if $rc != 0;
	return $rc == 0 ? $out : '';
}

# The state of a job's last claim.
sub last_tick
{
	my ($job) = @_;

	return $node->sql(
		"SELECT extract(epoch FROM tick)::bigint FROM le_claims WHERE job = '$job'");
}

is(claim('before', 1), 't', 'a claim');
is(claim('torn', 1), 't', 'and another');

fill('leader_election.claims');
isnt(claim('torn', 2), 'f', 'on a full disk nobody is told that the tick is taken');
isnt(claim('new', 1), 'f', 'nor of a new job');
is(last_tick('before'), 1, 'written claims are known');
unlink $control;

# half a line is in the file now
isnt(claim('torn', 2), 'f', 'once there is room the tick can be had')
  unless $granted{'torn 2'};
is(claim('torn', 3), 't', 'and the next');
is(claim('new', 2), 't', 'those of the other job as well');
guarantee('G4', \@twice, 'no tick is granted twice');

foreach my $end ('restart', 'crash')
{
	if ($end eq 'crash')
	{
		$node->crash;
		$node->start;
	}
	else
	{
		$node->restart;
	}
	$node->wait_for_leadership('e');
	is(last_tick('before'), 1, "$end: the claim before is there");
	is(last_tick('torn'), 3, "$end: so is the last one behind half a line");
	is(last_tick('new'), 2, "$end: of the other job as well");
	isnt(claim('torn', 3), 't', "$end: a tick that is taken stays so");
	isnt(claim('before', 1), 't', "$end: since long, too");
}

# A grant on a full disk, if there was one, lasts across a crash, too.
fill('leader_election.claims');
isnt(claim('torn', 4), 'f', 'a full disk again: nobody is told that it is taken');
$node->crash;
unlink $control;
$node->start;
$node->wait_for_leadership('e');
claim('torn', 4);
ok($granted{'torn 4'}, 'the tick is granted once, before the crash or after');
is(last_tick('torn'), 4, 'and written down');
guarantee('G4', \@twice, 'and not twice');

# Full while it starts, when the file is written anew.
fill('leader_election.claims');
$node->restart;
$node->wait_for('SELECT count(*) >= 0 FROM le_status', 'an answer');
isnt(claim('torn', 4), 't', 'started on a full disk: a tick that is taken stays so');
unlink $control;
$node->wait_for_worker;
$node->restart;
$node->wait_for_leadership('e');
is(last_tick('torn'), 4, 'nothing was lost by that');
isnt(claim('torn', 4), 't', 'or granted again');
is(claim('torn', 5), 't', 'and it goes on');
guarantee('G4', \@twice, 'no tick was granted twice');

# The tokens: the store local has its numbers from the log, but remembers them all
# the same.  No term may begin that cannot be remembered; one that did counts.
my $token = $node->token('e');

fill('leader_election.tokens');
like($node->sql_error("SELECT le_acquire('t')"),
	qr/^$|could not keep the fencing token/, 'tokens on a full disk');
unlink $control;
$node->restart;
$node->wait_for_leadership('e');
guarantee('G2', [ $token, $node->token('e') ], 'tokens increase');

done_testing();
