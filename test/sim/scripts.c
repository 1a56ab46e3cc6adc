/*-------------------------------------------------------------------------
 *
 * scripts.c
 *		What backends do by themselves.
 *
 * In the place of SQL functions and of le_run(), whose arguments and commands
 * are not what matters here.
 *
 * test/sim/scripts.c
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

#include "jobs.h"

/* ---- a job ---- */

/* As le_complete(): ask until it is known, or the caller has had enough. */
static void
complete(LeMyClaim *claim, int tries)
{
	LeAsk		ask;
	LeReply		reply;

	do
	{
		le_end_ask(&ask, claim, LE_CLAIM_DONE);
		le_ask(&ask, &reply);
		if (reply.kind != LE_REPLY_ERROR)
			break;
		process_sleep(sim_span(LE_MSEC, 2 * LE_SEC));
	} while (--tries > 0);
	le_forget_claim(claim);
}

/* As le_run() does it, where nothing may be thrown. */
static void
mark(LeMyClaim *claim, LeClaimState ending, le_duration patience)
{
	LeAsk		ask;
	LeReply		reply;

	le_end_ask(&ask, claim, ending);
	ask.to_the_end = true;
	(void) le_tell(&ask, &reply, patience);
	le_forget_claim(claim);
}

/* The tick is ours: do what is to be done, and say so, or not. */
static void
work(const Script *s, LeMyClaim *claim)
{
	process_sleep(s->span);
	switch (s->random & 7)
	{
		case 0:
			le_forget_claim(claim); /* the session ends without a word */
			break;
		case 1:
			mark(claim, LE_CLAIM_FAILED, 2 * LE_SEC);
			break;
		case 2:
		case 3:
			mark(claim, LE_CLAIM_DONE, 15 * LE_SEC);
			break;
		default:
			complete(claim, 3);
			break;
	}
}

static void
set_ask(LeAsk *ask, const Script *s)
{
	memset(ask, 0, sizeof(*ask));
	ask->owner = le_my_owner(false);
	strlcpy(ask->election, name_of_election(s->election),
			sizeof(ask->election));
	strlcpy(ask->job, name_of_job(s->job), sizeof(ask->job));
	ask->tick = s->tick;
	ask->catch_up = ((s->random >> 3) & 1) != 0;
}

/* Has a live term, or a later tick, relieved us of the tick? */
static bool
taken_care_of(const LeAsk *claim, le_duration patience)
{
	LeAsk		ask = *claim;
	LeReply		reply;

	ask.kind = LE_ASK_LOOK;
	ask.wait_until = le_now() + patience;
	le_ask(&ask, &reply);
	return reply.kind == LE_REPLY_TRUE;
}

/*
 * One claim as leader.  False: ask again, since the store did not say, or an
 * older tick came first.
 */
static bool
claim_tick(const Script *s, LeAsk *ask, const LeTerm *term)
{
	LeReply		reply;
	LeMyClaim  *claim = le_try_claim(ask, term, &reply);
	LeAsk		older;

	if (claim != NULL)
		work(s, claim);
	if (claim != NULL || reply.kind == LE_REPLY_FALSE)
	{
		if (!reply.behind)
			return true;
		older = *ask;
		older.tick = reply.tick;
		claim = le_try_claim(&older, term, &reply);
		if (claim != NULL)
			work(s, claim);
	}
	return false;
}

/* One in four waits for its turn to lead, as le_run() with "wait". */
static void
do_job(const Script *s)
{
	LeAsk		ask;
	LeTerm		term;
	bool		waits = ((s->random >> 4) & 3) == 0;

	set_ask(&ask, s);
	for (int tries = 0; tries < 5; tries++)
	{
		if (le_may_begin(ask.election, &term))
		{
			if (claim_tick(s, &ask, &term))
				return;
		}
		else if (!waits || taken_care_of(&ask, 3 * LE_SEC))
			return;
		process_sleep(sim_span(100 * LE_MSEC, 2 * LE_SEC));
	}
}

void
script_run(const Script *s)
{
	switch (s->what)
	{
		case HAPPEN_JOB:
			do_job(s);
			break;
		default:
			break;
	}
}
