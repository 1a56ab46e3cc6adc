# Tier: test, 38 s
#
# The holder on one instance: the node, a session or a transaction; when each lets
# go; who waits for whom; and candidates that stay. The same for a store that
# answers at once and for one that takes its time.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $consul = LeaderElection::Consul->new('consul')->start;
my %conf = (max_prepared_transactions => 2, autovacuum => 'off');
my $node;
my $store;

# The longest there is, which no stall of the machine reaches.
my $lease = 60;
my $renew_interval = 3;

# The rest of an election once nobody holds it.
sub is_free
{
	my ($election, $what) = @_;

	$node->wait_for(
		"SELECT count(*) = 0 FROM le_status WHERE election = '$election' "
		  . "AND state NOT IN ('idle', 'candidate', 'stepped down')",
		"$election to be let go");
	is($node->leader($election), undef, $what);
	return;
}

sub session
{
	return LeaderElection::Session->new($node, @_);
}

sub acquire
{
	my ($session, $election, $scope, $wait) = @_;

	$wait //= '0';
	return $session->query(
		"SELECT le_acquire('$election', scope => '$scope', wait => '$wait')");
}

sub believes
{
	my ($session, $election) = @_;

	return $session->query("SELECT le_is_leader('$election')");
}

# Two do not believe at once.  The one certainly does while the other is asked, if
# it does before and after, in one term of its own.
sub alone
{
	my ($one, $two, $election, $what) = @_;
	my $term = "SELECT le_is_leader('$election'), le_fencing_token('$election'), "
	  . "(SELECT scope || ' ' || pid FROM le_status WHERE election = '$election')";
	my $pid = $one->pid;
	my $before = $one->query($term);
	my $other = believes($two, $election);
	my $lasts = $before =~ /^t\|\d+\|(session|transaction) $pid$/ && $one->query($term) eq $before;

	guarantee('G1', [ $lasts && $other eq 't' ? "$before and another session" : () ], $what);
	return;
}

# Two backends of one node must be told apart, and one scope from another.
sub who_gets_it
{
	my ($one, $two) = (session(), session());
	my $in = 'already holds election "e" in scope';

	is(acquire($one, 'e', 'node'), 't', 'node: acquired');
	is(acquire($one, 'e', 'node'), 't', 'again');
	is(acquire($two, 'e', 'node'), 't', 'by another session');
	is(believes($two, 'e'), 't', 'which may believe, too');
	is(acquire($two, 'e', $_), 'f', "not in scope $_")
	  foreach 'session', 'transaction';
	is($two->query("SELECT le_release('e')"), 't', 'anybody may release it');
	is_free('e', 'free');

	is(acquire($one, 'e', 'session'), 't', 'session: acquired');
	is(acquire($one, 'e', 'session'), 't', 'again');
	is(acquire($two, 'e', $_), 'f', "another session in scope $_ does not")
	  foreach 'session', 'transaction', 'node';
	is(acquire($one, 'e', 'node'), 'f', 'nor this one for the node');
	like(
		$one->error("SELECT le_acquire('e', scope => 'transaction')"),
		qr/ERROR:  55000: this session $in "session"\n.*HINT:  Release/s,
		'scopes of one session do not mix');
	is(believes($one, 'e'), 't', 'the holder believes');
	is(believes($two, 'e'), 'f', 'the other session does not');
	alone($one, $two, 'e', 'not at the same time');
	is($two->query("SELECT le_fencing_token('e')"), '', 'nor has it a token');

	$two->query('BEGIN');
	is(acquire($two, 'mix', 'transaction'), 't', 'transaction: acquired');
	is(acquire($two, 'mix', 'node'), 'f', 'not for the node');
	like(
		$two->error("SELECT le_acquire('mix', scope => 'session')"),
		qr/ERROR:  55000: this session already holds election "mix" in scope "transaction"/,
		'the other way round, too');
	$two->query('ROLLBACK');
	is_free('mix', 'free');
	is($two->query("SELECT le_current_leader('e')"),
		$node->name, 'the node is shown as leader all the same');
	is( $two->query(
			"SELECT state, scope, pid FROM le_status WHERE election = 'e'"),
		'leader|session|' . $one->pid,
		'and le_status tells which session it is');
	is($one->query("SELECT le_release('e')"), 't', 'released');

	$one->query('BEGIN');
	is(acquire($one, 'e', 'transaction'), 't', 'transaction: acquired');
	is(acquire($one, 'e', 'transaction'), 't', 'again');
	is(acquire($two, 'e', $_), 'f', "another session in scope $_ does not")
	  foreach 'session', 'transaction', 'node';
	is(believes($one, 'e') . believes($two, 'e'), 'tf', 'only one believes');
	alone($one, $two, 'e', 'at a time');
	like($one->error("SELECT le_acquire('e', scope => 'session')"),
		qr/$in "transaction"/, 'scopes do not mix here either');
	is(believes($two, 'e'), 'f', 'nor did that help');
	is_free('e', 'an error ends the transaction and with it the term');
	$one->query('ROLLBACK');
	is(believes($one, 'e'), 'f', 'for the session, too');
	return;
}

