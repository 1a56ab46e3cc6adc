# Checks of Debian's packages without building them: the numbers, names and files
# that debian/ and gateway/debian/ repeat are those of the product.

use strict;
use warnings;

use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

chdir $ENV{TESTDIR} or die "chdir: $!";

my $meta = JSON::PP->new->decode(slurp_file('META.json'));
my ($default) = slurp_file('leader_election.control') =~ /^default_version = '(.*)'/m;
my %identity = slurp_file('packages/identity') =~ /^(\w+)="(.*)"$/mg;
my %sources = ('leader-election' => 'debian', 'leader-election-gateway' => 'gateway/debian');

like($meta->{version}, qr/^\Q$default\E\.\d+$/, 'META.json has the version of the extension');
is(join(' ', sort keys %identity), 'maintainer source_url', 'packages/identity');

sub control
{
	my ($dir) = @_;

	return slurp_file(-e "$dir/control.in" ? "$dir/control.in" : "$dir/control");
}

foreach my $source (sort keys %sources)
{
	my $dir = $sources{$source};
	my $control = control($dir);
	my $changelog = slurp_file("$dir/changelog");

	like($changelog, qr/^\Q$source\E \(\Q$meta->{version}\E-\d+\) /, "$dir/changelog: the version");
	like($changelog, qr/^ -- \Q$identity{maintainer}\E  /m, "$dir/changelog: the maintainer");
	like($control, qr/^Source: \Q$source\E$/m, "$dir/control: the source");
	like($control, qr/^Maintainer: \Q$identity{maintainer}\E$/m, "$dir/control: the maintainer");
	like($control, qr/^Homepage: \Q$identity{source_url}\E$/m, "$dir/control: the address");
	like($control, qr/^Vcs-Git: \Q$identity{source_url}\E\.git$/m, "$dir/control: the repository");
	like($control, qr/^Vcs-Browser: \Q$identity{source_url}\E$/m, "$dir/control: its pages");

	my $copyright = slurp_file("$dir/copyright");

	like($copyright, qr/^Source: \Q$identity{source_url}\E$/m, "$dir/copyright: the address");
	like($copyright, qr/^Upstream-Contact: \Q$identity{maintainer}\E$/m, "$dir/copyright: the maintainer");
	like($copyright, qr/^Files: debian\/\*\nCopyright: \d+ \Q$identity{maintainer}\E$/m,
		"$dir/copyright: of these files, too");
	like(slurp_file("$dir/watch"), qr/^ \Q$identity{source_url}\E\/tags/m, "$dir/watch: the address");
	unlike(slurp_file("$dir/upstream/metadata"), qr/^[\w-]+: (?!\Q$identity{source_url}\E)/m,
		"$dir/upstream/metadata: the address");
	foreach my $license ($copyright =~ /^License: (.+)$/mg)
	{
		like($copyright, qr/^License: \Q$_\E\n \S/m, "$dir/copyright: the text of $_")
		  foreach split / and /, $license;
	}

	# executable in the tree, so in the source
	ok(-x $_, "$_ can be run")
	  foreach "$dir/rules", glob("$dir/pg_upgradecluster/*"),
	  map { "$dir/tests/$_" } slurp_file("$dir/tests/control") =~ /^Tests: (.*)$/mg;

	my %package = map { $_ => 1 } $control =~ /^Package: (.*)$/mg;

	foreach my $file (glob "$dir/*.{install,docs,links,dirs,manpages,sysusers,default}")
	{
		my ($name) = $file =~ m{([^/]+)\.\w+$};

		ok($package{$name}, "$file is of a package");
	}
	foreach my $list (glob "$dir/*.{install,docs,manpages}")
	{
		foreach my $file (slurp_file($list) =~ /^(\S+)/mg)
		{
			# the packages that rules build
			next if $file eq 'debian/le-gateway';
			ok(-e "$dir/../$file", "$list: $file is there");
		}
	}
}

# Versions of PostgreSQL, and of Go.
my ($least) = $meta->{prereqs}{runtime}{requires}{PostgreSQL} =~ /^(\d+)/;
my ($module) = slurp_file('gateway/go.mod') =~ /^module (\S+)/m;
my ($go) = slurp_file('gateway/go.mod') =~ /^go (\d+\.\d+)/m;

like(slurp_file('debian/pgversions'), qr/^$least\+$/m, 'debian/pgversions');
like(control('gateway/debian'), qr/^ golang-any \(>= 2:\Q$go\E~\),$/m, 'the version of Go');

like(control('gateway/debian'), qr/^XS-Go-Import-Path: \Q$module\E$/m, 'the name of the module');

# Each module that may come along has its stanza.
my $copyright = slurp_file('gateway/debian/copyright');

foreach my $module (slurp_file('gateway/go.mod') =~ /^\t(\S+) v/mg)
{
	my @stanzas = map { s/\*$//r } $copyright =~ m{^(?:Files:)? vendor/(\S+)$}mg;

	# only its own tests need it
	next if $module eq 'github.com/rogpeppe/go-internal';
	ok(scalar(grep { index("$module/", $_) == 0 } @stanzas),
		"gateway/debian/copyright: $module");
}

# The unit, by systemd's own check; the program is not here.
SKIP:
{
	my $unit = slurp_file('gateway/le-gateway.service');
	my $scratch = PostgreSQL::Test::Utils::tempdir;
	my $found;

	skip 'the unit is not one for packages', 3 if $unit !~ /^Type=notify$/m;
	like($unit, qr{^ExecStart=/usr/sbin/le-gateway }m, 'the unit starts the program of the package');
	like($unit, qr{^EnvironmentFile=-/etc/default/leader-election-gateway$}m,
		'with the settings of the package');
	skip 'no systemd-analyze', 1 if system('command -v systemd-analyze >/dev/null') != 0;
	append_to_file("$scratch/leader-election-gateway.service",
		$unit =~ s{/usr/sbin/le-gateway}{/bin/true}r);
	IPC::Run::run(
		[ 'systemd-analyze', 'verify', '--man=no', "$scratch/leader-election-gateway.service" ],
		'>&', \$found);
	is(join('', grep { /leader-election-gateway/ } $found =~ /^.*\n/mg), '', 'systemd has nothing to say');
}

done_testing();
