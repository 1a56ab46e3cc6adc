/*-------------------------------------------------------------------------
 *
 * trace.c
 *		The record of what goes into the decisions and what comes out.
 *
 * One line of JSON per input, written by one system call to a file per worker,
 * so that a line is whole or the last.  Fields that are 0 are left out.
 * test/traces/README.md has the fields, test/traces the judge.
 *
 * Nothing here reads a clock or allocates: in the simulator a worker may stop
 * or end wherever it reads one, and would never between a decision and its
 * line.
 *
 * src/worker/base/trace.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "worker/base/trace.h"

#ifdef LE_TRACES

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "miscadmin.h"

#include "settings.h"

#define NAME_OF(x, names) \
	((unsigned) (x) < lengthof(names) && names[x] != NULL ? names[x] : "?")

static const char *const states[LE_NSTATES] = {
	[LE_IDLE] = "idle",
	[LE_READING] = "reading",
	[LE_WAITING] = "waiting",
	[LE_ACQUIRING] = "acquiring",
	[LE_ACQUIRE_UNSURE] = "acquire unsure",
	[LE_HELD] = "held",
	[LE_PUBLISHING] = "publishing",
	[LE_PUBLISH_UNSURE] = "publish unsure",
	[LE_DRAINING] = "draining",
	[LE_RELEASING] = "releasing",
	[LE_RELEASE_UNSURE] = "release unsure",
};

static const char *const inputs[LE_NINPUTS] = {
	[LE_IN_WANT] = "want",
	[LE_IN_UNWANT] = "unwant",
	[LE_IN_DRAIN] = "drain",
	[LE_IN_PUBLISH] = "publish",
	[LE_IN_READ] = "read",
	[LE_IN_READ_FAILED] = "read failed",
	[LE_IN_SEEN] = "seen",
	[LE_IN_DONE] = "done",
	[LE_IN_CONFLICT] = "conflict",
	[LE_IN_NOT_APPLIED] = "not applied",
	[LE_IN_UNKNOWN] = "unknown",
	[LE_IN_NOT_OURS] = "not ours",
	[LE_IN_RENEWED] = "renewed",
	[LE_IN_RENEW_FAILED] = "renew failed",
	[LE_IN_EXPIRED] = "expired",
	[LE_IN_HOLDER] = "holder",
	[LE_IN_NODE_ENDED] = "node ended",
	[LE_IN_TIMER] = "timer",
};

static const char *const sends[] = {
	[LE_SEND_NOTHING] = "",
	[LE_SEND_READ] = "read",
	[LE_SEND_ACQUIRE] = "acquire",
	[LE_SEND_TAKE_OVER] = "take over",
	[LE_SEND_PUBLISH] = "publish",
	[LE_SEND_RELEASE] = "release",
};

static const char *const verdicts[] = {
	[LE_SAY_NOTHING] = "",
	[LE_SAY_GRANTED] = "granted",
	[LE_SAY_DENIED] = "denied",
	[LE_SAY_FAILED] = "failed",
	[LE_SAY_PUBLISHED] = "published",
	[LE_SAY_PUBLISH_FAILED] = "publish failed",
	[LE_SAY_RELEASED] = "released",
	[LE_SAY_RELEASE_FAILED] = "release failed",
	[LE_SAY_LOST] = "lost",
	[LE_SAY_TOKEN_WENT_BACK] = "token went back",
};

static const char *const outcomes[] = {
	[LE_DONE] = "done",
	[LE_CONFLICT] = "conflict",
	[LE_LOST] = "lost",
	[LE_REFUSED] = "refused",
	[LE_UNAVAILABLE] = "unavailable",
	[LE_UNKNOWN] = "unknown",
};

static const char *const conflicts[] = {
	[LE_CONFLICT_CHANGED] = "changed",
	[LE_CONFLICT_HELD] = "held",
	[LE_CONFLICT_LOCK_DELAY] = "lock delay",
	[LE_CONFLICT_OWN] = "own",
};

static const char *const holders[] = {
	[LE_KEY_FREE] = "free",
	[LE_KEY_OURS] = "ours",
	[LE_KEY_OTHER] = "other",
};

static const char *const node_states[LE_NODE_NSTATES] = {
	[LE_NODE_NONE] = "none",
	[LE_NODE_CREATING] = "creating",
	[LE_NODE_VERIFYING] = "verifying",
	[LE_NODE_REGISTERING] = "registering",
	[LE_NODE_LIVE] = "live",
	[LE_NODE_LISTING] = "listing",
	[LE_NODE_UNLOCKING] = "unlocking",
	[LE_NODE_DESTROYING] = "destroying",
	[LE_NODE_REVOKING] = "revoking",
	[LE_NODE_FORGETTING] = "forgetting",
};

static const char *const node_inputs[LE_NODE_NINPUTS] = {
	[LE_NODE_IN_WANT] = "want",
	[LE_NODE_IN_UNWANT] = "unwant",
	[LE_NODE_IN_DONE] = "done",
	[LE_NODE_IN_FAILED] = "failed",
	[LE_NODE_IN_RENEWED] = "renewed",
	[LE_NODE_IN_RENEW_FAILED] = "renew failed",
	[LE_NODE_IN_PROVED] = "proved",
	[LE_NODE_IN_PROOF_FAILED] = "proof failed",
	[LE_NODE_IN_LISTED] = "listed",
	[LE_NODE_IN_UNLOCKED] = "unlocked",
	[LE_NODE_IN_PROVE_NOW] = "prove now",
	[LE_NODE_IN_TIMER] = "timer",
};

static const char *const claim_verdicts[] = {
	[LE_CLAIM_TAKE] = "take",
	[LE_CLAIM_OURS] = "ours",
	[LE_CLAIM_TAKEN] = "taken",
	[LE_CLAIM_BEHIND] = "behind",
	[LE_CLAIM_UNDER_WAY] = "under way",
	[LE_CLAIM_LOST] = "lost",
};

static const char *const claim_states[] = {
	[LE_CLAIM_RUNNING] = "running",
	[LE_CLAIM_DONE] = "done",
	[LE_CLAIM_FAILED] = "failed",
};

/* ---- writing ---- */

