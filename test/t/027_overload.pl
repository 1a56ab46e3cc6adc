# What must not hold up the worker: a name server that hangs, and thousands of
# candidacies.  Terms that are held are kept, questions are answered, and the
# instance shuts down as fast as ever.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Requests;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $consul = LeaderElection::Consul->new('consul')->start;
my $dir = PostgreSQL::Test::Utils::tempdir;

# A resolver that takes 20 s to find out nothing, while the file is there.
sub resolver
{
	my $library = "$dir/resolver";
	my $output;

	append_to_file("$library.c", <<'END');
#include <dlfcn.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int
getaddrinfo(const char *name, const char *service,
			const struct addrinfo *hints, struct addrinfo **result)
{
	int			(*real) (const char *, const char *, const struct addrinfo *,
						 struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");

	if (name == NULL || strcmp(name, "slow.example") != 0)
		return real(name, service, hints, result);
	for (int i = 0; i < 20 && access(getenv("LE_HANGS"), F_OK) == 0; i++)
		sleep(1);
	if (access(getenv("LE_HANGS"), F_OK) == 0)
		return EAI_AGAIN;
	return real("127.0.0.1", service, hints, result);
}
END
	IPC::Run::run(
		[
			$ENV{CC} // 'cc', '-D_GNU_SOURCE', '-shared', '-fPIC', '-o',
			"$library.so", "$library.c", '-ldl'
		],
		'>&', \$output) or die $output;
	return "$library.so";
}

subtest 'a name server that hangs' => sub {
	my $hangs = "$dir/hangs";
	my $url = $consul->url =~ s{//[^:/]+}{//slow.example}r;
	my $node;

	append_to_file($hangs, '');
	{
		local $ENV{LD_PRELOAD} = join(' ', resolver(), $ENV{LD_PRELOAD} // ());
		local $ENV{LE_HANGS} = $hangs;

		$node = LeaderElection::Node->create('resolver',
			consul => $url,
			settings => { request_timeout => '1s', shutdown_timeout => '2s' });
	}

	my $took = timed(
		sub {
			like(
				$node->sql_error("SELECT le_acquire('x')"),
				qr/ERROR:  LE003: .*DETAIL:  [^\n]*name[^\n]*timed out/s,
				'an acquire says so');
		});
	cmp_ok($took, '<', 6, 'in its own time');

	# Each of these is answered by the worker; it never waits for a look-up.
	my $longest = 0;
	my $until = time + 5;
	while (time < $until)
	{
		my $one = timed(sub { $node->sql("SELECT le_withdraw('x')") });
		$longest = $one if $one > $longest;
	}
	cmp_ok($longest, '<', 8, 'the worker goes on meanwhile');
	# Of a machine that is busy the worker has its share, late.
	cmp_ok($node->sql('SELECT longest_turn FROM le_stat_info'),
		'<', 1000, 'no look-up is waited for');

	# Each look-up costs a thread: for what people look at there is an end to
	# it, but not for what keeps terms.
	my @readers = map { LeaderElection::Session->new($node) } 1 .. 12;

	$_->start("SELECT le_current_leader('x')") foreach @readers;
	$_->finish foreach @readers;
	poll_until(
		sub {
			$node->sql_error("SELECT le_current_leader('x')") =~
			  /name server does not answer/;
		},
		'not every question has a look-up of its own');
	like(
		$node->sql_error("SELECT le_acquire('x')"),
		qr/ERROR:  LE003: .*DETAIL:  [^\n]*name[^\n]*timed out/s,
		'a session is asked for all the same');

	unlink $hangs;
	poll_until(sub { $node->sql_error("SELECT le_acquire('x')") eq '' },
		'the name is found');
	ok($node->is_leader('x') || $node->acquire('x'), 'leads');

	append_to_file($hangs, '');
	ok($node->sql("SELECT le_release('x')"), 'a name that is known counts');
	$took = timed(sub { $node->stop('fast') });
	cmp_ok($took, '<', 8, 'a fast shutdown is fast');
};

subtest 'candidacies depose nobody' => sub {
	my %settings = (lease_ttl => '10s', max_elections => 5000);
	my $node = LeaderElection::Node->create('many',
		consul => $consul, settings => \%settings);
	my $held = "SELECT count(*) FROM generate_series(1, %d) i WHERE "
	  . "le_is_leader('old' || i)";

	$node->sql("SELECT le_campaign('old' || i) FROM generate_series(1, 200) i");
	poll_until(sub { $node->sql(sprintf($held, 200)) == 200 }, 'all held');
	my $losses = "SELECT coalesce(sum(losses), 0) FROM le_stat";
	is($node->sql($losses), 0, 'none lost so far');

	$node->sql(
		"SELECT le_campaign('new' || i) FROM generate_series(1, 4000) i");
	# While they are sought a session gets what it asks for.
	ok($node->acquire('asked'), 'a session is served');
	poll_until(
		sub {
			$node->sql("SELECT count(*) FROM generate_series(1, 4000) i "
				  . "WHERE le_is_leader('new' || i)") == 4000;
		},
		'the new ones are held too');
	is($node->sql(sprintf($held, 200)), 200, 'with those held before');
	is($node->sql($losses), 0, 'none was lost');
	cmp_ok($node->sql('SELECT waits FROM le_stat_info'),
		'>', 0, 'that they waited for each other is counted');
	is( $node->sql(
			"SELECT count(*) FROM le_events WHERE event = 'store down'"),
		0,
		'the store is not called down');
	$node->stop;
};

# Whoever waits for a node knows from the watch what that node held: it reads
# no key, asks for one takeover to mark the node as gone, and then for the rest.
subtest 'all terms of a node that is killed' => sub {
	my $n = 400;
	my %settings = (lease_ttl => '5s', max_elections => 1000);
	my $recorder =
	  LeaderElection::Recorder->new('waiting', $consul->host_port)->start;
	my $leading = LeaderElection::Node->create('leading',
		consul => $consul, settings => \%settings);
	my $waiting = LeaderElection::Node->create('waiting',
		consul => $recorder, settings => \%settings);
	my $held = "SELECT count(*) = $n FROM generate_series(1, $n) i WHERE "
	  . "le_is_leader('many' || i)";

	$_->sql("SELECT le_campaign('many' || i) FROM generate_series(1, $n) i")
	  && $leading->wait_for($held)
	  foreach $leading, $waiting;
	$waiting->wait_for("SELECT count(*) = $n FROM le_status "
		  . "WHERE state = 'waiting' AND holder = 'leading'");

	my $mark = $recorder->mark;

	$leading->crash;
	$waiting->wait_for($held);
	cmp_ok(scalar($recorder->requests(request_like('read'), $mark)),
		'<', 10, 'no key is read');
	cmp_ok(scalar($recorder->requests(request_like('take_over'), $mark)),
		'<', 2 + $n / 20 + 10, 'twenty are taken over at a time');
	$waiting->stop;
};

done_testing();
