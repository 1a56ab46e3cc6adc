
=pod

=head1 NAME

LeaderElection::Requests - what the extension asks Consul, for tests

=head1 SYNOPSIS

  use LeaderElection::Requests;

  $recorder->rule(match => request_like('acquire', 'billing'),
    action => 'lose_reply', count => 1);
  my @proofs = $recorder->requests(request_like('prove'));
  my $deadline = deadline_ns($node, 'billing');

=head1 DESCRIPTION

Patterns for the text that a LeaderElection::Recorder matches, so that the
tests name requests as the design does, and what they say about the sender.
They are for the default key prefix.

=cut

package LeaderElection::Requests;

use strict;
use warnings;

use Carp;
use Exporter 'import';
use JSON::PP ();
use LeaderElection::Util;

our @EXPORT = qw(
  checked_keys
  deadline_ns
  key_is_released
  leader_key
  node_keys
  request_like
);

my $json = JSON::PP->new->utf8;
my $nodes = qr{leader_election\.nodes/};

=pod

=head1 FUNCTIONS

=over

=item request_like($kind, [ $election, [ $job ] ])

Kinds: create, verify, register, renew, prove, read, list, watch, list_nodes,
acquire, publish, take_over, release, revoke, forget, destroy, claim, complete,
read_claim.  The patterns of acquire and publish match whatever locks the key.
A test that waits for a request about one job's claim (claim, complete or
read_claim) gives $job.  Without it the pattern matches those of all jobs, and a
worker that has just started makes some by itself: it reads all claims, for
le_jobs, and ends those that are abandoned.

=cut

sub request_like
{
	my ($kind, $election, $job) = @_;
	my $key = defined $election ? "\Q$election\E" : '[^"?]+';
	my $claim = defined $job ? "\Q$job\E" : '[^/?]+';
	my %like = (
		create => qr{^PUT /v1/session/create},
		verify => qr{^GET /v1/session/info/},
		register => qr{"check-not-exists","Key":"$nodes},
		renew => qr{^PUT /v1/session/renew/},
		prove =>
		  qr{\n\[\{"KV":\{"Verb":"check-session"[^\}]*\}\},\{"KV":\{"Verb":"lock","Key":"$nodes},
		read => qr{^GET /v1/kv/leader_election/$key/leader\?},
		list => qr{^GET /v1/kv/leader_election/\?recurse&consistent},
		watch => qr{^GET /v1/kv/leader_election/\?recurse(?!&consistent)},
		list_nodes => qr{^GET /v1/kv/$nodes\?},
		acquire => qr{"Verb":"lock","Key":"leader_election/$key/leader"},
		publish => qr{"Verb":"lock","Key":"leader_election/$key/leader"},
		take_over =>
		  qr{"unlock","Key":"leader_election/$key/leader".*"lock","Key":"leader_election/$key/leader"},
		# one transaction may release several
		release =>
		  qr{\n\[\{"KV":\{"Verb":"check-index","Key":"leader_election/.*"unlock","Key":"leader_election/$key/leader"},
		claim =>
		  qr{\n\[\{"KV":\{"Verb":"check-session".*"set","Key":"leader_election\.claims/$key/$claim"},
		complete =>
		  qr{\n\[\{"KV":\{"Verb":"check-index"[^\}]*\}\},\{"KV":\{"Verb":"set","Key":"leader_election\.claims/$key/$claim"},
		read_claim => qr{^GET /v1/kv/leader_election\.claims/$key/$claim\?},
		revoke => qr{"Verb":"set","Key":"$nodes},
		forget => qr{"Verb":"delete","Key":"$nodes},
		destroy => qr{^PUT /v1/session/destroy/});

	return $like{$kind} // croak "no such kind of request: $kind";
}

=pod

=item checked_keys($request)

The elections whose keys a recorded proof checks.

=cut

sub checked_keys
{
	my ($request) = @_;

	return map { m{^leader_election/(.*)/leader$} ? $1 : () }
	  map { $_->{KV}{Key} } @{ $json->decode($request->{body}) };
}

=pod

=item leader_key($consul, $election), node_keys($consul)

The entry of an election's key, and a hash of those of the node keys by
session; with the decoded value as member json.

=item key_is_released($consul, $election)

Does nobody hold the key, and does it say that its holder gave it up?

=cut

sub _with_value
{
	my ($entry) = @_;

	$entry->{json} = eval { $json->decode($entry->{Value}) } if $entry;
	return $entry;
}

sub leader_key
{
	my ($consul, $election) = @_;

	return _with_value($consul->kv("leader_election/$election/leader"));
}

sub key_is_released
{
	my ($consul, $election) = @_;
	my $key = leader_key($consul, $election);

	return $key && !$key->{Session} && $key->{json}{released};
}

sub node_keys
{
	my ($consul) = @_;
	my $tree = $consul->kv_tree('leader_election.nodes/');

	return { map { m{([^/]*)$} => _with_value($tree->{$_}) } keys %$tree };
}

=pod

=item deadline_ns($node, $election)

When the node stops believing in its term unless another proof succeeds, on
CLOCK_BOOTTIME, from le_status.  Late by the time of the query, never early.
undef if it holds no term.

=back

=cut

sub deadline_ns
{
	my ($node, $election) = @_;
	my $left =
	  $node->sql('SELECT (extract(epoch FROM '
		  . 'expires_at - clock_timestamp()) * 1e9)::int8 FROM le_status '
		  . "WHERE election = '$election'");

	return $left eq '' ? undef : boottime_ns() + $left;
}

1;
