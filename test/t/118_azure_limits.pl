# Tier: long, 116 s
#
# Blobs and settings that nobody would want; many sessions that want the same
# election; and a worker that stands still.

use strict;
use warnings;

use LeaderElection::Azurite;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Sampler;
use LeaderElection::Session;
use LeaderElection::Util;
use MIME::Base64 qw(encode_base64url);
use PostgreSQL::Test::Utils;
use Test::More;

my $azurite = LeaderElection::Azurite->new('azurite')->start;

# The check names the fault of a signature, and never the signature.
subtest 'signatures' => sub {
	my $node = LeaderElection::Node->create('signed', azure => $azurite);
	my $file = "$PostgreSQL::Test::Utils::tmp_check/t_118_question";
	my $findings =
	  q(SELECT string_agg(message, ' ') FROM le_check_config() WHERE level = '%s');

	$node->sql(q(SELECT le_campaign('signed')));
	$node->wait_for_leadership('signed');
	is($node->sql(sprintf $findings, 'error'), '', 'nothing to complain of');
	like($node->sql(sprintf $findings, 'ok'),
		qr/1 election takes about 545684 requests.*1364211.*0\.24 to 0\.60 \$.*list blobs.*write election "signed".*claim ticks/s,
		'the cost, and the permissions');
	$node->sql(q(SELECT le_withdraw('signed')));
	foreach my $case ([ 'r', qr/sp=rwl\): "wl" is missing/ ],
		[ 'rw', qr/sp=rwl\): "l" is missing/ ],
		[ 'rwl', qr/has expired at 2020-01-01 00:00:00 UTC/, '2020-01-01T00:00:00Z' ])
	{
		my ($letters, $complaint, $expiry) = @$case;

		$node->configure(azure_sas_file => $azurite->sas_file($letters, $expiry));
		$node->wait_for_log_like(qr/read a new token/);
		like($node->sql(sprintf $findings, 'error'),
			$complaint, "sp=$letters: what is missing");
	}
	like($node->sql_error(q(SELECT le_acquire('signed'))),
		qr/LE005.*The SAS has expired at 2020-01-01 00:00:00 UTC. HTTP 403: AuthorizationFailure/s,
		'a call says so, too');
	ok($node->log_like(qr/LOG: .*should be replaced\n.*DETAIL: .*has expired at 2020/),
		'and the log, once');
	append_to_file($file, '?' . slurp_file($azurite->sas_file));
	chmod 0600, $file;
	$node->configure(azure_sas_file => "$file.gone");
	like($node->sql_error(q(SELECT le_acquire('signed'))),
		qr/LE005/, 'without a file nobody is let in');
	like($node->sql(sprintf $findings, 'error'),
		qr/could not open token file/, 'which is said');
	$node->configure(azure_sas_file => $file);
	ok($node->acquire('signed', wait => '3 min'),
		'a new one serves, also with the question mark that some tools print');
	$azurite->tells_no_secret($node);
	$node->stop;
};