static char line[8192];
static int	len;

static void to_file(const char *text);

/* NULL: nobody reads them. */
void		(*le_trace_sink) (const char *line) = to_file;

/* The file of this worker; -1: it writes none. */
static int
trace_file(void)
{
	static int	fd = -1;
	static int	owner = 0;
	const char *dir = getenv("LE_TRACES");
	char		path[MAXPGPATH];

	if (owner != MyProcPid)
	{
		owner = MyProcPid;
		snprintf(path, sizeof(path), "%s/worker-%d.jsonl",
				 dir == NULL ? "" : dir, MyProcPid);
		fd = dir == NULL ? -1 :
			open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	}
	return fd;
}

static void
to_file(const char *text)
{
	static char whole[sizeof(line) + 64];
	int			fd = trace_file();
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	snprintf(whole, sizeof(whole), "{\"at\":" INT64_FORMAT "%s}\n",
			 (int64) ts.tv_sec * LE_SEC + ts.tv_nsec, text);
	if (write(fd, whole, strlen(whole)) < 0)
		return;					/* no reason to fail: the judge misses it */
}

static void
add(const char *format,...) pg_attribute_printf(1, 2);

static void
add(const char *format,...)
{
	va_list		args;

	va_start(args, format);
	len += vsnprintf(line + len, sizeof(line) - len, format, args);
	va_end(args);
	len = Min(len, (int) sizeof(line) - 1);
}

/* The name of a field; the first one of an object has no comma. */
static void
field(const char *name)
{
	bool		first = len > 0 && line[len - 1] == '{';

	add("%s\"%s\":", first ? "" : ",", name);
}

static void
number(const char *name, int64 value)
{
	if (value == 0)
		return;
	field(name);
	add(INT64_FORMAT, value);
}

static void
string(const char *name, const char *value)
{
	if (value[0] == '\0')
		return;
	field(name);
	add("\"");
	for (const char *c = value; *c != '\0'; c++)
	{
		if (*c == '"' || *c == '\\')
			add("\\%c", *c);
		else if ((unsigned char) *c < ' ')
			add("\\u%04x", (unsigned char) *c);
		else
			add("%c", *c);
	}
	add("\"");
}

static void
object(const char *name)
{
	field(name);
	add("{");
}

static void
end_object(void)
{
	add("}");
}

static void
outcome(LeOutcome value)
{
	if (value != LE_DONE)
		string("outcome", NAME_OF(value, outcomes));
}

/* The state after an input goes again if it is the one before. */
static void
drop_same_state(int was, int is)
{
	const char *before = strchr(line + was, '{');
	const char *after = strchr(line + is, '{');

	if (strncmp(before, after, strlen(after)) != 0)
		return;
	len = is;
	line[len] = '\0';
}

