
=pod

=head1 NAME

LeaderElection::Fuzz - SQL at random, with every function of the extension

=head1 SYNOPSIS

  my $fuzz = LeaderElection::Fuzz->new(functions => [...], seed => 7,
    bytes => [ 0x80 .. 0xff ]);
  print $fuzz->script(20);

=head1 DESCRIPTION

Statements of one session, made from a seed: calls with arguments that nobody in
his right mind would give, and in every place where SQL lets a function be
called: in transactions, savepoints, cursors, triggers, procedures, beside
settings that change and sessions that are canceled.  Some are not even SQL.

Nothing here knows what a function does; their names and the types of their
arguments come from the catalog, so that a new function is called, too.

=cut

package LeaderElection::Fuzz;

use strict;
use warnings;

use Carp;

# Few, so that sessions meet.
use constant ELECTIONS => qw(a b c/d e.f-g_h);

=pod

=head1 METHODS

=over

=item new(%params)

functions: array of { name, kind (f or p), types, names, required }, as
query() finds them; seed; bytes: what a text may hold beside ASCII, as numbers
of characters or, where the encoding of the database is none, of bytes;
escape: how such a number is written in a literal (sprintf format).

=item query()

Class method: the SQL that finds the functions.

=cut

sub new
{
	my ($class, %params) = @_;

	return bless {%params}, $class;
}

sub query
{
	return <<'END';
SELECT p.proname, p.prokind,
	(SELECT string_agg(a.type::regtype::text, ',' ORDER BY a.n)
		FROM unnest(p.proargtypes) WITH ORDINALITY AS a (type, n)),
	array_to_string(p.proargnames[1:p.pronargs], ','),
	p.pronargs - p.pronargdefaults, p.proretset
FROM pg_proc p
JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass
	AND d.refobjid = e.oid AND d.deptype = 'e'
WHERE e.extname = 'leader_election'
ORDER BY p.proname
END
}

=pod

=item functions($rows)

Class method: what query() gave, as new() takes it.

=cut

sub functions
{
	my ($class, $rows) = @_;
	my @functions;

	foreach my $row (split /\n/, $rows)
	{
		my ($name, $kind, $types, $names, $required) = split /\|/, $row, -1;

		push @functions,
		  {
			name => $name,
			kind => $kind,
			types => [ split /,/, $types ],
			names => [ split /,/, $names ],
			required => $required
		  };
	}
	return \@functions;
}

sub _one
{
	return $_[ rand @_ ];
}

# ---- arguments ----

sub _literal
{
	my ($self, @codes) = @_;

	return "E'" . join(
		'',
		map {
			    $_ > 126 ? sprintf($self->{escape}, $_)
			  : $_ < 32 || $_ == 39 || $_ == 92 || $_ == 36
			  ? sprintf('\\%03o', $_)
			  : chr
		} @codes) . "'";
}

# Characters of any kind; NUL cannot be written at all.
sub _noise
{
	my ($self, $length) = @_;

	return $self->_literal(
		map {
			    rand() < 0.4 ? 32 + int(rand 95)
			  : rand() < 0.3 ? 1 + int(rand 31)
			  : _one(@{ $self->{bytes} })
		} 1 .. $length);
}

sub _election
{
	my ($self) = @_;
	my $chance = rand();

	return "'" . _one(ELECTIONS) . "'" if $chance < 0.75;
	return $self->_noise(1 + int(rand 12)) if $chance < 0.82;
	return _one(
		"''", 'NULL', "'.'", "'..'", "'/'", "'a/'", "'/a'", "'a//b'", "'a/../b'",
		"' a'", "'a b'", "'%'", "'%2e%2e'", "'a%00'", "'\$'", "repeat('n', 200)",
		"repeat('n', 201)", "repeat('n/', 99) || 'n'", "repeat('n', 100000)");
}

