/*-------------------------------------------------------------------------
 *
 * postgres.c
 *		Replaces the PostgreSQL server for the worker.
 *
 * Also its settings, and the files that outlive it.
 *
 * test/sim/postgres.c
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

#include <signal.h>

#include "access/xlog.h"
#include "lib/ilist.h"
#include "lib/pairingheap.h"
#include "libpq/pqsignal.h"
#include "nodes/pg_list.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/procsignal.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "mistakes.h"
#include "settings.h"
#include "worker/disk/clonefile.h"
#include "worker/disk/pastfile.h"
#include "worker/disk/tokens.h"

/* ---- variables ---- */

volatile sig_atomic_t InterruptPending = false;
volatile sig_atomic_t ConfigReloadPending = false;
volatile sig_atomic_t ShutdownRequestPending = false;
struct Latch *MyLatch = NULL;
static PGPROC proc;
PGPROC	   *MyProc = &proc;
#if PG_VERSION_NUM >= 170000
ProcNumber	MyProcNumber = 0;
#endif
PROC_HDR   *ProcGlobal = NULL;
int			MyProcPid = 1;
int			MaxBackends = MAX_BACKENDS;
int			max_worker_processes = 8;
char	   *DataDir = NULL;
sigjmp_buf *PG_exception_stack = NULL;
ErrorContextCallback *error_context_stack = NULL;

bool		le_eligible = true;
bool		le_standby_eligible = false;
bool		le_clone_eligible = false;
bool		le_read_only_eligible = false;
bool		DefaultXactReadOnly = false;
int			le_max_elections = MAX_ELECTIONS;
int			le_lease_ttl = 15000;
int			le_renew_interval = 0;
int			le_safety_margin = 1000;
int			le_request_timeout = 5000;
int			le_shutdown_timeout = 2000;
int			le_max_jobs = 1000;
int			le_max_tick_ahead = 86400;
int			le_max_clock_offset = 60;
int			le_job_check_interval = 0;	/* nothing depends on it */
int			le_drain_timeout = 5000;
int			le_max_hold_off = 86400;
char	   *le_allowed_list = "*";

/* Process ids tell the backends of a node apart, no more. */
int
process_of_pid(pid_t pid)
{
	return pid - 1;
}

/* The present value of LE_MY_PROC. */
void
process_has_proc(int proc)
{
#if PG_VERSION_NUM >= 170000
	MyProcNumber = proc;
#else
	MyProc->pgprocno = proc;
#endif
	MyProcPid = proc + 1;
}

/* ---- messages ---- */

static char message[1024];
static int	message_level;
static int	message_sqlstate;

/* Always true: calls in a message's arguments must not depend on a reader. */
bool
errstart(int elevel, const char *domain)
{
	node_may_pause();
	message_level = elevel;
	message_sqlstate = 0;
	message[0] = '\0';
	return true;
}

bool
errstart_cold(int elevel, const char *domain)
{
	return errstart(elevel, domain);
}

int
errcode(int sqlerrcode)
{
	message_sqlstate = sqlerrcode;
	return 0;
}

int
geterrcode(void)
{
	return message_sqlstate;
}

int
errcode_for_file_access(void)
{
	return 0;
}

#define COLLECT(...) \
	do { \
		va_list		args; \
		size_t		len = strlen(message); \
		if (!trace_on && message_level < ERROR) \
			return 0; \
		va_start(args, fmt); \
		len += pg_snprintf(message + len, sizeof(message) - len, \
						   __VA_ARGS__); \
		if (len < sizeof(message)) \
			pg_vsnprintf(message + len, sizeof(message) - len, fmt, args); \
		va_end(args); \
		return 0; \
	} while (0)

int
errmsg(const char *fmt,...)
{
	COLLECT("%s", "");
}

int
errmsg_internal(const char *fmt,...)
{
	COLLECT("%s", "");
}

int
errdetail(const char *fmt,...)
{
	COLLECT("%s", " | ");
}

int
errdetail_internal(const char *fmt,...)
{
	COLLECT("%s", " | ");
}

int
errhint(const char *fmt,...)
{
	return 0;
}

/* FATAL ends the process, after its exit callbacks. */
void
errfinish(const char *filename, int lineno, const char *funcname)
{
	trace(sim_node, "log: %s", message);
	if (message_level >= ERROR && sim_backend != NULL)
	{
		sim_backend->sqlstate = message_sqlstate;
		siglongjmp(*PG_exception_stack, 1);
	}
	if (message_level >= FATAL)
		proc_exit(1);
	if (message_level >= ERROR)
	{
		fprintf(stderr, "sim: unexpected error: %s\n", message);
		abort();
	}
}

/*
 * An Assert of the worker or of a backend fails the schedule.  One of the
 * simulator itself ends it.
 */
