
=pod

=head1 NAME

LeaderElection::Recorder - an HTTP proxy that records, loses and holds

=head1 SYNOPSIS

  my $recorder = LeaderElection::Recorder->new('a', $consul->host_port)->start;
  ... consul_url => $recorder->url ...

  # the store applies the next acquire, its answer never arrives
  $recorder->rule(match => qr{/v1/txn.*"Verb":"lock"}s, action => 'lose_reply',
    count => 1);
  ...
  # a late duplicate of what was sent then
  my ($acquire) = $recorder->requests(qr{/v1/txn});
  my $reply = $recorder->replay($acquire);

=head1 DESCRIPTION

Where toxiproxy sees bytes, this sees requests: it can lose the reply to one
request and let the next one pass, count requests, and send one again later,
byte for byte.  It speaks plain HTTP/1.1 with keep-alive, one request at a
time on each connection.

=cut

package LeaderElection::Recorder;

use strict;
use warnings;

use parent 'LeaderElection::Process';

use Carp;
use IO::Select;
use IO::Socket::INET;
use JSON::PP ();
use LeaderElection::Util;
use MIME::Base64 qw(decode_base64 encode_base64);
use PostgreSQL::Test::Utils ();

# The two sides of this module talk by Storable: JSON in plain Perl takes so long
# for a large answer that the others are late.
use Storable ();

=pod

=head1 METHODS

=over

=item new($name, $upstream), start()

In front of host:port.

=item url(), host_port()

=cut

sub new
{
	my ($class, $name, $upstream) = @_;
	my $self = $class->SUPER::new("recorder_$name");
	my ($script) = $0 =~ m{([^/]+?)(\.[^.]*)?$};

	$self->{upstream} = $upstream;
	$self->{port} = free_port();
	$self->{dir} =
	  "$PostgreSQL::Test::Utils::tmp_check/t_${script}_$self->{name}";
	$self->{log} =
	  "$PostgreSQL::Test::Utils::log_path/${script}_$self->{name}.log";
	$self->{rules} = [];
	mkdir $self->{dir};
	return $self;
}

sub start
{
	my ($self) = @_;
	my ($module) = $INC{'LeaderElection/Recorder.pm'};

	$self->_write_rules;
	$self->spawn(
		cwd => $self->{dir},
		log => $self->{log},
		command => [
			$^X, '-I', $module =~ s{/LeaderElection/[^/]*$}{}r,
			'-MLeaderElection::Recorder', '-e', 'LeaderElection::Recorder::_serve(@ARGV)',
			$self->{port}, $self->{upstream}
		]);
	poll_until(
		sub {
			IO::Socket::INET->new("127.0.0.1:$self->{port}");
		},
		$self->{name});
	return $self;
}

sub host_port { return "127.0.0.1:$_[0]->{port}"; }
sub url { return 'http://' . $_[0]->host_port; }

=pod

=item rule(match => regexp, action => name, [ count => n ], [ all_but => n ],
[ delay => s ], [ status => n, body => text, headers => hash ])

Applies the action to requests whose "METHOD path\nbody" matches, to the next n of
them (default: all), or to all but each n-th; transaction values appear decoded in
that text, after the body, one per line.  The first rule that matches counts.  Actions:

  lose_reply    forward, then close the connection without a reply
  hang_reply    forward, then never reply
  lose_request  close the connection, do not forward
  hang_request  do not forward, never reply
  delay_request wait before forwarding
  delay_reply   forward, wait before replying
  hold_request  wait before forwarding, until the rule is gone
  hold_reply    forward, wait before replying, until the rule is gone
  answer        do not forward, reply with status, headers and body

Returns the number of the rule.

=item remove_rule($number), clear_rules()

A request or reply that is held goes on when its rule is gone.

=cut