# One that runs out while its instance leads: the file has another by then.
subtest 'a signature that runs out' => sub {
	my $ends = sub {
		my @t = gmtime(time + $_[0]);

		return sprintf('%04d-%02d-%02dT%02d:%02d:%02dZ', $t[5] + 1900, $t[4] + 1,
			@t[ 3, 2, 1, 0 ]);
	};
	my $file = $azurite->sas_file;
	my $node = LeaderElection::Node->create(
		'expiring',
		azure => $azurite,
		settings => { azure_sas_file => $file });
	my $seen = "SELECT level || message FROM le_check_config()
		WHERE topic = 'secrets'";
	my $end_file = $azurite->sas_file;
	my $end = LeaderElection::Node->create(
		'ending',
		azure => $azurite,
		settings => { azure_sas_file => $end_file });
	my ($token, $offset);

	ok($end->acquire('ending'), 'one leads by a file that is not replaced');
	rename($azurite->sas_file('rwl', $ends->(5)), $end_file) or die "$end_file: $!";
	$end->reload;
	ok($node->acquire('expiring'), 'leads');
	$token = $node->token('expiring');
	rename($azurite->sas_file('rwl', $ends->(20)), $file) or die "$file: $!";
	$offset = $node->log_offset;
	$node->reload;
	$node->wait_for_log_like(qr/read a new token from file/, $offset);
	like($node->sql($seen), qr/^warning.*expires at .* in 0\.0 days/,
		'it is warned of');
	ok($node->log_like(qr/LOG: .*token file .* should be replaced/),
		'in the log, too');
	$offset = $node->log_offset;
	rename($azurite->sas_file('rwl', $ends->(3600 * 24 * 30)), $file)
	  or die "$file: $!";
	$node->wait_for_log_like(qr/read a new token from file/, $offset);
	$node->wait_for(q(SELECT renewals >= 5 FROM le_stat()
		WHERE election = 'expiring'), 'renewals');
	same_term($token, $node->token('expiring'), 'in the same term');
	is($node->sql(q(SELECT failures FROM le_stat()
		WHERE election = 'expiring')), 0, 'without a failure');
	like($node->sql($seen), qr/^ok.*expires at .* in 30\.0 days/, 'for a month');
	poll_until(sub { !$end->is_leader('ending') }, 'the end of the other term');
	like($end->sql(q(SELECT last_loss FROM le_status WHERE election = 'ending')),
		qr/deadline/, 'by its deadline');
	like($end->sql_error(q(SELECT le_acquire('another'))),
		qr/LE005.*The SAS has expired/s, 'and no other begins');
	is(scalar(() = $end->log_since =~ /refused to renew/g),
		1, 'which the log tells once');
	$azurite->tells_no_secret($_) foreach $node, $end;
	$_->stop foreach $node, $end;
};

# Settings that cannot work are refused, with the arithmetic.
subtest 'settings' => sub {
	my $node = LeaderElection::Node->create('settings', azure => $azurite);
	my %urls = (
		'http://example.blob.core.windows.net/leases' => qr/must begin with https/,
		'https://a-secondary.blob.core.windows.net/leases' => qr/secondary endpoint/,
		'https://a.blob.core.windows.net' => qr/name of a container/,
		'https://a.blob.core.windows.net/Leases' => qr/name of a container/,
		'https://a.blob.core.windows.net/leases?sv=1' => qr/must have the form/);

	foreach my $url (sort keys %urls)
	{
		like(
			$node->sql_error(
				"ALTER SYSTEM SET leader_election.azure_container_url = '$url'"),
			$urls{$url}, $url);
	}
	is( $node->sql_error(
			q(ALTER SYSTEM SET leader_election.azure_container_url =
			'https://a.blob.core.windows.net/leases')),
		'',
		'that of a container');
	$node->sql('ALTER SYSTEM RESET ALL');
	$node->configure(lease_ttl => '14s');
	poll_until(
		sub {
			$node->sql(
				q(SELECT count(*) FROM le_check_config() WHERE topic = 'timing'
				AND level = 'error' AND message ~ '15000')) == 1;
		},
		'the complaint about 14 s');
	like($node->sql_error(q(SELECT le_acquire('short'))), qr/14000|15000/,
		'too short a lease is refused');
	like($node->sql_error(q(ALTER SYSTEM SET leader_election.lease_ttl = '61s')),
		qr/outside the valid range/, 'more than a minute is no lease');
	$node->configure(lease_ttl => '60s');
	ok($node->acquire('minute', wait => '3 min'), 'a minute is');
	ok($node->release('minute'), 'which can be released');
	$node->configure(lease_ttl => '15500ms');
	poll_until(
		sub {
			$node->acquire('whole', wait => '3 min') && $node->sql(q(
				SELECT expires_at - now() <= '15 s' FROM le_status
				WHERE election = 'whole')) eq 't';
		},
		'the new lease');
	ok($node->acquire('whole', wait => '3 min'), 'half a second is taken');
	# between two looks at the clock, of which the first is before it is asked for
	my $session = LeaderElection::Session->new($node);
	is($session->query(q(BEGIN; SELECT le_acquire('worth'))), 't', 'another');
	my ($left, $at_first) = split /\|/, $session->query(
		q(SELECT extract(epoch FROM expires_at - clock_timestamp()),
		extract(epoch FROM expires_at - now()) FROM le_status
		WHERE election = 'worth'));
	$session->query('COMMIT');
	cmp_ok($left, '<=', 13.5, 'belief does not outlast the lease');
	cmp_ok($at_first, '>', 13.4, 'nor less');
	$node->stop;
};