#if PG_VERSION_NUM >= 160000
void
ExceptionalCondition(const char *condition, const char *file, int line)
#else
void
ExceptionalCondition(const char *condition, const char *type,
					 const char *file, int line)
#endif
{
	sim_fail("n%d: Assert in %s, line %d: %s",
			 sim_node == NULL ? -1 : sim_node->number, file, line, condition);
	if (!coroutine_runs())
	{
		fprintf(stderr, "sim: seed=" UINT64_FORMAT ": %s\n",
				sim.schedule == NULL ? 0 : sim.schedule->seed, sim.failure);
		abort();
	}
	for (;;)
		coroutine_yield();
}

/* ---- processes ---- */

pqsigfunc
pqsignal(int signo, pqsigfunc func)
{
	if (signo == SIGTERM)
		sim_node->on_sigterm = func;
	return NULL;
}

void
BackgroundWorkerUnblockSignals(void)
{
}

void
BackgroundWorkerInitializeConnection(const char *dbname, const char *username,
									 uint32 flags)
{
}

void
RegisterBackgroundWorker(BackgroundWorker *worker)
{
}

void
SignalHandlerForConfigReload(SIGNAL_ARGS)
{
}

void
SignalHandlerForShutdownRequest(SIGNAL_ARGS)
{
	sim_node->terminated = true;
}

void
procsignal_sigusr1_handler(SIGNAL_ARGS)
{
}

void
ProcessInterrupts(void)
{
}

void
before_shmem_exit(pg_on_exit_callback function, Datum arg)
{
	if (sim_backend == NULL)	/* the worker's */
		sim_node->on_exit = function;
}

/* An exit with 0 is the instance's: its worker is not restarted. */
void
proc_exit(int code)
{
	SimNode    *n = sim_node;

	if (n->on_exit != NULL)
		n->on_exit(code, (Datum) 0);
	trace(n, "worker exits with %d", code);
	network_forget(n);
	n->running = false;
	n->run_at = NEVER;
	if (n->stopping)
	{
		check_shut_down(n);
		node_stop(n);
	}
	else
		network_at(sim.now + LE_SEC, AT_WORKER, n->number, n->process);
	for (;;)
		coroutine_yield();
}

void
ProcessConfigFile(GucContext context)
{
	le_lease_ttl = sim_node->lease_ms;
	le_safety_margin = sim_node->margin_ms;
}

bool
RecoveryInProgress(void)
{
	return false;
}

Oid
GetSessionUserId(void)
{
	return 10;
}

/* Each node has one of its own, so none is another's clone. */
uint64
GetSystemIdentifier(void)
{
	return sim_node->number + 1;
}

/* The incarnation of a new instance; later the id of an attempt. */
bool
pg_strong_random(void *buf, size_t len)
{
	uint32		n = sim_backend != NULL ? claim_draw() : sim_node->incarnation;
	uint32		attempt = sim_node->up && sim_backend == NULL ?
		++sim.attempts : 0;

	memset(buf, 0, len);
	for (size_t i = 0; i < Min(len, 8); i++)
		((unsigned char *) buf)[i] =
			(i < 4 ? n : attempt) >> (24 - 8 * (i % 4));
	return true;
}

TimestampTz
GetCurrentTimestamp(void)
{
	node_may_pause();
	return (clock_boot(sim_node, sim.now) + sim_node->clock.wall) / 1000;
}

void
pg_usleep(long microsec)
{
}

/* ---- latches ---- */

void
SetLatch(struct Latch *latch)
{
	node_wake(sim_node);
}

void
ResetLatch(struct Latch *latch)
{
	sim_node->latch = false;
}

#if PG_VERSION_NUM >= 170000
typedef ResourceOwner SetOwner;
#else
typedef MemoryContext SetOwner;
#endif

/* The content of the set does not matter: any event wakes a node. */
WaitEventSet *
CreateWaitEventSet(SetOwner owner, int nevents)
{
	return NULL;
}

int
AddWaitEventToSet(WaitEventSet *set, uint32 events, pgsocket fd,
				  struct Latch *latch, void *user_data)
{
	return 0;
}

/* epoll counts in CLOCK_MONOTONIC. */
int
WaitEventSetWait(WaitEventSet *set, long timeout, WaitEvent *occurred,
				 int nevents, uint32 wait_event_info)
{
	SimNode    *n = sim_node;

	check_grants(n);
	n->sleeps_until = timeout < 0 ? 0 :
		clock_mono(n, sim.now) + timeout * LE_MSEC;
	node_plan(n);
	coroutine_yield();
	n->awake_since = sim.now;
	ConfigReloadPending = n->reload;
	n->reload = false;
	occurred->events = WL_LATCH_SET;
	return 1;
}

/* ---- files ---- */