sub rule
{
	my ($self, %rule) = @_;
	my $id = ++$self->{last_rule};

	$rule{match} = "$rule{match}" if ref $rule{match};
	push @{ $self->{rules} }, { %rule, id => $id };
	$self->_write_rules;
	return $id;
}

sub remove_rule
{
	my ($self, $id) = @_;

	$self->{rules} = [ grep { $_->{id} != $id } @{ $self->{rules} } ];
	$self->_write_rules;
	return;
}

sub clear_rules
{
	my ($self) = @_;

	$self->{rules} = [];
	$self->_write_rules;
	return;
}

sub _write_rules
{
	my ($self) = @_;
	my $file = "$self->{dir}/rules";

	Storable::store($self->{rules}, "$file.new");
	rename("$file.new", $file) or croak "could not rename $file: $!";
	return;
}

=pod

=item mark()

A position in the record, for requests().

=item requests([ $pattern ], [ $since ])

The requests so far: a list of hashes with method, path, body, text (what
rules match), received and, if there was an answer from the store, status,
reply and answered; times in nanoseconds of CLOCK_BOOTTIME; action if a rule
applied.

=item wait_for_request($pattern, [ $since ], [ timeout => s ])

Polls until such a request was answered by the store, and returns it.

=cut

sub mark
{
	my ($self) = @_;

	return -s "$self->{dir}/record" // 0;
}

sub requests
{
	my ($self, $pattern, $since) = @_;
	my (%request, @ids);

	open(my $fh, '<', "$self->{dir}/record") or return;
	if ($since)
	{
		# an entry that was being written at the mark came before it
		seek($fh, $since - 1, 0);
		<$fh>;
	}
	while (my $line = <$fh>)
	{
		last if $line !~ /\n$/;    # it is being written

		my $entry = Storable::thaw(decode_base64($line));
		my $id = $entry->{id};

		if (defined $entry->{method})
		{
			next if $pattern && $entry->{text} !~ $pattern;
			push @ids, $id;
			$request{$id} = $entry;
		}
		elsif ($request{$id})
		{
			$request{$id} = { %{ $request{$id} }, %$entry };
		}
	}
	return map { $request{$_} } @ids;
}

sub wait_for_request
{
	my ($self, $pattern, $since, %params) = @_;

	return poll_until(
		sub {
			my ($first) =
			  grep { defined $_->{status} } $self->requests($pattern, $since);

			return $first;
		},
		"request like $pattern",
		%params);
}

=pod

=item replay($request)

Sends the recorded request to the store, past this proxy, and returns
{ status, body, json }.

=back

=cut

