# Tier: test, 82 s
#
# The highest fencing tokens that an instance has seen: kept by store and namespace,
# so that an instance with another store can lead; a refused token is shown in every
# view that somebody might look at; and no term begins whose token is not on disk.

use strict;
use warnings;

use CPAN::Meta::YAML;
use LeaderElection::Consul;
use LeaderElection::Lectl;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Requests;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

# One whose indexes, and so tokens, are high, and one that has just begun.
my ($old, $new) =
  map { LeaderElection::Consul->new($_)->start } 'old', 'new';

$old->put("/v1/kv/elsewhere/$_", 'x') foreach 1 .. 300;

sub restarted_with
{
	my ($node, %settings) = @_;

	$node->set("leader_election.$_", $settings{$_}) foreach sort keys %settings;
	$node->restart;
	return;
}

# A node that takes no part in these tests, and sees the others in $new.
my $witness = LeaderElection::Node->create(
	'witness',
	consul => $new,
	settings => { lease_ttl => '10s', campaign => 'witness' });

# The node in its own view, and in that of another one.
sub is_seen_as
{
	my ($node, $state) = @_;

	foreach my $seer ($node, $witness)
	{
		ok( $seer->wait_for(
				'SELECT count(*) > 0 FROM le_nodes WHERE state = '
				  . "'$state' AND node = '" . $node->name . q(')),
			"$state, says " . $seer->name);
	}
	return;
}

# The metric.
my ($metrics) = grep { $_->{name} eq 'leader_election' }
  @{ CPAN::Meta::YAML->read("docs/monitoring/metrics.yaml")->[0] };

sub contends
{
	my ($node, $election) = @_;

	return $node->sql("SELECT contends FROM ($metrics->{query}) AS m WHERE election = '$election'");
}

sub status
{
	my ($node, $column) = @_;

	return $node->sql(
		"SELECT $column FROM le_status WHERE election = 'billing'");
}

# The way that README leads: first among the sessions of one instance, then with
# Consul, whose indexes are far below positions in the write-ahead log.
subtest 'from local to Consul' => sub {
	my $node = LeaderElection::Node->create('beginner',
		settings => { backend => 'local', lease_ttl => '10s' });
	my ($local, $consul);

	ok($node->acquire('billing'), 'leads by itself');
	$local = $node->token('billing');
	ok($node->release('billing'), 'gives up');

	restarted_with($node,
		backend => 'consul', consul_url => $new->url, campaign => 'billing');
	$node->wait_for_leadership('billing');
	$consul = $node->token('billing');
	cmp_ok($consul, '<', $local, 'leads, with a token of Consul');
	is(status($node, 'last_error'), '', 'and nothing to complain of');

	restarted_with($node, backend => 'local', campaign => '');
	ok($node->acquire('billing'), 'back again');
	guarantee('G2', [ $local, $node->token('billing') ], 'where tokens go on');
	$node->stop;
};

# Another cluster under the same prefix may be the same one, rebuilt: its lower
# tokens are refused, also for a campaign, which nobody waits for.
subtest 'a refused token is shown' => sub {
	my $node = LeaderElection::Node->create(
		'moved',
		consul => $old,
		settings => { lease_ttl => '10s', campaign => 'billing' });
	my ($token, $offset, $refused);

	$node->wait_for_leadership('billing');
	$token = $node->token('billing');
	$offset = $node->log_offset;
	restarted_with($node, consul_url => $new->url);
	$node->wait_for(
		q(SELECT count(*) > 0 FROM le_events WHERE event = 'token refused'
		AND election = 'billing'), 'an event');
	ok(!$node->is_leader('billing'), 'it does not lead');
	my $led = $node->token('billing');
	denied('G2', defined $led && $led <= $token, 'least of all with a lower token');
	like(
		status($node, 'last_error'),
		qr/^fencing token \d+ is not higher than \d{3}, the highest seen/,
		'last_error');
	like(
		$node->sql(q(SELECT level || ':' || message FROM le_check_config()
			WHERE topic = 'token')),
		qr/^error:.* does not lead election "billing": .* \d{3}, .*le_accept_store\(\)/,
		'the check');
	my ($code, $out) = lectl($node, 'check', 'store');
	is($code, 2, 'lectl check store');
	like($out, qr/^LECTL STORE CRITICAL - .* does not lead election "billing"/, 'says it, too');
	is_seen_as($node, 'refused');
	is(contends($node, 'billing'), 0, 'the metric');
	like(
		$node->log_since($offset),
		qr/LOG: .*fencing token that is not higher.*\n.*DETAIL: .*\n.*HINT: .*le_accept_store\(\)/,
		'the log');

	# in the order of the runbook
	$node->configure(eligible => 'off');
	is_seen_as($node, 'ineligible');
	$node->sql(q(SELECT le_accept_store('billing')));
	$node->configure(eligible => 'on');
	$node->wait_for_leadership('billing');
	cmp_ok($node->token('billing'), '<', $token, 'leads when told to');
	is_seen_as($node, 'live');
	is(contends($node, 'billing'), 1, 'the metric');
	is(status($node, 'last_error'), '', 'no error any more');
	is(
		$node->sql(q(SELECT count(*) FROM le_check_config()
			WHERE topic = 'token')),
		0, 'nor in the check');
	is((lectl($node, 'check', 'store'))[0], 0, 'of either kind');
	$node->stop;
};

# A reload moves it to a Consul that was restored from an older snapshot, with the
# store session.  Its views of the other one must not count any more, not even one that
# comes only when the new one is accepted; nor may it ask the store again and again.
subtest 'another Consul by a reload' => sub {
	my ($before, $after) =
	  map { LeaderElection::Consul->new($_)->start } 'before', 'after';
	my ($asked_before, $asked_after) =
	  map { LeaderElection::Recorder->new($_->name, $_->host_port)->start }
	  $before, $after;
	my %settings = (lease_ttl => '60s', renew_interval => '3s');
	my $leader = LeaderElection::Node->create(
		'stays',
		consul => $before,
		settings => { %settings, campaign => 'awaited' });
	my $node;
	my $file = PostgreSQL::Test::Utils::tempdir . '/snapshot';
	my $snapshot = sub {
		my ($consul, $verb) = @_;

		system_or_bail($consul->binary, 'snapshot', $verb,
			'-http-addr', $consul->host_port, $file);
	};
	my ($token, $mark, $watch);

	$leader->wait_for_leadership('awaited');
	$node = LeaderElection::Node->create(
		'reloaded',
		consul => $asked_before,
		settings => { %settings, campaign => 'awaited' });
	ok($node->acquire('e'), 'leads');
	$token = $node->token('e');
	$node->release('e');
	$snapshot->($before, 'save');
	$before->put("/v1/kv/elsewhere/$_", 'x') foreach 1 .. 200;
	ok($node->acquire('e'), 'and again');
	guarantee('G2', [ $token, $node->token('e') ], 'with a higher token');
	$token = $node->token('e');
	$node->release('e');

	# From now on its queries have no answer; the next comes when the one that is
	# parked there has its own.
	$mark = $asked_before->mark;
	$asked_before->rule(match => request_like('watch'), action => 'hold_reply');
	poll_until(
		sub {
			$before->put('/v1/kv/leader_election/woken', 'x');
			return $asked_before->requests(request_like('watch'), $mark);
		},
		'a query that has no answer');
	$snapshot->($after, 'restore');
	$node->configure(consul_url => $asked_after->url);
	$watch = $asked_after->wait_for_request(request_like('watch'));
	cmp_ok(
		scalar(grep { $_->{received} < $watch->{received} }
			  $asked_after->requests(request_like('renew'))),
		'<', 5, 'watches the new one, and does not wait for the other');
	poll_until(
		sub { $node->sql_error(q(SELECT le_acquire('e'))) =~ /not higher/ },
		'the refusal');
	pass('refused');

	$mark = $asked_after->mark;
	$node->sql(q(SELECT le_accept_store()));
	$asked_before->clear_rules;
	$asked_after->wait_for_request(request_like('renew'), $asked_after->mark);
	foreach my $try (1 .. 3)
	{
		is($node->sql_error(q(SELECT le_acquire('e'))), '', "led, $try");
		cmp_ok($node->token('e'), '<', $token, 'with a lower token');
		$node->release('e');
	}
	cmp_ok(scalar($asked_after->requests(qr{^PUT /v1/txn}, $mark)),
		'<', 100, 'by a few requests');
	$_->stop foreach $node, $leader, $before, $after;
};

# A refused token, without a restart, and with another prefix.
subtest 'another prefix' => sub {
	my $node = LeaderElection::Node->create(
		'elsewhere',
		consul => $old,
		settings => { lease_ttl => '10s', campaign => 'reports' });
	my $token;

	$node->wait_for_leadership('reports');
	$token = $node->token('reports');
	$node->configure(consul_url => $new->url, consul_key_prefix => 'other');
	ok($node->wait_for("SELECT le_fencing_token('reports') < $token"),
		'a term with a lower token');
	$node->configure(consul_url => $old->url,
		consul_key_prefix => 'leader_election');
	ok($node->wait_for("SELECT le_fencing_token('reports') > $token"),
		'and with a higher one where it was before');
	$node->stop;
};

# No term begins, and what the store has granted is given back; terms that are
# under way go on, since their tokens are on disk.
sub unwritable
{
	my ($name, $why, $break, $mend) = @_;
	my $node = LeaderElection::Node->create(
		$name,
		consul => $new,
		settings => { lease_ttl => '10s', campaign => "$name/steady" });
	my $file = $node->data_dir . '/leader_election.tokens';
	my $said = qr/could not write file "leader_election.tokens": $why/;
	my $events = q(SELECT count(*) FROM le_events WHERE detail LIKE)
	  . q( '%leader_election.tokens%' AND event =);
	my $check = q(SELECT level || ':' || message FROM le_check_config()
		WHERE topic = 'files');
	my $leader;

	$node->wait_for_leadership("$name/steady");
	$break->($node, $file);
	foreach my $try (1 .. 3)
	{
		like(
			$node->sql_error("SELECT le_acquire('$name/x')"),
			qr{LE005: .*election "$name/x"\nDETAIL: +$said},
			'refused, with the reason');
		denied('G2', $node->is_leader("$name/x"), 'and not led');
	}
	poll_until(
		sub {
			$leader = $new->kv("leader_election/$name/x/leader");
			!$leader->{Session};
		},
		'the release of what was granted');
	like($leader->{Value}, qr/"released": ?true/, 'given back in good order');
	like($node->sql_error("SELECT le_accept_store('$name/x')"),
		qr/58030: .*\nDETAIL: +$said/, 'le_accept_store() says so, too');
	$node->sql("SELECT le_campaign('$name/y')");
	$node->wait_for(
		"SELECT last_error LIKE 'could not write file%' FROM le_status "
		  . "WHERE election = '$name/y'", 'last_error');
	still_leads($node, "$name/steady", 'a term under way goes on');
	is_seen_as($node, 'refused');
	is( join(' ', map { contends($node, "$name/$_") } 'steady', 'y'),
		'1 0', 'the metric');
	like($node->sql($check), qr/^error:This instance begins no term.*: $said$/,
		'the check');
	is($node->sql("$events 'file trouble'"), 1, 'one event');

	$mend->($node, $file);
	$node->wait_for_leadership("$name/y");
	is_seen_as($node, 'live');
	is(contends($node, "$name/y"), 1, 'the metric');
	is(
		$node->sql(
			"SELECT last_error FROM le_status WHERE election = '$name/y'"),
		'', 'no error any more');
	ok($node->acquire("$name/x"), 'leads again');
	is($node->sql("$events 'file written'"), 1, 'and says so');
	like($node->sql($check), qr/^ok:[^\n]*$/, 'the check');

	# and a term that began then outlives a crash
	my $token = $node->token("$name/x");

	$node->crash;
	like(slurp_file($file), qr{^$token consul::leader_election $name/x }m,
		'the token is in the file');
	return;
}

subtest 'a directory in its place' => sub {
	unwritable(
		'occupied',
		'Is a directory',
		sub { unlink $_[1] or die "$_[1]: $!"; mkdir $_[1] or die "$_[1]: $!" },
		sub { rmdir $_[1] or die "$_[1]: $!" });
};

# A write that fails, as on a full disk.  It cuts off the worker's log as well.
subtest 'no room' => sub {
	my $limit = sub {
		my ($node, $bytes) = @_;

		system_or_bail('prlimit', '--pid', $node->worker_pid,
			"--fsize=$bytes:");
	};

	unwritable(
		'full',
		'File too large',
		sub { $limit->($_[0], 0) },
		sub { $limit->($_[0], 'unlimited') });
};

# A file that only saves the next start a wait: trouble with it is reported, and no
# more.
subtest 'the session cannot be remembered' => sub {
	my $node = LeaderElection::Node->create(
		'forgetful',
		consul => $new,
		settings => { lease_ttl => '10s', campaign => 'forgetful' },
		start => 0);
	my $said = qr{could not write file "pg_stat_tmp/leader_election.session": Is a directory};

	mkdir $node->data_dir . '/pg_stat_tmp/leader_election.session' or die $!;
	$node->start;
	$node->sql('CREATE EXTENSION leader_election');
	$node->wait_for_leadership('forgetful');
	like(
		$node->sql(q(SELECT level || ':' || message FROM le_check_config()
			WHERE topic = 'files')),
		qr/^warning:After a restart .*: $said$/,
		'the check');
	is(
		$node->sql(q(SELECT count(*) FROM le_events
			WHERE event = 'file trouble')),
		1, 'an event');
	ok($node->log_like($said), 'the log');
	$node->stop;
};

# A changed file is noticed, kept, and read as far as can be.
subtest 'damaged' => sub {
	my $node = LeaderElection::Node->create('damaged',
		settings => { backend => 'local' });
	my $file = $node->data_dir . '/leader_election.tokens';
	my $aside = $node->data_dir . '/leader_election.tokens.damaged.';
	my $check = q(SELECT count(*) FROM le_check_config()
		WHERE level = 'warning' AND topic = 'files');
	my @lines;

	my $restart_with = sub {
		my ($change) = @_;

		$node->stop;
		unlink $_ or die "$_: $!" foreach glob "$aside*";
		$change->();
		my $offset = $node->log_offset;
		$node->start;
		# which it says when it has read its files
		$node->wait_for_log_like(qr/leader_election worker started/, $offset);
		return $offset;
	};
	my $put = sub {
		my ($text) = @_;

		open(my $fh, '>:raw', $file) or die "$file: $!";
		print $fh $text;
		close $fh;
	};
	my $unharmed = sub {
		my ($what, $change) = @_;
		my $offset = $restart_with->($change);

		ok(!$node->log_like(qr/is damaged/, $offset), "$what: nothing to say");
		is_deeply([ glob "$aside*" ], [], "$what: nothing is put aside");
		is($node->sql($check), 0, "$what: nor in the check");
	};
	my $harmed = sub {
		my ($what, $why, $change) = @_;
		my $offset = $restart_with->($change);
		my @kept = glob "$aside*";

		ok(
			$node->log_like(
				qr/LOG: +file "leader_election.tokens" is damaged: $why\n.*DETAIL: +It is kept as "leader_election.tokens.damaged.\d+"/,
				$offset),
			"$what: the log");
		is(scalar @kept, 1, "$what: it is kept");
		is(
			$node->sql(q(SELECT count(*) FROM le_events WHERE
				event = 'file trouble' AND detail LIKE '%damaged%')),
			1, "$what: an event");
		is($node->sql($check), 1, "$what: the check");
		ok($node->acquire('after'), "$what: leads");
		ok($node->release('after'), "$what: and gives up");
		rmdir $kept[0] if -d $kept[0];
	};

	$node->acquire("e$_") foreach 1 .. 3;
	$unharmed->(
		'a line that was not synced, cut off by a crash',
		sub { append_to_file($file, '123 local::') });
	$unharmed->('none', sub { unlink $file or die "$file: $!" });
	$node->acquire("e$_") foreach 1 .. 3;
	$unharmed->('a restart', sub { });
	@lines = split /^/, slurp_file($file) =~ s/\0+\z//r;
	is(scalar @lines, 4, 'a line per election');
	$harmed->('empty', 'it is empty', sub { $put->('') });
	$harmed->(
		'cut off in a line',
		'line 4 is not what was written',
		sub { $put->(substr join('', @lines), 0, -5) });
	$harmed->(
		'cut off between lines',
		'it has 2 lines of 3',
		sub { $put->(join '', @lines[ 0 .. 2 ]) });
	$harmed->(
		'cut off behind the lines',
		'it has \d+ bytes of 16384',
		sub { $put->(join '', @lines) });
	$harmed->(
		'random',
		'its first line is not what it should be',
		sub { $put->(join '', map { chr rand 256 } 1 .. 5000) });
	$harmed->(
		'a directory',
		'it is a directory',
		sub { unlink $file; mkdir $file or die "$file: $!" });

	$node->stop;
};

done_testing();