/* Only postmaster.pid is read this way. */
FILE *
AllocateFile(const char *name, const char *mode)
{
	static char running[] = "1\n2\n3\n4\n5\n6\n7\nready\n";
	static char stopping[] = "1\n2\n3\n4\n5\n6\n7\nstopping\n";
	char	   *text = sim_node->stopping ? stopping : running;

	return fmemopen(text, strlen(text), mode);
}

int
FreeFile(FILE *file)
{
	return fclose(file);
}

/* Another worker reads the files. */
LeTokens *
le_tokens_load(void)
{
	memcpy(sim_node->token_floor, sim_node->token_kept,
		   sizeof(sim_node->token_floor));
	memcpy(sim_node->seen, sim_node->seen_kept, sizeof(sim_node->seen));
	sim_node->unkept = false;
	return NULL;
}

bool
le_tokens_led_before(LeTokens *tokens)
{
	return true;
}

/* The store "local" needs it, which is not simulated. */
uint64
le_tokens_generation(LeTokens *tokens)
{
	return 0;
}

uint64
le_token_floor(LeTokens *tokens, const char *election)
{
	return sim_node->token_floor[election_of_name(election)];
}

void
le_token_seen(LeTokens *tokens, const char *election, uint64 token)
{
	uint64	   *floor = &sim_node->token_floor[election_of_name(election)];

	node_may_pause();
	*floor = Max(*floor, token);
}

LeSeenRecord
le_record_seen_last(LeTokens *tokens, const char *election, const char *job)
{
	return sim_node->seen[election_of_name(election)][job_of_name(job)];
}

void
le_each_record_seen(LeTokens *tokens,
					void (*act) (void *arg, const char *election,
								 const char *job, const LeSeenRecord *seen),
					void *arg)
{
	for (int e = 0; e < sim.nelections; e++)
		for (int j = 0; j < ELECTION_JOBS; j++)
			if (sim_node->seen[e][j].writes > 0)
				act(arg, name_of_election(e), name_of_job(j),
					&sim_node->seen[e][j]);
}

void
le_record_seen(LeTokens *tokens, const LeClaim *claim)
{
	LeSeenRecord *seen = &sim_node->seen[election_of_name(claim->election)]
		[job_of_name(claim->job)];

	LeSeenRecord record = {.writes = claim->writes, .tick = claim->tick};

	node_may_pause();
	if (record.writes != 0 &&
		(seen->writes == 0 || le_record_is_later(&record, seen)))
		*seen = record;
}

bool
le_tokens_forget(LeTokens *tokens, const char *election)
{
	int			e = election_of_name(election);

	sim_node->token_floor[e] = 0;
	memset(sim_node->seen[e], 0, sizeof(sim_node->seen[e]));
	return le_tokens_keep(tokens, true);
}

bool
le_tokens_try(LeTokens *tokens)
{
	SimNode    *n = sim_node;

	if (!n->unkept)
		return true;
	if (sim.now < n->disk_full_until)
		return false;
	n->unkept = false;
	memcpy(n->token_kept, n->token_floor, sizeof(n->token_kept));
	return true;
}

/*
 * Tokens that are written without a sync may be lost with the machine, and
 * count for nothing here.  Records outlive the worker and the server.
 */
bool
le_tokens_keep(LeTokens *tokens, bool sync)
{
	SimNode    *n = sim_node;

	node_may_pause();
	memcpy(n->seen_kept, n->seen, sizeof(n->seen_kept));
	if (!sync)
		return !n->unkept;
	node_may_pause();
	if (sim_chance(sim.schedule->weather.full_disk))
		n->disk_full_until = sim.now + sim_span(0, 20 * LE_SEC);
	n->unkept = true;
	if (!le_tokens_try(tokens))
		sim.counts.unkept++;
	return !n->unkept;
}

const char *
le_tokens_trouble(LeTokens *tokens)
{
	return sim_node->unkept ? "the disk is full" : "";
}

LeStateFile *
le_statefile_new(void)
{
	return NULL;
}

void
le_statefile_write(LeStateFile *statefile, const LePredecessor *session)
{
	sim_node->has_statefile = true;
	sim_node->statefile = *session;
}

const char *
le_statefile_trouble(LeStateFile *statefile)
{
	return "";
}

bool
le_statefile_read(LePredecessor *session)
{
	*session = sim_node->statefile;
	return sim_node->has_statefile;
}

void
le_statefile_remove(void)
{
	sim_node->has_statefile = false;
}

bool
le_clonefile_read(LeClonemark *mark)
{
	return false;
}

void
le_clonefile_write(const LeClonemark *mark)
{
}

void
le_clonefile_remove(void)
{
}

void
le_clonefile_systems(LeSystems *systems)
{
	le_add_system(systems, GetSystemIdentifier());
}

bool
le_follows_primary(void)
{
	return false;
}

/* No database goes back here. */
void
le_past_look(LeWorker *w)
{
}

