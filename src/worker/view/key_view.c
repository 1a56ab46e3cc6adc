/*-------------------------------------------------------------------------
 *
 * key_view.c
 *		The core's view of one election, made from an answer of the store.
 *
 * The core judges a key by its contents and by the known state of the node
 * that holds or left it: the length of its lease, its last sign of life, the
 * end of its belief.  This file puts the two together.
 *
 * src/worker/view/key_view.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "settings.h"
#include "shmem/events.h"
#include "worker/disk/tokens.h"
#include "worker/view/cache.h"
#include "worker/view/key_view.h"
#include "worker/view/wishes.h"

bool
le_foreign_key(const LeKey *key)
{
	return key != NULL && (!key->ours || key->value_session == NULL ||
						   (key->holder != NULL &&
							strcmp(key->holder, key->value_session) != 0));
}

/* Add facts about a key's last holder that the key itself does not give. */
static void
judge_last_holder(LeWorker *w, LeKeyView *view, const LeKey *key)
{
	const LeNodeInfo *last;

	view->holder_lease = key->lease != 0 ? key->lease : LE_MAX_LEASE;
	if (le_foreign_key(key))
	{
		/* Another client's key: its lease is unknown, so ours stands in. */
		view->holder_lease = le_table->node.timing.lease;
		return;
	}
	if (strcmp(key->value_session, le_table->previous) == 0)
	{
		view->holder_ended = true;	/* we know when we stopped believing */
		return;
	}
	last = le_cache_node(key->value_session);
	if (last == NULL)
		le_wish_nodes(w->wishes, LE_SOON);
	else
		view->holder_ended = last->revoked;
}

/* Does this node depose silent holders, rather than wait for the store to? */
bool
le_takes_over(void)
{
	const LeStore *store = le_configured_store();

	return store->takes_over != NULL && store->takes_over();
}

/*
 * When may the key be taken from the node that holds it?  Only nodes of this
 * extension prove themselves; any other holder is waited for as the store
 * wants it.
 */
static void
judge_holder(LeWorker *w, LeKeyView *view, const LeKey *key)
{
	const LeNodeInfo *holder;

	if (!le_takes_over() || le_foreign_key(key))
		return;
	holder = le_cache_node(key->holder);
	if (holder == NULL)
		le_wish_nodes(w->wishes, LE_SOON);
	else if (holder->revoked)
		view->holder_ended = true;
	else
		view->silent_at = le_cache_silent_at(w->cache, holder);
}

void
le_make_view(LeWorker *w, LeKeyView *view, const LeKey *key, uint64 as_of)
{
	memset(view, 0, sizeof(*view));
	view->as_of = as_of;
	view->own_lease = le_configured_store()->key_leases;
	if (key == NULL)
		return;
	view->exists = true;
	view->usable = key->usable;
	view->index = key->index;
	view->released = key->ours && key->released;
	view->token = key->ours ? key->token : 0;
	if (key->holder == NULL)
	{
		view->holder = LE_KEY_FREE;
		if (key->usable && !view->released)
			judge_last_holder(w, view, key);
	}
	else if (le_table->session[0] != '\0' &&
			 strcmp(key->holder, le_table->session) == 0)
		view->holder = LE_KEY_OURS;
	else
	{
		view->holder = LE_KEY_OTHER;
		if (key->usable)
			judge_holder(w, view, key);
	}
}

/* Remember the node that has to be waited for, if it is one of ours. */
static void
note_holder_session(LeSlot *slot, const LeKey *key, const LeKeyView *view)
{
	bool		waited_for = key != NULL && view->usable &&
		!le_foreign_key(key) && view->holder != LE_KEY_OURS && !view->released;

	/* The watch may show a takeover before the answer that will log it. */
	if (view->holder == LE_KEY_OURS &&
		(slot->election.state == LE_ACQUIRING ||
		 slot->election.state == LE_ACQUIRE_UNSURE))
		return;
	strlcpy(slot->holder.session, waited_for ? key->value_session : "",
			sizeof(slot->holder.session));
	slot->holder.holds = view->holder == LE_KEY_OTHER;
	slot->holder.token = waited_for ? key->token : 0;
}

/* A key that people have to look at is in the log, too, once. */
static void
note_unusable(LeSlot *slot, const LeKey *key)
{
	const char *why = key->fault != NULL ? key->fault :
		le_configured_store()->people.foreign_key;

	if (key->fault != NULL && !slot->fault_told)
		ereport(LOG,
				(errmsg("election \"%s\" cannot be led: %s", slot->name,
						why)));
	slot->fault_told = key->fault != NULL;
	le_note_error(slot, LE_OP_READ, LE_REFUSED, LE_CAUSE_OTHER, why);
}

/* Remember the leader, for le_status and for answers of limited age. */
void
le_note_holder(LeWorker *w, LeSlot *slot, const LeKey *key,
			   const LeKeyView *view)
{
	char		name[LE_MAX_NODE_NAME_LEN + 1] = "";
	bool		other_leads;

	if (view->holder != LE_KEY_OURS && view->index > 0)
	{
		le_token_seen(w->tokens, slot->name, view->index);
		if (view->index > slot->election.token_floor)
			slot->refused_token = 0;	/* tokens are high enough by now */
		slot->election.token_floor = Max(slot->election.token_floor,
										 view->index);
	}
	if (view->holder == LE_KEY_OTHER && !le_foreign_key(key))
		strlcpy(name, key->node, sizeof(name));
	else if (view->holder == LE_KEY_OTHER)
		snprintf(name, sizeof(name), "session:%s", key->holder);
	else if (le_election_has_term(&slot->election))
		strlcpy(name, le_my_name(), sizeof(name));
	other_leads = view->holder == LE_KEY_OTHER && name[0] != '\0' &&
		strcmp(slot->holder.node, name) != 0;
	if (slot->holder.index != view->index ||
		strcmp(slot->holder.node, name) != 0)
	{
		le_begin_note(slot);
		slot->holder.index = view->index;
		strlcpy(slot->holder.node, name, sizeof(slot->holder.node));
		le_end_note(slot);
	}
	if (other_leads)
		le_event_of(name, LE_EVENT_SEEN, slot->name, key->token, NULL);
	note_holder_session(slot, key, view);
	if (view->exists && !view->usable)
		note_unusable(slot, key);
	else
		slot->fault_told = false;
	slot->holder.seen = le_now();
}
