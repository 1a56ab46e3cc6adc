# test/stalls: a test that failed while the machine stood still runs again, no
# other does, and few may.  What breaks a guarantee is never tried again.

use strict;
use warnings;

use File::Basename qw(basename);
use PostgreSQL::Test::Utils;
use Test::More;

my $stalls = "$ENV{TESTDIR}/test/stalls";
my $number = 0;

# What a forged test does on each of its tries, by name.
my %forged = (
	passes => sub { 'ok(1);' },
	fails => sub { 'late(1);' },
	stalled => sub { q(stall(); subtest('it', sub { ok(1); late(tries() < 2); });) },
	stalled_twice => sub { 'stall(); late(tries() < 3);' },
	stalled_always => sub { 'stall(); late(1);' },
	fails_later => sub { 'stall() if tries() == 1; late(1);' },
	lost => sub { q(stall(); same_term(5, tries() > 1 ? 5 : undef, 'the same term');) },
	waits => sub { q(stall(); poll_until(sub { tries() > 1 }, 'it', timeout => 0.1); ok(1);) },
	wrong => sub { q(stall(); ok(tries() > 1, 'not about time');) },
	wrong_too => sub { q(stall(); late(tries() < 2); subtest('it', sub { ok(tries() > 1); });) },
	dies => sub { q(stall(); late(tries() < 2); die 'not about time' if tries() < 2;) },
	dies_later => sub {
		return q(stall(); eval { poll_until(sub { 0 }, 'it', timeout => 0.1) } if tries() < 2;
			ok(1); die 'not about time' if tries() < 2;);
	},
	earlier => sub { q(stall(); same_term(5, 4, 'the same term');) },
	never => sub { 'stall(); never([1], "no internal error");' },
	overlaps => sub { q(stall(); guarantee('G1', ['a and b'], 'no overlap');) },
	lower => sub { q(stall(); guarantee('G2', [ 6, 7, 5 ], 'tokens rise');) },
	equal => sub { q(stall(); guarantee('G2', [ [ 1, 2 ], [ 7, 7 ] ], 'in each election');) },
	committed => sub { q(stall(); guarantee('G3', ['a row'], 'nothing was committed');) },
	twice => sub { q(stall(); guarantee('G4', ['job 1'], 'no tick twice');) },
	believes => sub { q(stall(); guarantee('G5', [ [ 8, 9 ], [ 2, 1 ] ], 'no belief after it');) },
	kept => sub {
		return q(guarantee('G1', [], 'G1'); guarantee('G2', [ 6, 7, 8 ], 'G2');
			guarantee('G5', [ [ 9, 9 ] ], 'G5'););
	},
	no_token => sub { q(stall(); guarantee('G2', [ 6, tries() > 1 ? 7 : undef ], 'G2');) },
	no_term => sub { q(guarantee('G2', [6], 'G2');) },
	no_belief => sub { q(guarantee('G5', [], 'G5');) });

