# Tier: test, 38 s
#
# Consul's access control, and TLS on the way to it.

use strict;
use warnings;

use IPC::Run;
use LeaderElection::Certificates;
use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Requests;
use LeaderElection::Sampler;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my %settings = (lease_ttl => '10s', request_timeout => '2s');
my $dir = $PostgreSQL::Test::Utils::tmp_check;
my $token_file = "$dir/t_025_security_token";

sub write_token
{
	my ($token) = @_;

	unlink $token_file;
	append_to_file($token_file, "$token\n");
	return;
}

# Polls until the error of an acquire names the reason, since a reload takes
# a moment, and returns it.
sub error_like
{
	my ($node, $reason) = @_;
	my $got;

	poll_until(
		sub {
			$got = $node->sql_error("SELECT le_acquire('security')");
			$got =~ /DETAIL:  .*$reason/;
		},
		"an error like $reason");
	return $got;
}

#
# Access control.  The rules are those of docs/stores/consul.md.
#
my $consul = LeaderElection::Consul->new(
	'acl',
	acl => 1,
	config => 'acl { enable_key_list_policy = true }')->start;
my %rule = (
	elections => 'key_prefix "leader_election/" { policy = "write" }',
	nodes => 'key_prefix "leader_election.nodes/" { policy = "write" }',
	session => 'session "acl" { policy = "write" }');

write_token($consul->acl_token(join("\n", values %rule)));

# Nobody answers where the environment says that proxies are.
my %proxies = map { $_ => 'http://127.0.0.1:1' } qw(http_proxy https_proxy all_proxy);
my $node = do {
	local %ENV = (%ENV, %proxies);

	LeaderElection::Node->create(
		'node',
		consul => $consul,
		settings => { %settings, consul_token_file => $token_file });
};
my $url = $consul->url;

# Guards against a documented policy that does not do.
subtest 'the documented policy is enough' => sub {
	my $offset = $node->log_offset;

	ok($node->acquire('a/b', value => 'one'), 'acquire, by no proxy of the environment');
	is($node->sql("SELECT le_renew('a/b', 'two')"), 't', 'publish');
	is($node->leader('a/b'), 'node', 'the leader');
	$node->wait_for('SELECT count(*) = 1 FROM le_nodes', 'nodes');
	ok($node->release('a/b'), 'release');
	$node->sql("SELECT le_campaign('security')");
	$node->wait_for_leadership('security');
	$node->restart;
	ok($node->acquire('security'), 'restart');
	$node->stop;
	is_deeply(
		[ grep { $_->{Name} eq 'leader_election: node' }
			  @{ $consul->get('/v1/session/list')->{json} } ],
		[],
		'shutdown');
	is_deeply(node_keys($consul), {}, 'nothing is left behind');
	$node->start;
	ok(!$node->log_like(qr/refused|denied/, $offset), 'nothing was refused');
};

# Guards against documenting more than is needed, and against a right that is
# missed without a word.
subtest 'and not more than enough' => sub {
	my %less = (
		elections => 'key_prefix "leader_election/" { policy = "list" }',
		nodes => 'key_prefix "leader_election.nodes/" { policy = "list" }',
		session => 'session "acl" { policy = "read" }');

	foreach my $right (sort keys %rule)
	{
		my %rights = (%rule, $right => $less{$right});

		$node->stop;
		write_token($consul->acl_token(join("\n", values %rights)));
		$node->start;
		like(
			$node->sql_error("SELECT le_acquire('security')"),
			qr/ERROR:  LE005: .*"security".*\Q$url\E.*DETAIL:  .*Permission denied/s,
			"$right read only: refused");
		denied('G5', $node->is_leader('security'), 'not leader');
	}
};

# Guards against "nobody leads" where the answer is hidden.
subtest 'a token that may only read' => sub {
	my $foreign = $consul->session(Name => 'somebody');

	$node->stop;
	write_token($consul->acl_token(
			'key_prefix "leader_election/" { policy = "read" }'));
	$consul->put('/v1/catalog/register',
		{ Node => 'elsewhere', Address => '127.0.0.1' });
	my $hidden =
	  $consul->session(Node => 'elsewhere', Checks => [], Name => 'hidden');
	$consul->lock('leader_election/look/leader', $hidden);
	$node->start;
	is($node->leader('look'), "session:$hidden",
		'a session that may not be seen');
	like($node->sql_error("SELECT le_acquire('look')"),
		qr/ERROR:  LE005/, 'may not lead');
	$node->stop;
	write_token(
		$consul->acl_token(
			'key_prefix "leader_election/" { policy = "read" } '
			  . 'session_prefix "" { policy = "read" }'));
	$node->start;
	is($node->leader('look'), 'hidden', 'one that may');
	$node->stop;
	write_token($consul->acl_token('session_prefix "" { policy = "write" }'));
	$node->start;
	like($node->sql_error("SELECT le_current_leader('look')"),
		qr/ERROR:  LE005/, 'without key:read nobody knows who leads');
};

