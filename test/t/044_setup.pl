# Tier: test, 20 s
#
# Setting up, and removing it: the commands that the documentation has a new user
# paste, run as they stand there against a real Consul, in directories of the test's
# own.

use strict;
use warnings;

use IO::Socket::UNIX;
use LeaderElection::Consul;
use LeaderElection::Docs;
use LeaderElection::Node;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Socket qw(MSG_DONTWAIT SOCK_DGRAM);
use Test::More;

my $top = $ENV{TESTDIR};
my $dir = $PostgreSQL::Test::Utils::tmp_check;
my $etc = "$dir/t_044_etc";
my $opt = "$dir/t_044_opt";
my $stub = "$dir/t_044_stub";
my $consul = LeaderElection::Consul->new('agent', acl => 1);
my $node = LeaderElection::Node->create('db1', start => 0);
my $data = $node->data_dir;
my $cron = -e qx($ENV{PG_CONFIG} --sharedir) =~ s/\n//r . '/extension/pg_cron.control';

# The library is removed from a copy of where it is for the tests; those of other
# versions have it installed.
my $stage = "$dir/t_044_stage";
my $uninstall = -d "$ENV{LE_SANDBOX}/stage"
  ? "make -s -C $top DESTDIR=$stage with_llvm=no uninstall"
  : ':';

mkdir $etc;
mkdir "$etc/conf.d";
system_or_bail('cp', '-R', "$ENV{LE_SANDBOX}/stage", $stage) if $uninstall ne ':';

my $version = 99;    # which no path of a page has by itself

# Runs a block for the shell, with the paths, users and names of this test in
# place of those of Debian; returns what it prints.
sub run_shell
{
	my ($script, %env) = @_;
	my ($name) = $script =~ /^(.*)/;
	my ($user, $group) = (getpwuid($<) . '', getgrgid($() . '');

	$script =~ s{\$V\b}{$version}g;
	$script =~ s{-o postgres -g postgres}{-o $user -g $group}g;
	$script =~ s{/etc/postgresql/$version/main/}{$etc/}g;
	$script =~ s{/etc/postgresql/}{$etc/}g;
	$script =~ s{/var/lib/postgresql/$version/main/}{$data/}g;
	$script =~ s{/etc/(?=consul\.d|apt/|os-release)}{$etc/}g;
	$script =~ s{/usr/share/keyrings/}{$etc/keyrings/}g;
	$script =~ s{/opt/consul\b}{$opt/consul}g;
	$script =~ s{^pg_ctlcluster $version main}{pg_ctl -s -w -D $data -l $data/log}mg;
	$script =~ s{^make PG_CONFIG=\S+ uninstall\b.*$}{$uninstall}m;
	unlike($script, qr{ /etc/| /var/}, "$name: all paths are replaced");
	append_to_file("$dir/t_044_block", "set -e\ncd $etc\n$script");

	local %ENV = (
		%ENV, %env,
		PATH => "$stub:" . ($consul->binary =~ s{/[^/]*$}{}r) . ":$ENV{PATH}",
		CONSUL_HTTP_ADDR => $consul->url,
		CONSUL_HTTP_TOKEN => $consul->{token},
		PGHOST => $node->host,
		PGPORT => $node->port,
		PGDATABASE => 'postgres');
	my $limit = $LeaderElection::Util::timeout_default;
	my $out = qx(timeout $limit sh $dir/t_044_block 2>&1);

	is($?, 0, "$name: done") or diag($out);
	unlink "$dir/t_044_block";
	return $out;
}

# Programs that stand in for those of Debian.  The package's brings its directories,
# and a file without a setting that counts.
sub write_stub
{
	my ($name, $text) = @_;

	append_to_file("$stub/$name", "#!/bin/sh\n$text");
	chmod 0755, "$stub/$name";
	return;
}

# Starts the agent as the package's unit does: all files of the directory, and ready
# is (Type=notify) an agent that says so.
sub start_consul
{
	my $socket = "$dir/t_044_notify";

	unlink $socket;
	my $notified = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Local => $socket)
	  or die "$socket: $!";
	$consul->spawn(
		cwd => $consul->{dir},
		log => $consul->{log},
		env => { NOTIFY_SOCKET => $socket },
		command => [ $consul->binary, 'agent', "-config-dir=$etc/consul.d/" ]);
	poll_until(
		sub {
			die 'the agent has ended: ' . substr($consul->log, -2000) unless $consul->is_running;
			my $said = '';

			return defined $notified->recv($said, 100, MSG_DONTWAIT) && $said eq 'READY=1';
		},
		'the agent to tell systemd that it is ready');
	return;
}

