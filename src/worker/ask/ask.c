/*-------------------------------------------------------------------------
 *
 * ask.c
 *		The start of the work on each question of a backend.
 *
 * Some questions are answered at once.  The others wait in pending.c until a
 * verdict of the core, a proof, an answer of the store or their time limit
 * ends the wait.
 *
 * src/worker/ask/ask.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "settings.h"
#include "shmem/clock.h"
#include "shmem/progress.h"
#include "worker/ask/ask.h"
#include "worker/ask/dry_run.h"
#include "worker/ask/find_leader.h"
#include "worker/base/trace.h"
#include "worker/disk/tokens.h"
#include "worker/jobs/claim_end.h"
#include "worker/jobs/claim_list.h"
#include "worker/jobs/claim_take.h"
#include "worker/jobs/job_scan.h"
#include "worker/lead/elect.h"
#include "worker/lead/elect_timers.h"
#include "worker/lead/pending.h"
#include "worker/lead/roster.h"
#include "worker/lead/term.h"
#include "worker/view/cache.h"
#include "worker/view/clones.h"
#include "worker/view/eligible.h"
#include "worker/view/wishes.h"
#include "worker/wire/dispatch.h"

/* Released on request while campaigning: do not win straight back. */
#define DEFAULT_HOLD_OFF	(30 * LE_SEC)

static void
reply_full(LeWorker *w, LePending *p)
{
	int			held_off = le_held_off();
	char		detail[160] = "Every election in it is held or sought.";

	if (held_off > 0)
		snprintf(detail, sizeof(detail),
				 "%d of its %d elections are in the hold-off of le_step_down(); the others are held or sought.",
				 held_off, le_table->nslots);
	le_reply_refused(w, p, ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
					 "no room for another election in the lease table",
					 detail, held_off > 0 ?
					 "Call le_step_down(election, '0') to end a hold-off, or raise \"leader_election.max_elections\" and restart." :
					 "Raise \"leader_election.max_elections\" and restart.");
}

static LeSlot *
slot_for(LeWorker *w, LePending *p)
{
	LeSlot	   *slot = le_elect_slot(w, p->ask.election);

	if (slot == NULL)
	{
		reply_full(w, p);
		return NULL;
	}
	le_pending_attach(w, p, slot);
	return slot;
}

static void
ask_acquire(LeWorker *w, LePending *p)
{
	char		why[512];
	char		message[256];
	int			sqlstate;
	LeSlot	   *slot;

	snprintf(message, sizeof(message),
			 "this node may not lead election \"%s\"", p->ask.election);
	if (!le_may_lead(why, sizeof(why), &sqlstate))
	{
		le_reply_refused(w, p, sqlstate, message, why, "");
		return;
	}
	if (le_clones_unclear() && p->ask.wait_until < le_table->unclear_until)
	{
		le_reply_refused(w, p, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
						 message,
						 "It may be a clone: a node that joined earlier shares a system identifier with this one, and it will be seen shortly if that node lives.",
						 "Wait, or try again.");
		return;
	}
	if ((slot = slot_for(w, p)) == NULL)
		return;
	if (le_now() < slot->hold_off_until &&
		p->ask.wait_until < slot->hold_off_until)
	{
		snprintf(why, sizeof(why),
				 le_progress_of(p->slot)->idles ?
				 "It led without progress and does not contend for another " INT64_FORMAT " ms." :
				 "It stepped down and does not contend for another " INT64_FORMAT " ms.",
				 (int64) ((slot->hold_off_until - le_now()) / LE_MSEC));
		le_reply_refused(w, p, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
						 message, why,
						 "Wait, or call le_campaign() to end the hold-off.");
		return;
	}
	if (le_term_stands(slot) && !le_term_abandoned(slot))
	{
		LeOwner		owner = le_owner_of(slot);

		/* Nobody gets a term that is to end, but callers can wait for it. */
		bool		stays = slot->election.drain_until == 0;

		if (stays && owner == p->ask.owner)
		{
			le_elect_shorten_progress(w, slot, p->ask.within);
			le_reply_granted(p, slot);
		}
		else if (stays && owner != LE_OWNER_NODE &&
				 p->ask.owner != LE_OWNER_NODE &&
				 (owner & ~LE_OWNER_XACT) == (p->ask.owner & ~LE_OWNER_XACT))
		{
			snprintf(message, sizeof(message),
					 "this session already holds election \"%s\" in scope \"%s\"",
					 p->ask.election, le_scope_name(owner));
			le_reply_error(p, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
						   message, "", "Release it first.");
		}
		else
		{
			le_contest(p)->known = le_contest(p)->denied = true;
			if (p->ask.wait_until <= le_now())
				le_reply_not_granted(w, p, true, LE_DONE);
		}
		return;
	}
	if (!le_elect_can_begin(w))
	{
		/* A request may be under way for another caller: it goes on. */
		le_reply_refused(w, p, LE_ERRCODE_REFUSED, message,
						 le_tokens_trouble(w->tokens), LE_TOKENS_HINT);
		return;
	}
	if (le_election_in_flight(&slot->election) && !le_flight_waits(w, p->slot))
		le_contest(p)->joined = slot->election.request;
	le_elect_advance(w, slot);
	/* A wait in progress may rest on an old state: ask the store again. */
	if (slot->election.state == LE_WAITING && le_session_live())
		le_elect_feed(w, slot, LE_IN_WANT);
}

