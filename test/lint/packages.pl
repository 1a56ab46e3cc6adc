# Sources of packages, as far as it needs no build: the source's address and the
# maintainer stand in one place, META.json is as PGXN wants it, archives leave
# nothing out that a build needs, and the spec names what the gateway and its unit
# are.

use strict;
use warnings;

use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = $ENV{TESTDIR};
my %identity = slurp_file("$top/packages/identity") =~ /^(\w+)="([^"]*)"$/mg;
my $meta = decode_json(slurp_file("$top/META.json"));
my $pg_config = $ENV{PG_CONFIG} // 'pg_config';
my $spec = slurp_file("$top/packages/rpm/leader_election.spec");

is_deeply([ sort keys %identity ], [qw(maintainer source_url)], 'packages/identity');

subtest 'META.json' => sub {
	my $resources = $meta->{resources};

	is($meta->{maintainer}, $identity{maintainer}, 'the maintainer');
	like($meta->{maintainer}, qr/^[^<>]+ <[^<>@\s]+@[^<>@\s]+>$/, 'as a name and an address');
	is($resources->{homepage}, $identity{source_url}, 'the homepage');
	is($resources->{repository}{web}, $identity{source_url}, 'the repository');
	is($resources->{repository}{url}, "$identity{source_url}.git", 'to clone');
	is($resources->{bugtracker}{web}, "$identity{source_url}/issues", 'the bug tracker');

	like($_->{version}, qr/^(?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*)){2}$/, 'a version of three parts')
	  foreach $meta, values %{ $meta->{provides} };
	foreach my $file (map { @$_{qw(file docfile)} } values %{ $meta->{provides} })
	{
		ok(-f "$top/$file", "it provides $file");
	}
	ok(length $_ <= 255 && !m{[/\\]}, "tag $_") foreach @{ $meta->{tags} };

	# PGXN refuses a key that it does not know, but for those that begin with x_
	my %known = map { $_ => 1 } qw(name abstract description version maintainer license
	  release_status prereqs provides resources meta-spec tags no_index generated_by);
	is_deeply([ grep { !$known{$_} && !/^x_/i } sort keys %$meta ], [], 'no other keys');
};

# as .gitattributes says
subtest 'archives' => sub {
	my %left_out;

	plan skip_all => 'this tree has no history'
	  if system("git -C '$top' rev-parse --git-dir > '$ENV{TESTDATADIR}/git' 2>&1");
	foreach (`cd '$top' && git ls-files | git check-attr --stdin export-ignore`)
	{
		my ($file, $value) = /^(.*): export-ignore: (.*)$/ or die $_;

		# a directory takes what is in it along
		$left_out{$file} = $value eq 'set';
	}
	foreach (`cd '$top' && git ls-files | sed -n 's#/[^/]*\$##p' | sort -u |
		git check-attr --stdin export-ignore`)
	{
		my ($dir, $value) = /^(.*): export-ignore: (.*)$/ or die $_;

		next if $value ne 'set';
		$left_out{$_} = 1 foreach grep { /^\Q$dir\E\// } keys %left_out;
	}
	cmp_ok(scalar keys %left_out, '>', 500, 'files');
	is_deeply(
		[
			sort grep { $left_out{$_}
				  && m{^(?:src|sql|expected|lectl|gateway|docs|scripts|test/services)/
				|^[^/.]+$|^(?:META\.json|leader_election\.control|README\.md)$
				|^packages/[^/]+$}x } keys %left_out
		],
		[],
		'nothing that a build, installcheck or the demo needs');
	ok($left_out{'test/run'} && $left_out{'test/t/001_local.pl'}, 'but no tests');
};

subtest 'the spec' => sub {
	my ($go) = slurp_file("$top/gateway/go.mod") =~ /^go (\d+\.\d+)/m;
	my $unit = slurp_file("$top/gateway/le-gateway.service");

	like($spec, qr/^BuildRequires: +golang >= \Q$go\E$/m, 'the Go of go.mod');
	like($unit, qr{^ExecStart=/usr/sbin/le-gateway }m, 'the program of the unit');
	like($unit, qr/^User=le-gateway$/m, 'the user that is made');
	ok(-f "$top/$_", "the spec installs $_")
	  foreach $spec =~ m{^install -D -m 644 ((?:gateway|lectl)/\S+)}mg;
	unlike($spec, qr/\Q$_\E/, "$_ is filled in") foreach values %identity, $meta->{version};
};

# They are for what 18 brought.
subtest 'control path' => sub {
	my $container = slurp_file("$top/packages/Containerfile");
	my ($run) = $container =~ m{^RUN /source/(\S+)}m;
	my ($major) = `"$pg_config" --version` =~ /^PostgreSQL (\d+)/;

	ok(-x "$top/$run", "the Containerfile runs $run");
	like($container, qr/^ARG PG_MAJOR=(?:1[89]|[2-9]\d)$/m, 'for 18 or later');
	SKIP:
	{
		skip 'this PostgreSQL has extension_control_path', 1 if $major >= 18;
		like(`"$top/packages/control-path" "$pg_config" "$ENV{TESTDATADIR}/layout" 2>&1`,
			qr/^control-path: PostgreSQL $major has no extension_control_path$/,
			'an earlier one is refused');
	}
};

done_testing();
