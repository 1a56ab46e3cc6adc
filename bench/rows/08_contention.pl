# 50 sessions on each of three instances take and give back one election, beside
# 100 that take an advisory lock of one instance, and as many locks of
# Consul's Go client.  Does one of them starve, and do waiting ones cost requests?

use strict;
use warnings;

use Bench;
use List::Util qw(max sum);
use Time::HiRes qw(time);

my ($clients, $few) = (size(50, 8), 2);
my $seconds = size(30, 2);
my $shorter = size(10, 2);    # for peers

# All Go clients have one address, each with a connection for its lock and one
# for its long poll; Consul allows 200 per address.
my $consul = consul_server(config => 'limits { http_max_conns_per_client = 1000 }');
my @nodes = map { instance("n$_", consul => $consul) } 1 .. 3;
my $run = 0;

sub script
{
	my ($name, $text) = @_;
	my $file = "$PostgreSQL::Test::Utils::tmp_check/$name.sql";

	open(my $fh, '>', $file) or die "$file: $!";
	print $fh $text;
	close $fh;
	return $file;
}

# Scope "session", like the peers' locks: in scope "node" all sessions of an instance
# would hold it at once.
my $ours = script('ours', "SELECT le_acquire('one', scope => 'session', wait => '5 min');\n"
	  . "SELECT le_release('one');\n");
my $advisory = script('advisory',
	"SELECT pg_advisory_lock(1);\nSELECT pg_advisory_unlock(1);\n");

# pgbench side by side; returns the times of all transactions, in ms, by client.
sub crowd
{
	my ($script, $clients, $seconds, @on) = @_;
	my (%took, @pipes);

	$run++;
	foreach my $node (@on)
	{
		my $log = "$PostgreSQL::Test::Utils::tmp_check/crowd_${run}_" . $node->name;

		open(my $pipe, '-|', $node->installed_command('pgbench'), '-n', '-l',
			"--log-prefix=$log", '-T', $seconds, '-c', $clients, '-f', $script,
			'-h', $node->host, '-p', $node->port, 'postgres')
		  or die "pgbench: $!";
		push @pipes, [ $pipe, $log, $node->name ];
	}
	foreach my $of (@pipes)
	{
		my ($pipe, $log, $name) = @$of;

		1 while <$pipe>;
		close $pipe or die "pgbench of $name failed\n";
		$took{"$name $_"} //= [] foreach 0 .. $clients - 1;
		foreach my $file (glob "$log.*")
		{
			open(my $fh, '<', $file) or die "$file: $!";
			while (<$fh>)
			{
				my ($client, undef, $us) = split ' ';

				push @{ $took{"$name $client"} }, $us / 1000;
			}
			unlink $file;
		}
	}
	return \%took;
}

sub take_crowd
{
	my ($case, $took, $seconds) = @_;
	my @all = map { @$_ } values %$took;

	take("$case rate", @all / $seconds);
	take("$case median", median(@all));
	take("$case longest", max(@all));
	take("$case starved", scalar grep { !@$_ } values %$took);
	return;
}

sub requests
{
	return sum(map { $_->ask('SELECT sum(round_trips) FROM le_stat_store') } @nodes);
}

sub contend
{
	my ($case, $clients, $seconds) = @_;
	my $before = requests();
	my $took = crowd($ours, $clients, $seconds, @nodes);
	my $pairs = sum(map { scalar @$_ } values %$took) || 1;

	take("$case requests", (requests() - $before) / $pairs);
	return $took;
}

# Each Go client reports its number of locks and its longest wait only.
sub take_go
{
	my @lines = lines_of(tool('consul-lock'), '-address', $consul->host_port,
		'-key', 'bench/go', '-contend', 3 * $clients, '-for', "${shorter}s");
	my @each = map { [ (split ' ')[ 1, 2 ] ] } grep { /^client / } @lines;

	take('Go rate', sum(map { $_->[0] } @each) / $shorter);
	take('Go longest', max(map { $_->[1] } @each) / 1000);
	take('Go starved', scalar grep { !$_->[0] } @each);
	return;
}

rounds(
	sub {
		take_crowd('few', contend('few', $few, $shorter), $shorter);
		take_crowd('ours', contend('ours', $clients, $seconds), $seconds);
		take_crowd('advisory',
			crowd($advisory, 2 * $clients, $shorter, $nodes[0]), $shorter);
		take_go();
		take('longest / median', this_round('ours longest') / this_round('ours median'));
	});

metric('turns', unit => '/s', ours => 'ours rate', peer => 'advisory rate');
metric('turns', unit => '/s', ours => 'ours rate', peer => 'Go rate',
	ratio => '> 1');
metric('sessions that had no turn', unit => 'sessions', ours => 'ours starved',
	target => '= 0');
metric('sessions that had no turn', unit => 'sessions', ours => 'ours starved',
	peer => 'Go starved');
metric('longest turn / median', unit => 'times', ours => 'longest / median',
	target => '<= 10');
metric('longest turn', unit => 'ms', ours => 'ours longest', peer => 'Go longest');
metric('requests per turn, ' . 3 * $clients . ' beside ' . 3 * $few . ' sessions',
	unit => 'requests', ours => 'ours requests', peer => 'few requests',
	ratio => '<= 1.1');
finish();
