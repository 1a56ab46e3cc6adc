# The alerts, judged by Prometheus itself: promtool gives the rules series that
# it makes up, and each case says all that fires then, so that an alert too many
# is found as well as one that is missing.

use strict;
use warnings;

use CPAN::Meta::YAML;
use JSON::PP;
use LeaderElection::Docs;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = $ENV{TESTDIR};
my $file = "$top/docs/monitoring/prometheus_alerts.yaml";
my $dir = PostgreSQL::Test::Utils::tempdir();
my $minutes = 90;

my @rules =
  map { @{ $_->{rules} } } @{ CPAN::Meta::YAML->read($file)->[0]{groups} };
my %severity = map { $_->{alert} => $_->{labels}{severity} } @rules;
my %fired;

# ---- series ----

# One value all the time.
sub always
{
	my ($value) = @_;

	return "${value}x$minutes";
}

# From that minute on another; "_" is no sample at all.
sub since
{
	my ($minute, $before, $after) = @_;

	return sprintf '%sx%d %sx%d', $before, $minute - 1, $after,
	  $minutes - $minute;
}

# A counter: so much more in each minute.
sub growing
{
	my ($by) = @_;

	return "0+${by}x$minutes";
}

# It grows in the minutes from, to only.
sub grew
{
	my ($from, $to, $by) = @_;
	my $end = $by * ($to - $from);

	return sprintf '0x%d %d+%dx%d %dx%d', $from - 1, 0, $by, $to - $from - 1,
	  $end, $minutes - $to;
}

