# Tier: test, 38 s
#
# A setting that did not take effect must not make a second leader: whichever setting
# it is, and wherever it comes from, its instance does not lead, and says so.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $consul = LeaderElection::Consul->new('consul')->start;
my $right = LeaderElection::Node->create(
	'right',
	consul => $consul,
	settings => { lease_ttl => '60s', renew_interval => '3s', campaign => 'billing' });
my $wrong = LeaderElection::Node->create(
	'wrong',
	consul => $consul,
	settings => { lease_ttl => '60s', renew_interval => '3s', campaign => 'billing' });

sub conf
{
	my ($node, $file) = @_;

	return $node->data_dir . '/' . ($file // 'postgresql.conf');
}

# The number of the file's last line that says something.
sub last_line
{
	my ($node, $file) = @_;

	return scalar split /^/,
	  slurp_file(conf($node, $file)) =~ s/\s+\z/\n/r;
}

# The former text of the file, to put it back.
sub keep
{
	my ($node, $file) = @_;
	my $text = slurp_file(conf($node, $file));

	return sub {
		open(my $fh, '>', conf($node, $file)) or die $!;
		print $fh $text;
		close $fh;
	};
}

# It does not lead, and says why wherever somebody may look.
sub refused
{
	my ($node, $why, $what, $offset) = @_;
	my $error;

	poll_until(
		sub {
			($error = $node->sql_error(q(SELECT le_acquire('any')))) =~
			  /LE005.*may not lead/;
		},
		"$what: LE005");
	like($error, qr/DETAIL: +$why/, "$what: LE005 says why");
	like(
		$node->sql_error(q(SELECT le_current_leader('billing'))),
		qr/LE005: could not find out who leads election "billing".*DETAIL: +$why/s,
		"$what: it does not say that nobody leads");
	like(
		$node->sql(q(SELECT level || ':' || message FROM le_check_config()
			WHERE topic = 'settings')),
		qr/^error:This node does not lead: $why/m,
		"$what: the check");
	is($node->sql(q(SELECT count(*) FROM le_status
			WHERE le_is_leader(election))), 0, "$what: it leads nothing");
	is(
		$node->sql(q(SELECT bool_and(last_error <> '') FROM le_status
			WHERE state <> 'idle')),
		't',
		"$what: le_status");
	like(
		$node->log_since($offset),
		qr/LOG: +leader_election settings are not as they were meant: this node does not lead\n.*DETAIL: +$why/,
		"$what: the log");
	return;
}

sub leads
{
	my ($node, $what) = @_;

	poll_until(
		sub { $node->sql_error(q(SELECT le_acquire('mine'))) eq '' },
		"$what: may lead again");
	is(
		$node->sql(q(SELECT count(*) FROM le_check_config()
			WHERE topic = 'settings')),
		0,
		"$what: nothing to say");
	$node->sql(q(SELECT le_release('mine'))) if $node->is_leader('mine');
	return;
}

$right->wait_for_leadership('billing');

# At the start PostgreSQL goes on with the default: another store, or another
# namespace.
subtest 'at the start' => sub {
	my $takes = {
		backend => ': it takes "local", ',
		lease_ttl => ': it takes 3000 to 60000 ms, the unit of a number without one.'
	};

	foreach my $case (
		[ backend => 'consull' ],
		[ lease_ttl => 20 ],
		[ consul_key_prefix => 'app/' ],
		[ lease_ttl => '10 sek' ],
		[ Consul_Prefix => 'app' ])
	{
		my ($setting, $value) = @$case;
		my $what = "$setting = '$value'";
		my $undo = keep($wrong);
		my $offset = $wrong->log_offset;
		my $why;

		$wrong->set("leader_election.$setting", $value);
		$why = sprintf(
			$setting =~ /Prefix$/
			? 'There is no setting "leader_election.%s", which is set'
			: '"leader_election.%s" has a value that is not valid,',
			$setting)
		  . ' in line '
		  . last_line($wrong)
		  . ' of file "postgresql.conf"'
		  . ($takes->{$setting} // '');
		$wrong->restart;
		refused($wrong, quotemeta($why) =~ s/\\ / /gr, $what, $offset);
		still_leads($right, 'billing', "$what: the other leads");
		$undo->();
		next if $setting eq 'backend';
		$wrong->reload;
		leads($wrong, "$what, corrected");
	}

	$wrong->restart;
	leads($wrong, 'after a restart');
};

subtest 'a reload does not mend the store' => sub {
	my $undo = keep($wrong);
	my $offset;

	$wrong->set('leader_election.backend', 'consull');
	$wrong->restart;
	$undo->();
	$offset = $wrong->log_offset;
	$wrong->reload;
	$wrong->wait_for_log_like(qr/this node does not lead/, $offset);
	refused($wrong, '"leader_election.backend" has a value', 'still', $offset);
	$wrong->restart;
	leads($wrong, 'after a restart');
};

subtest 'ALTER SYSTEM, as it is kept' => sub {
	my $undo = keep($wrong, 'postgresql.auto.conf');
	my $offset = $wrong->log_offset;

	$wrong->append_conf('postgresql.auto.conf',
		"leader_election.consul_url = 'localhost:8500'\n");
	$wrong->restart;
	refused($wrong,
		'"leader_election.consul_url" has a value that is not valid, in line \d+ of file "postgresql.auto.conf"',
		'auto', $offset);
	$undo->();
	$wrong->reload;
	leads($wrong, 'corrected');
};

subtest 'the command line' => sub {
	foreach my $option ('leader_election.lease_ttl=long', 'leader_election.leese=1')
	{
		my $offset;

		$wrong->stop;
		$offset = $wrong->log_offset;
		system_or_bail('pg_ctl', '--wait', '--pgdata', $wrong->data_dir,
			'--log', $wrong->logfile, '--options', "-c $option", 'start');
		$wrong->_update_pid(1);
		refused($wrong, '.*"' . $option =~ s/=.*//r . '".*on the command line',
			$option, $offset);
		$wrong->reload;
		refused($wrong, '.*on the command line', "$option, reloaded", $offset);
	}
	$wrong->stop;
	$wrong->start;				# a restart would repeat the options
	leads($wrong, 'without them');
};

# At a reload the setting stays as it was, here and not on the others.
subtest 'at a reload' => sub {
	my $node = LeaderElection::Node->create('reloaded',
		settings => { campaign => 'a' });
	my $undo = keep($node);
	my $offset;

	foreach my $line (
		"leader_election.lease_ttl = '10 sek'",
		"leader_election.eligible = maybe",
		"leader_election.consul_prefix = 'x'")
	{
		$node->wait_for_leadership('a');
		$offset = $node->log_offset;
		$node->append_conf('postgresql.conf', "$line\n");
		$node->reload;
		$node->wait_for(q(SELECT NOT le_is_leader('a')), "$line: the end");
		refused($node, '.*in line \d+ of file "postgresql.conf"', $line, $offset);
		$undo->();
		$node->reload;
		leads($node, "$line, corrected");
	}

	# an earlier line that a later one replaces does not count
	$node->append_conf('postgresql.conf',
		"leader_election.lease_ttl = 'x'\nleader_election.lease_ttl = 15s\n");
	$node->append_conf('postgresql.conf', "leader_election.campaign = 'a, b'\n");
	$node->reload;
	$node->wait_for_leadership('b');
	still_leads($node, 'a', 'replaced by a later line');

	# where nothing is taken at all, it counts whether ours were to change
	$undo->();
	$node->reload;
	$node->wait_for(q(SELECT NOT le_is_leader('b')), 'the end of b');
	$offset = $node->log_offset;
	$node->append_conf('postgresql.conf', "work_mem = = 1\n");
	$node->reload;
	$node->wait_for_log_like(qr/contains errors/, $offset);
	$node->sql(q(SELECT le_acquire('c')));
	ok($node->is_leader('c') && $node->is_leader('a'),
		'an error elsewhere');

	# nor does a worker that starts afresh judge otherwise, or while the file
	# cannot be read; but it does if that lasts
	my %token = map { $_ => $node->token($_) } 'a', 'c';
	my $kept = sub {
		my ($what) = @_;

		$offset = $node->log_offset;
		$node->kill_worker('TERM');
		$node->wait_for_log_like(qr/leader_election worker started/, $offset);
		is($node->sql(q(SELECT le_acquire('d') AND le_release('d'))), 't', "$what: may lead");
		same_term($token{$_}, $node->token($_), "$what: in the same term of $_") foreach 'a', 'c';
	};

	$kept->('a new worker');
	$undo->();
	$node->reload;
	chmod 0, conf($node) or die $!;
	$kept->('the file cannot be read');
	$node->wait_for(q(SELECT NOT le_is_leader('a')), 'the end of a');
	refused($node, 'The configuration files contain errors', 'for too long', $offset);
	chmod 0600, conf($node) or die $!;
	$node->reload;
	$node->wait_for_leadership('a');
	leads($node, 'and can again');
	$node->append_conf('postgresql.conf', "work_mem = = 1\n");
	$offset = $node->log_offset;
	$node->append_conf('postgresql.conf', "leader_election.eligible = off\n");
	$node->reload;
	$node->wait_for(q(SELECT NOT le_is_leader('a')), 'the end of a');
	refused($node, 'The configuration files contain errors', 'and ours', $offset);
	$undo->();
	$node->reload;
	$node->wait_for_leadership('a');
	leads($node, 'corrected');
	$node->stop;
};

# "local" by default would make a leader of every instance.
subtest 'campaign without backend' => sub {
	my $node = LeaderElection::Node->create('forgotten',
		settings => { backend => undef });
	my $offset = $node->log_offset;

	ok($node->acquire('tried'), 'leads for a first try');
	$node->configure(campaign => 'billing');
	$node->wait_for(q(SELECT NOT le_is_leader('tried')), 'the end');
	refused($node,
		'"leader_election.campaign" is set, but "leader_election.backend" is not',
		'campaign', $offset);
	$node->set('leader_election.backend', 'local');
	$node->restart;
	$node->wait_for_leadership('billing');
	leads($node, 'where it is meant');
	$node->stop;
};

still_leads($right, 'billing', 'the right one has led all the time');

done_testing();
