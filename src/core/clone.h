/*-------------------------------------------------------------------------
 *
 * clone.h
 *		Is this instance a clone of another that lives?
 *
 * A data directory that was copied from a running instance's, with its
 * configuration, makes a second instance that seeks the same elections, with
 * the same system identifier.  Each primary tells its identifier; of two that
 * live, the one that joined later is the clone.  A standby tells none, so it
 * and its primary are never clones of each other.
 *
 * pg_createsubscriber gives a copy another identifier.  So a primary tells
 * also those that its data directory had earlier, and one that two of them
 * share makes them copies.
 *
 * src/core/clone.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_CLONE_H
#define LE_CLONE_H

#include <stdbool.h>
#include <stdint.h>

#define LE_MAX_SYSTEMS	8

/*
 * The system identifiers that a data directory has had, the present one first,
 * zeros behind the last.  None at all: not told, as by a standby or by an
 * older version.
 */
typedef struct LeSystems
{
	uint64_t	ids[LE_MAX_SYSTEMS];
} LeSystems;

/* An instance, as its node key and its signs of life show it. */
typedef struct LeInstance
{
	LeSystems	systems;
	uint64_t	since;			/* index at which its incarnation joined */
	bool		silent;			/* its session is over, or its lease is */
	bool		lives;			/* it has given more signs of life than a crash
								 * and late messages can leave */
	bool		contends;		/* it may lead */
} LeInstance;

typedef enum LeKinship
{
	LE_KIN_NONE,				/* another system, or it is gone */
	LE_KIN_UNCLEAR,				/* the original, if it lives */
	LE_KIN_ORIGINAL,			/* it is; this one is its clone */
	LE_KIN_OTHER				/* both live; this one need not step back */
} LeKinship;

extern void le_add_system(LeSystems *systems, uint64_t id);
extern uint64_t le_shared_system(const LeSystems *a, const LeSystems *b);
extern LeKinship le_kinship(const LeSystems *systems, uint64_t since,
							bool promoted, const LeInstance *other);

#endif							/* LE_CLONE_H */
