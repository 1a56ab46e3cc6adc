# test/run and test/verdict: a test that failed runs again by itself, and must then
# pass twice running; what breaks a guarantee, crashes, or has no result fails for
# good. test/steady makes a table of recorded runs.

use strict;
use warnings;

use File::Basename qw(basename);
use File::Path qw(make_path);
use IPC::Run;
use JSON::PP qw(encode_json);
use PostgreSQL::Test::Utils;
use Test::More;

my $top = $ENV{TESTDIR};
my $number = 0;

# A forged test on its try number $try, by name. A number behind that is its usual
# seconds.
my %forged = (
	passes => 'ok(1);',
	once => 'ok($try > 1);',
	in_part => q(subtest('it', sub { ok(1); ok($try > 1); });),
	late => q(before($try > 1 ? 1 : 2, 1.5, 'before it');),
	waits => q(poll_until(sub { $try > 1 }, 'it', timeout => 0.1); ok(1);),
	lost => q(same_term(5, $try > 1 ? 5 : undef, 'the same term');),
	no_token => q(guarantee('G2', [ 6, $try > 1 ? 7 : undef ], 'G2');),
	no_term => q(guarantee('G2', $try > 1 ? [ 6, 7 ] : [6], 'G2');),
	no_belief => q(guarantee('G5', $try > 1 ? [ [ 1, 2 ] ] : [], 'G5');),
	no_answer => q(denied('G4', $try > 1 ? 'f' : 'no answer', 'once');),
	dies => q(die 'not this time' if $try == 1; ok(1);),
	other_times => 'ok($try % 2 == 0);',
	always => 'ok(0);',
	never => q(never([ $try == 1 ? 1 : () ], 'no internal error');),
	earlier => q(same_term(5, $try == 1 ? 4 : 5, 'the same term');),
	overlaps => q(guarantee('G1', [ $try == 1 ? 'a and b' : () ], 'no overlap');),
	lower => q(guarantee('G2', [ 6, 7, $try == 1 ? 5 : 8 ], 'tokens rise');),
	equal => q(guarantee('G2', [ [ 1, 2 ], [ 7, $try == 1 ? 7 : 8 ] ], 'in each election');),
	committed => q(guarantee('G3', [ $try == 1 ? 'a row' : () ], 'nothing was committed');),
	twice => q(guarantee('G4', [ $try == 1 ? 'job 1' : () ], 'no tick twice');),
	granted => q(denied('G4', $try == 1 ? 't' : 'f', 'no tick twice');),
	token => q(denied('G5', $try == 1 ? 17 : '', 'no token');),
	believes => q(guarantee('G5', [ [ 8, 9 ], [ 2, $try == 1 ? 1 : 3 ] ], 'no belief after it');),
	late_and_lower => q(ok(0); guarantee('G2', [ 2, 1 ], 'tokens rise');),
	kept => q(guarantee('G1', [], 'G1'); guarantee('G2', [ 6, 7, 8 ], 'G2');
		guarantee('G5', [ [ 9, 9 ] ], 'G5'); denied('G4', $_, 'G4') foreach undef, '', 0, 'f';),
	crashes => q(ok(1); server('LOG:  server process (PID 7) was terminated by signal 11: Segmentation fault');),
	panics => q(ok(1); server('PANIC:  could not write to file');),
	asserts => q(ok(1); server('TRAP: failed Assert("a != b"), File: "x.c", Line: 7');),
	sanitizes => q(ok(1); server('==7==ERROR: AddressSanitizer: heap-use-after-free');),
	overflows => q(ok(1); server('x.c:3:5: runtime error: signed integer overflow');),
	races => q(ok(1); server('WARNING: DATA RACE');),
	leaves => q(my $left = "$PostgreSQL::Test::Utils::tmp_check/left";
		ok($try > 1 && !-e $left); append_to_file($left, 'x');),
	killed => q(ok(1); server('LOG:  server process (PID 7) was terminated by signal 9: Killed');),
	on_purpose => q(deliberate(qr/signal 6/); ok(1);
		server('LOG:  server process (PID 7) was terminated by signal 6: Aborted');),
	bails_out => q(BAIL_OUT('no server');),
	bails_later => q(sleep 1; BAIL_OUT('no server');),
	begins_not => 'BEGIN { exit 0 }');

