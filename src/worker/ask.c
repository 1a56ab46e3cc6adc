/*-------------------------------------------------------------------------
 *
 * ask.c
 *		What backends ask, until it is answered.
 *
 * A question is kept in a list until a verdict of the core, a proof or its own
 * time limit answers it.  "Could not find out" is never answered with false,
 * and a question whose backend has stopped waiting is dropped.
 *
 * src/worker/ask.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/ilist.h"
#include "utils/memutils.h"

#include "compat.h"
#include "settings.h"
#include "worker/ask.h"
#include "worker/claims.h"
#include "worker/dispatch.h"
#include "worker/elect.h"
#include "worker/observe.h"
#include "worker/session.h"
#include "worker/tokens.h"
#include "worker/watch.h"

/* Released on request while campaigning: do not win straight back. */
#define DEFAULT_HOLD_OFF	(30 * LE_SEC)

/* A backend's question that has not been answered yet. */
typedef struct Pending
{
	dlist_node	node;
	int			proc;
	uint64		number;
	LeAsk		ask;
	int			slot;			/* -1: none */
	le_time		asked;
	le_time		give_up;		/* answer by then, whatever is known */
	uint32		joined;			/* ACQUIRE: the request that was under way when
								 * it was asked; 0: none */
	bool		known;			/* there was a verdict on it ... */
	bool		denied;			/* ... and the last said "not ours" */
	LeOutcome	outcome;		/* of the last failure */
	bool		unresolved;		/* ACQUIRE: one of its requests may have been
								 * applied, and nobody will find out */
	bool		publishing;		/* RENEW: proven, the value is on its way */
	int			releases;		/* STEP_DOWN: still to be confirmed ... */
	bool	   *releasing;		/* ... of all elections: which slots' */
} Pending;

static dlist_head pendings = DLIST_STATIC_INIT(pendings);

/* ---- replies ---- */

/* The slot must not get another name while the question is under way. */
static void
attach(Pending *p, LeSlot *slot)
{
	p->slot = le_slot_number(slot);
	slot->asked++;
}

static void
drop(Pending *p)
{
	if (p->slot >= 0)
		le_slot(p->slot)->asked--;
	dlist_delete(&p->node);
	if (p->releasing != NULL)
		pfree(p->releasing);
	pfree(p);
}

static void
reply(Pending *p, LeReplyKind kind)
{
	LeReply		r = {0};

	r.kind = kind;
	le_answer(p->proc, p->number, &r);
	drop(p);
}

static void
reply_error(Pending *p, int sqlstate, const char *message, const char *detail,
			const char *hint)
{
	LeReply		r = {0};

	r.kind = LE_REPLY_ERROR;
	r.sqlstate = sqlstate;
	strlcpy(r.message, message, sizeof(r.message));
	strlcpy(r.detail, detail, sizeof(r.detail));
	strlcpy(r.hint, hint, sizeof(r.hint));
	le_answer(p->proc, p->number, &r);
	drop(p);
}

static const char *
verb(LeRequestKind kind)
{
	switch (kind)
	{
		case LE_ASK_ACQUIRE:
			return "acquire";
		case LE_ASK_RENEW:
			return "renew";
		case LE_ASK_LEADER:
			return "read";
		case LE_ASK_CHECK:
			return "check";
		default:
			return "release";
	}
}

/* Does the store's refusal concern what the token allows? */
static bool
is_about_token(const char *detail)
{
	return strstr(detail, "ermission") != NULL ||
		strstr(detail, "ACL") != NULL || strstr(detail, "token") != NULL;
}

/* What to do about it, as far as it lies with this instance's settings. */
static void
store_hint(LeOutcome outcome, const char *detail, char *hint, size_t size)
{
	const LeStore *store = le_store();

	if (outcome == LE_UNAVAILABLE && store->url_setting != NULL)
		snprintf(hint, size,
				 "Check that the store runs and that \"%s\" is right.",
				 store->url_setting);
	else if (outcome == LE_REFUSED && store->token_setting != NULL &&
			 is_about_token(detail))
		snprintf(hint, size, "Check the token in \"%s\" and its policy.",
				 store->token_setting);
}

/*
 * A refusal may be about this election alone, as of a key that is somebody
 * else's; it was noted there just before.
 */
static const char *
trouble_with(const Pending *p, LeOutcome outcome)
{
	if (outcome == LE_REFUSED && p->ask.kind == LE_ASK_ACQUIRE &&
		p->slot >= 0 && le_slot(p->slot)->last_error[0] != '\0')
		return le_slot(p->slot)->last_error;
	return le_store_trouble();
}

