/*-------------------------------------------------------------------------
 *
 * records.c
 *		The records of jobs, and the invariants of claims.
 *
 * Judged from both ends, the store's writes and the callers' answers,
 * independently of the worker in between.  With each write of a record the
 * store passes its old state, and the holder of the election at that instant.
 *
 * test/sim/records.c
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

/* A claim, known by the id that its caller drew. */
typedef struct Claim
{
	bool		asked;
	int			node;
	LeOwner		owner;			/* the backend */
	int			election;
	int			job;
	int64		tick;
	uint64		token;
	bool		catch_up;		/* asked for at least once */
	bool		always_catch_up;	/* each time: any of them may be written */
	LeClaimPlan plan;			/* the plan sent to the worker ... */
	bool		otherwise;		/* ... which was not always the same */
	uint32		process;		/* the worker of the first question ... */
	bool		again;			/* ... and a later question was sent */
	LeGap		gap;			/* ticks that it passed over ... */
	bool		told;			/* ... somebody has reported them */
	LeGap		due;			/* what its record kept: to be reported before
								 * the caller hears of it ... */
	int			reports;		/* ... as was done so often */
	bool		by_run;			/* by le_run(), not by hand */
	int			try;			/* its try in the store; 0: none */
	LeClaimState state;			/* the store's latest record ... */
	bool		abandoned;		/* ... which says that its run is over */
	le_time		left_at;		/* its session went; 0: it is there */
	bool		confirmed;		/* its term held after it was written */
	bool		granted;		/* the caller was told so ... */
	uint32		last_asked;		/* ... when this was the newest claim */
	bool		denied;			/* the last answer: certainly not the
								 * caller's */
	uint64		claim_writes;	/* its record's, with the claim ... */
	uint64		end_writes;		/* ... and its end ... */
	uint64		known_writes;	/* ... the last that its node must know */
	bool		lost;			/* the store has an older record now */
	bool		restored;		/* ... which is this one */
} Claim;

static Claim claims[MAX_CLAIMS];

/* Time for a worker to tell the store, in calm weather. */
#define LEFT_BOUND	(5 * LE_SEC)

/* The claim of each record at this instant. */
static uint32 current[MAX_ELECTIONS][ELECTION_JOBS];

void
claims_reset(void)
{
	sim.claims = 0;
	memset(current, 0, sizeof(current));
}

/* As its caller wrote it, if it did. */
static char names[MAX_CLAIMS][LE_CLAIM_ID_LEN + 1];

/* A random number, for once, must not come twice. */
uint32
claim_draw(void)
{
	if (sim.claims == MAX_CLAIMS - 1)
		abort();
	memset(&claims[++sim.claims], 0, sizeof(Claim));
	names[sim.claims][0] = '\0';
	return sim.claims;
}

/* The first eight digits tell. */
uint32
claim_of_name(const char *id)
{
	uint32		n = 0;

	for (int i = 0; i < 8; i++)
		n = n * 16 + (id[i] <= '9' ? id[i] - '0' : id[i] - 'a' + 10);
	return n;
}

const char *
name_of_claim(uint32 id)
{
	if (names[id][0] == '\0')
		pg_snprintf(names[id], sizeof(names[id]), "%08x%024d", id, 0);
	return names[id];
}

const char *
name_of_job(int job)
{
	return job == 0 ? "j0" : "j1";
}

int
job_of_name(const char *name)
{
	return name[1] - '0';
}

/* ---- callers' questions and answers ---- */

void
claim_asked(const LeAsk *ask)
{
	Claim	   *c = &claims[claim_of_name(ask->claim_id)];

	trace(sim_node, "b%d claims tick " INT64_FORMAT " of job%d of %s%s "
		  "as claim %u, token " UINT64_FORMAT, sim_backend->process.proc,
		  ask->tick, job_of_name(ask->job), ask->election,
		  ask->catch_up ? ", to catch up" : "",
		  claim_of_name(ask->claim_id), ask->token);
	sim.counts.claims_asked++;
	c->always_catch_up = ask->catch_up && (c->always_catch_up || !c->asked);
	c->asked = true;
	c->denied = false;
	c->node = sim_node->number;
	c->owner = sim_backend->owner;
	c->election = election_of_name(ask->election);
	c->job = job_of_name(ask->job);
	c->tick = ask->tick;
	c->token = ask->token;
	c->catch_up = c->catch_up || ask->catch_up;
	if (c->process == 0)
		c->process = sim_node->process;
	c->again = c->again || ask->again || c->process != sim_node->process;
	c->plan.every = ask->every;
	c->plan.due = ask->due;
	c->plan.missed = ask->missed;
	c->plan.max_missed = ask->max_missed;
	c->otherwise = c->otherwise || ask->otherwise;
	c->by_run = c->by_run || script_is_run(&sim_backend->script);
	strlcpy(names[c - claims], ask->claim_id, sizeof(names[0]));
}

