/*-------------------------------------------------------------------------
 *
 * pending.c
 *		Questions about terms, and the replies to them.
 *
 * A question waits here until a verdict of the core, a proof or its own time
 * limit answers it.  An unknown outcome is never answered with false.  ask.c
 * starts the work.
 *
 * src/worker/lead/pending.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "settings.h"
#include "shmem/clock.h"
#include "shmem/progress.h"
#include "worker/lead/pending.h"
#include "worker/view/eligible.h"
#include "worker/wire/dispatch.h"

static void question_released(LePending *p);
static le_time wait_ends(LeWorker *w, const LePending *p);
static void question_given_up(LeWorker *w, LePending *p, le_time now);

LePendingList *
le_pendings_new(void)
{
	LePendingList *pendings = le_pending_list_new(sizeof(LeContest), NULL);

	pendings->due = wait_ends;
	pendings->act = question_given_up;
	pendings->release = question_released;
	return pendings;
}

/* ---- replies ---- */

/* The slot must not get another name while the question is under way. */
void
le_pending_attach(LeWorker *w, LePending *p, LeSlot *slot)
{
	le_pending_keep_slot(p, slot);
	if (p->ask.kind != LE_ASK_CAMPAIGN) /* answered at once */
		le_flight_hurry(w, p->slot);
}

