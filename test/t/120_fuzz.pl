# Tier: test, 71 s
#
# All functions of the extension, called at random by 20 sessions at once
# (LeaderElection::Fuzz), in databases of three encodings, on the store local and
# on Consul. With any argument no session ends, no error is an internal one, nothing
# leaks, and the server answers afterwards.
#
# FUZZ_SEED=n makes other calls, FUZZ_SECONDS=n runs for longer.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Fuzz;
use LeaderElection::Node;
use LeaderElection::Session;
use LeaderElection::Util;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;

use constant SESSIONS => 20;

my $seed = $ENV{FUZZ_SEED} // 17;
my $seconds = duration($ENV{FUZZ_SECONDS} // 15);

# Leak warnings are made by PostgreSQL itself, at the end of a transaction; and it
# is PostgreSQL that ends a parallel worker when its leader has failed.
my $bad = qr/
	\b(ERROR|WARNING|LOG):\s\sXX\d{3}:
	| \bPANIC:
	| \bFATAL:(?!\s\s57P01:\ terminating\ background\ worker\ "parallel\ worker")
	| \bTRAP:
	| terminated\ by\ signal
	| \bleak(ed)?\b | still\ (active|referenced) | not\ closed\b
	| you\ don't\ own
/x;

# Characters beside ASCII that may stand in a text: a part that is not valid, too.
my %databases = (
	utf8 => {
		encoding => 'UTF8',
		bytes => [ 0xe9, 0xdf, 0x20ac, 0x1f600, 0xfeff, 0x2028, 0x80, 0xffff ],
		escape => '\U%08x'
	},
	ascii => {
		encoding => 'SQL_ASCII',
		bytes => [ 0x80 .. 0xff ],
		escape => '\x%02x'
	},
	latin1 => {
		encoding => 'LATIN1',
		bytes => [ 0x80 .. 0xff ],
		escape => '\x%02x'
	});

# These take what the tests beside this one leave of the processors: they are to
# disturb nobody.
POSIX::nice(15);

my $consul = LeaderElection::Consul->new('consul', log_level => 'warn')->start;

sub set_up
{
	my ($node) = @_;

	$node->sql('CREATE ROLE fuzz_worker; CREATE ROLE fuzz_monitor IN ROLE pg_monitor');
	foreach my $name (sort keys %databases)
	{
		my $encoding = $databases{$name}{encoding};

		$node->sql("CREATE DATABASE $name TEMPLATE template0 "
			. "ENCODING '$encoding' LOCALE 'C'");
		$node->safe_psql($name, <<'END');
CREATE EXTENSION leader_election;
CREATE TABLE fuzz (i int);
CREATE TABLE guard (election text PRIMARY KEY, fencing_token bigint);
CREATE VIEW guarded_view AS SELECT * FROM guard;
CREATE TABLE parted (election text PRIMARY KEY, fencing_token bigint) PARTITION BY LIST (election);
CREATE SEQUENCE seq;
CREATE FUNCTION bind() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM le_acquire('a', scope => 'transaction');
	PERFORM le_require_leader('b', on_loss => 'cancel');
	RETURN NULL;
EXCEPTION WHEN OTHERS THEN
	PERFORM le_release('a');
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER bind AFTER INSERT ON fuzz
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION bind();
CREATE FUNCTION let_go() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM le_release('b'), le_claim('a', 'j1', now());
	RETURN NULL;
END $$;
CREATE TRIGGER let_go AFTER UPDATE ON fuzz FOR EACH STATEMENT EXECUTE FUNCTION let_go();
GRANT ALL ON ALL TABLES IN SCHEMA public TO fuzz_worker;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO fuzz_worker;
GRANT EXECUTE ON ALL PROCEDURES IN SCHEMA public TO fuzz_worker;
END
	}
	return;
}

# A session whose statements end soon, whatever they ask for.  That holds for its
# first one as well, for which a busy machine may need longer.
sub session
{
	my ($node, $name) = @_;
	my $limit = boottime_ns() + $LeaderElection::Util::timeout_default * 1e9;

	while (1)
	{
		my $session = eval {
			LeaderElection::Session->new(
				$node,
				dbname => $name,
				options => '-c statement_timeout=1s -c lock_timeout=100ms');
		};

		return $session if $session;
		die $@ if $@ !~ /57014/ || boottime_ns() > $limit;
	}
}

# One session's life, in a process of its own; leaves a record of its calls in a file.
sub fuzz
{
	my ($node, $number, $file, $until) = @_;
	my $name = (sort keys %databases)[ $number % 3 ];
	my $functions =
	  LeaderElection::Fuzz->functions(
		$node->safe_psql($name, LeaderElection::Fuzz->query));
	my $fuzz = LeaderElection::Fuzz->new(
		functions => $functions,
		seed => $seed * 1_000_000 + $number * 10_000,
		parallel => $node->pg_version >= 16 ? 'debug_parallel_query'
		: 'force_parallel_mode',
		%{ $databases{$name} });
	my $session = session($node, $name);
	my ($scripts, $statements, $errors, @found) = (0, 0, 0);

	open(my $out, '>', $file) or die $!;
	$out->autoflush(1);
	while (boottime_ns() < $until || $scripts < 2)
	{
		my $script = $fuzz->script(20);
		my $result = eval { $session->start($script)->finish };

		$scripts++;
		$statements += () = $script =~ /;$/mg;
		$errors += () = ($result->{error} // '') =~ /ERROR:/g;
		push @found, map { "$name: $_" } grep { /$bad/ } split /\n/,
		  $result->{error} // '';
		push @found, "$name: connection lost" if $result && $result->{lost};
		push @found, "$name: $@" if !$result;
		if (@found)
		{
			print $out "found $_\n" foreach @found;
			print $out "by $_\n" foreach split /\n/, $script;
			last;
		}
	}
	print $out "statements $statements\nerrors $errors\nended\n";
	return;
}

sub run
{
	my ($what, $node) = @_;
	my $offset = $node->log_offset;
	my $until = boottime_ns() + $seconds * 1e9;
	my $dir = PostgreSQL::Test::Utils::tempdir;
	my $worker = $node->wait_for_worker;
	my (@found, @slow, %sum, @children, @reports);

	foreach my $number (1 .. SESSIONS)
	{
		my $pid = fork() // die "fork: $!";

		if ($pid == 0)
		{
			eval { fuzz($node, $number, "$dir/$number", $until); 1 }
			  or print STDERR "session $number: $@";
			POSIX::_exit(0);
		}
		push @children, $pid;
	}
	waitpid($_, 0) foreach @children;

	foreach my $number (1 .. SESSIONS)
	{
		my $report = -e "$dir/$number" ? slurp_file("$dir/$number") : '';

		push @found, grep { !/: no answer within / } $report =~ /^found (.*)$/mg;
		push @slow, $report =~ /^found (.*: no answer within .*)$/mg;
		diag("session $number: $report") if $report =~ /^found/m;
		push @slow, "session $number did not end" if $report !~ /^ended$/m;
		$sum{$1} += $2 while $report =~ /^(\w+) (\d+)$/mg;
	}
	never(\@found, "$what: no session saw what it must not");
	is_deeply(\@slow, [], "$what: each came to its end");

	my $log = $node->log_since($offset);

	never([ grep { /$bad/ } split /\n/, $log ], "$what: nor does the log tell of it");
	note(sprintf '%s: %d statements, %d errors, seed %d',
		$what, $sum{statements}, $sum{errors}, $seed);
	cmp_ok($sum{statements}, '>', 20 * SESSIONS, "$what: there was work");
	cmp_ok($sum{statements} - $sum{errors},
		'>', $sum{statements} / 5, "$what: some of it was meant well");
	cmp_ok($sum{errors}, '>', $sum{statements} / 20, "$what: some was not");

	# all is as if nothing had happened
	is($node->worker_pid, $worker, "$what: the same worker");
	$node->wait_for(
		q(SELECT count(*) = 0 FROM pg_stat_activity
			WHERE state <> 'idle' AND pid <> pg_backend_pid()
			AND backend_type = 'client backend'),
		"$what: nobody to be stuck");
	$node->wait_for(
		"SELECT le_acquire('afterwards', wait => '1 s')", "$what: an answer");
	ok($node->release('afterwards'), "$what: and another");
	is($node->sql('SELECT count(*) > 0 FROM le_check_config()'),
		't', "$what: the check works");
	return;
}

foreach my $store ('local', 'consul')
{
	my $node = LeaderElection::Node->create(
		$store,
		($store eq 'consul' ? (consul => $consul) : ()),

		# a slow machine is not what this is about
		settings => { lease_ttl => '60s', max_elections => 64 },
		conf => {
			max_prepared_transactions => 5,
			log_error_verbosity => 'verbose',
			max_connections => 40
		});

	set_up($node);
	run($store, $node);
	$node->stop;
}

done_testing();
