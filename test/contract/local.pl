# Tier: test, 13 s
#
# The contract on the store "local": one instance, no service.

package Contract::Local;

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use parent 'Contract';

use constant lease => 10;

sub start { return; }
sub parameters { return (settings => { lease_ttl => lease() . 's' }); }

my %why = (
	'it elects inside one instance: there is no other' => [
		'a waiter follows a release',
		'a candidate steps down',
		'held by another instance',
		'silence and takeover',
		'claims over a change of leader',
		'many elections change hands',
		'a restart ends what its predecessor led',
		'a shutdown releases all',
		'two instances of one name'
	],
	'its keys are in the memory of the instance: nobody else can make one' =>
	  ["somebody else's key"],
	'it asks nobody, so it has no secret' => [ 'a wrong secret', 'missing rights' ],
	'no request leaves the instance, so none is lost or late' => [
		'an acquire without an answer',
		'a value without an answer',
		'a release without an answer',
		'a claim without an answer',
		'a completion without an answer',
		'no answer at all',
		'copies of what was just sent',
		'copies of a term that is over'
	]);

sub cannot
{
	return map { my $why = $_; map { $_ => $why } @{ $why{$why} } } keys %why;
}

__PACKAGE__->judge;
