# Tier: test, 14 s
#
# The store "local": one instance, no service.  Its tokens must increase
# whatever becomes of the server, and it must never lead on a standby.

use strict;
use warnings;

use LeaderElection::Node;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

# No stall of the machine ends a term.
my %settings = (lease_ttl => '60s', renew_interval => '3s');

# Nothing but the extension's own flush brings a token to disk in time.
my $node = LeaderElection::Node->create(
	'a',
	allows_streaming => 1,
	settings => \%settings,
	conf => { wal_writer_delay => '10s', autovacuum => 'off' });

my %highest;

# A token higher than all before it, of this election.
sub higher_token
{
	my ($at, $election, $after) = @_;
	my $token = $at->token($election);

	guarantee('G2', [ $highest{$election} // 0, $token ],
		"token of $election increased: $after");
	$highest{$election} = $token // 0;
	return;
}

subtest 'a term from acquire to release' => sub {
	my $other = LeaderElection::Session->new($node);

	ok(!$node->is_leader('billing'), 'nobody leads at first');
	is($node->leader('billing'), undef, 'and nobody is shown');
	is($node->sql("SELECT le_renew('billing')"), 'f', 'nothing to renew');
	ok($node->acquire('billing', value => 'one'), 'acquired');
	still_leads($node, 'billing', 'led');
	is($other->query("SELECT le_is_leader('billing')"),
		't', 'in every session of the instance');
	is($node->leader('billing'), 'a', 'shown');
	higher_token($node, 'billing', 'first');
	ok($node->acquire('billing', value => 'two'), 'acquired again, a no-op');
	same_term($highest{billing}, $node->token('billing'), 'with the same token');
	is($node->sql("SELECT le_renew('billing')"), 't', 'renewed');
	is($node->sql("SELECT leader, value, is_self FROM le_leader('billing')"),
		'a|one|t', 'the value is the first one');
	is($node->sql("SELECT le_renew('billing', 'three')"), 't', 'published');
	is( $node->sql(
			"SELECT value, fencing_token = $highest{billing} "
			  . "FROM le_leader('billing')"),
		'three|t',
		'the new value, the same token');
	ok($node->release('billing'), 'released');
	denied('G5', $node->is_leader('billing'), 'not led any more');
	denied('G5', $node->token('billing'), 'no token');
	is($node->leader('billing'), undef, 'nobody shown');
	ok($node->acquire('billing'), 'acquired anew');
	higher_token($node, 'billing', 'release and acquire');
};

# A term outlives many leases without anybody's doing.
subtest 'renewed by itself' => sub {
	my $expires = $node->sql("SELECT expires_at FROM le_status");

	$node->wait_for(
		"SELECT expires_at > '$expires'::timestamptz FROM le_status",
		'the deadline to move');
	same_term($highest{billing}, $node->token('billing'), 'the same term');
};

# People must not take it for an election between instances.
subtest 'says that it is local' => sub {
	ok( $node->log_like(
			qr/worker started as node "a"\n.*Store local: elections are decided inside this instance only, not between/
		),
		'in the log');
	ok($node->log_like(qr/leader of election "billing".*\n.*store local/),
		'with every term');
	is($node->sql("SELECT DISTINCT store FROM le_status"),
		'local (this instance only)', 'in le_status');
};

subtest 'restarts end terms, tokens increase' => sub {
	foreach my $how ('fast', 'immediate', 'crash')
	{
		my $more = "$how-more";

		# Many tokens that no commit of this session flushes.
		$node->sql("SELECT le_acquire('$more' || i) "
			  . 'FROM generate_series(1, 20) i');
		if ($how eq 'crash')
		{
			my $last = $node->token($more . 20);

			$node->crash;
			$node->start;
			$highest{billing} = $last;
		}
		else
		{
			$highest{billing} = $node->token($more . 20);
			$node->stop($how);
			$node->start;
		}
		$node->wait_for_worker;
		is( $node->sql("SELECT count(*) FROM le_status WHERE state <> 'idle'"),
			0, "$how: no term is left");
		denied('G5', $node->is_leader('billing'), "$how: not led");
		ok($node->acquire('billing'), "$how: acquired at once");
		higher_token($node, 'billing', $how);
		ok($node->acquire($more . 1), "$how: the others too");
		guarantee('G2', [ $highest{billing}, $node->token($more . 1) ],
			"$how: with tokens of their own");
		$highest{billing} = $node->token($more . 1);
		$node->release('billing');
	}
};

# A term belongs to the process that took it, and ends with the instance.
subtest 'crash of one backend' => sub {
	my $session = LeaderElection::Session->new($node);

	is($session->query("SELECT le_acquire('billing', scope => 'session')"),
		't', 'acquired');
	$highest{billing} =
	  $session->query("SELECT le_fencing_token('billing')");
	kill('KILL', $session->pid);
	ok($session->start('SELECT 1')->finish->{lost}, 'backend is gone');
	$node->wait_for_restart($session->pid);
	ok($node->acquire('billing'), 'acquired after the crash restart');
	higher_token($node, 'billing', 'crash restart');
};

subtest 'a standby cannot lead' => sub {
	$node->backup('b');

	my $standby = LeaderElection::Node->create(
		'b',
		backup => [ $node, 'b', has_streaming => 1 ],
		settings => { %settings, standby_eligible => 'on' });
	my $error;

	$node->wait_for_catchup($standby, 'replay');
	$error = $standby->sql_error("SELECT le_acquire('billing')");
	like($error, qr/ERROR:  55000: this node may not lead election "billing"/,
		'refused');
	like($error, qr/DETAIL:  A standby cannot lead with the store "local"/,
		'for this reason');
	$error =
	  $standby->sql_error("SELECT le_acquire('billing', wait => '1 min')");
	like($error, qr/A standby cannot lead/, 'refused with a wait, at once');
	never([ $standby->is_leader('billing') ? 'a standby leads' : () ], 'not led');
	is($standby->leader('billing'), undef, 'nor shown as led');
	$standby->sql("SELECT le_campaign('billing')");
	is($standby->sql("SELECT state FROM le_status WHERE election = 'billing'"),
		'candidate', 'a candidate only');
	ok($standby->log_like(qr/Store local: elections are decided inside this/),
		'its log says local, too');
	still_leads($node, 'billing', 'the primary leads on');

	# Its history goes on behind the tokens of its former primary.
	$node->stop('immediate');
	$standby->promote;
	$standby->wait_for_leadership('billing');
	higher_token($standby, 'billing', 'promotion');
	$standby->stop;
};

done_testing();