/* Does a session do the work of the tick at this instant? */
static bool
acts(uint32 id)
{
	SimNode    *n = sim.node[claims[id].node];

	for (int i = 0; i < MAX_BACKENDS; i++)
		if (n->backends[i].busy && n->backends[i].acting == id)
			return true;
	return false;
}

static bool
same_tick(const Claim *a, const Claim *b)
{
	return a->tick == b->tick && a->job == b->job &&
		a->election == b->election;
}

/*
 * May a record keep a claim from catching up: one of this term, if its
 * claimant may still act on it or its worker may still be sending its end, or
 * an older one, which a claim by hand does not catch up?
 */
bool
claim_stays(int election, int job, uint64 token, bool by_run)
{
	uint32		id = current[election][job];
	const Claim *c = &claims[id];

	return id != 0 && c->state == LE_CLAIM_RUNNING &&
		(c->token == token || !by_run);
}

/* At a claim's first write: this term is in force at this instant. */
void
claims_confirmed(int election, uint64 token)
{
	for (uint32 i = 1; i <= sim.claims; i++)
	{
		Claim	   *c = &claims[i];

		if (c->election == election && c->token == token && c->try != 0)
			c->confirmed = true;
	}
}

/* ---- ticks that were passed over ---- */

static bool
same_gap(const LeGap *a, const LeGap *b)
{
	return a->n == b->n && (a->n == 0 || (a->first == b->first &&
										  a->last == b->last));
}

/* Are all ticks of the one among those of the other? */
static bool
covers(const LeGap *gap, const LeGap *part)
{
	return gap->n > 0 && gap->first <= part->first && part->last <= gap->last;
}

/*
 * Is it time for the claim's report?  A worker that is asked again, or comes
 * after another, cannot know whether that was done.
 */
static bool
may_report(const Claim *c)
{
	return c->reports == 0 || c->again || c->process != sim_node->process;
}

/* A worker reports ticks that a claim of its node has passed over. */
void
missed_reported(const char *election, const char *job, const LeGap *gap)
{
	int			e = election_of_name(election);
	int			j = job_of_name(job);
	bool		due = false;

	sim.counts.missed_told += gap->n;
	for (uint32 i = 1; i <= sim.claims; i++)
	{
		Claim	   *c = &claims[i];

		if (c->election != e || c->job != j || c->try == 0)
			continue;
		if (covers(gap, &c->gap))
			c->told = true;
		/* a claim in the place of one that never ended has the same due */
		if (c->node == sim_node->number && same_gap(gap, &c->due) &&
			may_report(c))
		{
			due = true;
			c->reports++;
		}
	}
	trace(sim_node, INT64_FORMAT " ticks of job%d of e%d were missed, from "
		  INT64_FORMAT " to " INT64_FORMAT, gap->n, j, e, gap->first,
		  gap->last);
	if (sim.restored)
		return;
	if (!due)
		sim_fail("n%d reports " INT64_FORMAT " missed ticks of job%d of e%d, "
				 "which no claim has passed over, or again",
				 sim_node->number, gap->n, j, e);
}

/*
 * When a caller hears that it has the claim, the ticks that the claim passed
 * over were reported.  The store may have lost the claim since, and those
 * ticks with it.
 */
static void
check_told_of(uint32 id)
{
	const Claim *c = &claims[id];

	if (c->due.n > 0 && c->reports == 0 && !sim.restored)
		sim_fail("claim %u was granted, and nobody has reported the "
				 INT64_FORMAT " ticks that it passed over", id, c->due.n);
}

/* Ticks that nobody has run or reported are in the job's record. */
static void
check_kept(int election, int job, const ClaimRecord *record)
{
	for (uint32 i = 1; i <= sim.claims && !sim.restored; i++)
	{
		const Claim *c = &claims[i];

		if (c->election == election && c->job == job && c->gap.n > 0 &&
			!c->told && !covers(&record->gap, &c->gap))
			sim_fail("claim %u has passed over " INT64_FORMAT " ticks, which "
					 "nobody has reported, and the record of claim %u does "
					 "not say so", i, c->gap.n, record->id);
	}
}

