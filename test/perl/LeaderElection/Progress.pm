
=pod

=head1 NAME

LeaderElection::Progress - what the tests of progress_within have in common

=head1 SYNOPSIS

  use LeaderElection::Progress;

  wait_for_ends($node, 'idle', 3);
  is("@{ hold_offs($node, 'idle') }", '1.0 2.0 4.0');
  my $at = last_progress($node, 'hung', sub { $other->is_leader('hung') });
  not_given_up_early($node, 'hung', $at, 2);
  all_useless('useless', 2, $one, $two);

=cut

package LeaderElection::Progress;

use strict;
use warnings;

use Exporter 'import';
use LeaderElection::Session;
use LeaderElection::Util;
use Test::More;
use Time::HiRes ();

our @EXPORT = qw(
  all_useless
  hold_offs
  keep_asking
  last_progress
  none_given_up_early
  not_given_up_early
  terms
  wait_for_ends
);

=pod

=head1 FUNCTIONS

=over

=item terms($node, $election)

Since when, what ("acquired" or "no progress") and for how long it does not
contend then: of all terms of the election there, in order.

=item hold_offs($node, $election)

=item wait_for_ends($node, $election, $n)

=cut

sub terms
{
	my ($node, $election) = @_;

	return map { { at => $_->[0], what => $_->[1], hold_off => $_->[2] } }
	  map { [ split /\|/, $_, -1 ] } split /\n/,
	  $node->sql("SELECT extract(epoch FROM at), event, substring(detail FROM 'contend for ([0-9.]+) s')
		FROM le_events WHERE election = '$election' AND node = '@{[ $node->name ]}'
			AND event NOT IN ('claimed', 'run started', 'run done', 'run failed') ORDER BY number");
}

sub hold_offs
{
	return [ map { $_->{hold_off} } grep { $_->{what} eq 'no progress' } terms(@_) ];
}

sub wait_for_ends
{
	my ($node, $election, $n) = @_;

	return poll_until(sub { @{ hold_offs($node, $election) } >= $n },
		$node->name . ": $n terms without progress");
}

=pod

=item keep_asking($node, $seconds, $query, [ $interval ])

For that many seconds the query once per interval; it may be several, in an array.

=cut

sub keep_asking
{
	my ($node, $seconds, $query, $interval) = @_;
	my @queries = ref $query ? @$query : $query;
	my $session = LeaderElection::Session->new($node);
	my $until = boottime_ns() + $seconds * 1e9;

	while (boottime_ns() < $until)
	{
		$session->query($_) foreach @queries;
		Time::HiRes::usleep(($interval // 0.1) * 1e6);
	}
	return;
}

=pod

=item last_progress($node, $election, $condition, [ interval => s ])

Waits for the condition, and returns what the node showed as progress_at in the
meantime, at last: seconds since 1970.

=item not_given_up_early($node, $election, $progress_at, $within)

Tests that its last term without progress did not end before progress was due.  Both
times are the server's.

=cut

sub last_progress
{
	my ($node, $election, $condition, %params) = @_;
	my $at;

	poll_until(
		sub {
			my $now = $node->ask("SELECT extract(epoch FROM progress_at) FROM le_status WHERE election = '$election'");

			$at = $now if $now ne '';
			return $condition->();
		},
		$node->name . ": $election without progress", %params);
	return $at;
}

sub not_given_up_early
{
	my ($node, $election, $progress_at, $within) = @_;
	my ($end) = grep { $_->{what} eq 'no progress' } reverse terms($node, $election);

	return _not_early($node, $election, $end->{at} - $progress_at, $within);
}

sub _not_early
{
	my ($node, $election, $took, $within) = @_;
	my $what = $node->name . ": $election: given up";

	note("$what after $took s");
	cmp_ok($took, '>=', $within - 0.05, "$what, not before progress was due");
	return;
}

=pod

=item none_given_up_early($node, $election, $within)

The same of all its terms: there was no progress in any of them.

=cut

sub none_given_up_early
{
	my ($node, $election, $within) = @_;
	my $began;

	foreach my $term (terms($node, $election))
	{
		$began = $term->{at} if $term->{what} eq 'acquired';
		_not_early($node, $election, $term->{at} - $began, $within)
		  if $term->{what} eq 'no progress';
	}
	return;
}

=pod

=item all_useless($election, $within, @nodes)

All of them campaign, and none makes progress in that many seconds: tests of three
terms of each that hold-offs double and are kept, and that no term ends early.

=back

=cut

sub all_useless
{
	my ($election, $within, @nodes) = @_;
	my $hold_offs = join(' ', map { sprintf '%.1f', $_ * $within } 1, 2, 4);

	wait_for_ends($_, $election, 3) foreach @nodes;
	foreach my $node (@nodes)
	{
		my @terms = terms($node, $election);
		my ($ended, @early) = (undef);

		is(join(' ', @{ hold_offs($node, $election) }[ 0 .. 2 ]), $hold_offs, $node->name . ': hold-offs double');
		foreach my $term (@terms)
		{
			push @early, $term->{at}
			  if $term->{what} eq 'acquired' && $ended && $term->{at} < $ended->{at} + $ended->{hold_off} - 0.05;
			$ended = $term if $term->{what} eq 'no progress';
		}
		is(scalar @early, 0, $node->name . ': and are kept');
		none_given_up_early($node, $election, $within);
	}

	# all that was counted until the slowest of them was through
	my ($first) = sort { $a <=> $b } map { (terms($_, $election))[0]{at} } @nodes;
	my ($last) = sort { $b <=> $a }
	  map { (grep { $_->{what} eq 'no progress' } terms($_, $election))[2]{at} } @nodes;
	my $terms = grep { $_->{what} eq 'acquired' && $_->{at} <= $last } map { terms($_, $election) } @nodes;

	# each node's n-th term begins n + 2^n - 1 times that after its first, or later
	my $most = 1;
	$most++ while $within * ($most + 2**$most - 1) <= $last - $first;
	$most *= @nodes;
	cmp_ok($terms, '<=', $most, sprintf('%d terms in %.1f s, at most %d', $terms, $last - $first, $most));
	return;
}

1;
