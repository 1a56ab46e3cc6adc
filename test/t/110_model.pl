# Tier: test, 13 s
#
# The simulator's model of Consul (test/sim/consul.c) against a real one: the
# same random sessions and transactions, with the same outcome step by step,
# and the same keys afterwards.

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use JSON::PP;
use LeaderElection::Consul;
use Test::More;

my $sim = dirname(abs_path(__FILE__)) . '/../../build/sim/sim';
my $operations = $ENV{LE_MODEL_OPERATIONS} // 400;

plan skip_all => 'build/sim/sim was not built' unless -x $sim;

my $consul = LeaderElection::Consul->new('model')->start;
my $lock_flag = 3304740253564472344;

# The model's numbers in terms of the real one.
my (%session, %name_of, %index, $prefix);

sub key_name
{
	my ($key) = @_;

	return "$prefix/k$key";
}

# An index that the model has and nobody else: one that cannot be.
sub real_index
{
	my ($index) = @_;

	return $index{$index} // 999_999_999;
}

sub operation
{
	my ($step) = @_;
	my %kv = (Verb => $step->{verb}, Key => key_name($step->{key}));

	if ($step->{verb} =~ /^(?:check-session|lock|unlock)$/)
	{
		$kv{Session} =
		  $step->{session} == 0 ? '' : $session{ $step->{session} };
	}
	$kv{Index} = real_index($step->{index})
	  if $step->{verb} =~ /^(?:check-index|cas)$/;
	if ($step->{verb} =~ /^(?:lock|unlock|cas|set)$/)
	{
		$kv{Value} = $step->{value};
		$kv{Flags} = $lock_flag;
	}
	return \%kv;
}

# Those steps must fail that the model says, and no others.
sub transaction
{
	my ($line) = @_;
	my $reply = $consul->txn(map { operation($_) } @{ $line->{steps} });
	my %failed = map { $_->{OpIndex} => $_->{What} } @{ $reply->{errors} };
	my $delayed = grep { /lock delay/ } values %failed;

	return $delayed > 0 if $line->{delayed};
	return join(',', sort keys %failed) eq
	  join(',', sort @{ $line->{failed} });
}

# Do all keys stand as the model says?  An index of the model must mean one
# index of the real store, in every key and for ever.
sub same_keys
{
	my ($line) = @_;
	my %real = %{ $consul->kv_tree("$prefix/") };

	return 0 unless keys %real == @{ $line->{keys} };
	foreach my $key (@{ $line->{keys} })
	{
		my $entry = $real{ key_name($key->{key}) } or return 0;
		my $holder = $entry->{Session} // '';

		return 0 unless $entry->{Value} eq $key->{value};
		return 0
		  unless $holder eq
		  ($key->{session} == 0 ? '' : $session{ $key->{session} });
		$index{ $key->{index} } //= $entry->{ModifyIndex};
		return 0 unless $index{ $key->{index} } == $entry->{ModifyIndex};
	}
	return 1;
}

sub perform
{
	my ($line) = @_;

	if ($line->{op} eq 'create')
	{
		$session{ $line->{session} } =
		  $consul->session(TTL => '3600s', LockDelay => '60s');
		return 1;
	}
	if ($line->{op} eq 'destroy')
	{
		$consul->destroy($session{ $line->{session} });
		return 1;
	}
	return transaction($line);
}

foreach my $seed (1 .. 4)
{
	my ($applied, $refused, $wrong) = (0, 0, undef);

	$prefix = "model$seed";
	%session = %index = ();
	open(my $model, '-|', $sim, 'model', $seed, $operations)
	  or die "could not run $sim: $!";
	while (my $text = <$model>)
	{
		my $line = decode_json($text);

		if (!perform($line) || !same_keys($line))
		{
			$wrong = $text;
			last;
		}
		next if $line->{op} ne 'txn';
		@{ $line->{failed} } || $line->{delayed} ? $refused++ : $applied++;
	}
	close $model;
	is($wrong, undef, "seed $seed: Consul did as the model says");
	cmp_ok($applied, '>', $operations / 10,
		"seed $seed: $applied transactions applied");
	cmp_ok($refused, '>', $operations / 10, "seed $seed: $refused refused");
}

$consul->stop;
done_testing();
