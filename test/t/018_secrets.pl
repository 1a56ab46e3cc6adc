# Tier: test, 13 s
#
# The token for the store: check and log say if it cannot be read, if others can read
# it, and if it was replaced; they never show the token.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Util;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;

my $consul = LeaderElection::Consul->new('consul', acl => 1)->start;
my $file = "$PostgreSQL::Test::Utils::tmp_check/t_018_token";
my $node = LeaderElection::Node->create(
	'secretive',
	consul => $consul,
	settings => {
		lease_ttl => '10s',
		campaign => 'billing',
		consul_token_file => $file
	});
my @tokens = ($consul->{token}, 'bbbbbbbb-0000-0000-0000-000000000000');

sub use_token
{
	my ($token, $mode) = @_;

	unlink $file;
	open(my $fh, '>', $file) or die "$file: $!";
	print $fh "$token\n";
	close $fh;
	chmod $mode // 0600, $file or die "$file: $!";
	return;
}

# The check's rows on secrets, and on the way to the store.
sub check
{
	my ($topic) = @_;

	return $node->sql(
		"SELECT level || ':' || message FROM le_check_config()
		WHERE topic = '$topic' AND level <> 'ok'");
}

sub reloaded
{
	my ($pattern, $what) = @_;
	my $offset = $node->log_offset;

	$node->reload;
	ok(eval { $node->wait_for_log_like($pattern, $offset) }, $what)
	  or diag($node->log_since($offset));
	return;
}

sub check_after_reload
{
	my $got;

	$node->reload;
	poll_until(sub { ($got = check('secrets')) eq '' }, 'no complaint');
	return $got;
}

subtest 'a file that cannot be used' => sub {
	like(check('secrets'),
		qr/^error:No token is sent, although "leader_election.consul_token_file" names a file: could not open token file "\Q$file\E": No such file or directory$/,
		'missing: the check');
	ok($node->log_like(
			qr/LOG: +could not open token file "\Q$file\E": No such file/),
		'missing: the log');

	use_token('');
	reloaded(qr/LOG: +token file "\Q$file\E" is empty/, 'empty: the log');
	like(check('secrets'), qr/^error:.*: token file "\Q$file\E" is empty$/,
		'empty: the check');

	# A part of it would be another token.
	use_token('x' x 4096);
	reloaded(qr/LOG: +the first line of token file "\Q$file\E" is too long/,
		'too long: the log');
	like(check('secrets'), qr/^error:No token is sent.* is too long$/,
		'too long: the check');
	use_token('x' x 4095);
	is(check_after_reload(), '', 'the longest one');

	use_token('one two');
	reloaded(qr/LOG: .* does not hold one printable token/, 'two: the log');
	like(check('secrets'), qr/does not hold one/, 'two: the check');

	use_token("{\n  \"SecretID\": \"$tokens[0]\"\n}");
	reloaded(qr/LOG: +token file "\Q$file\E" holds JSON, not the token alone/,
		'JSON: the log');
	like(check('secrets'), qr/^error:No token is sent.* holds JSON/, 'JSON: the check');
	use_token(qq("$tokens[0]"));
	reloaded(qr/LOG: .* holds JSON/, 'in quotes');

	use_token('abc');
	reloaded(qr/LOG: +the first line of token file "\Q$file\E" is too short for a token/,
		'too short: the log');
	like(check('secrets'), qr/^error:.* is too short/, 'too short: the check');
	use_token('root');
	is(check_after_reload(), '', 'the shortest one');

	unlink $file;
	mkdir $file or die "$file: $!";
	reloaded(qr/LOG: +could not read token file .*: Is a directory/,
		'a directory: the log');
	rmdir $file;

	# Nobody will ever write to it: a reader that waited would wait for ever.
	POSIX::mkfifo($file, 0600) or die "$file: $!";
	reloaded(qr/LOG: +token file "\Q$file\E" is not a regular file/,
		'a FIFO: the log');
	like(check('secrets'), qr/^error:.* is not a regular file$/,
		'a FIFO: the check');
	unlink $file;

	use_token($tokens[0]);
	reloaded(qr/LOG: +read a new token from file "\Q$file\E"/, 'good: the log');
	is(check('secrets'), '', 'good: the check');
	$node->wait_for_leadership('billing');
};

subtest 'rotation' => sub {
	my $offset = $node->log_offset;

	$node->configure(drain_timeout => '4s');
	$node->wait_for(q(SELECT setting = '4000' FROM pg_settings
		WHERE name = 'leader_election.drain_timeout'), 'the reload');
	use_token($tokens[1]);
	reloaded(qr/LOG: +read a new token/, 'another one');
	use_token($tokens[0]);
	reloaded(qr/LOG: +read a new token/, 'and back');
	is(scalar(() = $node->log_since($offset) =~ /read a new token/g),
		2, 'not for a reload that changes nothing');
};

subtest 'others can read it' => sub {
	my $said = qr/has group or world access/;

	foreach my $mode (0640, 0604, 0644)
	{
		my $what = sprintf '%04o', $mode;

		use_token($tokens[0], $mode);
		reloaded(qr/LOG: +token file "\Q$file\E" $said\n.*DETAIL: .*0600/,
			"$what: the log");
		like(check('secrets'), qr/^warning:Token file "\Q$file\E" $said\. .*0600/,
			"$what: the check");
	}
	use_token($tokens[0], 0400);
	is(check('secrets'), '', 'nobody else can');

	my $key = "$file.key";

	append_to_file($key, 'no key at all');
	chmod 0644, $key;
	$node->set('leader_election.key_file', $key);
	reloaded(qr/LOG: +private key file "\Q$key\E" $said/, 'a key: the log');
	like(check('secrets'), qr/^warning:Private key file "\Q$key\E" $said/,
		'a key: the check');
	$node->configure(key_file => '');
};

# An address that only looks like this machine's is somebody else's.
subtest 'in clear text over the network' => sub {
	my $said = qr/can be read on the network/;

	foreach my $url ('http://192.0.2.1:8500', 'http://127.example.com:8500',
		'http://localhost.example.com:8500')
	{
		$node->set('leader_election.consul_url', $url);
		reloaded(
			qr/LOG: +the token for \Q$url\E $said\n.*HINT: .*https.*consul_url/,
			"$url: the log");
		like(check('store'), qr/^warning:.*the token $said/m, "$url: the check");
	}
	foreach my $url ($consul->url, 'http://127.1.2.3:1', 'http://localhost:1',
		'http://[::1]:1', 'https://192.0.2.1:8500')
	{
		my $offset = $node->log_offset;

		$node->set('leader_election.consul_url', $url);
		reloaded(qr/parameter "leader_election.consul_url" changed/, $url);
		unlike(check('store'), qr/$said/, "$url: the check");
		ok(!$node->log_like($said, $offset), "$url: the log");
	}
};

unlike($node->log_since, qr/\Q$_\E/, 'no token in the log') foreach @tokens;
$node->stop;

done_testing();
