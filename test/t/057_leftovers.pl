# Tier: test, 58 s
#
# Leftovers of a dead node in Consul: its node key goes when the node has been back
# for a while; of a node that stays away it is kept, for people.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Requests;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $lease = 4;
my $consul = LeaderElection::Consul->new('consul')->start;
my %node = map {
	$_ => LeaderElection::Node->create(
		$_,
		consul => $consul,
		settings => { lease_ttl => "$lease s" })
} 'back', 'away', 'heir';
my $heir = $node{heir};
my $leftovers = "SELECT message FROM le_check_config() WHERE topic = 'leftovers'";
my (%session, $begun);

sub keys_of
{
	my ($name) = @_;
	my $keys = node_keys($consul);

	return grep { $keys->{$_}{json}{node} eq $name } sort keys %$keys;
}

foreach my $name ('back', 'away')
{
	$node{$name}->acquire($name, wait => '3 min');
	($session{$name}) = keys_of($name);
	$heir->sql("SELECT le_campaign('$name')");
	$heir->wait_for(
		"SELECT state = 'waiting' FROM le_status WHERE election = '$name'");
}
is($heir->sql($leftovers), '', 'nothing is left behind');
$begun = boottime_ns();
$_->crash foreach @node{ 'back', 'away' };
$heir->wait_for_leadership($_) foreach 'back', 'away';
ok(node_keys($consul)->{ $session{$_} }{json}{revoked}, "$_ is marked")
  foreach 'back', 'away';

# Without its file it cannot know what its predecessor had.  From now on it leads.
$node{back}->set('leader_election.lease_ttl', '60s');
unlink $node{back}->data_dir . '/pg_stat_tmp/leader_election.session'
  or die "state file: $!";
$node{back}->start;
$node{back}->acquire('other', wait => '3 min');
is(scalar keys_of('back'), 2, 'back, with another session');
$heir->wait_for("SELECT coalesce(($leftovers), '') ~ '^2 of 4 node keys'",
	'le_check_config() to count them');
poll_until(sub { !grep { $_ eq $session{back} } keys_of('back') },
	'the end of the old node key');
cmp_ok((boottime_ns() - $begun) / 1e9, '>', 40, 'after a while');
is(scalar keys_of('back'), 1, 'the new one stays');
is_deeply([ keys_of('away') ], [ $session{away} ],
	'the key of a node that is away stays');
is($node{back}->sql("SELECT le_renew('other')"), 't', 'a node that is back leads on');

done_testing();
