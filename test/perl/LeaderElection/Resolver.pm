
=pod

=head1 NAME

LeaderElection::Resolver - a name server that hangs, and a file of names, for tests

=head1 SYNOPSIS

  my $resolver = LeaderElection::Resolver->new;

  $resolver->hang;
  $resolver->preloaded(sub { $node->start });
  $resolver->wait_for_lookup;
  $resolver->answer;

  # as /etc/hosts, of one program
  $resolver->preloaded(sub { $node->start }, $file);

=head1 DESCRIPTION

The name slow.example is 127.0.0.1, or takes 20 s to be found out not to be
known while the resolver hangs: a getaddrinfo() that is preloaded.  With a file of
names, which may change meanwhile, no other name with a dot is known.

=cut

package LeaderElection::Resolver;

use strict;
use warnings;

use IPC::Run ();
use LeaderElection::Util;
use PostgreSQL::Test::Utils ();
use Time::HiRes ();

my $source = <<'END';
#include <ctype.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void
note(const char *name)
{
	char		file[1024];

	snprintf(file, sizeof(file), "%s.%s", getenv("LE_HANGS"), name);
	close(open(file, O_WRONLY | O_CREAT | O_EXCL, 0600));
}

/* As in /etc/hosts, with one name in each line. */
static int
in_file(const char *hosts, const char *name, char *address)
{
	FILE	   *file = fopen(hosts, "r");
	char		found[256];
	int			known = 0;

	if (file == NULL)
		return 0;
	while (!known && fscanf(file, "%63s %255s", address, found) == 2)
		known = strcmp(found, name) == 0;
	fclose(file);
	return known;
}

int
getaddrinfo(const char *name, const char *service,
			const struct addrinfo *hints, struct addrinfo **result)
{
	int			(*real) (const char *, const char *, const struct addrinfo *,
						 struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");
	const char *hosts = getenv("LE_HOSTS");
	char		address[64];

	if (name != NULL && hosts != NULL && hosts[0] != '\0' &&
		strchr(name, '.') != NULL && isalpha((unsigned char) name[strlen(name) - 1]))
		return in_file(hosts, name, address) ?
			real(address, service, hints, result) :
			EAI_NONAME;
	if (name == NULL || strcmp(name, "slow.example") != 0)
		return real(name, service, hints, result);
	note("asked");
	for (int i = 0; i < 20 && access(getenv("LE_HANGS"), F_OK) == 0; i++)
		sleep(1);
	if (access(getenv("LE_HANGS"), F_OK) == 0)
		return EAI_AGAIN;
	return real("127.0.0.1", service, hints, result);
}
END

=pod

=head1 METHODS

=over

=item new()

=cut

sub new
{
	my ($class) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir;
	my $self = bless { library => "$dir/resolver", hangs => "$dir/hangs" },
	  $class;
	my $output;

	PostgreSQL::Test::Utils::append_to_file("$self->{library}.c", $source);
	IPC::Run::run(
		[
			$ENV{CC} // 'cc', '-D_GNU_SOURCE', '-shared', '-fPIC', '-o',
			"$self->{library}.so", "$self->{library}.c", '-ldl'
		],
		'>&', \$output) or die $output;
	return $self;
}

=pod

=item preloaded($what, [ $hosts ])

A program started in there uses it, with that file of names, if one is given.

=item hang(), answer()

From the next look-up on; one that hangs ends within a second of answer().

=cut

sub preloaded
{
	my ($self, $what, $hosts) = @_;

	local $ENV{LD_PRELOAD} =
	  join(' ', "$self->{library}.so", $ENV{LD_PRELOAD} // ());
	local $ENV{LE_HANGS} = $self->{hangs};
	local $ENV{LE_HOSTS} = $hosts // '';
	return $what->();
}

sub hang
{
	my ($self) = @_;

	unlink "$self->{hangs}.asked";
	PostgreSQL::Test::Utils::append_to_file($self->{hangs}, '');
	return;
}

sub answer
{
	my ($self) = @_;

	unlink $self->{hangs};
	return;
}

=pod

=item wait_for_lookup()

Until one begins, which goes on for 20 s if it hangs.

=item hanging_for()

So many seconds ago the one began that was waited for.

=back

=cut

sub wait_for_lookup
{
	my ($self) = @_;

	unlink "$self->{hangs}.asked";
	return poll_until(sub { -e "$self->{hangs}.asked" }, 'a look-up');
}

sub hanging_for
{
	my ($self) = @_;

	return Time::HiRes::time() - (Time::HiRes::stat("$self->{hangs}.asked"))[9];
}

1;
