# scripts/rooms, part of make lint: who may include whom. A refused include does not
# get in; so each of its rules is broken once, in a copy of the sources.

use strict;
use warnings;

use IPC::Run;
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

done_testing();