# An exporter's metrics of an instance that is well and follows: metrics by the ends
# of their names. "elections" is a hash of the same for each of them, billing if it
# is not given; with "gone" it all ends at that minute.
sub instance
{
	my ($cluster, $name, %with) = @_;
	my $labels = qq(cluster="$cluster",instance="$name");
	my $store = delete $with{store} // 'consul';
	my $gone = delete $with{gone};
	my %elections = %{ delete $with{elections} // { billing => {} } };
	my %series;

	my %worker = (
		running => always(1),
		start_time_seconds => always(1000),
		%with);
	$series{"leader_election_worker_$_\{$labels\}"} = $worker{$_}
	  foreach keys %worker;

	foreach my $election ('', keys %elections)
	{
		my $own = qq({$labels,election="$election"});
		my %is = (
			leader => always(0),
			sought => always(1),
			contends => always(1),
			expired => always(0),
			stat_losses_total => always(0),
			stat_fence_aborts_total => always(0),
			stat_cancels_total => always(0),
			stat_missed_total => always(0),
			store_failures_total => always(0),
			store_unknown_total => always(0),
			store_round_trips_total => growing(24),
			store_round_trip_seconds_total => growing(0.1),
			%{ $election eq '' ? $with{none} // {} : $elections{$election} });

		foreach my $metric (keys %is)
		{
			next if $election eq '' && $metric !~ /_/;
			$series{ "leader_election_$metric"
				  . ($metric =~ /_/ ? $own : $own =~ s/\}$/,store="$store"}/r) }
			  = $is{$metric};
		}
	}
	delete $series{"leader_election_worker_none{$labels}"};
	if (defined $gone)
	{
		$_ = ended($_, $gone) foreach values %series;
	}
	return %series;
}

# Constant series only, and growing ones from 0.
sub ended
{
	my ($values, $minute) = @_;

	$values =~ s/x$minutes$/'x' . ($minute - 1)/e
	  or die "cannot end \"$values\"";
	return "$values _x" . ($minutes - $minute);
}

sub leads { return (leader => always(1), @_) }

# Two instances, a leads.
sub cluster
{
	my ($cluster, %with) = @_;

	return (
		instance($cluster, 'a', %with, elections => { billing => { leads() } }),
		instance($cluster, 'b', %with));
}

sub gateway
{
	my ($name, %with) = @_;
	my $labels = qq(cluster="x",instance="$name");
	my %is = (
		'le_gateway_held_locks{}' => always(3),
		'le_gateway_clock_skew_exceeded_total{}' => always(0),
		'le_gateway_http_overloaded_total{}' => always(0),
		'le_gateway_http_requests_total{op="renew",code="200"}' => growing(100),
		'le_gateway_http_requests_total{op="acquire",code="409"}' => growing(10),
		'le_gateway_http_requests_total{op="renew",code="503"}' => growing(1),
		'le_gateway_unknown_outcomes_total{op="renew",resolved="applied"}' =>
		  growing(1),
		'le_gateway_unknown_outcomes_total{op="renew",resolved="unresolved"}' =>
		  always(0),
		'le_gateway_cassandra_statement_seconds_bucket{kind="renew",outcome="ok",le="0.05"}'
		  => growing(100),
		'le_gateway_cassandra_statement_seconds_bucket{kind="renew",outcome="ok",le="2"}'
		  => growing(100),
		'le_gateway_cassandra_statement_seconds_bucket{kind="renew",outcome="ok",le="+Inf"}'
		  => growing(100),
		%with);

	return map { s/\{(?=.)/{$labels,/r =~ s/,\}/}/r => $is{$_} } keys %is;
}

# ---- cases ----

# At that minute these fire, and no others.  An alert is written as its name
# without LeaderElection, and its labels but the severity.
sub fires
{
	my ($what, $minute, $series, @expected) = @_;
	my $input = "$dir/case.yaml";
	my @samples = map {
		my ($name, %labels) = @$_;

		$fired{"LeaderElection$name"} = { %labels, severity => 1 };
		%labels = (
			%labels,
			alertname => "LeaderElection$name",
			alertstate => 'firing',
			severity => $severity{"LeaderElection$name"});
		{
			labels => 'ALERTS{'
			  . join(',', map { qq($_="$labels{$_}") } sort keys %labels) . '}',
			value => 1
		}
	} @expected;

	open my $out, '>', $input or die "$input: $!";
	# JSON is YAML
	print $out JSON::PP->new->canonical->encode(
		{
			rule_files => [$file],
			evaluation_interval => '1m',
			tests => [
				{
					interval => '1m',
					input_series => [
						map { { series => $_, values => $series->{$_} } }
						sort keys %$series
					],
					promql_expr_test => [
						{
							expr => 'ALERTS{alertstate="firing"}',
							eval_time => "${minute}m",
							exp_samples => \@samples
						}
					]
				}
			]
		});
	close $out;

	my $said = `promtool test rules $input 2>&1`;
	ok($? == 0, $what) or diag($said);
	return;
}

my $a = [ cluster => 'x', instance => 'a' ];
my $b = [ cluster => 'x', instance => 'b' ];
my @x = (cluster => 'x', election => 'billing');

subtest 'all is well' => sub {
	fires('with Consul', 60, { cluster('x') });
	fires('with Cassandra', 60,
		{ cluster('x', store => 'cassandra'), gateway('g1'), gateway('g2') });
	# each leads for itself, and nobody else could
	fires('with the store local', 60,
		{
			map {
				instance('x', $_, store => 'local',
					elections => { billing => { leads() } })
			} 'a', 'b'
		});
};

subtest 'the leader' => sub {
	my %idle = (sought => always(0), contends => always(0));

	fires('nobody', 60,
		{ instance('x', 'a'), instance('x', 'b') },
		[ NoLeader => @x ]);
	fires('nobody, for a minute', 61,
		{
			instance('x', 'a',
				elections => { billing => { leader => since(60, 1, 0) } }),
			instance('x', 'b',
				elections => { billing => { leader => since(61, 0, 1) } })
		});
	fires('nobody wants to', 60,
		{ map { instance('x', $_, elections => { old => {%idle} }) } 'a', 'b' });
	fires('two', 60,
		{ map { instance('x', $_, elections => { billing => { leads() } }) } 'a', 'b' },
		[ TwoLeaders => @x ]);
	fires('two, for a minute', 61,
		{
			instance('x', 'a',
				elections => { billing => { leader => since(62, 1, 0) } }),
			instance('x', 'b',
				elections => { billing => { leader => since(61, 0, 1) } })
		});
	# one name in two clusters
	fires('one in each of two clusters', 60, { cluster('x'), cluster('y') });
	fires('one in one of two clusters', 60,
		{ cluster('y'), instance('x', 'a'), instance('x', 'b') },
		[ NoLeader => @x ]);
	fires('two in one, none in the other', 60,
		{
			(map { instance('x', $_, elections => { billing => { leads() } }) }
			  'a', 'b'),
			instance('y', 'c'), instance('y', 'd')
		},
		[ TwoLeaders => @x ],
		[ NoLeader => cluster => 'y', election => 'billing' ]);
	fires('two elections', 60,
		{
			instance('x', 'a', elections => { billing => { leads() }, fin => {} }),
			instance('x', 'b', elections => { billing => {}, fin => { leads() } })
		});
	fires('one in a store that others do not ask', 60,
		{
			instance('x', 'a', elections => { billing => { leads() } }),
			instance('x', 'b'),
			instance('x', 'c', store => 'local',
				elections => { billing => { leads() } })
		},
		[ MixedStores => @x ]);
};

subtest 'instances out of sight' => sub {
	my @all = (
		instance('x', 'a', gone => 40, elections => { billing => { leads() } }),
		instance('x', 'b', gone => 40));
	my @gone = ([ InstanceGone => @$a ], [ InstanceGone => @$b ]);

	fires('all instances of a cluster, of two', 60, { @all, cluster('y') },
		[ Unseen => @x ], @gone);
	fires('all that there are', 60, {@all}, [ Unseen => @x ],
		[ NotCollected => ()], @gone);
	fires('all, for a minute', 41, {@all});
	fires('nothing, ever', 60, { gateway('g') }, [ NotCollected => () ]);
	fires('a leader, and the other leads', 60,
		{
			instance('x', 'a', gone => 40,
				elections => { billing => { leads() } }),
			instance('x', 'b',
				elections => { billing => { leader => since(41, 0, 1) } }),
			instance('x', 'c')
		},
		[ InstanceGone => @$a ]);
	fires('the only other one', 60,
		{
			instance('x', 'a', elections => { billing => { leads() } }),
			instance('x', 'b', gone => 40)
		},
		[ InstanceGone => @$b ],
		[ NoOtherCandidate => @x ]);
	# an election that was given up, and then forgotten
	fires('what nobody wanted any more', 60,
		{
			map {
				instance('x', $_, elections => { billing => {} }),
				  %{ {
					qq(leader_election_leader{cluster="x",instance="$_",election="billing",store="consul"})
					  => ended(always(0), 40),
					qq(leader_election_sought{cluster="x",instance="$_",election="billing",store="consul"})
					  => "1x29 0x9 _x50",
					qq(leader_election_contends{cluster="x",instance="$_",election="billing",store="consul"})
					  => ended(always(0), 40)
				  } }
			} 'a', 'b'
		});
};

subtest 'other candidates' => sub {
	foreach my $store ('consul', 'cassandra')
	{
		fires("$store: nobody", 60,
			{
				instance('x', 'a', store => $store,
					elections => { billing => { leads() } }),
				instance('x', 'b', store => $store,
					elections => { billing => { contends => always(0) } })
			},
			[ NoOtherCandidate => @x ]);
		fires("$store: one of two others", 60,
			{
				instance('x', 'a', store => $store,
					elections => { billing => { leads() } }),
				instance('x', 'b', store => $store,
					elections => { billing => { contends => always(0) } }),
				instance('x', 'c', store => $store)
			});
	}
	fires('nobody, for five minutes', 45,
		{
			instance('x', 'a', elections => { billing => { leads() } }),
			instance('x', 'b',
				elections => { billing => { contends => since(40, 1, 0) } })
		});
	# a lease of a session, that no instance campaigns for
	fires('it is a session that leads', 60,
		{
			instance('x', 'a',
				elections => { job => { leads(contends => always(0)) } }),
			instance('x', 'b',
				elections => {
					job => { sought => always(0), contends => always(0) } })
		});
};

subtest 'terms and work' => sub {
	my $with = sub {
		my ($metric, $values) = @_;

		return (
			instance('x', 'a',
				elections => { billing => { leads($metric => $values) } }),
			instance('x', 'b'));
	};

	fires('four losses', 60, { $with->(stat_losses_total => grew(20, 40, 1)) },
		[ Flapping => @x ]);
	fires('two', 60, { $with->(stat_losses_total => grew(20, 22, 1)) });
	fires('two in each of two clusters', 60,
		{
			map {
				instance($_, 'a',
					elections => {
						billing => { leads(stat_losses_total => grew(20, 22, 1)) }
					}),
				  instance($_, 'b')
			} 'x', 'y'
		});
	foreach my $metric ('stat_fence_aborts_total', 'stat_cancels_total')
	{
		fires($metric, 60, { $with->($metric => grew(30, 31, 1)) },
			[ WorkRefused => @x ]);
		fires("$metric, long ago", 85, { $with->($metric => grew(10, 11, 1)) });
	}
};

subtest 'jobs' => sub {
	my @job = (@x, job_name => 'nightly');
	my $with = sub {
		my (%with) = @_;
		my %is = (
			failed => always(0),
			abandoned => always(0),
			late => always(0),
			missed => always(0),
			ahead => always(0),
			running_seconds => always(0),
			every_seconds => always(3600),
			%with);

		# both instances show it
		return (
			cluster('x'),
			map {
				my $labels = qq(cluster="x",instance="$_",election="billing",job_name="nightly");
				map { ("leader_election_job_$_\{$labels\}" => $is{$_}) } keys %is
			} 'a', 'b');
	};

	fires('are well', 60, { $with->() });
	fires('failed', 60, { $with->(failed => since(60, 0, 1)) }, [ JobFailed => @job ]);
	fires('failed, and then went well', 61, { $with->(failed => '0x29 1x29 0x30') });
	fires('late', 60, { $with->(late => since(50, 0, 1)) }, [ JobLate => @job ]);
	fires('late, for a moment', 60, { $with->(late => since(57, 0, 1)) });
	fires('abandoned', 62, { $with->(abandoned => since(50, 0, 1)) }, [ JobStuck => @job ]);
	fires('abandoned, and then caught up', 60, { $with->(abandoned => since(55, 0, 1)) });

	# a run of 40 minutes by the end of which it is longer than its interval
	my $running = '0x19 0+60x70';

	fires('runs for longer than its interval', 75,
		{ $with->(running_seconds => $running, every_seconds => always(1800)) },
		[ JobStuck => @job ]);
	fires('runs for as long as it may', 75, { $with->(running_seconds => $running) });
	fires('runs for an hour, of no known interval', 80,
		{ $with->(running_seconds => $running, every_seconds => always(0)) });
	fires('runs for a day, of no known interval', 75,
		{ $with->(running_seconds => '0x19 86000+60x70', every_seconds => always(0)) },
		[ JobStuck => @job ]);
	# a nightly job that began at 03:00 is told of before the morning
	fires('runs for three hours and more, nightly', 65,
		{ $with->(running_seconds => '0x9 8400+60x80', every_seconds => always(86400)) },
		[ JobStuck => @job ]);
	fires('runs for less, nightly', 60,
		{ $with->(running_seconds => '0x9 6000+60x80', every_seconds => always(86400)) });
	fires('runs for less than an hour, of two hours', 60,
		{ $with->(running_seconds => '0x9 300+60x80', every_seconds => always(7200)) });
	fires('lost', 61, { $with->(lost => since(60, 0, 1)) }, [ JobLost => @job ]);
	fires('ahead', 61, { $with->(ahead => since(60, 0, 1)) }, [ JobAhead => @job ]);
	fires('missed', 61, { $with->(missed => since(60, 0, 1)) }, [ JobMissed => @job ]);
	fires('missed, long ago', 85, { $with->(missed => '0x9 1x59 0x30') });
};

subtest 'the worker' => sub {
	my $with = sub {
		my (%with) = @_;

		return (
			instance('x', 'a', %with, elections => { billing => { leads() } }),
			instance('x', 'b'));
	};
	my $starts = sub {
		my (@starts) = @_;

		return join ' ', '1000x49', map { "${_}x1" } @starts;
	};

	fires('is down', 60, { $with->(running => since(50, 1, 0)) },
		[ WorkerDown => @$a ]);
	fires('is down just now', 60, { $with->(running => since(60, 1, 0)) });
	fires('starts again and again', 60,
		{ $with->(start_time_seconds => $starts->(1100 .. 1105)) },
		[ WorkerRestarts => @$a ]);
	fires('and is not always there', 60,
		{ $with->(start_time_seconds => $starts->(1100, 0, 1101, 0, 1102)) },
		[ WorkerRestarts => @$a ]);
	fires('was started anew, twice', 60,
		{ $with->(start_time_seconds => $starts->(1100, 0, 1101, 1101, 1101)) });
	fires('hangs', 60,
		{
			instance('x', 'a',
				elections =>
				  { billing => { expired => always(1), contends => always(0) } }),
			instance('x', 'b', elections => { billing => { leads() } }),
			instance('x', 'c')
		},
		[
			WorkerHangs => @$a,
			election => 'billing',
			store => 'consul'
		]);
};

subtest 'the store' => sub {
	# requests that count under none, and those that count under their election
	my $consul = sub { return (cluster('x'), instance('x', 'a', none => {@_}, elections => { billing => { leads() } })) };
	my $cassandra = sub {
		return (
			cluster('x', store => 'cassandra'),
			instance('x', 'a', store => 'cassandra',
				elections => { billing => { leads(@_) } }));
	};

	foreach my $metric ('store_failures_total', 'store_unknown_total')
	{
		fires("Consul: $metric", 60, { $consul->($metric => growing(2)) },
			[ StoreTrouble => @$a ]);
		fires("Cassandra: $metric", 60, { $cassandra->($metric => growing(2)) },
			[ StoreTrouble => @$a ]);
		fires("$metric: a few", 60, { $cassandra->($metric => grew(50, 53, 1)) });
	}
	# a cut of one minute is told of while it lasts, or soon after, and not for long
	fires('a cut of a minute', 52, { $consul->(store_failures_total => grew(50, 51, 12)) },
		[ StoreTrouble => @$a ]);
	fires('a cut of a minute, five minutes ago', 56, { $consul->(store_failures_total => grew(50, 51, 12)) });
	# two elections a minute, each of them once
	fires('one request of each of 40 elections', 60,
		{
			instance('x', 'a',
				elections => {
					map {
						my $minute = 40 + int($_ / 2);

						"e$_" => {
							leads(store_failures_total =>
								  grew($minute, $minute + 1, 1))
						}
					} 0 .. 39
				}),
			instance('x', 'b', elections => { map { ("e$_" => {}) } 0 .. 39 })
		});
	foreach my $slow ([ 'Consul', $consul ], [ 'Cassandra', $cassandra ])
	{
		my ($name, $with) = @$slow;

		# 24 answers a minute beside as many fast ones
		fires("$name is slow", 60,
			{ $with->(store_round_trip_seconds_total => growing(48)) },
			[ StoreSlow => @$a ]);
		# on average since the start it still is
		fires("$name was slow", 60,
			{ $with->(store_round_trip_seconds_total => grew(1, 40, 60)) });
	}
};

subtest 'gateways' => sub {
	my @g = (cluster => 'x', instance => 'g1');
	my $with = sub { return (cluster('x', store => 'cassandra'), gateway('g2'), gateway('g1', @_)) };
	my $requests = 'le_gateway_http_requests_total';
	my $statements = 'le_gateway_cassandra_statement_seconds_bucket{kind="renew",outcome="ok"';

	fires('clocks too far apart', 60,
		{ $with->('le_gateway_clock_skew_exceeded_total{}' => grew(50, 51, 1)) },
		[ GatewayClockSkew => @g ]);
	fires('once, and long ago', 60,
		{ $with->('le_gateway_clock_skew_exceeded_total{}' => always(7)) });
	my %gone = gateway('g3');
	fires('one is gone', 60,
		{ $with->(), map { $_ => ended($gone{$_}, 40) } keys %gone },
		[ GatewayGone => cluster => 'x', instance => 'g3' ]);
	fires('a minute ago', 41,
		{ $with->(), map { $_ => ended($gone{$_}, 40) } keys %gone });
	fires('it cannot serve', 60,
		{ $with->(qq($requests\{op="renew",code="503"}) => growing(20)) },
		[ GatewayFails => @g ]);
	fires('others hold the lock', 60,
		{ $with->(qq($requests\{op="acquire",code="409"}) => growing(1000)) });
	fires('it turns requests away', 60,
		{ $with->('le_gateway_http_overloaded_total{}' => growing(1)) },
		[ GatewayOverloaded => @g ]);
	fires('it does not know', 60,
		{
			$with->('le_gateway_unknown_outcomes_total{op="renew",resolved="unresolved"}' => growing(1))
		},
		[ GatewayUnresolved => @g, resolved => 'unresolved' ]);
	fires('it found out', 60,
		{ $with->('le_gateway_unknown_outcomes_total{op="renew",resolved="burned"}' => growing(9)) });
	fires('Cassandra is slow', 60,
		{
			$with->(
				qq($statements,le="0.05"}) => growing(90),
				qq($statements,le="2"}) => growing(100))
		},
		[ GatewaySlow => @g ]);
	fires('but seldom', 60,
		{
			$with->(
				qq($statements,le="0.05"}) => growing(995),
				qq($statements,le="2"}) => growing(1000),
				qq($statements,le="+Inf"}) => growing(1000))
		});
};

