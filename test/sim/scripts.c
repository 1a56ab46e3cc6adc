/*-------------------------------------------------------------------------
 *
 * scripts.c
 *		The scripts of backends.
 *
 * They replace SQL functions and le_run(); arguments and commands do not
 * matter here.
 *
 * test/sim/scripts.c
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

#include "shmem/bound.h"
#include "sql/fence.h"
#include "sql/jobs.h"
#include "sql/xact.h"

/* ---- a transaction ---- */

static void
set_election(LeAsk *ask, const Script *s)
{
	memset(ask, 0, sizeof(*ask));
	ask->owner = le_my_owner(false);
	strlcpy(ask->election, name_of_election(s->election),
			sizeof(ask->election));
}

/* As ask_to_leave() in functions.c. */
static void
leave(const Script *s)
{
	LeAsk		ask;
	LeReply		reply;

	set_election(&ask, s);
	ask.kind = (s->random & 1) != 0 ? LE_ASK_RELEASE : LE_ASK_STEP_DOWN;
	ask.all = ask.kind == LE_ASK_STEP_DOWN && (s->random & 2) != 0;
	ask.hold_off = s->span;
	sim_backend->leaving = true;
	le_fence_leave_begin(ask.all ? LE_BOUND_ALL :
						 le_find_term(ask.election));
	PG_TRY();
	{
		le_ask(&ask, &reply);
		sim_backend->left = reply.kind == LE_REPLY_TRUE;
	}
	PG_FINALLY();
	{
		le_fence_leave_end();
	}
	PG_END_TRY();
	sim_backend->leaving = false;
}

static LeOnLoss
on_loss(const Script *s)
{
	return (s->random >> 20) & 1 ? LE_ON_LOSS_CANCEL : LE_ON_LOSS_NONE;
}

/* As le_require_leader(). */
static void
pass_gate(const Script *s, int64 min_remaining)
{
	uint64		token = le_fence_bind(name_of_election(s->election),
									  min_remaining, on_loss(s));

	transaction_may_begin();
	transaction_bound(token);
}

/* As le_acquire() in scope "transaction"; false: not acquired. */
static bool
take_for_transaction(const Script *s)
{
	LeAsk		ask;
	LeReply		reply;

	set_election(&ask, s);
	ask.kind = LE_ASK_ACQUIRE;
	ask.owner = le_my_owner(true);
	ask.wait_until = le_now() + s->span;
	le_xact_prepare();
	le_fence_prepare(on_loss(s));
	le_ask(&ask, &reply);
	if (reply.kind != LE_REPLY_TRUE)
		return false;
	le_xact_holds(ask.election, reply.token);
	pass_gate(s, 0);
	return true;
}

static void
work_bound(const Script *s)
{
	const char *election = name_of_election(s->election);

	process_sleep(s->span);
	if (((s->random >> 8) & 3) == 0)
	{
		(void) le_fence_bind(election, 0, on_loss(s));
		process_sleep(s->span / 4);
	}
	if (((s->random >> 10) & 7) == 0)
		leave(s);
	transaction_commit(false);
}

static void
do_transaction(const Script *s)
{
	static const int64 least[] = {0, 0, 500, 2000};

	le_fence_be_newest(true, false);	/* as after each statement */
	if (((s->random >> 13) & 7) == 0)
	{
		if (!take_for_transaction(s))
			return;
	}
	else
		pass_gate(s, least[(s->random >> 16) & 3]);
	work_bound(s);
}

/* ---- a job ---- */

/* It does not act on the claim any more, and then says so. */
static void
leave_claim(LeMyClaim *claim)
{
	sim_backend->acting = 0;
	le_forget_claim(claim);
}

/* As le_complete(): ask until the answer is certain, or the caller stops. */
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
	sim_backend->goes = reply.kind == LE_REPLY_ERROR;
	leave_claim(claim);
	if (reply.kind == LE_REPLY_TRUE)
		progress_report(ask.election);
}

/* As in le_run(), where nothing may be thrown. */
static void
mark(LeMyClaim *claim, LeClaimState ending, le_duration patience)
{
	LeAsk		ask;
	LeReply		reply;

	le_end_ask(&ask, claim, ending);
	ask.to_the_end = true;
	(void) le_tell(&ask, &reply, patience);
	leave_claim(claim);
}

/* le_run(), or else le_claim(). */
bool
script_is_run(const Script *s)
{
	return ((s->random >> 6) & 1) != 0;
}

/* ---- as in run.c ---- */

static bool
leaves_time(const LeTerm *term)
{
	return term->deadline - le_now() > le_commit_margin * LE_MSEC;
}

static bool
bind_session(const char *election, uint64 token)
{
	LeTerm		term;

	le_fence_be_newest(true, false);	/* as after each statement */
	le_fence_set_standing(election, token, LE_ON_LOSS_NONE);
	if (le_may_begin(election, &term))
	{
		transaction_may_begin();
		if (leaves_time(&term) && term.token == token)
		{
			transaction_bound(token);
			return true;
		}
	}
	le_fence_clear_standing();
	return false;
}

static void
unbind_session(void)
{
	le_fence_clear_standing();
	transaction_unbound();
}