sub replay
{
	my ($self, $request) = @_;
	my %options = (headers => $request->{headers} // {});

	$options{content} = $request->{body} if $request->{method} ne 'GET';
	require LeaderElection::HTTP;
	my $reply = LeaderElection::HTTP->new(
		timeout => $LeaderElection::Util::timeout_default)->request($request->{method},
		"http://$self->{upstream}$request->{path}", \%options);

	return {
		status => $reply->{status},
		body => $reply->{content},
		json => scalar eval {
			JSON::PP->new->utf8->allow_nonref->decode($reply->{content});
		}
	};
}

#
# The proxy process: one loop over all connections.
#
# A connection is a hash of its client and upstream sockets, what was read of
# the request and of the reply, and the request under way.
#

my ($select, %by_socket, @timers, $record, %used);

sub _serve
{
	my ($port, $upstream) = @_;
	my $listener = IO::Socket::INET->new(
		LocalAddr => '127.0.0.1',
		LocalPort => $port,
		Listen => 128,
		ReuseAddr => 1) or die "listen: $!";

	local $SIG{PIPE} = 'IGNORE';
	open($record, '>>', 'record') or die "record: $!";
	$record->autoflush(1);
	$select = IO::Select->new($listener);
	for (;;)
	{
		my $now = boottime_ns();
		my $wait = 1;

		foreach my $timer (splice @timers)
		{
			if ($timer->[0] <= $now)
			{
				$timer->[1]->();
			}
			else
			{
				my $left = ($timer->[0] - $now) / 1e9;

				$wait = $left if $left < $wait;
				push @timers, $timer;
			}
		}
		foreach my $socket ($select->can_read($wait))
		{
			if ($socket == $listener)
			{
				my $client = $listener->accept or next;
				my $connection = { client => $client, in => '', out => '' };

				$by_socket{ fileno $client } = [ 'client', $connection ];
				$select->add($client);
				next;
			}

			my ($side, $connection) =
			  @{ $by_socket{ fileno($socket) // next } // next };
			my $buffer = $side eq 'client' ? \$connection->{in}
			  : \$connection->{out};
			my $got =
			  sysread($socket, $$buffer, 65536, length $$buffer);

			if ($side eq 'client')
			{
				$got ? _request($connection, $upstream) : _close($connection);
			}
			else
			{
				_reply($connection, !$got);
			}
		}
	}
}

sub _close
{
	my ($connection) = @_;

	$connection->{closed} = 1;
	foreach my $side ('client', 'upstream')
	{
		my $socket = delete $connection->{$side} or next;

		$select->remove($socket);
		delete $by_socket{ fileno $socket };
		close $socket;
	}
	return;
}

sub _after
{
	my ($seconds, $connection, $code) = @_;

	push @timers,
	  [ boottime_ns() + $seconds * 1e9,
		sub { $code->() unless $connection->{closed} } ];
	return;
}

sub _when_gone
{
	my ($rule, $connection, $code) = @_;

	return $code->()
	  unless grep { $_->{id} == $rule->{id} } @{ Storable::retrieve('rules') };
	return _after(0.02, $connection, sub { _when_gone($rule, $connection, $code) });
}

sub _send
{
	my ($socket, $data) = @_;

	while (length $data)
	{
		my $sent = syswrite($socket, $data) // return;

		substr($data, 0, $sent) = '';
	}
	return;
}

# Splits a message into head and body if it is complete.
sub _message
{
	my ($buffer, $bodiless, $ended) = @_;

	$buffer =~ /\r\n\r\n/g or return;
	my $start = pos $buffer;
	my $head = substr($buffer, 0, $start);

	return ($head, '', $start) if $bodiless;
	if ($head =~ /^content-length:\s*(\d+)/im)
	{
		return if length($buffer) < $start + $1;
		return ($head, substr($buffer, $start, $1), $start + $1);
	}
	if ($head =~ /^transfer-encoding:\s*chunked/im)
	{
		my ($at, $body) = ($start, '');

		for (;;)
		{
			pos($buffer) = $at;
			$buffer =~ /\G([0-9a-f]+)[^\r]*\r\n/gi or return;
			my ($size, $data) = (hex $1, pos $buffer);

			return if length($buffer) < $data + $size + 2;
			return ($head, $body, $data + 2) if $size == 0;
			$body .= substr($buffer, $data, $size);
			$at = $data + $size + 2;
		}
	}
	return ($head, '', $start) if $head =~ m{^[A-Z]+ };    # a request
	return $ended ? ($head, substr($buffer, $start), length $buffer) : ();
}

sub _matching_rule
{
	my ($text) = @_;

	foreach my $rule (@{ Storable::retrieve('rules') })
	{
		next
		  if defined $rule->{count}
		  && ($used{ $rule->{id} } // 0) >= $rule->{count};
		next unless $text =~ /$rule->{match}/;
		$used{ $rule->{id} }++;
		next if $rule->{all_but} && $used{ $rule->{id} } % $rule->{all_but} == 0;
		return $rule;
	}
	return { action => '' };
}

my $last_id = 0;

sub _request
{
	my ($connection, $upstream) = @_;

	return if $connection->{request};
	my ($head, $body, $length) = _message($connection->{in}) or return;
	my $raw = substr($connection->{in}, 0, $length, '');
	my ($method, $path) = $head =~ m{^(\S+) (\S+)};
	my %headers = $head =~ /^([^:\s]+):[ \t]*(.*?)\r$/mg;
	my $text = "$method $path\n$body";

	delete @headers{ grep { /^(host|connection|content-length|expect)$/i }
		  keys %headers };
	$text .= "\n" . decode_base64($1) while $body =~ /"Value":\s*"([^"]*)"/g;

	my $rule = _matching_rule($text);

	$connection->{request} = {
		id => ++$last_id,
		raw => $raw,
		method => $method,
		rule => $rule
	};
	_record(
		id => $last_id,
		method => $method,
		path => $path,
		headers => \%headers,
		body => $body,
		text => $text,
		received => boottime_ns(),
		($rule->{action} ? (action => $rule->{action}) : ()));

	if ($rule->{action} eq 'lose_request')
	{
		_close($connection);
	}
	elsif ($rule->{action} eq 'hang_request')
	{
		# nothing, until the client gives up
	}
	elsif ($rule->{action} eq 'answer')
	{
		my $content = $rule->{body} // '';
		my %extra = %{ $rule->{headers} // {} };

		_send($connection->{client},
			join("\r\n",
				"HTTP/1.1 $rule->{status} Made Up",
				(map { "$_: $extra{$_}" } sort keys %extra),
				'Content-Length: ' . length $content,
				'', $content));
		$connection->{request} = undef;
		_request($connection, $upstream);
	}
	elsif ($rule->{action} eq 'delay_request')
	{
		_after($rule->{delay}, $connection,
			sub { _forward($connection, $upstream) });
	}
	elsif ($rule->{action} eq 'hold_request')
	{
		_when_gone($rule, $connection,
			sub { _forward($connection, $upstream) });
	}
	else
	{
		_forward($connection, $upstream);
	}
	return;
}

sub _forward
{
	my ($connection, $upstream) = @_;

	if (!$connection->{upstream})
	{
		my $socket = IO::Socket::INET->new(PeerAddr => $upstream, Timeout => 2);

		return _close($connection) unless $socket;
		$connection->{upstream} = $socket;
		$connection->{to} = $upstream;
		$by_socket{ fileno $socket } = [ 'upstream', $connection ];
		$select->add($socket);
	}
	_send($connection->{upstream}, $connection->{request}{raw});
	return;
}

sub _reply
{
	my ($connection, $ended) = @_;
	my $request = $connection->{request};
	my ($head, $body, $length);

	($head, $body, $length) = _message(
		$connection->{out},
		$request->{method} eq 'HEAD'
		  || $connection->{out} =~ m{^HTTP/1.. (1..|204|304)},
		$ended) if $request;
	if (!$length)
	{
		_close($connection) if $ended;
		return;
	}

	my $raw = substr($connection->{out}, 0, $length, '');
	my $rule = $request->{rule};
	my ($status) = $head =~ m{^HTTP/1\.. (\d+)};

	_record(
		id => $request->{id},
		status => $status,
		reply => $body,
		answered => boottime_ns());

	my $deliver = sub {
		_send($connection->{client}, $raw);
		return _close($connection) if $ended;
		$connection->{request} = undef;
		_request($connection, $connection->{to});
	};

	if ($rule->{action} eq 'lose_reply')
	{
		_close($connection);
	}
	elsif ($rule->{action} eq 'delay_reply')
	{
		_after($rule->{delay}, $connection, $deliver);
	}
	elsif ($rule->{action} eq 'hold_reply')
	{
		_when_gone($rule, $connection, $deliver);
	}
	elsif ($rule->{action} ne 'hang_reply')
	{
		$deliver->();
	}
	return;
}

sub _record
{
	my (%entry) = @_;

	print $record encode_base64(Storable::freeze(\%entry), '') . "\n";
	return;
}

1;
