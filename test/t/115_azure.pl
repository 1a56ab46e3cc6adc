# Tier: test, 98 s
#
# Two instances and Azurite: peculiarities of leases of blobs.  Common traits of all
# stores are in test/contract.

use strict;
use warnings;

use LeaderElection::Azurite;
use LeaderElection::Docs;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Sampler;
use LeaderElection::Session;
use LeaderElection::Util;
use List::Util qw(max);
use PostgreSQL::Test::Utils;
use Test::More;

my $azurite = LeaderElection::Azurite->new('azurite')->start;
my ($one, $two) =
  map { LeaderElection::Node->create($_, azure => $azurite) } qw(one two);

sub wait_for_state
{
	my ($node, $election, $state) = @_;

	return $node->wait_for(
		"SELECT state = '$state' FROM le_status WHERE election = '$election'",
		$node->name . ": $election $state");
}

# The term, as the blob shows it.
subtest 'one leads' => sub {
	my $blob;

	ok($one->acquire('billing'), 'the first gets it');
	$blob = $azurite->blob('billing');
	is($blob->{state}, 'leased', 'the blob is leased');
	is($blob->{node}, 'one', 'and names its holder');
	is($one->token('billing'), $blob->{token}, 'the token is in its metadata');
};

# A value is written under the lease, and does not renew it.
subtest 'value' => sub {
	my $token = $one->token('billing');
	my $session = LeaderElection::Session->new($one);
	my $began = boottime_ns();
	my $n = 0;

	# for longer than a lease lasts, and more often than it has to be renewed
	while (boottime_ns() - $began < 16e9 || $n < 7)
	{
		$session->query("SELECT le_renew('billing', '" . $n++ . "')");
	}
	same_term($token, $one->token('billing'), 'it is the same term');
	is($azurite->blob('billing')->{state}, 'leased', 'and leased');
	is($one->sql(q(SELECT losses, failures FROM le_stat()
		WHERE election = 'billing')), '0|0', 'without a loss');
};

subtest 'le_run' => sub {
	my $tick = '2020-01-01 00:00:00+00';

	$one->sql('CREATE TABLE ran (tick timestamptz, token bigint)');
	$one->sql(
		"CALL le_run('billing', 'INSERT INTO ran VALUES (le_tick(),
		le_fencing_token(''billing''))', job => 'run', tick => '$tick')")
	  foreach 1 .. 2;
	is($one->sql('SELECT count(*) FROM ran'), 1, 'le_run runs a tick once');
	guarantee('G4',
		[ split /\n/, $one->sql('SELECT tick FROM ran GROUP BY tick HAVING count(*) > 1') ],
		'and none twice');
};

# Its lease broken by an operator: the term ends with the next renewal.  A leader that
# hears nothing, and has a lease four times as long as the others, goes on for all of
# it: nobody knows, so everybody waits for the longest lease that there is.
subtest 'a broken lease' => sub {
	my $recorder =
	  LeaderElection::Recorder->new('deaf', $azurite->host_port)->start;
	my $deaf = LeaderElection::Node->create(
		'deaf',
		azure => $azurite,
		settings => {
			azure_container_url => $azurite->url($recorder->host_port),
			lease_ttl => '60s'
		});
	my @samplers = map { LeaderElection::Sampler->new($_, 'deaf') } $deaf, $two;
	my %session = map { $_ => LeaderElection::Session->new($two) } qw(broken deaf);
	my $broken;

	ok($one->acquire('broken'), 'one leads');
	ok($deaf->acquire('deaf'), 'and one for a minute');
	foreach my $election (sort keys %session)
	{
		$session{$election}->start(
			"SELECT le_acquire('$election', wait => '5 min')");
		wait_for_state($two, $election, 'waiting');
	}
	poll_until(sub { scalar $samplers[0]->beliefs }, 'a sample');
	$recorder->rule(match => qr/deaf~/, action => 'lose_request');
	is( $azurite->request('PUT', "leader_election/$_~leader", 'comp=lease',
			'x-ms-lease-action' => 'break', 'x-ms-lease-break-period' => 0)
		  ->{status},
		202,
		"the lease of $_ is broken")
	  foreach sort keys %session;
	$broken = boottime_ns();
	poll_until(sub { !$one->is_leader('broken') }, 'the end of the term');
	is($session{broken}->finish->{output}, 't', 'the other leads');
	cmp_ok((boottime_ns() - $broken) / 1e9, '>', 14,
		'but not before the deadline of the first');
	is($session{deaf}->finish->{output},
		't', 'also after a leader that heard nothing');
	$_->stop foreach @samplers;
	cmp_ok((max(map { $_->[1] } $samplers[0]->beliefs) - $broken) / 1e9,
		'>', 25, 'the one that lasts longer than the others');
	guarantee('G1', [ LeaderElection::Sampler->overlaps(@samplers) ], 'no overlap');
	ok($two->release($_), 'the end') foreach sort keys %session;
	$deaf->stop('immediate');
};

