/*-------------------------------------------------------------------------
 *
 * clones.c
 *		Instances that share a system identifier with this one.
 *
 * core/clone.c says which of two is the clone.  Here is what follows from it:
 * the clone steps back, marks its data directory, and both tell people.
 *
 * src/worker/view/clones.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"

#include "core/clone.h"
#include "settings.h"
#include "shmem/clock.h"
#include "shmem/events.h"
#include "worker/base/context.h"
#include "worker/disk/clonefile.h"
#include "worker/view/cache.h"
#include "worker/view/clones.h"

static void
forget_mark(void)
{
	le_table->unclear_until = 0;
	if (le_table->clone_of[0] == '\0')
		return;
	le_clonefile_remove();
	le_set_clone_of("");
	ereport(LOG,
			(errmsg("this instance does not count as a clone any more")));
}

/*
 * Does this instance tell others its identifiers?  Not if it is a standby or
 * may lead as a clone.  Those are no clones, whatever they were.
 */
bool
le_clones_show_systems(void)
{
	bool		recovers = RecoveryInProgress();
	bool		follows = recovers && le_follows_primary();

	le_table->promoted = le_table->promoted || follows;
	if (follows || le_clone_eligible)
		forget_mark();
	return !recovers && !le_clone_eligible;
}

/*
 * The namespace of keys that instances share, with the store and its servers.
 * In another one this instance is nobody's clone.  All servers, as set: the
 * one that is asked changes with each that fails.
 */
static const char *
namespace_text(const LeNamespace *ns)
{
	const LeStore *store = le_configured_store();

	return psprintf("%s:%s:%s:%s", store->name, ns->part, ns->prefix,
					store->servers.urls());
}

static bool
had_system(uint64 system)
{
	LeSystems	one = {{system}};

	return le_shared_system(&one, &le_table->systems) != 0;
}

/* After a start or a reload: what has been found out before. */
void
le_clones_configure(void)
{
	const LeStore *store = le_configured_store();
	LeNamespace ns = {0};
	LeClonemark mark;
	LeSystems	systems = {{0}};
	bool		known = le_table->clone_of[0] != '\0';

	le_clonefile_systems(&systems);
	le_set_systems(&systems);
	if (!store->has_sessions)
		return;
	store->settings.namespace(&ns);
	if (!le_clonefile_read(&mark) || !had_system(mark.system) ||
		strncmp(mark.namespace, namespace_text(&ns),
				sizeof(mark.namespace) - 1) != 0)
		mark.original[0] = '\0';
	le_set_clone_of(mark.original);
	(void) le_clones_show_systems();
	if (le_table->clone_of[0] != '\0' && !known)
		ereport(LOG,
				(errmsg("this instance is a clone of node \"%s\" and does not lead",
						le_table->clone_of),
				 errdetail("File \"%s\" says so.", LE_CLONE_FILE)));
}

/*
 * The index of a new node key.  It is the incarnation's first one, in this
 * namespace, or the store counts anew.
 */
void
le_clones_joined(uint64 index)
{
	const char *here = namespace_text(&le_table->namespace);

	if (le_table->since != 0 && index >= le_table->since &&
		strncmp(le_table->joined, here, sizeof(le_table->joined) - 1) == 0)
		return;
	le_table->since = index;
	strlcpy(le_table->joined, here, sizeof(le_table->joined));
}

static LeKinship
kinship(LeWorker *w, const LeNodeInfo *info)
{
	LeInstance	other = {.systems = info->systems};

	if (info->self || !le_table->shows_systems)
		return LE_KIN_NONE;
	other.since = info->since;
	other.silent = !info->held || info->revoked ||
		le_now() >= le_cache_silent_at(w->cache, info);
	other.lives = le_cache_lives(info);
	other.contends = info->unfit[0] == '\0' ||
		strcmp(info->unfit, "refused") == 0;	/* by the store, for now */
	return le_kinship(&le_table->systems, le_table->since, le_table->promoted,
					  &other);
}

static void
warn(LeNodeInfo *info)
{
	if (info->told)
		return;
	info->told = true;
	ereport(WARNING,
			(errmsg("live node \"%s\" shares a system identifier with this one",
					info->node),
			 errdetail("Both are primaries that have, or had, identifier " UINT64_FORMAT "; its store session is %s.",
					   le_shared_system(&info->systems, &le_table->systems),
					   info->session),
			 errhint("Give a copy of this instance another prefix or store, or an empty \"leader_election.campaign\".")));
	le_event(LE_EVENT_CLONE, NULL, 0,
			 "node %s shares a system identifier", info->node);
}

static void
step_back(const LeNodeInfo *original)
{
	uint64		shared = le_shared_system(&original->systems,
										  &le_table->systems);
	LeClonemark mark = {.system = shared};

	strlcpy(mark.original, original->node, sizeof(mark.original));
	strlcpy(mark.namespace, namespace_text(&le_table->namespace),
			sizeof(mark.namespace));
	le_set_clone_of(original->node);
	le_clonefile_write(&mark);
	ereport(WARNING,
			(errmsg("this instance is a clone of node \"%s\" and does not lead",
					original->node),
			 errdetail("That node lives, joined earlier and has, or had, a system identifier of this one, " UINT64_FORMAT ".",
					   shared),
			 errhint("Give this instance another prefix or store, or an empty \"leader_election.campaign\". If it is the one that is to lead, turn \"leader_election.clone_eligible\" on.")));
	le_event(LE_EVENT_CLONE, NULL, 0, "clone of node %s: does not lead",
			 original->node);
}

/*
 * Judge the nodes, as just read from the store.  True if it follows that this
 * instance may lead no longer, or need not wait any longer.
 */
bool
le_clones_judge(LeWorker *w)
{
	bool		was_unclear = le_clones_unclear();
	bool		was_clone = le_table->clone_of[0] != '\0';
	le_time		unclear_until = 0;

	for (int i = 0; i < le_table->nnodes; i++)
	{
		LeNodeInfo *info = &le_table->nodes[i];
		LeKinship	kin = kinship(w, info);

		if (kin == LE_KIN_ORIGINAL && le_table->clone_of[0] == '\0')
			step_back(info);
		if (kin == LE_KIN_OTHER)
			warn(info);
		if (kin == LE_KIN_UNCLEAR)
			unclear_until = Max(unclear_until,
								le_cache_silent_at(w->cache, info));
	}
	le_table->unclear_until = unclear_until;
	return was_unclear != le_clones_unclear() ||
		was_clone != (le_table->clone_of[0] != '\0');
}

/* May this instance turn out to be a clone?  Then it does not acquire. */
bool
le_clones_unclear(void)
{
	return le_table->unclear_until != 0;
}

/* The original that it might have is silent: once true. */
bool
le_clones_clear_now(void)
{
	if (le_table->unclear_until == 0 || le_now() < le_table->unclear_until)
		return false;
	le_table->unclear_until = 0;
	return true;
}