static void
ask_renew(LeWorker *w, LePending *p)
{
	LeSlot	   *slot = le_find_slot(p->ask.election);

	if (slot == NULL || !le_held_by_caller(slot, &p->ask) ||
		slot->election.drain_until != 0)
	{
		le_reply(p, LE_REPLY_FALSE);
		return;
	}
	le_pending_attach(w, p, slot);
	if (le_configured_store()->key_leases)
		le_elect_renew_now(w, slot);
	else
		le_wish_proof(w->wishes);
}

/* Start the release of a term; its verdict answers the question. */
static void
begin_release(LeWorker *w, LePending *p, LeSlot *slot)
{
	le_note_begun(p->proc, p->number, slot->election.token);
	le_contest(p)->releases++;
	le_elect_give_up(w, slot);
}

/* Had the worker before this one begun with the question? */
static bool
was_begun(const LePending *p, uint64 *token)
{
	return p->ask.again && le_was_begun(p->proc, p->number, token);
}

/*
 * The worker before this one has carried out the question, as by ending a
 * term, and ended before its reply.  Reply now, or when the outcome is known.
 * False: there is work left.
 */
static bool
done_before(LeWorker *w, LePending *p, LeSlot *slot)
{
	uint64		token;

	if (!was_begun(p, &token) ||
		(slot != NULL && token != 0 && slot->election.token == token))
		return false;
	if (token == 0 || (slot != NULL && slot->ended_token == token &&
					   slot->end_confirmed))
		le_reply(p, LE_REPLY_TRUE);
	else if (slot != NULL && slot->ended_token == token &&
			 le_election_is_ending(&slot->election))
	{
		le_pending_attach(w, p, slot);
		le_contest(p)->releases++;
	}
	else
		le_reply_outcome(w, p, LE_UNKNOWN);
	return true;
}

static void
ask_release(LeWorker *w, LePending *p)
{
	LeSlot	   *slot = le_find_slot(p->ask.election);

	if (done_before(w, p, slot))
		return;
	if (slot == NULL || !le_held_by_caller(slot, &p->ask))
	{
		le_reply(p, LE_REPLY_NOT_HELD);
		return;
	}
	le_pending_attach(w, p, slot);
	if (slot->campaign || slot->configured)
		le_elect_hold_off(w, slot, DEFAULT_HOLD_OFF);
	begin_release(w, p, slot);
}

