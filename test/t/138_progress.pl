# A leader that is of no use: what keeps a term where progress_within is set,
# what does not, and what becomes of nodes whose jobs do not run or hang.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Docs;
use LeaderElection::Node;
use LeaderElection::Progress;
use LeaderElection::Session;
use LeaderElection::Takeover;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

# What le_check_config() has to say against it.
sub warning
{
	my ($node, $election) = @_;

	return $node->sql("SELECT message FROM le_check_config() WHERE topic = 'progress' AND level = 'warning' AND message ~ '\"$election\"'");
}

my $local = LeaderElection::Node->create('local', settings => { drain_timeout => '500ms' });

# Guards against reads and renewals that count, against a hold-off that is not
# kept, does not double, or is not forgotten once there was progress.
subtest 'a term without progress' => sub {
	$local->sql("SELECT le_campaign('idle', progress_within => '1 s')");
	$local->wait_for_leadership('idle');
	is($local->sql("SELECT progress_due - progress_at, progress_at - term_started_at < '0.5 s' FROM le_status WHERE election = 'idle'"),
		'00:00:01|t', 'begins with progress');
	is(warning($local, 'idle'), '', 'nothing is wrong yet');

	keep_asking($local, 2, q(SELECT le_is_leader('idle'), le_fencing_token('idle'), le_renew('idle')));
	wait_for_ends($local, 'idle', 2);

	# the second hold-off is of two seconds
	is($local->sql("SELECT state, last_loss, progress_due IS NULL FROM le_status WHERE election = 'idle'"),
		'no progress|no progress|t', 'le_status says why');
	like(warning($local, 'idle'), qr/for lack of progress.*does not contend for another/, 'le_check_config() warns');
	like($local->sql_error("SELECT le_acquire('idle')"),
		qr/55000: this node may not lead election "idle".*It led without progress and does not contend for another \d+ ms/s,
		'nobody else of the instance gets it');
	ok($local->log_like(qr/no longer leader of election "idle" with fencing token \d+: no progress\n.*There was none for 1\.0 s \(progress_within\)\. This node does not contend for 2\.0 s\./),
		'the log says it');
	wait_for_ends($local, 'idle', 3);
	is(join(' ', @{ hold_offs($local, 'idle') }[ 0 .. 2 ]), '1.0 2.0 4.0', 'each hold-off is twice the last');

	my @terms = terms($local, 'idle');
	my @early = grep {
		$terms[$_]{what} eq 'acquired' && $_ > 0
		  && $terms[$_]{at} - $terms[ $_ - 1 ]{at} < $terms[ $_ - 1 ]{hold_off} - 0.05
	} 0 .. $#terms;

	is(scalar @early, 0, 'and is kept');
	ended_in_time($local, 'idle', 1);

	# it is of use for longer than the time allowed, and then no more
	poll_until(sub { $local->is_leader('idle') }, 'the fourth term');
	keep_asking($local, 2.5, q(SELECT le_progress('idle')));
	is(scalar @{ hold_offs($local, 'idle') }, 3, 'progress keeps the term');
	is(warning($local, 'idle'), '', 'and ends the warning');
	wait_for_ends($local, 'idle', 4);
	is(hold_offs($local, 'idle')->[3], '1.0', 'and makes the next hold-off short again');

	$local->sql("SELECT le_campaign('idle', progress_within => '1 h')");
	$local->wait_for_leadership('idle');
	is(warning($local, 'idle'), '', 'le_campaign() ends hold-off and warning');
	is($local->sql("SELECT terms, releases, losses FROM le_stat WHERE election = 'idle'"), '5|4|0', 'they count as given back');
	$local->sql("SELECT le_withdraw('idle')");
};

# Each alone, for longer than the time allowed.
subtest 'what keeps it' => sub {
	$local->sql('CREATE TABLE guard (election text PRIMARY KEY, fencing_token bigint)');
	$local->sql("SELECT le_campaign('kept', progress_within => '2 s')");
	$local->wait_for_leadership('kept');

	my $token = $local->token('kept');
	my %by = (
		le_run => q(CALL le_run('kept', 'SELECT 1', job => 'j', every => '1 s')),
		'le_run without a tick' => q(CALL le_run('kept', 'SELECT 1')),
		le_require_leader => q(SELECT le_require_leader('kept')),
		le_fence_guard => q(SELECT le_fence_guard('guard', 'kept')),
		'a claim and its end' => q(SELECT le_complete('kept', 'c', t) FROM (SELECT clock_timestamp()::timestamptz(3) AS t OFFSET 0) s WHERE le_claim('kept', 'c', t)),
	);

	foreach my $what (sort keys %by)
	{
		keep_asking($local, 3, $by{$what}, 0.2);
		same_term($token, $local->token('kept'), $what);
	}
	$local->sql("SELECT le_withdraw('kept')");
};