/* "Could not find out" in the words that fit the outcome. */
static void
reply_outcome(Pending *p, LeOutcome outcome)
{
	char		message[256];
	char		detail[512];
	char		hint[256] = "";
	int			sqlstate = LE_ERRCODE_UNAVAILABLE;

	if (p->ask.all)
		snprintf(message, sizeof(message),
				 "could not release all elections at the lease store %s",
				 le_store_place());
	else
		snprintf(message, sizeof(message),
				 "could not %s election \"%s\" at the lease store %s",
				 verb(p->ask.kind), p->ask.election, le_store_place());
	snprintf(detail, sizeof(detail), "%s", trouble_with(p, outcome));
	store_hint(outcome, detail, hint, sizeof(hint));
	if (outcome == LE_REFUSED)
		sqlstate = LE_ERRCODE_REFUSED;
	else if (outcome == LE_UNKNOWN && p->ask.kind == LE_ASK_ACQUIRE)
	{
		sqlstate = LE_ERRCODE_UNKNOWN;
		strlcpy(hint, "Should the request have been applied, the worker releases the lease again.",
				sizeof(hint));
	}
	else if (outcome == LE_UNKNOWN)
		sqlstate = LE_ERRCODE_UNKNOWN;
	if (p->ask.kind == LE_ASK_RELEASE || p->ask.kind == LE_ASK_STEP_DOWN ||
		p->ask.kind == LE_ASK_WITHDRAW)
		strlcpy(hint, "This node does not lead any more. The worker goes on telling the store; if it cannot, the lease runs out there.",
				sizeof(hint));
	reply_error(p, sqlstate, message, detail, hint);
}

/*
 * The end of an acquire without a grant.  Where a request of it may have been
 * applied for a while, neither "not to be had" nor "nothing was done" is
 * certain: others may have been refused because of it.
 */
static void
reply_not_granted(Pending *p, bool denied, LeOutcome outcome)
{
	if (p->unresolved)
		reply_outcome(p, LE_UNKNOWN);
	else if (denied)
		reply(p, LE_REPLY_FALSE);
	else
		reply_outcome(p, outcome);
}

/* ---- who seeks the election ---- */

static bool
seeks(const Pending *p, const LeSlot *slot)
{
	return p->ask.kind == LE_ASK_ACQUIRE && p->slot == le_slot_number(slot);
}

/* The seeker that has waited longest; NULL: none.  Valid for this turn. */
const LeAsk *
le_first_seeker(const LeSlot *slot)
{
	dlist_iter	iter;

	dlist_foreach(iter, &pendings)
	{
		Pending    *p = dlist_container(Pending, node, iter.cur);

		if (seeks(p, slot) && le_still_asked(p->proc, p->number))
			return &p->ask;
	}
	return NULL;
}

/* Does somebody seek the election for this owner? */
bool
le_seeker_waits(const LeSlot *slot, LeOwner owner)
{
	dlist_iter	iter;

	dlist_foreach(iter, &pendings)
	{
		Pending    *p = dlist_container(Pending, node, iter.cur);

		if (seeks(p, slot) && p->ask.owner == owner &&
			le_still_asked(p->proc, p->number))
			return true;
	}
	return false;
}

/* Does anybody seek an election at all? */
bool
le_any_seeker(bool (*may_seek) (const LeSlot *slot))
{
	dlist_iter	iter;

	dlist_foreach(iter, &pendings)
	{
		Pending    *p = dlist_container(Pending, node, iter.cur);

		if (p->ask.kind == LE_ASK_ACQUIRE && p->slot >= 0 &&
			may_seek(le_slot(p->slot)))
			return true;
	}
	return false;
}

/* A value that the holder asked to be published, and that may go; or NULL. */
const char *
le_value_to_publish(const LeSlot *slot)
{
	dlist_iter	iter;

	dlist_foreach(iter, &pendings)
	{
		Pending    *p = dlist_container(Pending, node, iter.cur);

		if (p->slot == le_slot_number(slot) &&
			p->ask.kind == LE_ASK_RENEW && p->publishing)
			return p->ask.value;
	}
	return NULL;
}

bool
le_renewal_asked(int slot)
{
	dlist_iter	iter;

	dlist_foreach(iter, &pendings)
	{
		Pending    *p = dlist_container(Pending, node, iter.cur);

		if (p->ask.kind == LE_ASK_RENEW && p->slot == slot)
			return true;
	}
	return false;
}

/* ---- verdicts ---- */

static void
verdict_granted(LeSlot *slot)
{
	dlist_mutable_iter iter;
	LeReply		r = {0};

	r.kind = LE_REPLY_TRUE;
	r.token = slot->election.token;
	/* For the node a campaign would have the lease without any call, too. */
	r.fresh = slot->candidate != LE_OWNER_NODE || !le_elect_campaigns(slot);
	le_begin_grants(slot);
	dlist_foreach_modify(iter, &pendings)
	{
		Pending    *p = dlist_container(Pending, node, iter.cur);

		if (!seeks(p, slot) || p->ask.owner != slot->candidate)
			continue;
		le_grant(slot);
		if (!le_answer(p->proc, p->number, &r))
			le_decline_term(slot->name, r.token);
		drop(p);
	}
	if (r.fresh)
		le_end_grants(slot);
}

