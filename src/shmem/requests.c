/*-------------------------------------------------------------------------
 *
 * requests.c
 *		Questions of backends to the worker, and its replies.
 *
 * Every backend can have one question in shared memory.  It writes and numbers
 * the question, and wakes the worker; the worker copies the question, and
 * writes the reply if the number still stands.  A backend that is canceled
 * or terminated withdraws its number: the worker then finds that the backend
 * does not wait, and undoes effects of that call alone.
 *
 * The numbers live apart from the questions, close together, so that the
 * worker finds the new ones without touching those of silent backends.
 *
 * src/shmem/requests.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "replication/syncrep.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/procsignal.h"
#include "storage/shmem.h"

#include "compat.h"
#include "settings.h"
#include "shmem/requests.h"

/* An entry's word is its state in the low two bits and its number above. */
#define STATE_FREE		0
#define STATE_POSTED	1		/* the worker has not seen it */
#define STATE_TAKEN		2		/* the worker has begun it */
#define STATE_ANSWERED	3

#define WORD(number, state)		(((number) << 2) | (state))
#define WORD_STATE(word)		((int) ((word) & 3))
#define WORD_NUMBER(word)		((word) >> 2)

typedef struct Entry
{
	pg_atomic_uint64 word;
	pg_atomic_uint64 owner;		/* the backend's number; 0: none */
} Entry;

/*
 * The worker's note that it has begun a question that gives up terms.  Without
 * it, its successor could not distinguish a question that came too late from
 * one that lacks only the reply: both find nothing held.  Only the worker
 * reads and writes it; the number identifies the question.
 */
typedef struct Begun
{
	uint64		number;			/* the question's; 0: none so far */
	uint64		token;			/* the ended term's; 0: none, or several */
} Begun;

typedef struct Question
{
	LeAsk		ask;
	LeReply		reply;
	Begun		begun;
} Question;

bool		le_worker_left_out = false;

static Entry *entries;
static Question *questions;

/* The time for which a backend waits for an absent worker. */
#define LE_WORKER_ABSENCE	(3 * LE_SEC)

/* A worker without a turn for so long after a wakeup counts as stopped. */
#define LE_WORKER_STANDSTILL	(2 * LE_SEC)

Size
le_requests_size(void)
{
	return add_size(MAXALIGN(mul_size(MaxBackends, sizeof(Entry))),
					mul_size(MaxBackends, sizeof(Question)));
}

void
le_requests_init(bool found, void *where)
{
	entries = where;
	questions = (Question *) ((char *) where +
							  MAXALIGN(MaxBackends * sizeof(Entry)));
	if (found)
		return;
	memset(where, 0, le_requests_size());
	for (int i = 0; i < MaxBackends; i++)
	{
		pg_atomic_init_u64(&entries[i].word, WORD(UINT64CONST(0), STATE_FREE));
		pg_atomic_init_u64(&entries[i].owner, 0);
	}
}

/* ---- in a backend ---- */

static void
set_latch_of(uint32 proc_plus_one)
{
	if (proc_plus_one != 0)
		SetLatch(&ProcGlobal->allProcs[proc_plus_one - 1].procLatch);
}

/*
 * A starting worker publishes its proc number, and then reads the questions.
 * So a question must be visible before this reads the proc number: one of the
 * two sees the other.
 */
static void
wake_worker(void)
{
	pg_memory_barrier();
	set_latch_of(pg_atomic_read_u32(&le_table->worker_proc));
}

/* Tell the worker of an act of this backend without a question. */
void
le_hint_worker(void)
{
	pg_atomic_fetch_add_u64(&le_table->hints, 1);
	wake_worker();
}

static LeOwner my_owner = LE_OWNER_NONE;
static uint64 pending = 0;		/* number of our unanswered question */

/*
 * Withdraw the question.  If the reply has come, unread, and announces a term,
 * decline the term: it ends unless another call was told of it, too.
 */
static void
withdraw_question(void)
{
	Entry	   *entry = &entries[LE_MY_PROC];
	Question   *question = &questions[LE_MY_PROC];
	uint64		word = WORD(pending, STATE_POSTED);

	if (pending == 0)
		return;
	if (!pg_atomic_compare_exchange_u64(&entry->word, &word,
										WORD(pending, STATE_FREE)))
	{
		word = WORD(pending, STATE_TAKEN);
		if (!pg_atomic_compare_exchange_u64(&entry->word, &word,
											WORD(pending, STATE_FREE)) &&
			question->ask.kind == LE_ASK_ACQUIRE && question->reply.fresh)
			le_decline_term(question->ask.election, question->reply.token);
	}
	pending = 0;
	le_hint_worker();
}

