# Tier: test, 69 s
#
# The commands of lectl besides exec, on two instances and a real Consul, as
# ordinary roles with the documented grants.

use strict;
use warnings;

use IO::Select;
use IO::Socket::UNIX;
use JSON::PP;
use LeaderElection::Consul;
use LeaderElection::Docs;
use LeaderElection::Lectl;
use LeaderElection::Node;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $consul = LeaderElection::Consul->new('consul')->start;
my ($a, $b) = map {
	LeaderElection::Node->create(
		$_,
		consul => $consul,
		settings => {
			lease_ttl => '10s',
			renew_interval => '1s',
			campaign => 'billing'
		})
} 'a', 'b';
my $nothing = free_port();

foreach my $node ($a, $b)
{
	$node->sql(block('grants'));
	$node->sql(block('allowed elections'));
	$node->sql('CREATE ROLE nobody LOGIN; CREATE ROLE looker LOGIN; GRANT pg_monitor TO looker');
}

# A connection string for these instances, or ports without any.
sub hosts
{
	my ($user, @nodes) = @_;

	return
	    'host=' . join(',', map { $a->host } @nodes)
	  . ' port=' . join(',', map { ref $_ ? $_->port : $_ } @nodes)
	  . " dbname=postgres user=$user";
}

sub operator { return hosts('billing_operator', @_); }

# The other campaigns; who leads is for chance to say.
sub leader_and_other
{
	my $leader = poll_until(
		sub { (grep { $_->ask("SELECT le_is_leader('billing')") eq 't' } $a, $b)[0] },
		'a leader');
	my $other = $leader == $a ? $b : $a;

	poll_until(sub { $other->ask("SELECT state = 'waiting' AND holder IS NOT NULL FROM le_status WHERE election = 'billing'") eq 't' },
		'the other to wait');
	$_->wait_for(q(SELECT count(*) = 2 FROM le_nodes WHERE state = 'live'), $_->name . ' to see both') foreach $a, $b;
	return ($leader, $other);
}

sub listed
{
	my ($code, $out, $err) = lectl(@_, '--json');

	is($err, '', 'without a word');
	return ($code, @{ decode_json($out) });
}

