# Plain words: a sentence begins with its subject, a noun, not with "who", "what" or
# "of".  Pages and comments are read here; questions, headings and titles are free.

use strict;
use warnings;

use File::Find;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = $ENV{TESTDIR};

# The texts for people in a file, each apart from the next.
my %texts_of = (
	md => sub {
		my ($text) = @_;

		$text =~ s/^\s*(`{3,}).*?^\s*\g1$|^#.*?$//msg;
		return map { split /^\s*(?:[-*]|\d+\.)\s|\|/m } split /\n\s*\n/, $text;
	},
	c => sub {
		return map { s/^\s*\*+//mgr } map { split /\n[\s*]*\n/ } $_[0] =~ m{/\*(.*?)\*/}gs;
	},
	go => sub { return map { s{^\s*//}{}mgr } $_[0] =~ m{((?:^\s*//.*\n)+)}gm },
	pl => sub {
		my @pod = map { split /\n\s*\n/ } $_[0] =~ /^=\w(.*?)^=cut/msg;

		return @pod, map { s/^\s*#//mgr } $_[0] =~ /((?:^\s*#.*\n)+)/gm;
	});
$texts_of{h} = $texts_of{c};
$texts_of{pm} = $texts_of{pl};
$texts_of{$_} = $texts_of{pl} foreach qw(sh yaml mk conf script);
$texts_of{sql} = sub { return map { s/^\s*--//mgr } $_[0] =~ /((?:^\s*--.*\n)+)/gm };

sub wrong
{
	my ($ending, $text) = @_;

	return grep { /^(?:Who|What|Of) [a-z`]/ && !/\?$/ }
	  map { s/\s+/ /gr =~ s/^ //r } map { split /(?<=[.!?])\s+/ } $texts_of{$ending}->($text);
}

my %examples = (
	md => [
		"It is so.\nOf what is there, this\nis a part.\n", "- Who asks is told.\n",
		"| a | What it does |\n"
	],
	c => ["/*\n * One.  What is kept counts.\n */\n"],
	go => ["\t// Who asks\n\t// is told.\n"],
	pl => [ "# It is so.  What is kept counts.\n", "=item a()\n\nWhat it says.\n\n=cut\n" ]);
foreach my $ending (sort keys %examples)
{
	is(scalar(wrong($ending, $_)), 1, $_ =~ s/\n/ /gr) foreach @{ $examples{$ending} };
}
is_deeply([ wrong('md', "# What it is\n\nWhat is it?\n\nOf PostgreSQL:\n") ], [], 'free ones');

my @files;
find(
	{
		no_chdir => 1,
		wanted => sub {
			$File::Find::prune = 1 if m{/(?:\.git|build|tmp_check|results|log|vendor)$};
			push @files, $_ if -T;
		}
	},
	$top);
foreach my $file (sort @files)
{
	my $ending = $file =~ m{\.([^/.]+)$} ? $1 : 'script';

	next unless $texts_of{$ending};
	my @wrong = wrong($ending, slurp_file($file));

	is_deeply(\@wrong, [], $file =~ s{^\Q$top\E/}{}r);
}

done_testing();
