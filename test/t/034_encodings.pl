# Tier: test, 17 s
#
# Databases of several encodings in one instance: not each of them can show all text
# of the store and of other nodes, or all names of jobs.  Each function, view and word
# of lectl answers in all of them, and a text from any of them is the same in the
# store.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Lectl;
use LeaderElection::Node;
use LeaderElection::Util;
use Test::More;

my @databases = qw(postgres ascii latin1 win1251);

# Words that each of them has, beside ASCII.
my %own = (map({ $_ => 'Größe' } qw(postgres ascii latin1)), win1251 => 'отчёт 2');

my $consul = LeaderElection::Consul->new('consul', log_level => 'warn')->start;
my %settings = (backend => 'consul', consul_url => $consul->url, lease_ttl => '60s');
my $other = LeaderElection::Node->create('other',
	settings => { %settings, node_name => 'база-2', campaign => 'others' });

$other->wait_for_leadership('others');

my $node = LeaderElection::Node->create('a',
	settings => { %settings, node_name => 'база-1', campaign => 'billing,others',
		log_error => 'on', job_check_interval => '1s' });

# After the start of the server, which would take it for its default.
$ENV{PGCLIENTENCODING} = 'UTF8';

foreach my $name (@databases[ 1 .. $#databases ])
{
	my $encoding = $name eq 'ascii' ? 'SQL_ASCII' : uc $name;

	$node->sql("CREATE DATABASE $name TEMPLATE template0 ENCODING '$encoding' LOCALE 'C'");
	$node->safe_psql($name, 'CREATE EXTENSION leader_election');
}
$node->wait_for_leadership('billing');

# UTF-8, as the database shows it.
sub shown
{
	my ($database, $text) = @_;

	$text =~ s/[\xc0-\xff][\x80-\xbf]+/?/g if $database eq 'latin1';
	return $text;
}

# Rows, or the error with its SQLSTATE.
sub answer
{
	my ($database, $query) = @_;
	my ($rc, $out, $err) = $node->psql($database, "\\set VERBOSITY verbose\n$query");

	return $rc == 0 ? $out : $err;
}

is(answer('postgres', "SELECT le_renew('billing', '€ значение')"), 't', 'a value');
is(answer('postgres', "CALL le_run('billing', 'SELECT 1', job => 'отчёт', every => '1 day')"), '', 'a job');
like(answer('postgres', q(CALL le_run('billing', 'DO $$BEGIN RAISE ''нет строк''; END$$', job => 'сбой', every => '1 day'))),
	qr/P0001: нет строк/, 'one that fails');

$node->wait_for("SELECT count(*) = 2 FROM le_jobs");
$node->wait_for("SELECT holder = 'база-2' FROM le_status WHERE election = 'others'");

# Functions whose result has text.  Those for schedules return what they are given.
my %calls = (
	le_check_config => "SELECT message FROM le_check_config() WHERE message LIKE '%node \"%'",
	le_claims => 'SELECT DISTINCT node FROM le_claims',
	le_current_leader => "SELECT le_current_leader('others')",
	le_events => "SELECT DISTINCT node FROM le_events WHERE node LIKE '%-1'",
	le_history => "SELECT job, node, error FROM le_history() WHERE state = 'failed'",
	le_jobs => "SELECT job, node, error FROM le_jobs WHERE state = 'failed'",
	le_leader => "SELECT leader, value FROM le_leader('billing')",
	le_nodes => 'SELECT node FROM le_nodes ORDER BY is_self',
	le_stat => "SELECT election FROM le_stat WHERE election = 'billing'",
	le_status => "SELECT holder, value FROM le_status WHERE election = 'billing'",
	le_run_call => "SELECT le_run_call('billing', 'SELECT 1')",
	le_run_command => "SELECT job FROM le_run_command(le_run_call('billing', 'SELECT 1', 'j'))",
	le_version => 'SELECT le_version()');
my %says = (
	le_check_config => qr/^This is node "база-1"/m,
	le_current_leader => qr/^база-2$/,
	le_events => qr/^база-1$/,
	le_history => qr/^сбой\|база-1\|P0001: нет строк$/,
	le_jobs => qr/^сбой\|база-1\|P0001: нет строк$/,
	le_leader => qr/^база-1\|€ значение$/,
	le_nodes => qr/^база-2\nбаза-1$/,
	le_status => qr/^база-1\|€ значение$/);

is($node->sql(<<'END'), join("\n", sort keys %calls), 'all functions that return text, but those for pg_cron');
SELECT DISTINCT proname FROM pg_proc p
JOIN pg_depend ON objid = p.oid AND deptype = 'e'
	AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'leader_election')
WHERE proname NOT LIKE 'le\_cron\_%'
	AND (prorettype = 'text'::regtype OR EXISTS (
		SELECT FROM unnest(proallargtypes, proargmodes) a (type, mode)
		WHERE type = 'text'::regtype AND mode IN ('o', 't')))
ORDER BY proname
END

foreach my $database (@databases)
{
	subtest $database => sub {
		foreach my $name (sort keys %calls)
		{
			my $utf8 = $node->sql($calls{$name});

			like($utf8, $says{$name}, "$name: in UTF8") if $says{$name};
			is(answer($database, $calls{$name}), shown($database, $utf8), $name);
		}
		foreach my $view (split /\n/, $node->sql(q(SELECT relname FROM pg_class WHERE relkind = 'v' AND relname LIKE 'le\_%')))
		{
			unlike(answer($database, "SELECT string_agg(v::text, E'\\n') FROM $view v"), qr/ERROR/, $view);
		}
		like(answer($database, "SELECT le_require_leader('others')"),
			qr/ERROR:  LE001:.*DETAIL:  Node "\Q${\ shown($database, 'база-2')}\E" leads/s, 'an error is that error');
	};
}

# Texts of callers are UTF-8 in the store, and the same for each database.
subtest 'to the store' => sub {
	my $count = 'SELECT count(*) FROM ran';
	my $run = "CALL le_run('billing', 'INSERT INTO ran VALUES (1)', job => 'отчёт', every => '1 day')";

	foreach my $database (@databases)
	{
		my $text = "$own{$database} $database";
		my $fails = qq(CALL le_run('billing', 'DO \$\$BEGIN RAISE ''$text''; END\$\$', job => '$text', every => '1 day'));

		is(answer($database, "SELECT le_renew('billing', '$text')"), 't', "$database: a value");
		is($node->sql("SELECT value FROM le_leader('billing')"), $text, 'is kept');
		like(answer($database, $fails), qr/P0001: \Q$text\E/, 'a job that fails');
		is($node->sql("SELECT error FROM le_history(job => '$text')"), "P0001: $text", 'its name and its error are');
		is(answer($database, "SELECT count(*) FROM le_history(job => '$text')"), 1, 'and found');
		$node->wait_for("SELECT count(*) = 1 FROM le_jobs WHERE job = '$text' AND error = 'P0001: $text'");
	}
	foreach my $database (qw(ascii win1251))
	{
		$node->safe_psql($database, 'CREATE TABLE ran (i int)');
		is(answer($database, "$run; $count"), 0, "$database: a tick that was run from another database");
	}
	like(answer('latin1', "SELECT le_renew('billing', '€')"), qr/22P05/, 'a character that the encoding lacks is refused');
	like(answer('ascii', q(SELECT le_renew('billing', E'\xfc'))), qr/22021/, 'bytes that are no UTF-8, too');
	like(answer('ascii', q(SELECT le_claim('billing', E'\xfc', now()))), qr/22021/, 'in the name of a job');
	like(answer('ascii', q(SET client_encoding = 'SQL_ASCII'; CALL le_run('billing', E'DO $$BEGIN RAISE ''\xfcx''; END$$', job => 'bytes', every => '1 day'))),
		qr/P0001/, 'in an error');
	is($node->sql(q(SELECT error FROM le_history(job => 'bytes'))), 'P0001: ?x', 'they are marked');
};

subtest 'lectl' => sub {
	my @words = (
		[ 'check', 'leader', 'billing' ], [ 'check', 'leader' ], [ 'check', 'jobs' ],
		[ 'check', 'store' ], [ 'check', 'candidates', 'billing' ], ['list'], [ 'list', '--json' ],
		[ 'wait', 'others', '--any', '--timeout=0' ],
		[ 'wait', 'billing', '--leader=db2', '--timeout=0' ],
		[ 'wait', 'billing', '--me', '--timeout=0' ]);

	my %seen;

	delete local $ENV{PGCLIENTENCODING};
	foreach my $database (@databases)
	{
		my $connection = $node->connstr($database);

		foreach my $words (@words)
		{
			my ($expected) = lectl($node, @$words);
			my ($code, $out, $err) = lectl($connection, @$words);

			is($code, $expected, "$database: @$words") or diag("$out$err");
			unlike("$out$err", qr/no equivalent|invalid byte/, 'no complaint');
		}
		like((lectl($connection, 'check', 'leader', 'billing'))[1],
			qr/\Q${\ shown($database, 'база-1')}\E leads billing/, 'the leader');
		is((lectl($connection, 'wait', 'billing', '--leader=база-1', '--timeout=0'))[0],
			$database eq 'latin1' ? 64 : 0, 'a name that it can compare, or not');
		my ($code, $out, $err) = lectl($connection, 'exec', 'other', '--settle=0', '--wait=1min',
			"--job=$own{$database} exec", '--every=1 day', 'true');

		is($code, $seen{$own{$database}}++ ? 75 : 0, "exec: one tick of one job") or diag($err);
	}
};

done_testing();
