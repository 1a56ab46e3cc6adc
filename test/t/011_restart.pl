# Tier: test, 71 s
#
# The rest of a term when its instance, or Consul, ends without a word and starts
# again: by whom it is ended, how soon, and by whom it must not be.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Sampler;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;


# A lease that has to run out, and one that nobody must wait for.
my $lease = 10;
my ($long, $renew_interval) = (60, 3);
my $consul = LeaderElection::Consul->new('consul')->start;
my %patient = (
	lease_ttl => "$long s",
	renew_interval => "$renew_interval s",
	shutdown_timeout => '60 s');
my %cluster = (consul => $consul, settings => \%patient);
my $state_file = 'pg_stat_tmp/leader_election.session';

# Before this no lease that is led by now can have run out.
sub earliest_end
{
	return boottime_ns() + ($long - $renew_interval) * 1e9;
}

sub key
{
	my ($election, $from) = @_;

	return ($from // $consul)->kv("leader_election/$election/leader");
}

# A copy of a data directory, files that a backup leaves out included.
sub copy_data_dir
{
	my ($node, $name) = @_;
	my $copy = $node->backup_dir . "/$name";

	mkdir $node->backup_dir;
	system_or_bail('cp', '-a', $node->data_dir, $copy);
	unlink "$copy/postmaster.pid";
	return $copy;
}

# Failovers take longest, so they run while the other tests do: one by takeover
# from a silent holder, and one that waits until Consul ends its session.
my @nodes = map {
	LeaderElection::Node->create(
		$_,
		consul => $consul,
		settings => { lease_ttl => "$lease s" })
} 'doomed1', 'heir1', 'doomed2', 'heir2';
my @failovers = (
	{ election => 'failover1', doomed => $nodes[0], heir => $nodes[1] },
	{ election => 'failover2', doomed => $nodes[2], heir => $nodes[3] });

$nodes[3]->configure(consul_takeover => 'off');
foreach my $f (@failovers)
{
	my ($election, $doomed, $heir) = @$f{qw(election doomed heir)};

	ok($doomed->acquire($election), 'an instance leads');
	$heir->sql("SELECT le_campaign('$election')");
	$heir->wait_for(
		"SELECT state = 'waiting' FROM le_status WHERE election = '$election'",
		'the heir to wait');
	$f->{token} = $doomed->token($election);
	$f->{samplers} =
	  [ map { LeaderElection::Sampler->new($_, $election) } $doomed, $heir ];
	poll_until(sub { scalar $f->{samplers}[0]->beliefs }, 'the sampler');
	$f->{crashed} = boottime_ns();
	$doomed->crash;
}

# A node knows itself by more than its name; people do not, so they are told.
my @twins = map {
	LeaderElection::Node->create(
		$_,
		consul => $consul,
		settings => { %patient, node_name => 'twin' })
} 'twin1', 'twin2';

subtest 'two instances of one name' => sub {
	ok($twins[0]->acquire('x'), 'the first gets one election');
	ok(!$twins[1]->acquire('x'), 'the second does not');
	ok($twins[1]->acquire('y'), 'but another');
	ok(!$twins[0]->acquire('y'), 'and alone');
	foreach my $n (0, 1)
	{
		my @self = $n == 0 ? ('t', 'f') : ('f', 't');

		is( $twins[$n]->sql(
				"SELECT leader, is_self, le_is_leader('$_') "
				  . "FROM le_leader('$_')"),
			join('|', 'twin', ($self[ $_ eq 'y' ]) x 2),
			"twin$n knows whether it leads $_")
		  foreach 'x', 'y';
	}
};

my $one = LeaderElection::Node->create('one', %cluster, allows_streaming => 1);
my $two = LeaderElection::Node->create('two', %cluster);

# A restart on the same data directory proves that the predecessor is gone:
# nobody waits for its store session to run out.
subtest 'restart after a crash' => sub {
	my ($session, %token, $ends, $seconds);

	foreach my $election ('mine', 'theirs')
	{
		ok($one->acquire($election), "one leads $election");
		$token{$election} = $one->token($election);
	}
	$two->sql(q(SELECT le_campaign('theirs')));
	$two->wait_for(
		q(SELECT state = 'waiting' FROM le_status
		WHERE election = 'theirs'), 'two to wait');
	$session = key('mine')->{Session};
	$ends = earliest_end();

	$one->crash;
	ok(!$two->acquire('mine'), 'nobody takes over yet');
	$seconds = timed(
		sub {
			$one->start;
			ok($one->acquire('mine', wait => '3 min'), 'one leads again');
		});
	diag(sprintf 'restart after kill -9: leader again %.0f ms after '
		  . 'pg_ctl start began', $seconds * 1000);
	before(boottime_ns(), $ends, 'before its old lease ran out');
	guarantee('G2', [ $token{mine}, $one->token('mine') ], 'in a new term');
	$two->wait_for_leadership('theirs');
	before(boottime_ns(), $ends, 'two got its election before that, too');
	guarantee('G2', [ $token{theirs}, $two->token('theirs') ],
		'and the other instance could take the rest');
	poll_until(
		sub {
			!grep { $_->{ID} eq $session }
			  @{ $consul->get('/v1/session/list')->{json} };
		},
		'the end of the old store session');
	is($consul->kv("leader_election.nodes/$session"),
		undef, 'the old node key is gone');
	is($two->sql(q(SELECT le_withdraw('theirs'))), 't', 'the end');
};

# PostgreSQL restarts itself when a backend crashes: the same proof, with a
# shared memory that has forgotten everything.
subtest 'crash of a backend' => sub {
	my $session = LeaderElection::Session->new($one);
	my ($token, $old, $ends) = ($one->token('mine'), $one->worker_pid);

	ok($session->query(q(SELECT le_acquire('session', scope => 'session'))),
		'a session leads');
	$ends = earliest_end();
	kill('KILL', $session->pid);
	$one->wait_for_worker($old);
	poll_until(sub { $one->acquire('mine', wait => '3 min') }, 'one to lead again');
	before(boottime_ns(), $ends, 'before the old lease ran out');
	guarantee('G2', [ $token, $one->token('mine') ], 'in a new term');
	denied('G5', $one->is_leader('session'), 'and nothing else');
	ok($two->acquire('session', wait => '3 min'),
		'elections of the session are free');
	before(boottime_ns(), $ends, 'before its lease ran out');
	ok($two->release('session'), 'the end');
};

# A base backup does not carry the file that tells whose store session it was.
subtest 'clone by pg_basebackup' => sub {
	my $sampler = LeaderElection::Sampler->new($one, 'mine');
	my $session = key('mine')->{Session};
	my ($token, $clone) = ($one->token('mine'));

	ok(-e $one->data_dir . "/$state_file", 'the original has the file');
	$one->backup('base');
	ok(!-e $one->backup_dir . "/base/$state_file", 'the backup has not');
	$clone = LeaderElection::Node->create(
		'clone', %cluster, backup => [ $one, 'base' ]);
	ok(!$clone->acquire('mine'), 'the clone gets nothing');
	ok($clone->acquire('clone'), 'but what is free');
	ok(!$clone->log_like(qr/previous incarnation/),
		'it has no predecessor to end');
	same_term($token, $one->token('mine'), 'the term of the original goes on');
	is(key('mine')->{Session}, $session, 'in the same store session');
	$sampler->stop;
	is(scalar $sampler->beliefs, 1, 'without a break');
	$clone->stop;
	still_leads($one, 'mine', 'also when the clone leaves');
};

# A copy of all files has that file, but with another inode and path than those
# written in it.
subtest 'clone by cp -a' => sub {
	my $sampler = LeaderElection::Sampler->new($one, 'mine');
	my $session = LeaderElection::Session->new($one);
	my ($token, $copy, $clone) = ($one->token('mine'));

	$session->query(q(SELECT pg_backup_start('copy', true)));
	$copy = copy_data_dir($one, 'copy');
	append_to_file("$copy/backup_label",
		$session->query('SELECT labelfile FROM pg_backup_stop()') . "\n");
	system_or_bail('cp', '-a', $one->data_dir . '/pg_wal/.', "$copy/pg_wal");
	ok(-e "$copy/$state_file", 'the copy has the file');
	$clone = LeaderElection::Node->create(
		'copy', %cluster, backup => [ $one, 'copy' ]);
	ok(!$clone->acquire('mine'), 'the clone gets nothing');
	ok($clone->acquire('clone'), 'but what is free');
	ok($clone->log_like(qr/ignoring .*leader_election\.session/),
		'it knows that the file is not its own');
	same_term($token, $one->token('mine'), 'the term of the original goes on');
	$sampler->stop;
	is(scalar $sampler->beliefs, 1, 'without a break');
	$clone->stop;
};

# The original is down, but its term is still its own: it may be about to come
# back, or be alive for all the clone can know.
subtest 'clone while the original is down' => sub {
	my ($token, $clone, $ends) = ($one->token('mine'));

	$ends = earliest_end();
	$one->crash;
	copy_data_dir($one, 'down');
	$clone = LeaderElection::Node->create(
		'down', %cluster, backup => [ $one, 'down' ]);
	ok(!$clone->acquire('mine'), 'the clone does not take over');
	ok(key('mine')->{Session}, 'nor end the term');
	$one->start;
	ok($one->acquire('mine', wait => '3 min'), 'the original ends its term');
	before(boottime_ns(), $ends, 'before its lease ran out');
	guarantee('G2', [ $token, $one->token('mine') ], 'and begins a new one');
	$clone->stop;
};

# A Consul that was rebuilt hands out tokens that were used before.  They are
# refused until an administrator says otherwise.
subtest 'Consul forgets everything' => sub {
	my $dev = LeaderElection::Consul->new('wiped')->start;
	my @nodes = map {
		LeaderElection::Node->create(
			$_,
			consul => $dev,
			settings => \%patient)
	} 'rich', 'poor';
	my ($rich, $poor) = @nodes;
	my $refused = qr/LE005.*fencing token.*\n(.*\n)?HINT: .*le_accept_store/;
	my ($token, $offset, $sampler);

	$dev->put("/v1/kv/elsewhere/$_", 'x') foreach 1 .. 200;
	ok($rich->acquire('gold'), 'one leads');
	ok(!$poor->acquire('gold'), 'the other has seen it');
	$token = $rich->token('gold');
	$sampler = LeaderElection::Sampler->new($rich, 'gold');
	$dev->restart;
	poll_until(sub { !$rich->is_leader('gold') }, 'the end of the term');
	pass('the term ends');
	foreach my $node (@nodes)
	{
		poll_until(
			sub { $node->sql_error(q(SELECT le_acquire('gold'))) =~ $refused },
			$node->name . ' to be refused');
		pass($node->name . ' is refused and told what to do');
	}
	poll_until(sub { key('gold', $dev) && !key('gold', $dev)->{Session} },
		'the release of the refused key');
	cmp_ok(key('gold', $dev)->{ModifyIndex},
		'<', $token, 'the tokens were indeed lower');
	is($poor->leader('gold'), undef, 'nobody leads');

	$_->restart foreach @nodes;
	like($_->sql_error(q(SELECT le_acquire('gold', wait => '1 s'))),
		$refused, $_->name . ' remembers over a restart')
	  foreach @nodes;
	$sampler->stop;
	denied('G2', scalar(grep { $_->[2] < $token } $sampler->beliefs),
		'nobody ever led with less');

	# a refused node gives back its lease, a moment later
	poll_until(sub { !key('gold', $dev)->{Session} }, 'release by the last');
	is($rich->sql(q(SELECT le_accept_store('gold'))), '', 'reset');
	ok($rich->acquire('gold'), 'leads at once');
	cmp_ok($rich->token('gold'), '<', $token, 'with a lower token');
	ok(!$poor->acquire('gold'), 'the other node sees that');
	ok($rich->release('gold'), 'released');
	like($poor->sql_error(q(SELECT le_acquire('gold'))),
		$refused, 'a reset counts for the node where it was called');
	$poor->sql(q(SELECT le_accept_store('gold')));
	ok($poor->acquire('gold'), 'like here');
	$poor->restart;
	ok($poor->acquire('gold'), 'for good');

	# A candidate must neither lead nor keep Consul busy.
	$dev->put("/v1/kv/elsewhere/$_", 'x') foreach 201 .. 400;
	$rich->sql(q(SELECT le_campaign('silver')));
	$rich->wait_for_leadership('silver');
	$offset = $rich->log_offset;
	$dev->restart;
	$rich->wait_for_log_like(qr/fencing token that is not higher/, $offset);
	$rich->wait_for(
		q(SELECT state NOT LIKE 'leader%' FROM le_status
		WHERE election = 'silver'), 'the candidate to let go');
	$rich->sql(q(SELECT le_accept_store('silver')));
	$rich->wait_for_leadership('silver');
	pass('a candidate goes on after the reset');
	is(scalar(() = $rich->log_since($offset) =~ /that is not higher/g),
		1, 'having tried once');
	$_->stop foreach @nodes;
};

# The rest of the failovers.  The holder may believe until a lease after its
# last proof; that is how long an heir must wait at least.  Without takeover it
# waits until Consul has ended the store session, which takes up to twice the
# TTL since the last renewal, and then a lease more.
subtest 'failover after a crash' => sub {
	foreach my $f (@failovers)
	{
		my ($election, $doomed, $heir) = @$f{qw(election doomed heir)};
		my ($term, $seconds);

		$heir->wait_for_leadership($election);
		poll_until(sub { ($term) = $f->{samplers}[1]->beliefs },
			'the sampler');
		$seconds = ($term->[0] - $f->{crashed}) / 1e9;
		diag(sprintf 'crash failover, lease_ttl %d s, consul_takeover %s: '
			  . '%.1f s from kill -9 to le_is_leader() on the other instance',
			$lease, $heir->sql('SHOW leader_election.consul_takeover'),
			$seconds);
		guarantee('G2', [ $f->{token}, $heir->token($election) ],
			"$election: the heir leads with a higher token");
		$_->stop foreach @{ $f->{samplers} };
		guarantee('G1', [ LeaderElection::Sampler->overlaps(@{ $f->{samplers} }) ], 'no overlap');

		# the dead one comes back, too late
		$doomed->start;
		ok(!$doomed->acquire($election), 'back from the dead');
		still_leads($heir, $election, 'the heir goes on leading');
		is($doomed->leader($election), $heir->name, 'as all know');
	}
};

subtest 'two instances of one name, a while later' => sub {
	$_->wait_for_log_like(qr/WARNING: .*another live node calls itself "twin"/)
	  foreach @twins;
	pass('both warn');
	ok($twins[0]->is_leader('x') && $twins[1]->is_leader('y'),
		'both went on');
	ok($twins[0]->release('x'), 'and release');
	ok($twins[1]->acquire('x'), 'for each other');
	is(scalar(() = $_->log_since =~ /calls itself/g), 1, 'warned once')
	  foreach @twins;
};

done_testing();