/* The ticks between the two, if nobody can run them any more. */
static LeGap
gap_between(const ClaimRecord *before, const ClaimRecord *after)
{
	LeGap		gap = {0};

	if (!before->exists || after->every == 0 ||
		before->every != after->every || after->tick <= before->tick ||
		(after->tick - before->tick) % after->every != 0)
		return gap;
	gap.n = (after->tick - before->tick) / after->every - 1;
	gap.first = before->tick + after->every;
	gap.last = after->tick - after->every;
	return gap;
}

/*
 * A claim's record keeps what the claim has passed over, and what the claim
 * before it kept, unless that has ended.
 */
static void
check_gap(Claim *c, const ClaimRecord *before, const ClaimRecord *after)
{
	if (sim.restored)
		return;
	c->gap = gap_between(before, after);
	c->due = c->gap;
	if (before->exists && before->state == LE_CLAIM_RUNNING &&
		before->gap.n > 0)
	{
		c->due.n += before->gap.n;
		c->due.first = before->gap.first;
		if (c->gap.n == 0)
			c->due.last = before->gap.last;
	}
	if (!same_gap(&c->due, &after->gap))
		sim_fail("claim %u has passed over " INT64_FORMAT " ticks with those "
				 "of claim %u, and its record says " INT64_FORMAT, after->id,
				 c->due.n, before->id, after->gap.n);
}

static void
told_true(uint32 id, const LeReply *reply)
{
	Claim	   *c = &claims[id];

	sim.counts.claims_granted++;
	if (sim.model->store->claims.apart && !c->confirmed)
		sim_fail("claim %u was granted, and nobody knew whether its term was "
				 "over when it was written", id);
	c->granted = true;
	c->known_writes = Max(c->known_writes, c->claim_writes);
	if (c->abandoned && c->state == LE_CLAIM_RUNNING)
		sim_fail("claim %u was abandoned, and is granted", id);
	c->last_asked = sim.claims;
	if (c->try == 0 || c->try != reply->try)
		sim_fail("claim %u was granted as try %d, and the store has it as %d",
				 id, reply->try, c->try);
	for (uint32 i = 1; i <= sim.claims; i++)
	{
		if (i == id || !same_tick(&claims[i], c))
			continue;
		/* another node cannot know what the store has lost */
		if (claims[i].granted && claims[i].try == c->try &&
			!((claims[i].lost || c->lost) && claims[i].node != c->node))
			sim_fail("claims %u and %u were both granted the tick "
					 INT64_FORMAT " of job%d of e%d, try %d", i, id, c->tick,
					 c->job, c->election, c->try);
		if (claims[i].token == c->token && claims[i].node == c->node &&
			(claims[i].try > c->try || acts(i)))
			sim_fail("claims %u and %u of one term may both act on the tick "
					 INT64_FORMAT " of job%d of e%d", i, id, c->tick, c->job,
					 c->election);
	}
	check_told_of(id);
}

/* Has another session of the node asked to go on in place of this claim? */
static bool
somebody_follows(uint32 id)
{
	for (uint32 i = id + 1; i <= sim.claims; i++)
		if (same_tick(&claims[i], &claims[id]) &&
			claims[i].token == claims[id].token &&
			claims[i].node == claims[id].node &&
			claims[i].owner != claims[id].owner && claims[i].catch_up)
			return true;
	return false;
}

/*
 * A caller that asks for its tick again must get it if it had it all the time
 * and no other session was told that the claim is over.
 */
static void
check_not_his(uint32 id)
{
	const Claim *c = &claims[id];
	const Claim *had = &claims[current[c->election][c->job]];
	const Claim *last = c - 1;

	while (last > claims && (last->owner != c->owner ||
							 last->node != c->node || last->job != c->job ||
							 last->election != c->election))
		last--;
	if (last > claims && last == had && !had->granted &&
		had->tick == c->tick && had->token == c->token &&
		!somebody_follows((uint32) (had - claims)))
		sim_fail("claim %u was refused for claim %u, of the same caller, who "
				 "does not know", id, (uint32) (had - claims));
}

/*
 * "No" must be certain: the tick is not the caller's, though it may have been
 * until another took it.  "Could not find out, but nothing was done" must be
 * certain, too.
 */