# A lease that anybody could release would protect nothing.
sub only_the_holder_releases
{
	my ($one, $two) = (session(), session());
	my $warning = qr/WARNING:  01000: you do not hold election "e"/;
	my $result;

	foreach my $scope ('session', 'transaction')
	{
		$one->query('BEGIN') if $scope eq 'transaction';
		is(acquire($one, 'e', $scope), 't', "$scope: acquired");
		denied('G1', $two->query("SELECT le_renew('e')"), 'another session cannot renew it');
		$result = $two->start("SELECT le_release('e')")->finish;
		is($result->{output}, 'f', 'nor release it');
		like($result->{error}, $warning, 'but is warned');
		is(believes($one, 'e'), 't', 'held on');
		is($one->query("SELECT le_renew('e')"), 't', 'the holder may renew');
		is($one->query("SELECT le_release('e')"), 't', 'and release');
		like($one->error('COMMIT'), qr/ERROR:  LE002/, 'but not commit then')
		  if $scope eq 'transaction';
	}
	$result = $one->start("SELECT le_release('e')")->finish;
	is($result->{output}, 'f', 'nobody holds: false');
	like($result->{error}, $warning, 'and a warning');
	denied('G5', believes($one, 'e'), 'no term');
	return;
}

# Leases are not transactional, unless they were asked to be.
sub ends_of_transactions
{
	my $one = session();
	my $election;

	foreach my $end ('ROLLBACK', 'COMMIT')
	{
		foreach my $scope ('node', 'session', 'transaction')
		{
			$election = lc("$end-$scope");
			$one->query("BEGIN; SELECT le_acquire('$election', scope => '$scope')");
			is(believes($one, $election), 't', "$scope: led in transaction");
			$one->query($end);
			if ($scope eq 'transaction')
			{
				denied('G5', believes($one, $election), "$scope: after $end");
			}
			else
			{
				is(believes($one, $election), 't', "$scope: after $end");
				$one->query("SELECT le_release('$election')");
			}
			is_free($election, "$scope: free");
		}
	}

	# Without BEGIN a statement is a transaction.
	is(acquire($one, 'e', 'transaction'), 't', 'for one statement');
	denied('G5', believes($one, 'e'), 'gone with it');

	$one->query("BEGIN; SELECT le_acquire('outer', scope => 'transaction')");
	$one->query("SAVEPOINT s; SELECT le_acquire(e, scope => 'transaction') "
		  . "FROM unnest('{outer,inner}'::text[]) e; "
		  . "SELECT le_acquire('kept', scope => 'session')");
	is(believes($one, 'inner'), 't', 'led in the subtransaction');
	$one->query('ROLLBACK TO s');
	denied('G5', believes($one, 'inner'), 'ROLLBACK TO ends the lease that was taken after the savepoint');
	is(believes($one, 'outer'), 't', 'not the one that was held before');
	is(believes($one, 'kept'), 't', 'nor that of the session');
	$one->query("SELECT le_acquire('inner', scope => 'transaction', wait => '20s'); "
		  . 'RELEASE s');
	is(believes($one, 'inner'), 't', 'a released savepoint keeps');
	$one->query('COMMIT');
	denied('G5', believes($one, $_), "$_: until the end of the transaction")
	  foreach 'inner', 'outer';

	$one->query("BEGIN; SAVEPOINT a; SAVEPOINT b; "
		  . "SELECT le_acquire('inner', scope => 'transaction', wait => '20s'); "
		  . 'RELEASE b');
	is(believes($one, 'inner'), 't', 'passed to the outer savepoint');
	$one->query('ROLLBACK TO a');
	denied('G5', believes($one, 'inner'), 'and ended with that');
	$one->query('COMMIT');

	$one->query(<<'END');
DO $$ BEGIN
	PERFORM le_acquire('caught', scope => 'transaction');
	PERFORM 1 / 0;
EXCEPTION WHEN division_by_zero THEN
	IF le_is_leader('caught') THEN RAISE EXCEPTION 'still leader'; END IF;
END $$
END
	is_free('caught', 'an exception block ends what was taken in it');
	$one->query("SELECT le_release('kept')");
	is_free($_, "$_: free") foreach 'inner', 'outer', 'kept';
	return;
}