subtest 'token file' => sub {
	$node->stop;
	write_token('11111111-2222-3333-4444-555555555555');
	$node->start;
	like($node->sql_error("SELECT le_acquire('security')"),
		qr/ERROR:  LE005: .*DETAIL:  .*ACL not found/s, 'unknown token');
	unlink $token_file;
	$node->restart;
	like($node->sql_error("SELECT le_acquire('security')"),
		qr/ERROR:  LE005: .*DETAIL:  .*Permission denied/s, 'no file');
	ok( $node->log_like(
			qr/could not open token file "\Q$token_file\E"/),
		'said in the log');
	append_to_file($token_file, "two words\n");
	$node->restart;
	like($node->sql_error("SELECT le_acquire('security')"),
		qr/ERROR:  LE005/, 'no token in the file');
	ok( $node->log_like(
			qr/token file "\Q$token_file\E" does not hold one printable token/),
		'said in the log');
	ok(!$node->log_like(qr/two words/), 'without its content');
};

# Guards against terms that end when a token is rotated, or that go on, or
# never come back, when one is revoked.
subtest 'rotated and revoked' => sub {
	my @secrets =
	  map { $consul->acl_token(join("\n", values %rule)) } 1 .. 3;
	my $revoke = sub {
		my ($secret) = @_;
		my $self = $consul->get('/v1/acl/token/self', token => $secret);

		$consul->delete("/v1/acl/token/$self->{json}{AccessorID}");
	};

	$node->stop;
	write_token($secrets[0]);
	$node->start;
	$node->sql("SELECT le_campaign('security')");
	$node->wait_for_leadership('security');

	my $token = $node->token('security');
	my $offset = $node->log_offset;

	write_token($secrets[1]);
	$node->reload;
	poll_until(
		sub {
			# the reload has arrived when nothing is refused any more
			$revoke->($secrets[0]);
			$node->sql("SELECT le_renew('security')") eq 't';
		},
		'a proof by the new token');
	same_term($token, $node->token('security'), 'rotated: the term goes on');

	my $sampler =
	  LeaderElection::Sampler->new($node, 'security', interval => 0.02);

	poll_until(sub { $sampler->beliefs }, 'samples');

	$revoke->($secrets[1]);
	$node->wait_for_log_like(qr/refused to .*ACL not found/, $offset);

	# the worker may have yet to read an answer
	my $latest = boottime_ns() + 9e9;
	my $deadline = deadline_ns($node, 'security');

	poll_until(sub { !$node->is_leader('security') }, 'end of belief');
	$sampler->stop;

	my @beliefs = $sampler->beliefs;

	is(scalar @beliefs, 1, 'revoked: one term');
	guarantee('G5', [ [ $beliefs[0][1], $latest ] ], 'not beyond its deadline');
	cmp_ok($beliefs[0][1], '<=', $deadline, 'as it was shown');
	$node->wait_for_log_like(
		qr/no longer leader of election "security" .*: deadline passed/, $offset);
	pass('nor given up before');
	like($node->sql_error("SELECT le_acquire('other')"),
		qr/ERROR:  LE005/, 'refused');
	is(scalar(() = $node->log_since($offset) =~ /refused to prove/g),
		1, 'one line about the proof');
	write_token($secrets[2]);
	$node->reload;
	$node->wait_for_leadership('security');
	guarantee('G2', [ $token, $node->token('security') ],
		'a new token: leads again, with a higher fencing token');
	unlike($node->log_since, qr/\Q$_\E/, 'no token in the log')
	  foreach @secrets;
	$node->stop;
};

#
# TLS
#

# As if libcurl had been built for another directory of authorities.
sub shim_of_libcurl
{
	my $library = "$dir/t_025_security_libcurl";
	my $output;

	unlink "$library.c";
	append_to_file("$library.c", <<'END');
#include <stdlib.h>
#include <dlfcn.h>
#include <curl/curl.h>

CURL *
curl_easy_init(void)
{
	CURL	   *(*real) (void) = (CURL *(*) (void)) dlsym(RTLD_NEXT, "curl_easy_init");
	CURL	   *easy = real();

	if (easy != NULL && getenv("LE_TRUSTED") != NULL)
		curl_easy_setopt(easy, CURLOPT_CAPATH, getenv("LE_TRUSTED"));
	return easy;
}
END
	IPC::Run::run(
		[
			$ENV{CC} // 'cc', '-D_GNU_SOURCE', '-shared', '-fPIC', '-o',
			"$library.so", "$library.c", '-lcurl', '-ldl'
		],
		'>&', \$output) or die $output;
	return "$library.so";
}

