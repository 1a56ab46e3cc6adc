
=pod

=head1 NAME

LeaderElection::Faults::Nemesis - ways to make things go wrong

=head1 DESCRIPTION

A nemesis is a hash:

=over

=item kind

its name, as the report counts it

=item on

what it makes unusable for another nemesis at the same time: link, instance,
store, machine

=item silences

true: nothing that proves a term can reach the instance while it lasts, so its
belief must end by the deadline

=item rare

true: it takes so long that it comes up once where the others come five times

=item first

true: every run begins with it, since without it a check may have nothing to
judge

=item does

code; gets the stage and the target (an instance of the stage; nothing for
store and machine) and returns code that undoes it

=back

A nemesis may tell more in its history, by $stage->{log}: which promise it
breaks by design (exempt), or that others are silenced, too (silence).

=cut

package LeaderElection::Faults::Nemesis;

use strict;
use warnings;

use LeaderElection::Faults::Witness;
use LeaderElection::Node;
use LeaderElection::Util;
use POSIX ();
use PostgreSQL::Test::Utils ();
use Time::HiRes ();

=pod

=head1 FUNCTIONS

=over

=item all()

The ones that do not depend on the store.

=back

=cut

sub all
{
	return (_network(), _processes(), _files(), _machine(), _copies());
}

# ---- between an instance and its store ----

sub _toxic
{
	my ($kind, $silences, @toxics) = @_;

	return {
		kind => $kind,
		on => 'link',
		silences => $silences,
		does => sub {
			my ($stage, $target) = @_;
			my $link = $target->{link};
			my $n = 0;

			foreach my $toxic (@toxics)
			{
				my ($type, $stream, %attributes) =
				  ref $toxic eq 'CODE' ? $toxic->() : @$toxic;

				$link->add('t' . $n++, $type, $stream, %attributes);
			}
			return sub { $link->reset; };
		}
	};
}

sub _network
{
	return (
		_toxic('answers lost', 1, [ 'timeout', 'downstream', timeout => 0 ]),
		_toxic('requests lost', 1, [ 'timeout', 'upstream', timeout => 0 ]),
		_toxic(
			'half-open', 1,
			[ 'timeout', 'downstream', timeout => 0 ],
			[ 'timeout', 'upstream', timeout => 0 ]),
		_toxic(
			'slow network',
			0,
			sub {
				(
					'latency', 'downstream',
					latency => 100 + int(rand 900),
					jitter => int(rand 300));
			},
			[ 'latency', 'upstream', latency => 50, jitter => 50 ]),
		{
			# an answer that came late must not count from when it came
			kind => 'slow network, then half-open',
			on => 'link',
			silences => 1,
			does => sub {
				my ($stage, $target) = @_;
				my $link = $target->{link};

				$link->add('slow', 'latency', 'downstream', latency => 850);
				Time::HiRes::sleep(3.5);
				$link->add('lost', 'timeout', 'downstream', timeout => 0);
				$link->add('gone', 'timeout', 'upstream', timeout => 0);
				return sub { $link->reset; };
			}
		},
		_toxic(
			'answers cut off', 0,
			sub { ('limit_data', 'downstream', bytes => 1 + int(rand 1500)) }),
		_toxic(
			'connections reset', 0,
			[ 'reset_peer', 'downstream', timeout => 0 ]),
		{
			kind => 'connections refused',
			on => 'link',
			silences => 1,
			does => sub {
				my ($stage, $target) = @_;

				$target->{link}->down;
				return sub { $target->{link}->up };
			}
		});
}

# ---- faults of an instance ----

sub _instance
{
	my ($kind, $silences, $does) = @_;

	return {
		kind => $kind,
		on => 'instance',
		silences => $silences,
		does => $does
	};
}

# Back to where clients can work with it.
sub recover
{
	my ($target) = @_;
	my $node = $target->{node};

	poll_until(
		sub { $node->sql('SELECT 1') && $node->worker_pid },
		$node->name . ' to be back',
		timeout => 180,
		interval => 0.1);
	return;
}

sub start
{
	my ($stage, $target) = @_;

	$stage->start_node($target->{node});
	recover($target);
	return;
}