# A prepared transaction has no backend whose end could end the term.
sub prepare_is_refused
{
	my $one = session();

	$one->query("BEGIN; SELECT le_acquire('e', scope => 'transaction')");
	like(
		$one->error("PREPARE TRANSACTION 'p'"),
		qr/ERROR:  0A000: cannot PREPARE a transaction that is bound to a term of election "e"/,
		'refused');
	denied('G5', believes($one, 'e'), 'which ends transaction and term');
	is($node->sql('SELECT count(*) FROM pg_prepared_xacts'),
		0, 'nothing was prepared');
	$one->query("BEGIN; SELECT le_acquire('s', scope => 'session')");
	is($one->error("PREPARE TRANSACTION 'p'"), '', 'other scopes may');
	is(believes($one, 's'), 't', 'and are held on');
	$one->query("COMMIT PREPARED 'p'; SELECT le_release('s')");
	is_free($_, "$_: free") foreach 's', 'e';
	return;
}

# The leases of a backend are free at once, however it dies.
sub ends_with_its_backend
{
	my %ways = (
		'exit' => sub { $_[0]->quit },
		'pg_terminate_backend' =>
		  sub { $node->sql('SELECT pg_terminate_backend(' . $_[0]->pid . ')') },
		'death of the client' => sub { kill('KILL', $_[0]->{psql}) },
		'kill -9' => sub { kill('KILL', $_[0]->pid) });

	foreach my $way ('exit', 'pg_terminate_backend', 'death of the client',
		'kill -9')
	{
		foreach my $scope ('session', 'transaction')
		{
			my ($one, $two) = (session(), session());
			my ($token, $ends, $got);

			$one->query('BEGIN');
			is(acquire($one, 'e', $scope, '20 s'), 't', "$scope: acquired");
			$token = $one->query("SELECT le_fencing_token('e')");
			$ends = boottime_ns() + ($lease - $renew_interval) * 1e9;
			if ($way eq 'kill -9')
			{
				kill('KILL', $one->pid);
				$two->start('SELECT 1')->finish;
				$node->wait_for_restart($one->pid);
				$two = session();
			}
			else
			{
				$ways{$way}->($one);
			}
			$got = acquire($two, 'e', 'session', '2 min');
			is($got, 't', "$scope: free after $way");
			before(boottime_ns(), $ends, 'before any lease could have run out');
			guarantee('G2', [ $token, $two->query("SELECT le_fencing_token('e')") ],
				'a new term');
			$two->quit;
			is_free('e', 'free');
		}
	}
	return;
}

