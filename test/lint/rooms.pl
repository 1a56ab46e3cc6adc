# scripts/rooms, part of make lint: who may include whom. A refused include does not
# get in; so each of its rules is broken once, in a copy of the sources.  And the
# drawings of docs/architecture.md are what the includes are.

use strict;
use warnings;

use IPC::Run;
use LeaderElection::Docs;
use List::Util qw(max uniq);
use PostgreSQL::Test::Utils;
use Test::More;

my $top = PostgreSQL::Test::Utils::tempdir;

mkdir "$top/scripts" or die "mkdir: $!";
system('cp', '-r', "$ENV{TESTDIR}/src", "$top/src") == 0 or die 'cp failed';
system('cp', "$ENV{TESTDIR}/scripts/rooms", "$top/scripts/rooms") == 0 or die 'cp failed';

# Its output with this text at the end of a file, and its verdict.
sub rooms
{
	my ($file, $text) = @_;
	my $before = slurp_file("$top/src/$file");
	my $said;

	append_to_file("$top/src/$file", $text);
	IPC::Run::run([ "$top/scripts/rooms" ], '>', \$said, '2>', \my $errors);
	my $rc = $?;

	unlink "$top/src/$file";
	append_to_file("$top/src/$file", $before);
	return ($rc, $said);
}

sub refused
{
	my ($file, $text, $what, $name) = @_;
	my ($rc, $said) = rooms($file, $text);

	isnt($rc, 0, "$name: refused");
	like($said, qr{^src/\Q$file\E:\d+: .*$what}m, "$name: says where and why");
	is($said =~ tr/\n//, 1, "$name: and nothing else");
	return;
}

sub passes
{
	my ($file, $text, $name) = @_;
	my ($rc, $said) = rooms($file, $text);

	is($rc, 0, $name) or diag $said;
	return;
}

passes('core/timing.c', '', 'as it is');
refused('core/timing.c', qq{#include "store/store.h"\n}, 'may not include', 'a room above');
refused('sql/fence.c', qq{#include "worker/lead/elect.h"\n}, 'may not include', 'a room beside');
refused('worker/lead/term.c', qq{#include "worker/lead/elect.h"\n}, 'may not include', 'a file above');
refused('core/node.c', qq{#include "election.h"\n}, 'by its path', 'not by its path');
passes('worker/lead/elect.c', qq{#include "worker/lead/term.h"\n}, 'a file below');

my $declared = 'declared in its header';
refused('worker/lead/term.c', "extern void le_elect_node_live(void);\n", $declared, 'extern');
refused('worker/lead/term.c', "extern bool le_elect_asks(int slot,\n\t\t\t\t\t\t  int how);\n",
	$declared, 'over two lines');
refused('worker/lead/term.c', "void le_elect_node_live(void);\n", $declared, 'without extern');
refused('worker/lead/term.c', "const char *\nle_elect_name(int slot);\n", $declared,
	'its type on a line of its own');
passes('worker/lead/term.c', <<'END', 'no prototype of another file');
static void no_other(int slot,
					 int how);
static const char *
nor_this(int slot);
typedef void (*Told) (int slot);
/* extern void in_a_comment(int slot); */
static Told told;
void
body(void)
{
	told(1);
	return no_other(1, 2);
}
END

# The drawings of docs/architecture.md against the includes that there are: rooms of one
# row do not include each other, each includes one of the next row, and none above it.
IPC::Run::run([ "$ENV{TESTDIR}/scripts/rooms", '--found' ], '>', \my $found) or die 'rooms';
my @pairs = map { [ split ] } split /\n/, $found;
my @includes = grep { $_->[0] !~ /\.[ch]$/ && $_->[0] ne 'entry' } @pairs;
my %is_in = map { ($_->[0] =~ s{.*/}{}r) . " $_->[1]" => 1 } @pairs;

sub drawing_is_true
{
	my ($name, $rows, @pairs) = @_;
	my (%row, %next, @up);

	foreach my $n (0 .. $#$rows) { $row{$_} = $n foreach @{ $rows->[$n] } }
	is_deeply([ sort keys %row ], [ uniq sort map { @$_ } @pairs ], "$name: all rooms");
	foreach my $pair (@pairs)
	{
		my ($from, $to) = map { $row{$_} // 0 } @$pair;

		push @up, "@$pair" if $to <= $from;
		$next{ $pair->[0] } = 1 if $to == $from + 1;
	}
	is("@up", '', "$name: no include goes up or aside");
	is_deeply(
		[ grep { !$next{$_} } map { @$_ } @$rows[ 0 .. $#$rows - 1 ] ],
		[], "$name: each includes one of the next row");
	return;
}

my $page = page('docs/architecture.md');
my ($drawing) = map { $_->{text} }
  grep { $_->{name} eq 'a drawing of the rooms' } blocks('docs/architecture.md');
my ($order) = $page =~ m{^\| `worker/` \|.*?((?:`\w+`[ <,]*){2,})}m;

drawing_is_true('src/',
	[ grep { @$_ } map { [/\w+/g] } split /\n/, $drawing ],
	grep { $_->[0] ne $_->[1] } map { [ map { s{/.*}{}r } @$_ ] } @includes);
drawing_is_true('src/worker/',
	[ reverse map { [/\w+/g] } split /</, $order ],
	map { [ map { s{^worker/}{}r } @$_ ] }
	  grep { $_->[0] =~ m{/} && $_->[1] =~ m{/} } @includes);

# The strokes between two rows: as many as the wider of the two has rooms.
my @lines = split /\n/, $drawing;
foreach my $n (grep { $_ % 2 } 1 .. $#lines)
{
	my ($above, $below) = map { scalar(() = $lines[$_] =~ /\w+/g) } $n - 1, $n + 1;

	is(scalar(() = $lines[$n] =~ m{[|\\/]}g), max($above, $below), "strokes of line $n");
}

# Each file stands below its room's heading.
my $heading = '';
my @elsewhere;
foreach my $row (table('files'))
{
	my ($names) = @$row;

	if ($names =~ m{^\*\*([\w/]+)\*\*$}) { $heading = $1 }
	else
	{
		push @elsewhere, grep { $heading && !$is_in{"$_ $heading"} }
		  $names =~ /`([^`]+)`/g;
	}
}
is("@elsewhere", '', 'the table of files: each below its room');

done_testing();