# An alert that no case has seen to fire, one on what nobody collects, or one
# that does not say what to do.
subtest 'the file' => sub {
	my $runbook = 'https://github.com/leader-election/leader_election/blob/main/';
	my %metric = map { $_ => 1 }
	  map { my $group = $_; map { "$group->{name}_" . (keys %$_)[0] } @{ $group->{columns} } }
	  @{ CPAN::Meta::YAML->read("$top/docs/monitoring/metrics.yaml")->[0] };
	my $gateway = slurp_file("$top/gateway/internal/metrics/metrics.go");
	my %anchor = %{ anchors('docs/alerts.md') };
	my %seen;

	foreach ($gateway =~ /Name: "(le_gateway_\w+)"/g)
	{
		$metric{$_} = $metric{"${_}_bucket"} = 1;
	}
	like(`promtool check rules $file 2>&1`, qr/SUCCESS: @{[ scalar @rules ]} rules/, 'promtool reads it');
	foreach my $rule (@rules)
	{
		my $name = $rule->{alert};
		my @named = $rule->{expr} =~ /\b((?:leader_election|le_gateway)_\w+)/g;

		like($name, qr/^LeaderElection[A-Z]\w+$/, $name);
		ok(!$seen{$name}++, 'one of that name');
		ok($fired{$name}, 'has a case');
		cmp_ok(scalar @named, '>=', 1, 'has an expression');
		is_deeply([ grep { !$metric{$_} } @named ], [], 'with known metrics');
		like($rule->{labels}{severity}, qr/^(?:critical|warning)$/, 'severity');

		my %annotation = %{ $rule->{annotations} };
		my @labels = $annotation{summary} =~ /\$labels\.(\w+)/g;

		is_deeply([ grep { !$fired{$name}{$_} } @labels ],
			[], 'the summary names labels that it has');
		ok($name eq 'LeaderElectionNotCollected' || grep({ $_ eq 'cluster' } @labels), 'and the cluster');
		my ($page, $heading) = $annotation{runbook_url} =~ m{^\Q$runbook\E([\w/.]+)#(\w+)$};
		is($page, 'docs/alerts.md', 'the runbook');
		is($heading, lc $name, 'by its name');
		ok($anchor{ $heading // '' }, 'is there');
	}
	is_deeply([ sort grep { /^leaderelection/ } keys %anchor ],
		[ sort map { lc } keys %seen ], 'no heading without an alert');
};

done_testing();