my $ca = LeaderElection::Certificates->new('ca');
my $other_ca = LeaderElection::Certificates->new('otherca');
my $https = LeaderElection::Consul->new(
	'https',
	https => 1,
	config => $ca->consul_config(verify_incoming => 1))->start;
my $elsewhere = LeaderElection::Consul->new(
	'elsewhere',
	https => 1,
	config => $ca->consul_config(names => 'DNS:elsewhere.example'))->start;
my ($cert, $key) = $ca->issue('client');
my ($other_cert, $other_key) = $other_ca->issue('stranger');
my %good = (
	consul_url => $https->https_url,
	ca_file => $ca->file,
	cert_file => $cert,
	key_file => $key);
my $tls = do {
	local %ENV = (%ENV, %proxies);

	LeaderElection::Node->create(
		'tls',
		consul => $https->https_url,
		settings => { %settings, %good, ca_file => '' });
};

# Guards against a connection to anybody who answers, and a reason that is
# not told.
subtest 'TLS: not trusted' => sub {
	my $nothing = "$dir/t_025_security_nothing";
	my @cases = (
		[ 'no such authority', 'certificate', ca_file => '' ],
		[ 'wrong authority', 'certificate', ca_file => $other_ca->file ],
		[ 'no file', 'certificate|CA', ca_file => $nothing ],
		[
			'another name', 'name',
			consul_url => $elsewhere->https_url
		],
		[
			'no client certificate', '(certificate|alert|SSL|reset)',
			cert_file => '',
			key_file => ''
		],
		[
			"a stranger's certificate", '(certificate|alert|SSL|reset)',
			cert_file => $other_cert,
			key_file => $other_key
		],
		[ 'https where http is spoken', 'SSL',
			consul_url => $https->url =~ s/^http/https/r ]);

	foreach my $case (@cases)
	{
		my ($name, $reason, %wrong) = @$case;

		$tls->configure(%good, %wrong);
		like(
			error_like($tls, $reason),
			qr/ERROR:  LE003: .*"security".*https:/,
			"$name: unavailable");
		denied('G5', $tls->is_leader('security'), 'not leader');
	}
	$tls->configure(%good,
		consul_url => $https->https_url =~ s/^https/http/r);
	like(
		error_like($tls, 'HTTP 400'),
		qr/ERROR:  LE005/,
		'http where https is spoken: refused');
};

# libcurl is mostly built with a directory of authorities that the system
# trusts.  Here it has one with the authority that made the server's
# certificate: it counts as long as ca_file names no other.
subtest 'TLS: authorities of the system' => sub {
	my $trusted = $ca->directory;
	my $shim = shim_of_libcurl();
	my $node = do {
		local $ENV{LD_PRELOAD} = join(' ', $shim, $ENV{LD_PRELOAD} // ());
		local $ENV{LE_TRUSTED} = $trusted;

		LeaderElection::Node->create(
			'system',
			consul => $https->https_url,
			settings => { %settings, %good, ca_file => '' });
	};

	ok($node->acquire('system'), 'trusted without ca_file');
	$node->configure(ca_file => $other_ca->file);
	poll_until(
		sub { $node->sql_error("SELECT le_current_leader('system')") },
		'the reload');
	like(
		$node->sql_error("SELECT le_current_leader('system')"),
		qr/ERROR:  LE003: .*DETAIL:  .*certificate/s,
		'not with another authority in ca_file');
	$node->configure(ca_file => $ca->file);
	poll_until(
		sub { $node->sql_error("SELECT le_current_leader('system')") eq '' },
		'its own in ca_file');
	$node->stop;
};

subtest 'TLS: trusted' => sub {
	$tls->configure(%good);
	poll_until(sub { $tls->acquire('security') }, 'an acquire by https');
	still_leads($tls, 'security', 'leads, by no proxy of the environment');
	is($tls->sql("SELECT le_renew('security')"), 't', 'and proves it');
	is($tls->leader('security'), 'tls', 'as the store shows');

	# settings count for connections that are open
	my $token = $tls->token('security');

	$tls->configure(%good, ca_file => $other_ca->file);
	like(
		$tls->sql_error("SELECT le_current_leader('security')"),
		qr/ERROR:  LE003: .*DETAIL:  .*certificate/s,
		'another authority: not trusted any more')
	  if poll_until(
		sub {
			$tls->sql_error("SELECT le_current_leader('security')");
		},
		'the reload');
	$tls->configure(%good);
	poll_until(
		sub { $tls->sql("SELECT le_renew('security')") eq 't' },
		'trust again');
	same_term($token, $tls->token('security'), 'the term went on');
	ok($tls->release('security'), 'released');
};

done_testing();