/*
 * Not ours now.  Whoever does not wait is told so; the others wait on, also
 * when it is this node that holds it, for somebody else.  The answer to a
 * request that was under way when the question came may speak of a time
 * before it: for him the store is asked again.
 */
static void
verdict_denied(LeSlot *slot, uint32 answered)
{
	dlist_mutable_iter iter;
	bool		again = false;

	dlist_foreach_modify(iter, &pendings)
	{
		Pending    *p = dlist_container(Pending, node, iter.cur);

		if (!seeks(p, slot))
			continue;
		if (p->joined != 0 && p->joined == answered)
		{
			p->joined = 0;
			again = true;
			continue;
		}
		p->known = p->denied = true;
		if (p->ask.wait_until <= le_now())
			reply_not_granted(p, true, LE_DONE);
	}
	if (again && slot->election.state == LE_WAITING)
		le_elect_feed(slot, LE_IN_WANT);
}

/* An acquire that stays unresolved is that of him for whom it was sent. */
void
le_questions_unresolved(const LeSlot *slot)
{
	dlist_iter	iter;

	dlist_foreach(iter, &pendings)
	{
		Pending    *p = dlist_container(Pending, node, iter.cur);

		if (seeks(p, slot) && p->ask.owner == slot->candidate)
			p->unresolved = true;
	}
}

/* So is an outcome that is unknown: to the others nothing was done. */
static void
verdict_failed(LeSlot *slot, LeOutcome outcome)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &pendings)
	{
		Pending    *p = dlist_container(Pending, node, iter.cur);

		if (!seeks(p, slot))
			continue;
		p->known = true;
		p->denied = false;
		p->outcome = outcome;
		if (outcome == LE_UNKNOWN && p->ask.owner != slot->candidate)
			p->outcome = LE_UNAVAILABLE;
		if (p->ask.wait_until <= le_now() || outcome == LE_REFUSED)
			reply_not_granted(p, false, p->outcome);
	}
}

static void
verdict_token(LeSlot *slot)
{
	dlist_mutable_iter iter;
	char		message[256];

	snprintf(message, sizeof(message),
			 "store %s gave election \"%s\" a fencing token that is not higher than one seen before",
			 le_store_place(), slot->name);
	le_elect_pause_campaign(slot, DEFAULT_HOLD_OFF);
	ereport(LOG,
			(errcode(LE_ERRCODE_REFUSED),
			 errmsg_internal("%s", message),
			 errdetail("Highest token seen: " UINT64_FORMAT ".",
					   slot->election.token_floor)));
	dlist_foreach_modify(iter, &pendings)
	{
		Pending    *p = dlist_container(Pending, node, iter.cur);
		char		detail[128];

		if (!seeks(p, slot))
			continue;
		snprintf(detail, sizeof(detail), "Highest token seen: " UINT64_FORMAT ".",
				 slot->election.token_floor);
		reply_error(p, LE_ERRCODE_REFUSED, message, detail,
					"If the store was rebuilt or restored on purpose, follow the runbook \"rebuilt Consul\" and call le_reset_token().");
	}
}

static bool
waits_for_release(const Pending *p, const LeSlot *slot)
{
	switch (p->ask.kind)
	{
		case LE_ASK_RELEASE:
		case LE_ASK_WITHDRAW:
			return p->slot == le_slot_number(slot);
		case LE_ASK_STEP_DOWN:
			return p->ask.all ? p->releasing[le_slot_number(slot)] :
				p->slot == le_slot_number(slot);
		default:
			return false;
	}
}

static void
verdict_released(LeSlot *slot, bool confirmed, LeOutcome outcome)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &pendings)
	{
		Pending    *p = dlist_container(Pending, node, iter.cur);

		if (!waits_for_release(p, slot))
			continue;
		if (!confirmed)
			reply_outcome(p, outcome);
		else if (--p->releases <= 0)
			reply(p, LE_REPLY_TRUE);
		else if (p->ask.all)
			p->releasing[le_slot_number(slot)] = false;
	}
}

static void
verdict_publish(LeSlot *slot, LeVerdict verdict, LeOutcome outcome)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &pendings)
	{
		Pending    *p = dlist_container(Pending, node, iter.cur);

		if (p->ask.kind != LE_ASK_RENEW || p->slot != le_slot_number(slot))
			continue;
		if (verdict == LE_SAY_LOST)
			reply(p, LE_REPLY_FALSE);
		else if (!p->publishing ||
				 strcmp(p->ask.value, slot->value) != 0)
			continue;			/* not this one's value */
		else if (verdict == LE_SAY_PUBLISHED)
			reply(p, LE_REPLY_TRUE);
		else
			reply_outcome(p, outcome);
	}
}

