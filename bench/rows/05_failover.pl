# The time without a leader after the death of the leader's instance, and the
# store's cost of holding an election.
#
# Each case is a pair of its own, and all pairs run at the same time.  A round
# kills all processes of the leading instance with SIGKILL, at a random moment,
# and takes the time until the other is seen to lead; then the dead one comes back
# and waits for its turn.  The same is done with "consul lock" and with the Lock
# of Consul's Go client (test/goclient).
#
# Variables: ELECTIONS (20; for the pair with the shortest lease, all of them
# move), WINDOW (30; seconds of the count of requests).

use strict;
use warnings;

use Bench;
use JSON::PP ();
use LeaderElection::Cassandra;
use LeaderElection::Consul;
use LeaderElection::Gateway;
use LeaderElection::Node;
use LeaderElection::Sampler;
use LeaderElection::Util;
use List::Util qw(max min);
use POSIX ();
use PostgreSQL::Test::Utils;
use Time::HiRes qw(usleep);

my $rounds = how_many();
my $elections = $ENV{ELECTIONS} // size(20, 3);
my $window = $ENV{WINDOW} // size(30, 1);
my $consul = LeaderElection::Consul->new('consul')->start;
my $cassandra = LeaderElection::Cassandra->shared;
my $gateway = LeaderElection::Gateway->new('gateway', cassandra => $cassandra,
	keyspace => $cassandra->keyspace)->start;
my $json = JSON::PP->new->canonical;

# ---- when did a node lead an election? ----

# Asks a node about several elections at once, in a child process.
package Sample;

use LeaderElection::Util;

sub start
{
	my ($class, $node, @elections) = @_;
	my $file = $PostgreSQL::Test::Utils::tmp_check . '/samples_'
	  . $node->name;
	my $query = 'SELECT concat_ws(\',\', '
	  . join(', ',
		map { "CASE WHEN le_is_leader('$_') THEN "
			  . "coalesce(le_fencing_token('$_')::text, '0') ELSE '0' END" }
		  @elections) . ");\n";
	open(my $fh, '>>', $file) or die "$file: $!";
	$fh->autoflush(1);
	my $pid = fork() // die "fork: $!";
	if ($pid == 0)
	{
		eval {
			LeaderElection::Sampler::_sample(
				$fh,
				[
					'setpriv', '--pdeathsig', 'KILL',
					$node->installed_command('psql'), '-XAtq', '-d',
					$node->connstr('postgres') ],
				$query, 0.005, getppid());
		};
		POSIX::_exit(0);
	}
	return bless { pid => $pid, file => $file, elections => [@elections] },
	  $class;
}

sub stop
{
	my ($self) = @_;

	kill('TERM', $self->{pid});
	waitpid($self->{pid}, 0);
	return;
}

