# Tier: test, 51 s
#
# A leader that freezes inside a transaction, and wakes up after its term: the commit
# is refused, at whatever point it froze, each time.  A freeze between the check and
# the commit record is the stated limit of the fence; it is forced here, counted and
# reported apart.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Frozen;
use LeaderElection::Node;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my %settings = (
	lease_ttl => '3s',
	safety_margin => '500ms',
	renew_interval => '500ms',
	campaign => 'e');
my %conf = (track_commit_timestamp => 'on', max_connections => 60);

# The lease, and the time by which it may last longer.
sub outlast
{
	my $over = boottime_ns() + 3.1e9;

	return poll_until(sub { boottime_ns() > $over }, 'the end of the lease');
}

subtest 'store local' => sub {
	my $node = LeaderElection::Node->create(
		'local', settings => \%settings, conf => \%conf);

	prepare($node);
	foreach my $round (1 .. 4)
	{
		freeze_in_transactions("local $round", $node, \&outlast);
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
		freeze_in_transactions("consul $round", $leader,
			sub { next_leader_works($next) });
	}
	$_->stop foreach @nodes;
	$consul->stop;
};

# postgres_fdw commits its remote transactions after our check and before the
# commit record; a remote commit that hangs keeps the transaction just there.
subtest 'between check and commit record' => sub {
	my $node = LeaderElection::Node->create(
		'window',
		settings => { %settings, drain_timeout => '600s' },
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
	my @sessions;
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

	@sessions = $enter->(10);
	$node->freeze;
	outlast();
	$node->thaw;
	$gatekeeper->query('SELECT pg_advisory_unlock(1)');
	$_->finish foreach @sessions;
	is($node->sql('SELECT count(*) FROM work'), 0,
		'a commit that waits there is canceled after its term');

	# Nobody else may lead before the record of a commit that has passed.  Here the
	# term does not run out.
	$node->configure(lease_ttl => '60s');
	$node->wait_for_leadership('e', left => 50);
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

diag(attempts());
done_testing();
