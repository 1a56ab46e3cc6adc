# Tier: test, 1 s
#
# One version: it is written in leader_election.control, and whatever else
# carries it agrees.

use strict;
use warnings;

use JSON::PP;
use LeaderElection::Node;
use PostgreSQL::Test::Utils;
use Test::More;

sub found
{
	my ($file, $pattern) = @_;

	return slurp_file($file) =~ $pattern ? $1 : "none in $file";
}

my $version = found('leader_election.control', qr/^default_version = '([\d.]+)'$/m);

# Elsewhere it has to have three parts.
my $release = $version =~ /^\d+\.\d+$/ ? "$version.0" : $version;

like($release, qr/^\d+\.\d+\.\d+$/, 'the version is a number');
ok(-f "sql/leader_election--$version.sql", 'there is an install script of it');

my $meta = decode_json(slurp_file('META.json'));
my ($provided) = values %{ $meta->{provides} };

is($meta->{version}, $release, 'META.json');
is($provided->{version}, $release, 'META.json: the version that it provides');
is($provided->{file}, "sql/leader_election--$version.sql", 'META.json, the install script');
is(found('gateway/openapi.yaml', qr/^info:\n(?:  .*\n)*?  version: (\S+)$/m), $release, 'gateway/openapi.yaml');

my ($gateway) = run_command([ "$ENV{LE_BIN}/le-gateway", 'version' ]);

like($gateway, qr/^le-gateway \Q$release\E /, 'the gateway');

my $node = LeaderElection::Node->create('local');

is($node->sql('SELECT le_version()'), $version, 'le_version()');
is($node->sql("SELECT extversion FROM pg_extension WHERE extname = 'leader_election'"),
	$version, 'the extension');
SKIP:
{
	skip 'modules have versions since 18', 1
	  if $node->sql('SHOW server_version_num') < 180000;
	is($node->sql("SELECT version FROM pg_get_loaded_modules() WHERE module_name = 'leader_election'"),
		$version, 'the module');
}

done_testing();
