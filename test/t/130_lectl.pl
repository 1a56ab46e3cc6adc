# Tier: test, 58 s
#
# lectl exec, while nothing fails: the command's environment and exit code,
# privileges, and that nothing of it is left.  With the store local also what ends it.

use strict;
use warnings;

use LeaderElection::Docs;
use LeaderElection::Lectl;
use LeaderElection::Loss;
use LeaderElection::Node;
use LeaderElection::Session;
use LeaderElection::Util;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;

# A process that ignores it, as under nohup, hands that on, and lectl leaves it so.
$SIG{HUP} = 'DEFAULT';

my $node = LeaderElection::Node->create('a');
my @quick = ('--settle', '0');

sub released
{
	my ($election) = @_;

	is($node->ask("SELECT le_acquire('$election') AND le_release('$election')"), 't', "$election is free");
	return;
}

subtest 'usage' => sub {
	my ($code, $out, $err) = lectl($node, '--help');

	is("$code$err", '0', '--help');
	like($out, qr/^Usage:\n  lectl/m, 'says how');
	foreach my $known (64, 69, 70, 75, 77, 79, 126, 127)
	{
		like($out, qr/^ +$known  /m, "exit code $known");
	}
	($code, $out) = lectl($node, '--version');
	is($out, "lectl (leader_election) 1.0\n", '--version');
	foreach my $wrong (
		[ [], qr/no command was given/ ],
		[ ['elect'], qr/unknown command "elect"/ ],
		[ ['exec'], qr/no election was given/ ],
		[ [ 'exec', 'e' ], qr/nothing was given to run/ ],
		[ [ 'exec', 'e', '--' ], qr/nothing was given to run/ ],
		[ [ 'exec', 'e', '--nothing', 'true' ], qr/unrecognized option/ ],
		[ [ 'exec', 'e', '--on-loss', 'hide', 'true' ], qr/invalid value for option "--on-loss": "hide"/ ],
		[ [ 'exec', 'e', '--wait', 'long', 'true' ], qr/invalid input syntax for type interval: "long"/ ],
		[ [ 'exec', 'e', '--settle', 'long', 'true' ], qr/invalid input syntax for type interval: "long"/ ],
		[ [ 'exec', 'e', '--wait', '-1s', 'true' ], qr/wait/ ],
		[ [ 'exec', 'a b', 'true' ], qr/invalid election name/ ],
		[ [ 'exec', q(e'), 'true' ], qr/invalid election name/ ])
	{
		my ($arguments, $message) = @$wrong;

		($code, $out, $err) = lectl($node, @$arguments);
		is($code, 64, "@$arguments");
		like($err, $message, 'says what is wrong');
	}
};

# Made of --help, and installed.
subtest 'the manual page' => sub {
	my ($bin, $man) = map { s/\s+\z//r } map { scalar `$ENV{PG_CONFIG} --$_` } 'bindir', 'mandir';
	my $stage = readlink("$ENV{LE_BIN}/lectl") =~ s{\Q$bin\E/lectl\z}{}r;
	my $page = slurp_file("$stage$man/man1/lectl.1");

	like($page, qr/^\.SH NAME\nlectl \\- leader election at the shell\n/m, 'its name');
	foreach my $section ('SYNOPSIS', 'EXEC', 'STEP-DOWN', 'CHECK', 'CONNECTION OPTIONS', 'EXIT STATUS')
	{
		like($page, qr/^\.SH $section\n\.nf\n\S*\s*\S/m, "section $section");
	}
	like($page =~ s/\\-/-/gr, qr/^  --settle=INTERVAL  time between winning/m, 'with the text of --help');
};

subtest 'the command' => sub {
	my @arguments = ('a b', q('), '"', '$HOME', '', "two\nlines", '--help', '*', '\\', '--');
	my ($code, $out, $err) = lectl($node, 'exec', 'e', @quick, '--', $^X, '-e',
		'print map { "<$_>" } @ARGV', '--', @arguments);

	is("$code$err", '0', 'runs');
	is($out, join('', map { "<$_>" } @arguments), 'its arguments are as given');
	($code, $out) = lectl($node, @quick, 'exec', 'e', 'sh', '-c', 'echo $LE_ELECTION; echo $LE_FENCING_TOKEN; exit 7');
	is($code, 7, 'its exit code, and "--" is not needed');
	like($out, qr/^e\n\d+\n\z/, 'its environment');
	my ($again) = (lectl($node, 'exec', 'e', @quick, 'sh', '-c', 'echo $LE_FENCING_TOKEN'))[1];
	guarantee('G2', [ ($out =~ /(\d+)/)[0], $again ], 'a later token in a later term');
	is((lectl($node, 'exec', 'e', @quick, 'sh', '-c', 'kill -USR1 $$'))[0], 138, 'ended by a signal');
	($code, $out, $err) = lectl($node, 'exec', 'e', @quick, '/nowhere');
	is($code, 127, 'not found');
	like($err, qr{could not execute "/nowhere": No such file}, 'and said');
	is((lectl($node, 'exec', 'e', @quick, '/'))[0], 126, 'not a program');
	my $seconds = timed(sub { lectl($node, 'exec', 'e', 'true') });
	cmp_ok($seconds, '>', 1, 'it settles for a second by itself');
	released('e');
};

subtest 'one at a time' => sub {
	my $ground = LeaderElection::Lectl::Ground->new;
	my $one = LeaderElection::Lectl->start('one', $node, 'exec', 'e', @quick, $ground->worker('one'));
	my $run = $ground->wait_for('one');
	my ($code, $out, $err) = lectl($node, 'exec', 'e', @quick, 'echo', 'ran');

	is("$code$out", '75', 'the other does not run it');
	is($err, '', 'and makes no noise, for it is called each time the timer is due');
	my $two = LeaderElection::Lectl->start('two', $node, 'exec', 'e', @quick, '--wait', '3min', $ground->worker('two'));
	poll_until(sub { $node->ask("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%le_acquire%' AND state = 'active' AND pid <> pg_backend_pid()") == 1 }, 'the other to wait');
	kill('TERM', $one->pid);
	is($one->code, 143, 'the first is ended');
	guarantee('G2', [ $run->[1], $ground->wait_for('two')->[1] ], 'then comes the other');

	# a waiter can be told to stop, and leaves nothing behind
	my $three = LeaderElection::Lectl->start('three', $node, 'exec', 'e', @quick, '--wait', '3min', 'true');
	poll_until(sub { $node->ask("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%le_acquire%' AND state = 'active' AND pid <> pg_backend_pid()") == 1 }, 'a third to wait');
	kill('INT', $three->pid);
	is($three->code, 130, 'ended while it waits');
	kill('TERM', $two->pid);
	is($two->code, 143, 'the second, too');
	guarantee('G1', [ $ground->overlaps ], 'one at a time');
	released('e');
};

subtest 'signals' => sub {
	my $dir = PostgreSQL::Test::Utils::tempdir;

	# a shell that runs the tests in the background may ignore these, and then the
	# shells below cannot trap them
	local @SIG{qw(INT QUIT)} = ('DEFAULT', 'DEFAULT');

	# to the command and to its children, but for the signals that a shell has
	# background processes ignore
	foreach my $signal (qw(HUP INT QUIT TERM USR1 USR2))
	{
		my $inner = $signal =~ /INT|QUIT/ ? "$dir/up.$signal" : "$dir/inner.$signal";
		my $lectl = LeaderElection::Lectl->start("signal $signal", $node, 'exec', 'e', @quick, 'bash', '-c',
			"trap 'until [ -e $inner ]; do sleep 0.01; done; exit 9' $signal; "
			  . "bash -c \"trap 'touch $dir/inner.$signal' $signal; touch $dir/up.$signal; while :; do sleep 0.02; done\" & "
			  . 'while :; do wait; done');

		poll_until(sub { -e "$dir/up.$signal" }, 'the command');
		kill($signal, $lectl->pid);
		is($lectl->code, 9, "SIG$signal is passed on");
	}
	released('e');
};

# A shell at a terminal of its own, with its commands; each answer is typed when the
# text before it has come.  All that comes, to the end.
sub at_terminal
{
	my ($script, @dialog) = @_;
	my $pty = IO::Pty->new;
	my $shell = fork() // die "fork: $!";
	my $out = '';

	if ($shell == 0)
	{
		# From here on only exec or _exit: no END block of the test.
		eval {
			@SIG{qw(INT QUIT TSTP TTIN TTOU)} = ('DEFAULT') x 5;
			$pty->make_slave_controlling_terminal;
			POSIX::dup2($pty->slave->fileno, $_) foreach 0 .. 2;
			exec 'setpriv', '--pdeathsig', 'KILL', 'bash', '-c', $script;
		};
		POSIX::_exit(127);
	}
	$pty->close_slave;
	$pty->blocking(0);
	poll_until(
		sub {
			my $n = sysread($pty, $out, 4096, length $out);

			if (@dialog && $out =~ /$dialog[0]/)
			{
				syswrite($pty, $dialog[1]);
				splice(@dialog, 0, 2);
			}
			return defined $n ? $n == 0 : !$!{EAGAIN};
		},
		'the end of the shell',
		interval => 0.01);
	waitpid($shell, 0);
	return $out;
}

# A command that reads from the terminal must not be stopped: lectl would lead for
# ever.
subtest 'at a terminal' => sub {
	plan skip_all => 'needs IO::Pty' unless eval { require IO::Pty; 1 };
	my $exec = "$ENV{LE_BIN}/lectl -w -d '" . $node->connstr('postgres') . "' exec e @quick";

	like(at_terminal("$exec -- sh -c 'echo up; read x; echo got-\$x'; echo code-\$?; read y; echo then-\$y",
			qr/up/, "\x1aone\n", qr/code-/, "two\n"),
		qr/got-one\r\n.*code-0\r\n.*then-two\r\n/s,
		'the command reads from it, is not stopped there, and gives it back');
	like(at_terminal("set -m; $exec -- sh -c 'read x || echo got-nothing' & wait \$!; echo code-\$?"),
		qr/got-nothing\r\n.*code-0\r\n/s, 'in the background it gets an error');
	like(at_terminal("$exec --job typed --every '90 days' -- sh -c 'echo up; exec sleep 60'; echo code-\$?",
			qr/up/, "\x03"),
		qr/code-130\r\n/, 'ends by what is typed');
	is($node->ask("SELECT state FROM le_claims WHERE job = 'typed'"), 'running', 'and its tick has not failed');
	released('e');
};

# All of these would go on for a minute, and none keeps the output open that lectl()
# reads: else it would wait for them to end.
subtest 'no orphan' => sub {
	my $dir = PostgreSQL::Test::Utils::tempdir;
	# each says itself that it is where it wanted to be before the command ends
	my $quiet = '> /dev/null 2>&1';
	append_to_file("$dir/one", "echo \$\$ >> pids; exec sleep 60 $quiet");
	append_to_file("$dir/two", 'sh one & setsid sh one &');
	my $until = 'do sleep 0.01; done';
	my %left = (
		'in the background' => "sleep 60 $quiet & echo \$! >> pids",
		'in a group of its own' => "setsid sh one & until [ -s pids ]; $until",
		'two deep' => "touch pids; setsid sh two & until [ `wc -l < pids` = 2 ]; $until",
		'deaf' => "perl -e '\$SIG{TERM} = \"IGNORE\"; sleep 60' $quiet & echo \$! >> pids");

	foreach my $how (sort keys %left)
	{
		unlink "$dir/pids";
		is((lectl($node, 'exec', 'e', @quick, 'bash', '-c', "cd $dir; $left{$how}; exit 3"))[0], 3, $how);
		my @pids = split /\n/, slurp_file("$dir/pids");
		cmp_ok(scalar @pids, '>', 0, 'something was left');
		is_deeply([ grep { LeaderElection::Lectl::Ground->alive($_) } @pids ], [], 'and was ended');
	}
	released('e');
};

# Where lectl itself is gone the guard ends all that the command has started, in
# whichever group or session; and it is the guard that does while lectl stands still.
subtest 'no orphan of a lectl that is gone' => sub {
	my $dir = PostgreSQL::Test::Utils::tempdir;
	my $sleep = 'exec sleep 60 > /dev/null 2>&1';
	my %script = (
		'timeout(1)' => "timeout 1h sh -c 'echo \$\$ >> pids; $sleep'; true",
		'set -m' => "set -m; sh -c 'echo \$\$ >> pids; $sleep' & wait",
		'setsid, two deep' => "setsid sh -c 'setsid sh -c \"echo \\\$\$ >> pids; $sleep\" & echo \$\$ >> pids; $sleep' & wait");

	foreach my $how (sort keys %script)
	{
		foreach my $end ('killed', 'stopped')
		{
			unlink "$dir/pids";
			my $lectl = LeaderElection::Lectl->start("$how $end" =~ s/\W+/_/gr, $node, 'exec', 'e',
				@quick, '--wait', '3min', '--', 'bash', '-c', "cd $dir; $script{$how}");
			my $n = $how =~ /two/ ? 2 : 1;
			my @pids;

			poll_until(sub { -e "$dir/pids" && (@pids = split /\n/, slurp_file("$dir/pids")) == $n }, $how);
			kill($end eq 'killed' ? 'KILL' : 'STOP', $lectl->pid);
			poll_until(sub { !grep { LeaderElection::Lectl::Ground->alive($_) } @pids },
				"end of $how, lectl $end");
			pass("$how: lectl $end, and nothing is left");
			kill('CONT', $lectl->pid);
			$lectl->code;
		}
	}
	released('e');
};

# Children that lectl had when it began, and orphans that come to it as process 1,
# are not the command's.  Nor are signals as lectl's caller set them.
subtest 'processes that lectl has not started' => sub {
	my $dir = PostgreSQL::Test::Utils::tempdir;
	my $exec = "$ENV{LE_BIN}/lectl -w -d '" . $node->connstr('postgres') . "' exec e @quick";

	is(system('bash', '-c', "sleep 60 > /dev/null 2>&1 & echo \$! > $dir/pid; exec $exec -- sleep 0.2"), 0,
		'a command beside a child of its own');
	ok(LeaderElection::Lectl::Ground->alive(slurp_file("$dir/pid") + 0), 'leaves that alone');
	kill('KILL', slurp_file("$dir/pid") + 0);

	# prctl(PR_SET_CHILD_SUBREAPER): orphans come to lectl, as they do to process 1
	my $prctl = { x86_64 => 157, aarch64 => 167 }->{ (POSIX::uname())[4] };
	SKIP:
	{
		skip 'the number of prctl is not known here', 2 unless $prctl;
		is(system($^X, '-e', 'syscall($ARGV[0], 36, 1, 0, 0, 0) == 0 or die; exec "bash", "-c", $ARGV[1]', $prctl,
				"(sleep 60 > /dev/null 2>&1 & echo \$! > $dir/orphan); exec $exec -- sleep 0.2"),
			0, 'a command beside an orphan');
		ok(LeaderElection::Lectl::Ground->alive(slurp_file("$dir/orphan") + 0), 'leaves that alone, too');
		kill('KILL', slurp_file("$dir/orphan") + 0);
	}

	my $ignoring = sub {
		my ($ignored, @command) = @_;
		my $pid = fork() // die "fork: $!";

		if ($pid == 0)
		{
			eval {
				$SIG{$_} = 'IGNORE' foreach @$ignored;
				POSIX::sigprocmask(POSIX::SIG_BLOCK(), POSIX::SigSet->new(POSIX::SIGCHLD(), POSIX::SIGTERM()));
				exec 'setpriv', '--pdeathsig', 'KILL', @command;
			};
			POSIX::_exit(127);
		}
		return $pid;
	};
	my $pid = $ignoring->([ 'CHLD', 'TERM' ], 'bash', '-c', "exec $exec -- bash -c 'sleep 0.1; exit 3'");
	my $code;

	poll_until(sub { waitpid($pid, POSIX::WNOHANG()) == $pid && (($code = $? >> 8), 1) }, 'its end');
	is($code, 3, 'with SIGCHLD ignored and blocked by the parent it ends with its command');
	$pid = $ignoring->([ 'CHLD', 'TERM' ], 'bash', '-c', "exec $exec -- bash -c 'grep ^SigBlk: /proc/self/status > $dir/mask; touch $dir/up; exec sleep 60'");
	poll_until(sub { -e "$dir/up" }, 'the command');
	my ($blocked) = slurp_file("$dir/mask") =~ /([0-9a-f]+)$/;
	is(hex($blocked) & (1 << POSIX::SIGTERM() - 1), 0, 'the command can be told to end');
	kill('TERM', $pid);
	poll_until(sub { waitpid($pid, POSIX::WNOHANG()) == $pid && (($code = $? >> 8), 1) }, 'its end');
	is($code, 143, 'and by TERM');
	released('e');
};

# Transactions do not grow old, and no time limit of the role ends the session.
subtest 'for long' => sub {
	my $ground = LeaderElection::Lectl::Ground->new;

	$node->sql("CREATE ROLE hurried LOGIN SUPERUSER");
	$node->sql("ALTER ROLE hurried SET $_ = '1s'")
	  foreach qw(idle_in_transaction_session_timeout idle_session_timeout statement_timeout);
	$node->sql("ALTER ROLE hurried SET default_transaction_isolation = 'serializable'");
	my $lectl = LeaderElection::Lectl->start('long', $node->connstr('postgres') . ' user=hurried',
		'exec', 'e', @quick, $ground->worker('long'));
	my $run = $ground->wait_for('long');
	my $mine = "FROM pg_stat_activity WHERE usename = 'hurried'";
	my $first = $node->ask("SELECT xact_start $mine");

	isnt($first, '', 'a transaction is open');
	is($node->ask("SELECT backend_xmin IS NULL $mine"), 't', 'that holds up no vacuum');
	poll_until(sub { $node->ask("SELECT xact_start > '$first' $mine") eq 't' }, 'another transaction');
	same_term($run->[1], $node->ask("SELECT max(fencing_token) FROM le_status WHERE election = 'e' AND state = 'leader'"), 'in the same term');
	ok($ground->alive($run->[2]), 'the command runs');
	kill('TERM', $lectl->pid);
	is($lectl->code, 143, 'until it is ended');
	released('e');
};

subtest 'privileges' => sub {
	$node->sql(block('grants'));
	$node->sql(block('allowed elections'));
	$node->sql('CREATE ROLE nobody LOGIN; CREATE DATABASE other');
	my $as = $node->connstr('postgres') . ' user=';
	my ($code, $out, $err) = lectl("${as}billing_worker", 'exec', 'billing', @quick, 'echo', 'ran');

	is("$code$out$err", "0ran\n", 'an ordinary role with the documented grants');
	($code, $out, $err) = lectl("${as}billing_worker", 'exec', 'other', @quick, 'echo', 'ran');
	is("$code$out", '77', 'but not in any election');
	like($err, qr/other/, 'says which');
	($code, $out, $err) = lectl("${as}nobody", 'exec', 'billing', @quick, 'echo', 'ran');
	is("$code$out", '77', 'nor does everybody');
	like($err, qr/permission denied for function le_acquire/, 'says why');
	($code, $out, $err) = lectl($node->connstr('other'), 'exec', 'billing', 'true');
	is($code, 77, 'without the extension');
	like($err, qr/extension "leader_election" is not installed in database "other"/, 'says so');
	($code, $out, $err) = lectl('host=/nowhere', 'exec', 'billing', 'true');
	is($code, 69, 'without a server');
	like($err, qr/could not connect|connection to server/, 'says so');

	# nobody's functions are taken for those of the extension
	$node->sql(q(CREATE SCHEMA mine; ALTER ROLE billing_worker SET search_path = mine, public;
		CREATE FUNCTION mine.le_acquire(text, text = NULL, wait interval = '0', scope text = '', on_loss text = '')
		RETURNS boolean LANGUAGE sql AS 'SELECT true'; GRANT USAGE ON SCHEMA mine TO PUBLIC));
	is((lectl("${as}billing_worker", 'exec', 'billing', @quick, 'true'))[0], 0, 'with functions of the same name');
};

subtest 'the recipe' => sub {
	my ($start) = block('lectl') =~ /^ExecStart=(.*)$/m;
	my $dump = PostgreSQL::Test::Utils::tempdir . '/dump';

	like(block('lectl'), qr/^SuccessExitStatus=75$/m, 'not to lead is no failure');
	$start =~ s{^/usr/bin/lectl}{$ENV{LE_BIN}/lectl} or die $start;
	$start =~ s{ /var/backups/billing\.dump }{ $dump } or die $start;
	$node->sql('CREATE DATABASE billing');
	local %ENV = (%ENV, PGHOST => $node->host, PGPORT => $node->port);
	is(system($start), 0, 'a dump');
	ok(-s $dump, 'is there');
	is(system($start) >> 8, 75, 'once a day');
};

# With this store nobody has to wait for a deadline: a backend's leases end with it,
# and the others may begin at once but for the time to settle.
subtest 'killed' => sub {
	my $long = LeaderElection::Node->create('long',
		settings => { lease_ttl => '60 s', renew_interval => '3 s' });

	lose_between($long, $long, carries => 3, good_for => 50);
	loses('lectl killed', 1, sub { $_[0]->kill9 }, strict => 1, killed => 1);
	loses('backend killed', 1, sub {
		my $pid = backend_of($long);

		kill('KILL', $pid);
		$_[0]->{backend} = $pid;
	}, alone => 1, repair => sub { $long->wait_for_restart($_[0]->{backend}) });
	$long->stop;
};

# As psql has them.
subtest 'connection' => sub {
	my $dir = PostgreSQL::Test::Utils::tempdir;
	my $host = $node->host;
	my $port = $node->port;
	my @run = ('exec', 'e', @quick, 'echo', 'ran');
	my $plain = sub {
		my $out = '';

		IPC::Run::run([ "$ENV{LE_BIN}/lectl", @_ ], '>', \$out);
		return $out;
	};

	append_to_file("$dir/services", "[mine]\nhost=$host\nport=$port\ndbname=postgres\n");
	my $uri_host = $host =~ s{/}{%2F}gr;
	local %ENV = %ENV;
	delete @ENV{grep { /^PG(HOST|PORT|USER|DATABASE)/ } keys %ENV};
	is($plain->('-h', $host, '-p', $port, '-d', 'postgres', @run), "ran\n", 'short options');
	is($plain->("--host=$host", "--port=$port", '--dbname=postgres', @run), "ran\n", 'long ones');
	is($plain->(@run[0, 1], "--host=$host", "--port=$port", '--dbname=postgres', @run[2 .. 5]), "ran\n", 'after the words');
	is($plain->('-d', "postgresql://$uri_host:$port/postgres", @run), "ran\n", 'a URI');
	is($plain->('-d', "host=/nowhere,$host port=$port,$port dbname=postgres", @run), "ran\n", 'several hosts');
	{
		local $ENV{PGSERVICEFILE} = "$dir/services";
		is($plain->('-d', 'service=mine', @run), "ran\n", 'a service');
	}
	@ENV{qw(PGHOST PGPORT PGDATABASE)} = ($host, $port, 'postgres');
	is($plain->(@run), "ran\n", 'the environment');
};

done_testing();