sub _processes
{
	return (
		_instance(
			'worker stopped', 1,
			sub {
				my ($stage, $target) = @_;
				my $pid = $target->{node}->freeze_worker;

				return sub { $target->{node}->thaw_worker($pid) };
			}),
		_instance('worker killed', 0, sub { _signal_worker('KILL', @_) }),
		_instance('worker terminated', 0, sub { _signal_worker('TERM', @_) }),
		_instance('worker terminated under load', 0, \&_torment_worker),
		_instance(
			'postmaster stopped', 0,
			sub {
				my ($stage, $target) = @_;
				my $pid = $target->{node}->postmaster_pid;

				stop_process($pid);
				return sub { kill('CONT', $pid) };
			}),
		_instance(
			'postmaster killed', 0,
			sub {
				my ($stage, $target) = @_;
				my $node = $target->{node};
				my @children = grep { $_ != $node->postmaster_pid }
				  $node->_processes;

				$node->kill9;

				# its leftovers end by themselves; they must not be killed, since
				# their belief is looked at
				return sub {
					poll_until(
						sub { !grep { kill(0, $_) && alive($_) } @children },
						$node->name . ': end of orphans');
					start($stage, $target);
				};
			}),
		_instance(
			'instance killed', 0,
			sub {
				my ($stage, $target) = @_;

				$target->{node}->crash;
				return sub { start($stage, $target) };
			}),
		_instance(
			'instance stopped', 1,
			sub {
				my ($stage, $target) = @_;
				my $node = $target->{node};

				$node->freeze;
				return sub { $node->thaw; recover($target) };
			}),
		_instance(
			'instance restarted', 0,
			sub {
				my ($stage, $target) = @_;

				$target->{node}->stop('fast');
				return sub { start($stage, $target) };
			}),
		_instance(
			'backend killed', 0,
			sub {
				my ($stage, $target) = @_;
				my @backends = backends($target->{node});

				kill('KILL', $backends[ rand @backends ]) if @backends;
				return sub { recover($target) };
			}),
		_instance(
			'session terminated in the middle of a job', 0,
			sub {
				my ($stage, $target) = @_;

				# a node that does not lead is through with it too soon
				foreach my $i (1 .. 5)
				{
					poll_until(
						sub { $target->{node}->sql(<<'END') eq 't' },
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE query LIKE 'CALL le_run%' AND wait_event = 'PgSleep' LIMIT 1
END
						'a job under way',
						timeout => 5,
						interval => 0.02);
				}
				return sub { };
			}),
		_instance(
			'backend stopped', 0,
			sub {
				my ($stage, $target) = @_;
				my @backends = backends($target->{node});
				my $pid = @backends ? $backends[ rand @backends ] : undef;

				stop_process($pid) if $pid;
				return sub { kill('CONT', $pid) if $pid };
			}));
}

sub _signal_worker
{
	my ($signal, $stage, $target) = @_;

	$target->{node}->kill_worker($signal);
	return sub { recover($target) };
}