# Runs forged tests in a directory of their own; with what "twice" has left to do.
sub run_tap
{
	my ($names, %env) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir_short() . '/' . ++$number;
	my @files;

	make_path("$dir/tmp_check/log");
	symlink("$top/test", "$dir/test") or die "symlink: $!";
	foreach my $name (@$names)
	{
		my $file = sprintf('%03d_%s.pl', scalar @files, $name);
		my $code = $forged{ $name =~ s/\d+$//r };
		my $head = $name =~ /(\d+)$/ ? "# Tier: test, $1 s\n" : '';

		append_to_file("$dir/$file", <<"END");
${head}use strict;
use warnings;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

append_to_file("$dir/$name.tries", '.');
my \$try = -s "$dir/$name.tries";

sub server { append_to_file("\$ENV{TESTLOGDIR}/@{[ $file =~ s/\.pl//r ]}_a.log", "\$_[0]\\n"); }

$code
done_testing();
END
		push @files, $file;
	}

	local @ENV{ 'LE_SANDBOX', 'TESTDIR', 'TESTDATADIR', 'TESTLOGDIR', 'PROVE_JOBS', 'CI' } =
	  ($dir, $dir, "$dir/tmp_check", "$dir/tmp_check/log", 4, '');
	local @ENV{ keys %env } = values %env;
	# not into this test's own log, where what must never happen would count
	my $said = `cd "$dir" && test/run tap @files 2>&1`;
	my $status = $? >> 8;

	return {
		status => $status,
		said => $said,
		dir => $dir,
		tries => { map { $_ => -s "$dir/$_.tries" } @$names }
	};
}

sub passes
{
	my ($run, $what) = @_;

	return is($run->{status}, 0, $what) || diag($run->{said});
}

my $run = run_tap(['passes']);
passes($run, 'one that passes');
is($run->{tries}{passes}, 1, 'runs once');
unlike($run->{said}, qr/unsteady/, 'and is steady');

$run = run_tap([ 'passes3', 'passes', 'passes20' ], PROVE_JOBS => 1);
is( join(' ', $run->{said} =~ /^\[[^]]*\] \d+_(\w+)\.pl \.+ /mg),
	'passes20 passes3 passes',
	'the longest test comes first, one without a duration last');

my @again = (
	'once', 'in_part', 'late', 'waits', 'lost', 'no_token',
	'no_term', 'no_belief', 'no_answer', 'dies', 'leaves');

$run = run_tap([ 'passes', @again ]);
passes($run, 'those that fail once');
is($run->{tries}{$_}, 3, "$_: runs again, twice") foreach @again;
is($run->{tries}{passes}, 1, 'the other does not');
like($run->{said}, qr/^unsteady: \d+_$_\.pl$/m, "$_: is unsteady") foreach @again;
ok(-e "$run->{dir}/tmp_check/log/before_1/regress_log_001_once", 'the log of the first failure is kept');

$run = run_tap(['other_times']);
is($run->{status}, 1, 'one that passes every other time fails');
is($run->{tries}{other_times}, 3, 'after three');

$run = run_tap(['always']);
is($run->{status}, 1, 'one that always fails does');
is($run->{tries}{always}, 2, 'after two');

$run = run_tap([ 'always', 'once' ]);
is($run->{status}, 1, 'beside one that fails once');
like($run->{said}, qr/^failed: 000_always\.pl$/m, 'it is named');
like($run->{said}, qr/^unsteady: 001_once\.pl$/m, 'and the other has its say');

$run = run_tap([ 'once', 'passes' ], LE_LATER => 1);
is($run->{status}, 3, 'LE_LATER: something may run again');
like($run->{said}, qr/^again: 000_once\.pl$/m, 'which is named');
is($run->{tries}{once}, 1, 'but does not yet');
$run = run_tap(['once'], LE_ONCE => 1);
isnt($run->{status}, 0, 'LE_ONCE: one that fails');
is($run->{tries}{once}, 1, 'does not run again');

my @final = (
	'never', 'earlier', 'overlaps', 'lower', 'equal', 'committed', 'twice', 'granted',
	'token', 'believes', 'late_and_lower', 'crashes', 'panics', 'asserts', 'sanitizes',
	'overflows', 'races');

$run = run_tap(\@final);
is($run->{status}, 1, 'failures of never()');
foreach my $name (@final)
{
	is($run->{tries}{$name}, 1, "$name: never runs again");
	like($run->{said}, qr/^final: \d+_$name\.pl: /m, 'and says why');
}
$run = run_tap([ 'once', 'lower' ]);
is($run->{status}, 1, 'beside one that may run again');
is($run->{tries}{once}, 1, 'which then does not');
passes(run_tap([ 'kept', 'killed', 'on_purpose' ]), 'guarantees that are kept, and deliberate crashes');

$run = run_tap([ 'bails_out', 'passes' ], PROVE_JOBS => 1);
is($run->{status}, 1, 'one that bails out');
like($run->{said}, qr/^final: 000_bails_out\.pl: it ended all tests: no server$/m, 'says so');
like($run->{said}, qr/^final: 001_passes\.pl: it has no result$/m, 'the next has no result');
isnt(run_tap(['begins_not'])->{status}, 0, 'one that tests nothing');
is(run_tap([ 'passes', 'bails_out', 'bails_later' ])->{status}, 1, 'one that bails out beside others');

