
=pod

=head1 NAME

LeaderElection::Module - libraries of test/modules, for a server to load

=head1 SYNOPSIS

  use LeaderElection::Module;

  my $library = built_module('others');
  $node->sql("CREATE FUNCTION others_sleep(text, int) RETURNS int AS '$library' LANGUAGE C");

=head1 DESCRIPTION

Deeds in C, which other extensions may do and SQL cannot.  Built for the PostgreSQL
under test, in the sandbox's copy of the tree, by the first test that asks.

=cut

package LeaderElection::Module;

use strict;
use warnings;

use Carp;
use Cwd;
use Exporter 'import';
use Fcntl qw(:flock);

our @EXPORT = qw(built_module);

=pod

=head1 FUNCTIONS

=over

=item built_module($name)

Returns the file.

=back

=cut

sub built_module
{
	my ($name) = @_;
	my $dir = getcwd() . '/test/modules';
	my $log = "$dir/$name.log";

	open(my $lock, '>', "$dir/lock") or croak "could not open the lock: $!";
	flock($lock, LOCK_EX) or croak "could not lock: $!";
	system("make -s -C '$dir' with_llvm=no PG_CONFIG='$ENV{PG_CONFIG}' > '$log' 2>&1") == 0
	  or croak "could not build $name: " . do { local (@ARGV, $/) = $log; <> };
	close($lock);
	return "$dir/$name.so";
}

1;
