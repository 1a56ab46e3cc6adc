# Tier: long, 158 s
#
# le_run() on three instances over a real Cassandra, which are killed, frozen,
# cut off from both gateways and stepped down while jobs run, and a gateway is
# killed: no tick runs twice, and none is lost where that was asked for.
# pg_cron runs two jobs of its own in each minute meanwhile, one that was
# scheduled by le_cron_schedule(), and one that was adopted.

use strict;
use warnings;

use LeaderElection::Cassandra;
use LeaderElection::Driver;
use LeaderElection::Gateway;
use LeaderElection::Node;
use LeaderElection::Toxiproxy;
use LeaderElection::Util;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

plan skip_all => 'dblink is not installed'
  unless LeaderElection::Driver->available;
my $sharedir = qx($ENV{PG_CONFIG} --sharedir);
chomp $sharedir;
my $cron = -e "$sharedir/extension/pg_cron.control";

my $cassandra = LeaderElection::Cassandra->shared;
my $keyspace = $cassandra->keyspace;
my @gateways = map {
	LeaderElection::Gateway->new("gateway$_",
		cassandra => $cassandra, keyspace => $keyspace)->start
} 1 .. 2;
my $toxiproxy = LeaderElection::Toxiproxy->new->start;

# Each instance has its own way to each gateway.
my %links;
foreach my $name ('a', 'b', 'c')
{
	$links{$name} =
	  [ map { $toxiproxy->link("$name$_", "127.0.0.1:$gateways[$_]{port}") } 0, 1 ];
}
my %node = map {
	my $node = LeaderElection::Node->create(
		$_,
		gateway => $links{$_},
		settings => {
			lease_ttl => '7s',
			safety_margin => '500ms',
			renew_interval => '1500ms',
			request_timeout => '1s',
			campaign => 'billing'
		},
		conf => $cron
		? {
			shared_preload_libraries => 'leader_election,pg_cron',
			'cron.use_background_workers' => 'on'
		  }
		: {});

	$_ => $node
} sort keys %links;

my $reader = $gateways[1];

sub leader
{
	my $lock = $reader->lock('billing');

	return $lock && $lock->{owner} =~ /^(\w)#/ ? $1 : undef;
}

# Before the driver begins, so that pg_cron knows the job when it does.
if ($cron)
{
	foreach my $node (values %node)
	{
		$node->sql(<<'END');
CREATE EXTENSION pg_cron;
SELECT le_cron_schedule('minute', '* * * * *', 'CALL work(''minute'')', 'billing',
	wait => '30 s', catch_up => true);
SELECT cron.schedule('adopted', '* * * * *', 'CALL work(''adopted'')');
END
		is($node->sql("SELECT every, remark FROM le_cron_adopt('billing', 'adopted', dry_run => false)"),
			'00:01:00|', 'pg_cron: adopted');
	}
}

my $driver = LeaderElection::Driver->new(
	nodes => \%node,
	leader => \&leader,
	faults => {
		'cut off' => sub {
			my ($self, $name) = @_;

			$_->down foreach @{ $links{$name} };
			$self->run_until_taken_over($name);
			$_->up foreach @{ $links{$name} };
		},
		'gateway killed' => sub {
			my ($self) = @_;

			# all ask this one first; the leader may go on by the other one
			$gateways[0]->kill9;
			$self->run_for(3);
			$gateways[0]->start;
		},
		'gateways killed' => sub {
			my ($self) = @_;

			$_->kill9 foreach @gateways;
			$self->run_for(3);
			$_->start foreach @gateways;
		}
	});

$driver->run_faults(
	'2min',
	'kill', 'step down', 'freeze', 'gateway killed', 'cut off',
	'freeze the worker', 'gateways killed', 'restart the worker');

# The minutes that have begun while the driver was at work.
my @minutes = map { $_ * 60 }
  int($driver->started / 60) + 1 .. int(time() / 60);

# Has pg_cron a run of this kind, on any instance?
sub cron_has
{
	my ($where) = @_;

	return scalar grep {
		$_->sql("SELECT EXISTS (SELECT FROM cron.job_run_details WHERE $where)") eq 't'
	} values %node;
}

# Did an instance lead, while the tick was waited for, whose pg_cron was down or
# frozen when it was due?
sub led_by_uncalled
{
	my ($minute) = @_;
	my $at = POSIX::strftime('%Y-%m-%d %H:%M:0', gmtime($minute));
	my @uncalled = grep {
		$node{$_}->log_since !~ /^\Q$at\E.*cron job \d+ starting: .*job => 'minute'/m
	} sort keys %node;

	return $driver->took_over_uncalled($minute, @uncalled);
}

# It may be late, too.
if ($cron && @minutes)
{
	$driver->run_until(
		sub {
			cron_has("start_time >= to_timestamp($minutes[-1])")
			  && !cron_has("status IN ('starting', 'running')")
			  && $driver->runs(qr/^adopted/);
		},
		'pg_cron');
}
$driver->catch_up($cron ? 'minute' : ());
$driver->check;

SKIP:
{
	my (%runs, %committed, @lost);

	skip 'pg_cron is not installed', 3 unless $cron;
	%runs = $driver->runs(qr/^minute/);
	%committed = $driver->committed;
	cmp_ok(scalar @minutes, '>', 0, 'pg_cron: a minute has begun');
	@lost = grep { !$committed{ 'minute|' . tick_of($_) =~ s/\+00//r } } @minutes;
	never([ map { 'lost: ' . tick_of($_) } grep { !led_by_uncalled($_) } @lost ],
		'pg_cron: the tick of no minute is lost');
	my %adopted = $driver->runs(qr/^adopted/);
	guarantee('G4', [ grep { @{ $adopted{$_} } > 1 } keys %adopted ], 'pg_cron: no tick of the adopted job ran twice');
	note('pg_cron: ' . join('; ', map { "$_: @{ $runs{$_} }" } sort keys %runs));
}

done_testing();
