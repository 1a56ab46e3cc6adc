# Bash's completion of lectl: each command and option that --help names, and a few
# lines typed at a real bash.

use strict;
use warnings;

use IO::Pty;
use List::Util qw(uniq);
use PostgreSQL::Test::Utils;
use Test::More;

my $file = "$ENV{TESTDIR}/lectl/lectl.bash-completion";
my $root = PostgreSQL::Test::Utils::tempdir();

# The output of --help, by the strings of its source: nothing is built here.
my $help = join '', map { s/\\n/\n/gr =~ s/\\"/"/gr }
  slurp_file("$ENV{TESTDIR}/lectl/help.c") =~ /^"((?:[^"\\\n]|\\.)*)";?$/mg;

# The offers for a line that has been typed so far, words apart; bash itself takes
# "=", ":" and "@" for words of their own.
sub offered
{
	my ($typed) = @_;
	my @words = map { /[=:@]/ ? grep { length } split /([=:@])/, $_ : $_ } split / /, $typed, -1;
	my $script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
	  . 'compopt() { :; }; _lectl; printf "%s\n" "${COMPREPLY[@]}"';
	local $ENV{PG_CLUSTER_CONF_ROOT} = $root;

	open(my $bash, '-|', 'bash', '--norc', '-c', $script, 'bash', $file, @words) or die "bash: $!";
	chomp(my @offers = <$bash>);
	close $bash;
	return sort { $a cmp $b } uniq(grep { length } @offers);
}

sub lists
{
	my ($typed, @expected) = @_;

	is_deeply([ offered($typed) ], [ sort @expected ], $typed);
	return;
}

my @commands = $help =~ /^  lectl \[OPTION\]\.\.\. (\S+)/mg;
my %part = map { /^([a-z-]+): / ? ($1 => $_) : () } split /\n\n/, $help;
my ($connection) = $help =~ /^(Connection options:.*?)\n\n/ms;
my ($others) = $help =~ /^(Other options:.*?)\n\n/ms;

sub options_of
{
	my ($text) = @_;

	return $text =~ /^  (?:-., )?(--[a-z-]+)/mg;
}

subtest 'words of --help' => sub {
	is(scalar @commands, 6, 'there are commands');
	lists('lectl ', @commands);
	lists('lectl -', options_of($connection), options_of($others));
	foreach my $command (@commands)
	{
		lists("lectl $command -", (grep { $_ ne '--cluster' } options_of($connection)),
			options_of($part{$command}));
	}
	lists('lectl check ', $part{check} =~ /^  ([a-z]+) +\S/mg);
	lists('lectl exec --missed ', $part{exec} =~ /--missed=.*?(skip) .*?(last), .*?(all),/s);
	lists('lectl exec --on-loss ', $part{exec} =~ /^ {21}([a-z]+): /mg);
};

# An option with a value must not have that taken for the command.
subtest 'options that have a value' => sub {
	foreach my $option ($connection =~ /(--[a-z-]+)=/g)
	{
		lists("lectl $option value che", 'check');
		lists("lectl $option=value che", 'check');
	}
	foreach my $command (sort keys %part)
	{
		foreach my $option ($part{$command} =~ /^  (?:-., )?(--[a-z-]+)=/mg)
		{
			lists("lectl $command $option list e -", offered("lectl $command -"));
			lists("lectl $command $option=list -", offered("lectl $command -"));
			lists("lectl $command $option -c") if $option ne '--exec';
		}
	}
};

subtest 'words by position' => sub {
	mkdir "$root/$_" foreach '15', '15/main', '17', '17/main', '17/empty';
	append_to_file("$root/$_/main/postgresql.conf", '') foreach 15, 17;
	lists('lectl ch', 'check');
	lists('lectl -h db1 exec --mi', '--missed');
	lists('lectl -d service=a step-', 'step-down');
	lists('lectl -d postgresql://u@h:5432/d st', 'step-down');
	lists('lectl --cluster ', '15/main', '17/main');
	lists('lectl --cluster=17', '17/main');
	lists('lectl --cluster 17/db1:5433 wa', 'wait', 'watch');
	lists('lectl exec --on-loss=k', 'kill');
	lists('lectl -w che', 'check');
	lists('lectl check -w ');
	lists('lectl check --job list le', 'leader');
	lists('lectl check -w 5 le', 'leader');
	lists('lectl check leader -w @1:5 --cr', '--critical');
	lists('lectl exec e --m', '--missed');
	lists('lectl exec e -- --m');
	lists('lectl exec e echo --m');
	lists('lectl exec e mktem', 'mktemp');
	lists('lectl list --json e');
};

# The last line that the screen shows of what was typed.
sub typed
{
	my ($keys) = @_;
	my $pty = IO::Pty->new;
	my $bash = fork() // die "fork: $!";
	my $out = '';

	if ($bash == 0)
	{
		eval {
			$pty->make_slave_controlling_terminal;
			open(STDIN, '<&', $pty->slave) and open(STDOUT, '>&', $pty->slave)
			  and open(STDERR, '>&', $pty->slave);
			$ENV{TERM} = 'dumb';
			exec 'bash', '--norc', '--noprofile', '-i';
		};
		exit 1;
	}
	$pty->close_slave;
	# echo is lectl, so that what was completed is what it prints
	foreach my $line ("PS1=; lectl() { echo \"<\$*>\"; }; source '$file'", "$keys\n", 'exit')
	{
		print $pty "$line\n";
	}
	$out .= $_ while sysread($pty, $_, 4096);
	waitpid($bash, 0);
	return ($out =~ /^<(.*)>/m)[0] // $out;
}

subtest 'at a real bash' => sub {
	is(typed("lectl ch\t"), 'check', 'lectl ch<TAB>');
	is(typed("lectl -h db1 exec --mi\t"), '-h db1 exec --missed', 'lectl -h db1 exec --mi<TAB>');
	is(typed("lectl exec --on-loss=k\t"), 'exec --on-loss=kill', 'a value');
};

done_testing();