# Tests have one way to judge a promise.  (A token that must be lower, as in a
# store that was made anew, is compared by '<'.)
foreach my $file (glob "$top/test/t/*.pl $top/test/contract/*/*.pl $top/test/perl/LeaderElection/*.pm")
{
	my $code = slurp_file($file) =~ s/^=\w.*?^=cut$//gmsr;
	my @plain = grep {
		/\b(?:isnt|cmp_ok)\(.*(?:->token\(|fencing_token).*'>=?'/s
		  || (/->overlaps\(/ && !/\bguarantee\(\s*'G1'/)
	} split /;\n/, $code;

	is_deeply(\@plain, [], basename($file) . ': promises are judged by guarantee()');
}

# ---- Go: what gotestsum's file of events tells ----

sub run_go
{
	my ($names, @events) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir_short() . '/' . ++$number;

	append_to_file(
		$file,
		join '',
		map {
			my ($action, $test, $output) = @$_;
			encode_json(
				{
					Action => $action,
					Package => 'gateway',
					$test ? (Test => $test) : (),
					defined $output ? (Output => $output) : ()
				})
			  . "\n"
		} @events);
	my $said = `"$top/test/verdict" go "$file" @$names`;

	return { status => $? >> 8, said => $said };
}

my @fine = (
	[ 'run', 'TestA' ],
	[ 'run', 'TestA/fine' ],
	[ 'pass', 'TestA/fine' ]);

$run = run_go(['TestA'], @fine, [ 'pass', 'TestA' ], ['pass']);
is("$run->{status} $run->{said}", '0 ', 'Go: all pass');
$run = run_go(['TestA'], @fine, [ 'output', 'TestA/late', "    a_test.go:1: too late\n" ],
	[ 'fail', 'TestA/late' ], [ 'fail', 'TestA' ], ['fail']);
is("$run->{status} $run->{said}", "3 again: TestA/late\n", 'Go: the part that failed may run again');
$run = run_go(['TestA'], [ 'fail', 'TestA' ], [ 'pass', 'TestA' ], ['fail']);
is("$run->{status} $run->{said}", "3 again: TestA\n", 'Go: one that failed and passed has failed');
foreach my $case (
	[ 'what must never happen', [ 'output', 'TestA', "a_test.go:1: must never happen: two hold it\n" ] ],
	[ 'a data race', [ 'output', 'TestA/late', "WARNING: DATA RACE\n" ] ],
	[ 'a panic', [ 'output', undef, "panic: test timed out\n" ] ])
{
	$run = run_go(['TestA'], @fine, $case->[1], [ 'fail', 'TestA/late' ], [ 'fail', 'TestA' ], ['fail']);
	is($run->{status}, 1, "Go: $case->[0] is final");
}
$run = run_go([ 'TestA', 'TestB' ], @fine, [ 'pass', 'TestA' ], ['pass']);
is("$run->{status} $run->{said}", "1 final: TestB: it has no result\n", 'Go: no result');
is(run_go(['TestA'], ['fail'])->{status}, 1, 'Go: the tests do not even begin');
is(run_go(['TestA'], @fine, [ 'pass', 'TestA' ], ['fail'])->{status}, 1, 'Go: the run failed after all');

# ---- records of the last runs ----

sub table
{
	my (@lines) = @_;
	my $cache = PostgreSQL::Test::Utils::tempdir_short();

	make_path("$cache/leader_election");
	append_to_file("$cache/leader_election/runs", "2026-01-01T00:00:00Z e322bf0 $_\n") foreach @lines;
	local $ENV{XDG_CACHE_HOME} = $cache;
	return split /\n/, `"$top/test/steady" --record`;
}

my ($head, @rows) = table(
	'run failed',
	'failed test/t/old.pl -',
	'run passed',
	'unsteady test/t/a.pl 5',
	'run failed',
	'failed test/t/b.pl -',
	'unsteady test/t/a.pl 7',
	'run failed',
	'once test/t/c.pl -',
	'run passed',
	'run passed');

like($head, qr/^test +runs +at first +for good$/, 'a table of the last five runs');
is_deeply(
	[ map { s/ +/ /gr } @rows ],
	[ 'test/t/a.pl 5 2 0', 'test/t/b.pl 5 1 1', 'test/t/c.pl 5 1 0', '5 runs, 2 failed' ],
	'in how many a test failed, and in how many for good');
is((table('run passed'))[1], '1 runs, 0 failed', 'one run that passed');

done_testing();