# The row of a job in list.
sub listed_job
{
	my ($job, @arguments) = @_;
	my (undef, @rows) = listed(@arguments);

	return (grep { ($_->{job} // '') eq $job } @rows)[0];
}

my ($leader, $other) = leader_and_other();

subtest 'usage' => sub {
	foreach my $wrong (
		[ [ 'list', '--json', '--csv' ], qr/only one of --csv and --json/ ],
		[ [ 'list', '--any' ], qr/option "--any" is not for "list"/ ],
		[ [ '--wait', '1s', 'list' ], qr/option "--wait" is not for "list"/ ],
		[ ['wait'], qr/no election was given/ ],
		[ [ 'wait', 'e', 'f' ], qr/more than one election/ ],
		[ [ 'wait', 'e', '--any', '--me' ], qr/only one of --me, --any and --leader/ ],
		[ [ 'wait', 'a b' ], qr/invalid election name/ ],
		[ [ 'wait', 'e', '--timeout', 'long' ], qr/invalid input syntax for type interval/ ],
		[ [ 'wait', 'e', '--timeout', '-1s' ], qr/must not be negative/ ],
		[ ['step-down'], qr/either an election or --all/ ],
		[ [ 'step-down', 'e', '--all' ], qr/either an election or --all/ ],
		[ [ 'step-down', 'billing', '--hold-off', '1 month' ], qr/month/ ],
		[ [ 'watch', '--first' ], qr/option --first needs --exec/ ],
		[ [ 'watch', 'e', '--interval', 'often' ], qr/invalid input syntax/ ])
	{
		my ($arguments, $message) = @$wrong;
		my ($code, $out, $err) = lectl(operator($a), @$arguments);

		is("$code$out", '64', "@$arguments");
		like($err, $message, 'says what is wrong');
	}
	foreach my $wrong (
		[ [], qr/nothing was given to check/ ],
		[ ['weather'], qr/"weather" cannot be checked/ ],
		[ [ 'leader', '--any' ], qr/not for "check"/ ],
		[ [ 'leader', '-w', 'x' ], qr/invalid range for option "--warning": "x"/ ],
		[ [ 'leader', '-c', '5:1' ], qr/invalid range for option "--critical": "5:1"/ ],
		[ [ 'leader', '--timeout', '0' ], qr/invalid value for option "--timeout"/ ],
		[ [ 'leader', '-h', 'a,b', '-p', '1,2,3', '-d', 'postgres' ], qr/./ ])
	{
		my ($arguments, $message) = @$wrong;
		my ($code, $out, $err) = lectl(operator($a), 'check', @$arguments);

		is($code, 3, "check @$arguments");
		like($err . $out, $message, 'says what is wrong');
	}
};

subtest 'list' => sub {
	my @job = ('exec', 'billing/x', '--settle', '0', '--job', 'n"ight|ly', '--every', '1d', 'true');
	my @cells = qw(election job node host state);

	is((lectl($a, @job))[0], 0, 'a job');
	my ($code, @rows) = listed(operator($a, $b, $nothing), 'list', 'billing', 'billing/x');
	my $token = $leader->ask("SELECT le_fencing_token('billing')");

	is($code, 69, 'one does not answer');
	is_deeply(
		[ map { my $r = $_; [ @$r{@cells} ] } @rows ],
		[
			[ 'billing', undef, $leader->name, $leader->host . ':' . $leader->port, 'leader' ],
			[ 'billing', undef, $other->name, $other->host . ':' . $other->port, 'waiting' ],
			[ 'billing/x', undef, 'a', $a->host . ':' . $a->port, 'idle' ],
			[ 'billing/x', 'n"ight|ly', 'a', undef, 'done' ],
			[ undef, undef, undef, $a->host . ":$nothing", 'no answer' ],
		],
		'each host, and the job once');
	is($rows[0]{token}, $token, 'the token');
	like($rows[0]{since}, qr/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\+00$/, 'since when');
	like($rows[0]{remark}, qr/^for another \d+ s$/, 'for how long');
	like($rows[3]{tick}, qr/^\d{4}-\d\d-\d\d 00:00:00\+00$/, 'the tick');
	like($rows[4]{remark}, qr/connection to server .* failed/, 'why there is no answer');

	($code, @rows) = listed(operator($other), 'list', 'billing');
	is($code, 0, 'all that were asked answer');
	is_deeply(
		[ map { [ @$_{qw(node host state remark)} ] } @rows ],
		[
			[ $leader->name, undef, 'leader', 'as ' . $other->host . ':' . $other->port . ' has seen' ],
			[ $other->name, $other->host . ':' . $other->port, 'waiting', undef ]
		],
		'a leader that was not asked');
	($code, @rows) = listed(operator($other), 'list');
	is((grep { $_->{node} eq $leader->name && !defined $_->{election} } @rows)[0]{state}, 'live', 'nor was that node');
	($code, @rows) = listed(operator($a, $b), 'list');
	is(scalar(grep { !defined $_->{election} } @rows), 0, 'each is there once');
	($code, @rows) = listed(operator($a, $b), 'list', 'reports');
	is_deeply([ map { [ @$_{qw(election node state)} ] } @rows ],
		[ [ undef, 'a', 'live' ], [ undef, 'b', 'live' ] ], 'nothing to be seen of an election');

	($code, my $out) = lectl(operator($a, $b), 'list', 'billing');
	like($out, qr/^ election \| job \| node \|.*\n-+\+-.*\n billing  \|     \| \w    \|.*\n.*\n\(2 rows\)\n\n\z/, 'a table');
	($code, $out) = lectl(operator($a, $nothing), 'list', '--csv', 'billing/x');
	like($out, qr/^election,job,node,host,state,token,since,tick,remark\nbilling\/x,,a,/, 'CSV');
	like($out, qr/^billing\/x,"n""ight\|ly",a,/m, 'quoted');
};

# Those that do not answer are waited for at the same time.
subtest 'no answer' => sub {
	my $dir = PostgreSQL::Test::Utils::tempdir_short;
	my @silent = map {
		IO::Socket::UNIX->new(Local => "$dir/.s.PGSQL.$_", Listen => 5) // die $!
	} 1, 2;
	my $silent = "host=$dir,$dir," . $a->host . ' port=1,2,' . $a->port . ' dbname=postgres user=billing_operator connect_timeout=';
	my $patient = LeaderElection::Lectl->start('patient', "${silent}600", 'list', 'billing');

	# each of them, while nobody has had an answer
	poll_until(sub { !grep { !IO::Select->new($_)->can_read(0) } @silent }, 'both to be asked');
	ok($patient->is_running, 'at the same time');
	$patient->kill9;

	my $hosts = "${silent}2";
	my (undef, @rows) = listed($hosts, 'list', 'billing');

	is(scalar(grep { ($_->{remark} // '') eq 'the server does not answer' } @rows), 2, 'two rows');
	is($rows[0]{state}, 'leader', 'the third row');
	my ($code, $out) = lectl($hosts, 'check', 'candidates');
	is($code, 0, 'among those that answer');
	like($out, qr/2 nodes can lead, 2 of 3 hosts did not answer: the server does not answer \| candidates=2;2:;1:;0/, 'the rest is told');
	($code, $out) = lectl("host=$dir port=1 dbname=postgres", 'check', 'leader', '--timeout', '2');
	is($code, 2, 'a server that does not answer is critical, in time');
};

subtest 'connection' => sub {
	my $dir = PostgreSQL::Test::Utils::tempdir;
	my ($host, $port, $second) = ($a->host, $a->port, $b->port);
	my $uri_host = $host =~ s{/}{%2F}gr;
	my $nodes = sub {
		my $out = '';

		IPC::Run::run([ "$ENV{LE_BIN}/lectl", @_, 'list', '--csv', 'reports' ], '>', \$out);
		return join(' ', $out =~ /^,,(\w)/mg);
	};

	append_to_file("$dir/services", "[mine]\nhost=$host,$host\nport=$port,$second\ndbname=postgres\nuser=looker\n");
	local %ENV = %ENV;
	delete @ENV{grep { /^PG(HOST|PORT|USER|DATABASE)/ } keys %ENV};
	is($nodes->('-h', "$host,$host", '-p', "$port,$second", '-U', 'looker', '-d', 'postgres'), 'a b', 'options');
	is($nodes->('-d', "postgresql://looker\@$uri_host:$port,$uri_host:$second/postgres"), 'a b', 'a URI');
	is($nodes->('-d', "postgresql://looker\@$uri_host:$port,$uri_host:$second/postgres?target_session_attrs=standby"), 'a b', 'servers of each kind');
	{
		local $ENV{PGSERVICEFILE} = "$dir/services";
		is($nodes->('-d', 'service=mine'), 'a b', 'a service');
		local $ENV{PGSERVICE} = 'mine';
		is($nodes->(), 'a b', 'by the environment');
		is($nodes->('-p', $port), 'a a', 'an option comes before it');
	}
	local @ENV{qw(PGHOST PGPORT PGDATABASE PGUSER)} = ($host, "$port,$second", 'postgres', 'looker');
	is($nodes->('-h', "$host,$host"), 'a b', 'the environment');
	my ($code, $out, $err) = lectl("host=$host,$host,$host port=1,2", 'list');
	is("$code$out", 64, 'hosts and ports that do not match');
};

subtest 'wait' => sub {
	my @look = ('--timeout', '0');

	is((lectl(hosts('nobody', $leader), 'wait', 'billing', @look))[0], 0, 'a leader need not wait, nor have a grant');
	my ($code, $out, $err) = lectl(hosts('nobody', $other), 'wait', 'billing', @look);
	is("$code$out", '75', 'the other does');
	like($err, qr/none of the awaited nodes leads election "billing"/, 'in vain');
	my $seconds = timed(sub { ($code) = lectl(operator($other), 'wait', 'billing', '--timeout', '1.5s') });
	is($code, 75, 'for a while');
	cmp_ok($seconds, '>', 1.5, 'for that long');
	is((lectl(operator($other), 'wait', 'billing', '--any', @look))[0], 0, 'somebody leads');
	is((lectl(operator($other), 'wait', 'reports', '--any', @look))[0], 75, 'or nobody');
	is((lectl(operator($nothing, $other), 'wait', 'billing', '--leader', $leader->name, @look))[0], 0, 'a certain one');
	is((lectl(operator($other), 'wait', 'billing', '--leader', $other->name, @look))[0], 75, 'and no other');
	($code, $out, $err) = lectl(operator($a, $b), 'wait', 'billing');
	is($code, 64, 'which of two?');
	like($err, qr/--me needs one host, not 2/, 'says so');
	is((lectl(hosts('nobody', $other), 'wait', 'billing', '--any', @look))[0], 77, 'a role without the grant is told');
	is((lectl(operator($nothing), 'wait', 'billing', @look))[0], 69, 'nobody is there at the start');

	# until it leads, though the connection is lost meanwhile
	my $wait = LeaderElection::Lectl->start('wait', operator($other), 'wait', 'billing', '--timeout', '3min');
	my $mine = "FROM pg_stat_activity WHERE usename = 'billing_operator' AND query LIKE '%le_is_leader%'";
	poll_until(sub { $other->ask("SELECT count(*) $mine") eq '1' }, 'lectl to wait');
	$other->ask("SELECT pg_terminate_backend(pid) $mine");
	poll_until(sub { $wait->log =~ /warning: .*terminat/ }, 'the loss to be said');
	poll_until(sub { $other->ask("SELECT count(*) $mine") eq '1' }, 'lectl to wait again');
	ok($wait->is_running, 'it waits');
	is((lectl(operator($nothing, $a, $b), 'step-down', 'billing', '--hold-off', '1s'))[0], 0, 'the leader among several hosts');
	is($wait->code, 0, 'the end');
	is($other->ask("SELECT le_is_leader('billing')"), 't', 'the other leads');
	($leader, $other) = leader_and_other();
};

subtest 'step-down' => sub {
	my ($code, $out, $err) = lectl(operator($a, $b), 'step-down', 'billing/none');

	is($code, 75, 'nobody leads');
	like($err, qr/none of the hosts leads election "billing\/none"/, 'says so');
	($code, $out, $err) = lectl(operator($a), 'step-down', 'billing/none');
	is($code, 75, 'nor contends');
	like($err, qr/neither leads nor seeks/, 'says so');
	($code, $out, $err) = lectl(operator($a, $b), 'step-down', 'reports');
	is($code, 75, 'nor this');
	($code, $out, $err) = lectl(operator($a), 'step-down', 'reports');
	is($code, 77, 'that it may not');
	is((lectl(hosts('looker', $leader), 'step-down', 'billing'))[0], 77, 'nor may a role that only looks');
	is($leader->ask("SELECT le_is_leader('billing')"), 't', 'and nothing was done');
	is((lectl(operator($a, $b), 'step-down', '--all'))[0], 64, 'all of which?');

	# not who merely contends: it would be away when it is needed
	is((lectl(operator($other, $leader), 'step-down', 'billing', '--hold-off', '1min'))[0], 0, 'the leader');
	is((lectl(operator($other), 'wait', 'billing', '--timeout', '3min'))[0], 0, 'and the other follows');
	is($leader->ask("SELECT state FROM le_status WHERE election = 'billing'"), 'stepped down', 'a host that stays away');
	is((lectl(operator($leader), 'step-down', 'billing', '--hold-off', '0'))[0], 0, 'until that is ended');
	($leader, $other) = leader_and_other();

	# an election of a session, as exec has it
	my $session = LeaderElection::Session->new($b);
	is($session->query("SELECT le_acquire('billing/s', scope => 'session')"), 't', 'a session leads');
	($code) = lectl(operator($a, $b), 'step-down', 'billing/s', '--hold-off', '1s');
	my $believes = $session->query("SELECT le_is_leader('billing/s')");
	is($code, 0, 'found, too');
	is($believes, 'f', 'and deposed');
	denied('G5', $believes, 'for certain') if $code == 0;
	$session->quit;

	is((lectl(operator($leader), 'step-down', '--all', '--hold-off', '1s'))[0], 0, 'all of an instance');
	is((lectl(operator($other), 'wait', 'billing', '--timeout', '3min'))[0], 0, 'the other leads');
	($leader, $other) = leader_and_other();
};

# A job whose newest tick is that old.
sub tick_of
{
	my ($job, $age, $state, $every) = @_;
	my $session = LeaderElection::Session->new($a);
	my $tick = $a->ask("SELECT date_trunc('second', now() - interval '$age')");
	my $options = defined $every ? "every => '$every'" : "every => NULL";

	$session->query("SELECT le_acquire('billing/j', scope => 'session', wait => '3 min')");
	isnt($session->query("SELECT le_claim_tick('billing/j', '$job', '$tick', $options)"), '', "a tick of $job");
	$session->query("SELECT $state('billing/j', '$job', '$tick')");
	$session->query("SELECT le_release('billing/j')");
	$session->quit;
	return;
}

subtest 'check' => sub {
	my $check = sub {
		my ($expected, $line, $hosts, @arguments) = @_;
		my ($code, $out, $err) = lectl($hosts, 'check', @arguments);

		is("$code$err", $expected, "@arguments: $expected");
		like($out, qr/^LECTL $line\n\z/, 'its line');
	};
	my ($one, $both) = (operator($other), operator($a, $b));
	my $name = $leader->name;

	$check->(0, qr/LEADER OK - $name leads billing \| leaderless=0;;0;0 elections=1;;;0/, $one, 'leader', 'billing');
	$check->(0, qr/LEADER OK - $name leads billing \| .*/, $one, 'leader');
	$check->(2, qr/LEADER CRITICAL - nobody leads reports, x \| leaderless=2;;0;0 elections=3;;;0/, $one, 'leader', 'reports', 'billing', 'x');
	$check->(1, qr/LEADER WARNING - nobody leads reports \| leaderless=1;0;1;0 elections=1;;;0/, $one, 'leader', 'reports', '-w', '0', '-c', '1');
	$check->(3, qr/LEADER UNKNOWN - permission denied for .*/, hosts('nobody', $a), 'leader', 'billing');
	$check->(2, qr/LEADER CRITICAL - no server answers: connection to server .* failed: .*/, operator($nothing), 'leader', 'billing');
	$check->(2, qr/CANDIDATES CRITICAL - no server answers: .*/, operator($nothing, $nothing), 'candidates', 'billing');
	$check->(3, qr/STORE UNKNOWN - connection to server .* role "missing" does not exist.*/, hosts('missing', $a), 'store');
	$check->(2, qr/STORE CRITICAL - no server answers: .*/, operator($nothing), 'store');
	$check->(2, qr/JOBS CRITICAL - no server answers: .*/, operator($nothing), 'jobs');
	$check->(0, qr/LEADER OK - .*/, operator($nothing, $a), 'leader', 'billing');

	$check->(0, qr/CANDIDATES OK - 2 nodes can lead \| candidates=2;2:;1:;0/, $one, 'candidates');
	$check->(1, qr/CANDIDATES WARNING - 2 nodes can lead \| candidates=2;3:;;0/, $both, 'candidates', '-w', '3:');
	$check->(0, qr/CANDIDATES OK - 2 nodes can lead \| .*/, $both, 'candidates', 'billing');
	$check->(2, qr/CANDIDATES CRITICAL - 0 nodes can lead \| .*/, $both, 'candidates', 'billing', 'reports');
	$check->(3, qr/CANDIDATES UNKNOWN - the instance knows of no others: name all hosts/, $one, 'candidates', 'billing');
	$check->(3, qr/CANDIDATES UNKNOWN - permission denied for .*/, hosts('nobody', $a), 'candidates');
	$other->ask("SELECT le_step_down('billing', '1min')");
	$check->(1, qr/CANDIDATES WARNING - 1 node can lead \| .*/, $both, 'candidates', 'billing');
	$other->ask("SELECT le_step_down('billing', '0')");

	tick_of('hourly', '2 h', 'le_complete');
	$check->(0, qr/JOBS OK - the newest tick of hourly of billing\/j was at .* \| age=7\d\d\ds;;;0 failed=0;;0;0 abandoned=0;;0;0 lost=0;;0;0 late=0;0;;0 ahead=0;0;;0 jobs=1;;;0/, $one, 'jobs', 'billing/j');
	$check->(1, qr/JOBS WARNING - .* \| age=7\d\d\ds;3600;86400;0 .*/, $one, 'jobs', 'billing/j', '--warning', '3600', '--critical', '86400');
	$check->(2, qr/JOBS CRITICAL - .* \| age=7\d\d\ds;60;3600;0 .*/, hosts('looker', $a), 'jobs', '--job', 'hourly', '-w', '60', '-c', '3600');
	tick_of('half|hourly', '5 min', 'le_fail');
	$check->(2, qr/JOBS CRITICAL - failed: half\/hourly of billing\/j \| age=7\d\d\ds;;;0 failed=1;;0;0 abandoned=0;;0;0 lost=0;;0;0 late=0;0;;0 ahead=0;0;;0 jobs=2;;;0/, $one, 'jobs', 'billing/j');
	$check->(0, qr/JOBS OK - .*/, $one, 'jobs', '--job', 'hourly');
	$check->(3, qr/JOBS UNKNOWN - no job has run/, $one, 'jobs', '--job', 'daily');
	tick_of('often', '1 h', 'le_complete', '1 min');
	$check->(1, qr/JOBS WARNING - late: often of billing\/j \| .* late=1;0;;0 ahead=0;0;;0 jobs=1;;;0/, $one, 'jobs', '--job', 'often');
	$check->(2, qr/JOBS CRITICAL - failed: half\/hourly of billing\/j; late: often of billing\/j; the newest tick of hourly .*/, $one, 'jobs', 'billing/j', '-c', '3600');
	is(listed_job('often', $one, 'list', 'billing/j')->{remark}, 'late', 'list says so, too');
	tick_of('early', '-1 h', 'le_complete', '1 min');
	$check->(1, qr/JOBS WARNING - ahead of the clock: early of billing\/j \| .* ahead=1;0;;0 jobs=1;;;0/, $one, 'jobs', '--job', 'early');
	is(listed_job('early', $one, 'list', 'billing/j')->{remark}, 'ahead', 'list says so, too');

	$check->(0, qr/STORE OK - the store answered in [\d.]+ ms \| time=\d+\.\d+s;;;0/, $one, 'store');
	$check->(1, qr/STORE WARNING - the store answered in [\d.]+ ms \| time=\d+\.\d+s;\@0:9;;0/, $one, 'store', '-w', '@0:9');
	$check->(2, qr/STORE CRITICAL - the store answered in [\d.]+ ms \| time=\d+\.\d+s;\@0:9;0;0/, $one, 'store', '-w', '@0:9', '-c', '0');
	$check->(3, qr/STORE UNKNOWN - permission denied for .*/, hosts('nobody', $a), 'store');
};

# One command at a time: it would find the other's lock.
my $callback = 'cd %s; mkdir lock || echo overlap >> log; until [ -e go ]; do sleep 0.02; done; '
  . 'echo "$LE_ELECTION:$LE_OLD_LEADER:$LE_NEW_LEADER:$LE_FENCING_TOKEN" >> log; rmdir lock';

subtest 'watch' => sub {
	my $dir = PostgreSQL::Test::Utils::tempdir;
	my $watch = LeaderElection::Lectl->start('watch', operator($a, $b), 'watch', 'billing', 'billing/w', 'billing/v',
		'--interval', '50ms', '--exec', sprintf($callback, $dir));
	my ($first, $second) = ($leader->name, $other->name);
	my $at = qr/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/;
	my $shows = sub {
		my ($line) = @_;

		poll_until(sub { $watch->log =~ /^$at $line$/m }, "line $line");
		pass("line $line");
	};
	my $token = $leader->ask("SELECT le_fencing_token('billing')");

	$shows->("billing: $first \\(token $token\\)");
	$shows->("billing/$_: nobody") foreach 'v', 'w';
	$a->acquire("billing/$_") foreach 'v', 'w';
	$shows->("billing/$_: nobody -> a \\(token \\d+\\)") foreach 'v', 'w';
	$a->release("billing/w");
	$shows->('billing/w: a -> nobody');
	append_to_file("$dir/go", '');
	poll_until(sub { 3 == split /\n/, (-e "$dir/log" ? slurp_file("$dir/log") : '') }, 'their commands');
	my @lines = split /\n/, slurp_file("$dir/log");
	never([ grep { /overlap/ } @lines ], 'one command at a time');
	is(scalar(grep { /^billing\/[vw]::a:\d+$/ } @lines), 2, 'nobody led before');
	is($lines[2], 'billing/w:a::', 'nobody leads after');

	# a lost connection: what changed meanwhile is a change
	my $mine = "FROM pg_stat_activity WHERE usename = 'billing_operator' AND query LIKE '%le_leader%'";
	$a->ask("SELECT pg_terminate_backend(pid) $mine");
	poll_until(sub { $watch->log =~ /warning: .*terminat/ }, 'the loss to be said');
	is((lectl(operator($a, $b), 'step-down', 'billing', '--hold-off', '1s'))[0], 0, 'the leader steps down');
	poll_until(sub { slurp_file("$dir/log") =~ /^billing:(?:$first)?:$second:\d+$/m }, 'the change');
	poll_until(sub { $watch->log =~ /warning: going on/ }, 'the word that it is connected again');
	never([ grep { /overlap/ } split /\n/, slurp_file("$dir/log") ], 'one command at a time');

	# told to end it passes that on, and waits
	my $pid = $watch->pid;
	kill('TERM', $watch->pid);
	is($watch->code, 143, 'the end');
	($leader, $other) = leader_and_other();

	$watch = LeaderElection::Lectl->start('first', operator($a), 'watch', 'billing', '--first', '--exec',
		"trap 'sleep 0.3; touch $dir/ended; exit 1' TERM; touch $dir/began; while :; do sleep 0.02; done");
	poll_until(sub { -e "$dir/began" }, 'the command, for the leader found first');
	kill('TERM', $watch->pid);
	is($watch->code, 143, 'told to end');
	ok(-e "$dir/ended", 'so was the command, and waited for');

	my ($code, $out, $err) = lectl(hosts('nobody', $a), 'watch', 'billing');
	is("$code$out", '77', 'a role without the grant is told');
	($code, $out, $err) = lectl(operator($nothing), 'watch', 'billing');
	is($code, 69, 'and a host that does not answer');
};

# Each with the grants that docs/lectl.md names for it, and without.
subtest 'privileges' => sub {
	my $leads = $leader->name;

	foreach my $row (
		[ 0, 'pg_monitor', '', 'list' ],
		[ 0, '', 'le_current_leader', 'wait', 'billing', '--any' ],
		[ 0, '', 'le_leader', 'watch', 'billing' ],
		[ 0, 'pg_monitor', 'le_leader', 'watch' ],
		[ 3, '', 'le_current_leader', 'check', 'leader', 'billing' ],
		[ 3, 'pg_monitor', 'le_current_leader', 'check', 'leader' ],
		[ 3, 'pg_monitor', '', 'check', 'candidates' ],
		[ 3, 'pg_monitor', '', 'check', 'jobs', '--job', 'hourly' ],
		[ 3, '', 'le_current_leader, le_check_config', 'check', 'store' ],
		[ 0, '', 'le_step_down', 'step-down', 'billing/nobody' ])
	{
		my ($unknown, $role, $functions, @arguments) = @$row;
		my @run = (hosts('granted', $other), @arguments);

		$other->sql('CREATE ROLE granted LOGIN');
		if ($arguments[0] ne 'watch')
		{
			is((lectl(@run))[0], $unknown || 77, "@arguments, without a grant");
		}
		$other->sql("GRANT $role TO granted") if $role;
		$other->sql("GRANT EXECUTE ON FUNCTION $functions TO granted") if $functions;
		if ($arguments[0] eq 'watch')
		{
			my $watch = LeaderElection::Lectl->start('granted' . @arguments, @run);

			poll_until(sub { $watch->log =~ /Z billing: $leads \(token/ }, 'the leader');
			kill('TERM', $watch->pid);
			is($watch->code, 143, "@arguments, with its grants");
		}
		else
		{
			my $fine = $arguments[0] eq 'step-down' ? 75 : 0;

			is((lectl(@run))[0], $fine, "@arguments, with its grants");
		}
		$other->sql('DROP OWNED BY granted; DROP ROLE granted');
	}
};

subtest 'by task' => sub {
	foreach my $line (split /\n/, block('lectl by task'))
	{
		my ($named, $rest) = $line =~ /^lectl -h (db1(?:,db2,db3)?) (.*)$/ or die $line;
		my @arguments = split / /, $rest;
		my $hosts = operator($named eq 'db1' ? $leader : ($b, $a));

		if ($arguments[0] eq 'watch')
		{
			my $watch = LeaderElection::Lectl->start('task', $hosts, @arguments);

			poll_until(sub { $watch->log =~ /Z billing: \w/ }, 'a line');
			kill('TERM', $watch->pid);
			is($watch->code, 143, $line);
			next;
		}
		is((lectl($hosts, @arguments))[0], $line =~ /jobs billing / ? 3 : 0, $line);
		next if $arguments[0] ne 'step-down';
		$leader->ask("SELECT le_step_down('billing', '0')");
		($leader, $other) = leader_and_other();
	}
};

# A leader that crashed in the middle of a run: nobody ends the tick any more.
subtest 'abandoned' => sub {
	my $ground = LeaderElection::Lectl::Ground->new;
	my $lectl = LeaderElection::Lectl->start('crash', $b, 'exec', 'billing/c', '--settle', '0', '--job', 'nightly',
		'--every', '90 days', $ground->worker('crash'));
	my @check = (operator($a), 'check', 'jobs', '--job', 'nightly');

	$ground->wait_for('crash');
	like((lectl(@check))[1], qr/^LECTL JOBS OK - /, 'it runs');
	$b->crash;
	is($lectl->code, 79, 'no more');
	poll_until(sub { (lectl(@check))[0] == 2 }, 'the end of its lease');
	like((lectl(@check))[1],
		qr/^LECTL JOBS CRITICAL - abandoned: nightly of billing\/c \| .* failed=0;;0;0 abandoned=1;;0;0 lost=0;;0;0 late=0;0;;0 ahead=0;0;;0 jobs=1;;;0$/,
		'check');
	is(listed_job('nightly', operator($a), 'list', 'billing/c')->{state}, 'abandoned', 'list');
	$b->start;
	($leader, $other) = leader_and_other();
	is((lectl($b, 'exec', 'billing/c', '--settle', '0', '--wait', '3min', '--job', 'nightly', '--every', '90 days', '--catch-up', 'true'))[0],
		0, 'somebody catches up');
	is((lectl(@check))[0], 0, 'and all is well');
};

# The last, since it ends the store.
subtest 'without a store' => sub {
	my $watch = LeaderElection::Lectl->start('all', hosts('billing_operator', $a), 'watch', '--interval', '100ms');

	poll_until(sub { $watch->log =~ /Z billing: \w \(token/ }, 'all that the instance seeks');
	$consul->stop;
	poll_until(sub { $watch->log =~ /warning: .*could not/ }, 'the store is missed');
	my ($code, $out) = lectl(operator($a), 'check', 'store', '--timeout', '30');
	is($code, 2, 'check store');
	like($out, qr/^LECTL STORE CRITICAL - could not /, 'says why');
	($code, $out) = lectl(operator($a), 'check', 'leader', 'billing', '--timeout', '30');
	is($code, 3, 'the leader is unknown');
	($code, my @rows) = listed(operator($a), 'list');
	is($code, 69, 'the view of the instance');
	is((grep { $_->{state} eq 'no jobs' } @rows)[0]{host}, $a->host . ':' . $a->port, 'but not of jobs');
	ok($watch->is_running, 'watch goes on');
	kill('INT', $watch->pid);
	is($watch->code, 130, 'until it is ended');
};

done_testing();
