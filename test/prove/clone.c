/*-------------------------------------------------------------------------
 *
 * clone.c
 *		Of two that are copies of each other at most one is told to step back.
 *
 * test/prove/clone.c
 *
 *-------------------------------------------------------------------------
 */
#include "prove.h"

/* Identifiers and indexes are compared only, so a few values do for all. */
static uint64_t
any_number(void)
{
	return any_uint32() & 0x1f;
}

static LeSystems
any_systems(int most)
{
	LeSystems	s;

	for (int i = 0; i < LE_MAX_SYSTEMS; i++)
	{
		s.ids[i] = any_number();
		ASSUME(i < most || s.ids[i] == 0);
	}
	return s;
}

/* It matters only whether there is one that both share. */
static LeInstance
any_instance(void)
{
	LeInstance	x;

	x.systems = any_systems(3);
	x.since = any_number();
	x.silent = any_bool();
	x.lives = any_bool();
	x.contends = any_bool();
	return x;
}

static bool
steps_back(LeKinship k)
{
	return k == LE_KIN_UNCLEAR || k == LE_KIN_ORIGINAL;
}

HARNESS(kinship)
{
	LeInstance	a = any_instance();
	LeInstance	b = any_instance();
	bool		promoted = any_bool();
	LeKinship	of_a = le_kinship(&a.systems, a.since, promoted, &b);
	LeKinship	of_b = le_kinship(&b.systems, b.since, false, &a);
	uint64_t	shared = le_shared_system(&a.systems, &b.systems);

	CLAIM((shared != 0) == (le_shared_system(&b.systems, &a.systems) != 0),
		  "copies are copies of each other");
	CLAIM(!(steps_back(of_a) && steps_back(of_b)),
		  "never do both step back");
	CLAIM(IMPLIES(steps_back(of_a), shared != 0 && !b.silent && b.contends &&
				  b.since < a.since),
		  "for one that lives, may lead and joined earlier");
	CLAIM(IMPLIES(of_a == LE_KIN_ORIGINAL, b.lives),
		  "what a crash left is nobody's original");
	CLAIM(IMPLIES(promoted && shared != 0 && !b.silent && b.lives &&
				  b.contends && b.since < a.since &&
				  a.systems.ids[0] != b.systems.ids[0],
				  of_a == LE_KIN_ORIGINAL),
		  "a promoted standby of a copy is a copy");
	CLAIM(IMPLIES(promoted && a.systems.ids[0] == b.systems.ids[0],
				  !steps_back(of_a)),
		  "a promoted standby does not step back for its former primary");
}

HARNESS(shared_systems)
{
	LeSystems	a = any_systems(LE_MAX_SYSTEMS);
	LeSystems	b = any_systems(LE_MAX_SYSTEMS);
	uint32_t	i = any_of(LE_MAX_SYSTEMS);
	uint32_t	k = any_of(LE_MAX_SYSTEMS);

	for (uint32_t j = 0; j < LE_MAX_SYSTEMS; j++)
	{
		ASSUME(IMPLIES(j <= i, a.ids[j] != 0));
		ASSUME(IMPLIES(j <= k, b.ids[j] != 0));
	}
	CLAIM(IMPLIES(a.ids[i] == b.ids[k], le_shared_system(&a, &b) != 0),
		  "whoever had an identifier of the other is a copy");
}

HARNESS(add_system)
{
	LeSystems	s = any_systems(LE_MAX_SYSTEMS);
	LeSystems	was = s;
	uint64_t	id = any_number();
	uint64_t	other = any_number();
	bool		there = false;
	bool		before = false;
	int			last = LE_MAX_SYSTEMS - 1;

	ASSUME(id != 0 && other != 0);
	for (int i = 0; i < LE_MAX_SYSTEMS; i++)
		for (int k = 0; k < i; k++)
			ASSUME(was.ids[i] != id || was.ids[k] != id);
	le_add_system(&s, id);
	for (int i = 0; i < LE_MAX_SYSTEMS; i++)
	{
		there = there || s.ids[i] == other;
		before = before || was.ids[i] == other;
		CLAIM(IMPLIES(i > 0, s.ids[i] != id), "and is there once again");
	}
	CLAIM(s.ids[0] == id, "it is the present one");
	CLAIM(IMPLIES(before && was.ids[last] != other, there),
		  "none but the oldest goes");
}
