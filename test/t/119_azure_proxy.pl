# Tier: long, 40 s
#
# Where the way out is an HTTP proxy: what the page on Azure says of it, with its own
# command, through a real proxy.  Proxies of the environment are not used.

use strict;
use warnings;

use IO::Socket::INET;
use LeaderElection::Azurite;
use LeaderElection::Certificates;
use LeaderElection::Docs;
use LeaderElection::Node;
use LeaderElection::Process;
use LeaderElection::Recorder;
use LeaderElection::Resolver;
use LeaderElection::Util;
use List::Util qw(uniq);
use PostgreSQL::Test::Utils;
use Test::More;

foreach my $program (qw(socat tinyproxy))
{
	grep { -x "$_/$program" } split /:/, $ENV{PATH}
	  or plan skip_all => "there is no $program";
}

# The service is at an address of its own, to which only the proxy's names lead.  One
# port serves for all, as 443 does.
my %page = (account => 'myaccount.blob.core.windows.net', proxy => 'proxy.example.com');
my %name = (account => 'devstoreaccount1.blob.core.test', login => 'login.microsoftonline.test');
my %at = (service => '127.0.0.2', login => '127.0.0.3', opener => '127.0.0.4', relay => '127.0.0.5');
my $dir = $PostgreSQL::Test::Utils::tmp_check;
my %hosts = map { $_ => "$dir/t_119_hosts_$_" } qw(machine proxy);

my $ca = LeaderElection::Certificates->new('ca');
my $azurite = LeaderElection::Azurite->new('azurite',
	oauth => $ca,
	address => $at{service},
	names => "DNS:$name{account},IP:$at{service}")->start;
my $metadata = LeaderElection::Recorder->new('metadata', '127.0.0.1:1')->start;
my $resolver = LeaderElection::Resolver->new;
my $port = $azurite->host_port =~ s/.*://r;
my $proxy_port = free_port();
my $node;

sub spawn
{
	my ($name, $hosts, @command) = @_;
	my $process = LeaderElection::Process->new($name);

	return $resolver->preloaded(
		sub {
			$process->spawn(
				command => \@command,
				cwd => $dir,
				log => "$PostgreSQL::Test::Utils::log_path/119_$name.log");
		},
		$hosts);
}

sub wait_for_port
{
	my ($address, $on) = @_;

	return poll_until(
		sub { IO::Socket::INET->new(PeerAddr => $address, PeerPort => $on) },
		"$address:$on");
}

# A name has one address.
sub write_hosts
{
	my ($which, %address) = @_;

	open(my $fh, '>', $hosts{$which}) or die "$hosts{$which}: $!";
	print $fh map { "$address{$_} $_\n" } sort keys %address;
	close $fh;
	return;
}

append_to_file("$dir/t_119_tinyproxy.conf", <<"END");
Port $proxy_port
Listen 127.0.0.1
Timeout 600
MaxClients 50
LogLevel Connect
ConnectPort $port
END
write_hosts('machine', $page{proxy} => '127.0.0.1');
write_hosts('proxy', $name{account} => $at{service}, $name{login} => $at{login});
my $proxy = spawn('tinyproxy', $hosts{proxy}, 'tinyproxy', '-d', '-c', "$dir/t_119_tinyproxy.conf");
wait_for_port('127.0.0.1', $proxy_port);

# All that the proxy was asked for since then.
sub asked
{
	my ($offset) = @_;

	return $proxy->log($offset) =~ /Request \(file descriptor \d+\): (.*)$/mg;
}

# The lines that a user pastes, with other names and ports: one of the file of
# hosts, and the relay.
my ($line, $command) = block('azure relay') =~ /^(echo .*)\n(socat .*)\z/s;

sub adapted
{
	my ($text, %changes) = @_;

	%changes = (
		$page{account} => $name{account},
		':443' => ":$port",
		'=3128' => "=$proxy_port",
		'/etc/hosts' => $hosts{machine},
		%changes);
	foreach my $old (grep { $text =~ /\Q$_\E/ } sort keys %changes)
	{
		$text =~ s/\Q$old\E/$changes{$old}/g;
	}
	return $text;
}

sub add_host
{
	my (%changes) = @_;

	return system_or_bail('sh', '-c', adapted($line, %changes));
}

