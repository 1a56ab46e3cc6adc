# Tier: test, 36 s
#
# The documentation says what the code does: its tables are compared with the
# catalogs and the source, its recipes are run as they stand there.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Docs;
use LeaderElection::Node;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = $ENV{TESTDIR};
my %source = map { $_ => slurp_file($_) }
  glob("$top/src/*.c $top/src/*/*.c $top/src/*/*/*.c");

my $node = LeaderElection::Node->create(
	'db1',
	conf => { cron_available() });

sub cron_available
{
	chomp(my $share = `$ENV{PG_CONFIG} --sharedir`);
	return -e "$share/extension/pg_cron.control" ? ('cron.database_name' => 'postgres') : ();
}

# a setting added or changed without a word to the user
subtest 'settings' => sub {
	my %actual = map {
		my @row = split /\|/, $_, -1;
		$row[0] => {
			default => $row[1],
			min => $row[2],
			max => $row[3],
			enum => $row[4],
			context => $row[5]
		}
	} split /\n/, $node->sql(<<'END');
SELECT substr(name, 17), boot_val, min_val, max_val, array_to_string(enumvals, ','), context
FROM pg_settings WHERE name LIKE 'leader_election.%'
END
	my %said;

	foreach my $row (table('settings'))
	{
		my ($name, $default, $range, $effect) = @$row;

		$name =~ tr/`//d;
		$said{$name} = 1;
		my $is = $actual{$name} or next;
		my ($value) = $default =~ /^`([^`]*)`/;

		is(number($value // ''), $is->{default}, "$name: default")
		  unless !defined $value && $is->{default} eq '';
		ok($is->{default} eq '', "$name: empty") if $default =~ /^empty/;
		if ($range =~ /^(\S+) \.\. (\S+)$/)
		{
			is(number($1), $is->{min}, "$name: least");
			is(number($2), $is->{max}, "$name: most");
		}
		is($range =~ tr/` //dr, $is->{enum}, "$name: values") if $is->{enum};
		is( $effect =~ /^(\w+)/ && $1,
			{
				postmaster => 'restart',
				sighup => 'reload',
				superuser => 'session',
				user => 'session'
			}
			  ->{ $is->{context} },
			"$name: takes effect");
	}
	is_deeply([ sort keys %said ], [ sort keys %actual ], 'all of them');
};

# as pg_settings has it, in ms
sub number
{
	my ($text) = @_;

	return $text =~ /^(\d+)s$/ ? $1 * 1000 : $text =~ /^(\d+)ms$/ ? $1 : $text;
}

# a signature changed, a function or a column added
subtest 'functions and views' => sub {
	my %said;

	foreach my $cell (section('docs/reference.md', 'Functions') =~ /^\| (`le_.*?) \|/mg)
	{
		$said{$1} = join(', ', map { s/ = .*/ =/r } split /, /, $2)
		  while $cell =~ /`(le_\w+)\((.*?)\)`/g;
	}
	my %actual = map {
		my ($name, $arguments) = split /\|/, $_, -1;
		$name => join(', ',
			map {
				s/^IN(OUT)? //r =~ s/ DEFAULT .*/ =/r =~
				  s/timestamp with time zone/timestamptz/r
			}
			grep { !/^OUT / } split /, /, $arguments)
	} split /\n/, $node->sql(<<'END');
SELECT proname, pg_get_function_arguments(p.oid) FROM pg_proc p
WHERE proname LIKE 'le\_%'
END
	is_deeply(\%said, \%actual, 'signatures');

	my $monitoring = page('docs/monitoring.md');
	foreach my $view ('le_status', 'le_nodes', 'le_events', 'le_stat',
		'le_stat_jobs', 'le_jobs',
		'le_claims')
	{
		foreach my $column (split /\n/, $node->sql(<<"END"))
SELECT attname FROM pg_attribute WHERE attrelid = '$view'::regclass AND attnum > 0
END
		{
			like($monitoring, qr/`\Q$column\E`/, "$view.$column");
		}
	}
};

# an event that nobody can look up, or one that does not exist
subtest 'events' => sub {
	my ($names) = $source{"$top/src/shmem/events.c"} =~ /names\[LE_NEVENTKINDS\] = \{(.*?)\};/s;
	my @actual = sort $names =~ /"([^"]+)"/g;
	my @said = sort map { $_->[0] =~ /`([^`]+)`/g } table('events');

	is_deeply(\@said, \@actual, 'all of them');
};

# an SQLSTATE that jobs cannot look up, or one that is never raised
subtest 'errors' => sub {
	my %said = map { $_ => 1 }
	  section('docs/reference.md', 'Errors') =~ /^\| `(LE\d\d\d)` /mg;
	my %name = slurp_file("$top/src/shmem/requests.h") =~
	  /#define (LE_ERRCODE_\w+)\s+MAKE_SQLSTATE\('L','E','(?:0)','0','(\d)'\)/g;
	my %raised;

	foreach my $text (values %source)
	{
		$raised{"LE00$name{$_}"} = 1
		  foreach grep { $name{$_} } $text =~ /\b(LE_ERRCODE_\w+)/g;
	}
	is_deeply(\%said, \%raised, 'SQLSTATEs');

	# messages quoted for searching must be the ones that are written
	my @gateway = map { slurp_file($_) } glob("$top/gateway/internal/api/*.go");
	my $messages = join("\n", values %source, @gateway) =~ s/"\s*\n\s*"//gr;
	$messages =~ s/\\"/"/g;
	foreach my $row (table('troubleshooting'))
	{
		foreach my $part (map { split /…/ } $row->[0] =~ /`(.*?)`/g)
		{
			$part =~ s/^[\s":]+|[\s":]+$//g;
			# messages of PostgreSQL and Consul are not in our source
			next if $part =~ /^(unrecognized|lacks perm|permission denied for view)/ || $part !~ / \S+ \S+ /;
			ok(index($messages, $part) >= 0, "message: $part");
		}
	}
};

# a diagram of yesterday's state machine
subtest 'state tables' => sub {
	foreach my $machine (
		[ 'election', 'LE_', block('states: election'), table('election') ],
		[ 'node', 'LE_NODE_', block('states: node'), table('node') ])
	{
		my ($name, $prefix, $diagram, @rows) = @$machine;
		my $code = slurp_file("$top/src/core/$name.c");
		my (%actual, %said);

		$code =~ /^static const Handler table.*?= \{\n(.*?)^\};/ms
		  or die "no table in $name.c";
		my $rows = $1;
		while ($rows =~ /^\t\[$prefix(\w+)\] = \{\n(.*?)^\t\},/msg)
		{
			my ($state, $cells) = ($1, $2);

			$actual{$state} = { $cells =~ /\[${prefix}IN_(\w+)\] = (\w+)/g };
		}
		foreach my $row (@rows)
		{
			$said{ $row->[0] } = { $row->[1] =~ /(\w+) `(\w+)`/g };
		}
		is_deeply(\%said, \%actual, $name);

		# states that an arrow of the diagram names exist
		my %drawn = map { $_ => 1 } $diagram =~ /\b([A-Z][A-Z_]{3,}) -->/g,
		  $diagram =~ /--> ([A-Z][A-Z_]{3,})/g;
		is_deeply([ sort keys %drawn ], [ sort keys %actual ],
			"$name: states of the diagram");
	}
};

# recipes that do not run as pasted
subtest 'recipes, store local' => sub {
	my $start = block('quick start') =~ s/^CREATE EXTENSION.*\n//r;

	is($node->sql($start =~ s/^SELECT \* FROM le_status;\n//mr) =~ s/\|\d+/|token/r,
		"t\nt|token", 'quick start');
	$node->release('billing');

	$node->sql(<<'END');
CREATE SCHEMA job;
CREATE FUNCTION job.my_job() RETURNS text LANGUAGE sql AS $$SELECT 'done'$$;
END
	my $job = 'SET search_path = job, public; ' . block('first');
	is($node->sql($job), '', 'a job elsewhere');
	is($node->sql("SELECT le_acquire('billing', scope => 'session'); $job"),
		"t\ndone", 'and on the leader');
	is($node->sql(block('local')), "t\nleader|session|local (this instance only)",
		'one session of an instance');

	is($node->sql_error(block('long job')), '', 'long job: created');
	like($node->sql_error('CALL my_long_job()'),
		qr/not the leader any more/, 'refused');
	$node->acquire('billing');
	is($node->sql_error('CALL my_long_job()'), '', 'and run by the leader');
	is($node->sql(block('who leads')), "db1\ndb1\ndb1|"
		  . $node->sql("SELECT value FROM le_status") . '|'
		  . $node->token('billing') . '|t',
		'the leader');

	is($node->sql($_), $node->token('billing'), /(le_\w+)/ && "$1: leader")
	  foreach block('fence'), block('stop in time'), block('guard');

	my $claim = block('le_claim') =~ s/now\(\)/now() - interval '1 hour'/gr;
	is($node->sql($claim), "t\nt", 'a tick, by hand');
	is($node->sql($claim =~ s/^--.*//mr), "f\nf", 'once');

	my ($create, $insert) = block('fencing') =~ /^(.*?;)\n(.*)/s;
	$node->sql($create);
	is($node->sql($insert), 42, 'fence: a first token');
	is($node->sql($insert), 42, 'the same again');
	denied('G3', $node->sql($insert =~ s/42/41/r), 'an older one is refused');
	is($node->sql($insert =~ s/42/43/r), 43, 'a newer one passes');

	is($node->sql_error(block('errors')), '', 'error handling');

	$node->sql(block('grants'));
	my $as = sub { "SET ROLE $_[0]; $_[1]" };
	is($node->sql($as->('billing_job', "SELECT le_is_leader('billing')")),
		't', 'the job may ask');
	like($node->sql_error($as->('billing_job', 'SELECT le_step_down()')),
		qr/42501/, 'and no more');
	is( $node->sql_error(
			$as->('billing_runner', "CALL le_run('billing', 'SELECT le_tick()')")),
		'',
		'a role that runs jobs');
	is($node->sql($as->('billing_operator', 'SELECT state FROM le_status')),
		'leader', 'the operator may look');
	is($node->sql($as->('billing_operator', 'SELECT le_step_down()')),
		't', 'and hand over');
	like($node->sql_error($as->('billing_operator', "SELECT le_acquire('x')")),
		qr/42501/, 'and no more');
};

subtest 'pg_cron' => sub {
	plan skip_all => 'pg_cron is not installed' unless cron_available();
	$node->set('shared_preload_libraries', 'pg_cron,leader_election');
	$node->restart;
	$node->sql(<<'END');
CREATE EXTENSION pg_cron;
CREATE TABLE runs();
CREATE FUNCTION my_job() RETURNS void LANGUAGE sql AS 'INSERT INTO runs DEFAULT VALUES';
END
	$node->sql(block('pg_cron'));
	my $command = $node->sql('SELECT command FROM cron.job');

	like($node->sql("EXPLAIN $command"),
		qr/One-Time Filter: le_is_leader/, 'evaluated once');
	$node->sql($command);
	denied('G5', $node->sql('SELECT count(*) FROM runs'), 'not the leader');
	$node->acquire('billing');
	$node->sql($command);
	is($node->sql('SELECT count(*) FROM runs'), 1, 'the leader');

	$node->sql('CREATE PROCEDURE close_books() LANGUAGE sql AS '
		  . "'INSERT INTO runs DEFAULT VALUES'");
	$node->sql(block('le_run'));
	$command = $node->sql("SELECT command FROM cron.job WHERE jobname = 'nightly'");
	$node->sql($command) foreach 1 .. 2;
	is($node->sql('SELECT count(*) FROM runs'), 2, 'le_run: once per tick');
	is($node->sql("SELECT state FROM le_claims WHERE job = 'nightly'"),
		'done', 'and done');

	my ($row) = $node->sql(block('le_cron_schedule')) =~ /^\d+\|(.*)\nt$/s;
	is($row, q(CALL public.le_run('billing'::text, 'CALL close_books()'::text, job => 'nightly'::text, every => interval '1 day', wait => interval '00:05:00')|1 day),
		'the command of le_cron_schedule()');
	$node->sql("SELECT cron.schedule('nightly', '0 3 * * *', 'CALL close_books()'),
		cron.schedule('nightly clean', '0 4 * * *', 'VACUUM')");
	my $jobs = 'SELECT j::text FROM cron.job j ORDER BY jobid';
	my $before = $node->sql($jobs);
	is($node->sql(block('le_cron_adopt')), <<'END' =~ s/\n\z//r, 'le_cron_adopt()');
nightly|1 day|/* le_cron_adopt */ CALL public.le_run('billing'::text, 'CALL close_books()'::text, job => 'nightly'::text, every => interval '1 day')|
nightly clean|||is likely each instance's own: runs VACUUM
nightly|
nightly clean|is likely each instance's own: runs VACUUM
nightly
END
	is($node->sql($jobs), $before, 'and le_cron_release()');
};
$node->stop;

# The keys of an object, those of its value included.
sub shape
{
	my ($object) = @_;

	return [ sort(keys %$object), sort keys %{ $object->{value} } ];
}

subtest 'recipes, Consul' => sub {
	my $consul = LeaderElection::Consul->new('consul')->start;
	my $conf = block('consul configuration');
	my $url = $consul->url;
	my $db1 = LeaderElection::Node->create('configured', start => 0);

	like($conf, qr{http://127\.0\.0\.1:8500}, 'the usual port');
	$conf =~ s{http://127\.0\.0\.1:8500}{$url};
	$db1->append_conf('postgresql.conf', $conf);
	$db1->start;
	$db1->sql('CREATE EXTENSION leader_election');
	$db1->wait_for_leadership('billing');
	is($db1->leader('billing'), 'db1', 'campaigns as configured');

	my ($got, $shown) = curl('curl consul', 'http://127.0.0.1:8500', $url);
	is_deeply(shape($got), shape($shown), 'the output of curl');

	my @rows = split /\n/, $db1->sql(block('first questions'));
	is_deeply([ @rows[ 0, 1 ] ], [ 't|db1', 'db1|t|live' ], 'the first questions');
	is(scalar(grep { /^(?:ok|warning|error)\|/ } @rows), @rows - 2,
		'and whether all is well');
	$db1->stop;
	$consul->stop;
};

# rules that are too narrow, or wider than they need be
subtest 'ACL' => sub {
	foreach my $list (0, 1)
	{
		my $consul = LeaderElection::Consul->new(
			"acl$list",
			acl => 1,
			($list ? (config => "acl {\nenable_key_list_policy = true\n}\n") : ()))
		  ->start;
		my $file = "$PostgreSQL::Test::Utils::tmp_check/t_040_token$list";
		my $secured = LeaderElection::Node->create(
			"secured$list",
			consul => $consul,
			settings => { consul_token_file => $file },
			start => 0);
		my $use = sub {
			my ($rules) = @_;

			$rules =~ s/db1-agent/acl$list/g;
			open(my $fh, '>', $file) or die "$file: $!";
			print $fh $consul->acl_token($rules), "\n";
			close $fh;
			$secured->reload if $secured->postmaster_pid;
		};
		my $denied = sub {
			my ($election) = @_;

			return $secured->sql_error("SELECT le_acquire('$election')");
		};

		$use->(block('acl some'));
		$secured->start;
		$secured->sql('CREATE EXTENSION leader_election');
		ok($secured->acquire('billing'), "list policy $list: some: leads");
		is($secured->sql("SELECT le_claim('billing', 'some', '2020-01-01')"), 't', 'and claims');
		like($denied->('other'), qr/LE005.*key:write/s, 'no other');
		ok($secured->release('billing'), 'released');
		$secured->restart;

		# claims need a line of their own
		my $without = block('acl') =~ s/^key_prefix ".*\.claims\/".*\n//mr;
		isnt($without, block('acl'), 'a line for claims');
		$use->($without);
		poll_until(sub { $denied->('other') eq '' }, 'the wider token');
		ok($secured->release('other'), 'any election');
		my $claim = "SELECT le_claim('billing', 'j', '2020-01-01')";
		ok($secured->acquire('billing'), 'leads');
		like($secured->sql_error($claim), qr/LE005.*claims/s, 'no claims');
		$use->(block('acl'));
		poll_until(sub { $secured->sql_error($claim) eq '' }, 'that line');
		my $look = 'SELECT job FROM le_claims ORDER BY job';
		is($secured->sql($look), "j\nsome", 'claimed');

		# to look at them, less will do
		my $least = $list ? 'list' : 'read';
		my $claims = 'key_prefix "leader_election.claims/" { policy = "%s" }';
		$use->($without . sprintf($claims, $least));
		poll_until(
			sub { $secured->sql_error($claim =~ s/01'/02'/r) =~ /LE005.*claims/s },
			'no more claims');
		is($secured->sql($look), "j\nsome", "$least: but a look at them");
		$use->($without . ($list ? sprintf($claims, 'read') : ''));
		poll_until(sub { $secured->sql_error($look) =~ /LE005/ },
			'nor that with less');
		ok($secured->release('billing'), 'released');

		# each line is needed
		my @rules = split /^/, $without;
		foreach my $left_out (0 .. $#rules)
		{
			$secured->stop;
			$use->(
				join('', map { $rules[$_] } grep { $_ != $left_out } 0 .. $#rules));
			$secured->start;
			like($denied->('billing'), qr/LE005/, "without $rules[$left_out]");
		}
		$secured->stop;
		$consul->stop;
	}
};

done_testing();
