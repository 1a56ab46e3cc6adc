# Tier: test, 66 s
#
# A leader that is of no use: acts that keep a term where progress_within is set, acts
# that do not, and nodes whose jobs do not run or hang.

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

# Complaints of le_check_config().
sub warning
{
	my ($node, $election) = @_;

	return $node->sql("SELECT message FROM le_check_config() WHERE topic = 'progress' AND level = 'warning' AND message ~ '\"$election\"'");
}

my $local = LeaderElection::Node->create('local', settings => { drain_timeout => '500ms' });

# Guards against reads and renewals that count, against a hold-off that is not
# kept, does not double, or is not forgotten once there was progress.
subtest 'a term without progress' => sub {
	my ($warned, @terms, @early, $ends);

	$local->sql("SELECT le_campaign('idle', progress_within => '1 s')");
	$local->wait_for("SELECT progress_due - progress_at = '1 s' AND progress_at BETWEEN term_started_at - interval '50 ms' AND clock_timestamp() "
		  . "FROM le_status WHERE election = 'idle' AND state = 'leader'", 'a term, which begins with progress');
	$warned = warning($local, 'idle');
	ok($warned eq '' || @{ hold_offs($local, 'idle') }, 'nothing is wrong yet, or the term is over');

	keep_asking($local, 2, q(SELECT le_is_leader('idle'), le_fencing_token('idle'), le_renew('idle')));
	wait_for_ends($local, 'idle', 3);

	# in the third hold-off, of four seconds, or in a later one
	$local->wait_for("SELECT state = 'no progress' AND last_loss = 'no progress' AND progress_due IS NULL FROM le_status WHERE election = 'idle'",
		'le_status to say why');
	poll_until(sub { warning($local, 'idle') =~ /for lack of progress.*does not contend for another/ }, 'le_check_config() to warn');
	poll_until(
		sub {
			$local->sql_error("SELECT le_acquire('idle')") =~
			  /55000: this node may not lead election "idle".*It led without progress and does not contend for another \d+ ms/s;
		},
		'nobody else of the instance to get it');
	pass('which all are said');
	ok($local->log_like(qr/no longer leader of election "idle" with fencing token \d+: no progress\n.*There was none for 1\.0 s \(progress_within\)\. This node does not contend for 2\.0 s\./),
		'the log says it');
	is(join(' ', @{ hold_offs($local, 'idle') }[ 0 .. 2 ]), '1.0 2.0 4.0', 'each hold-off is twice the last');

	@terms = terms($local, 'idle');
	@early = grep {
		$terms[$_]{what} eq 'acquired' && $_ > 0
		  && $terms[$_]{at} - $terms[ $_ - 1 ]{at} < $terms[ $_ - 1 ]{hold_off} - 0.05
	} 0 .. $#terms;
	is(scalar @early, 0, 'and is kept');
	none_given_up_early($local, 'idle', 1);

	# it is of use for longer than the time allowed, unless the machine stands still
	# for as long, and then no more
	poll_until(
		sub {
			poll_until(sub { $local->is_leader('idle') }, 'another term');
			$ends = @{ hold_offs($local, 'idle') };
			keep_asking($local, 2.5, q(SELECT le_progress('idle')));
			$warned = warning($local, 'idle');
			return @{ hold_offs($local, 'idle') } == $ends;
		},
		'progress to keep the term');
	is($warned, '', 'and it ends the warning');
	wait_for_ends($local, 'idle', $ends + 1);
	is(hold_offs($local, 'idle')->[$ends], '1.0', 'and makes the next hold-off short again');

	$local->sql("SELECT le_campaign('idle', progress_within => '1 h')");
	$local->wait_for_leadership('idle');
	is(warning($local, 'idle'), '', 'le_campaign() ends hold-off and warning');
	is($local->sql("SELECT terms > 4, releases = terms - 1, losses FROM le_stat WHERE election = 'idle'"), 't|t|0', 'they count as given back');
	$local->sql("SELECT le_withdraw('idle')");
};

# Each alone, for longer than the time allowed.
subtest 'acts that keep a term' => sub {
	$local->sql('CREATE TABLE guard (election text PRIMARY KEY, fencing_token bigint)');
	my %by = (
		le_run => q(CALL le_run('%s', 'SELECT 1', job => 'j', every => '1 s')),
		'le_run without a tick' => q(CALL le_run('%s', 'SELECT 1')),
		le_require_leader => q(SELECT le_require_leader('%s')),
		le_fence_guard => q(SELECT le_fence_guard('guard', '%s')),
		'a claim and its end' => q(SELECT le_complete('%s', 'c', t) FROM (SELECT clock_timestamp()::timestamptz(3) AS t OFFSET 0) s WHERE le_claim('%s', 'c', t)),
	);
	my %election = map { $_ => 'kept/' . tr/ /-/r } keys %by;
	my %token;

	# only one of each election is asked for, all at the same time
	foreach my $what (sort keys %by)
	{
		$local->sql("SELECT le_campaign('$election{$what}', progress_within => '10 s')");
		$local->wait_for_leadership($election{$what});
		$token{$what} = $local->token($election{$what});
	}
	keep_asking($local, 13, [ map { $by{$_} =~ s/%s/$election{$_}/gr } sort keys %by ], 0.2);
	foreach my $what (sort keys %by)
	{
		same_term($token{$what}, $local->token($election{$what}), $what);
		$local->sql("SELECT le_withdraw('$election{$what}')");
	}
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
		qr/gives up a term after 2 s without progress/, 'le_check_config() tells of it');

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

# The scheduler does not start a job anew while it runs: it hangs, and so does the
# election.  Guards against a term that waits for ever for a bound session, and against
# one that ends while another session makes progress.
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
	not_given_up_early($one, 'hung', $progress, 2);
	$_->sql("SELECT le_withdraw('hung')") foreach $one, $two;
};

# No scheduler anywhere.  With hold-offs of 2, 4 and 8 s a node has begun four
# terms after 2+2 + 2+4 + 2+8 = 20 s at the earliest; without doubling it would
# have begun five.
subtest 'nodes without progress, all of them' => sub {
	$_->sql("SELECT le_campaign('useless')") foreach $one, $two;
	all_useless('useless', 2, $one, $two);
	$_->sql('SELECT le_step_down()') foreach $one, $two;
};

done_testing();
