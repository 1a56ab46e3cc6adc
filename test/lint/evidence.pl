# docs/evidence.md is made of reports; figures of a part that has none are kept.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

my $from = PostgreSQL::Test::Utils::tempdir;
my $page = PostgreSQL::Test::Utils::tempdir . '/evidence.md';
my %report = (
	sim => <<'END',
23 regression schedules, failed: 0
exhaustive search, 2 nodes, 1 election, at most 1 faults: 1958 schedules, 769261 steps, 26758 states, failed: 0
a worker that dies at each of its readings, 30 seeds: 5771 schedules, failed: 0
1000 schedules in 832.3 s by 2 jobs, 1649.5 s of processor time, 6062 per second of it
6414510040 steps, 1332830717 requests; 31540915 terms began, 1707782 takeovers
failed: 0
END
	load => <<'END',
nodes elections lease        all   prove   renew  listen    read   watch
    3         1    15 s        2.2     0.6     0.6     0.6     0.0     0.3
    3         1    10 s        3.3     0.9     1.0     0.9     0.2     0.3
END
	'traces-consul' => <<'END',
store consul, seed 7, lease 5.0 s, margin 0.5 s, 2.3 min
traces: 241083 lines of 18 workers in 1 runs, 2184 terms, 1186 handovers, 453176 checks
       2184  tokens rise
traces: accepted
END
	'faults-consul' => <<'END',
store consul, seed 954378637, lease 5.0 s, margin 0.5 s, 60.5 min

477 faults
  CPU starved                                         15      91.4 s in all
  answers cut off                                     16     123.7 s in all

171419 operations
handovers from one holder to another: 14475

check                                                          judged  excused violations
I1    beliefs of two holders never overlap                      19755        3          0
G5    who hears nothing stops believing by its deadline           377        0          0

broken on purpose, where nothing is promised, and judged apart: I1 2, I3 0, I6 1
END
	mutants => "120 mutants, not caught: 0\n",
	prove => <<'END');
explore: two nodes, nobody late: 152693 states, which are all, 798818 steps, depth 47, 1.0 s
explore: two nodes, 1 may be late: 94880 states, not all, 4260630 steps, depth 24, 6.0 s
prove: 153 hold, 0 fail, 1 without a result, 600 s
END

sub report
{
	my ($name, $text) = @_;

	unlink "$from/$name.txt", "$from/$name.source";
	return unless defined $text;
	append_to_file("$from/$name.txt", $text);
	append_to_file("$from/$name.source", "0123456789ab\n");
	return;
}

# The page as it is after another run.
sub evidence
{
	run_log([ "$ENV{TESTDIR}/scripts/evidence", $from, $page ])
	  or die 'scripts/evidence failed';
	return slurp_file($page) =~ s/\s+/ /gr;
}

report($_, $report{$_}) foreach keys %report;
my $text = evidence();
like($text, qr/\(`make sim SCHEDULES=1000`\)\. On \d{4}-\d\d-\d\d, sources 0123456789ab: 1,000 schedules .* 31,540,915 terms began, .* Failed: 0\. .* 1,958 schedules\. Failed: 0\. And 30 of the seeds, .* 5,771 schedules\. Failed: 0\./,
	'simulation');
like($text, qr/3 nodes 2\.2 requests/, 'load');
like($text, qr/\(`make faults DURATION=60min`\)\. On \d{4}-/, 'as it was run');
like($text, qr/60\.5 minutes with leases of 5\.0 s: 477 faults of 2 kinds, 171,419 operations of clients, 14,475 handovers\. Found in the election that is broken on purpose: I1 2, I3 0, I6 1\./,
	'faults');
like($text, qr/\| I1 beliefs of two holders never overlap \| 19,755 \/ 3 \/ 0 \| \| \|/, 'a check');
like($text, qr/Traces, Consul\*\* \(`make traces STORE=consul`\)\. On .* 2\.3 minutes: 241,083 decisions .* 2,184 terms, 1,186 handovers, 453,176 checks\. The record: accepted\./,
	'traces');
like($text, qr/Real faults, $_\*\* \(`[^`]*`\)\. Not run yet\./, "and a part that has not run: $_")
  foreach 'Cassandra', 'Azure';
like($text, qr/120 deliberate defects, one at a time\. Not caught: 0\./, 'mutants');
like($text,
	qr/153 proofs and searches hold, 0 fail, 1 had no result in their time\. Two nodes, nobody late: 152,693 states, which are all, 798,818 steps; 1 may be late: 94,880 /,
	'proofs');

# the other store comes later, from a tree without the first one's report
my $whole = slurp_file($page);
report('faults-consul');
evidence();
is(slurp_file($page), $whole, 'figures are kept without their report');
report('faults-cassandra',
	$report{'faults-consul'} =~ s/store consul/store cassandra/r =~ s/19755/5/r);
$text = evidence();
like($text, qr/\| I1 beliefs of two holders never overlap \| 19,755 \/ 3 \/ 0 \| 5 \/ 3 \/ 0 \| \|/,
	'beside those of the other store');
report('faults-azure',
	$report{'faults-consul'} =~ s/store consul/store azure/r =~ s/19755/6/r);
like(evidence(), qr/\| 19,755 \/ 3 \/ 0 \| 5 \/ 3 \/ 0 \| 6 \/ 3 \/ 0 \|/, 'and of the third');

# a page from before that store had a column
my $wide = slurp_file($page);
my $narrow = $wide =~ s/^(\| judged.*) Azure \|$/$1/mr =~ s/ 6 \/ 3 \/ 0 \|$//mr;

isnt($narrow, $wide, 'a column less');
unlink $page;
append_to_file($page, $narrow);
evidence();
is(slurp_file($page), $wide, 'each figure in the column of its store');

# findings of a run are told
report('mutants', "120 mutants, not caught: 2\n");
like(evidence(), qr/Not caught: 2\./, 'survivors');
report('faults-cassandra',
	$report{'faults-consul'} =~ s/(19755 +3 +)0/${1}7/r);
like(evidence(), qr/\| 19,755 \/ 3 \/ 7 \|/, 'violations');
report('traces-consul', $report{'traces-consul'} =~ s/accepted/REJECTED, 3 steps/r);
like(evidence(), qr/The record: REJECTED, 3 steps\./, 'steps that were none');

# a check that had nothing to judge has shown nothing
my $idle = $report{'faults-consul'} =~ s/store consul/store azure/r;

$idle =~ s/^(G5 .* )377( )/${1}0$2/m;
$whole = slurp_file($page);
report('faults-azure', "$idle\nNOTHING JUDGED by G5\n");
ok(!run_log([ "$ENV{TESTDIR}/scripts/evidence", $from, $page ]), 'a check without a case is refused');
is(slurp_file($page), $whole, 'and the page stays as it was');
report('faults-azure', "$idle\nI5, G5 judged nothing, as may be in a run of some kinds of faults\n");
like(evidence(), qr/\| 0 \/ 0 \/ 0 \|/, 'unless the report says why');

# a report that is cut off is none without findings
$whole = slurp_file($page);
report('sim', $report{sim} =~ s/^failed.*\n//mr);
ok(!run_log([ "$ENV{TESTDIR}/scripts/evidence", $from, $page ]), 'half a report is refused');
is(slurp_file($page), $whole, 'and the page stays');

done_testing();
