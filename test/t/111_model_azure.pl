# Tier: long, 39 s
#
# The simulator's model of Azure Blob Storage (test/sim/azure.c) against a real
# Azurite: each operation in each state of a lease, on a blob of its own.  Where
# the model also knows what the documents say, and Azurite does otherwise, the
# difference is in a list here.

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use JSON::PP;
use LeaderElection::Azurite;
use LeaderElection::Util;
use Test::More;

my $sim = dirname(abs_path(__FILE__)) . '/../../build/sim/sim';

plan skip_all => 'build/sim/sim was not built' unless -x $sim;

my $azurite = LeaderElection::Azurite->new('model')->start;
my %id = map { $_ => lc "$_$_$_$_$_$_$_$_-0000-4000-8000-000000000000" }
  qw(A B C);
my %letter = reverse %id;
my $lease = 15;

# The documents' answers where Azurite does otherwise, by operation and state; an
# answer that they leave open is one of several.
my $expired = 'expired|expired, read';
my %lost = ($expired => qr/^412 LeaseLost/);
my %nothing = ('no blob' => qr/^412 LeaseNotPresentWithBlob/);
my %documented = (
	'renew B' => { $expired => qr/^409 LeaseIdMismatchWith/ },
	'put if absent' => { 'leased|for ever|breaking' => qr/^412 LeaseIdMissing/ },
	(map { $_ => { %lost, %nothing } } 'put A', 'put B'),
	(map { $_ => {%lost} } 'metadata A', 'metadata B', 'delete A'),
	'acquire B, another etag' => {
		'leased|for ever|breaking' => qr/^409 LeaseAlreadyPresent/,
		'no blob' => qr/^404 BlobNotFound/
	},
	'metadata A, another etag' => {
		'available|released|.*, rewritten|broken|expired.*' =>
		  qr/^412 Lease(NotPresentWithBlobOperation|Lost)/,
		'no blob' => qr/^404 BlobNotFound/
	});

# The model's cells, by variant, state and operation.
sub cells
{
	my %cells = (0 => {}, 1 => {});

	open(my $model, '-|', $sim, 'model-azure') or die "$sim: $!";
	while (my $text = <$model>)
	{
		my $cell = decode_json($text);

		$cells{ $cell->{azurite} ? 1 : 0 }{ $cell->{state} }
		  { $cell->{operation} } = $cell;
	}
	close $model or die "$sim failed";
	return \%cells;
}

# "renew A", "change A to C", "metadata A, another etag", ...
sub perform
{
	my ($blob, $operation) = @_;
	my ($verb, @ids) = $operation =~ /\b([a-z]+|[ABC])\b/g;
	my ($id, $other) = map { $id{$_} } grep { /^[ABC]$/ } @ids;
	my %headers;

	$headers{'If-Match'} = '"0x1"' if $operation =~ /another etag/;
	if ($verb =~ /^(?:acquire|renew|change|release|break)$/)
	{
		$headers{'x-ms-lease-action'} = $verb;
		$headers{'x-ms-lease-id'} = $id if $id && $verb ne 'acquire';
		$headers{'x-ms-proposed-lease-id'} = $other // $id
		  if $verb =~ /^(?:acquire|change)$/;
		$headers{'x-ms-lease-duration'} =
		  $operation =~ /for ever/ ? -1 : $blob =~ /^expired/ ? $lease : 60
		  if $verb eq 'acquire';
		$headers{'x-ms-lease-break-period'} = 0
		  if $operation eq 'break 0';
		return $azurite->request('PUT', $blob, 'comp=lease', %headers);
	}
	$headers{'x-ms-lease-id'} = $id if $id;
	return $azurite->request('HEAD', $blob, '', %headers) if $verb eq 'head';
	return $azurite->request('DELETE', $blob, '', %headers)
	  if $verb eq 'delete';
	return $azurite->request('PUT', $blob, 'comp=metadata', %headers)
	  if $verb eq 'metadata';
	$headers{'If-None-Match'} = '*' if $operation eq 'put if absent';
	return $azurite->request('PUT', $blob, '',
		'x-ms-blob-type' => 'BlockBlob', %headers);
}

