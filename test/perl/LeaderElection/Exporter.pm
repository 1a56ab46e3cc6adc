
=pod

=head1 NAME

LeaderElection::Exporter - Prometheus' postgres_exporter, on a node

=head1 SYNOPSIS

  my $exporter = LeaderElection::Exporter->new($node, user => 'exporter',
    queries => $file, options => [ ... ])->start;
  my $seen = $exporter->scrape;
  is($seen->{'leader_election_leader{election="billing"}'}, 1);

=head1 DESCRIPTION

The real one, from PATH, without metrics of its own.  See
LeaderElection::Process for terminate and others.

=cut

package LeaderElection::Exporter;

use strict;
use warnings;

use parent 'LeaderElection::Process';

use Carp;
use LeaderElection::HTTP;
use LeaderElection::Util;
use PostgreSQL::Test::Utils ();

# Debian's name first.
my @names = ('prometheus-postgres-exporter', 'postgres_exporter');

=pod

=head1 METHODS

=over

=item new($node, user => $role, queries => $file, [ options => [ ... ] ])

=cut

sub new
{
	my ($class, $node, %params) = @_;
	my $self = $class->SUPER::new('exporter_' . $node->name);
	my ($script) = $0 =~ m{([^/]+?)(\.[^.]*)?$};

	($self->{program}) = grep { -x }
	  map { my $name = $_; map { "$_/$name" } split /:/, $ENV{PATH} } @names;
	croak "no $names[0] in PATH: make deps" unless $self->{program};
	%$self = (%$self, options => [], %params);
	$self->{source} = sprintf
	  'host=%s port=%d user=%s dbname=postgres sslmode=disable',
	  $node->host, $node->port, $params{user};
	$self->{port} = free_port();
	$self->{log} =
	  "$PostgreSQL::Test::Utils::log_path/${script}_$self->{name}_$self->{port}.log";
	return $self;
}

=pod

=item start()

Starts it, and waits until it answers.

=cut

sub start
{
	my ($self) = @_;

	$self->spawn(
		cwd => $PostgreSQL::Test::Utils::tmp_check,
		log => $self->{log},
		env => { DATA_SOURCE_NAME => $self->{source}, GOMAXPROCS => 2 },
		command => [
			$self->{program}, "--web.listen-address=127.0.0.1:$self->{port}",
			"--extend.query-path=$self->{queries}",
			'--disable-default-metrics', '--disable-settings-metrics',
			'--no-collector.database', '--no-collector.bgwriter',
			@{ $self->{options} }
		]);
	poll_until(
		sub {
			croak "$self->{name} ended" unless $self->is_running;
			return $self->text =~ /^leader_election_/m;
		},
		"$self->{name} to answer");
	return $self;
}

=pod

=item text()

Its answer to a request, empty if there is none.

=item scrape()

The same as a hash: by name and labels in order, without the label of the
server, each value.  A series that comes twice is an error.

=back

=cut

sub text
{
	my ($self) = @_;
	my $reply = LeaderElection::HTTP->new(timeout => $LeaderElection::Util::timeout_default)
	  ->get("http://127.0.0.1:$self->{port}/metrics");

	return $reply->{success} ? $reply->{content} : '';
}

sub scrape
{
	my ($self) = @_;
	my %seen;

	foreach my $line (split /\n/, $self->text)
	{
		my ($name, $labels, $value) = $line =~ /^(\w+)(?:\{(.*)\})? (\S+)$/
		  or next;
		my $own = join ',', sort grep { !/^server=/ }
		  ($labels // '') =~ /(\w+="[^"]*")/g;
		my $series = $own ne '' ? "$name\{$own\}" : $name;

		croak "$series comes twice" if exists $seen{$series};
		$seen{$series} = $value;
	}
	return \%seen;
}

1;