sub _text
{
	my ($self, $name) = @_;
	my $chance = rand();

	return $self->_election if $name eq 'election';
	return 'NULL' if $chance < 0.1;
	if ($name eq 'scope' && $chance < 0.9)
	{
		return "'" . _one(qw(node session session transaction transaction)) . "'";
	}
	return "'" . _one(qw(none cancel cancel Cancel)) . "'"
	  if $name eq 'on_loss' && $chance < 0.9;
	return "'" . _one(qw(j1 j2 j3)) . "'" if $name eq 'job' && $chance < 0.7;
	return $self->_quoted($self->_command)
	  if $name eq 'command' && $chance < 0.9;
	return $self->_noise(1 + int(rand 60)) if $chance < 0.4;
	return _one(
		"''", "' '", q('{"a": [1, 2.5e300, "\u0041", null]}'), q('{"a"'), q('"'),
		q('\\'), "repeat('[', 2000)", "repeat('v', 1024)", "repeat('v', 1025)",
		"repeat('v', 1000000)", q('null'), q('1e999999'), q('"\ud800"'), q(E'\\xc3'), q(E'\\xff\\xfe'));
}

sub _interval
{
	my ($self) = @_;

	return _one(
		"'0'", "'0'", "'1 ms'", "'20 ms'", "'50 ms'", "'300 ms'", "'1 s'", "'-1 s'",
		"'1 us'", "'999 us'", "'1 month'", "'1 month -30 days'", "'-1 month 1 year'",
		'NULL', "'178000000 years'", "'-178000000 years'", "'2562047788:00:54.775807'",
		"'infinity'", "'1 day'", "'25 days'", "'366 days'");
}

sub _time
{
	my ($self) = @_;

	return _one(
		"date_trunc('second', now())", "date_trunc('second', now())",
		"date_trunc('minute', now())", 'now()', "now() - interval '1 hour'",
		"'infinity'", "'-infinity'", 'NULL', "'4714-11-24 BC'",
		"'294276-12-31 23:59:59.999'", "'epoch'", "'2000-01-01 00:00:00.001Z'",
		"'1969-12-31 23:59:59.999999Z'");
}

sub _relation
{
	return _one(
		"'guard'", "'guard'", "'guard'", "'guarded_view'", "'guard_pkey'", "'fuzz'",
		"'pg_class'", "'parted'", "'seq'", '0', '4294967295', "'nobody'", 'NULL');
}

sub _argument
{
	my ($self, $type, $name) = @_;

	return $self->_text($name) if $type eq 'text';
	return $self->_interval if $type eq 'interval';
	return $self->_time if $type =~ /^timestamp/;
	return $self->_relation if $type eq 'regclass';
	return _one('true', 'false', 'NULL') if $type eq 'boolean';
	return _one(0, 1, -1, 'NULL', 2147483647) if $type =~ /int/;
	return 'NULL';
}

