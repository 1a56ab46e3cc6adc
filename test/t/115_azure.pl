# Tier: test, 116 s
#
# Two instances and Azurite: who leads, what everybody sees of it, how it
# changes hands, and what an instance that dies or restarts leaves behind.

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

# The first duty, and what SQL says about it on both sides.
subtest 'one leads' => sub {
	my $blob;

	ok($one->acquire('billing'), 'the first gets it');
	ok(!$two->acquire('billing'), 'the second does not');
	still_leads($one, 'billing', 'the first leads');
	ok(!$two->is_leader('billing'), 'alone');
	$blob = $azurite->blob('billing');
	is($blob->{state}, 'leased', 'the blob is leased');
	is($blob->{node}, 'one', 'and says to whom');
	is($one->token('billing'), $blob->{token}, 'the token is in its metadata');
	is($two->token('billing'), undef, 'no token without a term');
	is($_->leader('billing'), 'one', $_->name . ' knows who leads')
	  foreach $one, $two;
};


# A value is written under the lease, and does not renew it.
subtest 'value' => sub {
	my $token = $one->token('billing');
	my $session = LeaderElection::Session->new($one);
	my $long = "é\n" x 341;
	my $began = boottime_ns();
	my $n = 0;

	is($session->query("SELECT le_renew('billing', '$long')"),
		't', 'published');
	is($two->sql("SELECT value = '$long' FROM le_leader('billing')"),
		't', 'seen by the other node as it is');
	is($one->sql(q(SELECT le_renew('billing', ''))), 't', 'an empty one');
	is($two->sql(q(SELECT value = '' FROM le_leader('billing'))),
		't', 'is not none');
	is($two->sql(q(SELECT le_renew('billing', 'mine'))),
		'f', 'nobody else can publish');

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

# A waiter looks at the blob every two seconds, and finds it free: the lease, which
# lasts for 15 s, need not run out.
subtest 'handoff' => sub {
	my @nodes = ($one, $two);
	my @samplers = map { LeaderElection::Sampler->new($_, 'handoff') } @nodes;
	my %session = map { $_->name => LeaderElection::Session->new($_) } @nodes;
	my $handoffs = 5;
	my (@tokens, @took, %attempts, $began);

	ok($one->acquire('handoff'), 'one leads');
	push @tokens, $one->token('handoff');
	$began = boottime_ns();
	foreach my $n (1 .. $handoffs)
	{
		my ($from, $to) = @nodes;
		my $waiting = $session{ $to->name };

		$waiting->start(q(SELECT le_acquire('handoff', wait => '3 min')));
		wait_for_state($to, 'handoff', 'waiting');
		push @took, scalar timed(
			sub {
				$session{ $from->name }->query(q(SELECT le_release('handoff')));
				is($waiting->finish->{output}, 't', "$n: had by who waited");
			});
		push @tokens, $to->token('handoff');
		$attempts{ $azurite->blob('handoff')->{attempt} } = 1;
		@nodes = ($to, $from);
	}
	before(boottime_ns(), $began + $handoffs * 15e9, 'none took what a lease takes');
	guarantee('G2', \@tokens, 'tokens rise');
	is_deeply(\@tokens, [ 1 .. $handoffs + 1 ], 'by one');
	is(scalar keys %attempts, $handoffs, 'no lease id serves twice');
	$_->stop foreach @samplers;
	guarantee('G1', [ LeaderElection::Sampler->overlaps(@samplers) ],
		'terms do not overlap');
	@took = sort { $a <=> $b } @took;
	diag(sprintf 'handoff: %.1f to %.1f s', @took[ 0, -1 ]);
	ok($nodes[0]->release('handoff'), 'the end');
	is($azurite->blob('handoff')->{state}, 'available', 'nothing is held');
	$_->quit foreach values %session;
};

subtest 'scopes and drain' => sub {
	my $session = LeaderElection::Session->new($one);

	is($session->query(q(SELECT le_acquire('mine', scope => 'session'))),
		't', 'a session holds it');
	$session->quit;
	poll_until(sub { $azurite->blob('mine')->{state} eq 'available' },
		'its release with the session');
	is( $one->sql(
			q(BEGIN; SELECT le_acquire('mine', scope => 'transaction'),
			le_is_leader('mine'); COMMIT; SELECT le_is_leader('mine'))),
		"t|t\nf",
		'a transaction holds it until its end');
	$one->sql(q(SELECT le_campaign('mine')));
	$one->wait_for_leadership('mine');
	is($one->sql(q(SELECT le_step_down('mine', '1 h'))), 't', 'stepped down');
	$two->acquire('mine', wait => '3 min');
	is($two->leader('mine'), 'two', 'for another');
	ok($two->release('mine'), 'the end');
	$one->sql(q(SELECT le_withdraw('mine')));
};

# Names of any form that an election can have are blobs of their own.
subtest 'names' => sub {
	foreach my $election ('a', 'a/b', 'a.', 'a./b', 'A/b.c/d')
	{
		ok($one->acquire($election), "$election acquired");
		is($two->leader($election), 'one', 'and found');
	}
	is($azurite->request('HEAD', 'leader_election/a.~/b~leader')->{status},
		200, 'no segment ends in a dot');
	$one->release($_) foreach 'a', 'a/b', 'a.', 'a./b', 'A/b.c/d';
};

# A tick is claimed once, whoever asks, and only by the leader.
subtest 'claims' => sub {
	my $tick = '2020-01-01 00:00:00+00';
	my $job = "nächtlich/1 = %2F.\x{27}\x{27}";
	my $claim = "SELECT le_claim('billing', '$job', '$tick')";
	my $session = LeaderElection::Session->new($one);
	my @sessions =
	  map { my $node = $_; map { LeaderElection::Session->new($node) } 1 .. 2 }
	  $one, $two;
	my (@claimed, @won, %won);

	is($two->sql($claim), 'f', 'not by who does not lead');
	@claimed = ($session->query($claim), $one->sql($claim));
	guarantee('G4', [ "@claimed" eq 't t' ? $job : () ], 'not twice');
	is("@claimed", 't f', 'claimed, once');
	is( $two->sql(
			"SELECT state, try, tick = '$tick', fencing_token, node
			FROM le_claims WHERE job = '$job'"),
		'running|1|t|' . $one->token('billing') . '|one',
		'seen by the other node');
	is($session->query($claim =~ s/le_claim/le_complete/r), 't', 'completed');
	is($two->sql("SELECT state FROM le_claims WHERE job = '$job'"),
		'done', 'which is seen, too');

	$_->start(
		"WITH s AS MATERIALIZED (SELECT n FROM generate_series(1, 10) n
		ORDER BY random())
		SELECT n FROM s WHERE le_claim('billing', 'job/' || n, '$tick')")
	  foreach @sessions;
	@won = map { [ split /\n/, $_->finish->{output} ] } @sessions;
	$won{$_}++ foreach map { @$_ } @won;
	is(scalar keys %won, 10, 'each job is claimed');
	is(scalar(map { @$_ } @won), 10, 'once');
	guarantee('G4', [ grep { $won{$_} > 1 } sort keys %won ], 'and none twice');
	is(scalar(map { @$_ } @won[ 2, 3 ]), 0, 'by the leader');
	is($two->sql('SELECT count(*) FROM le_claims'), 11, 'all are listed');

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

# A blob that is not ours is left alone, however it got its name.
subtest 'a foreign blob' => sub {
	my $name = 'leader_election/foreign~leader';
	my $etag;

	$azurite->request('PUT', $name, '', 'x-ms-blob-type' => 'BlockBlob',
		'x-ms-meta-owner' => 'somebody');
	$etag = $azurite->blob('foreign')->{etag};
	like($one->sql_error(q(SELECT le_acquire('foreign'))),
		qr/LE00\d|42501|55000/, 'refused');
	is($one->leader('foreign'), undef, 'nobody leads it');
	is($azurite->blob('foreign')->{etag}, $etag, 'untouched');
	is($azurite->blob('foreign')->{state}, 'available', 'and not leased');
	like($one->sql(q(SELECT last_error FROM le_status WHERE election = 'foreign')),
		qr/not written by this extension/, 'which is said');
};

# Its lease broken by an operator: the term ends with the next renewal.  One who
# is not told, and has four times as long a lease as the others, goes on for all
# of it: nobody knows, so everybody waits for the longest that there is.
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
		'but not before the first must have stopped');
	is($session{deaf}->finish->{output},
		't', 'after who was not told as well');
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