# By election, the intervals [ from, to, token ] of certain belief.
sub beliefs
{
	my ($self) = @_;
	my (%beliefs, @current);

	open(my $fh, '<', $self->{file}) or die "$self->{file}: $!";
	while (my $line = <$fh>)
	{
		my ($before, $after, $tokens) =
		  $line =~ /^(\d+) (\d+) ([0-9,]+)$/ or next;
		my @tokens = split /,/, $tokens;

		foreach my $i (0 .. $#tokens)
		{
			if ($tokens[$i] == 0)
			{
				$current[$i] = undef;
			}
			elsif (!$current[$i] || $current[$i][2] != $tokens[$i])
			{
				$current[$i] = [ $after, $after, $tokens[$i] ];
				push @{ $beliefs{ $self->{elections}[$i] } }, $current[$i];
			}
			else
			{
				$current[$i][1] = $before;
			}
		}
	}
	return \%beliefs;
}

sub overlaps
{
	my ($class, $one, $other) = @_;
	my ($a, $b) = ($one->beliefs, $other->beliefs);
	my $count = 0;

	foreach my $election (@{ $one->{elections} })
	{
		foreach my $x (@{ $a->{$election} // [] })
		{
			$count += grep { $_->[0] < $x->[1] && $x->[0] < $_->[1] }
			  @{ $b->{$election} // [] };
		}
	}
	return $count;
}

package main;

# ---- pairs of instances ----

sub random_pause
{
	my ($seconds) = @_;

	usleep(rand($seconds) * 1e6);
	return;
}

sub make_pair
{
	my ($name, $store, $count, %settings) = @_;
	my @elections = map { "$name$_" } 1 .. $count;
	my %pair = (name => $name, elections => \@elections);
	my %store = $store eq 'consul' ? (consul => $consul) : (gateway => $gateway);

	$settings{consul_key_prefix} = "bench_$name" if $store eq 'consul';

	foreach my $side ('x', 'y')
	{
		$pair{$side} = LeaderElection::Node->create(
			"${name}_$side",
			%store,
			settings => {
				%settings,
				campaign => join(',', @elections)
			});
	}
	return \%pair;
}

sub leads_all
{
	my ($pair, $node) = @_;

	return $node->sql('SELECT count(*) FROM le_status '
		  . "WHERE fencing_token IS NOT NULL AND state = 'leader'") ==
	  @{ $pair->{elections} };
}

# One side leads everything, the other waits, and has seen it alive.
sub settle
{
	my ($pair) = @_;
	my ($x, $y) = @$pair{ 'x', 'y' };
	my $leader = poll_until(
		sub {
			my @leaders = grep { $_->sql('SELECT count(*) FROM le_status '
				  . 'WHERE fencing_token IS NOT NULL') } $x, $y;

			# both may have won some at their start
			$leaders[1]->sql(q{SELECT le_step_down(hold_off => '1 s')})
			  if @leaders > 1;
			return @leaders == 1 && leads_all($pair, $leaders[0])
			  ? $leaders[0] : undef;
		},
		"$pair->{name}: one leader");
	my $waiter = $leader == $x ? $y : $x;
	my $name = $leader->name;

	# Cassandra has no keys of nodes
	$waiter->wait_for(
		"SELECT (SELECT bool_and(state = 'waiting') FROM le_status) AND "
		  . "(current_setting('leader_election.backend') <> 'consul' OR EXISTS (SELECT FROM le_nodes WHERE node = '$name' "
		  . "AND state = 'live' AND last_proof_seen_at > "
		  . "clock_timestamp() - 2 * lease))",
		$waiter->name . ' to wait');
	return ($leader, $waiter);
}

# Seconds until the first, and until the last, of the elections was led.
sub first_and_last
{
	my ($pair, $sample, $since) = @_;
	my @first;

	poll_until(
		sub {
			my $beliefs = $sample->beliefs;

			@first = map {
				my ($term) = grep { $_->[0] > $since } @{ $beliefs->{$_} };
				$term ? $term->[0] : ();
			} @{ $pair->{elections} };
			return @first == @{ $pair->{elections} };
		},
		"$pair->{name}: takeover",
		interval => 0.2);
	return ((min(@first) - $since) / 1e9, (max(@first) - $since) / 1e9);
}

sub run_pair
{
	my ($pair, $lease) = @_;
	my %sample = map {
		$pair->{$_}->name => Sample->start($pair->{$_},
			@{ $pair->{elections} })
	} 'x', 'y';
	my %result;

	foreach my $round (1 .. $rounds)
	{
		my ($leader, $waiter) = settle($pair);

		progress("$pair->{name}: round $round of $rounds");
		random_pause($lease / 3);

		my $since = boottime_ns();
		$leader->crash;
		my ($one, $all) =
		  first_and_last($pair, $sample{ $waiter->name }, $since);
		push @{ $result{one} }, $one;
		push @{ $result{all} }, $all;
		$leader->start;
	}
	$_->stop foreach values %sample;
	$result{overlaps} = Sample->overlaps(values %sample);
	return \%result;
}

# ---- Consul's own client ----

# The Lock of Consul's Go client reports its state by itself.
sub go_lock
{
	my ($ttl, $key, $file) = @_;

	pipe(my $in, my $out) or die "pipe: $!";
	open(my $said, '>', $file) or die "$file: $!";
	POSIX::fcntl($out, POSIX::F_SETFD(), 0);    # it ends with its input
	POSIX::dup2(fileno($in), 0);
	POSIX::dup2(fileno($said), 1);
	exec 'setpriv', '--pdeathsig', 'KILL', tool('consul-lock'), '-address',
	  $consul->host_port, '-key', $key, '-name', 'go', '-ttl', "${ttl}s",
	  '-delay', "${ttl}s"
	  or die "exec: $!";
}

# The command of "consul lock" reports when it got the lock.
sub consul_lock
{
	my ($key, $file) = @_;
	my $command = "exec setpriv --pdeathsig KILL $^X -MTime::HiRes -e '"
	  . 'open(F, ">", shift); printf F "locked %d\\n", '
	  . 'Time::HiRes::clock_gettime(7) * 1e9; close F; sleep 3600'
	  . "' $file";

	exec('setpriv', '--pdeathsig', 'KILL', $consul->binary,
		'lock', '-http-addr=' . $consul->url, $key, $command)
	  or die "exec: $!";
}

# A contender in a process group of its own.
sub contend
{
	my ($name, $code) = @_;
	my $file = "$PostgreSQL::Test::Utils::tmp_check/$name";

	unlink $file;    # before its writer starts

	my $pid = fork() // die "fork: $!";

	if ($pid == 0)
	{
		setpgrp(0, 0);
		eval { $code->($file); };
		POSIX::_exit(1);
	}
	return { pid => $pid, file => $file };
}

sub held
{
	my ($contender) = @_;

	return -s $contender->{file}
	  && slurp_file($contender->{file}) =~ /^locked (\d+)$/m ? $1 : 0;
}

sub run_clients
{
	my ($name, $ttl, $code) = @_;
	my $number = 0;
	my $leader = contend("$name-" . ++$number, $code);
	my @took;

	poll_until(sub { held($leader) }, "$name: first");
	foreach my $round (1 .. $rounds)
	{
		my $waiter = contend("$name-" . ++$number, $code);

		progress("$name: round $round of $rounds");
		usleep(2e6);    # its long poll is parked by then
		random_pause($ttl / 2);

		my $since = boottime_ns();

		kill('KILL', -$leader->{pid}, $leader->{pid});
		waitpid($leader->{pid}, 0);
		poll_until(sub { held($waiter) }, "$name: next");
		push @took, (held($waiter) - $since) / 1e9;
		$leader = $waiter;
	}
	kill('KILL', -$leader->{pid}, $leader->{pid});
	waitpid($leader->{pid}, 0);
	return { one => \@took };
}

# ---- requests per second ----

# Three nodes on a Consul of their own, with every request in its log.
sub per_second
{
	my ($server) = @_;
	my $offset = $server->log_size;
	my $start = boottime_ns();

	usleep($window * 1e6);
	my $count = () = $server->requests($offset);
	return $count / ((boottime_ns() - $start) / 1e9);
}

sub count_requests
{
	my ($server, @nodes) = @_;
	my %result;

	foreach my $lease (15, 3)
	{
		my $what = "lease $lease s";

		foreach my $node (@nodes)
		{
			$node->configure(
				lease_ttl => "${lease}s",
				safety_margin => $lease < 5 ? '500ms' : '1s');
			$node->restart;
		}
		$result{$what}{idle} = per_second($server) / 3;
		foreach my $i (0 .. 2)
		{
			$nodes[$i]->acquire("own$i", wait => '60s') or die;
		}
		usleep(2 * $lease * 1e6);    # until the start is over
		$result{$what}{leading} = per_second($server) / 3;
		$nodes[$_]->release("own$_") foreach 0 .. 2;
		foreach my $node (@nodes)
		{
			$node->sql("SELECT le_campaign('one')");
			poll_until(sub { $node->leader('one') }, 'a leader')
			  if $node == $nodes[0];
		}
		usleep(2 * $lease * 1e6);
		$result{$what}{waiting} =
		  (per_second($server) - $result{$what}{leading}) / 2;
		$_->sql("SELECT le_withdraw('one')") foreach @nodes;
	}
	return \%result;
}

# ---- all at once ----

my @running;

sub in_background
{
	my ($name, $code) = @_;

	pipe(my $read, my $write) or die "pipe: $!";
	my $pid = fork() // die "fork: $!";
	if ($pid == 0)
	{
		close $read;
		srand($$);
		my $result = eval { $code->() };

		print $write $json->encode($result // { error => "$@" });
		close $write;
		POSIX::_exit(0);
	}
	close $write;
	push @running, { name => $name, pid => $pid, read => $read };
	return;
}

sub results
{
	my %result;

	foreach my $job (@running)
	{
		local $/ = undef;
		my $text = readline($job->{read});

		waitpid($job->{pid}, 0);
		$result{ $job->{name} } = $json->decode($text);
		die "$job->{name}: $result{$job->{name}}{error}\n"
		  if ref $result{ $job->{name} } eq 'HASH'
		  && $result{ $job->{name} }{error};
	}
	return \%result;
}


my %lease = (l15 => 15, l10 => 10, l3 => 3, off10 => 10, c15 => 15, c10 => 10);
my @names = @{ size([ sort keys %lease ], [ 'l3', 'c10' ]) };
my %settings = (
	l3 => { safety_margin => '500ms' },
	off10 => { consul_takeover => 'off' });
my %pair = map {
	$_ => make_pair($_, /^c/ ? 'cassandra' : 'consul', $_ eq 'l3' ? $elections : 1,
		lease_ttl => "$lease{$_}s", %{ $settings{$_} // {} })
} @names;

foreach my $name (sort keys %pair)
{
	in_background($name, sub { run_pair($pair{$name}, $lease{$name}) });
}
# A session with a shorter TTL does not survive a busy moment.
my $shortest = size(10, 5);
foreach my $ttl (@{ size([ 15, $shortest ], [$shortest]) })
{
	in_background("go$ttl",
		sub { run_clients("go$ttl", $ttl, sub { go_lock($ttl, "bench_go$ttl", @_) }) });
}

# Both servers end with their variables, so declare them here, above their users.
my ($counted, @counted);

unless (quick())
{
	$counted = LeaderElection::Consul->new('counted')->start;
	@counted =
	  map { LeaderElection::Node->create("n$_", consul => $counted) } 1 .. 3;

	in_background('lock',
		sub { run_clients('lock', 15, sub { consul_lock('bench_lock', @_) }) });
	in_background('requests', sub { count_requests($counted, @counted) });
}

my $result = results();
my $overlaps = 0;

foreach my $name (grep { /^(?!req)/ } keys %$result)
{
	take_rounds($name, @{ $result->{$name}{one} });
	take_rounds("$name all", @{ $result->{$name}{all} }) if $result->{$name}{all};
	$overlaps += $result->{$name}{overlaps} // 0;
}
take('overlaps', $overlaps);

sub failover
{
	my ($what, $case, @more) = @_;

	metric("kill -9 until the other leads: $what", unit => 's', ours => $case, @more)
	  if $result->{ $case =~ s/ .*//r };
	return;
}

failover('Consul, lease 15 s', 'l15', target => '<= ' . (1.25 * 15 + 0.5));
failover('Consul, lease 15 s', 'l15', peer => 'lock', ratio => '< 1');
failover('Consul, lease 15 s', 'l15', peer => 'go15', ratio => '< 1');
failover('Consul, lease 10 s', 'l10', target => '<= ' . (1.25 * 10 + 0.5));
failover('Consul, lease 10 s', 'l10', peer => 'go10', ratio => '< 1');
failover('Consul, lease 3 s', 'l3', target => '<= ' . (1.25 * 3 + 0.5));
failover("the last of $elections elections", 'l3 all',
	target => '<= ' . (1.25 * 3 + 0.5));
failover('Consul, lease 10 s, consul_takeover = off', 'off10', peer => 'go10');
failover('Cassandra, lease 15 s', 'c15', target => '<= 16');
failover('Cassandra, lease 10 s', 'c10', target => '<= 11');
metric('moments with two leaders', unit => 'moments', ours => 'overlaps',
	target => '= 0');
foreach my $lease (sort keys %{ $result->{requests} // {} })
{
	foreach my $what ('idle', 'leading', 'waiting')
	{
		take("$lease $what", $result->{requests}{$lease}{$what});
		metric("requests of a node, $lease, $what", unit => '/s', ours => "$lease $what");
	}
}
finish();