sub alive
{
	my ($pid) = @_;

	open(my $fh, '<', "/proc/$pid/stat") or return 0;
	return (<$fh> // '') !~ /^\d+ \(.*\) [ZX]/;
}

# Server processes of client connections.
sub backends
{
	my ($node) = @_;

	return grep {
		open(my $fh, '<', "/proc/$_/cmdline");
		$fh && (<$fh> // '') =~ /^postgres: .* \[local\] /;
	} $node->_processes;
}

# Callers get the worker's answer, the next one's, or none. No worker lives for
# long, and the store always has requests of one that is gone.
sub _torment_worker
{
	my ($stage, $target) = @_;
	my @clients = $stage->load($target);
	my $parent = $$;
	my $pid = fork() // die "fork: $!";

	if ($pid == 0)
	{
		$SIG{TERM} = 'DEFAULT';
		srand($$);
		while (getppid() == $parent)
		{
			eval { $target->{node}->kill_worker('TERM') };
			Time::HiRes::sleep(0.05 + rand 2.5);
		}
		POSIX::_exit(0);
	}
	return sub {
		kill('KILL', $pid);
		waitpid($pid, 0);
		recover($target);
		$stage->unload(@clients);
	};
}

# ---- faults of its files ----

# The files that we write: the store session, for the next incarnation, and the
# highest tokens. (Claims are written by the store local only.) Half of the time the
# one that could not write is not there any more when there is room again.
sub _full_disk
{
	my ($what, @names) = @_;

	return _instance(
		"disk full under $what", 0,
		sub {
			my ($stage, $target) = @_;
			my $chance = rand();

			$stage->fill_disk($target, @names);
			Time::HiRes::sleep(rand 3);
			if ($chance < 0.3)
			{
				$target->{node}->crash;
				start($stage, $target);
			}
			elsif ($chance < 0.6)
			{
				$target->{node}->kill_worker('TERM');
			}
			return sub {
				if (rand() < 0.3)
				{
					$target->{node}->crash;
					$stage->free_disk($target);
					start($stage, $target);
				}
				$stage->free_disk($target);
				recover($target);
			};
		});
}

# One slip of the pen, of those that people make: a value, a name, a quote, a
# number that goes with no other.  They come in turn, those first that would do
# most harm.
my @at_start = (
	"leader_election.backend = 'consull'",
	"leader_election.consul_urll = 'http://127.0.0.1:1'",
	"leader_election.consul_key_prefix = 'app/'",
	"leader_election.campaign = 'job/1,, job//2'",
	"leader_election.eligible = 'offf'");

# For an instance that runs only: with the default lease instead of the one that
# all have, the promises would be judged by another's, and with the last the server
# rightly does not start.
my @at_reload = (
	@at_start,
	"leader_election.lease_ttl = '5 sec'",
	"leader_election.safety_margin = '4s'",
	"leader_election.request_timeout = 1s5",
	"leader_election.lease_ttl = '5s");

sub _typo
{
	my ($restart) = @_;
	my @typos = $restart ? @at_start : @at_reload;

	return _instance(
		$restart ? 'restarted with a typo' : 'settings reloaded with a typo', 0,
		sub {
			my ($stage, $target) = @_;
			my $node = $target->{node};
			my $file = $node->data_dir . '/postgresql.conf';
			my $right = PostgreSQL::Test::Utils::slurp_file($file);

			push @typos, shift @typos;
			$node->append_conf('postgresql.conf', $typos[-1]);
			if ($restart)
			{
				$node->stop('fast');
				$stage->start_node($node, fail_ok => 1);
			}
			else
			{
				$node->reload;
				$node->kill_worker('TERM') if rand() < 0.3;
			}
			return sub {
				open(my $fh, '>', $file) or die "$file: $!";
				print $fh $right;
				close $fh;
				if ($restart)
				{
					$node->stop('fast', fail_ok => 1);
					start($stage, $target);
				}
				else
				{
					$node->reload;
				}
				recover($target);
			};
		});
}

sub _files
{
	return (
		_full_disk('the store session', 'leader_election.session'),
		_full_disk('the tokens', 'leader_election.tokens'),
		_full_disk('all our files', 'leader_election.'),
		_typo(0), _typo(1));
}

# ---- faults of the machine ----

sub _machine
{
	return (
		{
			kind => 'CPU starved',
			on => 'machine',
			does => sub {
				my @pids;

				foreach my $i (1 .. 6)
				{
					my $pid = fork() // die "fork: $!";

					if ($pid == 0)
					{
						my $until = time() + 60;

						$SIG{TERM} = 'DEFAULT';
						1 while time() < $until;
						POSIX::_exit(0);
					}
					push @pids, $pid;
				}
				return sub {
					kill('KILL', @pids);
					waitpid($_, 0) foreach @pids;
				};
			}
		},
		{
			kind => 'wall clock jumped by an hour',
			on => 'clock',
			does => sub {
				my ($stage) = @_;
				my $target = $stage->{faked};
				my $offset = rand() < 0.5 ? 3600 : -3600;

				$stage->jump($offset);
				return sub { $stage->jump(0) };
			}
		});
}

# ---- more instances than there should be ----

sub _copies
{
	return (
		{
			kind => 'standby promoted',
			on => 'instance',
			does => sub {
				my ($stage, $target) = @_;
				my $name = $stage->another('p');
				my $node = $target->{node};

				$node->backup($name);
				my $standby = $stage->add(
					$name,
					backup => [ $node, $name, has_streaming => 1 ]);

				recover($standby);
				$standby->{node}->promote;
				return sub {
					$stage->remove($standby);
					PostgreSQL::Test::Utils::system_log('rm', '-rf',
						$node->backup_dir . "/$name");
				};
			}
		},
		{
			kind => 'clone started',
			on => 'instance',
			does => sub {
				my ($stage, $target) = @_;
				my $name = $stage->another('c');
				my $node = $target->{node};
				my $copy = $node->backup_dir . "/$name";

				# As a snapshot of its disk has it: one instant, everything
				# included, also what a backup would leave out.
				mkdir $node->backup_dir;
				$node->freeze;
				eval {
					PostgreSQL::Test::Utils::system_or_bail('cp', '-a',
						$node->data_dir, $copy);
					1;
				} or warn $@;
				$node->thaw;
				unlink "$copy/postmaster.pid";

				my $clone = $stage->add(
					$name,
					backup => [ $node, $name ],
					settings => { node_name => $node->name });

				return sub {
					$stage->remove($clone);
					PostgreSQL::Test::Utils::system_log('rm', '-rf', $copy);
				};
			}
		});
}

1;
