# Tier: test, 37 s
#
# Queries of monitoring systems: the files of queries are made from one source, run
# by a role with the documented grants only, and one of them is read by the real
# postgres_exporter, and that by the real Prometheus, with our alerts.

use strict;
use warnings;

use CPAN::Meta::YAML;
use LeaderElection::Consul;
use LeaderElection::Exporter;
use LeaderElection::Node;
use LeaderElection::Prometheus;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = $ENV{TESTDIR};
my $dir = "$top/docs/monitoring";
my $consul = LeaderElection::Consul->new('consul')->start;
my ($a, $b) = map {
	LeaderElection::Node->create(
		$_,
		consul => $consul,
		settings => { campaign => 'billing' })
} 'a', 'b';

$_->sql('CREATE ROLE exporter LOGIN; GRANT pg_monitor TO exporter')
  foreach $a, $b;

# By name and column, as each of the three files has it: 'label', 'counter' or
# 'gauge'; and the queries.
my (%kind, %query);

# A change of the source that was not carried over, or one that was made by hand.
subtest 'made from one source' => sub {
	foreach my $name ('postgres_exporter', 'sql_exporter', 'pgwatch')
	{
		is(slurp_file("$dir/$name.yaml"), scalar `$top/scripts/metrics $name`,
			"$name.yaml: make metrics");
	}
};

sub read_file
{
	return CPAN::Meta::YAML->read("$dir/$_[0].yaml")->[0];
}