static void
ask_campaign(LeWorker *w, LePending *p)
{
	LeSlot	   *slot = slot_for(w, p);

	if (slot == NULL)
		return;
	le_begin_change(slot);
	le_elect_set_campaign(w, slot, true, p->ask.within);
	slot->hold_off_until = slot->campaign_after = 0;
	le_progress_of(p->slot)->idled = le_progress_of(p->slot)->useless = 0;
	if (p->ask.has_value && !le_election_has_term(&slot->election))
	{
		strlcpy(slot->value, p->ask.value, sizeof(slot->value));
		slot->has_value = true;
	}
	else if (!le_election_has_term(&slot->election))
		slot->has_value = false;
	le_end_change(slot);
	le_reply(p, LE_REPLY_TRUE);
	le_elect_advance(w, slot);
}

static void
ask_withdraw(LeWorker *w, LePending *p)
{
	LeSlot	   *slot = le_find_slot(p->ask.election);
	uint64		token = 0;
	bool		begun = was_begun(p, &token);

	if (done_before(w, p, slot))
		return;
	if (slot != NULL && slot->configured && !begun)
	{
		le_reply_error(p, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
					   "cannot withdraw from an election that the configuration names",
					   "It is in the setting \"leader_election.campaign\".",
					   "Change the setting and reload, or use le_step_down().");
		return;
	}
	if (slot == NULL || (!slot->campaign && !begun))
	{
		le_reply(p, LE_REPLY_FALSE);
		return;
	}
	le_pending_attach(w, p, slot);
	if (le_election_has_term(&slot->election) &&
		le_owner_of(slot) == LE_OWNER_NODE)
	{
		le_elect_set_campaign(w, slot, false, LE_WITHIN_SETTING);
		begin_release(w, p, slot);
	}
	else
	{
		le_note_begun(p->proc, p->number, 0);
		le_elect_set_campaign(w, slot, false, LE_WITHIN_SETTING);
		le_reply(p, LE_REPLY_TRUE);
		le_elect_advance(w, slot);
	}
}

static void
wait_for_release(LePending *p, const LeSlot *slot)
{
	le_contest(p)->releases++;
	if (p->ask.all)
		le_contest(p)->releasing[le_slot_number(slot)] = true;
}

/* With "all": is it an election that the caller may not step down from? */
static bool
spares(const LePending *p, const LeSlot *slot)
{
	return p->ask.all && !le_allows(p->ask.value, slot->name);
}

/* False: this node takes no part in it, and is not to stay away. */
static bool
step_down(LeWorker *w, LePending *p, LeSlot *slot)
{
	if (spares(p, slot))
		return false;
	/* The worker before may have begun this, among others. */
	if (p->ask.again && le_election_is_ending(&slot->election))
	{
		wait_for_release(p, slot);
		return true;
	}
	if (!le_elect_takes_part(w, slot))
		return false;
	le_elect_hold_off(w, slot, p->ask.hold_off);
	if (!le_election_has_term(&slot->election))
		return true;
	slot->stepping_down = true;
	wait_for_release(p, slot);
	return true;
}

/* Will the store never confirm the end of some term that was given up? */
static bool
any_end_unknown(void)
{
	for (int i = 0; i < le_table->nused; i++)
	{
		const LeSlot *slot = le_slot(i);

		if (slot->stepping_down && !slot->end_confirmed &&
			!le_election_has_term(&slot->election) &&
			!le_election_is_ending(&slot->election))
			return true;
	}
	return false;
}

static void
ask_step_down(LeWorker *w, LePending *p)
{
	int			first = 0;
	int			last = le_table->nused - 1;
	uint64		token = 0;
	bool		any = was_begun(p, &token);
	bool		unknown = any && p->ask.all && any_end_unknown();

	if (!p->ask.all)
	{
		LeSlot	   *slot = le_find_slot(p->ask.election);

		if (done_before(w, p, slot))
			return;
		if (slot == NULL)
		{
			le_reply(p, LE_REPLY_FALSE);
			return;
		}
		le_pending_attach(w, p, slot);
		first = last = p->slot;
	}
	else
		le_contest(p)->releasing =
			MemoryContextAllocZero(TopMemoryContext,
								   le_table->nslots * sizeof(bool));
	/* Count first: a release may be confirmed while the next one starts. */
	for (int i = first; i <= last; i++)
		any = step_down(w, p, le_slot(i)) || any;
	if (any)
		le_note_begun(p->proc, p->number,
					  p->ask.all ? 0 : le_slot(first)->election.token);
	if (unknown)
	{
		le_reply_outcome(w, p, LE_UNKNOWN);
		p = NULL;
	}
	else if (le_contest(p)->releases == 0)
	{
		le_reply(p, any ? LE_REPLY_TRUE : LE_REPLY_FALSE);
		p = NULL;
	}
	for (int i = first; i <= last; i++)
	{
		/* Some terms may have been spared. */
		if (le_election_has_term(&le_slot(i)->election) &&
			le_slot(i)->stepping_down)
			le_elect_give_up(w, le_slot(i));
		le_elect_advance(w, le_slot(i));
	}
}