# Edited, deleted, in a container that is not there.
subtest 'blobs that are tampered with' => sub {
	my $node = LeaderElection::Node->create('tampered', azure => $azurite);
	my $name = 'leader_election/edited~leader';
	my $url = 'http://' . $azurite->host_port . '/devstoreaccount1/gone';
	my $gone = "$PostgreSQL::Test::Utils::tmp_check/t_118_sas";
	my %metadata = ('x-ms-meta-le_proto' => 1,
		map { ("x-ms-meta-le_$_" => '00000000-0000-0000-0000-000000000001') }
		  qw(session attempt));
	my $renew = q(SELECT le_renew('edited', 'x'));
	my $etag;

	foreach my $n (1 .. 3)
	{
		ok($node->acquire('edited') && $node->release('edited'), "term $n");
	}
	is($azurite->request('PUT', $name, 'comp=metadata', %metadata,
			'x-ms-meta-le_token' => 50)->{status}, 200, 'a higher token');
	ok($node->acquire('edited', wait => '3 min'), 'is taken for one');
	guarantee('G2', [ 50, $node->token('edited') ], 'the next is higher');
	is($node->token('edited'), 51, 'and goes on from there');

	# under the lease
	is($azurite->request('PUT', $name, 'comp=metadata', %metadata,
			'x-ms-meta-le_token' => 60,
			'x-ms-lease-id' => $azurite->blob('edited')->{attempt})->{status},
		200, 'another token in a term');
	like($node->sql($renew) . $node->sql_error($renew),
		qr/^f|LE00/, 'ends it, when a value is published');
	poll_until(sub { $node->acquire('edited', wait => '3 min') }, 'another');
	guarantee('G2', [ 60, $node->token('edited') ], 'with a higher token');

	is($azurite->request('DELETE', $name, '',
			'x-ms-lease-id' => $azurite->blob('edited')->{attempt})->{status},
		202, 'deleted');
	poll_until(sub { !$node->is_leader('edited') }, 'the end of the term');
	like($node->sql_error(q(SELECT le_acquire('edited', wait => '3 min'))),
		qr/token/, 'and of all: tokens began anew');

	# somebody else's under the lease: it is renewed, and then left alone
	ok($node->acquire('over'), 'leads');
	$name = 'leader_election/over~leader';
	is($azurite->request('PUT', $name, '', 'x-ms-blob-type' => 'BlockBlob',
			'x-ms-meta-owner' => 'somebody',
			'x-ms-lease-id' => $azurite->blob('over')->{attempt})->{status},
		201, 'overwritten');
	$etag = $azurite->blob('over')->{etag};
	$renew =~ s/edited/over/;
	like($node->sql($renew) . $node->sql_error($renew),
		qr/^f|LE00/, 'which ends the term, when a value is published');
	poll_until(sub { !$node->is_leader('over') }, 'its end');
	like($node->sql_error(q(SELECT le_acquire('over'))),
		qr/LE005.*not written by this extension/s, 'no other begins');
	is($azurite->blob('over')->{etag}, $etag, 'and the blob is left alone');

	# a tool that took a lease for ever
	ok($node->acquire('endless') && $node->release('endless'), 'a term');
	$name = 'leader_election/endless~leader';
	is($azurite->request('PUT', $name, 'comp=lease',
			'x-ms-lease-action' => 'acquire', 'x-ms-lease-duration' => -1,
			'x-ms-proposed-lease-id' => $metadata{'x-ms-meta-le_attempt'})->{status},
		201, 'a lease for ever');
	like($node->sql_error(q(SELECT le_acquire('endless'))),
		qr/LE005.*infinite lease.*az storage blob lease break/s,
		'the remedy is said')
	  foreach 1 .. 2;
	is(scalar(() = $node->log_since =~ /cannot be led: .*lease break/g),
		1, 'in the log, too, once');
	is($azurite->request('PUT', $name, 'comp=lease',
			'x-ms-lease-action' => 'release',
			'x-ms-lease-id' => $metadata{'x-ms-meta-le_attempt'})->{status},
		200, 'done');
	ok($node->acquire('endless', wait => '3 min'), 'and the election goes on');
	$node->stop;

	append_to_file($gone, `test/services/azurite/sas --create $url rwl`);
	chmod 0600, $gone;
	$node = LeaderElection::Node->create(
		'nowhere',
		azure => $azurite,
		settings => { azure_container_url => $url, azure_sas_file => $gone });
	ok($node->acquire('nowhere'), 'leads');
	is(system("test/services/azurite/sas --delete $url rwl >/dev/null"),
		0, 'its container is deleted');
	like($node->sql_error(q(SELECT le_acquire('another'))),
		qr/LE005.*ContainerNotFound/s, 'no container, no election');
	poll_until(sub { !$node->is_leader('nowhere') },
		'the end of the term, by its deadline');
	# the last one is still to be released
	like($node->sql_error(q(SELECT le_acquire('nowhere'))),
		qr/LE00[35].*ContainerNotFound/s, 'and no other');
	$node->stop;
};

