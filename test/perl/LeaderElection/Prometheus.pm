
=pod

=head1 NAME

LeaderElection::Prometheus - the real one, which scrapes exporters

=head1 SYNOPSIS

  my $prometheus = LeaderElection::Prometheus->new(exporters => [$exporter],
    rules => $file, labels => { cluster => 'x' })->start;
  my @series = $prometheus->query('leader_election_leader');

=head1 DESCRIPTION

From PATH.  It scrapes and evaluates each second, with a scrape job named
"postgres", as the page on monitoring has it.  See LeaderElection::Process for
terminate and others.

=cut

package LeaderElection::Prometheus;

use strict;
use warnings;

use parent 'LeaderElection::Process';

use Carp;
use LeaderElection::HTTP;
use LeaderElection::Util;
use JSON::PP;
use PostgreSQL::Test::Utils ();

=pod

=head1 METHODS

=over

=item new(exporters => [ ... ], rules => $file, labels => { ... })

=cut

sub new
{
	my ($class, %params) = @_;
	my $self = $class->SUPER::new('prometheus');
	my ($script) = $0 =~ m{([^/]+?)(\.[^.]*)?$};

	($self->{program}) = grep { -x } map { "$_/prometheus" } split /:/, $ENV{PATH};
	croak 'no prometheus in PATH: make deps' unless $self->{program};
	%$self = (%$self, %params);
	$self->{port} = free_port();
	$self->{dir} = "$PostgreSQL::Test::Utils::tmp_check/prometheus_$self->{port}";
	$self->{log} = "$PostgreSQL::Test::Utils::log_path/${script}_prometheus.log";
	return $self;
}

=pod

=item start()

Starts it, and waits until it has scraped each exporter.

=cut

sub start
{
	my ($self) = @_;
	my @targets = map { "127.0.0.1:$_->{port}" } @{ $self->{exporters} };

	mkdir $self->{dir} or croak "mkdir $self->{dir}: $!";
	PostgreSQL::Test::Utils::append_to_file("$self->{dir}/prometheus.yml", encode_json({
		global => { scrape_interval => '1s', evaluation_interval => '1s' },
		rule_files => [ $self->{rules} ],
		scrape_configs => [
			{
				job_name => 'postgres',
				static_configs => [ { targets => \@targets, labels => $self->{labels} } ]
			}
		]
	}));
	$self->spawn(
		cwd => $self->{dir},
		log => $self->{log},
		env => { GOMAXPROCS => 2 },
		command => [
			$self->{program}, "--config.file=$self->{dir}/prometheus.yml",
			"--web.listen-address=127.0.0.1:$self->{port}",
			"--storage.tsdb.path=$self->{dir}/data"
		]);
	poll_until(
		sub {
			croak 'prometheus ended' unless $self->is_running;
			my @up = $self->query('up == 1');
			return @up == @targets;
		},
		'prometheus to scrape');
	return $self;
}

sub _get
{
	my ($self, $path) = @_;
	my $reply = LeaderElection::HTTP->new(timeout => $LeaderElection::Util::timeout_default)
	  ->get("http://127.0.0.1:$self->{port}/api/v1/$path");

	return $reply->{success} ? decode_json($reply->{content})->{data} : undef;
}

=pod

=item query($expression)

The series that it yields now: hashes with metric, the labels, and value.

=item alerts()

Those that fire: hashes with labels and annotations.

=item rules()

All of them, as /api/v1/rules has them, once each has been evaluated.

=back

=cut

sub query
{
	my ($self, $expression) = @_;
	my $data = $self->_get('query?query=' . $expression =~ s/([^\w.])/sprintf '%%%02X', ord $1/ger);

	return $data ? @{ $data->{result} } : ();
}

sub alerts
{
	my ($self) = @_;
	my $data = $self->_get('alerts');

	return $data ? grep { $_->{state} eq 'firing' } @{ $data->{alerts} } : ();
}

sub rules
{
	my ($self) = @_;
	my @rules;

	poll_until(
		sub {
			my $data = $self->_get('rules') or return 0;

			@rules = map { @{ $_->{rules} } } @{ $data->{groups} };
			return @rules && !grep { $_->{health} eq 'unknown' } @rules;
		},
		'each rule to be evaluated');
	return @rules;
}

1;
