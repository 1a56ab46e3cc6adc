# A tick is claimed once, by one of many callers, and only by the leader.

use strict;
use warnings;

use Contract;
use LeaderElection::Session;
use LeaderElection::Util;
use Test::More;

my $tick = '2020-01-01 00:00:00+00';

contract 'claims' => sub {
	my ($store) = @_;
	my $one = $store->one;
	my $reader = $store->two // $one;
	my $session = LeaderElection::Session->new($one);
	my $job = "n\x{c3}\x{a4}chtlich/1 = %2F.\x{27}\x{27}";
	my $claim = "SELECT le_claim('claims', '$job', '$tick')";
	my $token;

	denied('G4', $one->sql($claim), 'claim without a leader: false');
	ok($one->acquire('claims'), 'one leads');
	# a store may list only those of elections that the instance has to do with
	$store->two->acquire('claims') if $store->two;
	$token = $one->token('claims');
	is($session->query($claim), 't', 'claim: true');
	never([ grep { $_ eq 't' } $session->query($claim), $one->sql($claim) ],
		'no second claim is granted');
	is( $reader->sql(
			"SELECT state, try, tick = '$tick', fencing_token, node FROM le_claims
			WHERE election = 'claims' AND job = '$job'"),
		"running|1|t|$token|one",
		'it is listed');
	is($session->query($claim =~ s/le_claim/le_complete/r), 't', 'complete: true');
	is($reader->sql("SELECT state FROM le_claims WHERE election = 'claims' AND job = '$job'"),
		'done', 'which is listed');
	never([ grep { $_ eq 't' } $session->query($claim), $one->sql($claim) ],
		'a done tick is not claimed again');
	is($session->query($claim =~ s/00:00:00/00:01:00/r), 't', 'the next tick is');
	denied('G4', $one->sql($claim =~ s/00:00:00/00:00:30/r), 'and no earlier one');
	is( $session->query(
			"SELECT le_fail('claims', '$job', '2020-01-01 00:01:00+00')"),
		't', 'fail: true');
	is($reader->sql("SELECT state FROM le_claims WHERE election = 'claims' AND job = '$job'"),
		'failed', 'which is listed');
	$session->quit;
	ok($one->release('claims'), 'release');
	denied('G4', $one->sql($claim =~ s/00:00:00/00:02:00/r), 'claim after the term: false');
};

contract 'claims at the same time' => sub {
	my ($store) = @_;
	my @sessions = map {
		my $node = $_;
		map { LeaderElection::Session->new($node) } 1 .. 2
	} $store->one, $store->two // ();
	my (@won, %times, $both);

	ok($store->one->acquire('crowd'), 'one leads');
	$both = $store->two && $store->two->acquire('crowd');
	ok(!$both, 'and no other');
	$_->start(
		"WITH s AS MATERIALIZED (SELECT n FROM generate_series(1, 10) n ORDER BY random())
		SELECT n FROM s WHERE le_claim('crowd', 'job/' || n, '$tick')") foreach @sessions;
	@won = map { [ split /\n/, $_->finish->{output} ] } @sessions;
	$times{$_}++ foreach map { @$_ } @won;
	is(scalar keys %times, 10, 'each job is claimed');
	never([ grep { $times{$_} > 1 } sort keys %times ], 'by one session');
	# it does if the first has lost its term meanwhile
	never([ $both ? () : map { @$_ } @won[ 2 .. $#won ] ], 'among those of the leader');
	is( ($store->two // $store->one)
		->sql(q(SELECT count(*) FROM le_claims WHERE election = 'crowd')),
		10, 'all are listed');
	$_->quit foreach @sessions;
	ok($store->one->release('crowd'), 'release');
};

contract 'a job is forgotten' => sub {
	my ($store) = @_;
	my $one = $store->one;
	my $ahead = q(SELECT le_claim('forget', 'job', date_trunc('hour', now()) + '%s'));

	ok($one->acquire('forget'), 'one leads');
	is($one->sql(sprintf $ahead, '20 hours'), 't', 'a tick far ahead is claimed');
	denied('G4', $one->sql(sprintf $ahead, '10 hours'), 'so none before it can be');
	is($one->sql(q(SELECT le_forget_job('forget', 'job'))), 't', 'forget: true');
	is($one->sql(sprintf $ahead, '-1 hour'), 'f', 'ticks of the past are taken');
	is($one->sql(sprintf $ahead, '10 hours'), 't', 'others can be claimed');
	ok($one->release('forget'), 'release');
};

contract 'ticks passed over, until the claim ends' => sub {
	my ($store) = @_;
	my $one = $store->one;
	my $session = LeaderElection::Session->new($one);
	my $claim = sub {
		$session->query("SELECT le_claim_tick('gaps', 'job', '$tick'::timestamptz + '$_[0] min', every => '1 min') IS NOT NULL");
	};
	my $complete = sub { $session->query("SELECT le_complete('gaps', 'job', '$tick'::timestamptz + '$_[0] min')") };
	my $told = sub {
		$one->sql(q(SELECT coalesce(string_agg(substring(detail FROM ', (.*ticks?) '), ', ' ORDER BY number), '')
			FROM le_events WHERE event = 'job missed' AND election = 'gaps'));
	};

	ok($one->acquire('gaps'), 'one leads');
	is($claim->(0), 't', 'the first tick');
	is($claim->(4), 't', 'a later one');
	is($told->(), '3 ticks', 'the ticks between are reported');
	is($claim->(6), 't', 'another one, and the one before has not ended');
	is($told->(), '3 ticks, 4 ticks', 'all is reported, since nobody may have heard');
	is($complete->(6), 't', 'done');
	is($claim->(8), 't', 'the next one');
	is($told->(), '3 ticks, 4 ticks, tick', 'reports only its own');
	ok($one->release('gaps'), 'release');
	$session->quit;
};

contract 'claims over a change of leader' => sub {
	my ($store) = @_;
	my ($one, $two) = ($store->one, $store->two);
	my $claim = "SELECT le_claim('heir', 'job', '$tick')";
	my $session = LeaderElection::Session->new($one);
	my $claimed;

	ok($one->acquire('heir'), 'one leads');
	denied('G4', $two->sql($claim), 'claim by the other: false');
	$claimed = $session->query($claim);
	is($claimed, 't', 'claim: true');
	ok($one->release('heir'), 'release');
	ok($two->acquire('heir', wait => '10 s'), 'the other leads');
	is($two->sql($claim =~ s/le_claim/le_complete/r), 'f',
		'complete by the other, which did not claim: false');
	is($session->query($claim =~ s/le_claim/le_complete/r), 't',
		'complete by the session that claimed: true');
	never([ grep { $_ eq 't' && $claimed eq 't' } $two->sql($claim), $one->sql($claim) ],
		'the tick is not claimed again');
	is($two->sql($claim =~ s/00:00:00/00:01:00/r), 't', 'the next one is');
	ok($two->release('heir'), 'release');
	$session->quit;
};

1;
