# The record of decisions (src/worker/base/trace.c) has every field and every value of
# what it records, or a reason why not: a new one is to be written, and judged.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

my $top = $ENV{TESTDIR};
my $writer = slurp_file("$top/src/worker/base/trace.c");
my %left_out = (
	'LeInput.random' => 'spreads in time only',
	'LeNodeInput.random' => 'spreads in time only',
	'LeNodeActions.timeout' => 'of requests, which have no lines',
	'LeNodeActions.failed' => 'for messages to people',
	'LeNodeActions.outcome' => 'for messages to people',
	'LeNode.next_timing' => 'counts when it is in "timing"');

# The name that the writer has for each of these.
my %variable = (
	LeKeyView => 'v->',
	LeInput => 'in->',
	LeActions => 'act->',
	LeAttempt => 'e->attempt.',
	LeElection => 'e->',
	LeNodeInput => 'input->',
	LeNodeActions => 'act->',
	LeNode => 'n->',
	LeClaimView => 'found->',
	LeClaimPlan => 'plan->');
my %used;

# The members of a struct or enum, by its name.
sub members
{
	my ($header, $kind, $name) = @_;
	my ($body) = slurp_file("$top/src/core/$header.h") =~ /^typedef $kind $name\n\{\n(.*?)^\}/ms
	  or die "no $kind $name in $header.h\n";

	$body =~ s{/\*.*?\*/}{}gs;
	return $kind eq 'enum'
	  ? $body =~ /(\w+)/g
	  : $body =~ /(\w+);/g;
}

foreach my $struct (
	[ election => qw(LeKeyView LeInput LeActions LeAttempt LeElection) ],
	[ node => qw(LeNodeInput LeNodeActions LeNode) ],
	[ tick => qw(LeClaimView LeClaimPlan) ])
{
	my ($header, @names) = @$struct;

	foreach my $name (@names)
	{
		my @missing;

		foreach my $member (members($header, 'struct', $name))
		{
			if ($left_out{"$name.$member"}) { $used{"$name.$member"} = 1 }
			elsif ($writer !~ /\b\Q$variable{$name}\E$member\b/) { push @missing, $member }
		}
		is("@missing", '', "$name: its fields");
	}
}
is_deeply([ grep { !$used{$_} } sort keys %left_out ], [], 'each reason is needed');

foreach my $enum (
	[ election => qw(LeOutcome LeConflict LeKeyHolder LeState LeInputKind LeSend LeVerdict) ],
	[ node => qw(LeNodeState LeNodeInputKind) ],
	[ tick => qw(LeClaimState LeClaimVerdict) ])
{
	my ($header, @names) = @$enum;

	foreach my $name (@names)
	{
		is(join(' ', grep { $writer !~ /\[$_\] = "/ } members($header, 'enum', $name)),
			'', "$name: its values");
	}
}

my @bits = slurp_file("$top/src/core/node.h") =~ /^#define LE_NODE_SEND_(\w+)/mg;
my ($sends) = $writer =~ /^node_sends\(.*?names\[\] = \{(.*?)\};/ms;

is_deeply([ map { lc } @bits ], [ $sends =~ /"(\w+)"/g ], 'the requests of a node, in their order');

done_testing();