static void
wait_for_renewal(const LeMyClaim *claim)
{
	LeTerm		term;

	while (le_my_term(claim->election, &term) &&
		   term.token == claim->token && !leaves_time(&term))
		process_sleep(LE_SEC / 5);
}

static void
run_command(const Script *s, LeMyClaim *claim)
{
	PG_TRY();
	{
		wait_for_renewal(claim);
		transaction_commit(true);
		le_fence_set_standing(claim->election, claim->token,
							  LE_ON_LOSS_NONE);
		(void) le_fence_bind(claim->election, 0, LE_ON_LOSS_NONE);
		process_sleep(s->span);
		transaction_commit(true);
		unbind_session();
	}
	PG_CATCH();
	{
		unbind_session();
		if ((s->random & 8) != 0)
			mark(claim, LE_CLAIM_FAILED, 2 * LE_SEC);
		else
			leave_claim(claim);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/* Does the session of a job, and with it its term, end with the work? */
bool
script_goes(const Script *s)
{
	return (s->random & 7) == 0;
}

/*
 * The tick is ours: do the work, and report it, or leave silently.  A session
 * that keeps an unfinished claim of its own would keep others from catching up
 * for as long as it lives.
 */
static void
work(const Script *s, LeMyClaim *claim)
{
	sim_backend->acting = claim_of_name(claim->id);
	if (script_is_run(s))
		run_command(s, claim);
	else
		process_sleep(s->span);
	switch (s->random & 7)
	{
		case 0:
			sim_backend->goes = true;
			leave_claim(claim);
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

/*
 * Chooses the tick.  In every other schedule ticks follow each other so
 * closely that some are missed.  One claim in eight does not give the
 * interval, and one in sixteen gives another one.
 */
void
script_set_tick(Script *s)
{
	le_duration every = sim.schedule->every;

	if ((sim.schedule->seed & 1) != 0)
		every -= every * 2 / 3 / LE_SEC * LE_SEC;
	s->tick = sim.now / every;
	if (((s->random >> 24) & 15) == 0)
		s->tick += (s->random & 0x10000000) != 0 ? 1 : -1;
	/* there is none before 1970 */
	s->tick = Max(s->tick, 0) * every / LE_MSEC;
	s->every = every / LE_MSEC;
	if (((s->random >> 20) & 7) == 0)
		s->every = 0;
	else if (((s->random >> 19) & 15) == 15)
	{
		s->every *= 2;
		s->tick -= s->tick % s->every;
	}
}

static void
set_missed(LeAsk *ask, const Script *s)
{
	static const LeMissed policies[] = {
		LE_MISSED_SKIP, LE_MISSED_ALL, LE_MISSED_LAST, LE_MISSED_ALL
	};

	le_set_due(ask, s->every * 1000);
	if (s->every == 0)
		return;
	ask->missed = policies[(s->random >> 17) & 3];
	ask->max_missed = 1 + (int) ((s->random >> 13) & 3);
}

static void
set_ask(LeAsk *ask, const Script *s)
{
	set_election(ask, s);
	strlcpy(ask->job, name_of_job(s->job), sizeof(ask->job));
	ask->tick = s->tick;
	ask->catch_up = ((s->random >> 3) & 1) != 0;
	set_missed(ask, s);
}

/* Has a live term, or a later tick, made our claim needless? */
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

/* One in four waits for its turn, as le_run() with "wait". */
static bool
waits(const Script *s)
{
	return ((s->random >> 4) & 3) == 0;
}

/*
 * One claim as leader.  False: ask again, since the answer is unknown, or an
 * older tick came first.
 */
static bool
claim_tick(const Script *s, LeAsk *ask, const LeTerm *term)
{
	LeReply		reply;
	LeMyClaim  *claim = le_try_claim(ask, term, script_is_run(s), &reply);
	LeAsk		older;

	if (claim != NULL)
		work(s, claim);
	if (claim != NULL || reply.kind == LE_REPLY_FALSE)
	{
		if (!reply.behind)
			return !reply.under_way || !waits(s);
		older = *ask;
		older.tick = reply.tick;
		claim = le_try_claim(&older, term, script_is_run(s), &reply);
		if (claim != NULL)
			work(s, claim);
	}
	return false;
}

/* A session that runs the tick is bound before the claim. */
static bool
run_tick(const Script *s, LeAsk *ask, const LeTerm *term)
{
	volatile bool over = false;

	if (!script_is_run(s))
		return claim_tick(s, ask, term);
	if (!bind_session(ask->election, term->token))
		return false;
	PG_TRY();
	{
		over = claim_tick(s, ask, term);
	}
	PG_FINALLY();
	{
		unbind_session();
	}
	PG_END_TRY();
	if (over)
		progress_report(ask->election);
	return over;
}

static void
do_job(const Script *s)
{
	LeAsk		ask;
	LeTerm		term;

	set_ask(&ask, s);
	for (int tries = 0; tries < 5; tries++)
	{
		if (le_may_begin(ask.election, &term))
		{
			transaction_may_begin();
			if (run_tick(s, &ask, &term) || sim_backend->goes)
				return;
		}
		else if (!waits(s) || taken_care_of(&ask, 3 * LE_SEC))
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
		case HAPPEN_TRANSACTION:
			do_transaction(s);
			break;
		case HAPPEN_CRON_STOPS:
			do_cron(&sim_backend->script);
			break;
		default:
			break;
	}
}
