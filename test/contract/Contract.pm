
=pod

=head1 NAME

Contract - one suite that judges any store, by SQL, through its real service

=head1 SYNOPSIS

  package Contract::Store;
  use parent -norequire, 'Contract';
  ...
  package main;
  Contract::Store->judge;

=head1 DESCRIPTION

A store is one program in this directory, named after itself, that "make
store-test STORE=name" runs.  It says how its service starts, how an instance
reaches it, and which cases it cannot have, and why.  The cases are in cases/,
a file for each theme; each is judged by what the SQL functions say on two
instances, "one", whose way to the store leads through a recorder that loses
and repeats requests, and "two".

=cut

package Contract;

use strict;
use warnings;

use Cwd qw(abs_path);
use Exporter qw(import);
use File::Basename qw(basename dirname);
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Sampler;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils ();
use Test::More;

our @EXPORT = qw(apart contract rising);

my $cases = dirname(abs_path(__FILE__)) . '/cases';
my @contract;    # [ title, code ]

=pod

=head1 WHAT A STORE SAYS

=over

=item start()

Starts the service.

=item host_port()

Where the service is, for the recorder; undef: there is no network between.

=item parameters($host_port, $secret)

What LeaderElection::Node->create gets for an instance that reaches the service
there, with the secret "good", "wrong" (of nobody) or "poor" (may look, but not
lead "poor").

=item lease()

Seconds: how long a leader may believe without an answer.

=item foreign($election)

Makes what somebody else would have in the place of the election's key, and
returns code that tells what is there.

=item late_acquires()

True if a late copy of an acquire may take the key again once that is free: nobody
leads by it, and it is in the way until its lease is over.

=item cannot()

Pairs of a case's title and the reason why this store cannot have it.

=back

=cut

sub host_port { return undef; }
sub late_acquires { return 0; }
sub cannot { return (); }

=pod

=head1 WHAT A CASE HAS

=over

=item contract($title, $code)

Adds a case; the code gets the store.

=item one(), two(), link()

The instances, and the recorder before one of them.

=item node($name, [ secret => kind, through => host_port, settings => hash ])

One more instance.

=item writes($election)

A pattern of the requests that may change something of an election.

=item rising($what, @tokens), apart($what, @samplers)

Tests what must never happen, on any machine: a token that is not above the one
before, and two that lead at once.

=back

=cut

sub contract
{
	my ($title, $code) = @_;

	push @contract, [ $title, $code ];
	return;
}

sub one { return $_[0]->{one}; }
sub two { return $_[0]->{two}; }
sub link { return $_[0]->{link}; }

sub node
{
	my ($self, $name, %params) = @_;
	my %of_store =
	  $self->parameters($params{through} // $self->host_port, $params{secret} // 'good');

	return LeaderElection::Node->create($name, %of_store,
		settings => {
			# a shutdown has time to tell the store, however slow the machine is
			shutdown_timeout => '60s',
			%{ $of_store{settings} // {} },
			%{ $params{settings} // {} }
		});
}

sub writes
{
	my ($self, $election) = @_;

	return qr{^(?:PUT|POST|DELETE)\b.*\b\Q$election\E\b}s;
}

sub rising
{
	my ($what, @tokens) = @_;

	return guarantee('G2', \@tokens, $what);
}

sub apart
{
	my ($what, @samplers) = @_;

	$_->stop foreach @samplers;
	return guarantee('G1', [ LeaderElection::Sampler->overlaps(@samplers) ], $what);
}

# A file that only its owner may read, as those of secrets must be.
sub secret_file
{
	my ($name, $text) = @_;
	my $file = "$PostgreSQL::Test::Utils::tmp_check/secret_" . basename($0, '.pl') . "_$name";

	open(my $fh, '>', $file) or die "$file: $!";
	chmod 0600, $file or die "$file: $!";
	print $fh "$text\n";
	close $fh;
	return $file;
}

=pod

=head1 THE DRIVER

=over

=item judge()

Runs every case.  One that the store cannot have is named with its reason; a
title in that list that no case has is a failure.

=back

=cut

sub judge
{
	my ($class) = @_;
	my $self = bless {}, $class;
	my %cannot = $self->cannot;

	foreach my $file (sort glob "$cases/*.pl")
	{
		do $file or die "$file: " . ($@ || $!);
	}
	$self->start;
	if ($self->host_port)
	{
		$self->{link} = LeaderElection::Recorder->new('one', $self->host_port)->start;
		$self->{two} = $self->node('two');
	}
	$self->{one} = $self->node('one',
		$self->{link} ? (through => $self->{link}->host_port) : ());
	foreach my $case (@contract)
	{
		my ($title, $code) = @$case;
		my $why = delete $cannot{$title};
		my $began = boottime_ns();

		if (defined $why)
		{
			note("not for this store: $title: $why");
			next;
		}
		subtest $title => sub {
			eval { $code->($self); 1 } or fail("it ended: $@");
		};
		note(sprintf '%s: %.1f s', $title, (boottime_ns() - $began) / 1e9);
		$self->{link}->clear_rules if $self->{link};
	}
	is(join(', ', sort keys %cannot), '', 'each case that the store cannot have is there');
	$_->stop foreach grep { defined } @$self{qw(one two)};
	done_testing();
	return;
}

1;