void
le_pass_verdict(LeSlot *slot, const LeActions *act, uint32 answered)
{
	switch (act->verdict)
	{
		case LE_SAY_NOTHING:
			break;
		case LE_SAY_GRANTED:
			verdict_granted(slot);
			verdict_denied(slot, le_term_stands(slot) ? 0 : answered);
			break;
		case LE_SAY_DENIED:
			verdict_denied(slot, answered);
			break;
		case LE_SAY_FAILED:
			verdict_failed(slot, act->outcome);
			break;
		case LE_SAY_PUBLISHED:
		case LE_SAY_PUBLISH_FAILED:
			verdict_publish(slot, act->verdict, act->outcome);
			break;
		case LE_SAY_RELEASED:
			verdict_released(slot, true, act->outcome);
			break;
		case LE_SAY_RELEASE_FAILED:
			verdict_released(slot, false, act->outcome);
			break;
		case LE_SAY_LOST:
			break;				/* whoever needs it was told as it ended */
		case LE_SAY_TOKEN_WENT_BACK:
			verdict_token(slot);
			break;
	}
}

/* A term is over: what its holder asked to be renewed is lost. */
void
le_questions_term_ended(LeSlot *slot)
{
	verdict_publish(slot, LE_SAY_LOST, LE_DONE);
}

/* A proof that was sent then covers these elections. */
void
le_questions_proved(le_time sent, const int *numbers, int n)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &pendings)
	{
		Pending    *p = dlist_container(Pending, node, iter.cur);
		bool		covered = false;

		for (int i = 0; i < n; i++)
			covered = covered || numbers[i] == p->slot;
		if (p->ask.kind != LE_ASK_RENEW || p->publishing || !covered ||
			sent < p->asked)
			continue;
		if (!p->ask.has_value)
			reply(p, LE_REPLY_TRUE);
		else
			p->publishing = true;
	}
}

static bool
checks_session(const Pending *p)
{
	return p->ask.kind == LE_ASK_CHECK && p->ask.check == LE_CHECK_SESSION;
}

/* The session cannot be had at present; who does not wait is told so. */
void
le_questions_no_session(LeOutcome outcome)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &pendings)
	{
		Pending    *p = dlist_container(Pending, node, iter.cur);

		if (checks_session(p))
		{
			reply_error(p, outcome == LE_REFUSED ? LE_ERRCODE_REFUSED :
						LE_ERRCODE_UNAVAILABLE, "", le_store_trouble(), "");
			continue;
		}
		if (p->ask.kind != LE_ASK_ACQUIRE || le_session_live())
			continue;
		p->known = true;
		p->denied = false;
		p->outcome = outcome == LE_UNKNOWN ? LE_UNAVAILABLE : outcome;
		if (p->ask.wait_until <= le_now() || outcome == LE_REFUSED)
			reply_not_granted(p, false, p->outcome);
	}
}

/* ---- questions ---- */

bool
le_held_by_caller(const LeSlot *slot, const LeAsk *ask)
{
	LeOwner		owner = le_owner_of(slot);

	if (!le_election_has_term(&slot->election) || le_elect_abandoned(slot))
		return false;
	return owner == LE_OWNER_NODE ||
		(owner & ~LE_OWNER_XACT) == (ask->owner & ~LE_OWNER_XACT);
}

/* It was the caller's already: nothing that a cancelled call must undo. */
static void
reply_held(Pending *p, const LeSlot *slot)
{
	LeReply		r = {0};

	r.kind = LE_REPLY_TRUE;
	r.token = slot->election.token;
	le_answer(p->proc, p->number, &r);
	drop(p);
}

static void
reply_full(Pending *p)
{
	reply_error(p, ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
				"no room for another election in the lease table",
				"Every election in it is held or sought.",
				"Raise \"leader_election.max_elections\" and restart.");
}

static LeSlot *
slot_for(Pending *p)
{
	LeSlot	   *slot = le_find_or_add_slot(p->ask.election);

	if (slot == NULL)
	{
		reply_full(p);
		return NULL;
	}
	attach(p, slot);
	slot->election.token_floor = Max(slot->election.token_floor,
									 le_token_floor(slot->name));
	return slot;
}

