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

/*
 * The other instance, as seen by one that tells this identifier and joined at
 * this index.
 *
 * What a crash leaves in the store, of this very instance perhaps, looks alive
 * until its lease is over.  So nobody is an original before he has given a
 * sign of life.  One that has stepped back itself, or may not lead for other
 * reasons, does not make anybody step back.  Nor does a primary make its
 * former standby ("promoted"): whoever promotes it means it to take over.
 */
LeKinship
le_kinship(uint64_t system, uint64_t since, bool promoted,
		   const LeInstance *other)
{
	bool		older = other->contends && other->since < since && !promoted;

	if (system == 0 || other->system != system || other->silent)
		return LE_KIN_NONE;
	if (!other->moved)
		return older ? LE_KIN_UNCLEAR : LE_KIN_NONE;
	return older ? LE_KIN_ORIGINAL : LE_KIN_OTHER;
}
