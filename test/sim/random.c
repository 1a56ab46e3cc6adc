/*-------------------------------------------------------------------------
 *
 * random.c
 *		All chance, from one seed.
 *
 * test/sim/random.c
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

/* splitmix64: every seed, 0 and 1 too, starts an unrelated sequence. */
uint64
sim_mix(uint64 seed)
{
	seed += UINT64CONST(0x9E3779B97F4A7C15);
	seed = (seed ^ (seed >> 30)) * UINT64CONST(0xBF58476D1CE4E5B9);
	seed = (seed ^ (seed >> 27)) * UINT64CONST(0x94D049BB133111EB);
	return seed ^ (seed >> 31);
}

uint64
sim_random(void)
{
	sim.random += UINT64CONST(0x9E3779B97F4A7C15);
	return sim_mix(sim.random);
}

uint64
sim_below(uint64 n)
{
	return (uint64) (((sim_random() >> 32) * n) >> 32);
}

bool
sim_strikes(int per_million)
{
	if (exhaustive)
		return exhaustive_decide();
	return (int) sim_below(1000000) < per_million;
}

le_duration
sim_span(le_duration least, le_duration most)
{
	if (most <= least)
		return least;
	if (exhaustive)
		return exhaustive_span(least, most);
	return least + (le_duration) (((sim_random() >> 40) *
								   (uint64) ((most - least) >> 10) >> 24)
								  << 10);
}
