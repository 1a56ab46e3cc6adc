# Are 1,000 terms kept while instances campaign for 9,000 more elections, and while
# 200 sessions acquire and release others, and for how long does a change of
# lease_ttl end them?

use strict;
use warnings;

use Bench;
use LeaderElection::Session;
use Time::HiRes qw(sleep time);

my ($held, $more) = (size(1000, 100), size(9000, 400));
my ($sessions, $seconds) = (size(200, 20), size(30, 2));
my $limit = 120;
my $consul = consul_server();

sub count_held
{
	my ($node, $from, $to) = @_;

	return $node->ask("SELECT count(*) FROM generate_series($from, $to) i "
		  . "WHERE le_is_leader('e' || i)");
}

sub lost { return $_[0]->ask('SELECT coalesce(sum(losses), 0) FROM le_stat'); }

# Seconds until all are led, at most the limit.
sub until_held
{
	my ($node, $from, $to) = @_;
	my $began = time;

	while (count_held($node, $from, $to) < $to - $from + 1)
	{
		return $limit if time - $began > $limit;
		sleep 0.05;
	}
	return time - $began;
}

sub campaign
{
	my ($node, $from, $to) = @_;

	$node->sql(
		"SELECT count(le_campaign('e' || i)) FROM generate_series($from, $to) i");
	return;
}

# Transactions per second of many sessions.
sub crowd
{
	my ($node) = @_;
	my $file = "$PostgreSQL::Test::Utils::tmp_check/crowd.sql";
	my $done = 0;

	open(my $fh, '>', $file) or die "$file: $!";
	print $fh "SELECT le_acquire('crowd' || :client_id);\n"
	  . "SELECT le_release('crowd' || :client_id);\n";
	close $fh;
	my ($transactions) = join("\n", lines_of(
			$node->installed_command('pgbench'), '-n', '-T', $seconds, '-c', $sessions,
			'-j', 2, '-f', $file, '-h', $node->host, '-p', $node->port, 'postgres'))
	  =~ /^number of transactions actually processed: (\d+)/m;

	return $transactions / $seconds;
}

# The tokens as text; 0 for an election that is not held.
sub tokens
{
	my ($node) = @_;

	return $node->ask("SELECT array_agg(coalesce(le_fencing_token('e' || i), 0) "
		  . "ORDER BY i) FROM generate_series(1, $held) i");
}

# Seconds until each is led in another term than before.
sub until_led_anew
{
	my ($node, $before) = @_;
	my $began = time;

	while ($node->ask("SELECT count(*) FROM unnest('$before'::bigint[]) "
				. "WITH ORDINALITY AS was (token, i) "
				. "WHERE le_fencing_token('e' || i) > token") < $held)
	{
		return $limit if time - $began > $limit;
		sleep 0.05;
	}
	return time - $began;
}

my $number = 0;

rounds(
	sub {
		my $node = instance('n' . ++$number, consul => $consul,
			conf => { max_connections => $sessions + 50 },
			settings => {
				lease_ttl => '10s',
				max_elections => $held + $more + $sessions + 16,
				consul_key_prefix => "overload$number"
			});

		campaign($node, 1, $held);
		until_held($node, 1, $held);

		my $lost = lost($node);

		campaign($node, $held + 1, $held + $more);
		take('admitted', until_held($node, $held + 1, $held + $more));
		take('lost by campaigns', lost($node) - $lost);
		$node->sql("SELECT count(le_withdraw('e' || i)) "
			  . "FROM generate_series($held + 1, $held + $more) i");
		$node->wait_for('SELECT count(*) = ' . $held
			  . ' FROM le_status WHERE fencing_token IS NOT NULL AND '
			  . "state = 'leader'");
		until_held($node, 1, $held);
		$lost = lost($node);
		take('crowd', crowd($node));
		take('lost by sessions', lost($node) - $lost);

		my $before = tokens($node);

		$node->configure(lease_ttl => '12s');
		take('led again', until_led_anew($node, $before));
		$node->hang_up;
		$node->stop('immediate');
		$node->clean_node;
	},
	3);
metric("$held held, $more more campaign: terms lost", unit => 'terms',
	ours => 'lost by campaigns', target => '= 0');
metric("until the $more more are held", unit => 's', ours => 'admitted');
metric("$held held, $sessions sessions acquire and release: terms lost",
	unit => 'terms', ours => 'lost by sessions', target => '= 0');
metric("acquires and releases of the $sessions sessions", unit => '/s',
	ours => 'crowd');
metric("lease_ttl changed: until all $held are led", unit => 's',
	ours => 'led again', target => '<= 15');
finish();
