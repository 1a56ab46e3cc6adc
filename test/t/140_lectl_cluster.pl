# Tier: test, 3 s
#
# lectl --cluster and PGCLUSTER: which server it takes them for, by configuration
# files like Debian's in a directory of the test's own.

use strict;
use warnings;

use File::Basename ();
use File::Path ();
use IPC::Run;
use LeaderElection::Docs;
use LeaderElection::Node;
use PostgreSQL::Test::Utils;
use Test::More;

my $root = PostgreSQL::Test::Utils::tempdir();
my $nothing = "$root/nothing";
my $node = LeaderElection::Node->create('a');

mkdir $nothing;
delete @ENV{qw(PGHOST PGHOSTADDR PGPORT PGSERVICE PGCLUSTER)};
$ENV{PG_CLUSTER_CONF_ROOT} = $root;

# Files below the root, by their names.
sub conf
{
	my (%files) = @_;

	foreach my $file (sort keys %files)
	{
		File::Path::make_path(File::Basename::dirname("$root/$file"));
		PostgreSQL::Test::Utils::append_to_file("$root/$file", $files{$file});
	}
	return;
}

sub lectl
{
	my (@arguments) = @_;
	my ($out, $err) = ('', '');

	IPC::Run::run([ "$ENV{LE_BIN}/lectl", '-w', @arguments ],
		'<', \'', '>', \$out, '2>', \$err,
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	return ($? >> 8, $out, $err);
}

# The server that it asks, as list names it.
sub server
{
	my (@arguments) = @_;
	my ($code, $out, $err) = lectl(@arguments, 'list', '--csv');

	return "$code: $err" if $out eq '';
	return "$err" . ($out =~ /^,,,([^,]+),no answer,/m)[0];
}

conf(
	'15/main/postgresql.conf' => "port = @{[ $node->port ]}\n"
	  . "unix_socket_directories = '@{[ $node->host ]}'\n",
	'15/plain/postgresql.conf' => "#port = 1\n  port = 5440\t\t# its own\n"
	  . "unix_socket_directories = '$nothing'\n",
	'15/words/postgresql.conf' => "PORT 5441\nunix_socket_directories'$nothing'\n",
	'15/last/postgresql.conf' => "port = 1\nport = '5442'\n"
	  . "unix_socket_directories = ' $nothing , /tmp'\n",
	'15/quoted/postgresql.conf' =>
	  qq(port=5443\nunix_socket_directories = '"$nothing/it''s here", /tmp'\n),
	'15/tcp/postgresql.conf' => "port = 1\nunix_socket_directories = ''\n",
	'15/silent/postgresql.conf' => "max_connections = 10\n",
	'15/dir/postgresql.conf' => "port = 1\nunix_socket_directories = '$nothing'\n"
	  . "include_dir = 'conf.d'\t# as pg_createcluster has it\n",
	'15/dir/conf.d/10.conf' => "port = 5444\n",
	'15/dir/conf.d/20.conf' => "port = 5445\n",
	'15/dir/conf.d/30.conf.off' => "port = 2\n",
	'15/dir/conf.d/.40.conf' => "port = 3\n",
	'15/files/postgresql.conf' => "include 'sub/one.conf'\ninclude_if_exists = 'none'\n"
	  . "unix_socket_directories = '$nothing'\n",
	'15/files/sub/one.conf' => "include 'two.conf'\n",
	'15/files/sub/two.conf' => "port = 5446\n",
	'15/round/postgresql.conf' => "include 'postgresql.conf'\nport = 5447\n"
	  . "unix_socket_directories = '$nothing'\n",
	'15/altered/postgresql.conf' => "port = 1\ndata_directory = '$root/data'\n"
	  . "unix_socket_directories = '$nothing'\n",
	'data/postgresql.auto.conf' => "port = '5448'\n",
	'15/part/postgresql.conf' => "port = 5449\ninclude 'secret.conf'\n"
	  . "unix_socket_directories = '$nothing'\n",
	'15/part/secret.conf' => "port = 1\n",
	'15/closed/postgresql.conf' => "port = 1\n",
	'15/wrong/postgresql.conf' => "port = many\n",
	'services' => "[there]\nhost=127.0.0.1\nport=1\n");
chmod 0, "$root/15/closed/postgresql.conf", "$root/15/part/secret.conf";

subtest 'the settings in files' => sub {
	foreach my $case (
		[ plain => "$nothing:5440" ],
		[ words => "$nothing:5441" ],
		[ last => "$nothing:5442" ],
		[ quoted => "$nothing/it's here:5443" ],
		[ tcp => 'localhost:1' ],
		[ dir => "$nothing:5445" ],
		[ files => "$nothing:5446" ],
		[ altered => "$nothing:5448" ])
	{
		my ($name, $server) = @$case;

		is(server('--cluster', "15/$name"), $server, $name);
	}
	like(server('--cluster', '15/silent'), qr{^/.*:5432$}, 'nothing');
	like(
		server('--cluster', '15/part'),
		qr{^\S+ warning: could not open file "\S+/secret.conf": Permission denied\n.*:5449$},
		'one that is not for it is said');
	like(
		server('--cluster', '15/round'),
		qr{is included too deeply\n.*:5447$}, 'one that includes itself');
};

subtest 'precedence' => sub {
	my $plain = "$nothing:5440";
	my @plain = ('--cluster', '15/plain');

	foreach my $case (
		[ $plain, {}, '--cluster=15/plain' ],
		[ $plain, { PGCLUSTER => '15/plain' } ],
		[ $plain, { PGCLUSTER => '15/last' }, @plain ],
		[ '127.0.0.1:1', {}, '--cluster', '15/127.0.0.1:1' ],
		[ '127.0.0.1:5432', {}, '--cluster', '15/127.0.0.1:' ],
		[ "$nothing:7", {}, '--cluster', "15/$nothing:7" ],
		[ '127.0.0.1:1', { PGCLUSTER => '15/127.0.0.1:1' } ],
		[ "$nothing:7", {}, @plain, '--port', 7 ],
		[ "$nothing:7", { PGCLUSTER => '15/plain' }, '-p', 7 ],
		[ $plain, { PGCLUSTER => '15/plain', PGPORT => 7 } ],
		[ $plain, { PGHOST => '127.0.0.1', PGPORT => 1 }, @plain ],
		[ '127.0.0.1:1', { PGCLUSTER => '15/plain', PGHOST => '127.0.0.1', PGPORT => 1 } ],
		[ '127.0.0.1:1', { PGCLUSTER => '15/plain', PGHOSTADDR => '127.0.0.1', PGPORT => 1 } ],
		[ '127.0.0.1:1', { PGPORT => 1 }, @plain, '-h', '127.0.0.1' ],
		[ '127.0.0.1:1', {}, @plain, '-d', 'host=127.0.0.1 port=1' ],
		[ '127.0.0.1:1', {}, @plain, '-d', 'postgresql://127.0.0.1:1/postgres' ],
		[ "$nothing:7", {}, @plain, '-d', 'port=7' ],
		[ $plain, {}, @plain, '-d', 'dbname=postgres' ],
		[ '127.0.0.1:1', { PGCLUSTER => '15/plain', PGSERVICE => 'there' } ],
		[ '127.0.0.1:1', { PGCLUSTER => '15/plain' }, '-d', 'service=there' ],
		[ $plain, {}, @plain, '-d', 'service=there' ])
	{
		my ($server, $env, @arguments) = @$case;
		local @ENV{ keys %$env, 'PGSERVICEFILE' } = (values %$env, "$root/services");
		my $said = join ' ', (map { "$_=$env->{$_}" } sort keys %$env), @arguments;

		is(server(@arguments), $server, $said);
	}
	local $ENV{PGCLUSTER} = '';
	isnt((lectl('list'))[0], 64, 'PGCLUSTER that is empty');
};

subtest 'errors' => sub {
	foreach my $case (
		[ 64, qr/cluster "15\/none" does not exist\n.*No such file/, '--cluster', '15/none' ],
		[ 77, qr/cluster "15\/closed" cannot be read\n.*Permission/, '--cluster', '15/closed' ],
		[ 77, qr/"15\/wrong" has no valid port: "many"/, '--cluster', '15/wrong' ],
		(   map { [ 64, qr/invalid value of --cluster: "\Q$_\E"/, '--cluster', $_ ] } '', '15', '15/',
			'main', '/main', '../15/main', '15/../15/main', '15/..', '15/:1', '15/h:70000'))
	{
		my ($code, $message, @arguments) = @$case;
		my ($got, undef, $err) = lectl(@arguments, 'step-down', '--all');

		is($got, $code, "@arguments");
		like($err, $message, 'says why');
		is((lectl(@arguments, 'check', 'store'))[0], 3, 'unknown to check');
	}
	foreach my $late (
		[ 'list', '--cluster', '15/main' ],
		[ 'exec', '--cluster', '15/main', 'e', 'true' ],
		[ 'exec', 'e', '--cluster=15/main', 'true' ])
	{
		my ($code, undef, $err) = lectl(@$late);

		is($code, 64, "@$late");
		like($err, qr/option "--cluster" must come before "$late->[0]"/, 'says why');
	}
	local $ENV{PGCLUSTER} = '15';
	like((lectl('list'))[2], qr/invalid value of PGCLUSTER: "15"/, 'PGCLUSTER');
};

# With a server, and what follows is not lectl's.
subtest 'the command of exec' => sub {
	local $ENV{LC_ALL} = 'C';
	my @exec = ('-d', 'postgres', 'exec', '--settle', '0', 'once');
	my ($code, $out, $err) =
	  lectl('--cluster', '15/main', @exec, '/bin/echo', '--cluster', '17/main', 'x');

	is("$code$out", "0--cluster 17/main x\n", 'its words') or diag $err;
	local $ENV{PGCLUSTER} = '15/main';
	($code, $out, $err) = lectl(@exec, 'sh', '-c', 'echo "$PGCLUSTER ${PGHOST-none} ${PGPORT-none}"');
	is("$code$out", "015/main none none\n", 'its environment') or diag $err;
};

# As the page has it, for a cluster of that name.
subtest 'the page' => sub {
	conf('17/main/postgresql.conf' => slurp_file("$root/15/main/postgresql.conf"));
	foreach my $line (split /\n/, block('lectl cluster'))
	{
		my ($set, $arguments) = $line =~ /^(?:PGCLUSTER=(\S+) )?lectl (.*)$/
		  or die "another kind of line: $line";
		local $ENV{PGCLUSTER} = $set;
		local $ENV{PGDATABASE} = 'postgres';
		my ($code, $out, $err) = lectl(split ' ', $arguments);

		is("$code$err", '0', $line);
	}
};

done_testing();