static void
ask_acquire(Pending *p)
{
	char		why[512];
	char		message[256];
	int			sqlstate;
	LeSlot	   *slot;

	snprintf(message, sizeof(message),
			 "this node may not lead election \"%s\"", p->ask.election);
	if (!le_may_lead(why, sizeof(why), &sqlstate))
	{
		reply_error(p, sqlstate, message, why, "");
		return;
	}
	if ((slot = slot_for(p)) == NULL)
		return;
	if (le_now() < slot->hold_off_until &&
		p->ask.wait_until < slot->hold_off_until)
	{
		snprintf(why, sizeof(why),
				 "It stepped down and does not contend for another %d ms.",
				 (int) ((slot->hold_off_until - le_now()) / LE_MSEC));
		reply_error(p, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, message, why,
					"Wait, or call le_campaign() to end the hold-off.");
		return;
	}
	if (le_term_stands(slot) && !le_elect_abandoned(slot))
	{
		LeOwner		owner = le_owner_of(slot);

		/* A term that is to end is nobody's to have, only to wait for. */
		bool		stays = slot->election.drain_until == 0;

		if (stays && owner == p->ask.owner)
			reply_held(p, slot);
		else if (stays && owner != LE_OWNER_NODE &&
				 p->ask.owner != LE_OWNER_NODE &&
				 (owner & ~LE_OWNER_XACT) == (p->ask.owner & ~LE_OWNER_XACT))
		{
			snprintf(message, sizeof(message),
					 "this session already holds election \"%s\" in scope \"%s\"",
					 p->ask.election, le_scope_name(owner));
			reply_error(p, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, message, "",
						"Release it first.");
		}
		else
		{
			p->known = p->denied = true;
			if (p->ask.wait_until <= le_now())
				reply(p, LE_REPLY_FALSE);
		}
		return;
	}
	if (le_election_in_flight(&slot->election))
		p->joined = slot->election.request;
	le_elect_advance(slot);
	/* A wait in progress may rest on old news: ask the store again. */
	if (slot->election.state == LE_WAITING && le_session_live())
		le_elect_feed(slot, LE_IN_WANT);
}

static void
ask_renew(Pending *p)
{
	LeSlot	   *slot = le_find_slot(p->ask.election);

	if (slot == NULL || !le_held_by_caller(slot, &p->ask) ||
		slot->election.drain_until != 0)
	{
		reply(p, LE_REPLY_FALSE);
		return;
	}
	attach(p, slot);
	if (le_store()->key_leases)
		le_elect_renew_now(slot);
	else
		le_session_prove_now();
}

/* Start the release of a term; the question is answered by its verdict. */
static void
begin_release(Pending *p, LeSlot *slot)
{
	p->releases++;
	le_elect_give_up(slot);
}

static void
ask_release(Pending *p)
{
	LeSlot	   *slot = le_find_slot(p->ask.election);

	if (slot == NULL || !le_held_by_caller(slot, &p->ask))
	{
		reply(p, LE_REPLY_NOT_HELD);
		return;
	}
	attach(p, slot);
	if (slot->campaign || slot->configured)
		le_elect_hold_off(slot, DEFAULT_HOLD_OFF);
	begin_release(p, slot);
}

static void
ask_campaign(Pending *p)
{
	LeSlot	   *slot = slot_for(p);

	if (slot == NULL)
		return;
	le_begin_change(slot);
	le_elect_set_campaign(slot, true);
	slot->hold_off_until = slot->campaign_after = 0;
	if (p->ask.has_value && !le_election_has_term(&slot->election))
	{
		strlcpy(slot->value, p->ask.value, sizeof(slot->value));
		slot->has_value = true;
	}
	else if (!le_election_has_term(&slot->election))
		slot->has_value = false;
	le_end_change(slot);
	reply(p, LE_REPLY_TRUE);
	le_elect_advance(slot);
}

static void
ask_withdraw(Pending *p)
{
	LeSlot	   *slot = le_find_slot(p->ask.election);

	if (slot != NULL && slot->configured)
	{
		reply_error(p, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
					"cannot withdraw from an election that the configuration names",
					"It is in the setting \"leader_election.campaign\".",
					"Change the setting and reload, or use le_step_down().");
		return;
	}
	if (slot == NULL || !slot->campaign)
	{
		reply(p, LE_REPLY_FALSE);
		return;
	}
	attach(p, slot);
	le_elect_set_campaign(slot, false);
	if (le_election_has_term(&slot->election) &&
		le_owner_of(slot) == LE_OWNER_NODE)
		begin_release(p, slot);
	else
	{
		reply(p, LE_REPLY_TRUE);
		le_elect_advance(slot);
	}
}

/* False: this node has nothing to do with it, and is not to stay away. */
static bool
step_down(Pending *p, LeSlot *slot)
{
	if (!le_elect_takes_part(slot))
		return false;
	le_elect_hold_off(slot, p->ask.hold_off);
	if (!le_election_has_term(&slot->election))
		return true;
	slot->stepping_down = true;
	p->releases++;
	if (p->ask.all)
		p->releasing[le_slot_number(slot)] = true;
	return true;
}