/*
 * The last act of a backend that has used the extension: terms in its own name
 * are void from here on, and the worker tells the store.
 */
static void
leave(int code, Datum arg)
{
	withdraw_question();
	pg_atomic_write_u64(&entries[LE_MY_PROC].owner, 0);
	le_hint_worker();
}

/*
 * The number of this backend, or of its present transaction.  Numbers are
 * never used twice, so the next backend in this entry has another.
 */
LeOwner
le_my_owner(bool xact)
{
	if (my_owner == LE_OWNER_NONE)
	{
		before_shmem_exit(leave, (Datum) 0);
		my_owner = pg_atomic_add_fetch_u64(&le_table->last_owner, 1);
		pg_atomic_write_u64(&entries[LE_MY_PROC].owner, my_owner);
	}
	Assert((my_owner & LE_OWNER_XACT) == 0);
	return xact ? my_owner | LE_OWNER_XACT : my_owner;
}

/* From here on the terms and claims of the present number have no owner. */
void
le_renew_owner(void)
{
	my_owner = pg_atomic_add_fetch_u64(&le_table->last_owner, 1);
	pg_atomic_write_u64(&entries[LE_MY_PROC].owner, my_owner);
}

/* Does this backend have a number already?  If not, it holds nothing. */
bool
le_has_owner(void)
{
	return my_owner != LE_OWNER_NONE;
}

/*
 * Is there a worker, or a starting one?  It publishes its process id before it
 * reads its files and makes them durable, which may take seconds on a busy
 * disk, and its proc number when it can be woken.
 */
static bool
worker_is_there(void)
{
	return pg_atomic_read_u32(&le_table->worker_proc) != 0 ||
		pg_atomic_read_u32(&le_table->worker_pid) != 0;
}

/* May the worker have carried out the question, without a reply? */
static bool
may_have_acted(const Entry *entry, LeRequestKind kind)
{
	if (WORD_STATE(pg_atomic_read_u64((pg_atomic_uint64 *) &entry->word)) !=
		STATE_TAKEN)
		return false;
	return kind != LE_ASK_LEADER && kind != LE_ASK_CHECK &&
		kind != LE_ASK_LOOK && kind != LE_ASK_CLAIMS;
}

static void
no_worker(const Entry *entry, LeRequestKind kind)
{
	bool		unknown = may_have_acted(entry, kind);

	if (le_worker_left_out)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the leader_election worker is not running"),
				 errdetail(LE_LEFT_OUT_DETAIL, max_worker_processes),
				 errhint(LE_LEFT_OUT_HINT)));
	ereport(ERROR,
			(errcode(unknown ? LE_ERRCODE_UNKNOWN :
					 ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the leader_election worker is not running"),
			 unknown ? errdetail("It ended while it worked on this request, which may have been carried out.") : 0,
			 errhint("Look for its messages in the server log; it is restarted one second after it fails, and starts on a standby once that has reached a consistent state.")));
}

static void
worker_stands_still(const Entry *entry, LeRequestKind kind)
{
	bool		unknown = may_have_acted(entry, kind);

	ereport(ERROR,
			(errcode(unknown ? LE_ERRCODE_UNKNOWN : LE_ERRCODE_UNAVAILABLE),
			 errmsg("the leader_election worker does not answer"),
			 unknown ? errdetail("It had begun this request, which may have been carried out, or may yet be.") :
			 errdetail("Process %u hangs or is stopped.",
					   pg_atomic_read_u32(&le_table->worker_pid)),
			 errhint("Continue the process, or end it; it is restarted one second later.")));
}

/* The time by which a healthy worker answers.  See "Arguments, time and
 * cost" in the reference. */
static le_time
answer_due(const LeAsk *ask)
{
	le_time		now = le_now();
	le_duration allowed = 3 * (le_request_timeout * LE_MSEC);

	if (ask->kind == LE_ASK_RELEASE || ask->kind == LE_ASK_WITHDRAW ||
		ask->kind == LE_ASK_STEP_DOWN)
		allowed += le_drain_timeout * LE_MSEC + 3 * LE_SEC / 2;
	return Max(now, ask->wait_until) + Max(allowed, LE_WORKER_STANDSTILL);
}

/* A backend's knowledge of the worker's turns. */
typedef struct Pulse
{
	le_time		look_at;
	uint64		turns;
	bool		known;
} Pulse;

