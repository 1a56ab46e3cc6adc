# Tier: test, 131 s
#
# lectl exec, while all kinds of things fail: the command ends before anybody
# else's begins.
#
# LECTL_HANDOVERS in the environment says how many handovers there are, and has
# the times shown.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Docs;
use LeaderElection::Lectl;
use LeaderElection::Loss;
use LeaderElection::Node;
use LeaderElection::Toxiproxy;
use LeaderElection::Util;
use List::Util qw(max min sum);
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;

my $consul = LeaderElection::Consul->new('consul')->start;
my $toxiproxy = LeaderElection::Toxiproxy->new->start;
my $to_consul = $toxiproxy->link('consul', $consul->host_port);
my %settings = (
	lease_ttl => '3s',
	safety_margin => '500ms',
	commit_margin => '100ms',
	cancel_lead => '700ms');
my ($a, $b) = map {
	LeaderElection::Node->create(
		$_,
		consul => $_ eq 'a' ? $to_consul->url : $consul,
		settings => \%settings,
		conf => { listen_addresses => '127.0.0.1' })
} 'a', 'b';
my $to_a = $toxiproxy->link('a', '127.0.0.1:' . $a->port);

# How far away the deadline is at most.
my $carries = 2.5;
my $ground = lose_between($a, $b, carries => $carries);

sub guard_of
{
	my ($lectl) = @_;

	foreach my $pid (split ' ', slurp_file('/proc/' . $lectl->pid . '/task/' . $lectl->pid . '/children'))
	{
		return $pid if slurp_file("/proc/$pid/comm") eq "lectl-guard\n";
	}
	die 'no guard';
}

my $by_link = 'host=127.0.0.1 dbname=postgres port=' . ($to_a->host_port =~ /(\d+)$/)[0];
my $terminate = sub { $a->ask('SELECT pg_terminate_backend(' . backend_of($a) . ')') };
my $step_down = sub { $a->ask("SELECT le_step_down('e', '0')") };
# a store that is back carries leases again only with the next proof
my $calm = sub {
	poll_until(sub { $a->ask("SELECT le_acquire('calm') AND le_remaining('calm') > '2 s'") eq 't' }, 'a proof');
	$a->release('calm');
};
my $silence = sub { $to_a->add('silence', 'timeout', 'downstream', timeout => 0) };

subtest 'a command that ends by TERM' => sub {
	loses('backend ended', 0, $terminate);
	loses('stepped down', 0, $step_down, strict => 1);
	loses('no answer of the server', 0, $silence, strict => 1, connstr => $by_link,
		deadline => 1, repair => sub { $to_a->down }, finally => sub { $to_a->reset });
};

subtest 'a command that pays no heed to TERM' => sub {
	loses('lectl killed', 1, sub { $_[0]->kill9 }, strict => 1, killed => 1);
	loses('lectl stands still', 1, sub { $_[0]->freeze }, strict => 1,
		deadline => 1, repair => sub { $_[0]->thaw });
	loses('backend ended', 1, $terminate);
	loses('stepped down', 1, $step_down, strict => 1);
	loses('key deleted', 1, sub { $consul->delete('/v1/kv/leader_election/e/leader') });
	loses('no answer of the server', 1, $silence, strict => 1, connstr => $by_link,
		deadline => 1, repair => sub { $to_a->down }, finally => sub { $to_a->reset });
	loses('connection closed', 1, sub { $to_a->down }, connstr => $by_link,
		finally => sub { $to_a->up });
	loses('no answer of the store', 1,
		sub { $to_consul->add('silence', 'timeout', 'downstream', timeout => 0) },
		strict => 1, deadline => 1, repair => sub { $to_consul->reset }, finally => $calm);
	loses('instance stands still', 1, sub { $a->freeze }, strict => 1, deadline => 1,
		finally => sub { $a->thaw });
};