/* Each line says who wrote it.  False: nobody reads it. */
static bool
begin(const char *what)
{
	if (le_trace_sink == NULL ||
		(le_trace_sink == to_file && trace_file() < 0))
		return false;
	len = 0;
	line[0] = '\0';
	string("line", what);
	string("node", le_my_name());
	string("incarnation", le_table->incarnation);
	string("session", le_table->session);
	return true;
}

static void
timing(const LeTiming *t)
{
	number("lease", t->lease);
	number("ttl", t->session_ttl);
	number("margin", t->margin);
}

/* ---- lines ---- */

/* A worker has started; what one before has left comes next. */
void
le_trace_worker(void)
{
	const LeStore *store = le_configured_store();

	if (!begin("worker"))
		return;
	number("pid", MyProcPid);
	string("store", store->name);
	number("sessions", store->has_sessions);
	number("key_leases", store->key_leases);
	le_trace_sink(line);
}

static void
election_state(const char *name, const LeElection *e)
{
	object(name);
	string("state", NAME_OF(e->state, states));
	number("wanted", e->wanted);
	number("token", e->token);
	number("drain_until", e->drain_until);
	number("write_index", e->write_index);
	number("attempt_index", e->attempt.index);
	number("attempt_floor", e->attempt.floor);
	number("attempt_number", e->attempt.number);
	number("takeover", e->attempt.takeover);
	number("unsure", e->attempt.unsure);
	number("free", e->free);
	number("token_floor", e->token_floor);
	number("free_index", e->free_index);
	number("seen_index", e->seen_index);
	number("seen_at", e->seen_at);
	number("refused_until", e->refused_until);
	number("look_at", e->look_at);
	number("timer_at", e->timer_at);
	number("failures", e->failures);
	number("tries", e->tries);
	number("deadline", e->deadline);
	number("renew_at", e->renew_at);
	number("renewing", e->renewing);
	number("renews_apart", e->renews_apart);
	number("renew_failures", e->renew_failures);
	number("request", e->request);
	end_object();
}

static void
key_view(const LeKeyView *v)
{
	object("view");
	string("holder", NAME_OF(v->holder, holders));
	number("exists", v->exists);
	number("usable", v->usable);
	number("released", v->released);
	number("holder_ended", v->holder_ended);
	number("own_lease", v->own_lease);
	number("silent_at", v->silent_at);
	number("index", v->index);
	number("as_of", v->as_of);
	number("token", v->token);
	number("holder_lease", v->holder_lease);
	end_object();
}

static void
election_input(const LeInput *in)
{
	object("input");
	string("kind", NAME_OF(in->kind, inputs));
	number("now", in->now);
	timing(in->timing);
	number("index", in->index);
	number("suffices", in->suffices);
	outcome(in->outcome);
	if (in->kind == LE_IN_CONFLICT)
		string("conflict", NAME_OF(in->conflict, conflicts));
	number("reason", in->reason);
	number("silent_at", in->silent_at);
	number("sent", in->sent);
	number("deadline", in->deadline);
	number("renews_apart", in->renews_apart);
	number("until", in->until);
	if (in->view != NULL)
		key_view(in->view);
	end_object();
}

/*
 * Each answer of the watch shows all keys anew, most of which nobody has
 * written since.  One line is enough for what changes nothing and was shown
 * before.
 */
static bool
was_shown(const LeSlot *slot, const LeElection *before, const LeInput *input)
{
	static uint64 shown[4096];
	const LeKeyView *v = input->view;
	uint64		key;

	if (input->kind != LE_IN_SEEN || le_trace_sink != to_file ||
		memcmp(before, &slot->election, sizeof(*before)) != 0)
		return false;
	key = (v->index * 4 + v->holder + 1) * UINT64CONST(0x9E3779B97F4A7C15) +
		(uintptr_t) slot;
	if (shown[key % lengthof(shown)] == key)
		return true;
	shown[key % lengthof(shown)] = key;
	return false;
}

void
le_trace_election(const LeSlot *slot, const LeElection *before,
				  const LeInput *input, const LeActions *act)
{
	int			was;
	int			is;

	if (input != NULL && was_shown(slot, before, input))
		return;
	if (!begin(input == NULL ? "election resumed" : "election"))
		return;
	string("election", slot->name);
	was = len;
	election_state("was", before);
	if (input != NULL)
	{
		election_input(input);
		object("does");
		number("term_ends", act->term_ends);
		number("reason", act->reason);
		number("term_drains", act->term_drains);
		number("term_begins", act->term_begins);
		number("deadline_moved", act->deadline_moved);
		string("send", NAME_OF(act->send, sends));
		number("index", act->index);
		number("unresolved", act->unresolved);
		string("verdict", NAME_OF(act->verdict, verdicts));
		outcome(act->outcome);
		end_object();
	}
	is = len;
	election_state("is", &slot->election);
	drop_same_state(was, is);
	le_trace_sink(line);
}

