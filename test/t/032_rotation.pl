# Tier: test, 14 s
#
# Files that settings name are replaced while the server runs, as tools do it:
# in place, by another file of that name, by a link that points elsewhere.  A
# token counts from the next request that the store refuses, certificates and
# keys from the next connection, with and without a reload.

use strict;
use warnings;

use IO::Pty;
use IPC::Run ();
use LeaderElection::Certificates;
use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Util;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;

my $dir = "$PostgreSQL::Test::Utils::tmp_check/t_032_rotation_files";
my %file = map { $_ => "$dir/$_" } qw(ca cert key token server_cert server_key);
my $versions = 0;

mkdir $dir or die "$dir: $!";

sub content_of
{
	return slurp_file($_[0]);
}

sub write_file
{
	my ($path, $content) = @_;

	open(my $fh, '>', $path) or die "$path: $!";
	print $fh $content;
	close $fh or die "$path: $!";
	chmod 0600, $path;
	return;
}

my %way = (
	'in place' => \&write_file,
	'by rename' => sub {
		my ($path, $content) = @_;

		write_file("$path.new", $content);
		rename "$path.new", $path or die "$path: $!";
	},
	'by symlink' => sub {
		my ($path, $content) = @_;
		my $target = "$path." . ++$versions;

		write_file($target, $content);
		symlink $target, "$path.link" or die "$path: $!";
		rename "$path.link", $path or die "$path: $!";
	});

#
# The token
#
my $acl = LeaderElection::Consul->new('acl', acl => 1)->start;
my $rules = join "\n", map { "$_ { policy = \"write\" }" }
  ('key_prefix "leader_election"', 'session_prefix ""');

sub revoke
{
	my ($secret) = @_;
	my $self = $acl->get('/v1/acl/token/self', token => $secret);

	$acl->delete("/v1/acl/token/$self->{json}{AccessorID}");
	return;
}

write_file($file{token}, $acl->acl_token($rules));

my $node = LeaderElection::Node->create(
	'token',
	consul => $acl,
	settings => {
		lease_ttl => '60s',
		request_timeout => '2s',
		consul_token_file => $file{token}
	});

foreach my $name ('in place', 'by rename', 'by symlink')
{
	my $election = $name =~ s/ /_/r;
	my $old = content_of($file{token});

	ok($node->acquire($election), "the token, $name: leads");
	$way{$name}->($file{token}, $acl->acl_token($rules));
	revoke($old);
	ok( eval {
			poll_until(
				sub {
					$node->sql_error("SELECT le_current_leader('$election')") eq ''
				},
				'the new token');
		},
		"the token, $name: read again");
	is($node->sql("SELECT le_renew('$election')"),
		't', "the token, $name: renewed by the new one, without a reload");
	ok($node->release($election), "the token, $name: released");
}

# The file cannot be read when the token is refused: the error says so.
{
	my $old = content_of($file{token});

	unlink $file{token};
	revoke($old);

	my $error;

	poll_until(
		sub {
			$error = $node->sql_error("SELECT le_current_leader('a')");
			$error ne '';
		},
		'a refusal');
	like($error,
		qr/DETAIL: .*the token is an old one: could not open token file/,
		'the error says that the file cannot be read');
}
$node->stop;
$acl->stop;

