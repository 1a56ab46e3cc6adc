/*-------------------------------------------------------------------------
 *
 * clone.c
 *		Is this instance a clone of another that lives?
 *
 * src/core/clone.c
 *
 *-------------------------------------------------------------------------
 */
#include "core/clone.h"

/* It becomes the present one; if there are too many, the oldest goes. */
void
le_add_system(LeSystems *systems, uint64_t id)
{
	LeSystems	before = *systems;
	int			n = 0;

	systems->ids[n++] = id;
	for (int i = 0; i < LE_MAX_SYSTEMS && n < LE_MAX_SYSTEMS; i++)
		if (before.ids[i] != id)
			systems->ids[n++] = before.ids[i];
}

/* An identifier that both have or had; 0: none. */
uint64_t
le_shared_system(const LeSystems *a, const LeSystems *b)
{
	for (int i = 0; i < LE_MAX_SYSTEMS && a->ids[i] != 0; i++)
		for (int k = 0; k < LE_MAX_SYSTEMS && b->ids[k] != 0; k++)
			if (a->ids[i] == b->ids[k])
				return a->ids[i];
	return 0;
}

/*
 * The other instance, as seen by one that tells these identifiers and joined
 * at this index.
 *
 * The traces of a crash, of this very instance perhaps, look alive in the
 * store for a while.  So nobody is an original before its signs of life tell
 * more.  One that has stepped back itself, or may not lead for other reasons,
 * does not make anybody step back.  Nor does a primary make its
 * former standby ("promoted"), which has its identifier: whoever promotes it
 * means it to take over.
 */
LeKinship
le_kinship(const LeSystems *systems, uint64_t since, bool promoted,
		   const LeInstance *other)
{
	bool		follows = promoted && systems->ids[0] == other->systems.ids[0];
	bool		older = other->contends && other->since < since && !follows;

	if (le_shared_system(systems, &other->systems) == 0 || other->silent)
		return LE_KIN_NONE;
	if (!other->lives)
		return older ? LE_KIN_UNCLEAR : LE_KIN_NONE;
	return older ? LE_KIN_ORIGINAL : LE_KIN_OTHER;
}
