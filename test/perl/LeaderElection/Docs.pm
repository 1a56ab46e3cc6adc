
=pod

=head1 NAME

LeaderElection::Docs - the pages of the documentation, and the examples on them

=head1 SYNOPSIS

  use LeaderElection::Docs;

  $node->sql(block('fence'));
  foreach my $row (table('settings')) { ... }

=head1 DESCRIPTION

An example is a fenced block of code.  The line before it says what becomes of
it:

  <!-- test: NAME -->        a test takes it, by block(NAME)
  <!-- pasted: NAME -->      packages/test/inside/pages does, in a clean root
  <!-- not run: REASON -->   nothing does

One that stands on several pages is the same on each of them.  A table that a
test takes is marked C<< <!-- table: NAME --> >>.  No caller says on which page
anything is, so that it can be moved.

=head1 FUNCTIONS

=over

=item pages()

The pages, by their paths from the top of the tree: every Markdown file.

=item page($path)

The text of one.

=item page_of($mark)

The path of the first page on which that mark stands; the mark is what is
between C<< <!-- >> and C<< --> >>.

=item blocks($path)

The blocks of code of a page, each a hash of C<line>, C<mark> (C<test>,
C<pasted>, C<not run> or undef), C<name> (what follows the mark), C<language>, C<text>.

=item block($name)

The text of the one that is so marked.

=item curl($name, $from, $to)

The example is a call of curl with its output as a comment: carries it out with the
address $to in place of $from, and returns the real output and the shown one, both as
decoded JSON.

=item table($name)

The rows of the table so marked, without its head, each an array of its cells.

=item section($path, $heading)

The text below that heading, up to the next of its level or above.

=item anchors($path)

The anchors of a page's headings, as GitHub makes them, as keys of a hash.

=item links($path)

The targets of its links, but for those on the Web.

=back

=cut

package LeaderElection::Docs;

use strict;
use warnings;

use Carp;
use Exporter 'import';
use File::Find ();
use JSON::PP ();
use PostgreSQL::Test::Utils ();

our @EXPORT = qw(
  anchors
  block
  blocks
  curl
  links
  page
  page_of
  pages
  section
  table
);

my $top = $ENV{TESTDIR} // '.';
my (%text, @pages);

sub pages
{
	return @pages if @pages;

	File::Find::find(
		{
			no_chdir => 1,
			wanted => sub {
				$File::Find::prune = 1 if m{/(?:\.git|build|tmp_check|vendor)$};
				push @pages, s{^\Q$top\E/}{}r if /\.md$/ && -f;
			}
		},
		$top);
	@pages = sort @pages;
	return @pages;
}

sub page
{
	my ($path) = @_;

	return $text{$path} //= PostgreSQL::Test::Utils::slurp_file("$top/$path");
}

sub page_of
{
	my ($mark) = @_;

	my ($found) = grep { page($_) =~ /^<!-- \Q$mark\E -->$/m } pages();
	return $found // croak "no page has a \"$mark\"";
}

sub blocks
{
	my ($path) = @_;
	my ($number, $before, $open, @found) = (0, '');

	foreach my $line (split /\n/, page($path))
	{
		$number++;
		if ($open && $line eq $open->{fence})
		{
			push @found, $open;
			undef $open;
		}
		elsif ($open)
		{
			$open->{text} .= "$line\n";
		}
		elsif ($line =~ /^\s*(`{3,}|~{3,})\s*(\w*)/)
		{
			my ($fence, $language) = ($1, $2);
			my ($mark, $name) = $before =~ /^<!-- (test|pasted|not run): (.*) -->$/;

			$open = {
				fence => $fence,
				language => $language,
				line => $number,
				mark => $mark,
				name => $name,
				text => ''
			};
		}
		$before = $line;
	}
	croak "$path: line $open->{line}: a block without an end" if $open;
	return @found;
}

# Text between two fences is not prose.
sub _prose
{
	my ($path) = @_;

	return page($path) =~ s/^\s*(`{3,}|~{3,}).*?^\s*\g1$//msgr;
}

sub block
{
	my ($name) = @_;
	my ($first, @others) =
	  grep { ($_->{mark} // '') eq 'test' && $_->{name} eq $name }
	  map { blocks($_) } pages();

	croak "no page has a block \"$name\"" unless $first;
	foreach my $other (@others)
	{
		croak "the blocks \"$name\" differ"
		  if $other->{text} ne $first->{text};
	}
	return $first->{text};
}

sub curl
{
	my ($name, $from, $to) = @_;
	my ($command, $shown) = block($name) =~ /^(curl .*)\n# (\{.*\})\n\z/;

	croak "\"$name\" does not ask $from"
	  unless defined $command && $command =~ s/\Q$from\E/$to/;
	return map { JSON::PP->new->utf8->decode($_) } scalar `$command`,
	  $shown =~ s/…//gr;
}

sub table
{
	my ($name) = @_;

	page(page_of("table: $name")) =~
	  /^<!-- table: \Q$name\E -->\n\|.*\n\|[-|]+\n((?:\|.*\n)+)/m
	  or croak "no table follows the mark \"$name\"";
	return map { [ map { s/^ +| +$//gr } split /\|/, s/^\|//r ] }
	  split /\n/, $1;
}

sub section
{
	my ($path, $heading) = @_;

	my ($level, $rest) = page($path) =~ /^(#+) \Q$heading\E\n(.*)/ms
	  or croak "$path has no heading \"$heading\"";
	my $above = length $level;

	return $rest =~ s/^#{1,$above} .*//msr;
}

sub anchors
{
	my ($path) = @_;
	my %found;

	foreach my $heading (_prose($path) =~ /^#+ (.*?)\s*$/mg)
	{
		my $anchor = lc($heading) =~ s/[^\w -]//gr =~ s/ /-/gr;
		my $again = 0;

		$again++ while $found{ $again ? "$anchor-$again" : $anchor };
		$found{ $again ? "$anchor-$again" : $anchor } = 1;
	}
	return \%found;
}

sub links
{
	my ($path) = @_;

	return grep { !/^https?:/ } _prose($path) =~ /\]\(([^)\s]+)\)/g;
}

1;