# Guards against a setting that needs a new term, and one that ends terms of
# sessions, which are there.
subtest 'the setting' => sub {
	my $holder = LeaderElection::Session->new($local);
	my $other = LeaderElection::Session->new($local);

	$local->sql("SELECT le_campaign('set')");
	$local->sql("SELECT le_campaign('never', progress_within => '0')");
	is($holder->query(q(SELECT le_acquire('holds', scope => 'session'))), 't', 'a session holds another');
	is($other->query(q(SELECT le_acquire('asks', scope => 'session', progress_within => '2 s'))), 't', 'and one that asks for it');
	$local->wait_for_leadership('set');
	$local->wait_for_leadership('never');
	$local->configure(progress_within => '2s');
	$local->reload;
	wait_for_ends($local, 'set', 1);
	wait_for_ends($local, 'asks', 1);
	denied('G5', $other->query(q(SELECT le_is_leader('asks'))), 'its term is over');
	is($holder->query(q(SELECT le_is_leader('holds'))), 't', "the other session's is not");
	still_leads($local, 'never', 'nor one that need not see progress');
	like($local->sql("SELECT message FROM le_check_config() WHERE topic = 'progress' AND level = 'ok'"),
		qr/gives up after 2 s without progress/, 'le_check_config() tells of it');

	# a worker that is replaced goes on counting
	$local->sql("SELECT le_step_down('set', '0')");
	$local->wait_for_leadership('set');
	my $pid = $local->kill_worker('TERM');
	$local->wait_for_worker($pid);
	wait_for_ends($local, 'set', 2);
	pass('the worker was replaced');
	$local->configure(progress_within => '0');
	$local->reload;
	$local->sql("SELECT le_campaign('set')");
	$local->wait_for_leadership('set');
	keep_asking($local, 3, 'SELECT 1');
	still_leads($local, 'set', 'off again');
	$local->sql('SELECT le_step_down()');
};

# The recipe of the documentation: it keeps an instance away that does not lead,
# too, and lets it go once the condition holds again.
subtest 'a health job' => sub {
	my $job = block('health job');

	$local->sql("CREATE TABLE fitness (fit boolean); INSERT INTO fitness VALUES (true);
		CREATE FUNCTION fit_to_lead() RETURNS boolean LANGUAGE sql AS 'SELECT fit FROM fitness'");
	$local->sql("SELECT le_campaign('billing')");
	$local->wait_for_leadership('billing');
	is($local->sql($job), '', 'a fit instance is left alone');
	still_leads($local, 'billing', 'and leads');
	$local->sql('UPDATE fitness SET fit = false');
	is($local->sql($job), 't', 'one that is not steps down');
	is($local->sql($job), 't', 'and stays away');
	is($local->sql("SELECT state FROM le_status WHERE election = 'billing'"), 'stepped down', 'as le_status says');
};
$local->stop;

my $consul = LeaderElection::Consul->new('consul')->start;
my %node = map {
	$_ => LeaderElection::Node->create(
		$_,
		consul => $consul,
		settings => { short_lease(), drain_timeout => '500ms', progress_within => '2s' })
} 'one', 'two';
my ($one, $two) = @node{ 'one', 'two' };

# The scheduler does not start a job anew while it runs: it hangs, and so does
# the election.  Guards against a term that waits for ever for who is bound to
# it, and against one that ends while somebody else is of use.
subtest 'a job that hangs' => sub {
	# until all are there, which takes its time on a slow machine
	$one->sql("SELECT le_campaign('hung', progress_within => '1 min')");
	$one->wait_for_leadership('hung');
	$two->sql("SELECT le_campaign('hung')");
	wait_for_waiter($two, 'hung', $one);

	my $job = LeaderElection::Session->new($one);
	my $token = $one->token('hung');

	$job->start(q(CALL le_run('hung', 'SELECT pg_sleep(600)', job => 'j', every => '1 s', on_loss => 'none')));
	$one->wait_for("SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'", 'the job');
	$one->sql("SELECT le_campaign('hung')");
	keep_asking($one, 3, q(SELECT le_progress('hung')));
	same_term($token, $one->token('hung'), 'another job that runs keeps the term');
	my $progress = last_progress($one, 'hung', sub { $two->is_leader('hung') });
	like($job->finish->{error} // '', qr/LE002/, 'the job that hangs is canceled');
	is($one->sql("SELECT last_loss FROM le_status WHERE election = 'hung'"), 'no progress', 'the node gave it up');
	is(hold_offs($one, 'hung')->[0], '2.0', 'for as long as it was given');
	guarantee('G2', [ $token, $two->token('hung') ], 'the token is higher');
	keep_asking($two, 3, q(CALL le_run('hung', 'SELECT 1', job => 'k', every => '1 s')));
	still_leads($two, 'hung', 'where jobs run the term stays');
	given_up_in_time($one, 'hung', $progress, 2, 2);
	$_->sql("SELECT le_withdraw('hung')") foreach $one, $two;
};

# No scheduler anywhere.  With hold-offs of 2, 4 and 8 s a node has begun four
# terms after 2+2 + 2+4 + 2+8 = 20 s at the earliest; without doubling it would
# have begun five.
subtest 'nodes that are all of no use' => sub {
	$_->sql("SELECT le_campaign('useless')") foreach $one, $two;
	all_useless('useless', 2, $one, $two);
	$_->sql('SELECT le_step_down()') foreach $one, $two;
};

done_testing();
