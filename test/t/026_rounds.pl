# Tier: test, 43 s
#
# The cost of leading: one renewal and one proof per round, whatever the number of
# elections, with the held keys checked in rotation.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Requests;
use LeaderElection::Util;
use List::Util qw(min);
use PostgreSQL::Test::Utils;
use Test::More;

my $consul = LeaderElection::Consul->new('consul')->start;
my $recorder =
  LeaderElection::Recorder->new('r', $consul->host_port)->start;
my $node = LeaderElection::Node->create(
	'node',
	consul => $recorder,
	settings => {
		lease_ttl => '60s',
		request_timeout => '10s',
		renew_interval => '1s'
	});

# Waits until so many rounds have passed, and returns the requests in them, by
# Consul's own log, as counts by kind: from one renewal to another.
sub requests_of_rounds
{
	my ($rounds) = @_;
	my $offset = $consul->log_size;
	my $renewals = sub {
		return scalar $consul->requests($offset, qr{^PUT /v1/session/renew});
	};

	poll_until(sub { $renewals->() > $rounds }, "$rounds rounds");

	my %count = (renew => 0, txn => 0, watch => 0, other => 0);
	my $begun = 0;

	foreach my $request ($consul->requests($offset))
	{
		my $text = "$request->{method} $request->{url}";
		my $kind =
			$text =~ m{^PUT /v1/session/renew/} ? 'renew'
		  : $text =~ m{^PUT /v1/txn} ? 'txn'
		  : $text =~ m{^GET /v1/kv/leader_election(\.nodes)?/\?} ? 'watch'
		  : 'other';

		$begun ||= $kind eq 'renew';
		next unless $begun;
		$count{$kind}++;
		last if $count{renew} > $rounds;
	}
	$count{renew}--;
	return \%count;
}

# Guards against requests that grow with the number of elections.
subtest 'requests per round' => sub {
	my $rounds = 6;
	my $of_one;

	ok($node->acquire('e1'), 'one election');
	foreach my $elections (1, 100)
	{
		if ($elections > 1)
		{
			is( $node->sql(
					'SELECT count(*) FROM generate_series(2, 100) AS i '
					  . "WHERE le_acquire('e' || i)"),
				99,
				'99 more');

			# the news of them
			poll_until(
				sub {
					$node->sql('SELECT count(*) FROM le_status '
						  . "WHERE state = 'leader'") == 100;
				},
				'all held');
		}
		my $count = requests_of_rounds($rounds);

		note explain { $elections => $count };
		is($count->{renew}, $rounds, "$elections: rounds");
		cmp_ok(abs($count->{txn} - $rounds), '<=', 1,
			'one transaction in each');
		is($count->{other}, 0, 'nothing else');
		$of_one //= $count;
		cmp_ok(abs($count->{watch} - $of_one->{watch}),
			'<=', 2, 'and the watch, which is not per round');
	}
	cmp_ok($of_one->{watch}, '<=', 3, 'one watch only');
};

# Guards against a proof and a renewal that each wake the worker, which the jitter
# alone keeps apart.
subtest 'wake-ups' => sub {
	my $status = '/proc/' . $node->worker_pid . '/status';
	my $woken = sub {
		return (slurp_file($status) =~ /^voluntary_ctxt_switches:\s+(\d+)/m)[0];
	};
	my $before = $woken->();
	my $count = requests_of_rounds(10);
	my $others = $count->{watch} + $count->{other};

	$woken = $woken->() - $before;
	note "$woken in 10 rounds";
	note explain $count;
	cmp_ok($woken, '<=', 3 * 11 + 2 * $others,
		'once to send both, and for the answer of each');
};

# Guards against keys that are never checked.
subtest 'checked in rotation' => sub {
	my $mark = $recorder->mark;
	my @proofs;

	poll_until(
		sub {
			@proofs = grep { defined $_->{status} }
			  $recorder->requests(request_like('prove'), $mark);
			return @proofs >= 6;
		},
		'six proofs');
	foreach my $i (0 .. 4)
	{
		my %checked = map { $_ => 1 } map { checked_keys($_) }
		  @proofs[ $i, $i + 1 ];

		is(scalar keys %checked, 100, 'any two in a row check all keys');
	}
	is_deeply(
		[ grep { $_ != 60 } map { scalar(() = checked_keys($_)) } @proofs ],
		[], '60 at a time');
};