static void
ask_step_down(Pending *p)
{
	int			first = 0;
	int			last = le_table->nused - 1;
	bool		any = false;

	if (!p->ask.all)
	{
		LeSlot	   *slot = le_find_slot(p->ask.election);

		if (slot == NULL)
		{
			reply(p, LE_REPLY_FALSE);
			return;
		}
		attach(p, slot);
		first = last = p->slot;
	}
	else
		p->releasing = MemoryContextAllocZero(TopMemoryContext,
											  le_table->nslots * sizeof(bool));
	/* Count first: a release may be confirmed while the next one starts. */
	for (int i = first; i <= last; i++)
		any = step_down(p, le_slot(i)) || any;
	if (p->releases == 0)
	{
		reply(p, any ? LE_REPLY_TRUE : LE_REPLY_FALSE);
		p = NULL;
	}
	for (int i = first; i <= last; i++)
	{
		if (le_election_has_term(&le_slot(i)->election))
			le_elect_give_up(le_slot(i));
		le_elect_advance(le_slot(i));
	}
}

static void
ask_reset_token(Pending *p)
{
	LeSlot	   *slot = le_find_slot(p->ask.election);

	le_token_forget(p->ask.election);
	if (slot != NULL)
	{
		slot->election.token_floor = 0;
		slot->election.refused_until = 0;
		slot->campaign_after = 0;
	}
	ereport(LOG,
			(errmsg("fencing tokens of election \"%s\" start anew",
					p->ask.election),
			 errdetail("le_reset_token() was called by process %d.",
					   p->ask.pid)));
	reply(p, LE_REPLY_TRUE);
	if (slot != NULL)
		le_elect_advance(slot);
}

/* ---- who leads? ---- */

static Pending *
find_pending(uint64 number, int proc)
{
	dlist_iter	iter;

	dlist_foreach(iter, &pendings)
	{
		Pending    *p = dlist_container(Pending, node, iter.cur);

		if (p->number == number && p->proc == proc)
			return p;
	}
	return NULL;
}

static void
session_named(LeFlight *flight, const LeAnswer *answer)
{
	Pending    *p = find_pending(flight->pending, flight->slot);
	LeReply		r = {0};

	if (p == NULL)
		return;
	r.kind = LE_REPLY_TRUE;
	r.has_leader = true;
	r.observed = le_wall(flight->sent);
	if (answer->outcome == LE_DONE && answer->name != NULL &&
		answer->name[0] != '\0')
		strlcpy(r.leader, answer->name, sizeof(r.leader));
	else
		snprintf(r.leader, sizeof(r.leader), "session:%s", flight->op.session);
	le_answer(p->proc, p->number, &r);
	drop(p);
}

static void
fill_leader(LeReply *r, const LeKey *key, const char *election)
{
	LeSlot	   *slot = le_find_slot(election);

	r->has_leader = true;
	strlcpy(r->leader, key->node, sizeof(r->leader));
	r->leader_token = key->token;
	r->is_self = strcmp(key->holder, le_table->session) == 0 &&
		slot != NULL && le_election_has_term(&slot->election);
	if (key->value != NULL)
	{
		r->has_value = true;
		strlcpy(r->value, key->value, sizeof(r->value));
	}
}

static void
leader_read(LeFlight *flight, const LeAnswer *answer)
{
	Pending    *p = find_pending(flight->pending, flight->slot);
	const LeKey *key = answer->nkeys > 0 ? &answer->keys[0] : NULL;
	LeReply		r = {0};

	if (p == NULL)
		return;
	if (answer->outcome != LE_DONE)
	{
		reply_outcome(p, answer->outcome);
		return;
	}
	if (key != NULL && key->holder != NULL && le_foreign_key(key))
	{
		LeFlight   *next = le_flight_new(LE_OP_SESSION_NAME, session_named);

		next->op.session = le_flight_string(next, key->holder);
		next->slot = flight->slot;
		next->pending = flight->pending;
		le_flight_send(next, le_table->node.timing.request_timeout);
		return;
	}
	r.kind = LE_REPLY_TRUE;
	r.observed = le_wall(flight->sent);
	if (key != NULL && key->holder != NULL)
		fill_leader(&r, key, p->ask.election);
	le_answer(p->proc, p->number, &r);
	drop(p);
}

/* With the local store this node's own table is the whole truth. */
static void
answer_local_leader(Pending *p)
{
	LeSlot	   *slot = le_find_slot(p->ask.election);
	LeReply		r = {0};

	r.kind = LE_REPLY_TRUE;
	r.observed = GetCurrentTimestamp();
	if (slot != NULL && le_election_has_term(&slot->election) &&
		!le_elect_abandoned(slot))
	{
		r.has_leader = r.is_self = true;
		r.leader_token = slot->election.token;
		strlcpy(r.leader, le_my_name(), sizeof(r.leader));
		r.has_value = slot->has_value;
		strlcpy(r.value, slot->value, sizeof(r.value));
	}
	le_answer(p->proc, p->number, &r);
	drop(p);
}