/*
 * The worker may be late for good reasons, but not without any turn since the
 * last check, which woke it.
 */
static void
feel_pulse(Pulse *pulse, const Entry *entry, LeRequestKind kind)
{
	uint64		turns = pg_atomic_read_u64(&le_table->turns);

	if (le_now() < pulse->look_at)
		return;
	if (pg_atomic_read_u32(&le_table->worker_proc) == 0)
		pulse->known = false;	/* no worker yet: no_worker() */
	else
	{
		if (pulse->known && pulse->turns == turns)
			worker_stands_still(entry, kind);
		pulse->known = true;
		pulse->turns = turns;
		wake_worker();
	}
	pulse->look_at = le_now() + LE_WORKER_STANDSTILL;
}

/* False: no answer by then (0: no limit). */
static bool
wait_for_answer(le_time until)
{
	static uint32 wait_event = 0;
	Entry	   *entry = &entries[LE_MY_PROC];
	le_time		absent_since = 0;
	LeRequestKind kind = questions[LE_MY_PROC].ask.kind;
	Pulse		pulse = {0};

	pulse.look_at = answer_due(&questions[LE_MY_PROC].ask) -
		LE_WORKER_STANDSTILL;
	while (pg_atomic_read_u64(&entry->word) != WORD(pending, STATE_ANSWERED))
	{
		if (worker_is_there())
			absent_since = 0;
		else if (absent_since == 0)
			absent_since = le_now();
		else if (le_now() - absent_since > LE_WORKER_ABSENCE)
			no_worker(entry, kind);
		if (until != 0 && le_now() >= until)
			return false;
		if (until == 0)
			feel_pulse(&pulse, entry, kind);
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | WL_TIMEOUT,
						 absent_since == 0 && until == 0 ? 1000 : 100,
						 LE_WAIT_EVENT(wait_event, "LeaderElectionReply"));
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	pg_read_barrier();
	return true;
}

/* Does a term of this owner count for this backend? */
bool
le_is_mine(LeOwner owner)
{
	if (owner == LE_OWNER_NODE)
		return true;
	return my_owner != LE_OWNER_NONE && (owner & ~LE_OWNER_XACT) == my_owner;
}

static void
post(LeAsk *ask)
{
	Entry	   *entry;

	(void) le_my_owner(false);
	entry = &entries[LE_MY_PROC];
	Assert(pending == 0);		/* one question at a time */
	Assert(WORD_STATE(pg_atomic_read_u64(&entry->word)) != STATE_POSTED &&
		   WORD_STATE(pg_atomic_read_u64(&entry->word)) != STATE_TAKEN);
	ask->proc = LE_MY_PROC;
	ask->pid = MyProcPid;

	questions[LE_MY_PROC].ask = *ask;
	pending = WORD_NUMBER(pg_atomic_read_u64(&entry->word)) + 1;
	pg_write_barrier();
	pg_atomic_write_u64(&entry->word, WORD(pending, STATE_POSTED));
	wake_worker();
}

static void
take_reply(LeReply *reply)
{
	const Question *question = &questions[LE_MY_PROC];

	Assert(pg_atomic_read_u64(&entries[LE_MY_PROC].word) ==
		   WORD(pending, STATE_ANSWERED));
	*reply = question->reply;
	if (question->ask.kind == LE_ASK_ACQUIRE && reply->fresh)
		le_keep_term(question->ask.election, reply->token);
	pg_atomic_write_u64(&entries[LE_MY_PROC].word, WORD(pending, STATE_FREE));
	pending = 0;
}

/*
 * Ask the worker and wait for its reply, obeying cancel and terminate.  Any
 * error on the way withdraws the question; so does leave(), as a backend that
 * is terminated does not come back here.
 */
void
le_ask(LeAsk *ask, LeReply *reply)
{
	(void) le_ask_within(ask, reply, 0);
}

/*
 * The same for callers that cannot rely on the worker: false if there was no
 * answer in time; the question is withdrawn then.
 */