static void
told_no(uint32 id, const LeReply *reply)
{
	Claim	   *c = &claims[id];

	if (reply->kind == LE_REPLY_FALSE)
		sim.counts.claims_refused++;
	else
		sim.counts.claims_unknown++;
	if (reply->behind)
		sim.counts.claims_behind++;
	if (reply->under_way)
		sim.counts.claims_under_way++;
	if (c->granted && !c->lost)
		sim_fail("claim %u was granted, and then it was not", id);
	c->denied = reply->kind == LE_REPLY_FALSE ||
		(reply->sqlstate != LE_ERRCODE_UNKNOWN &&
		 reply->sqlstate != LE_ERRCODE_LOST);
	if (c->denied && current[c->election][c->job] == id)
		sim_fail("claim %u was refused, and the record is its", id);
	if (reply->kind == LE_REPLY_FALSE)
		check_not_his(id);
	if (c->denied && c->try != 0 && reply->kind == LE_REPLY_ERROR && !c->lost)
		sim_fail("claim %u had no effect, and was written", id);
}

static void
told_end(const LeAsk *ask, const LeReply *reply)
{
	uint32		id = claim_of_name(ask->claim_id);
	Claim	   *c = &claims[id];

	if (reply->kind == LE_REPLY_TRUE && c->state != ask->ending && !c->lost)
		sim_fail("claim %u was said to be %s, and is %s in the store", id,
				 le_claim_state_name(ask->ending),
				 le_claim_state_name(c->state));
	if (reply->kind == LE_REPLY_TRUE)
	{
		c->known_writes = Max(c->known_writes, c->end_writes);
		sim.counts.completed++;
	}
}

void
claim_told(const LeAsk *ask, const LeReply *reply)
{
	uint32		id = claim_of_name(ask->claim_id);

	if (trace_on && (ask->kind == LE_ASK_CLAIM ||
					 ask->kind == LE_ASK_COMPLETE))
		trace(sim_node, "b%d hears of claim %u: %s%s",
			  sim_backend->process.proc, id,
			  reply->kind == LE_REPLY_TRUE ? "yes" :
			  reply->kind == LE_REPLY_FALSE ? "no" :
			  reply->sqlstate == LE_ERRCODE_UNKNOWN ? "perhaps" :
			  reply->sqlstate == LE_ERRCODE_LOST ? "perhaps, lost" :
			  "an error", reply->behind ? ", behind" : "");
	if (ask->kind == LE_ASK_COMPLETE)
		told_end(ask, reply);
	else if (ask->kind == LE_ASK_CLAIM && reply->kind == LE_REPLY_TRUE)
		told_true(id, reply);
	else if (ask->kind == LE_ASK_CLAIM)
		told_no(id, reply);
}

/* ---- writes of the store ---- */

/*
 * Each tick after the one on record is claimed in its turn, or passed over by
 * request: the newest one runs, or the newest few.
 */
static void
check_missed(Claim *c, const ClaimRecord *before, const ClaimRecord *after)
{
	const LeClaimPlan *plan = &c->plan;
	int64		every = plan->every;
	int64		missed;
	int64		runs;

	/* the store does not tell which of the plans was written */
	if (c->otherwise || sim.restored)
		return;
	if (plan->missed != LE_MISSED_SKIP &&
		before->state == LE_CLAIM_RUNNING && before->token == after->token &&
		claims[before->id].node == c->node && acts(before->id))
		sim_fail("claim %u stands beside claim %u, which somebody acts on",
				 after->id, before->id);
	if (every == 0 || before->every != every)
	{
		if (every != 0 && before->every != 0)
			sim.counts.intervals++;
		/* ticks of another interval were not yet visible */
		if (after->tick != Max(plan->due, c->tick) && before->id < after->id)
			sim_fail("claim %u is for an older tick, whose interval nobody "
					 "knows", after->id);
		return;
	}
	if ((plan->due - before->tick) % every != 0)
		return;
	missed = (plan->due - before->tick) / every - 1;
	runs = plan->missed == LE_MISSED_ALL ? Min(missed, plan->max_missed) :
		plan->missed == LE_MISSED_LAST ? Min(missed, 1) : 0;
	if (after->tick != plan->due - runs * every)
		sim_fail("claim %u of tick " INT64_FORMAT " follows tick " INT64_FORMAT
				 ", when " INT64_FORMAT " is due and %d may be run before it",
				 after->id, after->tick, before->tick, plan->due, (int) runs);
	if (runs > 0)
		sim.counts.missed_run++;
}

