# Tier: test, 10 s
#
# lectl exec --job --every: once per tick, across changes of the leader.  The tick that
# is due is always the same here, since it is that of 90 days.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Docs;
use LeaderElection::Lectl;
use LeaderElection::Node;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $consul = LeaderElection::Consul->new('consul')->start;
my ($a, $b) = map {
	LeaderElection::Node->create(
		$_,
		consul => $consul,
		settings => { lease_ttl => '60s', renew_interval => '3s' })
} 'a', 'b';
my @every = ('--settle', '0', '--every', '90 days');
my $due = $a->sql(q(SET timezone = 'UTC'; SELECT date_bin('90 days', now() + '2 s', '2000-01-01 00:00:00+00')));

sub claim_of
{
	my ($job) = @_;

	return $b->ask("SELECT state, try FROM le_claims WHERE job = '$job'");
}

# A session's term may end a moment after lectl has.
sub wait_for_end
{
	my ($node) = @_;

	poll_until(sub { $node->ask("SELECT count(*) FROM le_status WHERE election = 'e' AND state = 'leader'") eq '0' }, 'its term to end');
	return;
}

# A leftover of a job: a tick of before that is not done.
sub left_undone
{
	my ($job, $tick) = @_;

	my $session = LeaderElection::Session->new($a);
	$session->query("SELECT le_acquire('e', scope => 'session')");
	is($session->query("SELECT le_claim('e', '$job', '$tick')"), 't', 'a tick is claimed');
	$session->quit;
	wait_for_end($a);
	return;
}

my @tell = ('sh', '-c', 'echo "$LE_TICK"');

subtest 'usage' => sub {
	foreach my $wrong (
		[ [ '--job', 'j' ], qr/--job and --every need each other/ ],
		[ [ '--every', '1d' ], qr/--job and --every need each other/ ],
		[ ['--catch-up'], qr/--catch-up/ ],
		[ [ '--missed', 'all' ], qr/--missed/ ],
		[ [ '--job', 'j', '--every', '1d', '--missed', 'some' ], qr/invalid value for option "--missed": "some"/ ],
		[ [ '--job', 'j', '--every', '100ms' ], qr/at least one second/ ],
		[ [ '--job', 'j', '--every', '0' ], qr/at least one second/ ],
		[ [ '--job', 'j', '--every', '1 month' ], qr/month/ ],
		[ [ '--job', 'j', '--every', 'often' ], qr/invalid input syntax/ ],
		[ [ '--job', '', '--every', '1 d' ], qr/invalid job name/ ],
		[ [ '--job', 'j', '--every', '1min', '--wait', '1min' ], qr/must be less than/ ])
	{
		my ($options, $message) = @$wrong;
		my ($code, $out, $err) = lectl($a, 'exec', 'e', @$options, 'echo', 'ran');

		is("$code$out", '64', "@$options");
		like($err, $message, 'says what is wrong');
	}
};