bool
le_ask_within(LeAsk *ask, LeReply *reply, le_duration patience)
{
	volatile bool answered = false;

	post(ask);
	PG_TRY();
	{
		answered = wait_for_answer(patience == 0 ? 0 : le_now() + patience);
	}
	PG_CATCH();
	{
		withdraw_question();
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (!answered)
	{
		withdraw_question();
		return false;
	}
	take_reply(reply);
	return true;
}

/* Is there an interrupt that should not wait for the worker's reply? */
static bool
interrupted(Entry *entry)
{
	return (QueryCancelPending || ProcDiePending) &&
		WORD_STATE(pg_atomic_read_u64(&entry->word)) != STATE_POSTED;
}

/*
 * Has the worker been absent for too long?  If this process is to end, at
 * once: then the server shuts down, and no worker will come.
 */
static bool
worker_gave_out(le_time *absent_since)
{
	le_time		now;

	if (worker_is_there())
	{
		*absent_since = 0;
		return false;
	}
	now = le_now();
	if (*absent_since == 0)
		*absent_since = now;
	return ProcDiePending || now - *absent_since >= LE_WORKER_ABSENCE;
}

/*
 * The same without throwing, for a question that the worker finishes even if
 * no backend waits.  False if there was no reply in time, or before an
 * interrupt, or if there is no worker.  Processes barriers meanwhile, so that
 * other processes do not wait for this one.
 */
bool
le_tell(LeAsk *ask, LeReply *reply, le_duration patience)
{
	static uint32 wait_event = 0;
	Entry	   *entry;
	le_time		until = le_now() + patience;
	le_time		absent_since = 0;

	post(ask);
	entry = &entries[LE_MY_PROC];
	while (pg_atomic_read_u64(&entry->word) != WORD(pending, STATE_ANSWERED))
	{
		if (le_now() >= until || interrupted(entry) ||
			worker_gave_out(&absent_since))
		{
			withdraw_question();
			return false;
		}
		if (ProcSignalBarrierPending)
			ProcessProcSignalBarrier();
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | WL_TIMEOUT, 20,
						 LE_WAIT_EVENT(wait_event, "LeaderElectionReply"));
		ResetLatch(MyLatch);
	}
	pg_read_barrier();
	take_reply(reply);
	return true;
}

/* ---- in the worker ---- */

/*
 * Pass every new question to act(); for a new worker also those that its
 * predecessor had taken and not answered.
 */
void
le_each_request(LeRequestTaken act, void *arg, bool taken_too)
{
	for (int i = 0; i < MaxBackends; i++)
	{
		uint64		word = pg_atomic_read_u64(&entries[i].word);
		LeAsk		ask;

		if (WORD_STATE(word) == STATE_POSTED ||
			(taken_too && WORD_STATE(word) == STATE_TAKEN))
		{
			pg_read_barrier();
			ask = questions[i].ask;
			ask.again |= WORD_STATE(word) == STATE_TAKEN;
			/* After a withdrawal the copy might be torn. */
			if (pg_atomic_compare_exchange_u64(&entries[i].word, &word,
											   WORD(WORD_NUMBER(word),
													STATE_TAKEN)))
			{
				Assert(ask.proc == i);
				act(arg, i, WORD_NUMBER(word), &ask);
			}
		}
	}
}

/* Does the backend still wait for the reply to this question? */
bool
le_still_asked(int proc, uint64 number)
{
	return proc != LE_NO_PROC && pg_atomic_read_u64(&entries[proc].word) ==
		WORD(number, STATE_TAKEN);
}

/*
 * The reply is written only while the question stands; see le_ask().  False:
 * the question was withdrawn.
 */
bool
le_answer(int proc, uint64 number, const LeReply *reply)
{
	uint64		word = WORD(number, STATE_TAKEN);

	if (!le_still_asked(proc, number))
		return false;
	questions[proc].reply = *reply;
	pg_write_barrier();
	if (!pg_atomic_compare_exchange_u64(&entries[proc].word, &word,
										WORD(number, STATE_ANSWERED)))
		return false;
	set_latch_of(proc + 1);
	return true;
}

/* Called before the first step of the question; see Begun. */
void
le_note_begun(int proc, uint64 number, uint64 token)
{
	Assert(number != 0);
	questions[proc].begun = (Begun)
	{
		.number = number, .token = token
	};
}

bool
le_was_begun(int proc, uint64 number, uint64 *token)
{
	*token = questions[proc].begun.token;
	return questions[proc].begun.number == number;
}

/* Is the backend that this term belongs to still there? */
bool
le_owner_lives(LeOwner owner, int proc)
{
	if (owner == LE_OWNER_NODE)
		return true;
	return owner != LE_OWNER_NONE &&
		pg_atomic_read_u64(&entries[proc].owner) == (owner & ~LE_OWNER_XACT);
}

/* Does this backend wait for a standby, after its commit record? */
bool
le_waits_for_standby(int proc)
{
	return ((volatile PGPROC *) &ProcGlobal->allProcs[proc])->syncRepState !=
		SYNC_REP_NOT_WAITING;
}