# More than a page of claims, and others' blobs between them.
subtest 'long lists' => sub {
	my $node = LeaderElection::Node->create('lists', azure => $azurite);
	my $file = "$PostgreSQL::Test::Utils::tmp_check/t_118_blobs";
	my @common = ('request = PUT', 'header = "Content-Length: 0"',
		'header = "x-ms-version: 2021-12-02"',
		'header = "x-ms-blob-type: BlockBlob"', 'silent', 'output = /dev/null');
	my $claims = 2500;

	open(my $fh, '>', $file) or die "$file: $!";
	foreach my $n (1 .. $claims)
	{
		my $job = encode_base64url("j$n");

		print $fh join("\n", @common,
			'url = "' . $azurite->url . "/leader_election~claims/many~/j$n?"
			  . $azurite->{sas} . '"',
			map({ "header = \"x-ms-meta-le_$_\"" } 'proto: 1', "job: $job",
				'tick: 1600000000000', 'try: 1', 'token: 5', 'id: 00ff',
				'state: done', 'node: bjE', 'claimed: 1600000000000'),
			"next\n");
		print $fh join("\n", @common,
			'url = "' . $azurite->url . "/leader_election~claims/many~/j$n"
			  . '%26%3C?' . $azurite->{sas} . '"', "next\n") if $n % 100 == 0;
	}
	print $fh 'url = "' . $azurite->url . '"' . "\noutput = /dev/null\nsilent\n";
	close $fh;
	is(system('curl', '-K', $file, '--parallel', '--parallel-max', 4) >> 8, 0,
		"$claims of them");
	is($node->sql(q(SELECT count(*), count(DISTINCT job) FROM le_claims
		WHERE election = 'many')), "$claims|$claims", 'all are listed, once');
	$node->stop;
};