static void
check_claim(Claim *c, const ClaimRecord *before, const ClaimRecord *after)
{
	if (!before->exists)
	{
		if (after->try != 1)
			sim_fail("claim %u is the first of all, and try %d", after->id,
					 after->try);
		return;
	}
	if (after->tick < before->tick)
		sim_fail("claim %u goes back from tick " INT64_FORMAT " to "
				 INT64_FORMAT, after->id, before->tick, after->tick);
	/* written only while the term holds, so the claim before it is over */
	if (c->always_catch_up && after->tick > before->tick && !sim.restored &&
		before->state == LE_CLAIM_RUNNING &&
		(before->token <= after->token || sim.model != &azure_model))
		sim_fail("claim %u passes over a tick that was left undone",
				 after->id);
	if (after->tick > before->tick && after->try != 1)
		sim_fail("claim %u is the first of its tick, and try %d", after->id,
				 after->try);
	if (after->tick > before->tick)
		check_missed(c, before, after);
	if (after->tick != before->tick)
		return;
	if (after->every != before->every)
		sim_fail("claim %u says by another interval which tick it is",
				 after->id);
	sim.counts.claims_again++;
	if (before->state != LE_CLAIM_RUNNING)
		sim_fail("claim %u replaces claim %u, which is %s", after->id,
				 before->id, le_claim_state_name(before->state));
	if (after->try != before->try + 1)
		sim_fail("claim %u is try %d after try %d", after->id, after->try,
				 before->try);
	if (!c->catch_up)
		sim_fail("claim %u is another try, which nobody asked for",
				 after->id);
	if (after->token < before->token && !sim.forgotten[c->election])
		sim_fail("claim %u is another try after that of the term with token "
				 UINT64_FORMAT, after->id, before->token);
	if (after->token > before->token)
		return;
	sim.counts.claims_same_term++;
	if (claims[before->id].node == c->node && acts(before->id))
		sim_fail("claim %u is another try in the term of claim %u, which "
				 "somebody acts on", after->id, before->id);
}

static void
check_end(int node, const Claim *c, const ClaimRecord *before,
		  const ClaimRecord *after)
{
	if (!before->exists || before->id != after->id)
		sim_fail("claim %u ends claim %u", after->id, before->id);
	else if (node != c->node)
		sim_fail("claim %u is ended by n%d, which has not got it", after->id,
				 node);
	else if (before->state != LE_CLAIM_RUNNING)
		sim_fail("claim %u was %s, and is made %s", after->id,
				 le_claim_state_name(before->state),
				 le_claim_state_name(after->state));
	else if (before->tick != after->tick || before->try != after->try ||
			 before->token != after->token)
		sim_fail("claim %u is another one at its end", after->id);
	else if (!c->granted)
		sim_fail("claim %u is ended, and nobody knew that he had it",
				 after->id);
	else if (after->gap.n > 0)
		sim_fail("claim %u has ended, and its record still has ticks to be "
				 "reported", after->id);
}

/* Its own node writes that the run is over without a result. */
static void
check_abandoned(int node, uint32 id, const ClaimRecord *before,
				const ClaimRecord *after)
{
	const Claim *c = &claims[id];

	sim.counts.claims_abandoned++;
	if (node != c->node)
		sim_fail("claim %u is abandoned by n%d, which has not got it", id,
				 node);
	else if (acts(id))
		sim_fail("claim %u is abandoned, and somebody acts on it", id);
	else if (before->tick != after->tick || before->try != after->try ||
			 before->token != after->token ||
			 !same_gap(&before->gap, &after->gap))
		sim_fail("claim %u is another one when it is abandoned", id);
}

/* A session of the node has ended. */
void
claims_left(int node, LeOwner owner)
{
	for (uint32 i = 1; i <= sim.claims; i++)
		if (claims[i].node == node && claims[i].owner == owner &&
			claims[i].left_at == 0)
			claims[i].left_at = sim.now;
}

/*
 * Without faults, for a while: a leader that stays knows of the runs whose
 * sessions have ended, and the record says so.  A worker after the one that
 * has claimed finds them by its look at all jobs, which is not done here.
 */