/* ---- settings ---- */

char	   *le_campaign_list = "";
char	   *le_ca_file = "";
char	   *le_cert_file = "";
char	   *le_key_file = "";

bool
le_goes_in_clear(const char *url)
{
	return false;
}

bool
le_others_can_read(const char *file)
{
	return false;
}

LeMistakes
le_explain_mistakes(StringInfo detail, uint64 *taken)
{
	return LE_MISTAKES_NONE;
}

bool
le_setting_is_default(const char *name)
{
	return false;
}

void
le_configured_timing(LeTiming *timing)
{
	timing->lease = le_lease_ttl * LE_MSEC;
	timing->margin = le_safety_margin * LE_MSEC;
	timing->request_timeout = le_request_timeout * LE_MSEC;
	le_store_limits(sim.model->store, timing);
	timing->renew_interval = le_renew_interval * LE_MSEC;
	if (timing->renew_interval == 0)
		timing->renew_interval = le_default_interval(timing->lease);
}

bool
le_explain_timing(const LeTiming *t, StringInfo detail)
{
	return le_timing_fault(t) == LE_TIMING_OK;
}

bool
le_next_name(const char **list, char *buf, size_t size)
{
	size_t		len = strcspn(*list, ",");

	if (len == 0)
		return false;
	strlcpy(buf, *list, Min(len + 1, size));
	*list += len + ((*list)[len] == ',');
	return true;
}

/* Every simulated session may change every election. */
bool
le_allows(const char *list, const char *election)
{
	return true;
}

const LeStore *
le_configured_store(void)
{
	return sim.model->store;
}

const char *
le_my_name(void)
{
	static char names[MAX_NODES][8];
	char	   *name = names[sim_node->number];

	if (name[0] == '\0')
		pg_snprintf(name, 8, "n%d", sim_node->number);
	return name;
}

const char *
le_my_value(void)
{
	return "v0";
}

void
le_each_campaign(void (*act) (const char *election, void *arg), void *arg)
{
	for (int e = 0; e < sim.nelections; e++)
		if ((sim_node->campaigns >> e) & 1)
			act(name_of_election(e), arg);
}

/* ---- a heap of few: a list, of which the first is looked for ---- */

void
pairingheap_add(pairingheap *heap, pairingheap_node *node)
{
	node->next_sibling = heap->ph_root;
	node->prev_or_parent = NULL;
	if (heap->ph_root != NULL)
		heap->ph_root->prev_or_parent = node;
	heap->ph_root = node;
}

void
pairingheap_remove(pairingheap *heap, pairingheap_node *node)
{
	if (node->prev_or_parent != NULL)
		node->prev_or_parent->next_sibling = node->next_sibling;
	else
		heap->ph_root = node->next_sibling;
	if (node->next_sibling != NULL)
		node->next_sibling->prev_or_parent = node->prev_or_parent;
}

pairingheap_node *
pairingheap_first(pairingheap *heap)
{
	pairingheap_node *first = heap->ph_root;

	for (pairingheap_node *node = first; node != NULL;
		 node = node->next_sibling)
		if (heap->ph_compare(node, first, heap->ph_arg) > 0)
			first = node;
	return first;
}

/* Lists only grow here; old arrays go with their context. */
struct List *
lappend(struct List *list, void *datum)
{
	List	   *l = (List *) list;

	if (l == NULL)
	{
		l = palloc0(sizeof(List));
		l->type = T_List;
	}
	if (l->length == l->max_length)
	{
		ListCell   *before = l->elements;

		l->max_length += 8;
		l->elements = palloc(l->max_length * sizeof(ListCell));
		if (l->length > 0)
			memcpy(l->elements, before, l->length * sizeof(ListCell));
	}
	l->elements[l->length++].ptr_value = datum;
	return (struct List *) l;
}

/* The caller searches the list for the node first. */
void
slist_delete(slist_head *head, slist_node *node)
{
	slist_node *last = &head->head;

	while (last->next != node)
		last = last->next;
	last->next = node->next;
}

struct List *
list_delete_first(struct List *list)
{
	List	   *l = (List *) list;

	l->length--;
	memmove(l->elements, l->elements + 1, l->length * sizeof(ListCell));
	return l->length == 0 ? NULL : list;
}

/*
 * As libpgport's, which goes byte by byte: names are copied so often that it
 * shows.  No caller has an empty buffer.
 */
size_t
strlcpy(char *dst, const char *src, size_t size)
{
	size_t		len = strlen(src);
	size_t		n = Min(len, size - 1);

	memcpy(dst, src, n);
	dst[n] = '\0';
	return len;
}

/* ---- only for the store "local" ---- */

XLogRecPtr
LogLogicalMessage(const char *prefix, const char *message_text, size_t size,
				  bool transactional)
{
	abort();
}
