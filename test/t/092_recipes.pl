# What people paste when they are called at night, and what calls them: run as
# it stands in the documentation, by roles with the documented grants only.

use strict;
use warnings;

use CPAN::Meta::YAML;
use LeaderElection::Consul;
use LeaderElection::Docs;
use LeaderElection::Node;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = $ENV{TESTDIR};
my $consul = LeaderElection::Consul->new('consul')->start;
my ($a, $b) = map {
	LeaderElection::Node->create(
		$_,
		consul => $consul,
		settings => { campaign => 'billing' })
} 'a', 'b';

sub leading
{
	return poll_until(
		sub { (grep { $_->is_leader('billing') } $a, $b)[0] }, 'a leader');
}

$_->sql(block('grants')) foreach $a, $b;

subtest 'on call' => sub {
	my $leader = leading();
	my $other = $leader == $a ? $b : $a;
	my ($look, $move) = block('on call') =~ /^(.*?;\n)(-- move .*)/s;
	my $as = sub { "SET ROLE billing_operator; $_[0]" };
	my @rows;

	$leader->sql("SELECT le_renew('billing')");
	$other->wait_for(
		"SELECT holder IS NOT NULL FROM le_status WHERE election = 'billing'");
	foreach my $node ($leader, $other)
	{
		$node->wait_for(
			"SELECT count(*) = 2 FROM le_nodes WHERE state = 'live'");
		@rows = split /\n/, $node->sql($as->($look));
		like(
			$rows[0],
			$node == $leader
			? qr/^billing\|leader\|\Q@{[ $leader->name ]}\E\|\d+\|00:[\d:.]+\|00:00:[\d.]+\|\|$/
			: qr/^billing\|waiting\|\Q@{[ $leader->name ]}\E\|\|\|\|\|$/,
			$node->name . ': who leads, since when, for how long');
		is(scalar(grep { /^[ab]\|(?:t|f)\|live\|/ } @rows),
			2, 'who could lead');
		is(scalar(grep { /^\S+ \S+\|[a-z ]+\|billing\|/ } @rows),
			1, 'and since when it is so');
		is($rows[-1], $leader->name, 'asked of the store');
	}

	# move it, as the operator
	@rows = split /\n/, $leader->sql($as->($move));
	is($rows[0], 't', 'moved');
	$other->wait_for_leadership('billing');
	is(
		$leader->sql("SELECT event FROM le_events WHERE election = 'billing' "
			  . "AND event = 'stepped down'"),
		'stepped down',
		'and told');
};

# The file of queries, as the exporter reads it.
my $metrics = CPAN::Meta::YAML->read("$top/docs/postgres_exporter.yaml")->[0];
my $alerts = CPAN::Meta::YAML->read("$top/docs/prometheus_alerts.yaml")->[0];
my %metric;

subtest 'postgres_exporter' => sub {
	$a->sql('CREATE ROLE exporter LOGIN; GRANT pg_monitor TO exporter');
	foreach my $name (sort keys %$metrics)
	{
		my $query = $metrics->{$name}{query};
		my %usage =
		  map { my ($column) = %$_; $column => $_->{$column}{usage} }
		  @{ $metrics->{$name}{metrics} };
		my %type = map { split /\|/ } split /\n/, $a->sql(<<"END");
CREATE TEMP VIEW columns AS $query;
SELECT attname, format_type(atttypid, NULL) FROM pg_attribute
WHERE attrelid = 'columns'::regclass
END

		is_deeply([ sort keys %type ], [ sort keys %usage ], "$name: columns");
		foreach my $column (sort keys %usage)
		{
			like($usage{$column}, qr/^(?:LABEL|COUNTER|GAUGE)$/,
				"$name.$column: usage");
			like(
				$type{$column},
				$usage{$column} eq 'LABEL'
				? qr/^text$/
				: qr/^(?:integer|bigint|double precision)$/,
				'type');
			$metric{"${name}_$column"} = 1 if $usage{$column} ne 'LABEL';
		}
		is(
			scalar(grep { !$_->{ (keys %$_)[0] }{description} }
				  @{ $metrics->{$name}{metrics} }),
			0,
			'each is described');

		# no null, which the exporter would show as NaN; and rows
		my @rows = split /\n/, $a->sql("SET ROLE exporter; $query");

		cmp_ok(scalar @rows, '>=', 1, "$name: rows");
		is(scalar(grep { /\|\||\|$/ } @rows), 0, 'without nulls');
	}

	# a counter of le_stat that is not exported
	is_deeply(
		[
			grep { !$metric{"leader_election_stat_$_"} } split /\n/,
			$a->sql("SELECT attname FROM pg_attribute WHERE attrelid = "
				  . "'le_stat'::regclass AND attnum > 0 AND atttypid = 'int8'::regtype")
		],
		[],
		'all counters');
};

# What the exporter would have shown: the value of a metric by its labels.
sub value
{
	my ($node, $name, $column, $where) = @_;

	return $node->sql(
		"SELECT $column FROM ($metrics->{$name}{query}) m WHERE $where");
}

subtest 'values' => sub {
	my $leader = leading();
	my $other = $leader == $a ? $b : $a;
	my $worker;

	is(value($leader, 'leader_election', 'leader, expired', "election = 'billing'"),
		'1|0', 'the leader');
	is(value($other, 'leader_election', 'leader, expired', "election = 'billing'"),
		'0|0', 'the other');
	is(
		value($leader, 'leader_election', 'belief_seconds BETWEEN 0.01 AND 14',
			"election = 'billing'"),
		't',
		'seconds left');
	is(value($_, 'leader_election_worker', 'running', 'true'), 1, 'worker')
	  foreach $a, $b;
	is(value($leader, 'leader_election_nodes', 'count', "state = 'live'"),
		2, 'two nodes');
	is(value($leader, 'leader_election_nodes', 'count', "state = 'revoked'"),
		0, 'and what there are none of');

	# the alarm for a worker that hangs
	$other->sql("SELECT le_step_down('billing', '1 h')");
	$worker = $leader->freeze_worker;
	poll_until(
		sub {
			value($leader, 'leader_election', 'leader, expired',
				"election = 'billing'") eq '0|1';
		},
		'the hanging worker to be seen');
	pass('expired');
	$leader->thaw_worker($worker);
};

# An alert on what nobody collects would never fire.
subtest 'alerts' => sub {
	my %seen;

	foreach my $rule (@{ $alerts->{groups}[0]{rules} })
	{
		my @named = $rule->{expr} =~ /\b(leader_election_\w+)/g;

		like($rule->{alert}, qr/^LeaderElection[A-Z]\w+$/, $rule->{alert});
		ok(!$seen{ $rule->{alert} }++, 'one of that name');
		cmp_ok(scalar @named, '>=', 1, 'has an expression');
		is_deeply([ grep { !$metric{$_} } @named ], [], 'of known metrics');
		ok($rule->{annotations}{summary}, 'says what it is about');
		like($rule->{labels}{severity}, qr/^(?:critical|warning)$/, 'severity');
		is(($rule->{expr} =~ tr/(//), ($rule->{expr} =~ tr/)//), 'balanced');
	}
	cmp_ok(scalar keys %seen, '>=', 5, 'several');
};

done_testing();