# Twenty sessions of two instances want the same elections.  On a machine that is
# too busy for that a term may end and another begin: then a token has a winner.
subtest 'contenders' => sub {
	my @nodes =
	  map { LeaderElection::Node->create($_, azure => $azurite) } qw(red blue);
	my @sessions = map { my $node = $_;
		map { LeaderElection::Session->new($node) } 1 .. 10 } @nodes;
	my $elections = 30;
	my (%won, %token, %tokens, $failures);

	$_->sql(q(CREATE FUNCTION wins(election text) RETURNS bigint
		LANGUAGE plpgsql AS $$
		BEGIN
			FOR i IN 1..20 LOOP
				BEGIN
					RETURN CASE WHEN le_acquire(election, scope => 'session')
						THEN le_fencing_token(election) END;
				EXCEPTION WHEN SQLSTATE 'LE003' OR SQLSTATE 'LE004' THEN
					PERFORM set_config('wins.unsure',
						(coalesce(current_setting('wins.unsure', true), '0')::int
						+ 1)::text, false);
				END;
			END LOOP;
			RAISE 'no answer for %', election;
		END $$))
	  foreach @nodes;
	$_->start(
		"WITH e AS MATERIALIZED (SELECT n FROM generate_series(1, $elections) n
		ORDER BY random()), w AS MATERIALIZED (SELECT n, wins('race/' || n) AS token
		FROM e) SELECT n, token FROM w WHERE token IS NOT NULL")
	  foreach @sessions;
	foreach my $session (@sessions)
	{
		foreach my $row (split /\n/, $session->finish->{output})
		{
			my ($n, $token) = split /\|/, $row;

			$won{$n}++;
			$token{"$n|$token"}++;
			push @{ $tokens{$n} }, $token;
		}
	}
	# On a machine that is too busy a request may get no answer; else each has one.
	$failures = grep { $_->sql('SELECT sum(failures) FROM le_stat()') } @nodes;
	is(scalar(grep {
				($_->query(q(SELECT current_setting('wins.unsure', true)))
				  // '') ne ''
			} @sessions),
		0, 'nobody is told that it is not known') unless $failures;
	is(scalar keys %won, $elections, 'each has a winner');
	is(scalar(grep { $_ != 1 } values %token), 0, 'each token has one only');
	guarantee('G2', [ map { [ 0, sort { $a <=> $b } @$_ ] } values %tokens ],
		'no token is given twice');
	is(
		scalar(grep { $won{$_} != $azurite->blob("race/$_")->{token} } keys %won),
		0, 'and no token has none') unless $failures;
	$_->quit foreach @sessions;
	$_->stop foreach @nodes;
};

# A worker that stands still for longer than its lease.
subtest 'standing still' => sub {
	my $node = LeaderElection::Node->create('still', azure => $azurite);
	my $other = LeaderElection::Node->create('moving', azure => $azurite);
	my @samplers =
	  map { LeaderElection::Sampler->new($_, 'still') } $node, $other;
	my $waiting = LeaderElection::Session->new($other);
	my $claim = q(SELECT le_claim('still', 'job', '2020-01-01 00:00+00'));
	my ($token, $worker, $taken, $led, $rc, $claimed, $error);

	ok($node->acquire('still'), 'leads');
	$token = $node->token('still');
	poll_until(sub { scalar $samplers[0]->beliefs }, 'a sample');
	$waiting->start(q(SELECT le_acquire('still', wait => '3 min')));
	$worker = $node->freeze_worker;
	$taken = $waiting->finish->{output} eq 't';
	$led = $node->is_leader('still');
	ok($taken, 'the other leads');
	ok(!$led, 'a node that stands still does not');
	guarantee('G1', [ $taken && $led ? 'still' : () ], 'not both');
	$node->thaw_worker($worker);
	guarantee('G2', [ $token, $other->token('still') ], 'with a higher token');
	is($other->token('still'), $token + 1, 'the next');
	($rc, $claimed, $error) = $node->psql('postgres', "\\set VERBOSITY verbose\n$claim");
	like($rc == 0 ? $claimed : $error, qr/LE00[12]|^f/, 'nor claims, when it is back');
	guarantee('G4', [ $taken && $claimed eq 't' ? 'job' : () ], 'nor is told that it has');
	still_leads($other, 'still', 'the other goes on');
	$_->stop foreach @samplers;
	guarantee('G1', [ LeaderElection::Sampler->overlaps(@samplers) ],
		'terms do not overlap');
	$_->stop foreach $other, $node;
};

done_testing();