# Waiting on this node needs no store to wake anybody.
# The reset of a pool before the session is given to another client.
sub reset_by_a_pool
{
	my ($one, $two) = (session(), session());
	my $next;

	is($one->query('DISCARD ALL'), '', 'nothing to end');
	is(acquire($one, 'n', 'node'), 't', 'node: acquired');
	$one->query("SELECT le_acquire('c', scope => 'session', on_loss => 'cancel')");
	is(acquire($one, 'e', 'session'), 't', 'session: acquired');
	is(acquire($two, 'two', 'session'), 't', 'by another session, too');
	$one->query($_) foreach 'RESET ALL', 'DISCARD PLANS', 'DISCARD TEMP', 'SELECT pg_advisory_unlock_all()';
	is(believes($one, 'e'), 't', 'ended by no other command');
	like($one->error("BEGIN; DISCARD ALL"), qr/ERROR:  25001/, 'nor by one that fails');
	is($one->query("ROLLBACK; SELECT le_is_leader('e')"), 't', 'held on');
	$next = session()->start("SELECT le_acquire('e', scope => 'session', wait => '1 min')");
	is($one->query('DISCARD ALL'), '', 'it ends them');
	denied('G5', believes($one, $_), "$_: ended") foreach 'e', 'c';
	is($next->finish->{output}, 't', 'and free');
	is_free('c', 'the store is told of each');
	is(believes($one, 'n'), 't', "the node's stays");
	is(believes($two, 'two'), 't', "and the other session's");
	is($one->query("SELECT le_acquire('c', scope => 'session', on_loss => 'cancel', wait => '1 min')"), 't', 'acquired again');
	is($one->query("DISCARD ALL; SELECT pg_sleep(0.3)"), '', 'a former holder is not canceled for it');
	$one->query("SELECT le_release('n')");
	$_->quit foreach $one, $two, $next;
	is_free($_, 'free') foreach 'e', 'n', 'two';
	return;
}

sub waiters
{
	my %ways = (
		'le_release' => sub { $_[0]->query("SELECT le_release('e')") },
		'COMMIT' => sub { $_[0]->query('COMMIT') },
		'exit' => sub { $_[0]->quit });

	foreach my $way ('le_release', 'COMMIT', 'exit')
	{
		my ($one, $two) = (session(), session());
		my ($freed, $result);

		$one->query('BEGIN');
		is(acquire($one, 'e', $way eq 'COMMIT' ? 'transaction' : 'session'),
			't', 'acquired');
		$two->start(
			"SELECT le_acquire('e', scope => 'session', wait => '2 min')");
		$node->wait_for(
			"SELECT count(*) = 1 FROM pg_stat_activity "
			  . "WHERE wait_event_type = 'Extension' AND pid = "
			  . $two->pid,
			'a waiter');
		ok(!$two->is_done, 'another waits');
		$freed = boottime_ns();
		$ways{$way}->($one);
		$result = $two->finish;
		is($result->{output}, 't', "woken by $way");
		note(sprintf('%s, %s: woken after %.1f ms',
				$store, $way, ($result->{at} - $freed) / 1e6));
		$two->quit;
		is_free('e', 'free');
	}

	# One of many at a time, and all of them in the end.
	my $holder = session();
	my @waiting = map { session() } 1 .. 5;
	my @tokens;

	acquire($holder, 'e', 'session');
	$_->start("SELECT le_acquire('e', scope => 'session', wait => '3 min')")
	  foreach @waiting;
	$holder->query("SELECT le_release('e')");
	while (@waiting)
	{
		my $next = poll_until(
			sub { (grep { $_->is_done } @waiting)[0] }, 'the next in line');

		is($next->finish->{output}, 't', 'it is its turn');
		is(scalar(grep { $_->is_done } @waiting), 1, 'and no other one');
		push @tokens, $next->query("SELECT le_fencing_token('e')");
		@waiting = grep { $_ != $next } @waiting;
		$next->query("SELECT le_release('e')");
	}
	is(scalar @tokens, 5, 'five terms');
	guarantee('G2', \@tokens, 'one after the other');

	# A wait that ends without success is false, and not before it was asked to.
	my $late = session();
	my $result;

	acquire($holder, 'e', 'session');
	$result = $late->start(
		"SELECT le_acquire('e', scope => 'session', wait => '1.5 s')")->finish;
	is($result->{output}, 'f', 'false in the end');
	cmp_ok($result->{seconds}, '>=', 1.5, 'not too early');
	$holder->quit;
	is_free('e', 'free');
	return;
}