/* From what the watch has seen, if that is fresh enough and says all. */
static bool
answer_from_watch(Pending *p)
{
	le_time		fresh = le_watch_fresh_at();
	const LeKey *key;
	LeReply		r = {0};

	if (fresh == 0 || le_now() - fresh > p->ask.max_staleness)
		return false;
	key = le_watch_key(p->ask.election);
	if (key != NULL && key->holder != NULL && le_foreign_key(key))
		return false;			/* its session's name has to be asked for */
	r.kind = LE_REPLY_TRUE;
	r.observed = le_wall(fresh);
	if (key != NULL && key->holder != NULL)
		fill_leader(&r, key, p->ask.election);
	le_answer(p->proc, p->number, &r);
	drop(p);
	return true;
}

static void
ask_leader(Pending *p)
{
	LeFlight   *flight;

	if (!le_store()->remote)
	{
		answer_local_leader(p);
		return;
	}
	if (answer_from_watch(p))
		return;
	flight = le_flight_new(LE_OP_READ, leader_read);
	flight->op.election = le_flight_string(flight, p->ask.election);
	flight->pending = p->number;
	flight->slot = p->proc;
	le_flight_send(flight, le_table->node.timing.request_timeout);
}

/* ---- is all well? ---- */

/* An index that no key has: a write that depends on it changes nothing. */
#define NO_INDEX	((uint64) PG_INT64_MAX)

/* A claim that nobody has: to end it changes nothing. */
static const LeClaim no_claim = {
	.job = "le_check_config()",
	.try = 1,
	.id = "00000000000000000000000000000000",
	.node = "",
	.state = LE_CLAIM_DONE,
	.index = NO_INDEX
};

/*
 * A condition that does not hold, and a session that is gone, are answers of
 * a store that had nothing against the request.
 */
static void
check_answered(LeFlight *flight, const LeAnswer *answer)
{
	Pending    *p = find_pending(flight->pending, flight->slot);

	if (p == NULL)
		return;
	if (answer->outcome == LE_DONE || answer->outcome == LE_CONFLICT ||
		answer->outcome == LE_LOST)
		reply(p, LE_REPLY_TRUE);
	else
		reply_error(p, answer->outcome == LE_REFUSED ? LE_ERRCODE_REFUSED :
					LE_ERRCODE_UNAVAILABLE, "",
					answer->detail ? answer->detail : "no answer", "");
}

static void
send_check(const Pending *p, LeOpKind kind)
{
	LeFlight   *flight = le_flight_new(kind, check_answered);

	flight->pending = p->number;
	flight->slot = p->proc;
	if (p->ask.election[0] != '\0')
		flight->op.election = le_flight_string(flight, p->ask.election);
	flight->op.index = flight->op.token = NO_INDEX;
	flight->op.rev = 1;
	if (kind == LE_OP_COMPLETE)
		flight->op.claim = flight->op.previous = &no_claim;
	le_flight_send(flight, le_table->node.timing.request_timeout);
}

static void
ask_check(Pending *p)
{
	if (p->ask.check == LE_CHECK_SESSION && !le_session_live())
		le_session_want();		/* le_questions_session_live() answers */
	else if (p->ask.check == LE_CHECK_WORKER ||
			 p->ask.check == LE_CHECK_SESSION || !le_store()->remote)
		reply(p, LE_REPLY_TRUE);
	else if (p->ask.check == LE_CHECK_PREFIX)
		send_check(p, le_store()->key_leases ? LE_OP_LIST_HELD :
				   LE_OP_CHECK_PREFIX);
	else if (p->ask.check == LE_CHECK_READ)
		send_check(p, LE_OP_READ);
	else if (p->ask.check == LE_CHECK_WRITE)
		send_check(p, LE_OP_RELEASE);
	else
		send_check(p, LE_OP_COMPLETE);
}

/* The session can be had; who only wanted to know that is told so. */
void
le_questions_session_live(void)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &pendings)
	{
		Pending    *p = dlist_container(Pending, node, iter.cur);

		if (checks_session(p))
			reply(p, LE_REPLY_TRUE);
	}
}

/* May it have to wait for transactions that are bound to a term? */
static bool
gives_up(LeRequestKind kind)
{
	return kind == LE_ASK_RELEASE || kind == LE_ASK_STEP_DOWN ||
		kind == LE_ASK_WITHDRAW;
}

