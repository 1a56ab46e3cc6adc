# Requests and answers that are lost, late, or come twice: an outcome that is
# not known is found out, never assumed, and no copy of a term that is over
# changes anything.

use strict;
use warnings;

use Contract;
use LeaderElection::Sampler;
use LeaderElection::Session;
use LeaderElection::Util;
use Test::More;

# Runs the code once while all goes well, to count the writes of the step that
# it arms, and then once for each of them and each way to lose it.
sub each_write_lost
{
	my ($store, $prefix, $code) = @_;
	my $link = $store->link;
	my ($mark, $writes);

	$code->(
		"$prefix-none",
		sub { $mark = $link->mark },
		sub { $writes = () = $link->requests($store->writes("$prefix-none"), $mark) });
	cmp_ok($writes, '>=', 1, "$prefix: writes were seen");
	foreach my $action ('lose_reply', 'lose_request')
	{
		foreach my $n (0 .. $writes - 1)
		{
			my $election = "$prefix-" . ($action =~ s/_/-/r) . "-$n";
			my $match = $store->writes($election);

			note("$action of write $n");
			$code->(
				$election,
				sub {
					$mark = $link->mark;
					$link->rule(match => $match, action => 'pass', count => $n) if $n;
					$link->rule(match => $match, action => $action, count => 1);
				},
				sub {
					my $lost = grep { ($_->{action} // '') eq $action }
					  $link->requests($match, $mark);

					# a renewal may have been among those that were counted
					is($lost, 1, "$election: one was lost") if $n == 0 || $lost;
					$link->clear_rules;
				});
		}
	}
	return;
}

contract 'an acquire without an answer' => sub {
	my ($store) = @_;
	my ($one, $two) = ($store->one, $store->two);

	each_write_lost(
		$store, 'lost-acquire',
		sub {
			my ($election, $arm, $disarm) = @_;

			$arm->();
			ok($one->acquire($election, wait => '3 min'), 'acquire: true');
			$disarm->();
			ok($one->is_leader($election), 'it leads');
			is( $two->sql("SELECT leader, fencing_token FROM le_leader('$election')"),
				'one|' . $one->token($election),
				'with the token that the store has');
			ok(!$two->acquire($election), 'the other does not');
			ok($one->release($election), 'release');
			is($two->leader($election), undef, 'nobody leads');
		});
};

contract 'a value without an answer' => sub {
	my ($store) = @_;
	my ($one, $two) = ($store->one, $store->two);

	each_write_lost(
		$store,
		'lost-value',
		sub {
			my ($election, $arm, $disarm) = @_;
			my $token;

			ok($one->acquire($election, value => 'old'), 'acquire');
			$token = $one->token($election);
			$arm->();
			is($one->sql("SELECT le_renew('$election', 'new')"), 't', 'renew: true');
			$disarm->();
			is($two->sql("SELECT leader, value, fencing_token FROM le_leader('$election')"),
				"one|new|$token", 'the value is there, in the same term');
			ok($one->release($election), 'release');
		});
};

contract 'a release without an answer' => sub {
	my ($store) = @_;
	my ($one, $two) = ($store->one, $store->two);

	each_write_lost(
		$store,
		'lost-release',
		sub {
			my ($election, $arm, $disarm) = @_;
			my $token;

			ok($one->acquire($election), 'acquire');
			$token = $one->token($election);
			$arm->();
			ok($one->release($election), 'release: true');
			$disarm->();
			denied('G5', $one->is_leader($election), 'it does not lead');
			is($two->leader($election), undef, 'nobody leads');
			ok($two->acquire($election), 'the other has it at once');
			rising('with a higher token', $token, $two->token($election));
			ok($two->release($election), 'release');
		});
};

contract 'a claim without an answer' => sub {
	my ($store) = @_;
	my ($one, $two) = ($store->one, $store->two);
	my $tick = '2020-01-01 00:00:00+00';
	my $state = "SELECT state, try, tick = '$tick' FROM le_claims WHERE election = '%s'";

	each_write_lost(
		$store,
		'lost-claim',
		sub {
			my ($election, $arm, $disarm) = @_;

			ok($one->acquire($election), 'acquire');
			ok(!$two->acquire($election), 'the other knows of it');
			$arm->();
			is($one->sql("SELECT le_claim('$election', 'job', '$tick')"), 't', 'claim: true');
			$disarm->();
			never(
				[ grep { $_ eq 't' } $one->sql("SELECT le_claim('$election', 'job', '$tick')") ],
				'and no second time');
			is($two->sql(sprintf $state, $election), 'running|1|t', 'the claim is there');
			ok($one->release($election), 'release');
		});
};

contract 'a completion without an answer' => sub {
	my ($store) = @_;
	my ($one, $two) = ($store->one, $store->two);
	my $session = LeaderElection::Session->new($one);
	my $tick = '2020-01-01 00:00:00+00';

	each_write_lost(
		$store,
		'lost-complete',
		sub {
			my ($election, $arm, $disarm) = @_;

			ok($one->acquire($election), 'acquire');
			ok(!$two->acquire($election), 'the other knows of it');
			is($session->query("SELECT le_claim('$election', 'job', '$tick')"), 't', 'claim');
			$arm->();
			is($session->query("SELECT le_complete('$election', 'job', '$tick')"),
				't', 'complete: true');
			$disarm->();
			is($two->sql("SELECT state FROM le_claims WHERE election = '$election'"),
				'done', 'which is there');
			ok($one->release($election), 'release');
		});
	$session->quit;
};

# Neither true nor false is known.  The store hears nothing, or hears all and
# its answers are lost.
contract 'no answer at all' => sub {
	my ($store) = @_;
	my ($one, $two, $link) = ($store->one, $store->two, $store->link);
	my $error;

	$link->rule(match => qr{\bdeaf\b}, action => 'hang_request');
	like($one->sql_error(q(SELECT le_acquire('deaf'))),
		qr/ERROR:  LE00[345]: .*"deaf"/, 'the store hears nothing: an error');
	denied('G5', $one->is_leader('deaf'), 'it does not lead');
	$link->clear_rules;

	$link->rule(match => $store->writes('mute'), action => 'hang_reply');
	$error = $one->sql_error(q(SELECT le_acquire('mute')));
	if ($error ne '')
	{
		like($error, qr/ERROR:  LE00[345]: .*"mute"/, 'no answers: an error');
		ok(!$one->is_leader('mute'), 'it does not lead');
	}
	else
	{
		is($two->leader('mute'), 'one', 'true, which the store can be asked for');
		ok($one->is_leader('mute'), 'it leads');
	}
	$link->clear_rules;
	$one->sql(q(SELECT le_release('mute')));
	foreach my $election ('deaf', 'mute')
	{
		ok($two->acquire($election, wait => '3 min'),
			"$election: the other can have it");
		ok($two->release($election), 'release');
	}
};

contract 'copies of what was just sent' => sub {
	my ($store) = @_;
	my ($one, $two, $link) = ($store->one, $store->two, $store->link);
	my $mark = $link->mark;
	my $token;

	ok($one->acquire('twice', value => 'first'), 'acquire');
	$token = $one->token('twice');
	$link->replay($_) foreach $link->requests($store->writes('twice'), $mark);
	is($one->sql(q(SELECT le_renew('twice', 'second'))), 't', 'renew: true');
	is($two->sql(q(SELECT leader, value, fencing_token FROM le_leader('twice'))),
		"one|second|$token", 'one term');
	ok(!$two->acquire('twice'), 'which keeps others out');
	ok($one->release('twice'), 'release');
};

contract 'copies of a term that is over' => sub {
	my ($store) = @_;
	my ($one, $two, $link) = ($store->one, $store->two, $store->link);
	my $session = LeaderElection::Session->new($one);
	my $mark = $link->mark;
	my $tick = '2020-01-01 00:0%d:00+00';
	my (@first, @tokens, @samplers, $claims, $free);
	my $replay = sub { $link->replay($_) foreach @first };
	my $no_leader = sub {
		my ($asked) = @_;

		never([ grep { $_->is_leader('late') } $one, $two ], 'copies make no leader');
		never([ grep { $free && defined } $asked->leader('late') ], '... that is seen')
		  unless $store->late_acquires;
	};

	ok($one->acquire('late', value => 'first'), 'a term');
	push @tokens, $one->token('late');
	is($one->sql(q(SELECT le_renew('late', 'second'))), 't', 'a value');
	is($session->query("SELECT le_claim('late', 'job', '" . sprintf($tick, 1) . "')"),
		't', 'a claim');
	is($session->query("SELECT le_complete('late', 'job', '" . sprintf($tick, 1) . "')"),
		't', 'its completion');
	$free = $one->release('late');
	ok($free, 'the end');
	$session->quit;
	@first = $link->requests($store->writes('late'), $mark);
	cmp_ok(scalar @first, '>=', 4, 'which took some writes');

	$replay->();
	$no_leader->($two);
	@samplers = map { LeaderElection::Sampler->new($_, 'late') } $one, $two;
	ok( $two->acquire('late', value => 'hers',
			$store->late_acquires ? (wait => '3 min') : ()),
		'the other leads');
	push @tokens, $two->token('late');
	rising('with a higher token', @tokens);
	is($two->sql("SELECT le_claim('late', 'job', '" . sprintf($tick, 2) . "')"), 't', 'claims');
	$claims = $one->sql(q(SELECT state, tick, fencing_token FROM le_claims WHERE election = 'late'));
	$replay->();
	is($two->sql(q(SELECT le_renew('late'))), 't', 'leads on');
	is($one->sql(q(SELECT leader, value, fencing_token FROM le_leader('late'))),
		"two|hers|$tokens[1]", 'and nothing has changed');
	is($one->sql(q(SELECT state, tick, fencing_token FROM le_claims WHERE election = 'late')),
		$claims, 'neither have claims');
	never(
		[
			grep { $_ eq 't' }
			map { $two->sql("SELECT le_claim('late', 'job', '" . sprintf($tick, $_) . "')") } 1, 2
		],
		'no tick can be claimed again');
	$free = $two->release('late');
	ok($free, 'release');
	$replay->();
	$no_leader->($one);
	ok($one->acquire('late', wait => '3 min'), 'another term');
	rising('with a higher token', @tokens, $one->token('late'));
	ok($one->release('late'), 'release');
	apart('no two lead at once', @samplers);
};

1;