# The configuration of the documentation, as it stands there.
subtest 'recipe' => sub {
	my $conf = block('azure configuration');
	my $url = $azurite->url;
	my $sas = $azurite->sas_file;
	my $db1 = LeaderElection::Node->create('configured', start => 0);

	$conf =~ s{https://myaccount\.blob\.core\.windows\.net/leader-election}{$url}
	  or fail('the URL');
	$conf =~ s{/etc/postgresql/azure-sas}{$sas} or fail('the file');
	$db1->append_conf('postgresql.conf', $conf);
	ok($one->release('billing'), 'nobody leads');
	$db1->start;
	$db1->sql('CREATE EXTENSION leader_election');
	$db1->wait_for_leadership('billing');
	is($db1->leader('billing'), 'db1', 'campaigns as configured');
	$db1->stop;
};

# An instance that comes back after a crash ends its predecessor's terms.
subtest 'restart' => sub {
	my $waiting = LeaderElection::Session->new($two);
	my ($token, $took);

	ok($one->acquire('restart'), 'one leads');
	$token = $one->token('restart');
	$waiting->start(q(SELECT le_acquire('restart', wait => '3 min')));
	wait_for_state($two, 'restart', 'waiting');
	$one->stop('immediate');
	$took = timed(
		sub {
			$one->start;
			$one->wait_for_log_like(qr/ending the leases of this node's previous/);
			is($waiting->finish->{output}, 't', 'the other has it');
		});
	diag(sprintf 'restart: %.1f s', $took);
	guarantee('G2', [ $token, $two->token('restart') ], 'with a higher token');
	is($two->token('restart'), $token + 1, 'the next');
	ok($two->release('restart'), 'the end');
};

# A leader that dies: its lease runs out, and not before.
subtest 'crash' => sub {
	my @samplers =
	  map { LeaderElection::Sampler->new($_, 'crash') } $one, $two;
	my $waiting = LeaderElection::Session->new($two);
	my ($token, $killed, $took);

	ok($one->acquire('crash', wait => '3 min'), 'one leads');
	$token = $one->token('crash');
	$waiting->start(q(SELECT le_acquire('crash', wait => '3 min')));
	wait_for_state($two, 'crash', 'waiting');
	poll_until(sub { scalar $samplers[0]->beliefs }, 'a sample');
	$killed = boottime_ns();
	$one->crash;
	is($waiting->finish->{output}, 't', 'the other has it');
	$took = (boottime_ns() - $killed) / 1e9;
	diag(sprintf 'takeover after kill -9: %.1f s', $took);
	guarantee('G2', [ $token, $two->token('crash') ], 'with a higher token');
	is($two->token('crash'), $token + 1, 'the next');
	$_->stop foreach @samplers;
	guarantee('G1', [ LeaderElection::Sampler->overlaps(@samplers) ],
		'terms do not overlap');
};

$azurite->tells_no_secret($two);
$two->stop;
is($azurite->blob('crash')->{state}, 'available', 'a shutdown releases all');

done_testing();
