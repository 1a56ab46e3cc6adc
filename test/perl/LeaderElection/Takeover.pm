
=pod

=head1 NAME

LeaderElection::Takeover - what the tests of takeovers have in common

=head1 SYNOPSIS

  use LeaderElection::Takeover;

  my $a = LeaderElection::Node->create('a', consul => $consul,
    settings => { short_lease() });
  wait_for_waiter($b, 'billing', $a);
  my $case = watch_election('billing', $a, $b);
  $a->crash;
  taken_over($case, from => $a, to => $b, since => $killed);

=cut

package LeaderElection::Takeover;

use strict;
use warnings;

use Carp;
use Exporter 'import';
use LeaderElection::Sampler;
use LeaderElection::Util;
use Test::More;

our @EXPORT = qw(
  lease_s
  log_line
  never_overlap
  no_takeover_yet
  short_lease
  taken_over
  wait_for_waiter
  watch_election
);

# Those that end the term of a leader wait for as long.  It is renewed so often that
# a leader that is to go on survives the stalls of a busy machine.
use constant LEASE => 5;

=pod

=head1 FUNCTIONS

=over

=item lease_s()

Seconds of the lease that short_lease() sets.

=item short_lease(%more)

Settings of a node.

=cut

sub lease_s
{
	return LEASE;
}

sub short_lease
{
	my (%more) = @_;

	return (
		lease_ttl => LEASE . 's',
		safety_margin => '500ms',
		renew_interval => '500ms',
		request_timeout => '1s',
		%more);
}

=pod

=item wait_for_waiter($node, $election, $holder)

Until the node waits for the election, and has seen the holder's node key.

=cut

sub wait_for_waiter
{
	my ($node, $election, $holder) = @_;
	my $name = $holder->name;

	$node->wait_for(
		"SELECT state = 'waiting' AND EXISTS (SELECT FROM le_nodes "
		  . "WHERE node = '$name' AND state = 'live') "
		  . "FROM le_status WHERE election = '$election'",
		$node->name . " to wait for $election");
	return;
}

=pod

=item watch_election($election, @nodes)

Samples all nodes, and waits until belief was seen on the first.

=item never_overlap($case)

Ends the sampling, and tests for overlaps.

=cut

sub watch_election
{
	my ($election, @nodes) = @_;
	my $case = { election => $election };

	foreach my $node (@nodes)
	{
		$case->{samplers}{ $node->name } =
		  LeaderElection::Sampler->new($node, $election, interval => 0.01);
	}
	poll_until(sub { scalar $case->{samplers}{ $nodes[0]->name }->beliefs },
		"$election: belief on " . $nodes[0]->name);
	$case->{token} = $nodes[0]->token($election);
	return $case;
}

sub never_overlap
{
	my ($case) = @_;

	$_->stop foreach values %{ $case->{samplers} };
	guarantee('G1', [ LeaderElection::Sampler->overlaps(values %{ $case->{samplers} }) ],
		"$case->{election}: no overlap");
	return;
}

=pod

=item log_line($node, $election, [ $offset ])

The log's words on the node's newest takeover of the election: a hash of
from, silence, old, lease_ms, new; undef if there is none.

=cut

sub log_line
{
	my ($node, $election, $offset) = @_;
	my ($found) = reverse $node->log_since($offset) =~
	  /(took over election "\Q$election\E" [^\n]*\n[^\n]*DETAIL:[^\n]*)/g;
	my %line;

	return undef unless defined $found;
	@line{ 'from', 'silence' } =
	  $found =~ /from node "([^"]*)" after ([0-9.]+) s of silence/;
	@line{ 'old', 'lease_ms', 'new' } = $found =~
	  /token was (\d+), its lease (\d+) ms; the new token is (\d+)/;
	return \%line;
}

=pod

=item taken_over($case, from => $node, to => $node, since => ns, [ takeover => 0 ])

Tests that there is a new leader after the fault, that it has a higher token, and
says in its log from whom it took over, unless takeover is 0.  Shows the seconds it
took, of which the simulator is the judge.

=back

=cut

sub taken_over
{
	my ($case, %params) = @_;
	my $election = $case->{election};
	my $to = $params{to};
	my ($term, $line);

	poll_until(
		sub {
			($term) = grep { $_->[2] != $case->{token} }
			  $case->{samplers}{ $to->name }->beliefs;
		},
		$to->name . " to lead $election");

	diag(sprintf '%s: %.2f s', $election, ($term->[0] - $params{since}) / 1e9);
	guarantee('G2', [ $case->{token}, $term->[2] ], 'with a higher token');
	return if exists $params{takeover} && !$params{takeover};
	poll_until(sub { $line = log_line($to, $election) }, 'log line');
	is($line->{from}, $params{from}->name, 'log: the old leader');
	is($line->{old}, $case->{token}, 'its token');
	is($line->{new}, $term->[2], 'the new token');
	cmp_ok($line->{silence}, '>=', $line->{lease_ms} / 1000,
		'and a whole lease of silence');
	return;
}

=pod

=item no_takeover_yet($case, $holder, $seconds)

Tests that the holder keeps its term for so long.

=cut

sub no_takeover_yet
{
	my ($case, $holder, $seconds) = @_;
	my $until = boottime_ns() + $seconds * 1e9;
	my $sampler = $case->{samplers}{ $holder->name };

	poll_until(
		sub {
			my $last = ($sampler->samples)[-1];

			return $last->[0] > $until;
		},
		"$case->{election}: samples",
		interval => 0.2);

	my @beliefs = $sampler->beliefs;

	is(scalar @beliefs, 1, "$case->{election}: one term all the time");
	is($beliefs[0][2], $case->{token}, 'the same');
	cmp_ok($beliefs[-1][1], '>=', $until, 'to the end');
	return;
}

1;