# Guards against a term that is called proven by a proof of others.
subtest 'le_renew is proven with its own key' => sub {
	foreach my $i (1, 37, 60, 61, 99, 100)
	{
		my $mark = $recorder->mark;
		my $asked = boottime_ns();

		is($node->sql("SELECT le_renew('e$i')"), 't', "e$i: proven");

		my $answered = boottime_ns();
		my @with = grep {
			my $proof = $_;

			($proof->{status} // 0) == 200
			  && $proof->{received} > $asked
			  && $proof->{answered} < $answered
			  && grep { $_ eq "e$i" } checked_keys($proof)
		} $recorder->requests(request_like('prove'), $mark);

		cmp_ok(scalar @with, '>=', 1, 'by a proof of its key');
	}
};

# The same when the key has gone and the watch does not tell.
subtest 'lost keys are found without the watch' => sub {
	my $token = $node->token('e50');

	$recorder->rule(match => request_like('watch'), action => 'hang_request');

	# so that the watch that is parked is answered, and the next one hangs
	$consul->put('/v1/kv/leader_election/x', 'y');
	poll_until(
		sub {
			grep { $_->{action} } $recorder->requests(request_like('watch'));
		},
		'the watch to hang');
	$consul->delete('/v1/kv/leader_election/e77/leader');
	denied('G5', $node->sql("SELECT le_renew('e77')"), 'asked for: not proven');
	denied('G5', $node->is_leader('e77'), 'nor believed');

	my $mark = $recorder->mark;
	my @lost = ('e2', 'e59', 'e61', 'e98');
	my %deleted;

	foreach (@lost)
	{
		$consul->delete("/v1/kv/leader_election/$_/leader");
		$deleted{$_} = boottime_ns();
	}
	$node->wait_for(
		'SELECT count(*) = 0 FROM le_status WHERE election = ANY (\'{'
		  . join(',', @lost)
		  . "}') AND le_is_leader(election)",
		'the proofs to find the others');

	my @proofs = $recorder->requests(request_like('prove'), $mark);

	# Two rounds, each repeated once it has dropped the lost keys; before that one may
	# have been under way.
	foreach my $election (@lost)
	{
		my @since = grep { $_->{received} > $deleted{$election} } @proofs;
		my ($first) = grep {
			grep { $_ eq $election } checked_keys($since[$_])
		} 0 .. $#since;

		ok(!defined $first || $first < 4, "$election: in two rounds");
	}
	same_term($token, $node->token('e50'), 'the other terms go on');
	is($node->sql('SELECT count(*) FROM le_status WHERE le_is_leader(election)'),
		95, 'all of them');
};

# Guards against a watch that is at the store while the next change is: all that
# watch would be told of this one while somebody waits for the answer to it.
subtest 'the watch rests' => sub {
	my $watched =
	  LeaderElection::Recorder->new('watched', $consul->host_port)->start;
	my $busy = LeaderElection::Node->create(
		'busy',
		consul => $watched,
		settings => { consul_key_prefix => 'busy' });

	ok($busy->acquire('other'), 'there is something to watch');

	my $watches_of_terms = sub {
		my $mark = $watched->mark;
		my ($took, $done) = timed(
			sub {
				$busy->sql(
					'SELECT count(*) FROM generate_series(1, 300) '
					  . "WHERE le_acquire('quick') AND le_release('quick')");
			});
		my $watches = $watched->requests(qr{^GET /v1/kv/busy/\?}, $mark);

		note "$watches in $took s";
		is($done, 300, 'three hundred terms');
		return ($watches, $took * 1000);
	};
	my ($watches, $ms) = $watches_of_terms->();

	cmp_ok($watches, '<=', $ms / 50 + 2, 'once in 50 ms at most');
	cmp_ok($watches, '>=', 3, 'but it is asked');

	# A node that waits for another's term is to hear of its end at once.
	my $other = LeaderElection::Node->create(
		'other',
		consul => $consul,
		settings => { consul_key_prefix => 'busy' });

	ok($other->acquire('theirs'), 'another instance leads');
	$busy->sql("SELECT le_campaign('theirs')");
	$busy->wait_for("SELECT state = 'waiting' FROM le_status
		WHERE election = 'theirs'");
	($watches, $ms) = $watches_of_terms->();
	cmp_ok($watches, '<=', $ms / 2 + 2, 'once in 2 ms at most');
	cmp_ok($watches, '>', min(300, $ms / 50 + 2),
		'but for each term, or more often than where nobody waits');
};

done_testing();
