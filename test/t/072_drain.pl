# Tier: test, 39 s
#
# A term that is given up in good order: transactions bound to it may finish,
# within limits, and only then does anybody else lead.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Requests;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $consul = LeaderElection::Consul->new('consul')->start;
my $recorder = LeaderElection::Recorder->new('a', $consul->host_port)->start;

# Longer than any wait of the test.
my $endless = '600s';
my %settings = (
	lease_ttl => '60s',
	renew_interval => '3s',
	drain_timeout => $endless,
	shutdown_timeout => '60s',
	cancel_lead => '500ms',
	eligible => 'on');
my ($a, $b) = map {
	LeaderElection::Node->create(
		$_,
		consul => $_ eq 'a' ? $recorder : $consul,
		settings => \%settings)
} 'a', 'b';
my $gate = "SELECT le_require_leader('e')";

$_->sql("CREATE TABLE work (what text)") foreach $a, $b;

sub session
{
	return LeaderElection::Session->new($_[0] // $a);
}

sub status
{
	return $a->sql("SELECT state FROM le_status WHERE election = 'e'");
}

sub key_is_held
{
	my ($key) = @{ $consul->get('/v1/kv/leader_election/e/leader?consistent')->{json} // [] };

	return $key && $key->{Session} ? 1 : 0;
}

# Node a leads, and a session of it is in the middle of bound work.
sub at_work
{
	my ($more) = @_;
	my $worker = session();

	$a->sql("SELECT le_campaign('e')");
	$a->wait_for_leadership('e');
	$a->sql('TRUNCATE work');
	$worker->query("BEGIN; SELECT le_require_leader('e'" . ($more // '') . "); INSERT INTO work VALUES ('done')");
	return $worker;
}

sub work_done
{
	return $a->sql('SELECT count(*) FROM work');
}

# The ways to give up a term, each with work that is done soon.
subtest 'short work is waited for' => sub {
	my %ways = (
		'le_step_down' => "SELECT le_step_down('e')",
		'le_step_down of all' => "SELECT le_step_down()",
		'le_release' => "SELECT le_release('e')",
		'le_withdraw' => "SELECT le_withdraw('e')",
		'eligible = off' => undef);

	foreach my $way (sort keys %ways)
	{
		my $worker = at_work();
		my $other = session();
		my $next = session($b);
		my $result;
		my $committed;
		my $early;

		$next->start("SELECT le_acquire('e', wait => '3 min')");
		if ($ways{$way})
		{
			$other->start($ways{$way});
		}
		else
		{
			$a->configure(eligible => 'off');
		}
		poll_until(sub { status() eq 'draining' }, 'the term to drain');
		is(session()->query("SELECT le_is_leader('e'), le_fencing_token('e') IS NULL"),
			'f|t', "$way: no leader for others");
		like($a->sql_error($gate), qr/ERROR:  LE001: not leader.*This node is giving it up/s, 'no new gate');
		is($worker->query("SELECT le_is_leader('e')"), 'f', 'nor a check inside');
		like($worker->query($gate), qr/^\d+$/, 'but the gate that it has passed');
		is($worker->query("SELECT le_fencing_token('e') = ($gate)"), 't', 'and its token');
		ok(key_is_held(), 'the store knows nothing yet');
		$early = $next->is_done && $next->finish->{output} eq 't';
		ok(!$next->is_done, 'nobody else leads');
		ok(!$other->is_done, 'the caller waits') if $ways{$way};
		is($worker->error('COMMIT'), '', 'the work is committed');
		$committed = boottime_ns();
		is(work_done(), 1, 'and there');
		denied('G3', $early && work_done(), 'which it would not be if the next led');
		is(($result = $next->finish)->{output}, 't', 'the next leads');
		before($result->{at}, $committed + 50e9, 'before the lease is over');
		is($other->finish->{output}, 't', 'the caller is told')
		  if $ways{$way};
		$a->configure(eligible => 'on') if !$ways{$way};
		$a->sql("SELECT le_withdraw('e')");
		$b->release('e');
	}
};

subtest 'a rollback is as good' => sub {
	my $worker = at_work();
	my $other = session()->start("SELECT le_step_down('e')");

	poll_until(sub { status() eq 'draining' }, 'the term to drain');
	$worker->query('ROLLBACK');
	is($other->finish->{output}, 't', 'nobody is waited for');
	$worker = at_work();
	$other->start("SELECT le_step_down('e')");
	poll_until(sub { status() eq 'draining' }, 'the term to drain');
	$a->sql('SELECT pg_terminate_backend(' . $worker->pid . ')');
	is($other->finish->{output}, 't', 'nor a session that is gone');
};

subtest 'long work is canceled' => sub {
	my $result;

	$a->configure(drain_timeout => '1s', campaign => 'reloaded');
	$a->wait_for_leadership('reloaded');
	foreach my $on_loss ('none', 'cancel')
	{
		my $worker = at_work(", on_loss => '$on_loss'");
		my $idle = session();
		my $other = session();

		$worker->start('SELECT pg_sleep(60)');
		$other->start("SELECT le_step_down('e')");
		$result = $worker->finish;
		like($result->{error},
			qr/ERROR:  LE002: canceling statement due to loss of election "e"\nDETAIL:  The term with fencing token \d+: it is given up, and was waited for\./,
			"$on_loss: canceled");
		cmp_ok($result->{seconds}, '>', 0.9, 'not before the time is over');
		$result = $other->finish;
		is($result->{output}, 't', 'given up');
	}
	guarantee('G3', [ split /\n/, $a->sql('TABLE work') ], 'nothing was committed');
};

# The worker stands still meanwhile: sessions that are to stop in time know when.
subtest 'long work is canceled without the worker' => sub {
	my $worker = at_work(", on_loss => 'cancel'");
	my $other = session();
	my ($stopped, $result);

	$worker->start('SELECT pg_sleep(60)');
	$other->start("SELECT le_step_down('e')");
	poll_until(sub { status() eq 'draining' }, 'the term to drain');
	$stopped = $a->freeze_worker;
	$result = $worker->finish;
	like($result->{error},
		qr/ERROR:  LE002: .*: it is given up, and was waited for\./s, 'canceled');
	cmp_ok($result->{seconds}, '>', 0.9, 'not before the time is over');
	$a->thaw_worker($stopped);
	is($other->finish->{output}, 't', 'given up');
	guarantee('G3', [ split /\n/, $a->sql('TABLE work') ], 'nothing was committed');
};

# Not in a statement: there is nothing to cancel.
subtest 'idle in transaction' => sub {
	my $worker = at_work();
	my $result = session()->start("SELECT le_step_down('e')")->finish;

	is($result->{output}, 't', 'given up all the same');
	cmp_ok($result->{seconds}, '>', 2.4, 'after drain_timeout and a grace');
	like($worker->error('COMMIT'), qr/ERROR:  LE002/, 'its commit is refused');
	guarantee('G3', [ split /\n/, $a->sql('TABLE work') ], 'nothing was committed');

	# Between the two, a commit is refused already.  By the check, too, not only by
	# the worker's word, which takes its time: here it stands still meanwhile.
	foreach my $stands_still (0, 1)
	{
		my $other = session();
		my ($stopped, $over);

		$worker = at_work(", on_loss => 'none'");
		$other->start("SELECT le_step_down('e')");
		poll_until(sub { status() eq 'draining' }, 'the term to drain');
		$stopped = $a->freeze_worker if $stands_still;
		$over = boottime_ns() + 1.1e9;
		poll_until(sub { boottime_ns() > $over }, 'the end of drain_timeout');
		is(status(), 'draining', 'in the grace') if $stands_still;
		like($worker->error('COMMIT'), qr/ERROR:  LE002/, 'refused by then');
		guarantee('G3', [ split /\n/, $a->sql('TABLE work') ], 'nothing was committed');
		$a->thaw_worker($stopped) if $stands_still;
		$other->finish;
	}
	$a->configure(drain_timeout => $endless, campaign => 'again');
	$a->wait_for_leadership('again');
};

subtest 'a session that gives up its own term is not waited for' => sub {
	foreach my $end ("SELECT le_release('e')", "SELECT le_step_down('e')",
		"SELECT le_withdraw('e')", 'SELECT le_step_down()')
	{
		my $worker = at_work();
		my $result = $worker->start($end)->finish;

		is($result->{output}, 't', $end);
		like($worker->error('COMMIT'), qr/ERROR:  LE002.*: (released|stepped down)/s, 'its commit is refused');
		guarantee('G3', [ split /\n/, $a->sql('TABLE work') ], 'nothing was committed');
	}
	# but others are waited for, and so is it in terms that it does not give up
	my $worker = at_work();
	my $other = session();

	$worker->query("SELECT le_acquire('x'); SELECT le_release('x')");
	$other->start("SELECT le_step_down('e')");
	poll_until(sub { status() eq 'draining' }, 'the term to drain');
	select(undef, undef, undef, 0.3);
	ok(!$other->is_done, 'waited for');
	is($worker->error('COMMIT'), '', 'committed');
	is($other->finish->{output}, 't', 'then given up');
};

# A claimed tick is not to be wasted: its run has not begun yet, but the claiming
# session is bound already.
subtest 'a tick that is being claimed' => sub {
	foreach my $on_loss ('none', 'cancel')
	{
		my $mark = $recorder->mark;
		my $run = session();
		my $other = session();
		my $tick = "job => 'drained $on_loss', tick => '2020-01-01 00:00:00+00'";

		$a->sql("SELECT le_campaign('e')");
		$a->wait_for_leadership('e');
		$a->sql('TRUNCATE work');
		my $held = $recorder->rule(match => request_like('claim', 'e'), action => 'hold_reply', count => 1);
		$run->start("CALL le_run('e', 'INSERT INTO work SELECT ''done'' WHERE le_fencing_token(''e'') > 0', $tick, on_loss => '$on_loss')");
		$recorder->wait_for_request(request_like('claim', 'e'), $mark);
		$other->start("SELECT le_step_down('e')");
		poll_until(sub { status() eq 'draining' }, 'the term to drain');
		$recorder->remove_rule($held);
		is($run->finish->{error}, '', "$on_loss: run");
		is($other->finish->{output}, 't', 'then given up');
		is(work_done(), 1, 'the work is there, and had a token');
		is($b->sql("SELECT state, try FROM le_claims WHERE job = 'drained $on_loss'"), 'done|1', 'and its tick done');
	}
};

subtest 'a new worker goes on' => sub {
	my $worker = at_work();
	my $other = session()->start("SELECT le_step_down('e')");
	my $pid;

	poll_until(sub { status() eq 'draining' }, 'the term to drain');
	$pid = $a->kill_worker('TERM');
	$a->wait_for_worker($pid);
	$a->wait_for_log_like(qr/worker started/);
	is(status(), 'draining', 'still');
	is($worker->error('COMMIT'), '', 'committed');
	is($other->finish->{output}, 't', 'the caller is told');
	is(work_done(), 1, 'the work is there');
};

# A term that is lost while it is given up is lost.
subtest 'lost meanwhile' => sub {
	my $worker = at_work();
	my $other = session()->start("SELECT le_step_down('e')");
	my $result;

	poll_until(sub { status() eq 'draining' }, 'the term to drain');
	$consul->delete('/v1/kv/leader_election/e/leader');
	$result = $other->finish;
	is($result->{output}, 't', 'there is nothing left to give up');
	like($worker->error('COMMIT'), qr/ERROR:  LE002/, 'the commit is refused');
	denied('G3', $result->{output} eq 't' && work_done(), 'nothing was committed');
};

subtest 'shutdown' => sub {
	my $worker = at_work();
	my $next = session($b)->start("SELECT le_acquire('e', wait => '3 min')");
	my $from = boottime_ns();
	my $result;

	$worker->start('SELECT pg_sleep(60)');
	$a->stop('fast');
	$result = $next->finish;
	is($result->{output}, 't', 'the next leads');
	before($result->{at}, $from + 50e9, 'before the lease is over: the key says released');
};

done_testing();