sub candidates
{
	my $one = session();
	my ($token, $error);

	$node->sql("SELECT le_campaign('c', 'mine')");
	$node->wait_for_leadership('c');
	is($node->sql("SELECT value FROM le_leader('c')"), 'mine', 'its value');
	$token = $node->token('c');
	$node->sql("SELECT le_campaign('c')");
	same_term($token, $node->token('c'), 'campaigning twice changes nothing');
	is($node->sql("SELECT le_withdraw('c')"), 't', 'withdrawn');
	denied('G5', $node->is_leader('c'), 'which releases');
	is($node->sql("SELECT le_withdraw('c')"), 'f', 'there was no candidacy');

	# A candidate that someone else on the node keeps out takes over later.
	acquire($one, 'c', 'session', '20 s');
	$node->sql("SELECT le_campaign('c')");
	ok(!$node->is_leader('c'), 'kept out by a session');
	$one->quit;
	$node->wait_for_leadership('c');
	is($node->sql("SELECT scope FROM le_status WHERE election = 'c'"),
		'node', 'leads when that lets go');

	# Released on request: it does not win straight back.
	ok($node->release('c'), 'released');
	is($node->sql("SELECT state FROM le_status WHERE election = 'c'"),
		'stepped down', 'holds off');
	$error = $node->sql_error("SELECT le_acquire('c')");
	like($error,
		qr/55000: this node may not lead election "c".*DETAIL:  It stepped down/s,
		'also towards le_acquire');
	like($error, qr/HINT:  .*le_campaign\(\)/, 'with a way out');
	$node->sql("SELECT le_campaign('c')");
	$node->wait_for_leadership('c');
	pass('which works');
	return;
}

