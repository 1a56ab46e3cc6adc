
=pod

=head1 NAME

Bench - rounds, medians and results of a row of "make bench"

=head1 SYNOPSIS

  use Bench;

  rounds(
    sub {
      take('le_acquire', ours());       # one sample or many
      take('bare', peer());
    });
  metric('acquire', unit => 'ms', ours => 'le_acquire', peer => 'bare',
    ratio => '<= 1.15');
  metric('all held', unit => 's', ours => 'held', target => '<= 10');
  finish();

=head1 DESCRIPTION

A row is a program in bench/rows, run by bench/run.  Within a round whatever it
compares takes turns, so that a busy moment of the machine meets all of them
alike.  Each round contributes its median; the row has the median, least and
most of the rounds.  A ratio is taken within each round, and then the median of these.

=cut

package Bench;

use strict;
use warnings;

use Carp;
use Exporter 'import';
use JSON::PP ();
use List::Util qw(max min sum);

our @EXPORT = qw(consul_server finish gateway_samples how_many instance leave_out lines_of median metric
  note pgsql_http progress quick rounds size take take_lines
  take_rounds this_round together tool);

# PostgreSQL's test modules turn standard error into a log file.
my $stderr;

BEGIN
{
	open($stderr, '>&', \*STDERR) or die "stderr: $!";
	$stderr->autoflush(1);
}

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More ();

die "run this as \"make bench\"\n" unless $ENV{LE_SANDBOX};

my ($row, $name) = $0 =~ m{(\d+)_(\w+)\.pl$} or die "$0 is no row\n";
my (%taken, @metrics, @notes, $round);

$LeaderElection::Util::timeout_default = 240;

=pod

=head1 FUNCTIONS

=over

=item quick()

QUICK=1: as little as shows that every number comes.

=item size($full, $quick)

The one or the other.

=item progress($what)

A line on standard error.

=item tool($name)

A program that make has built for the rows.

=cut

sub quick { return $ENV{QUICK} ? 1 : 0; }

sub size { return $_[ quick() ]; }

sub progress
{
	my ($what) = @_;

	print $stderr sprintf("%2d %-10s %s\n", $row, $name, $what);
	return;
}

sub tool
{
	my ($tool) = @_;

	croak "there is no $tool: make bench builds it"
	  unless -e "$ENV{LE_BIN}/$tool";
	return "$ENV{LE_BIN}/$tool";
}

=pod

=item lines_of(@command)

The lines that a program prints; dies if it fails.

=cut

sub lines_of
{
	my (@command) = @_;

	open(my $from, '-|', @command) or croak "$command[0]: $!";
	my @lines = <$from>;

	chomp @lines;
	close($from)
	  or croak "$command[0] failed: " . ($! || $? >> 8) . ": @lines[ -min(9, scalar @lines) .. -1 ]";
	return @lines;
}

=pod

=item instance($name, %params)

A LeaderElection::Node set up as servers are: commits reach the disk.

=item consul_server(%params)

A Consul server set up as its documentation sets one up for use: what it says is
done is on its disk.  One in memory only (B<-dev>) would answer in a third of the
time, and make all that is beside a request look dear.  Parameters are those of
LeaderElection::Consul.

=item pgsql_http($node)

