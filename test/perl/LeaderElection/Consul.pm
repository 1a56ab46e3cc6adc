
=pod

=head1 NAME

LeaderElection::Consul - a real Consul for tests: one agent, or a cluster

=head1 SYNOPSIS

  # one agent, all in memory
  my $consul = LeaderElection::Consul->new('consul')->start;
  my $reply = $consul->get('/v1/status/leader');
  is($reply->{status}, 200);
  is($reply->{json}, ...);

  # one server that keeps its data over a restart
  my $consul = LeaderElection::Consul->new('c', persistent => 1)->start;

  # three servers
  my @servers = LeaderElection::Consul->cluster(3);
  my $leader = LeaderElection::Consul->leader(@servers);
  $leader->freeze;

  # a client agent, the production setup
  my $agent = LeaderElection::Consul->new('agent', join => [ $servers[0] ]);

=head1 DESCRIPTION

Each agent binds to ports of 127.0.0.1 of its own.  Its data and log are in
the test's directory.  A request never raises an error: the status of a
request that got no answer is 599, as in HTTP::Tiny.

=cut

package LeaderElection::Consul;

use strict;
use warnings;

use parent 'LeaderElection::Process';

use Carp;
use JSON::PP ();
use LeaderElection::HTTP;
use LeaderElection::Util;
use MIME::Base64 qw(decode_base64 encode_base64);
use PostgreSQL::Test::Utils ();

# The flag by which Consul's own clients mark a key that is a lock.
use constant LOCK_FLAG => 3304740253564472344;

# Without HTML escaping and the like: what a client would send.
my $json = JSON::PP->new->canonical->allow_nonref->utf8;

=pod

=head1 METHODS

=over

=item new($name, %params)