sub stepping_down
{
	my ($token, $after, $at);

	$node->sql("SELECT le_campaign('d')");
	$node->wait_for_leadership($_) foreach 'c', 'd';
	$token = $node->token('d');
	is($node->sql("SELECT le_step_down('d', '1 h')"), 't', 'stepped down');
	ok(!$node->is_leader('d'), 'at once');
	still_leads($node, 'c', 'from this one only');
	$node->sql("SELECT le_campaign('d')");
	$node->wait_for_leadership('d');
	guarantee('G2', [ $token, $node->token('d') ], 'called back: a new term');
	$token = $node->token('d');
	$after = boottime_ns();
	is($node->sql("SELECT le_step_down('d', '2 s')"), 't', 'stepped down for a while');
	poll_until(
		sub { ($node->token('d') // $token) != $token },
		'the next term');
	cmp_ok((boottime_ns() - $after) / 1e9, '>=', 2, 'held off');
	guarantee('G2', [ $token, $node->token('d') ], 'a new term');
	is($node->sql("SELECT le_step_down('nothing')"), 'f', 'nothing to leave');
	is($node->sql("SELECT le_acquire('left'), le_release('left'), le_step_down('left', '1 h')"),
		't|t|f', 'nothing is left of the released term');
	ok($node->acquire('left'), 'it can be taken again');
	ok($node->release('left'), 'and left');

	is($node->sql("SELECT le_step_down(hold_off => '1 min')"),
		't', 'stepped down from all');
	is( $node->sql(
			"SELECT count(*) FROM le_status WHERE state <> 'stepped down' "
			  . "AND election IN ('c', 'd')"),
		0,
		'every election of the node');
	is($node->leader($_), undef, "$_ is free") foreach 'c', 'd';
	like(session()->error("SELECT le_step_down('d', '1 min')"),
		qr/NOTICE: .*this instance did not lead election "d"\n.*DETAIL: .*does not contend for it during the hold-off/s,
		'it is held off without a term, and says so');
	$node->sql("SELECT le_campaign('c'), le_campaign('d')");
	$node->wait_for_leadership($_) foreach 'c', 'd';
	unlike(session()->error("SELECT le_step_down('d', '1 s')"), qr/did not lead/, 'it does not hold off an election that it leads');
	$node->wait_for_leadership('d');
	return;
}

# Taking a node out of service must let go of everything.
sub eligible_off
{
	my $one = session();
	my ($offset, $error);

	acquire($one, 'f', 'session', '20 s');
	is(believes($one, 'f'), 't', 'a session leads');
	$offset = $node->log_offset;
	$node->configure(eligible => 'off');
	is_free($_, "$_ was let go") foreach 'c', 'd', 'f';
	denied('G5', believes($one, 'f'), 'the session knows');
	$error = $node->sql_error("SELECT le_acquire('f')");
	like($error, qr/55000: this node may not lead election "f"/, 'refused');
	like($error, qr/DETAIL:  "leader_election.eligible" is off/, 'and why');
	is(scalar(() = $node->log_since($offset) =~ /no longer leader of/g),
		3, 'one line in the log for each');
	$node->configure(eligible => 'on');
	$node->wait_for_leadership($_) foreach 'c', 'd';
	is($node->leader('f'), undef, 'the session has to ask again');
	is($node->sql("SELECT le_withdraw('c'), le_withdraw('d')"), 't|t', 'done');
	return;
}

sub campaign_setting
{
	my $token;

	$node->configure(campaign => ' s1, s2');
	$node->wait_for_leadership($_) foreach 's1', 's2';
	$token = $node->token('s2');
	$node->configure(campaign => 's2,s3');
	$node->wait_for_leadership('s3');
	$node->wait_for("SELECT NOT le_is_leader('s1')");
	is_free('s1', 'no longer named: released');
	same_term($token, $node->token('s2'), 'still named: the same term');
	like(
		$node->sql_error("SELECT le_withdraw('s2')"),
		qr/55000: cannot withdraw from an election that the configuration.*HINT:/s,
		'the configuration counts');
	$node->sql("SELECT le_campaign('s3')");
	$node->configure(campaign => '');
	is_free('s2', 'the setting is empty: released');
	still_leads($node, 's3', 'but for what was asked for by call, too');
	is($node->sql("SELECT le_withdraw('s3')"), 't', 'withdrawn');
	return;
}

foreach ('local', 'consul')
{
	$store = $_;
	$node = LeaderElection::Node->create(
		$store,
		$store eq 'consul' ? (consul => $consul) : (),
		settings => {
			lease_ttl => "$lease s",
			renew_interval => "$renew_interval s"
		},
		conf => \%conf);
	subtest "$store: the next holder" => \&who_gets_it;
	subtest "$store: only the holder" => \&only_the_holder_releases;
	subtest "$store: transactions" => \&ends_of_transactions;
	subtest "$store: PREPARE" => \&prepare_is_refused;
	subtest "$store: backends" => \&ends_with_its_backend;
	subtest "$store: pool" => \&reset_by_a_pool;
	subtest "$store: waiters" => \&waiters;
	subtest "$store: candidates" => \&candidates;
	subtest "$store: stepping down" => \&stepping_down;
	subtest "$store: eligible" => \&eligible_off;
	subtest "$store: campaign setting" => \&campaign_setting;

	# No released key is still held in the store.
	if ($store eq 'consul')
	{
		my @held = grep { $_->{Session} }
		  values %{ $consul->kv_tree('leader_election/') };

		is(scalar @held, 0, 'no key is held in Consul');
	}
	$node->stop;
}

done_testing();