sub relay
{
	my ($name, %changes) = @_;
	my $relay = spawn($name, $hosts{machine}, 'sh', '-c', 'exec ' . adapted($command, %changes));

	wait_for_port($changes{'127.0.0.1'} // '127.0.0.1', $port);
	return $relay;
}

# As a service manager ends it: with the process of each connection.
sub stop_relay
{
	my ($relay) = @_;
	my $pid = $relay->pid;

	$relay->freeze;
	kill('KILL', split ' ', `ps -o pid= --ppid $pid`);
	$relay->kill9;
	return;
}

# Something that TLS ends at, and the requests in it.
sub open_tls
{
	my ($name, $authority, $upstream) = @_;
	my $recorder = LeaderElection::Recorder->new($name, $upstream)->start;
	my ($cert, $key) = $authority->issue($name, "DNS:$name{account},DNS:$name{login}");
	my $end = spawn("tls_$name", undef, 'socat',
		"OPENSSL-LISTEN:$port,bind=$at{$name},reuseaddr,fork,cert=$cert,key=$key,verify=0",
		'TCP:' . $recorder->host_port);

	wait_for_port($at{$name}, $port);
	return ($recorder, $end);
}

sub findings
{
	my ($node, $topic) = @_;

	return $node->sql("SELECT level || ':' || message FROM le_check_config()
		WHERE topic = '$topic' ORDER BY 1");
}

sub errors
{
	my ($node) = @_;

	return $node->sql(q(SELECT topic || ': ' || message FROM le_check_config()
		WHERE level = 'error'));
}

sub statistic
{
	my ($name) = @_;

	return $node->sql("SELECT $name FROM le_stat() WHERE election = 'billing'");
}

sub token_answer
{
	return (
		action => 'answer',
		status => 200,
		body => '{"token_type":"Bearer","expires_in":3599,"access_token":"'
		  . $azurite->token . '"}');
}

my %settings = (
	azure_container_url => "https://$name{account}:$port/le-test",
	azure_identity => 'system',
	azure_identity_url => $metadata->url,
	ca_file => $ca->file,
	lease_ttl => '60s',
	renew_interval => '3s');
my $federated = "$dir/t_119_federated";

$node = LeaderElection::Node->create('one', azure => $azurite, settings => \%settings, start => 0);
append_to_file($federated, 'federated.token');
chmod 0600, $federated;
$metadata->rule(match => qr{^GET /metadata}, token_answer());
{
	local %ENV = (
		%ENV,
		(map { $_ => "http://127.0.0.1:$proxy_port" }
			  qw(http_proxy https_proxy HTTPS_PROXY all_proxy ALL_PROXY)),
		AZURE_FEDERATED_TOKEN_FILE => $federated,
		AZURE_CLIENT_ID => 'client',
		AZURE_TENANT_ID => 'tenant',
		AZURE_AUTHORITY_HOST => "https://$name{login}:$port/");

	$resolver->preloaded(sub { $node->start }, $hosts{machine});
}
$node->sql('CREATE EXTENSION leader_election');
my $relay;

subtest 'proxies of the environment' => sub {
	like(findings($node, 'store'), qr/^error:.*Could not resolve host: \Q$name{account}\E$/,
		'the account cannot be looked up');
	add_host();
	like(findings($node, 'store'), qr/^error:.*Failed to connect to \Q$name{account}\E port $port/,
		'or not be reached');
	like($node->sql_error(q(SELECT le_acquire('billing'))), qr/LE003/, 'nobody leads');
	cmp_ok(scalar $metadata->requests(qr/^GET/), '>', 0, 'a token of the machine comes by itself');
	is_deeply([ asked() ], [], 'and the proxy is not asked');
};

subtest 'a relay' => sub {
	$relay = relay('relay');
	is(errors($node), '', 'all is well');
	ok($node->acquire('billing'), 'the instance leads');
	poll_until(sub { statistic('renewals') > 1 }, 'renewals');
	is_deeply([ uniq(asked()) ], ["CONNECT $name{account}:$port HTTP/1.0"],
		'by the proxy, which makes connections and nothing else');
};

# The relay's address in the place of the name, as somebody might try who may not
# write /etc/hosts.
subtest 'another name' => sub {
	my $url = "https://127.0.0.1:$port/devstoreaccount1/le-test";
	my $other = LeaderElection::Node->create('other',
		azure => $azurite, settings => { %settings, azure_container_url => $url });

	like(findings($other, 'store'), qr/^error:.*\bSSL: no alternative certificate subject name/,
		'is not the one of the certificate');
	$other->stop;
};

subtest 'a relay that starts again' => sub {
	my $token = $node->token('billing');
	my $failures = statistic('failures');
	my $renewals;

	stop_relay($relay);
	poll_until(sub { statistic('failures') > $failures }, 'a renewal that fails');
	$renewals = statistic('renewals');
	$relay = relay('relay');
	poll_until(sub { statistic('renewals') > $renewals }, 'another');
	same_term($token, $node->token('billing'), 'in the same term');
};

subtest 'a relay that does not' => sub {
	my $token = $node->token('billing');

	ok($node->release('billing'), 'the end of the term');
	$node->configure(lease_ttl => '15s', renew_interval => '5s');
	$node->wait_for(q(SELECT current_setting('leader_election.lease_ttl') = '15s'));
	like(findings($node, 'store outage'), qr/^ok:Leaders survive a store that does not answer for \d+ ms/,
		'how long it may be away');
	ok($node->acquire('billing'), 'a new one');
	guarantee('G2', [ $token, $node->token('billing') ], 'with a higher token');
	$token = $node->token('billing');
	stop_relay($relay);
	poll_until(sub { !$node->is_leader('billing') }, 'the end of that');
	like($node->sql(q(SELECT last_loss FROM le_status WHERE election = 'billing')), qr/deadline/,
		'is its deadline');
	$relay = relay('relay');
	ok($node->acquire('billing', wait => '3 min'), 'and the next');
	guarantee('G2', [ $token, $node->token('billing') ], 'has a higher token');
};

# Its tokens come from another host.
subtest 'a workload' => sub {
	my ($login, $end) = open_tls('login', $ca, '127.0.0.1:1');
	my ($mark, $second);

	$login->rule(match => qr{^POST /tenant/oauth2/v2.0/token\n}, token_answer());
	$node->configure(azure_identity => 'workload');
	poll_until(
		sub { findings($node, 'secrets') =~ /^error:.*Could not resolve host: \Q$name{login}\E/ },
		'a host that is not known');
	$mark = $proxy->log_size;
	add_host($page{account} => $name{login}, '127.0.0.1' => $at{relay});
	$second = relay('second', $page{account} => $name{login}, '127.0.0.1' => $at{relay});
	poll_until(sub { errors($node) eq '' }, 'a second relay');
	cmp_ok(scalar $login->requests(qr/^POST/), '>', 0, 'which a token comes by');
	is(scalar(grep { $_ eq "CONNECT $name{login}:$port HTTP/1.0" } uniq(asked($mark))), 1,
		'and by the proxy');
	stop_relay($second);
	$end->terminate;
	$node->configure(azure_identity => 'system');
};

subtest 'a proxy that opens TLS' => sub {
	my $inspector = LeaderElection::Certificates->new('inspector');
	my $plain = free_port();
	my $beyond = spawn('beyond', undef, 'socat',
		"TCP-LISTEN:$plain,bind=127.0.0.1,reuseaddr,fork",
		"OPENSSL:$at{service}:$port,verify=0");
	my ($opener, $end) = open_tls('opener', $inspector, "127.0.0.1:$plain");

	# connections that are open go on
	write_hosts('proxy', $name{account} => $at{opener});
	stop_relay($relay);
	$relay = relay('relay');
	poll_until(sub { findings($node, 'store') =~ /^error:.*certificate/ }, 'its certificate is refused');
	is_deeply([ $opener->requests ], [], 'before it has seen anything');
	$node->configure(ca_file => $inspector->file);
	poll_until(sub { errors($node) eq '' }, 'with its authority all is well');
	ok($node->acquire('opened', wait => '3 min'), 'the instance leads');
	like(($opener->requests(qr{/opened~leader}))[0]{headers}{Authorization}, qr/^Bearer ./,
		'and the proxy sees the token');
};

done_testing();
