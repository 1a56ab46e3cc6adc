
=pod

=head1 NAME

LeaderElection::Emptied - a store whose data are deleted under living instances

=head1 SYNOPSIS

  use LeaderElection::Emptied;

  emptied(\@nodes, sub { $cassandra->truncate($keyspace) });

=head1 DESCRIPTION

Two instances have run ticks, or seen them run, when the store loses all that it
knows. Tokens go on; no instance claims a tick that was run, also after a restart, and
each says why, until le_accept_store() is called.

=cut

package LeaderElection::Emptied;

use strict;
use warnings;
use parent 'Exporter';

use LeaderElection::Util;
use Test::More;

our @EXPORT = qw(emptied);

my $lost = qr/LE005: could not claim a tick of election "billing": the lease store has lost records.*^DETAIL:  Tick 2020-01-01 00:02:00\+00 of job "nightly" was claimed.*^HINT:  .*runbook.*le_accept_store\(\)/ms;

# The nth minute of a day long ago; what went wrong.
sub run
{
	my ($node, $minute) = @_;

	return $node->sql_error(sprintf(
			q(CALL le_run('billing', 'INSERT INTO runs VALUES (le_tick())', job => 'nightly', tick => '2020-01-01 00:%02d:00+00', catch_up => true)),
			$minute));
}

sub wait_for_job
{
	my ($node, $state, $minute) = @_;

	return $node->wait_for(sprintf(
			q(SELECT state = '%s' AND tick = '2020-01-01 00:%02d:00+00' FROM le_jobs(NULL) WHERE job = 'nightly'),
			$state, $minute), $node->name . ": $state");
}

# Who leads in a later term than that of the token?
sub leader_after
{
	my ($token, @nodes) = @_;
	my $leader;

	poll_until(sub {
			($leader) = grep { $_->is_leader('billing') && $_->token('billing') > $token } @nodes;
			return defined $leader;
		}, 'a new term');
	return $leader;
}

=pod

=over

=item emptied(\@nodes, $empty)

The nodes have job_check_interval of 1s; $empty empties the store.

=back

=cut

sub emptied
{
	my ($nodes, $empty) = @_;
	my ($a, $b) = @$nodes;
	my ($leader, $other, $token);

	$_->sql(q(CREATE TABLE runs (tick timestamptz, number serial))) foreach @$nodes;
	ok($a->acquire('billing', wait => '3 min'), 'one leads');
	$_->sql(q(SELECT le_campaign('billing'))) foreach @$nodes;
	is(run($a, $_), '', "tick $_ runs") foreach 1, 2;
	wait_for_job($_, 'done', 2) foreach @$nodes;
	$token = $a->token('billing');
	$empty->();

	subtest 'no tick is claimed up to the one that was seen' => sub {
		$leader = leader_after($token, @$nodes);
		guarantee('G2', [ $token, $leader->token('billing') ], 'tokens go on');
		like(run($leader, $_), $lost, "not tick $_") foreach 1, 2;
	};

	subtest 'everybody says so' => sub {
		foreach my $node (@$nodes)
		{
			my $name = $node->name;

			wait_for_job($node, 'lost', 2);
			$node->wait_for(q(SELECT count(*) = 1 FROM le_events WHERE event = 'job lost' AND election = 'billing' AND detail LIKE 'job nightly: the store has lost the record of tick 2020-01-01 00:02:00+00'), "$name: an event");
			like($node->sql(q(SELECT level || ': ' || message FROM le_check_config() WHERE topic = 'records')),
				qr/^error: The store has lost the records of 1 job, as of job "nightly" of election "billing": .* 2020-01-01 00:02:00\+00, .*le_accept_store/, "$name: the check");
		}
	};

	subtest 'after a restart' => sub {
		($other) = grep { $_ != $leader } @$nodes;
		$token = $leader->token('billing');
		$leader->restart;
		leader_after($token, $other);	# it may still believe in the term of before
		like(run($other, 2), $lost, 'the other has seen it as well');
		$leader->sql(q(SELECT le_campaign('billing')));
		$other->sql(q(SELECT le_step_down('billing', '3 min')));
		$leader->wait_for_leadership('billing');
		like(run($leader, 2), $lost, 'and the first still knows');
		# it looks at jobs only while it leads or seeks an election
		$other->sql(q(SELECT le_campaign('billing')));
	};

	subtest 'accepted' => sub {
		$_->sql(q(SELECT le_accept_store())) foreach @$nodes;
		is(run($leader, 2), '', 'the tick runs once more');
		wait_for_job($_, 'done', 2) foreach @$nodes;
		is($_->sql(q(SELECT count(*) FROM le_check_config() WHERE topic = 'records')), 0, $_->name . ': all is well')
		  foreach @$nodes;
	};
	return;
}

1;