subtest 'once' => sub {
	my ($code, $out, $err) = lectl($a, 'exec', 'e', @every, '--job', q(it's "one"), @tell);
	my $state = claim_of(q(it''s "one"));

	is("$code$err", '0', 'runs');
	is($out, "$due\n", 'knows its tick');
	is($state, 'done|1', 'which is done');
	foreach my $node ($a, $b)
	{
		($code, $out, $err) = lectl($node, 'exec', 'e', @every, '--job', q(it's "one"), '--catch-up', @tell);
		is("$code$out$err", '75', 'and not run again');
		guarantee('G4', [ $state eq 'done|1' && $out eq "$due\n" ? $due : () ], 'for certain');
	}
	wait_for_end($b);
	($code, $out) = lectl($b, 'exec', 'e', '--settle', '0', '--job', q(it's "one"), '--every', '1s', @tell);
	is($code, 0, 'the next is');
	like($out, qr/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\+00\n\z/, 'at its time');

	local $ENV{LE_TICK} = 'that of somebody else';
	is((lectl($a, 'exec', 'e', '--settle', '0', @tell))[1], "\n", 'without ticks there is none');
};

# As many at once as there are hosts: the timer is due on all of them.
subtest 'together' => sub {
	my $ground = PostgreSQL::Test::Utils::tempdir;
	my @ran;
	my @lectls = map {
		LeaderElection::Lectl->start("together$_", $_ % 2 ? $a : $b, 'exec', 'e', @every, '--job', 'together',
			'--wait', '3min', 'sh', '-c', "echo ran >> $ground/log; sleep 0.3")
	} 1 .. 6;

	is(join(' ', sort map { $_->code } @lectls), '0 75 75 75 75 75', 'one runs it');
	@ran = split /\n/, slurp_file("$ground/log");
	guarantee('G4', [ @ran[ 1 .. $#ran ] ], 'no tick twice');
	is(claim_of('together'), 'done|1', 'done');
};

subtest 'failed' => sub {
	my ($code) = lectl($a, 'exec', 'e', @every, '--job', 'fails', 'sh', '-c', 'exit 4');

	is($code, 4, 'the exit code');
	is(claim_of('fails'), 'failed|1', 'the tick has failed');
	is((lectl($b, 'exec', 'e', @every, '--job', 'fails', '--catch-up', 'true'))[0], 75, 'for good');
};

# At most once, or at least once.
subtest 'cut short' => sub {
	my %ways = (
		'killed' => sub { $_[0]->kill9 },
		'told to end' => sub { kill('TERM', $_[0]->pid); is($_[0]->code, 143, 'by its signal') },
		'lost' => sub { $a->ask("SELECT le_step_down('e', '0')"); is($_[0]->code, 79, 'lost') });

	foreach my $way (sort keys %ways)
	{
		my $ground = LeaderElection::Lectl::Ground->new;
		my $one = LeaderElection::Lectl->start("cut $way", $a, 'exec', 'e', '--wait', '3min', @every, '--job', $way, $ground->worker('cut'));

		$ground->wait_for('cut');
		$ways{$way}->($one);
		my ($code, $out) = lectl($b, 'exec', 'e', '--wait', '3min', @every, '--job', $way, @tell);
		is($code, 75, "$way: at most once");
		guarantee('G4', [ split /\n/, $out ], "$way: not twice");
		is(claim_of($way), 'running|1', 'it was not done');
		is((lectl($b, 'exec', 'e', '--wait', '3min', @every, '--job', $way, '--catch-up', @tell))[1], "$due\n", 'or at least once');
		is(claim_of($way), 'done|2', 'and done by the second');
		guarantee('G1', [ $ground->overlaps ], 'never two at a time');
	}
};

subtest 'an older tick' => sub {
	left_undone('older', '2020-01-01 00:00:00+00');
	is((lectl($b, 'exec', 'e', @every, '--job', 'older', '--catch-up', @tell))[1],
		"2020-01-01 00:00:00+00\n$due\n", 'comes first, then the one that is due');
	is(claim_of('older'), 'done|1', 'done');

	left_undone('failing', '2020-01-01 00:00:00+00');
	is((lectl($b, 'exec', 'e', @every, '--job', 'failing', '--catch-up', 'sh', '-c', 'echo "$LE_TICK"; exit 5'))[1],
		"2020-01-01 00:00:00+00\n", 'if that fails, so does the call');
	is(claim_of('failing'), 'failed|2', 'the older has failed');
	is((lectl($b, 'exec', 'e', @every, '--job', 'failing', '--catch-up', @tell))[1], "$due\n", 'the next call goes on');

	left_undone('passed over', '2020-01-01 00:00:00+00');
	is((lectl($b, 'exec', 'e', @every, '--job', 'passed over', @tell))[1], "$due\n", 'without it is passed over');
};

subtest 'missed' => sub {
	my @ticks = map { $a->sql("SET timezone = 'UTC'; SELECT timestamptz '$due' - $_ * interval '90 days'") } reverse 0 .. 3;
	my %prints = (skip => [ $due ], last => [ @ticks[ 2, 3 ] ], all => [ @ticks[ 1 .. 3 ] ]);

	foreach my $which (sort keys %prints)
	{
		my $job = "missed $which";
		my $session = LeaderElection::Session->new($a);

		$session->query("SELECT le_acquire('e', scope => 'session')");
		$session->query("SELECT le_claim_tick('e', '$job', '$ticks[0]', every => '90 days')");
		is($session->query("SELECT le_complete('e', '$job', '$ticks[0]')"), 't', "$which: three ticks ago");
		$session->query("SELECT le_release('e')");
		$session->quit;
		is((lectl($b, 'exec', 'e', '--wait', '3min', @every, '--job', $job, '--missed', $which, @tell))[1],
			join('', map { "$_\n" } @{ $prints{$which} }), "$which: the ticks that run");
	}
};

# The parts of lectl, for callers that claim by hand.
subtest 'le_claim_tick and le_fail' => sub {
	my $session = LeaderElection::Session->new($a);
	my $claim = "SELECT le_claim_tick('e', 'by hand', '2021-01-01 00:00Z', catch_up => true)";
	my ($newer, $again);

	left_undone('by hand', '2020-01-01 00:00:00+00');
	is($session->query($claim), '', 'not the leader');
	$session->query("SET timezone = 'UTC'; SELECT le_acquire('e', scope => 'session')");
	is($session->query($claim), '2020-01-01 00:00:00+00', 'the older');
	is($session->query($claim), '', 'while that is under way nothing else');
	is($session->query("SELECT le_fail('e', 'by hand', '2020-01-01 00:00Z')"), 't', 'failed');
	is(claim_of('by hand'), 'failed|2', 'and recorded');
	$newer = $session->query($claim);
	is($newer, '2021-01-01 00:00:00+00', 'then the newer');
	$again = $session->query("SELECT le_claim_tick('e', 'by hand', '2021-01-01 00:00Z')");
	is($again, '', 'once');
	guarantee('G4', [ $newer ne '' && $again eq $newer ? $again : () ], 'and not twice');
	is($session->query("SELECT le_complete('e', 'by hand', '2021-01-01 00:00Z')"), 't', 'done');
	like($session->error("SELECT le_fail('e', 'by hand', '2021-01-01 00:00Z')"), qr/you have not claimed that tick/, 'and over');
	like($session->error("SELECT le_claim_tick('e', 'by hand', now() + '2 d')"), qr/22008|22023/, 'not too far ahead');
	$session->quit;
};

done_testing();