void
claims_check_left(int election, int leader)
{
	for (int j = 0; j < ELECTION_JOBS; j++)
	{
		uint32		id = current[election][j];
		const Claim *c = &claims[id];

		if (id != 0 && c->state == LE_CLAIM_RUNNING && !c->abandoned &&
			!c->restored &&
			c->granted && c->node == leader &&
			c->token == sim.last_token[election] &&
			c->process == sim.node[leader]->process && c->left_at != 0 &&
			sim.now > c->left_at + LEFT_BOUND)
			sim_fail("claim %u is still running %.1f s after its session "
					 "ended", id, (sim.now - c->left_at) / (double) LE_SEC);
	}
}

/*
 * The store has this record of the job again.  Later claims are lost, and
 * with an end that is lost the claim runs again.
 */
void
record_restored(int election, int job, const ClaimRecord *now)
{
	uint32		id = now->exists ? now->id : 0;

	if (current[election][job] == id &&
		(id == 0 || (claims[id].state == now->state &&
					 claims[id].abandoned == now->ended)))
		return;
	sim.restored = true;
	for (uint32 i = 1; i <= sim.claims; i++)
	{
		Claim	   *c = &claims[i];

		if (c->election == election && c->job == job && c->try != 0 &&
			(id == 0 || c->tick > now->tick ||
			 (i == id && c->state != now->state) ||
			 (c->tick == now->tick && c->try > now->try)))
		{
			c->lost = true;
			c->restored = i == id;
		}
	}
	if (id != 0)
	{
		claims[id].state = now->state;
		claims[id].abandoned = now->ended;
		claims[id].restored = true;
	}
	current[election][job] = id;
	trace(NULL, "the record of job%d of e%d is that of claim %u again", job,
		  election, id);
}

/*
 * No node claims a tick again that it had, nor an earlier one.  A request
 * that was on its way already may be written, as if it had come in time.
 */
static void
check_not_lost(uint32 id, const ClaimRecord *before)
{
	const Claim *c = &claims[id];

	for (uint32 i = 1; i <= sim.claims; i++)
	{
		const Claim *had = &claims[i];

		if (had->lost && had->granted && id > had->last_asked &&
			(!before->exists || before->tick < had->tick ||
			 before->writes < had->known_writes) &&
			had->node == c->node &&
			had->election == c->election && had->job == c->job &&
			c->tick <= had->tick)
			sim_fail("claim %u is for a tick that n%d had before, or an older "
					 "one: the store has lost claim %u", id, c->node, i);
	}
}

/*
 * The record of a job was written, in the name of this node.  The holder of
 * the election is -1 if there is none, its token 0 if unknown.
 */
void
claim_written(int node, int election, int job, const ClaimRecord *before,
			  const ClaimRecord *after, int holder, uint64 token)
{
	Claim	   *c = &claims[after->id];

	trace(NULL, "  claim %u: tick " INT64_FORMAT ", try %d, %s",
		  after->id, after->tick, after->try,
		  le_claim_state_name(after->state));
	if (!c->asked || c->election != election || c->job != job ||
		c->tick != after->tick || c->token != after->token)
		sim_fail("claim %u is not what was asked for", after->id);
	if (after->state != LE_CLAIM_RUNNING)
	{
		if (holder != node || (token != 0 && token != c->token))
			sim.counts.completed_late++;
		check_end(node, c, before, after);
	}
	else if (before->exists && before->id == after->id && after->ended)
		check_abandoned(node, after->id, before, after);
	else
	{
		if (!sim.model->store->claims.apart &&
			(holder != node || (token != 0 && token != after->token)))
			sim_fail("claim %u was written for n%d with token " UINT64_FORMAT
					 ", and e%d is held by n%d with token " UINT64_FORMAT,
					 after->id, node, after->token, election, holder, token);
		if (c->try != 0 && !c->lost)
			sim_fail("claim %u was written twice", after->id);
		c->restored = c->lost;	/* by a late copy of its request */
		c->lost = false;
		check_not_lost(after->id, before);
		/* one that was lost may come again, after the last word about it */
		if (c->denied && !c->restored)
			sim_fail("claim %u was refused, and is written now", after->id);
		check_claim(c, before, after);
		check_gap(c, before, after);
		c->try = after->try;
		c->claim_writes = after->writes;
	}
	if (after->state != LE_CLAIM_RUNNING)
		c->end_writes = after->writes;
	c->state = after->state;
	c->abandoned = after->ended;
	current[election][job] = after->id;
	check_kept(election, job, after);
}