static void
question_released(LePending *p)
{
	if (le_contest(p)->releasing != NULL)
		pfree(le_contest(p)->releasing);
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

/* A hint at the setting of this instance that may be wrong. */
static void
store_hint(LeOutcome outcome, LeCause cause, char *hint, size_t size)
{
	const LeStore *store = le_configured_store();

	if (outcome == LE_UNAVAILABLE && store->servers.setting != NULL)
		snprintf(hint, size,
				 "Check that the store runs and that \"%s\" is right.",
				 store->servers.setting);
	else if (outcome == LE_REFUSED && store->secret.setting != NULL &&
			 (store->secret.authenticates == NULL ||
			  store->secret.authenticates()[0] == '\0') &&
			 (cause == LE_CAUSE_PERMISSION || cause == LE_CAUSE_STRANGER))
		snprintf(hint, size, "Check the token in \"%s\" and its policy.",
				 store->secret.setting);
	else if (outcome == LE_REFUSED && cause == LE_CAUSE_SETTING)
		strlcpy(hint, "Trying again does not help: correct the setting that the detail names.",
				size);
	else if (outcome == LE_REFUSED && cause == LE_CAUSE_NOT_STORE &&
			 store->servers.setting != NULL)
		snprintf(hint, size, "Check \"%s\".", store->servers.setting);
}

/* The store was not asked, so the hint is not to check it or its address. */
static void
explain_no_turn(const LePending *p, char *detail, size_t detail_size,
				char *hint, size_t hint_size)
{
	strlcpy(detail, "Too many requests of this instance were waiting for their turn.",
			detail_size);
	strlcpy(hint, p->ask.kind == LE_ASK_ACQUIRE ?
			"Try again later, or wait longer with the argument \"wait\"." :
			"Try again later.", hint_size);
}

/*
 * A refusal may concern this election alone, as when its key belongs to
 * somebody else.  Its slot has the reason, noted just before.
 */
static const char *
trouble_with(LeWorker *w, const LePending *p, LeOutcome outcome,
			 LeCause *cause)
{
	const LeSlot *slot = p->slot >= 0 ? le_slot(p->slot) : NULL;

	if (outcome == LE_REFUSED && p->ask.kind == LE_ASK_ACQUIRE &&
		slot != NULL && slot->error.text[0] != '\0')
	{
		*cause = slot->error.refused ? slot->error.cause : LE_CAUSE_OTHER;
		return slot->error.text;
	}
	*cause = le_store_trouble_cause(w);
	return le_store_trouble(w);
}

/* The error "could not find out", in words that fit the outcome. */
void
le_reply_outcome(LeWorker *w, LePending *p, LeOutcome outcome)
{
	char		message[256];
	char		detail[512];
	char		hint[256] = "";
	LeCause		cause;
	int			sqlstate = LE_ERRCODE_UNAVAILABLE;

	if (p->ask.all)
		snprintf(message, sizeof(message),
				 "could not release all elections at the lease store %s",
				 le_store_address(w));
	else
		snprintf(message, sizeof(message),
				 "could not %s election \"%s\" at the lease store %s",
				 verb(p->ask.kind), p->ask.election, le_store_address(w));
	if (outcome == LE_UNAVAILABLE && le_contest(p)->unsent)
		explain_no_turn(p, detail, sizeof(detail), hint, sizeof(hint));
	else
	{
		strlcpy(detail, trouble_with(w, p, outcome, &cause), sizeof(detail));
		store_hint(outcome, cause, hint, sizeof(hint));
	}
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
	le_reply_error(p, sqlstate, message, detail, hint);
}

/*
 * The end of an acquire without a grant.  If the store may have applied one of
 * its requests for a while, neither "not to be had" nor "nothing was done" is
 * certain: it may have refused others because of it.
 */
void
le_reply_not_granted(LeWorker *w, LePending *p, bool denied, LeOutcome outcome)
{
	if (le_contest(p)->unresolved)
		le_reply_outcome(w, p, LE_UNKNOWN);
	else if (denied)
		le_reply(p, LE_REPLY_FALSE);
	else
		le_reply_outcome(w, p, outcome);
}

/*
 * The same for a reason of this node's own, which says nothing about requests
 * that its predecessor may have sent.
 */
void
le_reply_refused(LeWorker *w, LePending *p, int sqlstate, const char *message,
				 const char *detail, const char *hint)
{
	if (le_contest(p)->unresolved && p->ask.kind == LE_ASK_ACQUIRE)
		le_reply_outcome(w, p, LE_UNKNOWN);
	else
		le_reply_error(p, sqlstate, message, detail, hint);
}

/* ---- seekers of an election ---- */

static bool
seeks(const LePending *p, const LeSlot *slot)
{
	return p->ask.kind == LE_ASK_ACQUIRE && p->slot == le_slot_number(slot);
}

/*
 * The seeker that has waited longest; NULL: none.  Valid for this turn.  This
 * function and those below are called for thousands of elections in a turn,
 * most of them without any question.
 */
const LeAsk *
le_first_seeker(LeWorker *w, const LeSlot *slot)
{
	if (slot->asked == 0)
		return NULL;
	le_foreach_pending(p, w->pendings)
		if (seeks(p, slot) && le_still_asked(p->proc, p->number))
			return &p->ask;
	return NULL;
}

/* Is there a seeker for this owner?  With "look", its backend still waits. */
static bool
any_seeker_of(LeWorker *w, const LeSlot *slot, LeOwner owner, bool look)
{
	if (slot->asked == 0)
		return false;
	le_foreach_pending(p, w->pendings)
		if (seeks(p, slot) && p->ask.owner == owner &&
			(!look || le_still_asked(p->proc, p->number)))
			return true;
	return false;
}

/* Does somebody seek the election for this owner? */
bool
le_seeker_waits(LeWorker *w, const LeSlot *slot, LeOwner owner)
{
	return any_seeker_of(w, slot, owner, true);
}

/* Same, without checking that the backend is still there. */
bool
le_seeker_heard_of(LeWorker *w, const LeSlot *slot, LeOwner owner)
{
	return any_seeker_of(w, slot, owner, false);
}

/* Is there a seeker of any election that may be sought? */
bool
le_any_seeker(LeWorker *w, bool (*may_seek) (LeWorker *w, const LeSlot *slot))
{
	le_foreach_pending(p, w->pendings)
		if (p->ask.kind == LE_ASK_ACQUIRE && p->slot >= 0 &&
			may_seek(w, le_slot(p->slot)))
			return true;
	return false;
}

/* The value that a holder wants to publish, once it is proven; or NULL. */
const char *
le_value_to_publish(LeWorker *w, const LeSlot *slot)
{
	if (slot->asked == 0)
		return NULL;
	le_foreach_pending(p, w->pendings)
		if (p->slot == le_slot_number(slot) &&
			p->ask.kind == LE_ASK_RENEW && le_contest(p)->publishing)
			return p->ask.value;
	return NULL;
}

bool
le_renewal_asked(LeWorker *w, int slot)
{
	if (le_slot(slot)->asked == 0)
		return false;
	le_foreach_pending(p, w->pendings)
		if (p->ask.kind == LE_ASK_RENEW && p->slot == slot)
			return true;
	return false;
}

/* ---- verdicts ---- */

/* A node that campaigns would have the lease without any call. */
static bool
is_for_callers(const LeSlot *slot)
{
	return le_owner_of(slot) != LE_OWNER_NODE || !le_campaigns(slot);
}

/*
 * The term is the caller's: it began for calls like this one, or was the
 * caller's before.  In the first case count this caller as informed.
 */
void
le_reply_granted(LePending *p, LeSlot *slot)
{
	LeReply		r = {0};

	r.kind = LE_REPLY_TRUE;
	r.token = slot->election.token;
	r.fresh = le_grants_open(slot) && is_for_callers(slot);
	if (r.fresh)
		le_grant(slot);
	if (!le_pending_answer(p, &r) && r.fresh)
		le_decline_term(slot->name, r.token);
}

/* All questions that waited for the term are answered. */
static void
end_grants(LeSlot *slot)
{
	if (!is_for_callers(slot))
		le_keep_term(slot->name, slot->election.token);
	le_end_grants(slot);
}

static void
verdict_granted(LeWorker *w, LeSlot *slot)
{
	le_foreach_pending(p, w->pendings)
	{
		if (!seeks(p, slot) || p->ask.owner != slot->candidate.owner)
			continue;
		le_progress_shorten(p->slot, p->ask.within);
		le_reply_granted(p, slot);
	}
	end_grants(slot);
}

/*
 * The worker before may have ended when a term had begun and no caller knew
 * yet.  Callers that still wait have asked this worker by now.  Without any,
 * the term would be held for a caller that never learns of it.
 */
void
le_pending_end_grants(void)
{
	for (int i = 0; i < le_table->nused; i++)
		if (le_grants_open(le_slot(i)))
			end_grants(le_slot(i));
}

/*
 * Not ours now.  Callers that do not wait are told so.  The others wait on,
 * even if this node holds the election for somebody else.  A request that was
 * under way when a question came may have been answered by the state before:
 * then the store has to be asked again.  True if it has.
 */
static bool
verdict_denied(LeWorker *w, const LeSlot *slot, uint32 answered)
{
	bool		again = false;

	le_foreach_pending(p, w->pendings)
	{
		if (!seeks(p, slot))
			continue;
		if (le_contest(p)->joined != 0 && le_contest(p)->joined == answered)
		{
			le_contest(p)->joined = 0;
			again = true;
			continue;
		}
		le_contest(p)->known = le_contest(p)->denied = true;
		if (p->ask.wait_until <= le_now())
			le_reply_not_granted(w, p, true, LE_DONE);
	}
	return again;
}

/* An acquire stays unresolved for the owner for whom it was sent. */
void
le_pending_unresolved(LeWorker *w, const LeSlot *slot)
{
	le_foreach_pending(p, w->pendings)
		if (seeks(p, slot) && p->ask.owner == slot->candidate.owner)
			le_contest(p)->unresolved = true;
}

/* A request for the election has its answer: from the store, or unsent. */
void
le_pending_unsent(LeWorker *w, const LeSlot *slot, bool unsent)
{
	if (slot->asked == 0)
		return;
	le_foreach_pending(p, w->pendings)
		if (p->slot == le_slot_number(slot))
			le_contest(p)->unsent = unsent;
}

/* The outcome is unknown to that owner alone: nothing was done for others. */
static void
verdict_failed(LeWorker *w, LeSlot *slot, LeOutcome outcome)
{
	le_foreach_pending(p, w->pendings)
	{
		if (!seeks(p, slot))
			continue;
		le_contest(p)->known = true;
		le_contest(p)->denied = false;
		p->outcome = outcome;
		if (outcome == LE_UNKNOWN && p->ask.owner != slot->candidate.owner)
			p->outcome = LE_UNAVAILABLE;
		if (p->ask.wait_until <= le_now() || outcome == LE_REFUSED)
			le_reply_not_granted(w, p, false, p->outcome);
	}
}

/* No seeker gets the election now. */
void
le_pending_refuse(LeWorker *w, const LeSlot *slot, int sqlstate,
				  const char *message, const char *detail, const char *hint)
{
	le_foreach_pending(p, w->pendings)
		if (seeks(p, slot))
			le_reply_refused(w, p, sqlstate, message, detail, hint);
}

static void
verdict_token(LeWorker *w, LeSlot *slot)
{
	char		message[256];
	char		detail[128];

	snprintf(message, sizeof(message),
			 "store %s gave election \"%s\" a fencing token that is not higher than one seen before",
			 le_store_address(w), slot->name);
	snprintf(detail, sizeof(detail), "Highest token seen: " UINT64_FORMAT ".",
			 slot->election.token_floor);
	ereport(LOG,
			(errcode(LE_ERRCODE_REFUSED),
			 errmsg_internal("%s", message),
			 errdetail_internal("%s", detail),
			 errhint(LE_ACCEPT_HINT)));
	le_pending_refuse(w, slot, LE_ERRCODE_REFUSED, message, detail,
					  LE_ACCEPT_HINT);
}

static bool
waits_for_release(const LePending *p, const LeSlot *slot)
{
	switch (p->ask.kind)
	{
		case LE_ASK_RELEASE:
		case LE_ASK_WITHDRAW:
			return p->slot == le_slot_number(slot);
		case LE_ASK_STEP_DOWN:
			if (p->ask.all)
				return le_contest(p)->releasing[le_slot_number(slot)];
			return p->slot == le_slot_number(slot);
		default:
			return false;
	}
}

static void
verdict_released(LeWorker *w, LeSlot *slot, bool confirmed, LeOutcome outcome)
{
	le_foreach_pending(p, w->pendings)
	{
		if (!waits_for_release(p, slot))
			continue;
		if (!confirmed)
			le_reply_outcome(w, p, outcome);
		else if (--le_contest(p)->releases <= 0)
			le_reply(p, LE_REPLY_TRUE);
		else if (p->ask.all)
			le_contest(p)->releasing[le_slot_number(slot)] = false;
	}
}

static void
verdict_publish(LeWorker *w, LeSlot *slot, LeVerdict verdict,
				LeOutcome outcome)
{
	le_foreach_pending(p, w->pendings)
	{
		if (p->ask.kind != LE_ASK_RENEW || p->slot != le_slot_number(slot))
			continue;
		if (verdict == LE_SAY_LOST)
			le_reply(p, LE_REPLY_FALSE);
		else if (!le_contest(p)->publishing ||
				 strcmp(p->ask.value, slot->value) != 0)
			continue;			/* not this one's value */
		else if (verdict == LE_SAY_PUBLISHED)
			le_reply(p, LE_REPLY_TRUE);
		else
			le_reply_outcome(w, p, outcome);
	}
}

/*
 * Answer the questions that the core has decided.  True: a question is younger
 * than the answer that was judged, so the store is to be asked again.
 */
bool
le_pass_verdict(LeWorker *w, LeSlot *slot, const LeActions *act,
				uint32 answered)
{
	switch (act->verdict)
	{
		case LE_SAY_NOTHING:
			break;
		case LE_SAY_GRANTED:
			verdict_granted(w, slot);
			return verdict_denied(w, slot, le_term_stands(slot) ? 0 :
								  answered);
		case LE_SAY_DENIED:
			return verdict_denied(w, slot, answered);
		case LE_SAY_FAILED:
			verdict_failed(w, slot, act->outcome);
			break;
		case LE_SAY_PUBLISHED:
		case LE_SAY_PUBLISH_FAILED:
			verdict_publish(w, slot, act->verdict, act->outcome);
			break;
		case LE_SAY_RELEASED:
			verdict_released(w, slot, true, act->outcome);
			break;
		case LE_SAY_RELEASE_FAILED:
			verdict_released(w, slot, false, act->outcome);
			break;
		case LE_SAY_LOST:
			break;				/* callers were told when the term ended */
		case LE_SAY_TOKEN_WENT_BACK:
			verdict_token(w, slot);
			break;
	}
	return false;
}

/* A term is over: its holder cannot renew it any more. */
void
le_pending_term_ended(LeWorker *w, LeSlot *slot)
{
	verdict_publish(w, slot, LE_SAY_LOST, LE_DONE);
}

/* A proof that was sent then covers these elections. */
void
le_pending_proved(LeWorker *w, le_time sent, const int *numbers, int n)
{
	le_foreach_pending(p, w->pendings)
	{
		bool		covered = false;

		for (int i = 0; i < n; i++)
			covered = covered || numbers[i] == p->slot;
		if (p->ask.kind != LE_ASK_RENEW || le_contest(p)->publishing ||
			!covered || sent < p->asked)
			continue;
		if (!p->ask.has_value)
			le_reply(p, LE_REPLY_TRUE);
		else
			le_contest(p)->publishing = true;
	}
}

/* ---- the session ---- */

static bool
checks_session(const LePending *p)
{
	return p->ask.kind == LE_ASK_CHECK && p->ask.check == LE_CHECK_SESSION;
}

/* There is no session now.  Callers that do not wait are told so. */
void
le_pending_no_session(LeWorker *w, LeOutcome outcome)
{
	le_foreach_pending(p, w->pendings)
	{
		if (checks_session(p))
		{
			le_reply_error(p, outcome == LE_REFUSED ? LE_ERRCODE_REFUSED :
						   LE_ERRCODE_UNAVAILABLE, "", le_store_trouble(w),
						   "");
			continue;
		}
		if (p->ask.kind != LE_ASK_ACQUIRE || le_session_live())
			continue;
		le_contest(p)->known = true;
		le_contest(p)->denied = le_contest(p)->unsent = false;
		p->outcome = outcome == LE_UNKNOWN ? LE_UNAVAILABLE : outcome;
		if (p->ask.wait_until <= le_now() || outcome == LE_REFUSED)
			le_reply_not_granted(w, p, false, p->outcome);
	}
}

/* There is a session: answer the questions that only check for one. */
void
le_pending_session_live(LeWorker *w)
{
	le_foreach_pending(p, w->pendings)
		if (checks_session(p))
			le_reply(p, LE_REPLY_TRUE);
}

/* ---- questions and their end ---- */

/* A new question; the caller starts the work on it. */
LePending *
le_pending_new(LeWorker *w, int proc, uint64 number, const LeAsk *ask)
{
	LePending  *p = le_pending_add(w->pendings, proc, number, ask);

	/* The worker before this one may have sent something for it. */
	le_contest(p)->unresolved = ask->again;
	p->give_up += Max(ask->wait_until - p->asked, 0);
	return p;
}

LePending *
le_pending_find(LeWorker *w, uint64 number, int proc)
{
	return le_pending_in(w->pendings, number, proc);
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

/*
 * An acquire that waits for its turn: the store has no copy of it, and never
 * gets one if nobody seeks the election when the turn comes.
 */
bool
le_acquire_waits(LeWorker *w, const LeSlot *slot)
{
	return slot->election.state == LE_ACQUIRING &&
		!le_election_is_repeating(&slot->election) &&
		le_flight_waits(w, le_slot_number(slot));
}

static bool
acquire_under_way(LeWorker *w, const LeSlot *slot)
{
	return slot->election.state == LE_ACQUIRE_UNSURE ||
		(slot->election.state == LE_ACQUIRING && !le_acquire_waits(w, slot));
}

/*
 * Has a write been sent for this question that may still be applied?  Not for
 * an acquire that waits for another's write, nor for a renewal that waits for
 * its proof.
 */
static bool
may_be_applied(LeWorker *w, const LePending *p)
{
	const LeSlot *slot = p->slot < 0 ? NULL : le_slot(p->slot);

	switch (p->ask.kind)
	{
		case LE_ASK_ACQUIRE:
			return slot != NULL && acquire_under_way(w, slot) &&
				slot->candidate.owner == p->ask.owner;
		case LE_ASK_RENEW:
			return le_contest(p)->publishing && write_under_way(slot);
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
 * A question's time is up: reply with the known state.  It may have been the
 * last one that sought the election.  The worker must notice at once, or the
 * node would take the key for nobody when it becomes free.
 */
static void
question_given_up(LeWorker *w, LePending *p, le_time now)
{
	if (p->slot >= 0)
		le_hint_worker();
	if (p->ask.kind == LE_ASK_ACQUIRE && p->slot >= 0 &&
		le_acquire_waits(w, le_slot(p->slot)))
		le_contest(p)->unsent = true;
	if (may_be_applied(w, p))
		le_reply_outcome(w, p, LE_UNKNOWN);
	else
		le_reply_not_granted(w, p, le_contest(p)->denied, p->outcome);
}

/*
 * When does the wait for an election end?  Not in the middle of an attempt: it
 * goes on until there is a verdict or the time to give up.
 */
static le_time
wait_ends(LeWorker *w, const LePending *p)
{
	if (p->ask.kind != LE_ASK_ACQUIRE || !le_contest(p)->known ||
		may_be_applied(w, p))
		return p->give_up;
	return Min(p->ask.wait_until, p->give_up);
}

/* Drop the questions that nobody waits for any more. */
void
le_pending_withdrawn(LeWorker *w)
{
	le_list_withdrawn(w->pendings, 0);	/* at any time */
}

void
le_pending_run_timers(LeWorker *w)
{
	le_list_run_timers(w, w->pendings, le_now());
}

/* When is the next question's time up? */
le_time
le_pending_timer(LeWorker *w)
{
	return le_list_timer(w, w->pendings);
}
