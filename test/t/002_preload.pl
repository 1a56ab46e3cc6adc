# Tier: test, 8 s
#
# How the library is loaded: not preloaded, in single-user mode, by
# pg_upgrade; and the extension in several databases of one instance.

use strict;
use warnings;

use LeaderElection::Node;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = LeaderElection::Node->create('a', start => 0, extension => 0);
my $config = slurp_file($node->data_dir . '/postgresql.conf');

# A call of each function of the extension, with as few arguments as it takes.
my $calls = <<'END';
	SELECT p.proname, format(
		CASE p.prokind WHEN 'p' THEN 'CALL %s(%s)' ELSE 'SELECT * FROM %s(%s)' END,
		p.oid::regproc,
		(SELECT string_agg(CASE a.type WHEN 'text'::regtype THEN '''e'''
				WHEN 'timestamptz'::regtype THEN 'now()'
				WHEN 'regclass'::regtype THEN '''pg_class''' END, ', ' ORDER BY a.n)
			FROM unnest(p.proargtypes) WITH ORDINALITY AS a (type, n)
			WHERE a.n <= p.pronargs - p.pronargdefaults))
	FROM pg_proc p
	JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
	JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass
		AND d.refobjid = e.oid AND d.deptype = 'e'
	WHERE e.extname = 'leader_election'
	  -- these look at catalogs and at their arguments
	  AND p.proname NOT LIKE 'le\_cron\_%' AND p.proname <> 'le_run_command'
	ORDER BY p.proname
END

sub not_loaded
{
	my $error = shift;

	return $error =~ /ERROR:  55000: leader_election must be loaded via/
	  && $error =~ /HINT:  Add leader_election to "shared_preload_libraries"/;
}

subtest 'not preloaded' => sub {
	my ($functions, $worker) = (0, 0);

	$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
	$node->start;
	my ($rc, undef, $said) = $node->psql('postgres', 'CREATE EXTENSION leader_election');

	is($rc, 0, 'the extension can be created');
	like($said, qr/WARNING:  leader_election must be loaded via .*\nHINT:  Add leader_election to /, 'with a warning');
	foreach my $row (split /\n/, $node->sql($calls))
	{
		my ($name, $call) = split /\|/, $row, 2;

		$functions++;
		if ($name eq 'le_version')
		{
			like($node->sql('SELECT le_version()'), qr/^\d+\.\d+/, $name);
			next;
		}
		ok(not_loaded($node->sql_error($call)), $name);
	}
	cmp_ok($functions, '>=', 25, 'that is all of them');
	ok(not_loaded($node->sql_error("SELECT * FROM $_")), "view $_")
	  foreach 'le_status', 'le_nodes', 'le_events', 'le_stat', 'le_stat_jobs', 'le_stat_store',
	'le_stat_info', 'le_claims', 'le_jobs';
	ok(not_loaded($node->sql_error(
				"LOAD 'leader_election'; SELECT le_acquire('e')")),
		'LOAD in a session does not do');
	is($node->worker_pid, undef, 'no worker');
	$node->stop;
};

sub restore_conf
{
	open(my $fh, '>', $node->data_dir . '/postgresql.conf') or die $!;
	print $fh $config;
	close $fh;
	return;
}

# A repair must be possible, and must not take part in elections.
subtest 'single-user mode' => sub {
	my ($out, $err);
	my $started = boottime_ns();

	restore_conf();
	ok( run_log(
			[
				$node->installed_command('postgres'), '--single',
				'-D', $node->data_dir, 'postgres'
			],
			'<', \"SELECT 41 + 1 AS answer;\nSELECT le_is_leader('e');\n",
			'>', \$out, '2>', \$err),
		'runs');
	like($out, qr/answer = "42"/, 'and works');
	like($err, qr/leader_election must be loaded/, 'but elects nobody');
	unlike($err, qr/leader_election worker started/, 'no worker');
};

# pg_upgrade starts both clusters like this.
subtest 'binary upgrade mode' => sub {
	local $ENV{PGOPTIONS} = '-c client_min_messages=warning';
	my $offset = $node->log_offset;

	command_ok(
		[
			'pg_ctl', '-w', '-D', $node->data_dir, '-l', $node->logfile,
			'-o', '-b', 'start'
		],
		'starts');
	$node->_update_pid(1);
	is($node->sql('SELECT 1'), '1', 'and works');
	ok(not_loaded($node->sql_error("SELECT le_is_leader('e')")),
		'elects nobody');

	# A worker would be there as soon as the server is.
	is($node->worker_pid, undef, 'no worker');
	$node->stop;
	ok(!$node->log_like(qr/leader_election worker/, $offset),
		'nor was there one');
};

subtest 'several databases' => sub {
	my $token;

	$node->start;
	is($node->sql("SELECT le_acquire('e')"), 't', 'preloaded: works at once');
	$node->sql('CREATE DATABASE other');
	is($node->psql('other', "SELECT 1; CREATE EXTENSION leader_election"),
		0, 'created in a second database');
	$token = $node->token('e');
	is($node->safe_psql('other', "SELECT le_is_leader('e')"),
		't', 'the node leads there, too');
	same_term($token, $node->safe_psql('other', "SELECT le_fencing_token('e')"),
		'with the same token');

	my $here = LeaderElection::Session->new($node);
	my $there = LeaderElection::Session->new($node, dbname => 'other');

	is($here->query("SELECT le_acquire('s', scope => 'session')"),
		't', 'a session of one database');
	is($there->query("SELECT le_acquire('s', scope => 'session')"),
		'f', 'excludes one of the other');
	is( $there->query(
			"SELECT scope, pid FROM le_status WHERE election = 's'"),
		'session|' . $here->pid,
		'which can see it');
	is($node->safe_psql('other', "SELECT le_release('e')"),
		't', 'released from the second database');
	denied('G5', $node->is_leader('e'), 'for the first one as well');
	$there->quit;
};

# design: relocatable; nothing inside may depend on the search path
subtest 'in a schema of its own' => sub {
	$node->sql('CREATE SCHEMA le; ALTER EXTENSION leader_election SET SCHEMA le');
	is( $node->sql(
			"SELECT le.le_acquire('e'), le.le_is_leader('e'); "
			  . "SELECT election FROM le.le_status WHERE state = 'leader' "
			  . "AND election = 'e'"),
		"t|t\ne",
		'works there');
	$node->sql('DROP EXTENSION leader_election');
	is($node->safe_psql('other', "SELECT le_is_leader('e')"),
		't', 'dropping the extension ends no term');
};

done_testing();