# The block as it stands, but for packages and systemctl.
subtest 'a first Consul' => sub {
	my ($install, $look) = split /^systemctl enable --now consul\n/m, block('a first Consul');
	my %port = (%{ $consul->{port} }, map { $_ => -1 } qw(dns grpc grpc_tls serf_wan));

	mkdir $_ foreach $stub, $opt, "$etc/keyrings", "$etc/apt", "$etc/apt/sources.list.d";
	append_to_file("$etc/os-release", "VERSION_CODENAME=forky\n");
	write_stub('apt-get', <<"END");
case \$* in
	*'install -y consul') mkdir -p $opt/consul $etc/consul.d && echo '# all comments' > $etc/consul.d/consul.hcl ;;
esac
END
	write_stub('wget', "echo key\n");
	write_stub('gpg', "cat > \$3\n");
	run_shell($install);
	like(
		slurp_file("$etc/apt/sources.list.d/hashicorp.list"),
		qr{^deb \[signed-by=\Q$etc\E/keyrings/hashicorp\.gpg\] https://apt\.releases\.hashicorp\.com +forky main\n\z},
		'the repository');
	is(slurp_file("$etc/keyrings/hashicorp.gpg"), "key\n", 'and its key');

	# what the test needs beside the page: ports of its own, and ACLs for what follows;
	# an election that takes less time than usual, and no request that waits for its end
	append_to_file("$etc/consul.d/test.hcl", <<"END");
node_name = "agent"
ports { @{[ map { "$_ = $port{$_}" } sort keys %port ]} }
performance { raft_multiplier = 1, rpc_hold_timeout = "1ms" }
disable_update_check = true
acl {
	enabled = true
	default_policy = "deny"
	tokens { initial_management = "$consul->{token}", agent = "$consul->{token}" }
}
END
	start_consul();
	is(scalar(() = run_shell($look) =~ /^\S+ .* leader +true /mg), 1, 'one leader');
	ok(-d "$opt/consul/raft", 'its data is where the page says');
	$consul->wait_until_ready;
};

my $token;

subtest 'policy, token and file' => sub {
	append_to_file("$etc/leader_election-db1.hcl",
		block('acl') =~ s/db1-agent/agent/r);
	run_shell(block('acl recipe'));
	$token = slurp_file("$etc/leader_election.token");
	like($token, qr/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\n\z/, 'a token');
	is((stat "$etc/leader_election.token")[2] & 07777, 0600, 'that nobody else can read');
};