# Runs suites of forged tests in a directory of their own.  They make the machine
# stand still by stopping who watches it: the other children of test/stalls.
sub run
{
	my (@names) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir_short() . '/' . ++$number;
	my @files;

	mkdir $_ foreach ($dir, "$dir/tmp_check", "$dir/tmp_check/log");
	symlink("$ENV{TESTDIR}/test", "$dir/test") or die "symlink: $!";
	foreach my $name (@names)
	{
		my $file = sprintf('%s/%03d_%s.pl', $dir, scalar @files, $name);
		my $code = $forged{ $name =~ s/\d+$//r }->();

		append_to_file($file, <<"END");
use strict;
use warnings;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

sub tries
{
	open(my \$fh, '>>', "$dir/$name.tries");
	return -s "$dir/$name.tries" if our \$counted++;
	print {\$fh} '.';
	close \$fh;
	return -s "$dir/$name.tries";
}

sub stall
{
	my \$prove = getppid();
	my (\$stalls) = slurp_file("/proc/\$prove/stat") =~ /^\\d+ \\(.*\\) \\S (\\d+)/;
	my \@watchers = grep { \$_ != \$prove }
	  split / /, slurp_file("/proc/\$stalls/task/\$stalls/children");

	kill('STOP', \@watchers);
	Time::HiRes::sleep(0.7);
	kill('CONT', \@watchers);
	Time::HiRes::sleep(0.2);
}

sub late { return in_time(\$_[0] ? 2 : 1, 1.5, 'in time'); }

tries();
$code
done_testing();
END
		push @files, $file;
	}

	local $ENV{TESTDATADIR} = "$dir/tmp_check";
	local $ENV{TESTLOGDIR} = "$dir/tmp_check/log";
	local $ENV{TESTDIR} = $dir;
	local $ENV{PROVE_JOBS} = 1;    # so that no other stands still meanwhile
	return suite($dir, 'tap', "$dir/tmp_check/log", @files);
}

# Runs a program that says what compiled Go tests would, in a directory of its
# own.  It gets as $try how often it has run.
sub run_go
{
	my ($code) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir_short() . '/' . ++$number;

	mkdir $dir;
	append_to_file("$dir/tests", <<"END");
#!/usr/bin/perl
use strict;
use warnings;
use Time::HiRes;

\$| = 1;
open(my \$fh, '>>', "$dir/tries");
print {\$fh} "\@ARGV\\n";
close \$fh;
open(\$fh, '<', "$dir/tries");
my \$try = () = <\$fh>;

sub stall
{
	my \$stalls = getppid();
	open(my \$in, '<', "/proc/\$stalls/task/\$stalls/children");
	my \@watchers = grep { \$_ != \$\$ } split / /, <\$in>;

	kill('STOP', \@watchers);
	Time::HiRes::sleep(0.7);
	kill('CONT', \@watchers);
	Time::HiRes::sleep(0.2);
}

sub begin { print "\\x16=== RUN   \$_[0]\\n"; }
sub result { print "\\x16--- \$_[1]: \$_[0] (\$_[2]s)\\n"; }

$code
END
	chmod(0755, "$dir/tests");

	my $run = suite($dir, 'go', "'echo >>$dir/fresh'", "$dir/tests", '-test.count=1');

	$run->{tries} = [ split /\n/, slurp_file("$dir/tries") ];
	$run->{fresh} = -s "$dir/fresh" // 0;
	return $run;
}

# Not into this test's own log, where what must never happen would count.
sub suite
{
	my ($dir, @arguments) = @_;
	my $output = "$PostgreSQL::Test::Utils::tmp_check/stalls_$number.log";

	local $ENV{TEST_TRIES} = 3;
	my $rc = system(qq(cd "$dir" && "$stalls" @arguments >"$output" 2>&1));
	my $said = slurp_file($output);
	my ($last) = $said =~ /([^\n]*)\n\z/;
	my ($ran) = $said =~ /^((?:no|\d+) tests? ran again.*)$/m;

	return { passed => $rc == 0, said => $said, last => $last, ran => $ran, output => $output };
}

sub again { return () = $_[0]->{said} =~ /^== again, by itself: /mg; }

my $run = run('passes');
ok($run->{passed}, 'all pass');
is($run->{last}, 'no test ran again', 'and says so');

$run = run('passes', 'fails');
ok(!$run->{passed}, 'a failure while the machine did not stand still');
is(again($run), 0, 'is not tried again');
like($run->{said}, qr/001_fails\.pl: the machine did not stand still/, 'and why');

$run = run('stalled', 'passes');
ok($run->{passed}, 'a failure while the machine stood still');
like($run->{ran}, qr/^1 test ran again, as the machine stood still: \S*000_stalled\.pl$/,
	'is tried again');
like($run->{last}, qr/^UNSTABLE: \S*000_stalled\.pl$/, 'which the last line tells');

my @outputs = ($run->{output}) x 3;
is(system(qq("$stalls" count @outputs >/dev/null)), 0, 'three in all may be');
like(`"$stalls" count @outputs`, qr/^UNSTABLE:( \S*000_stalled\.pl){3}\n\z/m, 'and are told');
isnt(system(qq("$stalls" count @outputs $run->{output} >/dev/null)), 0, 'four may not');

$run = run('stalled_twice');
ok($run->{passed}, 'one that passes the third time');
is(again($run), 2, 'ran thrice');
like($run->{ran}, qr/^1 test ran again/, 'and counts once');

$run = run('stalled_always');
ok(!$run->{passed}, 'one that never passes fails');
is(again($run), 2, 'after three times');

$run = run('fails_later');
ok(!$run->{passed}, 'one that fails again while the machine does not stand still');
is(again($run), 1, 'has failed');

foreach my $late ('lost', 'waits', 'no_token')
{
	$run = run($late);
	ok($run->{passed}, "about time as well: $late");
	is(again($run), 1, 'is tried again');
}

# A stall excuses nothing else.
my @wrong = ('wrong', 'wrong_too', 'dies', 'dies_later');

$run = run(@wrong);
ok(!$run->{passed}, 'what is not about time');
is(again($run), 0, 'is not excused');
like($run->{said}, qr/\d_$_\.pl: what failed is not only about time/, "and why: $_")
  foreach @wrong;

my @broken = ('never', 'earlier', 'overlaps', 'lower', 'equal', 'committed', 'twice', 'believes');

$run = run(@broken);
ok(!$run->{passed}, 'what must never happen');
is(again($run), 0, 'is not excused');
like($run->{said}, qr/\d_$_\.pl: what failed must never happen/, "and why: $_")
  foreach @broken;

$run = run('kept');
ok($run->{passed}, 'guarantees that are kept');

# such a test has not seen what it is to judge
my @missing = ('no_term', 'no_belief');

$run = run(@missing);
like($run->{said}, qr/\d_$_\.pl: what failed is not only about time/, "nothing to judge: $_")
  foreach @missing;

# Tests have one way to judge a promise.  (A token that must be lower, as in a
# store that was made anew, is compared by '<'.)
foreach my $file (glob "$ENV{TESTDIR}/test/t/*.pl $ENV{TESTDIR}/test/perl/LeaderElection/*.pm")
{
	my $name = basename($file);

	next if $name eq '097_stalls.pl';

	my $code = slurp_file($file) =~ s/^=\w.*?^=cut$//gmsr;
	my @plain = grep {
		/\b(?:isnt|cmp_ok)\(.*(?:->token\(|fencing_token).*'>=?'/s
		  || (/->overlaps\(/ && !/\bguarantee\(\s*'G1'/)
	} split /;\n/, $code;

	is_deeply(\@plain, [], "$name: promises are judged by guarantee()");
}

$run = run('stalled', 'fails');
ok(!$run->{passed}, 'one that is excused beside one that is not');
is(again($run), 0, 'would not help');

$run = run(map { "stalled$_" } 1 .. 4);
ok(!$run->{passed}, 'four that would have to run again');
is(again($run), 0, 'are too many');

# Go tests: the parts that failed run again, with what is around them
$run = run_go(<<'END');
begin('TestA');
begin('TestA/fine');
result('TestA/fine', 'PASS', '0.01');
begin('TestA/late');
if ($try == 1)
{
	stall();
	print "    a_test.go:1: too late\n";
}
result('TestA/late', $try == 1 ? 'FAIL' : 'PASS', '0.90');
result('TestA', $try == 1 ? 'FAIL' : 'PASS', '0.91');
exit($try == 1);
END
ok($run->{passed}, 'Go: a failure while the machine stood still');
like($run->{ran}, qr/^1 test ran again, as the machine stood still: TestA\/late$/,
	'is tried again');
is($run->{tries}[1], '-test.count=1 -test.v=test2json -test.run ^TestA$/^late$',
	'the part only');
is($run->{fresh}, 1, 'after room was made for it');
like($run->{said}, qr/a_test\.go:1: too late/, 'and what it said is shown');
is(system(qq("$stalls" count $run->{output} @outputs >/dev/null)) >> 8, 1,
	'it counts with the others');

foreach my $case (
	[ 'the machine had stood still before', <<'END' ],
begin('TestB');
stall();
result('TestB', 'PASS', '0.90');
begin('TestA');
result('TestA', 'FAIL', '0.01');
END
	[ 'what must never happen, in what is around it', <<'END' ],
begin('TestA');
begin('TestA/late');
stall();
result('TestA/late', 'FAIL', '0.90');
print "    a_test.go:1: must never happen: two hold it\n";
result('TestA', 'FAIL', '0.91');
END
	[ 'one that ends all tests', <<'END' ],
begin('TestA');
stall();
result('TestA', 'FAIL', '0.90');
begin('TestB');
print "panic: test timed out\n";
END
	[ 'the tests do not even begin', 'stall();' ])
{
	$run = run_go("$case->[1]exit(1);");
	ok(!$run->{passed}, "Go: $case->[0]");
	is(again($run), 0, 'is not tried again');
}

done_testing();