Whether the server has pgsql-http (its C<make install>, or PGDG's package); creates
it then, and keeps its connections, as its documentation says for many requests.
Sessions that are there already do not see that.

=item gateway_samples($test, %environment)

The lines of a test of test/gateway that measures.

=cut

sub instance
{
	my ($node, %params) = @_;
	my %conf = (
		fsync => 'on',
		autovacuum => 'off',
		jit => 'off',
		max_connections => 150,
		max_parallel_workers_per_gather => 0,
		%{ delete $params{conf} // {} });

	return LeaderElection::Node->create($node, conf => \%conf, %params);
}

sub consul_server
{
	return LeaderElection::Consul->new('consul', log_level => 'warn',
		persistent => 1, @_)->start;
}

sub pgsql_http
{
	my ($node) = @_;
	my $version = $node->ask(
		"SELECT default_version FROM pg_available_extensions WHERE name = 'http'");

	if (!$version)
	{
		leave_out('pgsql-http', 'not installed for this PostgreSQL');
		return 0;
	}
	$node->sql(<<'END');
CREATE EXTENSION http;
ALTER DATABASE postgres SET http.curlopt_tcp_keepalive = 1;
END
	note("beside pgsql-http $version");
	return 1;
}

sub gateway_samples
{
	my ($test, %environment) = @_;
	local %ENV = (
		%ENV, %environment,
		BENCH => $environment{BENCH} // $name,
		GATEWAY => tool('le-gateway'),
		CLUSTER => "$ENV{TESTDIR}/test/services/cassandra/cluster");

	$ENV{CLUSTER_DIR} //= "$ENV{LE_SANDBOX}/cassandra";
	return map { /^sample (\S+ \S+)$/ ? $1 : () } lines_of(tool('gateway-tests'),
		'-test.run', "^$test\$", '-test.timeout', '30m');
}

=pod

=item rounds($code, [ $default ])

Runs it ROUNDS times (5), once if quick.

=item take($case, @samples)

Takes the samples of this round; a row may take without rounds, which is one.

=item take_lines($prefix, $scale, @lines)

The same from lines "CASE NUMBER", each number times the scale.

=item how_many([ $default ])

The number of rounds, for a row that runs them itself, its cases side by side.

=item take_rounds($case, @samples)

Takes its own measurements, a sample of each round.

=item this_round($case)

The median of what was taken in this round.

=item together($sum, @cases)

A case that is the sum of others, round by round.

=cut

sub how_many
{
	my ($default) = @_;

	return size($ENV{ROUNDS} || $default || 5, 1);
}

sub rounds
{
	my ($code, $default) = @_;
	my $rounds = how_many($default);

	foreach my $n (1 .. $rounds)
	{
		progress("round $n of $rounds");
		$round = $n - 1;
		$code->($n);
	}
	undef $round;
	return;
}

sub take_rounds
{
	my ($case, @rounds) = @_;

	$taken{$case}{rounds}[$_] = [ $rounds[$_] ] foreach 0 .. $#rounds;
	return;
}

sub take
{
	my ($case, @samples) = @_;

	croak "$case: no samples" unless @samples;
	push @{ $taken{$case}{rounds}[ $round // 0 ] }, @samples;
	return;
}

sub take_lines
{
	my ($prefix, $scale, @lines) = @_;
	my %samples;

	foreach my $line (@lines)
	{
		my ($case, $number) = $line =~ /^(\S+)[ |]([\d.e+-]+)$/
		  or croak "no sample: $line";

		push @{ $samples{$case} }, $number * $scale;
	}
	croak "$prefix: no samples" unless %samples;
	take($prefix . $_, @{ $samples{$_} }) foreach keys %samples;
	return;
}

sub this_round
{
	my ($case) = @_;

	return median(@{ $taken{$case}{rounds}[ $round // 0 ] });
}

sub together
{
	my ($sum, @cases) = @_;
	my @of = map { [ per_round($_) ] } @cases;

	foreach my $i (0 .. min(map { $#$_ } @of))
	{
		push @{ $taken{$sum}{rounds}[$i] }, sum(map { $_->[$i] } @of);
	}
	return;
}

=pod

=item median(@values)

=cut

sub median
{
	my @sorted = sort { $a <=> $b } @_;
	my $middle = int(@sorted / 2);

	return @sorted % 2 ? $sorted[$middle]
	  : ($sorted[ $middle - 1 ] + $sorted[$middle]) / 2;
}

sub per_round
{
	my ($case) = @_;

	croak "$case was not measured" unless $taken{$case};
	return map { median(@$_) } grep { $_ } @{ $taken{$case}{rounds} };
}

sub summary
{
	my ($case) = @_;
	my @rounds = per_round($case);

	return {
		case => $case,
		median => median(@rounds) + 0,
		min => min(@rounds) + 0,
		max => max(@rounds) + 0,
		n => scalar(map { @{ $_ // [] } } @{ $taken{$case}{rounds} })
	};
}

=pod

=item metric($what, unit => $unit, ours => $case, %more)

A line of the table.  More: peer (the case beside it), ratio (what ours / peer
should be, as "<= 1.15"), target (what ours should be, as "<= 40").  A peer that
was left out leaves out the line.

=cut

sub met
{
	my ($value, $target) = @_;
	my ($sign, $limit) = ($target // '') =~ /^(<=|>=|<|>|=) ([\d.]+)$/
	  or return JSON::PP::null;
	my %met = (
		'<=' => $value <= $limit,
		'>=' => $value >= $limit,
		'<' => $value < $limit,
		'>' => $value > $limit,
		'=' => $value == $limit);

	return $met{$sign} ? JSON::PP::true : JSON::PP::false;
}

sub metric
{
	my ($what, %params) = @_;
	my $ours = summary($params{ours});
	my %metric = (
		row => $row + 0,
		name => $name,
		metric => $what,
		unit => $params{unit},
		ours => $ours,
		n => $ours->{n},
		rounds => scalar(per_round($params{ours})),
		quick => quick() ? JSON::PP::true : JSON::PP::false);

	if (my $peer = $params{peer})
	{
		my @ours = per_round($params{ours});
		my @ratios;

		return unless $taken{$peer};
		foreach my $beside (per_round($peer))
		{
			my $one = shift @ours // last;

			push @ratios, $one / $beside if $beside > 0;
		}
		$metric{peer} = summary($peer);
		# a ratio to next to nothing says nothing
		@ratios = () if $metric{peer}{min} <= 0;
		$metric{ratio} = median(@ratios) if @ratios;
		$metric{target} = "ratio $params{ratio}" if $params{ratio};
		$metric{met} = met($metric{ratio}, $params{ratio})
		  if $params{ratio} && @ratios;
	}
	if ($params{target})
	{
		$metric{target} = "$params{target} $params{unit}";
		$metric{met} = met($ours->{median}, $params{target});
	}
	push @metrics, \%metric;
	return;
}

=pod

=item note($text)

Adds a remark for readers of the numbers.

=item leave_out($peer, $why)

=cut

sub note
{
	my ($text) = @_;

	push @notes, { row => $row + 0, name => $name, text => $text };
	progress($text);
	return;
}

sub leave_out
{
	my ($peer, $why) = @_;

	return note("left out: $peer: $why");
}

=pod

=item finish()

Leaves what was measured where bench/run looks for it.

=back

=cut

sub finish
{
	my $file = "$ENV{LE_SANDBOX}/bench/$name.json";

	croak 'nothing was measured' unless @metrics;
	open(my $fh, '>', "$file.new") or croak "$file: $!";
	print $fh JSON::PP->new->canonical->encode(
		{ results => \@metrics, notes => \@notes });
	close $fh;
	rename("$file.new", $file) or croak "$file: $!";
	Test::More::pass('measured');
	Test::More::done_testing();
	return;
}

1;
