# A leader that freezes inside a transaction, and wakes up after its term: what
# it was about to commit is refused, wherever it stood, each time.  A freeze
# between the check and the commit record is the stated limit of the fence; it
# is forced here, counted and reported apart.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $per_round = 24;
my %settings = (
	lease_ttl => '3s',
	safety_margin => '500ms',
	campaign => 'e');
my %conf = (track_commit_timestamp => 'on', max_connections => 60);
my %count;

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
	# What runs is running, what only commits gets its COMMIT while it sleeps.
	$_->[0]->start($_->[1]) foreach grep { $_->[1] ne 'COMMIT' } @sessions;
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
	is($node->sql('SELECT count(*) FROM work'), 0, "$what: nothing was committed");
	return;
}

subtest 'store local' => sub {
	my $node = LeaderElection::Node->create(
		'local', settings => \%settings, conf => \%conf);

	prepare($node);
	foreach my $round (1 .. 4)
	{
		# the lease, and what it may last longer
		freeze_in_transactions("local $round", $node,
			sub { select(undef, undef, undef, 3.1) });
	}
	$node->stop;
};

subtest 'store consul' => sub {
	my $consul = LeaderElection::Consul->new('consul')->start;
	my @nodes = map {
		LeaderElection::Node->create(
			$_,
			consul => $consul,
			settings => \%settings,
			conf => \%conf)
	} 'a', 'b';

	prepare($_) foreach @nodes;
	foreach my $round (1 .. 4)
	{
		my ($leader, $next);

		poll_until(sub { ($leader) = grep { $_->is_leader('e') } @nodes; $leader }, 'a leader');
		($next) = grep { $_ != $leader } @nodes;
		freeze_in_transactions(
			"consul $round",
			$leader,
			sub {
				$next->wait_for_leadership('e');
				is($next->sql("BEGIN; SELECT le_require_leader('e') > 0; INSERT INTO work VALUES ('next', 1); COMMIT; DELETE FROM work"),
					't', 'meanwhile the next leader works');
			});
	}
	$_->stop foreach @nodes;
	$consul->stop;
};

# postgres_fdw commits its remote transactions after our check and before the
# commit record; a remote commit that hangs keeps the transaction just there.
subtest 'between check and commit record' => sub {
	my $node = LeaderElection::Node->create(
		'window',
		settings => { %settings, drain_timeout => '20s' },
		conf => \%conf);
	my $gatekeeper;
	my $enter = sub {
		my ($many) = @_;
		my @sessions = map { LeaderElection::Session->new($node) } 1 .. $many;

		$node->wait_for_leadership('e');
		$node->sql('TRUNCATE work');
		$gatekeeper->query('SELECT pg_advisory_lock(1)');
		foreach my $session (@sessions)
		{
			$session->query("BEGIN; SELECT le_require_leader('e'); INSERT INTO work VALUES ('late', 1); INSERT INTO far VALUES (1)");
			$session->start('COMMIT');
		}
		poll_until(
			sub {
				$many == $node->sql("SELECT count(*) FROM pg_stat_activity "
					  . "WHERE wait_event = 'advisory'");
			},
			'commits between check and record');
		return @sessions;
	};
	my $n = 10;
	my @sessions;
	my $committed;
	my $other;

	prepare($node);
	$node->sql(<<"END");
CREATE EXTENSION postgres_fdw;
CREATE SERVER self FOREIGN DATA WRAPPER postgres_fdw
	OPTIONS (host '${\ $node->host }', port '${\ $node->port }', dbname 'postgres');
CREATE USER MAPPING FOR PUBLIC SERVER self;
CREATE TABLE remote (i int);
CREATE FOREIGN TABLE far (i int) SERVER self OPTIONS (table_name 'remote');
CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS \$\$
BEGIN
	PERFORM pg_advisory_xact_lock_shared(1);
	RETURN NULL;
END \$\$;
CREATE CONSTRAINT TRIGGER hang AFTER INSERT ON remote
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION hang();
END
	$gatekeeper = LeaderElection::Session->new($node);

	@sessions = $enter->($n);
	$node->freeze;
	select(undef, undef, undef, 3.1);
	$node->thaw;
	$gatekeeper->query('SELECT pg_advisory_unlock(1)');
	$_->finish foreach @sessions;
	$committed = $node->sql('SELECT count(*) FROM work');
	is($committed, $n, 'the limit is as stated: they commit after their term');
	$count{window} = "$committed of $n";

	# Nobody else may lead before the record of a commit that has passed.
	@sessions = $enter->(1);
	$other = LeaderElection::Session->new($node);
	$other->start("SELECT le_step_down('e', '0')");
	$node->wait_for("SELECT state = 'draining' FROM le_status WHERE election = 'e'", 'the term to drain');
	select(undef, undef, undef, 0.3);
	ok(!$other->is_done, 'a term that is given up waits for such a commit');
	$gatekeeper->query('SELECT pg_advisory_unlock(1)');
	is($sessions[0]->finish->{error}, '', 'which goes through');
	is($other->finish->{output}, 't', 'and then the term is given up');
	$node->stop;
};

diag("fence attempts after the loss: $count{attempts}, refused: $count{refused}");
diag("frozen between check and commit record: committed after the loss: $count{window} (a stated limit)");
done_testing();
