
=pod

=head1 NAME

LeaderElection::Frozen - a leader that freezes inside transactions

=head1 SYNOPSIS

  use LeaderElection::Frozen;

  prepare($_) foreach $leader, $next;
  freeze_in_transactions('consul 1', $leader,
    sub { $next->wait_for_leadership('e') });
  diag(attempts());

=head1 DESCRIPTION

The election is "e", and the nodes campaign for it.  Many transactions pass the
gate and write; all processes of the leader are stopped wherever those
transactions stand, and go on after the term.

=cut

package LeaderElection::Frozen;

use strict;
use warnings;

use Exporter 'import';
use LeaderElection::Session;
use LeaderElection::Util;
use Test::More;

our @EXPORT = qw(
  attempts
  freeze_in_transactions
  next_leader_works
  prepare
);

my $per_round = 24;
my %count;

=pod

=head1 FUNCTIONS

=over

=item prepare($node)

Its tables and functions.

=cut

sub prepare
{
	my ($node) = @_;

	$node->sql(<<'END');
CREATE TABLE work (what text, token bigint);
CREATE TABLE locked (i int);
INSERT INTO locked VALUES (1);
CREATE TABLE go (i int);
CREATE FUNCTION spin() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	WHILE NOT EXISTS (SELECT FROM go) LOOP
	END LOOP;
END $$;
CREATE FUNCTION doze() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	WHILE NOT EXISTS (SELECT FROM go) LOOP
		PERFORM pg_sleep(0.02);
	END LOOP;
END $$;
END
	return;
}

# The places where a transaction can be when it freezes.  Each has passed the
# gate and written a row; none gets to its commit before it thaws.
my @places = (
	sub { return 'COMMIT' },
	sub { return 'SELECT spin(); COMMIT' },
	sub { return 'SELECT doze(); COMMIT' },
	sub { return 'UPDATE locked SET i = i + 1; COMMIT' },
	sub { return "SAVEPOINT s; INSERT INTO work VALUES ('more', 0); RELEASE s; SELECT doze(); COMMIT" },
	sub { return 'DO' });

=pod

=item freeze_in_transactions($what, $node, $until)

Freezes the leader until the code returns, and tests that each transaction is
refused with LE002 when it goes on, and that nothing of it remains.

=cut

sub freeze_in_transactions
{
	my ($what, $node, $until) = @_;
	my $blocker = LeaderElection::Session->new($node);
	my @sessions;
	my $refused = 0;
	my $token;

	$node->wait_for_leadership('e');
	$token = $node->token('e');
	$node->sql('TRUNCATE go');
	$blocker->query('BEGIN; UPDATE locked SET i = i + 1');
	foreach my $i (1 .. $per_round)
	{
		my $place = $places[ $i % @places ]->();
		my $session = LeaderElection::Session->new($node);

		if ($place eq 'DO')
		{
			# a procedure, in a transaction of its own
			$place = "DO 'BEGIN PERFORM le_require_leader(''e''); "
			  . "INSERT INTO work VALUES (''$what'', $token); PERFORM doze(); COMMIT; END'";
		}
		else
		{
			$session->query("BEGIN; SELECT le_require_leader('e'); INSERT INTO work VALUES ('$what', $token)");
		}
		push @sessions, [ $session, $place ];
	}
	# Statements that run are running, sessions that only commit get their COMMIT
	# while they sleep.
	$_->[0]->start($_->[1]) foreach grep { $_->[1] ne 'COMMIT' } @sessions;
	my $procedures = grep { $_->[1] =~ /^DO/ } @sessions;

	# These have passed the gate once they have written.
	$node->poll_query_until('postgres',
		"SELECT count(*) = $procedures FROM pg_stat_activity
		 WHERE query LIKE 'DO %' AND state = 'active' AND backend_xid IS NOT NULL")
	  or die 'not all procedures have begun';
	$node->freeze;
	$_->[0]->start($_->[1]) foreach grep { $_->[1] eq 'COMMIT' } @sessions;
	$until->();
	$node->thaw;
	$node->sql('INSERT INTO go VALUES (1)');
	$blocker->query('ROLLBACK');
	foreach my $s (@sessions)
	{
		my $error = $s->[0]->finish->{error};

		$refused++ if $error =~ /ERROR:  LE002: no longer leader of election "e"/;
		diag("$s->[1]: $error") if $error !~ /LE002/;
	}
	$count{attempts} += $per_round;
	$count{refused} += $refused;
	is($refused, $per_round, "$what: all refused");
	guarantee('G3', [ split /\n/, $node->sql('TABLE work') ], "$what: nothing was committed");
	return;
}

=pod

=item next_leader_works($next)

Waits until it leads, and tests that it may do what the frozen one may not.

=item attempts()

A text about all of them.

=back

=cut

sub next_leader_works
{
	my ($next) = @_;

	$next->wait_for_leadership('e');
	is($next->sql("BEGIN; SELECT le_require_leader('e') > 0; INSERT INTO work VALUES ('next', 1); COMMIT; DELETE FROM work"),
		't', 'meanwhile the next leader works');
	return;
}

sub attempts
{
	return "fence attempts after the loss: $count{attempts}, refused: $count{refused}";
}

1;