#
# The secrets for the other stores.  Which one is sent shows which was read, so
# something that refuses them all does for the store.
#
my $refuser = LeaderElection::Recorder->new('refuser', $acl->host_port)->start;
my %other = (
	cassandra => {
		settings => {
			gateway_url => $refuser->url,
			gateway_token_file => $file{token}
		},
		status => 401,
		headers => { 'Content-Type' => 'application/problem+json' },
		body => '{"type":"urn:leader-election:problem:unauthorized","outcome":"rejected","detail":"no"}',
		secret => sub { return "token-number-$_[0]" },
		sent => sub { return $_[0]{headers}{Authorization} =~ s/^Bearer //r }
	},
	azure => {
		settings => {
			azure_container_url => $refuser->url . '/account/container',
			azure_sas_file => $file{token}
		},
		status => 403,
		headers => {
			'x-ms-request-id' => 'r',
			'x-ms-version' => '2023-11-03',
			'x-ms-error-code' => 'AuthenticationFailed'
		},
		body => '',
		secret => sub { return "sp=rwl&sv=2023-11-03&se=2999-01-01&sig=$_[0]" },
		sent => sub { return $_[0]{path} =~ s/^.*(?=sp=rwl)//r }
	});

foreach my $store (sort keys %other)
{
	my $other = $other{$store};
	my $secret = 0;

	$refuser->clear_rules;
	$refuser->rule(
		match => qr/^/,
		action => 'answer',
		map { $_ => $other->{$_} } 'status', 'headers', 'body');
	unlink $file{token};
	write_file($file{token}, $other->{secret}($secret) . "\n");

	my $asker = LeaderElection::Node->create(
		$store,
		settings => { backend => $store, %{ $other->{settings} } });
	my $ask = sub {
		my $mark = $refuser->mark;
		my $error = $asker->sql_error("SELECT le_current_leader('e')");

		like($error, qr/ERROR:  LE005: /, "$_[0]: refused");
		return map { $other->{sent}($_) } $refuser->requests(undef, $mark);
	};

	foreach my $reload (0, 1)
	{
		foreach my $name ('in place', 'by rename', 'by symlink')
		{
			my $what = "$store, $name, " . ($reload ? 'with a reload' : 'without a reload');
			my $old = $other->{secret}($secret);
			my $new = $other->{secret}(++$secret);
			my $offset = $asker->log_offset;

			$way{$name}->($file{token}, "$new\n");
			if ($reload)
			{
				$asker->reload;
				$asker->wait_for_log_like(qr/read a new token from file/, $offset);
			}
			is_deeply([ $ask->($what) ], $reload ? [$new] : [ $old, $new ],
				"$what: the new one is sent" . ($reload ? '' : ' once the old one is refused'));
		}
	}
	$asker->stop;
}

#
# Certificates and keys
#
my @authorities =
  map { LeaderElection::Certificates->new($_) } qw(first second);
my @server = map { [ $_->issue('server') ] } @authorities;
my @client = map { [ $_->issue('client') ] } @authorities;
my @all = map { content_of($_->file) } @authorities;

# The server trusts the clients of both; which certificate it has changes.
write_file("$dir/both", join '', @all);

sub serve
{
	my ($n) = @_;

	write_file($file{server_cert}, content_of($server[$n][0]));
	write_file($file{server_key}, content_of($server[$n][1]));
	return;
}

serve(0);

my $https = LeaderElection::Consul->new(
	'https',
	https => 1,
	config => <<"END")->start;
tls {
	defaults {
		ca_file = "$dir/both"
		cert_file = "$file{server_cert}"
		key_file = "$file{server_key}"
	}
	https {
		verify_incoming = true
	}
}
END

sub use_client
{
	my ($how, $n) = @_;

	$how->($file{ca}, $all[$n]);
	$how->($file{cert}, content_of($client[$n][0]));
	$how->($file{key}, content_of($client[$n][1]));
	return;
}

use_client(\&write_file, 0);

my $tls = LeaderElection::Node->create(
	'tls',
	consul => $https->https_url,
	settings => {
		lease_ttl => '60s',
		request_timeout => '2s',
		ca_file => $file{ca},
		cert_file => $file{cert},
		key_file => $file{key}
	});
my $n = 0;

poll_until(sub { $tls->sql_error("SELECT le_current_leader('a')") eq '' },
	'the first authority');
foreach my $reload (0, 1)
{
	foreach my $name ('in place', 'by rename', 'by symlink')
	{
		$n = 1 - $n;
		use_client($way{$name}, $n);
		$tls->reload if $reload;
		serve($n);
		$https->restart;
		ok( eval {
				poll_until(
					sub {
						$tls->sql_error("SELECT le_current_leader('a')") eq ''
					},
					'trust in the new one');
			},
			"all of TLS, $name, "
			  . ($reload ? 'with a reload' : 'without a reload'))
		  or diag($tls->sql_error("SELECT le_current_leader('a')"));
	}
}

#
# Faults in them are reported at once, not when a connection drops.
#
sub complaint
{
	return $tls->sql(
		"SELECT string_agg(message, ' / ') FROM le_check_config()
		WHERE level = 'error'");
}

sub complains
{
	my ($pattern, $what) = @_;
	my $offset = $tls->log_offset;
	my $got;

	$tls->reload;
	ok(eval { $tls->wait_for_log_like(qr/LOG: +$pattern/, $offset) },
		"$what: the log")
	  or diag($tls->log_since($offset));
	$got = complaint();
	like($got, qr/No connection by TLS can be made: $pattern/,
		"$what: the check");
	return;
}

sub well_again
{
	poll_until(sub { $tls->reload; complaint() eq '' }, 'no complaint');
	return;
}

foreach my $case (
	[ ca => 'CA' ],
	[ cert => 'certificate' ],
	[ key => 'private key' ])
{
	my ($which, $word) = @$case;
	my $path = $file{$which};

	rename $path, "$path.away" or die "$path: $!";
	complains(qr/could not open \Q$word\E file "\Q$path\E": No such file/,
		"no $word file");
	POSIX::mkfifo($path, 0600) or die "$path: $!";
	complains(qr/\Q$word\E file "\Q$path\E" is not a regular file/,
		"a FIFO as $word file");

	# A process that opens it would wait for ever; a new connection fails instead.
	$https->restart;
	my $error;

	poll_until(
		sub {
			$error = $tls->sql_error("SELECT le_current_leader('a')");
			$error =~ /regular/;
		},
		'an answer of the worker');
	like($error, qr/DETAIL: .*\Q$word\E file .* is not a regular file/,
		"a FIFO as $word file: the request");
	rename "$path.away", $path or die "$path: $!";
	well_again();
}

$tls->configure(key_file => '');
complains(
	qr/certificate file "\Q$file{cert}\E" holds no private key, and "leader_election.key_file" is not set/,
	'a certificate without its key');
$tls->configure(key_file => $file{key});
well_again();

#
# Nobody can be asked for the pass phrase of a key.
#
sub encrypted
{
	my ($how, $key) = @_;
	my $text = '';

	IPC::Run::run([ 'openssl', @$how, '-passout', 'pass:secret' ], '<', \$key, '>', \$text)
	  or die "openssl @$how";
	return $text;
}

my $plain = content_of($file{key});
my $locked;

foreach my $case (
	[ 'a new', 'pkcs8', '-topk8', '-v2', 'aes256' ],
	[ 'an old', 'ec', '-aes256' ])
{
	my ($age, @how) = @$case;

	$locked = encrypted(\@how, $plain);
	write_file($file{key}, $locked);
	complains(
		qr/the key in private key file "\Q$file{key}\E" is encrypted: "leader_election.key_file" takes only one without a pass phrase/,
		"$age form of encrypted key");
	write_file($file{key}, $plain);
	well_again();
}

write_file($file{cert}, content_of($client[$n][0]) . $locked);
$tls->configure(key_file => '');
complains(
	qr/the key in certificate file "\Q$file{cert}\E" is encrypted: "leader_election.cert_file" takes only one without a pass phrase/,
	'an encrypted key beside its certificate');
write_file($file{cert}, content_of($client[$n][0]) . $plain . $locked);
well_again();
write_file($file{cert}, content_of($client[$n][0]));
$tls->configure(key_file => $file{key});
well_again();

# A server in the foreground has a terminal, and libraries ask there.  So far
# behind the beginning only the library itself finds the key.
subtest 'a server at a terminal' => sub {
	write_file($file{key}, "# far from the beginning\n" x 12000 . $locked);
	$tls->stop;

	my $offset = $tls->log_offset;
	my $pty = IO::Pty->new;
	my $server = fork() // die "fork: $!";

	if ($server == 0)
	{
		# From here on only exec or _exit: no END block of the test.
		eval {
			$pty->make_slave_controlling_terminal;
			POSIX::dup2($pty->slave->fileno, 0);
			open(my $log, '>>', $tls->logfile) or die;
			POSIX::dup2(fileno($log), $_) foreach 1, 2;
			exec 'setpriv', '--pdeathsig', 'KILL', 'postgres', '-D',
			  $tls->data_dir;
		};
		POSIX::_exit(127);
	}
	$pty->close_slave;
	poll_until(sub { -e $tls->data_dir . '/postmaster.pid'
			  && $tls->psql('postgres', 'SELECT 1', timeout => 10) eq 0 }, 'the server');
	$tls->_update_pid(1);

	# before anything else, as it would answer nothing while it asks
	is(readlink('/proc/' . $tls->wait_for_worker . '/fd/0'),
		'/dev/null', 'the worker reads from no terminal');
	like($tls->sql_error("SELECT le_current_leader('a')"),
		qr/could not read election "a"/, 'the error');
	unlike($tls->log_since($offset), qr/pass ?phrase:/i, 'and asks for no pass phrase');
	$tls->stop;
	waitpid($server, 0);
	is($?, 0, 'a fast shutdown');
	write_file($file{key}, $plain);
	$tls->start;
};

# Kept connections know nothing of it: the check makes one of its own.
is($tls->sql_error("SELECT le_current_leader('a')"), '', 'a connection');
write_file($file{key}, content_of($client[1 - $n][1]));
like(complaint(), qr/^Could not use the key prefix: .*https:|^Could not use/,
	'the key of another certificate: the check');
is($tls->sql_error("SELECT le_current_leader('a')"),
	'', 'connections stay');
$tls->stop;

done_testing();