# The transaction that holds up a step-down ends now and then, and another begins:
# here each time that lectl asks.  The second time the server is far away, so that
# a step-down comes between the question and the end of the transaction, too.
subtest 'bound again and again' => sub {
	local $ENV{LECTL_BIND_EVERY} = 0;

	loses("stepped down ($_)", 1, $step_down, strict => 1) foreach 1 .. 3;
	$to_a->add('far', 'latency', 'downstream', latency => 200);
	loses("stepped down, far away ($_)", 1, $step_down, strict => 1, connstr => $by_link) foreach 1 .. 5;
	$to_a->reset;
};

# A loss that is told ends the command long before the deadline, also one that pays
# no heed.
subtest 'a deadline that is far away' => sub {
	my $long = LeaderElection::Node->create('long',
		settings => { lease_ttl => '60 s', renew_interval => '3 s' });

	lose_between($long, $long, carries => 3, good_for => 50);
	loses('stepped down', 1, sub { $long->ask("SELECT le_step_down('e', '0')") }, strict => 1);
	$long->stop;
	$ground = lose_between($a, $b, carries => $carries);
};

# Soon the instance itself leads; lectl should not take that for its own term.
subtest 'another term of the same instance' => sub {
	my ($one, $run) = begun(sub { exec_on($a, 0) });

	$one->freeze;
	$consul->delete('/v1/kv/leader_election/e/leader');
	is($a->ask("SELECT le_acquire('e', wait => '3 min')"), 't', 'the instance leads');
	$one->thaw;
	death($run->[2], boottime_ns());
	pass('the command is dead');
	is($one->code, 79, 'lost');
	$a->release('e');
};

# The server's answer is old by the time it is here: counted from when it was asked
# for, as it has to be, the term is over before anybody hears of it.
subtest 'a long way' => sub {
	my ($one, $first);

	ok($b->acquire('e', wait => '3 min'), 'another leads');
	$one = exec_on($by_link, 1, '--settle', '0');
	$a->wait_for("SELECT state = 'waiting' FROM le_status WHERE election = 'e'", 'lectl to wait');
	$to_a->add('far', 'latency', 'downstream', latency => 4000);
	ok($b->release('e'), 'and releases');

	# the second question comes when the answer to the first is here; who has begun
	# then asks no more, since it is lost soon
	my $asked = "SELECT max(query_start) FROM pg_stat_activity WHERE query ~ '^SELECT le_fencing_token'";

	poll_until(sub { ($first = $a->ask($asked)) ne '' }, 'lectl to ask');
	poll_until(
		sub {
			my $second = $a->ask($asked);

			return $ground->runs($one->name) || ($second ne '' && $second ne $first);
		},
		'lectl to ask again');
	is(scalar $ground->runs($one->name), 0, 'nothing is begun');
	$to_a->reset;
	my $run = $ground->wait_for($one->name);

	pass('until answers come sooner');
	kill('KILL', $run->[2]);
	is($one->code, 137, 'the end');
};

subtest 'the instance' => sub {
	loses('backend killed', 0, sub {
		my $pid = backend_of($a);

		kill('KILL', $pid);
		$_[0]->{backend} = $pid;
	}, repair => sub { $a->wait_for_restart($_[0]->{backend}) });
	loses('instance killed', 1, sub { $a->crash }, finally => sub { $a->start });
	loses('shutdown', 1, sub { $a->hang_up; system('pg_ctl', '-D', $a->data_dir, '-m', 'fast', '-W', '-s', 'stop') },
		finally => sub { $a->{_pid} = undef; poll_until(sub { !-e $a->data_dir . '/postmaster.pid' }, 'its end'); $a->start });
};