# One file of settings, which Debian includes.
subtest 'settings' => sub {
	my $conf = block('consul configuration');
	my $line;

	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', undef);
	$node->append_conf('postgresql.conf', "include_dir = '$etc/conf.d'\n");
	$conf =~ s{http://127\.0\.0\.1:8500}{@{[ $consul->url ]}};
	append_to_file("$etc/conf.d/leader_election.conf",
		$conf . "leader_election.consul_token_file = '$etc/leader_election.token'\n");
	if ($cron)
	{
		append_to_file("$etc/conf.d/leader_election.conf", block('pg_cron configuration'));
	}
	$node->start;
	$node->sql('CREATE EXTENSION leader_election');
	$line = $node->sql(block('which line'));
	like($line, qr{^\Q$etc/conf.d/leader_election.conf\E\|\d+\|.*leader_election}, 'which line counts');
	unlike($line, qr/\n/, 'one');
	is($node->sql('SHOW cron.host'), '/var/run/postgresql', 'pg_cron by the socket') if $cron;
};

subtest 'they are enough' => sub {
	$node->wait_for_leadership('billing');
	is($node->sql("SELECT le_claim('billing', 'j', '2020-01-01')"), 't', 'claims');
	is($node->sql("SELECT count(*) FROM le_check_config() WHERE level = 'error'"), 0, 'all is well');
};

# What "consul agent -dev" would forget.
subtest 'Consul is started again' => sub {
	my $made = sub { return ($consul->kv("leader_election$_[0]") // {})->{CreateIndex} };
	my @keys = ('/billing/leader', '.claims/billing/j');
	my @before = map { $made->($_) } @keys;
	my $before = $node->token('billing');

	$consul->terminate;
	start_consul();
	$consul->wait_until_ready;
	is_deeply([ map { $made->($_) } @keys ], \@before, 'it knows the leader and the claim');
	$node->wait_for_leadership('billing');
	$node->sql("SELECT le_step_down('billing', '0')");
	poll_until(sub { ($node->token('billing') || $before) ne $before }, 'a new term');
	guarantee('G2', [ $before, $node->token('billing') ], 'a new term has a higher token');
	denied('G4', $node->sql("SELECT le_claim('billing', 'j', '2020-01-01')"), 'the tick is not claimed again');
	is($consul->get('/v1/acl/token/self', token => $token =~ s/\n//r)->{status}, 200, 'and the token of its ACL');
};

subtest 'curl with a token' => sub {
	local $ENV{TOKEN} = $consul->acl_token(
		'key_prefix "leader_election/" { policy = "read" }');
	my ($got, $shown) = curl('curl consul token', 'http://127.0.0.1:8500', $consul->url);

	is_deeply([ sort keys %$got ], [ sort keys %$shown ], 'the output of curl');
};

# A leader stays one while its token is replaced.
subtest 'rotation' => sub {
	my $term = $node->token('billing');
	my ($look) = block('acl rotation') =~ /^(consul acl token list .*?)\s*#/;
	my $offset = $node->log_offset;
	my ($old) = do {
		local %ENV = (
			%ENV,
			CONSUL_HTTP_ADDR => $consul->url,
			CONSUL_HTTP_TOKEN => $consul->{token},
			PATH => ($consul->binary =~ s{/[^/]*$}{}r) . ":$ENV{PATH}");
		qx($look) =~ /"AccessorID": "([^"]+)"/;
	};

	ok($old, 'the old one is found');
	run_shell(block('acl rotation'), OLD_ACCESSOR_ID => $old);
	isnt(slurp_file("$etc/leader_election.token"), $token, 'a new token');
	is((stat "$etc/leader_election.token")[2] & 07777, 0600, 'that nobody else can read');
	is($consul->get("/v1/acl/token/$old")->{status}, 403, 'the old one is gone');

	my $renewals = "SELECT renewals FROM le_stat_store WHERE election = 'billing'";
	my $before = $node->sql($renewals);
	$node->wait_for("SELECT ($renewals) > $before + 1", 'renewals with the new one');
	same_term($term, $node->token('billing'), 'the same term');
	ok(!$node->log_like(qr/refused|denied|ACL not found/, $offset), 'nothing was refused');
};

# Fenced work without an error on the instances that do not lead.
subtest 'an instance that does not lead says nothing' => sub {
	$node->sql('CREATE TABLE done (n int); CREATE FUNCTION my_job() RETURNS void '
		  . 'LANGUAGE sql AS $$INSERT INTO done VALUES (1)$$');
	is($node->sql_error(block('quiet fence')), '', 'on the leader');
	is($node->sql('SELECT count(*) FROM done'), 1, 'done');
	$node->sql("SELECT le_step_down('billing', '1 h')");
	$node->wait_for("SELECT NOT le_is_leader('billing')");
	is($node->sql_error(block('quiet fence')), '', 'on another');
	my $done = $node->sql('SELECT count(*) FROM done');
	is($done, 1, 'not done');
	denied('G3', $done > 1, 'nor after the term');
	like($node->sql_error(block('fence')), qr/LE001/, 'where the gate alone is an error');
	$node->sql("SELECT le_campaign('billing')");
	$node->wait_for_leadership('billing');
};

subtest 'removing it' => sub {
	my $remove = block('remove');

	$node->sql('CREATE ROLE worker; ALTER ROLE worker SET leader_election.on_loss = cancel');
	if ($cron)
	{
		$node->sql(block('pg_cron extension') . block('pg_cron'));
		like($node->sql($remove =~ s/^(.*?;).*/$1/sr), qr/^\d+\|billing\|/, 'jobs');

		# what the page says to do first, before the block
		my ($first) = split /^<!-- test: remove -->$/m, section('docs/setup.md', 'Removing it');
		my ($release) = $first =~ /`(le_cron_release\(.*?\))`/;
		$node->sql("SELECT cron.schedule('adopted', '0 3 * * *', 'SELECT 1')");
		is($node->sql("SELECT count(*) FROM le_cron_adopt('billing', 'adopted', dry_run => false)"), 1, 'one that was adopted');
		$node->sql("SELECT $release");
		is($node->sql("SELECT command FROM cron.job WHERE jobname = 'adopted'"), 'SELECT 1', 'gets its command back');
	}
	else
	{
		$remove =~ s/^SELECT jobid.*?;\n//s;
	}
	like($node->sql($remove), qr/^\|worker\|\{leader_election\.on_loss=cancel\}$/m, 'settings');
	is($node->sql("SELECT count(*) FROM pg_proc WHERE proname LIKE 'le\\_%'"), 0, 'the extension');

	my @files = glob "$data/leader_election.*";

	cmp_ok(scalar @files, '>', 0, 'there are files');
	run_shell(block('remove files') . block('remove source'));
	is_deeply([ glob "$data/leader_election.* $data/pg_stat_tmp/leader_election.*" ], [], 'none is left');
	is($node->sql('SHOW shared_preload_libraries'), $cron ? 'pg_cron' : '', 'not preloaded any more, and pg_cron is');
	is($node->sql("SELECT count(*) FROM pg_file_settings WHERE name LIKE 'leader\\_election.%' AND sourcefile LIKE '%/conf.d/%'"), 0, 'no setting is left');
	is(`find $stage -type f`, '', 'no file of the library') if $uninstall ne ':';

	isnt(scalar(keys %{ $consul->kv_tree('leader_election') }), 0, 'there are keys');
	like(run_shell(block('remove keys')), qr/"AccessorID"/, 'and tokens');
	is_deeply($consul->kv_tree('leader_election'), {}, 'no key is left');
	unlike($consul->get('/v1/acl/policies')->{body}, qr/leader_election-db1/, 'nor the policy');
};

done_testing();