my %steps = (
	'no blob' => [],
	'available' => ['put'],
	'released' => [ 'put', 'acquire A', 'release A' ],
	'leased' => [ 'put', 'acquire A' ],
	'for ever' => [ 'put', 'acquire A for ever' ],
	'breaking' => [ 'put', 'acquire A', 'break' ],
	'broken' => [ 'put', 'acquire A', 'break 0' ],
	'broken, rewritten' => [ 'put', 'acquire A', 'break 0', 'metadata' ],
	'expired' => [ 'put', 'acquire A' ],
	'expired, rewritten' => [ 'put', 'acquire A' ],
	'expired, read' => [ 'put', 'acquire A' ]);
my %later = (
	'expired' => [],
	'expired, rewritten' => ['metadata'],
	'expired, read' => ['head']);

sub state_of
{
	my ($blob) = @_;
	my $reply = perform($blob, 'head');

	return $reply->{status} == 404 ? '' : $reply->{headers}{'x-ms-lease-state'};
}

sub blob_of
{
	my ($cell) = @_;

	return "$cell->{state}/$cell->{operation}" =~ s/\W+/-/gr;
}

sub prepare
{
	my ($cell, @steps) = @_;

	foreach my $step (@steps)
	{
		my $reply = perform(blob_of($cell), $step);

		die "$cell->{state}: $step: $reply->{status}\n"
		  unless $reply->{success};
	}
	return;
}

# The outcome, in a line; the model's cells are written alike.
sub asked
{
	my ($cell) = @_;
	my $reply = perform(blob_of($cell), $cell->{operation});
	my $headers = $reply->{headers};
	my $id = $headers->{'x-ms-lease-id'};

	return join(' ',
		$reply->{status}, $headers->{'x-ms-error-code'} // '',
		'id', defined $id ? $letter{$id} // $id : '-',
		'then', state_of(blob_of($cell)));
}

sub said
{
	my ($cell) = @_;

	return join(' ',
		$cell->{status}, $cell->{code}, 'id', $cell->{lease_id} // '-',
		'then', $cell->{after});
}

sub all_of
{
	my ($states, @names) = @_;

	return map { my $state = $_; map { $states->{$state}{$_} }
		  sort keys %{ $states->{$state} } } @names;
}

sub compare
{
	my ($state, $cells) = @_;
	my (%got, %expected);

	foreach my $cell (values %$cells)
	{
		$got{ $cell->{operation} } = asked($cell);
		$expected{ $cell->{operation} } = said($cell);
	}
	is_deeply(\%got, \%expected,
		"$state: Azurite does as the model says, " . keys(%got) . ' operations');
	return;
}

my $cells = cells();
my $azurites = $cells->{1};
my @late = sort keys %later;
my @now = grep { !$later{$_} } sort keys %steps;

is_deeply([ sort keys %$azurites ], [ sort keys %steps ], 'the same states');

# those whose lease has to run out go first, all side by side
prepare($_, @{ $steps{ $_->{state} } }) foreach all_of($azurites, @late);

my $until = boottime_ns() + $lease * 1e9;

foreach my $state (@now)
{
	prepare($_, @{ $steps{$state} }) foreach all_of($azurites, $state);
	compare($state, $azurites->{$state});
}
poll_until(sub { boottime_ns() > $until }, 'the end of the leases');
poll_until(sub { state_of(blob_of($_)) ne 'leased' }, 'an expired lease')
  foreach all_of($azurites, @late);
foreach my $state (@late)
{
	prepare($_, @{ $later{$state} }) foreach all_of($azurites, $state);
	compare($state, $azurites->{$state});
}

# Where documents and Azurite differ, and only there.
my (@unlisted, $differences);

foreach my $cell (all_of($cells->{0}, sort keys %steps))
{
	my $line = said($cell);
	my $list = $documented{ $cell->{operation} } // {};

	next if $line eq said($azurites->{ $cell->{state} }{ $cell->{operation} });
	$differences++;
	push @unlisted, "$cell->{state}: $cell->{operation}: $line"
	  unless grep { $cell->{state} =~ /^(?:$_)$/ && $line =~ $list->{$_} }
	  keys %$list;
}
is_deeply(\@unlisted, [], 'documents and Azurite differ where the list says');
cmp_ok($differences, '>', 8, "they do in $differences cells");

done_testing();