Parameters: persistent (a server with a data directory, instead of -dev),
expect (number of servers of its cluster), join (agents to join; a client
agent unless expect is given), config (HCL, or an array of such), https
(needs a tls stanza in config; adds the port), http (0 turns it off),
log_level (default debug, so that requests can be counted), acl (1: default
deny, a management token made up and used by this object's requests),
datacenter (default dc1), wan (servers of other datacenters to join, [] for
the first one).

=cut

sub new
{
	my ($class, $name, %params) = @_;
	my $self = $class->SUPER::new($name);
	my ($script) = $0 =~ m{([^/]+?)(\.[^.]*)?$};

	%$self = (%$self, %params);
	$self->{dir} = "$PostgreSQL::Test::Utils::tmp_check/t_${script}_${name}";
	$self->{log} = "$PostgreSQL::Test::Utils::log_path/${script}_${name}.log";
	$self->{address} = '127.0.0.1';
	$self->{port}{$_} = free_port() foreach qw(http server serf_lan);
	$self->{port}{https} = free_port() if $params{https};
	$self->{port}{serf_wan} = free_port() if $params{wan};
	$self->{dev} = !($params{persistent} || $params{expect} || $params{join});
	if ($params{acl})
	{
		$self->{token} = 'aaaaaaaa-0000-0000-0000-' . sprintf('%012d', $$);
	}
	mkdir $self->{dir};
	return $self;
}

=pod

=item cluster($n, %params)

Starts n servers that form a cluster and returns them, ready.

=cut

sub cluster
{
	my ($class, $n, %params) = @_;
	my @servers = map {
		$class->new("consul$_", %params, expect => $n)
	} 1 .. $n;

	$_->{join} = \@servers foreach @servers;
	$_->start(wait => 0) foreach @servers;
	$_->wait_until_ready foreach @servers;
	return @servers;
}

=pod

=item leader(@servers)

The one of the servers that is Raft leader, asked of those that answer.

=cut

sub leader
{
	my ($class, @servers) = @_;

	return poll_until(
		sub {
			foreach my $asked (grep { $_->is_running && !$_->{frozen} } @servers)
			{
				my $address = $asked->get('/v1/status/leader')->{json} or next;
				my ($leader) = grep {
					"$_->{address}:$_->{port}{server}" eq $address
				} @servers;

				return $leader if $leader && !$leader->{frozen};
			}
			return;
		},
		'a Raft leader');
}

sub _hcl
{
	my ($self) = @_;
	my %port = (
		http => -1,
		https => -1,
		dns => -1,
		grpc => -1,
		grpc_tls => -1,
		serf_wan => -1,
		%{ $self->{port} });
	my $ports = join(' ', map { "$_ = $port{$_}" } sort keys %port);
	my @hcl;

	$ports =~ s/\bhttp = \d+/http = -1/
	  if defined $self->{http} && !$self->{http};

	push @hcl, <<"END";
node_name = "$self->{name}"
bind_addr = "$self->{address}"
client_addr = "$self->{address}"
ports { $ports }
session_ttl_min = "1s"
performance { raft_multiplier = 1 }
connect { enabled = false }
peering { enabled = false }
autopilot { cleanup_dead_servers = false }
disable_update_check = true
retry_interval = "1s"
END
	push @hcl, "datacenter = \"$self->{datacenter}\"\n" if $self->{datacenter};
	push @hcl, 'retry_join_wan = ['
	  . join(', ', map { qq("$_->{address}:$_->{port}{serf_wan}") } @{ $self->{wan} })
	  . "]\nretry_interval_wan = \"1s\"\n"
	  if $self->{wan};
	push @hcl, <<"END" if $self->{acl};
primary_datacenter = "dc1"
acl {
	enabled = true
	default_policy = "deny"
	tokens {
		initial_management = "$self->{token}"
		agent = "$self->{token}"
	}
}
END
	unless ($self->{dev})
	{
		my $n = $self->{expect} // 1;
		my @join = map {
			qq("$_->{address}:$_->{port}{serf_lan}")
		} @{ $self->{join} // [] };

		push @hcl, "data_dir = \"$self->{dir}/data\"\n";
		push @hcl, "server = true\nbootstrap_expect = $n\n"
		  if $self->{expect} || !@join;
		push @hcl, 'retry_join = [' . join(', ', @join) . "]\n" if @join;
	}
	push @hcl, ref $self->{config} ? @{ $self->{config} } : $self->{config}
	  if $self->{config};
	return @hcl;
}

=pod

=item start([ wait => 0 ])

Starts it, or starts it again, and waits until it has a leader and takes
writes.

=cut

sub start
{
	my ($self, %params) = @_;
	my $number = 0;
	my @files;

	# One file for each part: a stanza may appear but once in a file.
	foreach my $part ($self->_hcl)
	{
		my $file = sprintf('%s/%02d.hcl', $self->{dir}, $number++);

		open(my $fh, '>', $file) or croak "could not write $file: $!";
		print $fh $part;
		close $fh;
		push @files, "-config-file=$file";
	}
	$self->spawn(
		cwd => $self->{dir},
		log => $self->{log},
		env => { GOMAXPROCS => 2 },
		command => [
			$self->binary, 'agent', ($self->{dev} ? '-dev' : ()),
			'-log-level=' . ($self->{log_level} // 'debug'), @files
		]);
	$self->wait_until_ready unless exists $params{wait} && !$params{wait};
	return $self;
}

=pod

=item stop(), restart()

An orderly end (SIGTERM; a server does not leave its cluster by it), and the
same with a start. A -dev agent forgets everything by it.  See
LeaderElection::Process for freeze, thaw and kill9.

=cut

sub stop
{
	my ($self) = @_;

	$self->terminate;
	return;
}

sub restart
{
	my ($self) = @_;

	$self->stop;
	return $self->start;
}

=pod

=item wait_until_ready()

=cut

sub wait_until_ready
{
	my ($self) = @_;

	poll_until(
		sub {
			croak "$self->{name} ended at start: " . substr($self->log, -2000)
			  unless $self->is_running;
			return 1 if defined $self->{http} && !$self->{http};
			return unless $self->get('/v1/status/leader')->{json};

			# A node can take part once the catalog knows it.
			my $created = $self->put('/v1/session/create', { TTL => '10s' });
			return unless $created->{status} == 200;
			$self->put("/v1/session/destroy/$created->{json}{ID}");
			return 1;
		},
		"Consul $self->{name}");
	return;
}

# The binary: scripts/sandbox puts it in LE_BIN.
sub binary
{
	foreach my $candidate (
		($ENV{LE_CONSUL} ? $ENV{LE_CONSUL} : ()),
		($ENV{LE_BIN} ? "$ENV{LE_BIN}/consul" : ()))
	{
		return $candidate if -x $candidate;
	}
	return 'consul';
}

=pod

=item url(), https_url(), host_port()

=cut

sub host_port
{
	my ($self) = @_;

	return "$self->{address}:$self->{port}{http}";
}

sub url
{
	my ($self) = @_;

	return 'http://' . $self->host_port;
}

sub https_url
{
	my ($self) = @_;

	return "https://$self->{address}:$self->{port}{https}";
}

=pod

=item request($method, $path, [ $body ], %params)

Returns { status, body, json, headers, index }.  A body that is a reference
is sent as JSON; json is the decoded answer if there is one.  Parameters:
timeout (5 s), token.

=item get($path, %params), put($path, [ $body ], %params), delete($path)

=cut

sub request
{
	my ($self, $method, $path, $body, %params) = @_;
	my $token = exists $params{token} ? $params{token} : $self->{token};
	my %options = (headers => {});

	# Consul wants a length on every PUT.
	$options{content} = ref $body ? $json->encode($body) : $body // ''
	  if $method eq 'PUT';
	$options{headers}{'X-Consul-Token'} = $token if defined $token;

	my $reply = LeaderElection::HTTP->new(timeout => $params{timeout} // 5)
	  ->request($method, $self->url . $path, \%options);

	return {
		status => $reply->{status},
		body => $reply->{content},
		json => scalar eval { $json->decode($reply->{content}) },
		headers => $reply->{headers},
		index => $reply->{headers}{'x-consul-index'}
	};
}

sub get
{
	my ($self, $path, %params) = @_;

	return $self->request('GET', $path, undef, %params);
}

sub put
{
	my ($self, $path, $body, %params) = @_;

	return $self->request('PUT', $path, $body, %params);
}

sub delete
{
	my ($self, $path, %params) = @_;

	return $self->request('DELETE', $path, undef, %params);
}

=pod

=item txn(@operations)

One transaction of KV operations, each a hash of Consul's names (Verb, Key,
Value, ...); values are given plain.  Returns the reply; its member results
holds the entries, values decoded, and errors the errors.

=cut

sub txn
{
	my ($self, @operations) = @_;
	my @body;

	foreach my $operation (@operations)
	{
		my %kv = %$operation;

		$kv{Value} = encode_base64($kv{Value}, '') if defined $kv{Value};
		push @body, { KV => \%kv };
	}

	my $reply = $self->put('/v1/txn', \@body);

	if (ref $reply->{json} eq 'HASH')
	{
		$reply->{results} =
		  [ map { _entry($_->{KV}) } @{ $reply->{json}{Results} // [] } ];
		$reply->{errors} = $reply->{json}{Errors} // [];
	}
	return $reply;
}

sub _entry
{
	my ($entry) = @_;
	my %copy = %{ $entry // {} };

	$copy{Value} = decode_base64($copy{Value}) if defined $copy{Value};
	return \%copy;
}

=pod

=item kv($key), kv_tree($prefix)

A consistent read of one entry (undef if absent), or of all below a prefix
(a hash by key); values decoded.

=cut

sub kv
{
	my ($self, $key) = @_;
	my $reply = $self->get("/v1/kv/$key?consistent");

	return _entry($reply->{json}[0]) if $reply->{status} == 200;
	return undef if $reply->{status} == 404;
	croak "read of $key: $reply->{status} $reply->{body}";
}

sub kv_tree
{
	my ($self, $prefix) = @_;
	my $reply = $self->get("/v1/kv/$prefix?recurse&consistent");

	return {} if $reply->{status} == 404;
	croak "read of $prefix: $reply->{status} $reply->{body}"
	  unless $reply->{status} == 200;
	return { map { $_->{Key} => _entry($_) } @{ $reply->{json} } };
}

=pod

=item session(%parameters)

Creates a store session (default TTL 10s, LockDelay 0s) and returns its ID.

=item destroy($session), renew($session)

=item lock($key, $session, [ $value ]), unlock($key, $session, [ $value ])

What Consul's own Go client does: ?acquire= and ?release= with its flag.
Returns Consul's boolean.

=cut

sub session
{
	my ($self, %parameters) = @_;
	my $reply = $self->put('/v1/session/create',
		{ TTL => '10s', LockDelay => '0s', %parameters });

	croak "session create: $reply->{status} $reply->{body}"
	  unless $reply->{status} == 200;
	return $reply->{json}{ID};
}

sub destroy
{
	my ($self, $session) = @_;

	return $self->put("/v1/session/destroy/$session");
}

sub renew
{
	my ($self, $session) = @_;

	return $self->put("/v1/session/renew/$session");
}

sub lock
{
	my ($self, $key, $session, $value) = @_;

	return $self->put("/v1/kv/$key?acquire=$session&flags=" . LOCK_FLAG,
		$value // '')->{json};
}

sub unlock
{
	my ($self, $key, $session, $value) = @_;

	return $self->put("/v1/kv/$key?release=$session&flags=" . LOCK_FLAG,
		$value // '')->{json};
}

=pod

=item acl_token($rules)

Makes a policy of the rules (HCL) and a token of it, and returns its secret.
Needs acl => 1.

=cut

my $policies = 0;

sub acl_token
{
	my ($self, $rules) = @_;
	my $name = 'policy' . ++$policies;
	my $policy =
	  $self->put('/v1/acl/policy', { Name => $name, Rules => $rules });

	croak "policy: $policy->{status} $policy->{body}"
	  unless $policy->{status} == 200;

	my $token =
	  $self->put('/v1/acl/token', { Policies => [ { Name => $name } ] });

	croak "token: $token->{status} $token->{body}"
	  unless $token->{status} == 200;
	return $token->{json}{SecretID};
}

=pod

=item requests([ $offset ], [ $pattern ])

The requests that the agent's log shows as finished since the offset (see
log_size), as { method, url }, only those whose "METHOD url" matches the
pattern.  Requests made by this object are logged, too.

=back

=cut

sub requests
{
	my ($self, $offset, $pattern) = @_;
	my @requests;

	foreach my $line (split /\n/, $self->log($offset))
	{
		my ($method, $url) =
		  $line =~ /Request finished: method=(\S+) url="?([^"\s]+)/
		  or next;

		push @requests, { method => $method, url => $url }
		  if !$pattern || "$method $url" =~ $pattern;
	}
	return @requests;
}

1;