sub _call
{
	my ($self, $kind) = @_;
	my $f = _one(grep { !$kind || $_->{kind} eq $kind } @{ $self->{functions} });
	my $named = rand() < 0.4;
	my @arguments;

	foreach my $i (0 .. $#{ $f->{types} })
	{
		if ($i >= $f->{required})
		{
			next if $named && rand() < 0.5;
			last if !$named && rand() < 0.4;
		}

		my $value = $self->_argument($f->{types}[$i], $f->{names}[$i]);

		# Calls that would leave the others nothing to do come but seldom.
		$value = "'20 ms'"
		  if $f->{names}[$i] eq 'hold_off' && rand() < 0.97;
		push @arguments, ($named ? "\"$f->{names}[$i]\" => " : '') . $value;
	}
	# the search path changes
	return ("public.$f->{name}(" . join(', ', @arguments) . ')', $f->{kind});
}

sub _function
{
	my ($self) = @_;

	return ($self->_call('f'))[0];
}

# ---- statements ----

# Dollar quotes may stand in each other, so each has a name of its own.
sub _quoted
{
	my ($self, $text) = @_;
	my $tag = '$q' . ++$self->{quotes} . '$';

	return "$tag$text$tag";
}

sub _simple
{
	my ($self) = @_;
	my ($call, $kind) = $self->_call;

	return "CALL $call" if $kind eq 'p';
	return _one('SELECT ', 'SELECT * FROM ') . $call;
}

# Commands for le_run() and PL/pgSQL.
sub _command
{
	my ($self) = @_;

	return '' if ++$self->{depth} > 3;

	my $command = _one(
		sub { $self->_simple },
		sub { $self->_simple . '; ' . $self->_simple },
		sub { 'INSERT INTO fuzz VALUES (' . int(rand 100) . ')' },
		sub { 'SELECT pg_sleep(0.0' . int(rand 9) . ')' },
		sub { 'SELECT 1/0' },
		sub { _one('COMMIT', 'ROLLBACK', 'BEGIN', 'SAVEPOINT s', 'DISCARD ALL') },
		sub { "SET statement_timeout = '20 ms'; SELECT pg_sleep(1)" },
		sub { 'SELEKT' },
		sub { 'DO ' . $self->_quoted($self->_block) },
		sub { '' })->();

	$self->{depth}--;
	return $command;
}

sub _block
{
	my ($self) = @_;
	my $inner = $self->_command;
	my $perform = 'PERFORM ' . $self->_function . ';';

	return 'BEGIN '
	  . _one(
		$perform,
		"$perform $perform",
		"BEGIN $perform EXCEPTION WHEN OTHERS THEN " . $self->_plain_perform . ' END;',
		"BEGIN $perform RAISE division_by_zero; EXCEPTION WHEN OTHERS THEN NULL; END;",
		"EXECUTE " . $self->_quoted($inner) . ';',
		'CALL ' . ($self->_call('p'))[0] . ';',
		'FOR i IN 1..5 LOOP ' . $perform . ' ' . _one('COMMIT', 'ROLLBACK')
		  . '; END LOOP;')
	  . ' END';
}

sub _plain_perform
{
	my ($self) = @_;

	return 'PERFORM ' . $self->_function . ';';
}

sub _transaction
{
	my ($self) = @_;

	return _one(
		'COMMIT AND CHAIN', 'SET TRANSACTION READ ONLY', 'COMMIT', 'ROLLBACK',
		'SAVEPOINT s', 'ROLLBACK TO s', "COMMIT PREPARED 'x'",
		"ROLLBACK PREPARED 'x'", "PREPARE TRANSACTION 'x'");
}

# Some statements in a transaction, whose rest is only refused once one has
# failed outside of a savepoint.  None is DEFERRABLE: PostgreSQL breaks its own
# lists of predicate locks when the wait for a safe snapshot is canceled within a
# savepoint and the transaction goes on, also without any extension.
sub _in_transaction
{
	my ($self) = @_;
	my @statements = map { $self->_statement } 0 .. rand 5;

	@statements = map {
		rand() < 0.5 ? $_ : ('SAVEPOINT s', $_, _one('ROLLBACK TO s', 'RELEASE s'))
	} @statements;
	return (
		_one(
			'BEGIN', 'BEGIN', 'BEGIN ISOLATION LEVEL SERIALIZABLE',
			'BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY',
			'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY',
			'BEGIN ISOLATION LEVEL REPEATABLE READ'),
		@statements,
		_one('COMMIT', 'COMMIT', 'COMMIT', 'ROLLBACK', "PREPARE TRANSACTION 'x'"));
}

sub _cursor
{
	my ($self) = @_;
	my $view = _one(qw(le_status le_nodes le_events le_stat le_claims le_jobs));

	return _one(
		"DECLARE k CURSOR FOR SELECT * FROM $view",
		"DECLARE k SCROLL CURSOR WITH HOLD FOR SELECT * FROM $view, generate_series(1, 9)",
		'DECLARE k CURSOR WITH HOLD FOR SELECT ' . $self->_function
		  . ' FROM generate_series(1, 3)',
		'FETCH 1 FROM k', 'FETCH 2 FROM k', 'FETCH ALL FROM k',
		'MOVE BACKWARD 1 IN k', 'CLOSE k', "SELECT * FROM $view LIMIT 1");
}

sub _setting
{
	my ($self) = @_;

	return _one(
		"SET leader_election.on_loss = '" . _one('none', 'cancel') . "'",
		"SET statement_timeout = '" . _one('1 ms', '5 ms', '30 ms', '500 ms') . "'",
		"SET lock_timeout = '" . _one('1 ms', '100 ms') . "'",
		"SET client_encoding = '" . _one(qw(UTF8 LATIN1 SQL_ASCII WIN1252 EUC_JP)) . "'",
		"SET search_path = " . _one('public', "''", 'pg_catalog'),
		'SET ROLE ' . _one('fuzz_worker', 'fuzz_monitor', 'NONE', 'NONE'),
		"SET TimeZone = '" . _one('UTC', 'Asia/Kathmandu', '-15:59:59') . "'",
		"SET IntervalStyle = '" . _one(qw(iso_8601 sql_standard postgres)) . "'",
		"SET $self->{parallel} = " . _one('on', 'off'),
		'RESET ALL', 'RESET ROLE', 'DISCARD ALL', 'DISCARD PLANS', 'LISTEN l', 'NOTIFY l',
		"SET default_transaction_isolation = 'repeatable read'",
		"SET default_transaction_isolation = 'serializable'");
}

sub _odd
{
	my ($self) = @_;
	my $call = $self->_function;

	return _one(
		"SELECT $call FROM generate_series(1, 3)",
		"SELECT * FROM generate_series(1, 3) AS g, LATERAL $call AS f",
		"SELECT 1 WHERE ($call) IS NOT NULL ORDER BY 1",
		"SELECT count(*) FROM (SELECT $call FROM pg_class LIMIT 20) AS s",
		"EXPLAIN (ANALYZE, BUFFERS) SELECT $call",
		"COPY (SELECT $call) TO STDOUT",
		"CREATE TEMP TABLE t" . int(rand 1e9) . " AS SELECT $call AS c",
		"SELECT " . join(', ', map { $self->_function } 1 .. 5),
		"SELECT 1 \\; SELECT $call \\; SELECT 2",
		"PREPARE p AS SELECT $call", 'EXECUTE p', 'DEALLOCATE ALL',
		'INSERT INTO fuzz SELECT generate_series(1, 3)',
		'UPDATE fuzz SET i = i + 1 WHERE i < 3',
		'DELETE FROM fuzz WHERE random() < 0.5', 'TRUNCATE fuzz',
		'DO ' . $self->_quoted($self->_block),
		'CREATE OR REPLACE FUNCTION pg_temp.f() RETURNS text LANGUAGE sql AS '
		  . $self->_quoted("SELECT ($call)::text"),
		'SELECT pg_temp.f()',
		"SELECT le_claim('a', 'j1', date_trunc('second', now())), "
		  . "le_complete('a', 'j1', date_trunc('second', now()))",
		"SELECT le_acquire('a', scope => 'session') AND le_release('a')",
		"SELECT pg_cancel_backend(pid) FROM pg_stat_activity "
		  . "WHERE backend_type = 'client backend' AND random() < 0.05",
		'SELECT pg_sleep(0.0' . int(rand 5) . ')');
}

=pod

=item script($n)

Some n statements, each on a line of its own; the same for the same seed and the
same calls before.

=back

=cut

sub _statement
{
	my ($self) = @_;
	my $chance = rand();

	return
	    $chance < 0.55 ? $self->_simple
	  : $chance < 0.77 ? $self->_odd
	  : $chance < 0.80 ? $self->_transaction
	  : $chance < 0.90 ? $self->_cursor
	  : $self->_setting;
}

sub script
{
	my ($self, $n) = @_;
	my @script;

	srand($self->{seed}++);
	$self->{depth} = 0;
	push @script, rand() < 0.8 ? $self->_statement : $self->_in_transaction
	  while @script < $n;

	# nobody is left in a transaction for good
	return join('', map { "$_;\n" } @script, 'ROLLBACK');
}

1;