/* A backend asks; called by requests.c for every new question. */
void
le_question(int proc, uint64 number, const LeAsk *ask)
{
	static void (*const handlers[]) (Pending *) = {
		[LE_ASK_ACQUIRE] = ask_acquire,
		[LE_ASK_RENEW] = ask_renew,
		[LE_ASK_RELEASE] = ask_release,
		[LE_ASK_LEADER] = ask_leader,
		[LE_ASK_CAMPAIGN] = ask_campaign,
		[LE_ASK_WITHDRAW] = ask_withdraw,
		[LE_ASK_STEP_DOWN] = ask_step_down,
		[LE_ASK_RESET_TOKEN] = ask_reset_token,
		[LE_ASK_CHECK] = ask_check,
	};
	Pending    *p;

	if (le_asks_for_claim(ask->kind))
	{
		le_claim_question(proc, number, ask);
		return;
	}
	p = MemoryContextAllocZero(TopMemoryContext, sizeof(Pending));
	p->proc = proc;
	p->number = number;
	p->ask = *ask;
	p->slot = -1;
	p->asked = le_now();
	p->outcome = LE_UNAVAILABLE;
	/* The worker before this one may have sent something for it. */
	p->unresolved = ask->again;
	p->give_up = Max(p->asked, ask->wait_until) +
		3 * (le_request_timeout * LE_MSEC);
	if (gives_up(ask->kind))
		p->give_up += le_drain_timeout * LE_MSEC + LE_DRAIN_GRACE;
	dlist_push_tail(&pendings, &p->node);
	handlers[ask->kind] (p);
}

/* ---- the end of questions ---- */

/* Drop the questions that nobody waits for any more. */
void
le_questions_withdrawn(void)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &pendings)
	{
		Pending    *p = dlist_container(Pending, node, iter.cur);

		if (!le_still_asked(p->proc, p->number))
			drop(p);
	}
	le_claims_withdrawn();
}

/* A request has been sent whose effect is not known. */
static bool
write_under_way(const LeSlot *slot)
{
	switch (slot->election.state)
	{
		case LE_ACQUIRING:
		case LE_ACQUIRE_UNSURE:
		case LE_PUBLISHING:
		case LE_PUBLISH_UNSURE:
		case LE_RELEASING:
		case LE_RELEASE_UNSURE:
			return true;
		default:
			return false;
	}
}

static bool
acquire_under_way(const LeSlot *slot)
{
	return slot->election.state == LE_ACQUIRING ||
		slot->election.state == LE_ACQUIRE_UNSURE;
}

/*
 * Has something been sent for this question that may still be applied?  An
 * acquire that waits for another's write, or a renewal that waits for its
 * proof, has not got that far.
 */
static bool
may_be_applied(const Pending *p)
{
	const LeSlot *slot = p->slot < 0 ? NULL : le_slot(p->slot);

	switch (p->ask.kind)
	{
		case LE_ASK_ACQUIRE:
			return slot != NULL && acquire_under_way(slot) &&
				slot->candidate == p->ask.owner;
		case LE_ASK_RENEW:
			return p->publishing && write_under_way(slot);
		case LE_ASK_RELEASE:
		case LE_ASK_WITHDRAW:
		case LE_ASK_STEP_DOWN:
			for (int i = 0; i < le_table->nused; i++)
				if (waits_for_release(p, le_slot(i)) &&
					write_under_way(le_slot(i)))
					return true;
			return false;
		default:
			return false;
	}
}

/*
 * A question's time is up: say what is known.  It may have been the last to
 * seek the election: were that not noticed at once, the node would take the
 * key, when it becomes free, for nobody.
 */
static void
give_up(Pending *p)
{
	if (p->slot >= 0)
		le_hint_worker();
	if (may_be_applied(p))
		reply_outcome(p, LE_UNKNOWN);
	else
		reply_not_granted(p, p->denied, p->outcome);
}

/*
 * Until when does somebody wait who has been told already how the last
 * attempt ended?  Not in the middle of another.
 */
static le_time
wait_ends(const Pending *p)
{
	if (p->ask.kind != LE_ASK_ACQUIRE || !p->known || may_be_applied(p))
		return p->give_up;
	return Min(p->ask.wait_until, p->give_up);
}

void
le_questions_run_timers(le_time now)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &pendings)
	{
		Pending    *p = dlist_container(Pending, node, iter.cur);

		if (!le_still_asked(p->proc, p->number))
			drop(p);
		else if (now >= wait_ends(p))
			give_up(p);
	}
	le_claims_run_timers(now);
}

/* When is the next question's time up? */
le_time
le_questions_timer(void)
{
	le_time		next = le_claims_timer();
	dlist_iter	iter;

	dlist_foreach(iter, &pendings)
	{
		Pending    *p = dlist_container(Pending, node, iter.cur);

		next = le_earliest(next, wait_ends(p));
	}
	return next;
}