# As each of the programs would, not as the generator does.
subtest 'the same for all' => sub {
	my $for_exporter = read_file('postgres_exporter');
	my $for_sql = read_file('sql_exporter');
	my $for_pgwatch = read_file('pgwatch');

	foreach my $name (keys %$for_exporter)
	{
		foreach my $column (@{ $for_exporter->{$name}{metrics} })
		{
			my ($key) = keys %$column;

			$kind{exporter}{"${name}_$key"} = lc $column->{$key}{usage};
			ok($column->{$key}{description}, "$name.$key is described");
		}
		$query{exporter}{$name} = $for_exporter->{$name}{query};
	}

	$query{sql}{ $_->{query_name} } = $_->{query}
	  foreach @{ $for_sql->{queries} };
	foreach my $metric (@{ $for_sql->{metrics} })
	{
		my $of = $metric->{query_ref};

		$kind{sql}{ $metric->{metric_name} } = $metric->{type};
		is($metric->{metric_name}, "${of}_$metric->{values}[0]",
			$metric->{metric_name});
		ok($metric->{help}, 'is described');
		$kind{sql}{"${of}_$_"} = 'label' foreach @{ $metric->{key_labels} };
	}

	foreach my $name (keys %{ $for_pgwatch->{metrics} })
	{
		my $metric = $for_pgwatch->{metrics}{$name};
		my %gauge = map { $_ => 1 } @{ $metric->{gauges} // [] };
		my $sql = $metric->{sqls}{14};
		my ($columns) = $sql =~ /AS epoch_ns,\n(.*?)\nFROM \(/s;

		foreach my $column (split /,\s*/, $columns =~ s/^\s+//r)
		{
			my ($label) = $column =~ / AS tag_(\w+)$/;

			$kind{pgwatch}{ "${name}_" . ($label // $column) } =
			  defined $label ? 'label' : $gauge{$column} ? 'gauge' : 'counter';
		}
		$query{pgwatch}{$name} = $sql;
		is($for_pgwatch->{presets}{leader_election}{metrics}{$name},
			15, "$name: in the preset");
	}
	is_deeply($kind{sql}, $kind{exporter}, 'metrics of sql_exporter');
	is_deeply($kind{pgwatch}, $kind{exporter}, 'and of pgwatch');
	is_deeply($query{sql}, $query{exporter}, 'by the same queries');
};

# A job, which both have looked at.
$_->wait_for(q(SELECT le_current_leader('billing') IS NOT NULL)) foreach $a, $b;
$_->sql(q(CALL le_run('billing', 'SELECT 1', job => 'nightly', every => '1 day'))) foreach $a, $b;
is($_->sql(q(SELECT state FROM le_jobs('0'))), 'done', $_->name . ' has seen the job') foreach $a, $b;

# The longest name of a group that a metric begins with.
sub of_group
{
	my ($metric) = @_;

	# "leader_election" is before all others in this order
	return (reverse sort grep { $metric =~ /^\Q$_\E_/ } keys %{ $query{exporter} })[0];
}

subtest 'queries' => sub {
	foreach my $for (sort keys %query)
	{
		foreach my $name (sort keys %{ $query{$for} })
		{
			my %type = map { split /\|/ } split /\n/, $a->sql(<<"END");
CREATE TEMP VIEW columns AS $query{$for}{$name};
SELECT attname, format_type(atttypid, NULL) FROM pg_attribute
WHERE attrelid = 'columns'::regclass
END
			my $time = delete $type{epoch_ns};

			is($time, 'bigint', "$for: $name: time") if $for eq 'pgwatch';
			foreach my $column (sort keys %type)
			{
				my $kind = $kind{exporter}{ "${name}_" . $column =~ s/^tag_//r };

				like(
					$type{$column},
					$kind eq 'label'
					? qr/^text$/
					: qr/^(?:integer|bigint|double precision)$/,
					"$for: $name.$column");
			}
			is(
				scalar keys %type,
				scalar(grep { of_group($_) eq $name } keys %{ $kind{exporter} }),
				'all columns');

			# no null, which exporters show as NaN; and rows
			my ($rows, $full) = split /\|/, $a->sql("SET ROLE exporter; "
				  . 'SELECT count(*), count(*) FILTER (WHERE m IS NOT NULL) '
				  . "FROM ($query{$for}{$name}) m");

			cmp_ok($rows, '>=', 1, "$for: $name: rows");
			is($full, $rows, 'without nulls');
		}
	}

	# a counter that is not exported
	my %counter = map { s/^leader_election_(?:stat|store)_//r => 1 }
	  grep { $kind{exporter}{$_} eq 'counter' } keys %{ $kind{exporter} };

	is_deeply(
		[
			grep { !$counter{"${_}_total"} } split /\n/,
			$a->sql("SELECT attname FROM pg_attribute WHERE attrelid IN "
				  . "('le_stat'::regclass, 'le_stat_jobs'::regclass, 'le_stat_store'::regclass) "
				  . "AND attnum > 0 AND atttypid = 'int8'::regtype")
		],
		[],
		'all counters');
};

my %exporter = map {
	$_->name => LeaderElection::Exporter->new(
		$_,
		user => 'exporter',
		queries => "$dir/postgres_exporter.yaml")->start
} $a, $b;

sub value
{
	my ($node, $series) = @_;

	return $exporter{ $node->name }->scrape->{"leader_election_$series"};
}

my $leader = poll_until(
	sub { (grep { $_->is_leader('billing') } $a, $b)[0] }, 'a leader');
my $other = $leader == $a ? $b : $a;
my $billing = '{election="billing",store="consul"}';

subtest 'postgres_exporter' => sub {
	my $text = $exporter{a}->text;
	my %type = $text =~ /^# TYPE (leader_election_\w+) (\w+)$/mg;
	my %expected = %{ $kind{exporter} };
	my $linted = "$PostgreSQL::Test::Utils::tmp_check/metrics.txt";

	delete @expected{ grep { $expected{$_} eq 'label' } keys %expected };
	is_deeply(\%type, \%expected, 'all of them, and of which kind');
	like($text, qr/^pg_exporter_last_scrape_error(?:\{.*\})? 0$/m, 'no error');
	unlike($text, qr/^leader_election_.* NaN$/m, 'each has a value');

	append_to_file($linted, join '', $text =~ /^((?:# \w+ )?leader_election_.*\n)/mg);
	is(scalar `promtool check metrics < $linted 2>&1`, '', 'names and descriptions as Prometheus wants them');
};

# Databases beside the one that it was given have no extension, and would say
# the same.
subtest 'with --auto-discover-databases' => sub {
	$a->sql('CREATE DATABASE other');
	my $all = LeaderElection::Exporter->new(
		$a,
		user => 'exporter',
		queries => "$dir/postgres_exporter.yaml",
		options => ['--auto-discover-databases'])->start;

	ok($all->scrape->{leader_election_worker_running}, 'each once');
	like($all->text, qr/^pg_exporter_last_scrape_error(?:\{.*\})? 0$/m, 'no error');
	$all->terminate;
	$a->sql('DROP DATABASE other WITH (FORCE)');
};

# A time, in seconds of the clock, at which this test ran.
sub is_since_start
{
	my ($time, $what) = @_;

	cmp_ok($time, '>=', $^T - 1, "$what: since this test began");
	cmp_ok($time, '<=', time + 1, "$what: and not to come");
	return;
}

subtest 'values' => sub {
	my %seen = map { $_->name => $exporter{ $_->name }->scrape } $a, $b;
	my $get = sub { $seen{ $_[0]->name }{"leader_election_$_[1]"} };

	is($get->($leader, "$_$billing"), 1, "the leader: $_")
	  foreach 'leader', 'sought', 'contends';
	is($get->($other, "leader$billing"), 0, 'the other');
	is($get->($other, "$_$billing"), 1, "the other: $_")
	  foreach 'sought', 'contends';
	is($get->($_, "expired$billing"), 0, 'nobody hangs') foreach $a, $b;
	cmp_ok($get->($leader, "time_left_seconds$billing"), '>', 0, 'time left');
	cmp_ok($get->($leader, "time_left_seconds$billing"), '<=', 14, 'not more than belief lasts');
	is($get->($other, "time_left_seconds$billing"), 0, 'without a term');
	same_term($get->($leader, "fencing_token$billing"), $leader->token('billing'), 'token');
	is_since_start($get->($leader, "last_change_timestamp_seconds$billing"), 'when');
	foreach my $node ($a, $b)
	{
		is($get->($node, 'worker_running'), 1, 'worker');
		is_since_start($get->($node, 'worker_start_time_seconds'), 'since when');
		is_since_start($get->($node, 'worker_last_answer_timestamp_seconds'), 'the last answer');
	}
	$leader->wait_for("SELECT count(*) = 2 FROM le_nodes WHERE state = 'live'");
	is(value($leader, 'seen_nodes{state="live"}'), 2, 'two nodes');
	is(value($leader, 'seen_nodes{state="revoked"}'), 0, 'and zeros, too');
	is($get->($leader, 'stat_terms_total{election="billing"}'), 1, 'terms');
	# for rates that can be divided
	cmp_ok($get->($leader, 'store_round_trips_total{election=""}'), '>', 1, 'answers');
	cmp_ok($get->($leader, 'store_round_trip_seconds_total{election=""}'), '>', 0, 'their time');
	poll_until(sub { value($leader, 'store_renewals_total{election="billing"}') > 0 }, 'renewals');
};

# Prometheus has labels of its own, "job" and "instance", and moves ours of those
# names aside.  Two jobs that fail have to be two alerts, by their names.
subtest 'Prometheus' => sub {
	my $prometheus = LeaderElection::Prometheus->new(
		exporters => [ map { $exporter{$_} } 'a', 'b' ],
		rules => "$dir/prometheus_alerts.yaml",
		labels => { cluster => 'x' })->start;

	foreach my $job ('reports', 'invoices')
	{
		$leader->psql('postgres', "CALL le_run('billing', 'SELECT 1/0', job => '$job', every => '1 day')");
	}
	$_->wait_for(q(SELECT count(*) = 2 FROM le_jobs('0') WHERE state = 'failed')) foreach $a, $b;

	my $alerts = poll_until(
		sub {
			my @failed = grep { $_->{labels}{alertname} eq 'LeaderElectionJobFailed' } $prometheus->alerts;

			return @failed == 2 && \@failed;
		},
		'two jobs to alert');
	is_deeply(
		[ sort map { $_->{annotations}{summary} } @$alerts ],
		[ map { "job $_ of billing (x) failed" } 'invoices', 'reports' ],
		'by their names');
	my @series = $prometheus->query('{__name__=~"leader_election_.*"}');
	cmp_ok(scalar @series, '>', 100, 'it has the values of the exporters');
	is_deeply([ grep { /^exported_/ } map { keys %{ $_->{metric} } } @series ], [], 'by the labels that we gave');
	is_deeply([ map { "$_->{name}: $_->{lastError}" } grep { $_->{health} ne 'ok' } $prometheus->rules ], [],
		'each rule can be evaluated on it');
	$prometheus->terminate;
	$leader->sql("SELECT le_forget_job('billing', '$_')") foreach 'reports', 'invoices';
};

# Nodes that do not contend, as alerts count.
subtest 'instances that could lead' => sub {
	my $wait = sub {
		my ($series, $value, $what) = @_;

		poll_until(sub { value($other, $series) eq $value }, $what);
		pass($what);
	};

	# a lease of a session, which no instance campaigns for
	my $session = $leader->background_psql('postgres');
	is($session->query("SELECT le_acquire('job', scope => 'session')"), 't', 'a session');
	is(value($leader, 'leader{election="job",store="consul"}'), 1, 'leads');
	is(value($leader, 'contends{election="job",store="consul"}'), 0, 'for itself');
	$session->quit;

	$other->configure(eligible => 'off');
	$wait->("contends$billing", 0, 'not eligible: it does not contend');
	is(value($other, "sought$billing"), 1, 'but would');
	$other->configure(eligible => 'on');
	$wait->("contends$billing", 1, 'it contends again');
	$other->sql("SELECT le_step_down('billing', '1 h')");
	$wait->("contends$billing", 0, 'nor after it stepped down');
};

# The alarm for a worker that hangs, and the one for a worker that is not there.
subtest 'the worker' => sub {
	my $worker = $leader->freeze_worker;

	poll_until(
		sub {
			my $seen = $exporter{ $leader->name }->scrape;

			return $seen->{"leader_election_leader$billing"} == 0
			  && $seen->{"leader_election_expired$billing"} == 1
			  && $seen->{"leader_election_contends$billing"} == 0;
		},
		'the hanging worker to be seen');
	pass('expired');
	$leader->thaw_worker($worker);

	my $started = value($leader, 'worker_start_time_seconds');
	$leader->kill_worker('TERM');
	$leader->wait_for_worker($worker);
	poll_until(sub { value($leader, 'worker_start_time_seconds') > $started },
		'the new one to be seen');
	pass('started again');
};

done_testing();