# With its guard, too.  The session ends at once then.
subtest 'the guard' => sub {
	my ($one, $run) = begun(sub { exec_on($a, 1) });

	kill('KILL', guard_of($one));
	$one->kill9;
	death($run->[2], boottime_ns());
	pass('dies with lectl');
	guarantee('G1', [ $ground->overlaps ], 'never two commands at a time');

	# a command that lets go of the signal: the guard has the whole group
	my $dir = PostgreSQL::Test::Utils::tempdir;

	$one = LeaderElection::Lectl->start('group', $a, 'exec', 'e', '--wait', '3min', '--', 'bash', '-c',
		"bash -c 'sleep 60 & echo \$! > $dir/pid.new; mv $dir/pid.new $dir/pid; wait' & wait");
	poll_until(sub { -e "$dir/pid" }, 'the command');
	$one->kill9;
	death(slurp_file("$dir/pid") + 0, boottime_ns());
	pass('the group dies with lectl');
};

# An error that is under way when the command ends, and has ended the binding.
# Nobody knows then that the term has lasted.
subtest 'an error that comes late' => sub {
	my $dir = PostgreSQL::Test::Utils::tempdir;
	my @until = ('--', 'sh', '-c', "touch $dir/up; until [ -e $dir/end ]; do sleep 0.01; done");
	my @run = ('exec', 'billing', '--settle', '0', '--wait', '3min');

	$a->sql(block('grants'));
	$a->sql(block('allowed elections'));
	$to_a->add('far', 'latency', 'downstream', latency => 300);
	{
		local $ENV{LECTL_BIND_EVERY} = 0;
		my $one = LeaderElection::Lectl->start('late', "$by_link user=billing_worker", @run, @until);

		poll_until(sub { -e "$dir/up" }, 'the command');
		$a->sql('REVOKE EXECUTE ON FUNCTION le_require_leader FROM billing_worker');
		poll_until(sub { $a->ask("SELECT count(*) FROM pg_stat_activity WHERE usename = 'billing_worker' AND state = 'idle in transaction (aborted)'") eq '1' },
			'the error', interval => 0.01);
		append_to_file("$dir/end", '');
		is($one->code, 79, 'no success');
		like($one->log, qr/lost election "billing"/, 'and said');
	}
	$a->sql('GRANT EXECUTE ON FUNCTION le_require_leader TO billing_worker');
	$to_a->reset;
	unlink "$dir/up", "$dir/end";

	# the tick's own error is none of the term's
	my $one = LeaderElection::Lectl->start('tick', $a->connstr('postgres') . ' user=billing_worker',
		@run, '--job', 'j', '--every', '90 days', @until);

	poll_until(sub { -e "$dir/up" }, 'the command');
	$a->sql('REVOKE EXECUTE ON FUNCTION le_complete FROM billing_worker');
	append_to_file("$dir/end", '');
	is($one->code, 0, 'le_complete: the command has ended in time');
	like($one->log, qr/could not confirm that tick .* is marked as done/, 'and the rest is said');
};

# A process that somebody traces stays until that one has looked.
subtest 'a process that cannot be ended' => sub {
	my %ptrace = (x86_64 => 101, aarch64 => 117);
	my $dir = PostgreSQL::Test::Utils::tempdir;
	my $one = LeaderElection::Lectl->start('stays', $a, 'exec', 'e', '--wait', '3min', '--', 'sh', '-c',
		"sleep 60 & echo \$! > $dir/new; mv $dir/new $dir/pid; until [ -e $dir/end ]; do sleep 0.01; done");

	poll_until(sub { -e "$dir/pid" }, 'the command');
	my $pid = slurp_file("$dir/pid") + 0;
	my $call = $ptrace{ (POSIX::uname())[4] };
	my $seized = defined $call && syscall($call, 0x4206, $pid, 0, 0) == 0;

	append_to_file("$dir/end", '');
	my $code = $one->code;
	SKIP:
	{
		skip 'no process can be traced here', 3 unless $seized;
		is($code, 70, 'lectl ends nevertheless');
		like($one->log, qr/could not end what the command has left running/, 'and says why');
		is($b->ask("SELECT le_acquire('e', wait => '3 min') AND le_release('e')"), 't', 'somebody else can lead');
		waitpid($pid, 0);
	}
};