static void
node_state(const char *name, const LeNode *n)
{
	object(name);
	string("state", NAME_OF(n->state, node_states));
	timing(&n->timing);
	number("wanted", n->wanted);
	number("gone", n->gone);
	number("destroyed", n->destroyed);
	number("renewing", n->renewing);
	number("proving", n->proving);
	number("prove_again", n->prove_again);
	number("epoch", n->epoch);
	number("seq", n->seq);
	number("proof_index", n->proof_index);
	number("proof_sent", n->proof_sent);
	number("renew_sent", n->renew_sent);
	number("deadline", n->deadline);
	number("prove_at", n->prove_at);
	number("renew_at", n->renew_at);
	number("step_at", n->step_at);
	number("proof_failures", n->proof_failures);
	number("renew_failures", n->renew_failures);
	number("step_failures", n->step_failures);
	number("setup_failures", n->setup_failures);
	number("unlocks", n->unlocks);
	number("named", n->named);
	end_object();
}

static void
node_sends(unsigned send)
{
	static const char *const names[] = {
		"create", "verify", "register", "renew", "proof", "list", "unlocks",
		"destroy", "revoke", "forget",
	};
	const char *comma = "";

	field("send");
	add("[");
	for (int i = 0; i < (int) lengthof(names); i++)
		if (send & (1 << i))
		{
			add("%s\"%s\"", comma, names[i]);
			comma = ",";
		}
	add("]");
}

void
le_trace_node(const LeNode *before, const LeNodeInput *input,
			  const LeNodeActions *act)
{
	int			was;
	int			is;

	if (!begin(input == NULL ? "node resumed" : "node"))
		return;
	was = len;
	node_state("was", before);
	if (input != NULL)
	{
		object("input");
		string("kind", NAME_OF(input->kind, node_inputs));
		number("now", input->now);
		outcome(input->outcome);
		number("sent", input->sent);
		number("index", input->index);
		number("held", input->held);
		number("named", input->named);
		number("early", input->early);
		end_object();
		object("does");
		number("terms_end", act->terms_end);
		number("reason", act->reason);
		node_sends(act->send);
		number("deadline_moved", act->deadline_moved);
		number("became_live", act->became_live);
		number("ended", act->ended);
		end_object();
	}
	is = len;
	node_state("is", &le_table->node);
	drop_same_state(was, is);
	le_trace_sink(line);
}

/* An operator has said that lower tokens count. */
void
le_trace_accept(const LeSlot *slot)
{
	if (!begin("accept"))
		return;
	string("election", slot->name);
	le_trace_sink(line);
}

/* The worker frees a key of a session that ends, which no machine decides. */
void
le_trace_unlock(const char *election, uint64 index)
{
	if (!begin("unlock"))
		return;
	string("election", election);
	number("index", index);
	le_trace_sink(line);
}

void
le_trace_unlocked(const char *election, uint64 index, LeOutcome result,
				  uint64 written)
{
	if (!begin("unlocked"))
		return;
	string("election", election);
	number("index", index);
	string("outcome", NAME_OF(result, outcomes));
	number("written", written);
	le_trace_sink(line);
}

/* The question to le_judge_claim(), and its verdict. */
void
le_trace_claim(const char *election, const char *job,
			   const LeClaimView *found, const LeClaimPlan *plan,
			   LeClaimVerdict verdict, int try, int64 older)
{
	if (!begin("claim"))
		return;
	string("election", election);
	string("job", job);
	object("found");
	number("exists", found->exists);
	number("ours", found->ours);
	number("over", found->over);
	number("tick", found->tick);
	number("try", found->try);
	number("token", found->token);
	if (found->exists)
		string("state", NAME_OF(found->state, claim_states));
	number("every", found->every);
	number("gap", found->gap.n);
	number("writes", found->writes);
	number("lost", found->lost);
	end_object();
	object("wish");
	number("tick", plan->tick);
	number("token", plan->token);
	number("catch_up", plan->catch_up);
	number("forget", plan->forget);
	number("term_is_judged", plan->term_is_judged);
	number("every", plan->every);
	number("due", plan->due);
	number("missed", plan->missed);
	number("max_missed", plan->max_missed);
	end_object();
	string("verdict", NAME_OF(verdict, claim_verdicts));
	number("try", try);
	number("older", older);
	le_trace_sink(line);
}

#endif							/* LE_TRACES */
