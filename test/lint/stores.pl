# A new store touches the entries that docs/adding-a-store.md lists, at most 20: no other
# file names a store, but for those below.  An entry that is no longer true is
# an error, so that the list only gets shorter.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

my $top = $ENV{TESTDIR};
my $most = 20;

plan skip_all => 'no repository' unless -e "$top/.git";

# By which words a store is named; the first is its name.
my %words = (
	azure => [qw(azure azurite)],
	cassandra => [qw(cassandra)],
	consul => [qw(consul)]);

# Files that may name a store of today: why, which stores, which files.
my @others = (
	[
		'the gateway is a part of the store "cassandra"' => 'cassandra',
		qw(gateway/ debian/ packages/test/lintian packages/test/rpm test/gateway/
		  test/perl/LeaderElection/Gateway.pm test/unit/record-gateway)
	],
	[
		'a client of Consul\'s that shares its lock' => 'consul',
		qw(test/goclient/)
	],
	[
		'modules that another service is built from' => 'azure consul',
		qw(test/services/)
	],
	[
		'takes Consul, or Cassandra, where any store between instances would do' =>
		  'cassandra consul',
		qw(.ci/run bench/ test/all expected/arguments.out sql/arguments.sql sql/settings.sql
		  test/lint/alerts.pl test/lint/guarantees.pl test/perl/ test/run test/t/
		  test/unit/core_test.h test/unit/exchange.c test/unit/exchange.h
		  test/unit/record-corpus test/unit/test_node.c test/unit/test_pending.c
		  test/versions/)
	],
	[
		'nothing in SQL says whether the store has node keys' => 'consul',
		qw(lectl/check.c)
	],
	[
		'an example in a text for people' => 'cassandra consul',
		qw(docs/ lectl/help.c scripts/source-id sql/leader_election--1.0.sql)
	],
	[
		'a history, which says in which store a defect was' => 'azure cassandra consul',
		qw(docs/past-defects.md)
	],
	[
		'a comment that says which store is why' => 'consul',
		qw(src/settings.c src/store/claim_record.c src/worker/disk/tokens.c
		  src/worker/watch/watch_all.c src/worker/wire/http.c)
	]);

# Does a file belong to an entry: itself, in its folder, or by a pattern?
sub belongs
{
	my ($file, $entry) = @_;
	my $pattern = join('[^/]*', map { quotemeta } split(/\*/, $entry, -1));

	return $entry =~ m{/$} ? $file =~ /^$pattern/i : $file =~ /^$pattern$/i;
}

# The entries of the page's rows, for a store by this word.
sub on_page
{
	my ($word, @rows) = @_;

	return map { s/NAME/$word/r } map { @$_ } @rows;
}

sub rows
{
	my ($page) = @_;
	my ($table) = $page =~ /^\| where \| what \|\n\|---\|---\|\n((?:\|.*\n)+)/m;

	return map {
		my ($where) = /^\| (.*?) \|/;

		[ $where =~ /`([^`]+)`/g, map { "docs/$_" } $where =~ /\]\(([^)]+)\)/g ];
	} split(/\n/, $table);
}

my @rows = rows(slurp_file("$top/docs/adding-a-store.md"));

cmp_ok(scalar @rows, '<=', $most, "a new store touches at most $most places");
cmp_ok(scalar @rows, '>', 0, 'the page lists them');

my %used;

foreach my $store (sort keys %words)
{
	my @words = @{ $words{$store} };
	my @page = map { on_page($_, @rows) } @words;
	my @files = split(/\n/, qx(git -C '$top' grep -Iil @{[ map { "-e $_" } @words ]} -- \\
		. ':!docs/adding-a-store.md' ':!test/lint/stores.pl'));
	my @strange;

	cmp_ok(scalar @files, '>', 10, "$store: is named somewhere");
	foreach my $file (@files)
	{
		my $listed = grep { belongs($file, $_) } @page;

		next if $listed;
		foreach my $kind (@others)
		{
			my (undef, $stores, @entries) = @$kind;

			next unless grep { $_ eq $store } split(' ', $stores);
			foreach my $entry (grep { belongs($file, $_) } @entries)
			{
				$used{$entry} = $listed = 1;
			}
		}
		push @strange, $file unless $listed;
	}
	is("@strange", '', "$store: no other file names it");
}

# Each entry has a reason to be there.
my @idle = grep { !$used{$_} } map { @$_[ 2 .. $#$_ ] } @others;

is("@idle", '', 'no entry of the test is in vain');

# Each entry of the page is there, for one of the stores at least.
my @tracked = split(/\n/, qx(git -C '$top' ls-files));
my @missing;

foreach my $entry (map { @$_ } @rows)
{
	my @names = map { $entry =~ s/NAME/$_/r } map { @$_ } values %words;

	push @missing, $entry unless grep
	{
		my $file = $_;

		grep { belongs($file, $_) } @names
	} @tracked;
}
is("@missing", '', 'no entry of the page is in vain');

done_testing();