subtest 'on loss' => sub {
	my ($one, $run) = begun(sub { exec_on($a, 1, '--on-loss', 'term') });

	$a->ask("SELECT le_step_down('e', '0')");
	poll_until(sub { $one->log =~ /lost election "e"/ }, 'the loss');
	poll_until(sub { $b->ask("SELECT le_acquire('e') AND le_release('e')") eq 't' }, 'somebody else to lead');
	ok($ground->alive($run->[2]), 'term: not killed');
	kill('KILL', $run->[2]);
	is($one->code, 79, 'but lost');

	($one, $run) = begun(sub { exec_on($a, 0, '--on-loss', 'term') });
	$a->ask("SELECT le_step_down('e', '0')");
	is($one->code, 79, 'term: gets TERM');

	($one, $run) = begun(sub { exec_on($a, 0, '--on-loss', 'ignore') });
	$a->ask("SELECT le_step_down('e', '0')");
	poll_until(sub { $one->log =~ /lost election "e"/ }, 'the loss');
	poll_until(sub { $b->ask("SELECT le_acquire('e') AND le_release('e')") eq 't' }, 'somebody else to lead');
	ok($ground->alive($run->[2]), 'ignore: left alone');
	kill('TERM', $run->[2]);
	is($one->code, 79, 'but lost');
};

# Each time one leads and another waits on the other instance.
subtest 'handovers' => sub {
	my $handovers = $ENV{LECTL_HANDOVERS} // 8;
	my @nodes = ($a, $b);
	my %faults = (
		'killed' => sub { $_[0]->kill9 },
		'ended' => sub { kill('TERM', $_[0]->pid) },
		'stands still' => sub { $_[0]->freeze },
		'backend ended' => sub { $_[1]->ask('SELECT pg_terminate_backend(' . backend_of($_[1]) . ')') },
		'stepped down' => sub { $_[1]->ask("SELECT le_step_down('e', '0')") });
	my @kinds = sort keys %faults;
	my %settle = map { $_ => 0 } @kinds;
	my ($leads, $run) = begun(sub { exec_on($nodes[0], 1) });
	my (%death, @gap);

	$settle{'backend ended'} = $carries;

	for my $i (1 .. $handovers)
	{
		my $kind = $kinds[ $i % @kinds ];
		my $start = sub { exec_on($nodes[ $i % 2 ], 1, '--settle', "$settle{$kind} s") };
		my $waits = $start->();
		my $from = boottime_ns();

		$faults{$kind}->($leads, $nodes[ ($i - 1) % 2 ]);
		if ($kind eq 'ended')
		{
			# it is passed on, and who pays no heed to it goes on
			kill('KILL', $run->[2]);
		}
		push @{ $death{$kind} }, death($run->[2], $from);
		my $dead = boottime_ns();
		$leads->thaw if $kind eq 'stands still';
		($waits, $run) = begun($start, $waits);
		push @gap, ($run->[3] - $dead) / 1e9;
		$leads->code unless $kind eq 'killed';
		$leads = $waits;
	}
	kill('KILL', $run->[2]);
	$leads->code;

	my $report = $ENV{LECTL_HANDOVERS} ? \&diag : \&note;
	$report->(sprintf('%s: dead after %.3f s on average, %.3f s at most, of %d', $_,
		sum(@{ $death{$_} }) / @{ $death{$_} }, max(@{ $death{$_} }), scalar @{ $death{$_} }))
	  foreach sort keys %death;
	$report->(sprintf('%d handovers, from one command to the next at least %.3f s, at most %.3f s',
		scalar @gap, min(@gap), max(@gap)));
	is(scalar @gap, $handovers, "$handovers handovers");
	guarantee('G1', [ $ground->overlaps ], 'never two commands at a time');
};

done_testing();
