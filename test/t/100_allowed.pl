# Tier: test, 4 s
#
# Settings that say which elections a session may change: those of its login role and
# database, which the session itself cannot change.

use strict;
use warnings;

use LeaderElection::Docs;
use LeaderElection::Node;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = LeaderElection::Node->create('a', settings => { lease_ttl => '60s' });
my $denied = qr/42501: permission denied for election/;

$node->sql(block('grants'));
$node->sql(block('allowed elections'));
$node->sql(<<'END');
CREATE ROLE member LOGIN IN ROLE billing_worker;
END
is($node->sql("SELECT le_acquire('billing'), le_acquire('payroll')"), 't|t', 'two elections');

sub as
{
	return LeaderElection::Session->new($node, user => $_[0], @_[1 .. $#_]);
}

sub leads
{
	return $node->sql("SELECT le_is_leader('billing'), le_is_leader('payroll')");
}

subtest 'login' => sub {
	my $worker = as('billing_worker');

	like($worker->error("SELECT le_release('payroll')"), $denied, "another's election");
	like($worker->error("SELECT le_acquire('n' || i, scope => 'session') FROM generate_series(1, 300) i"),
		$denied, 'the table cannot be filled');
	is($worker->query("SELECT le_renew('billing')"), 't', 'its own');
	like($worker->error("SELECT le_acquire('$_')"), $denied, "not $_") foreach 'billing2', 'bill';
	like($worker->error("SET leader_election.allowed_elections = '*'"), qr/42501/, 'not to be widened');
	like($worker->error("RESET leader_election.allowed_elections"), qr/42501/, 'nor reset');
	is($worker->error('RESET ALL; DISCARD ALL'), '', 'reset with all others');
	like($worker->error("SELECT le_release('payroll')"), $denied, 'as before');
	is(leads(), 't|t', 'nothing was released');
};

subtest 'as the client asks' => sub {
	local $ENV{PGOPTIONS} = '-c leader_election.allowed_elections=*';
	my ($ret, $out, $err) = $node->psql('postgres', "SELECT le_release('payroll')",
		extra_params => [ '-U', 'billing_worker' ]);

	isnt($ret, 0, 'refused');
	like($err, qr/permission denied to set parameter "leader_election.allowed_elections"/, 'at login');
};

# Mistakes that the pages warn of.
subtest 'SET ROLE' => sub {
	my $member = as('member');

	is($member->query("SELECT le_renew('payroll')"), 't', "a role's settings are not those of its members");
	is($member->query("SET ROLE billing_worker; SELECT le_renew('payroll')"), 't', 'in any role');
	$node->sql("ALTER ROLE member SET leader_election.allowed_elections = 'billing'");
	$member = as('member');
	like($member->error("SET ROLE billing_worker; SELECT le_renew('payroll')"), $denied, 'but their own are, as anybody');
};

subtest 'step down from all' => sub {
	my $operator = as('billing_operator');

	like($operator->error("SELECT le_step_down(NULL, '366 days')"), qr/22023: .*must not exceed 86400 s/, 'not for ever');
	is(leads(), 't|t', 'nothing was released');
	my $stepped_down = $operator->query('SELECT le_step_down()');
	my @leads = split /\|/, leads();

	is($stepped_down, 't', 'stepped down');
	is("@leads", 'f t', 'from the allowed elections');
	denied('G5', $leads[0], 'of which none is left') if $stepped_down eq 't';
	like($operator->error("SELECT le_step_down('payroll')"), $denied, 'not by name, either');
	is($operator->query("SELECT le_step_down('billing', '0')"), 't', 'undone');
	is($node->sql("SELECT le_acquire('billing')"), 't', 'and taken again');
};

subtest 'database' => sub {
	$node->sql("ALTER DATABASE postgres SET leader_election.allowed_elections = 'payroll'");
	like(as('billing_runner')->error("CALL le_run('billing', 'SELECT 1', job => 'j')"), $denied, 'all its sessions');
	is(as('billing_worker')->query("SELECT le_renew('billing')"), 't', "but a role's own come first");
	$node->sql('ALTER DATABASE postgres RESET leader_election.allowed_elections');
	is(as('billing_runner')->error("CALL le_run('billing', 'SELECT 1', job => 'j')"), '', 'no more');
};

subtest 'through a function of a superuser' => sub {
	$node->sql(<<'END');
CREATE FUNCTION payroll_handover() RETURNS bool LANGUAGE sql SECURITY DEFINER
	SET leader_election.allowed_elections = 'payroll'
	AS $$SELECT le_step_down('payroll')$$;
END
	is(as('billing_worker')->query('SELECT payroll_handover()'), 't', 'which says what it is for');
	is(leads(), 't|f', 'that alone');
};

$node->stop;
done_testing();