/* A lower token of the store counts from here on. */
static void
accept_tokens(LeWorker *w, LeSlot *slot)
{
	slot->election.token_floor = 0;
	slot->election.refused_until = 0;
	le_trace_accept(slot);
	slot->campaign_after = 0;
	le_begin_note(slot);
	slot->refused_token = 0;
	slot->error.text[0] = '\0';
	le_end_note(slot);
	le_roster_update(w->roster, slot);	/* the wishes may stay as they are */
	le_elect_advance(w, slot);
}

static void
ask_accept_store(LeWorker *w, LePending *p)
{
	const char *election = p->ask.all ? NULL : p->ask.election;

	if (!le_tokens_forget(w->tokens, election))
	{
		le_reply_error(p, ERRCODE_IO_ERROR,
					   "could not forget what was seen of the lease store",
					   le_tokens_trouble(w->tokens), LE_TOKENS_HINT);
		return;
	}
	ereport(LOG,
			(p->ask.all ?
			 errmsg("the state of the lease store is accepted for all elections") :
			 errmsg("the state of the lease store is accepted for election \"%s\"",
					election),
			 errdetail("le_accept_store() was called by process %d.",
					   p->ask.pid)));
	le_cache_begin_anew(w);
	for (int i = 0; i < le_table->nused; i++)
		if (p->ask.all || strcmp(le_slot(i)->name, election) == 0)
			accept_tokens(w, le_slot(i));
	le_reply(p, LE_REPLY_TRUE);
}

/* May the question have to wait for transactions bound to a term? */
static bool
gives_up(LeRequestKind kind)
{
	return kind == LE_ASK_RELEASE || kind == LE_ASK_STEP_DOWN ||
		kind == LE_ASK_WITHDRAW;
}

/* A backend asks; called by requests.c for every new question. */
void
le_question(LeWorker *w, int proc, uint64 number, const LeAsk *ask)
{
	static void (*const handlers[]) (LeWorker *, LePending *) = {
		[LE_ASK_ACQUIRE] = ask_acquire,
		[LE_ASK_RENEW] = ask_renew,
		[LE_ASK_RELEASE] = ask_release,
		[LE_ASK_LEADER] = le_ask_leader,
		[LE_ASK_CAMPAIGN] = ask_campaign,
		[LE_ASK_WITHDRAW] = ask_withdraw,
		[LE_ASK_STEP_DOWN] = ask_step_down,
		[LE_ASK_ACCEPT_STORE] = ask_accept_store,
		[LE_ASK_CHECK] = le_ask_check,
	};
	static void (*const of_jobs[]) (LeWorker *, int, uint64, const LeAsk *) = {
		[LE_ASK_CLAIM] = le_ask_claim,
		[LE_ASK_COMPLETE] = le_ask_complete,
		[LE_ASK_LOOK] = le_ask_look,
		[LE_ASK_CLAIMS] = le_ask_claims,
		[LE_ASK_JOBS] = le_ask_jobs,
	};
	LePending  *p;

	if (of_jobs[ask->kind] != NULL)
	{
		of_jobs[ask->kind] (w, proc, number, ask);
		return;
	}
	p = le_pending_new(w, proc, number, ask);
	if (gives_up(ask->kind))
		p->give_up += le_drain_timeout * LE_MSEC + LE_DRAIN_GRACE;
	handlers[ask->kind] (w, p);
}
