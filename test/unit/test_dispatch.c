/*-------------------------------------------------------------------------
 *
 * test_dispatch.c
 *		Tests of operations on their way: several requests, several servers, a
 *		secret that runs out, a store that is busy.
 *
 * The files of worker/wire but for files.c and http.c run on a clock and a
 * network of our own.  The store does what no store does yet, but store.h
 * promises to later ones.
 *
 * test/unit/test_dispatch.c
 *
 *-------------------------------------------------------------------------
 */
#undef FRONTEND
#include "postgres.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>

#include "replication/message.h"
#include "utils/memutils.h"

#include "compat.h"
#include "settings.h"
#include "shmem/clock.h"
#include "shmem/events.h"
#include "shmem/stats.h"
#include "worker/disk/claimlog.h"
#include "worker/disk/tokens.h"
#include "worker/wire/dispatch.h"
#include "worker/wire/files.h"
#include "worker/wire/lanes.h"
#include "worker/wire/local_tokens.h"
#include "worker/wire/secret.h"
#include "worker/wire/throttle.h"

static int	lane_windows[LE_NLANES];
static const LeLimits limits = {
	.lane_windows = lane_windows,
	.gossip_capacity = LE_MAX_NEWS,
};
static LeWorker worker = {.limits = &limits};
static LeWorker *const w = &worker;

/* ---- the network ---- */

#define MAX_SENT	80

typedef struct Sent
{
	char		base[64];
	char		path[64];
	char		secret[64];
	char		secret_header[64];
	LeLane		lane;
	le_duration timeout;
	le_time		at;
	LeHttpDone	done;
	void	   *arg;
} Sent;

static Sent sent[MAX_SENT];
static int	nsent;
static le_time now;
static TimestampTz wall;		/* as le_unix_us() has it */
static int64 date;				/* of answers; 0: they have none */

void
le_http_start(LeWorker *worker, const int connections[LE_NLANES])
{
}

static int	pushes;

void
le_http_push(LeWorker *worker)
{
	pushes = nsent;
}

void
le_http_send(LeWorker *worker, const LeRequest *request, LeLane lane,
			 le_duration timeout, LeHttpDone done, void *arg)
{
	Sent	   *s = &sent[nsent++];

	assert_true(nsent < MAX_SENT && timeout > 0);
	strlcpy(s->base, request->base, sizeof(s->base));
	strlcpy(s->path, request->http.path.data, sizeof(s->path));
	strlcpy(s->secret, request->secret ? request->secret : "",
			sizeof(s->secret));
	strlcpy(s->secret_header, request->secret_header ?
			request->secret_header : "", sizeof(s->secret_header));
	s->lane = lane;
	s->timeout = timeout;
	s->at = now;
	s->done = done;
	s->arg = arg;
}

#define LONG		206			/* takes three parts to decode */
#define UNTAKEN		0			/* no status: it was too large for us */

/* The newest request is answered after so long: just a status, below. */
static void
answer_to(int number, le_duration after, int status)
{
	LeResponse response = {.net = LE_NET_OK, .http.status = status};
	char		body[] = "long";
	Sent		s;

	assert_true(number < nsent);
	s = sent[number];

	response.http.content_type = response.body = "";
	if (status == UNTAKEN)
	{
		response.net = LE_NET_UNTAKEN;
		response.net_error = "too large";
	}
	response.http.date = date;
	if (status == LONG)
	{
		response.body = body;
		response.body_len = sizeof(body);
	}
	now += after;
	s.done(w, s.arg, &response);
	memset(body, 'x', sizeof(body) - 1);	/* it is gone now */
	le_dispatch_send(w);
}

static void
answer(le_duration after, int status)
{
	answer_to(nsent - 1, after, status);
}

/* Time passes until the next thing to do, and that is done. */
static void
pass(le_duration time)
{
	now += time;
	le_dispatch_run(w);
	le_dispatch_send(w);
}

le_time
le_http_timer(LeWorker *worker)
{
	return 0;
}

void
le_http_run(LeWorker *worker)
{
}

/* ---- the store ---- */

#define OK			200			/* applied */
#define OK_ANCHORS	201			/* and it took the lease */
#define GO_ON		202			/* ... in a step of several */
#define GO_ON_ANCHORS 203
#define STALE		401			/* the secret has run out */
#define STALE_REFUSED 402
#define REFUSED		403
#define STRANGER	407			/* refused, for any request */
#define ELSEWHERE	503			/* another server may do it */
#define BUSY		429			/* not now */
#define NOT_TOGETHER 404		/* each by itself, perhaps */
#define FIRST_REFUSED 409		/* the others were not tried */

static const char *identity_setting = "";
static const char *file_secret = "";
static const char *servers_setting = "http://a,http://b";

static const char *
servers_of_store(void)
{
	return servers_setting;
}

static const char *
identity_of_node(void)
{
	return identity_setting;
}

static const char *
file_of_secret(void)
{
	return file_secret[0] == '\0' ? "" : "/secret";
}

/* A secret that ends in "!" reports itself as expired; "?": soon. */
static void
judge_by_end(const char *secret, int64 wall, LeFinding *finding)
{
	static int	asked = 0;

	memset(finding, 0, sizeof(*finding));
	if (strchr(secret, '?'))
	{
		finding->level = LE_LEVEL_WARNING;
		finding->lasting = "it ends soon";
		finding->text = psprintf("it ends soon, %d", asked++);
		return;
	}
	finding->level = strchr(secret, '!') ? LE_LEVEL_ERROR : LE_LEVEL_OK;
	finding->text = "it is over";
}

static void
encode(const LeNamespace *ns, const LeOp *op, LeRequest *request)
{
	request->http.method = "PUT";
	request->without_secret = op->kind == LE_OP_AUTHENTICATE;
	appendStringInfo(&request->http.path, "/%s/%d%s", le_op_name(op->kind),
					 op->wire.step.number, op->wire.step.tag);
	if (op->wire.njoined > 0)
		appendStringInfo(&request->http.path, "+%d", op->wire.njoined);
}

static void
decode(const LeNamespace *ns, const LeOp *op, const LeResponse *response,
	   LeAnswer *a)
{
	if (response->net == LE_NET_UNTAKEN)
	{
		memset(a, 0, sizeof(*a));
		le_fail_network(op, response, a);
		return;
	}
	if (response->http.status == LONG)
	{
		assert_string_equal(response->body, "long");
		assert_int_equal(op->wire.from, a->index);
		a->index++;
		a->wire.rest = a->index < 3 ? a->index : 0;
		return;
	}
	memset(a, 0, sizeof(*a));
	a->wire.anchors = response->http.status == OK_ANCHORS ||
		response->http.status == GO_ON_ANCHORS;
	if (response->http.status == GO_ON ||
		response->http.status == GO_ON_ANCHORS)
	{
		a->wire.again = true;
		a->wire.next.number = op->wire.step.number + 1;
		strlcpy(a->wire.next.tag, "-tag", sizeof(a->wire.next.tag));
	}
	else if (response->http.status == STALE ||
			 response->http.status == ELSEWHERE)
	{
		le_fail(a, LE_UNAVAILABLE, "no");
		a->wire.stale_secret = response->http.status == STALE;
		a->wire.next_server = response->http.status == ELSEWHERE;
	}
	else if (response->http.status == BUSY)
	{
		le_fail(a, LE_UNAVAILABLE, "busy");
		a->wire.busy = true;
	}
	else if (response->http.status == STALE_REFUSED)
	{
		le_fail(a, LE_REFUSED, "refused");
		a->wire.stale_secret = true;
	}
	else if (response->http.status == REFUSED ||
			 response->http.status == STRANGER)
	{
		le_fail(a, LE_REFUSED, le_op_name(op->kind));
		a->cause = response->http.status == STRANGER ? LE_CAUSE_STRANGER :
			LE_CAUSE_PERMISSION;
	}
	else if (response->http.status == NOT_TOGETHER)
	{
		le_fail(a, LE_REFUSED, "no such resource");
		a->wire.apart = op->wire.njoined > 0;
	}
	else if (response->http.status == FIRST_REFUSED)
	{
		a->wire.parts = palloc0((1 + op->wire.njoined) * sizeof(LeAnswer));
		a->wire.parts[0].outcome = LE_CONFLICT;
		for (int i = 1; i <= op->wire.njoined; i++)
		{
			a->wire.parts[i].outcome = LE_UNAVAILABLE;
			a->wire.parts[i].wire.unjudged = true;
		}
	}
	else if (op->kind == LE_OP_AUTHENTICATE)
	{
		a->secret = psprintf("secret%d", nsent);
		a->lasts = 30 * LE_SEC;
	}
}

static LeStore test_store;

static int
takes(const LeOp *op)
{
	if (op->kind != LE_OP_RELEASE)
		return 0;
	return test_store.key_leases ? 1 : 2;
}

static bool
joins(const LeOp *op, const LeOp *other)
{
	return op->kind == other->kind;
}

static LeStore test_store = {
	.name = "test",
	.batch.capacity = 20,
	.batch.takes = takes,
	.batch.joins = joins,
	.between_instances = true,
	.servers.ready_path = "/ready",
	.servers.urls = servers_of_store,
	.secret.file = file_of_secret,
	.secret.header = "Secret: ",
	.secret.authenticates = identity_of_node,
	.secret.fetched_header = "Fetched: ",
	.secret.judge = judge_by_end,
	.codec.encode = encode,
	.codec.decode = decode,
};

/* ---- stubs of the rest of the extension ---- */

static LeTable table;
LeTable    *le_table = &table;
int			MyProcPid = 1;
MemoryContext TopMemoryContext;
MemoryContext CurrentMemoryContext;
int			le_max_clock_offset = 60;
const LeClaimLog le_claim_log = {NULL};

le_time
le_now(void)
{
	return now;
}

TimestampTz
GetCurrentTimestamp(void)
{
	return wall;
}

int64
le_unix_us(TimestampTz when)
{
	return when;
}

uint32
le_random(void)
{
	return 4711;
}

const LeStore *
le_configured_store(void)
{
	return &test_store;
}

const char *
le_my_name(void)
{
	return "n1";
}

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

int
le_find_term(const char *election)
{
	return 0;
}

void
le_stat_answer(int slot, le_time at, LeOutcome outcome)
{
}

static int	waits;

void
le_stat_count_slot(int slot, LeStat what)
{
	waits += what == LE_STAT_WAITS;
}

static int	ups;				/* "store up" */
static int	downs;
static int	events;

void
le_event(LeEventKind what, const char *election, uint64 token,
		 const char *detail,...)
{
	events++;
	ups += what == LE_EVENT_STORE_UP;
	downs += what == LE_EVENT_STORE_DOWN;
}

/* le_status: the state of all elections. */
static char shown[LE_MAX_ERROR_LEN + 1];

void
le_set_trouble(LeTroubleKind kind, const char *text)
{
	assert_int_equal(kind, LE_TROUBLE_STORE);
	strlcpy(shown, text, sizeof(shown));
}

/* ---- stubs of the server ---- */

MemoryContext
AllocSetContextCreateInternal(MemoryContext parent, const char *name,
							  Size min, Size init, Size max)
{
	return NULL;
}

void
MemoryContextDelete(MemoryContext context)
{
}

void *
MemoryContextAlloc(MemoryContext context, Size size)
{
	return palloc(size);
}

void *
MemoryContextAllocZero(MemoryContext context, Size size)
{
	return palloc0(size);
}

char *
MemoryContextStrdup(MemoryContext context, const char *s)
{
	return pstrdup(s);
}

/* Lists have few members here. */
List *
lappend(List *list, void *datum)
{
	if (list == NIL)
	{
		list = palloc0(sizeof(List));
		list->elements = palloc0(MAX_SENT * sizeof(ListCell));
	}
	list->elements[list->length++].ptr_value = datum;
	return list;
}

List *
list_delete_first(List *list)
{
	memmove(list->elements, list->elements + 1,
			--list->length * sizeof(ListCell));
	return list->length == 0 ? NIL : list;
}

bool
le_read_file(const char *what, const char *path, char *text, size_t size,
			 size_t *len, char *trouble)
{
	*len = strlen(file_secret);
	memcpy(text, file_secret, *len);
	return *len > 0;
}

void
le_tls_trouble(char *trouble)
{
	trouble[0] = '\0';
}

static XLogRecPtr inserted;
static XLogRecPtr flushed;
static int	nflushes;
static uint64 generation = 1;

bool
RecoveryInProgress(void)
{
	return false;
}

uint64
le_tokens_generation(LeTokens *tokens)
{
	return generation;
}

XLogRecPtr
LogLogicalMessage(const char *prefix, const char *message, size_t size,
				  bool transactional
#if PG_VERSION_NUM >= 170000
				  ,bool flush
#endif
)
{
	return ++inserted;
}

void
XLogFlush(XLogRecPtr record)
{
	flushed = record;
	nflushes++;
}

static int	logged;				/* messages */

bool
errstart(int elevel, const char *domain)
{
	assert_true(elevel < ERROR);
	logged++;
	return false;
}

bool
errstart_cold(int elevel, const char *domain)
{
	return errstart(elevel, domain);
}

void
errfinish(const char *filename, int lineno, const char *funcname)
{
}

int
errcode(int sqlerrcode)
{
	return 0;
}

int
errcode_for_file_access(void)
{
	return 0;
}

int
errmsg(const char *fmt,...)
{
	return 0;
}

int
errmsg_internal(const char *fmt,...)
{
	return 0;
}

int
errdetail(const char *fmt,...)
{
	return 0;
}

int
errhint(const char *fmt,...)
{
	return 0;
}

int
errdetail_internal(const char *fmt,...)
{
	return 0;
}

/* ---- tests ---- */

static int	answers;
static LeOutcome outcome;
static char detail[256];
static le_time counted_from;	/* trust is */
static le_time counts_from[20]; /* on the first answers */

static void
done(LeWorker *of, LeFlight *flight, const LeAnswer *a)
{
	answers++;
	outcome = a->outcome;
	strlcpy(detail, a->detail ? a->detail : "", sizeof(detail));
	counted_from = flight->sent;
	if (answers <= lengthof(counts_from))
		counts_from[answers - 1] = flight->sent;
}

static int
begin(void **state)
{
	nsent = answers = pushes = 0;
	now = 1000 * LE_SEC;
	identity_setting = "";
	file_secret = "";
	memcpy(lane_windows, le_lane_windows, sizeof(lane_windows));
	table.node.timing.lease = 15 * LE_SEC;
	ups = downs = 0;
	events = 0;
	waits = 0;
	table.node.timing.request_timeout = 5 * LE_SEC;
	table.nslots = 2000;
	le_dispatch_start(w);
	return 0;
}

static void
ask(LeOpKind kind)
{
	le_flight_send(w, le_flight_new(kind, done), 10 * LE_SEC);
	le_dispatch_send(w);
}

static void
assert_sent(int number, const char *base, const char *path)
{
	assert_true(number < nsent);
	assert_string_equal(sent[number].base, base);
	assert_string_equal(sent[number].path, path);
}

/* One request: trust counts from its send, for any answer time. */
static void
one_request(void **state)
{
	ask(LE_OP_ACQUIRE);
	assert_sent(0, "http://a", "/acquire/0");
	assert_int_equal(pushes, 1);	/* before the worker sleeps */
	answer(3 * LE_SEC, OK);
	assert_int_equal(answers, 1);
	assert_int_equal(outcome, LE_DONE);
	assert_true(counted_from == sent[0].at);
}

/* A request sent after the lease was taken does not tell when that was. */
static void
trust_counts_from_the_step_that_took_the_lease(void **state)
{
	ask(LE_OP_ACQUIRE);
	answer(LE_SEC, GO_ON);
	assert_sent(1, "http://a", "/acquire/1-tag");
	answer(LE_SEC, GO_ON_ANCHORS);
	assert_sent(2, "http://a", "/acquire/2-tag");
	answer(LE_SEC, OK);
	assert_int_equal(answers, 1);
	assert_true(counted_from == sent[1].at);
	assert_true(sent[1].at < sent[2].at);
}

/* Nor does the server of the other requests matter. */
static void
another_server_does_not_move_the_anchor(void **state)
{
	ask(LE_OP_ACQUIRE);
	answer(LE_SEC, GO_ON_ANCHORS);
	answer(LE_SEC, ELSEWHERE);
	assert_sent(2, "http://b", "/acquire/1-tag");
	answer(LE_SEC, OK);
	assert_true(counted_from == sent[0].at);
}

/* The last may be the one that took it. */
static void
the_last_step_may_anchor(void **state)
{
	ask(LE_OP_ACQUIRE);
	answer(LE_SEC, GO_ON);
	answer(LE_SEC, OK_ANCHORS);
	assert_true(counted_from == sent[1].at);
}

/* Nothing more is sent for a session that has ended; a part may hold. */
static void
no_rest_after_the_session(void **state)
{
	ask(LE_OP_ACQUIRE);
	table.node.epoch++;
	answer(LE_SEC, GO_ON);
	assert_int_equal(nsent, 1);
	assert_int_equal(answers, 1);
	assert_int_equal(outcome, LE_UNKNOWN);
	assert_string_equal(detail, "its session has ended");
	ask(LE_OP_READ);
	table.node.epoch++;
	answer(LE_SEC, GO_ON);
	assert_int_equal(nsent, 3);
}

/* A write that cannot be sent to its end in time may have been applied. */
static void
no_time_for_the_rest(void **state)
{
	ask(LE_OP_ACQUIRE);
	answer(11 * LE_SEC, GO_ON);
	assert_int_equal(nsent, 1);
	assert_int_equal(answers, 1);
	assert_int_equal(outcome, LE_UNKNOWN);
	ask(LE_OP_READ);
	answer(11 * LE_SEC, GO_ON);
	assert_int_equal(outcome, LE_UNAVAILABLE);
}

static void
all_servers_are_tried_once(void **state)
{
	ask(LE_OP_READ);
	answer(LE_SEC, ELSEWHERE);
	assert_sent(1, "http://b", "/read/0");
	answer(LE_SEC, ELSEWHERE);
	assert_int_equal(nsent, 2);
	assert_int_equal(outcome, LE_UNAVAILABLE);
}

static void
a_failed_server_is_asked_whether_it_is_ready(void **state)
{
	ask(LE_OP_READ);
	answer(LE_SEC, ELSEWHERE);
	answer(LE_SEC, OK);
	now += 2 * LE_SEC;
	le_dispatch_run(w);
	le_dispatch_send(w);
	assert_sent(2, "http://a", "/ready");
	ask(LE_OP_READ);
	assert_sent(3, "http://b", "/read/0");
	sent[3] = sent[2];
	answer(LE_SEC, 200);
	ask(LE_OP_READ);
	assert_sent(4, "http://a", "/read/0");
}

/* A reload with other servers begins a list of them; any other leaves it. */
static void
a_reload_keeps_the_same_servers(void **state)
{
	ask(LE_OP_READ);
	answer(LE_SEC, ELSEWHERE);
	answer(LE_SEC, OK);
	assert_false(le_dispatch_configure(w));
	servers_setting = "http://a/,http://b//";
	assert_false(le_dispatch_configure(w));
	ask(LE_OP_READ);
	assert_sent(2, "http://b", "/read/0");	/* the first has failed */
	servers_setting = "http://a";
	assert_true(le_dispatch_configure(w));
	servers_setting = "http://a,http://c";
	assert_true(le_dispatch_configure(w));
	servers_setting = "http://c,http://a";
	assert_true(le_dispatch_configure(w));
	assert_false(le_dispatch_configure(w));
	answer(LE_SEC, ELSEWHERE);	/* this says nothing about those */
	ask(LE_OP_READ);
	assert_sent(nsent - 1, "http://c", "/read/0");
	servers_setting = "http://a,http://b";
}

/* Answers of another store say nothing of the one that is asked now. */
static void
another_store_s_answer_shows_nothing(void **state)
{
	ask(LE_OP_READ);
	servers_setting = "http://c";
	assert_true(le_dispatch_configure(w));
	w->stores++;
	answer(LE_SEC, OK);
	assert_int_equal(answers, 0);
	assert_sent(1, "http://c", "/read/0");
	answer(LE_SEC, OK);
	assert_int_equal(answers, 1);
	assert_int_equal(outcome, LE_DONE);
	assert_int_equal(nsent, 2);

	/* nor does a part of it */
	ask(LE_OP_READ);
	answer(LE_SEC, GO_ON);
	assert_sent(3, "http://c", "/read/1-tag");
	w->stores++;
	answer(LE_SEC, OK);
	assert_int_equal(answers, 1);
	assert_sent(4, "http://c", "/read/0");
	answer(LE_SEC, OK);
	assert_int_equal(answers, 2);

	/* a failure is none of the present one */
	ask(LE_OP_READ);
	w->stores++;
	answer(LE_SEC, REFUSED);
	assert_int_equal(answers, 2);
	answer(LE_SEC, OK);
	assert_int_equal(answers, 3);
	assert_int_equal(outcome, LE_DONE);

	/* a write has its effect, wherever it was applied */
	ask(LE_OP_ACQUIRE);
	w->stores++;
	answer(LE_SEC, OK);
	assert_int_equal(answers, 4);
	assert_int_equal(outcome, LE_DONE);
	assert_true(counted_from == sent[nsent - 1].at);

	/* its caller has sent the next parked query */
	nsent = 0;
	ask(LE_OP_WATCH);
	w->stores++;
	answer(LE_SEC, OK);
	assert_int_equal(nsent, 1);
	assert_int_equal(answers, 5);

	/* the fate of a write there says nothing about the present one */
	ask(LE_OP_ACQUIRE);
	w->stores++;
	answer(LE_SEC, ELSEWHERE);
	assert_int_equal(answers, 6);
	assert_int_equal(outcome, LE_UNAVAILABLE);
	assert_int_equal(downs, 0);
	answers--;

	/* the caller's time does not begin anew */
	ask(LE_OP_READ);
	w->stores++;
	answer(8 * LE_SEC, OK);
	assert_true(sent[nsent - 1].timeout <= 2 * LE_SEC);
	answer(LE_SEC, OK);
	assert_int_equal(answers, 6);
	assert_int_equal(outcome, LE_DONE);
	ask(LE_OP_READ);
	w->stores++;
	answer(11 * LE_SEC, OK);
	assert_int_equal(answers, 7);
	assert_int_equal(outcome, LE_UNAVAILABLE);
	assert_int_equal(downs, 0);
	servers_setting = "http://a,http://b";
}

/* As in a reload. */
static void
use_identity(const char *name)
{
	identity_setting = name;
	le_dispatch_configure(w);
}

/* The first secret has come: it is "secret1", and lasts for 30 s. */
static void
have_secret(void)
{
	use_identity("me");
	pass(0);
	assert_sent(0, "http://a", "/authenticate/0");
	answer(0, OK);
	assert_int_equal(nsent, 1);
}

/* It is there before a request needs it. */
static void
a_secret_is_fetched_ahead_of_all(void **state)
{
	have_secret();
	ask(LE_OP_READ);
	assert_string_equal(sent[1].secret, "secret1");
	assert_string_equal(sent[1].secret_header, "Fetched: ");
}

/* A request without a secret waits for it. */
static void
a_secret_is_fetched_first(void **state)
{
	use_identity("me");
	ask(LE_OP_READ);
	ask(LE_OP_ACQUIRE);
	assert_int_equal(nsent, 1);
	assert_sent(0, "http://a", "/authenticate/0");
	answer(LE_SEC, OK);
	assert_int_equal(nsent, 3);
	assert_sent(1, "http://a", "/read/0");
	assert_sent(2, "http://a", "/acquire/0");
	assert_string_equal(sent[2].secret, "secret1");
	assert_true(sent[2].at == sent[0].at + LE_SEC);
	answer(LE_SEC, OK);
	assert_true(counted_from == sent[2].at);
}

/* The next comes before the first has run out, and delays no request. */
static void
a_secret_is_renewed_ahead(void **state)
{
	use_identity("me");
	ask(LE_OP_READ);
	answer(LE_SEC, OK);
	assert_true(le_dispatch_timer(w) == now + 20 * LE_SEC);
	now += 20 * LE_SEC;
	le_dispatch_run(w);
	le_dispatch_send(w);
	assert_sent(2, "http://a", "/authenticate/0");
	le_dispatch_run(w);
	le_dispatch_send(w);
	ask(LE_OP_READ);
	assert_int_equal(nsent, 4);
	assert_string_equal(sent[3].secret, "secret1");
}

/* A refused secret is replaced, and the request repeated once. */
static void
a_stale_secret_is_replaced_once(void **state)
{
	use_identity("me");
	ask(LE_OP_ACQUIRE);
	answer(LE_SEC, OK);
	answer(LE_SEC, STALE);
	assert_sent(2, "http://a", "/authenticate/0");
	answer(LE_SEC, OK);
	assert_sent(3, "http://a", "/acquire/0");
	assert_string_equal(sent[3].secret, "secret3");
	assert_int_equal(answers, 0);
	answer(LE_SEC, STALE);
	assert_int_equal(nsent, 4);
	assert_int_equal(answers, 1);
	assert_int_equal(outcome, LE_UNAVAILABLE);
}

/* Without a secret nothing was sent, so nothing was applied. */
static void
no_secret_is_to_be_had(void **state)
{
	use_identity("me");
	ask(LE_OP_ACQUIRE);
	answer(LE_SEC, ELSEWHERE);
	answer(LE_SEC, ELSEWHERE);
	assert_int_equal(answers, 1);
	assert_int_equal(outcome, LE_UNAVAILABLE);
}

/* No secret is fetched over and over, and no request waits for that. */
static void
no_secret_is_to_be_had_for_long(void **state)
{
	int			asked = 0;
	le_time		start = now;

	use_identity("me");
	ask(LE_OP_ACQUIRE);
	answer(0, REFUSED);
	assert_int_equal(outcome, LE_REFUSED);
	ask(LE_OP_ACQUIRE);
	assert_int_equal(nsent, 1);
	assert_int_equal(answers, 1);	/* not from within its sending */
	assert_true(le_dispatch_timer(w) <= now);
	pass(0);
	assert_int_equal(answers, 2);
	assert_int_equal(outcome, LE_REFUSED);
	while (now < start + 120 * LE_SEC)
	{
		int			before = nsent;

		assert_true(le_dispatch_timer(w) > now);
		pass(le_dispatch_timer(w) - now);
		if (nsent > before)
			answer(0, REFUSED);
		asked += nsent - before;
	}
	assert_in_range(asked, 6, 10);	/* 1, 2, 4, 8, 16, 30, 30, ... s */
	ask(LE_OP_ACQUIRE);
	pass(30 * LE_SEC);
	answer(0, OK);
	ask(LE_OP_ACQUIRE);
	assert_string_equal(sent[nsent - 1].path, "/acquire/0");
}

/* The secrets' source hangs: no request waits longer than for an answer. */
static void
no_secret_comes_in_time(void **state)
{
	use_identity("me");
	ask(LE_OP_RENEW_TERMS);
	assert_true(le_dispatch_timer(w) == now + 10 * LE_SEC);
	pass(10 * LE_SEC);
	assert_int_equal(answers, 1);
	assert_int_equal(outcome, LE_UNAVAILABLE);
	assert_int_equal(nsent, 1);
}

/* Nor does any while the last one is valid, due or refused to others. */
static void
a_secret_serves_until_there_is_another(void **state)
{
	have_secret();
	pass(20 * LE_SEC);
	assert_sent(1, "http://a", "/authenticate/0");
	answer(0, REFUSED);
	assert_string_equal(shown, "");	/* no request needs a new one */
	assert_int_equal(events, 0);
	ask(LE_OP_RENEW_TERMS);
	assert_string_equal(sent[2].secret, "secret1");
	answer(0, OK);
	pass(LE_SEC);
	assert_sent(3, "http://a", "/authenticate/0");	/* its source hangs */
	ask(LE_OP_READ);
	answer(0, STALE);
	assert_int_equal(answers, 1);	/* it waits ... */
	ask(LE_OP_RENEW_TERMS);		/* ... and no renewal does */
	assert_string_equal(sent[5].secret, "secret1");
	answer(0, OK);
	assert_int_equal(outcome, LE_DONE);
	answer_to(3, LE_SEC, OK);
	assert_sent(6, "http://a", "/read/0");
	assert_string_equal(sent[6].secret, "secret6");
	answer(0, OK);
	assert_int_equal(answers, 3);
}

/* A reload does not fetch another secret, a new identity does. */
static void
a_secret_outlives_a_reload(void **state)
{
	have_secret();
	le_dispatch_configure(w);
	ask(LE_OP_READ);
	assert_string_equal(sent[1].secret, "secret1");
	use_identity("somebody");
	ask(LE_OP_READ);
	assert_sent(2, "http://a", "/authenticate/0");
}

/* One that is sent late, but was replaced meanwhile, is no reason either. */
static void
a_stale_secret_has_been_replaced(void **state)
{
	have_secret();
	now += 19 * LE_SEC;
	ask(LE_OP_READ);
	pass(LE_SEC);
	answer(0, OK);				/* a new one */
	answer_to(1, 0, STALE);
	assert_int_equal(nsent, 4);
	assert_sent(3, "http://a", "/read/0");
	assert_string_equal(sent[3].secret, "secret3");
}

/* A secret that is never accepted is not fetched for each refusal. */
static void
a_useless_secret_is_left_alone(void **state)
{
	have_secret();
	ask(LE_OP_READ);
	answer(0, STALE);
	answer(0, OK);
	answer(0, STALE);
	assert_int_equal(answers, 1);
	for (int i = 0; i < 5; i++)
	{
		ask(LE_OP_READ);
		answer(0, STALE);
	}
	assert_int_equal(answers, 6);
	assert_int_equal(nsent, 4 + 5);
	now += 5 * LE_SEC;
	ask(LE_OP_READ);
	answer(0, STALE);
	assert_sent(nsent - 1, "http://a", "/authenticate/0");
}

/* The file may have a new secret without notice. */
static void
a_file_is_read_again(void **state)
{
	file_secret = "first";
	le_dispatch_configure(w);
	ask(LE_OP_ACQUIRE);
	assert_string_equal(sent[0].secret, "first");
	assert_string_equal(sent[0].secret_header, "Secret: ");
	answer(0, STALE_REFUSED);
	assert_int_equal(nsent, 1);
	assert_int_equal(outcome, LE_REFUSED);
	assert_string_equal(detail, "refused");
	file_secret = "second!";
	ask(LE_OP_ACQUIRE);
	assert_string_equal(sent[1].secret, "first");
	answer(0, STALE_REFUSED);
	assert_int_equal(answers, 1);
	assert_string_equal(sent[2].secret, "second!");
	answer(0, STALE_REFUSED);
	assert_int_equal(answers, 2);
	assert_string_equal(detail, "it is over refused");
	file_secret = "";			/* is being replaced */
	ask(LE_OP_ACQUIRE);
	answer(0, STALE_REFUSED);
	assert_int_equal(nsent, 4);
	file_secret = "three";
	ask(LE_OP_ACQUIRE);
	answer(0, STALE_REFUSED);
	assert_string_equal(sent[5].secret, "three");
	answer(0, OK);
	assert_int_equal(outcome, LE_DONE);
}

/* After its time no request of it is sent, neither first nor again. */
static void
not_after_its_time(void **state)
{
	LeFlight   *flight;

	file_secret = "first";
	le_dispatch_configure(w);
	flight = le_flight_new(LE_OP_RENEW_TERMS, done);
	flight->not_after = now + 3 * LE_SEC;
	le_flight_send(w, flight, 10 * LE_SEC);
	assert_int_equal(nsent, 1);
	assert_true(sent[0].timeout <= 3 * LE_SEC);
	file_secret = "second";
	answer(3 * LE_SEC, STALE_REFUSED);
	assert_int_equal(nsent, 1);
	assert_int_equal(answers, 1);
	assert_int_not_equal(outcome, LE_DONE);

	/* the rest of one that has begun */
	flight = le_flight_new(LE_OP_CLAIM, done);
	flight->not_after = now + 3 * LE_SEC;
	le_flight_send(w, flight, 10 * LE_SEC);
	le_dispatch_send(w);
	answer(3 * LE_SEC, GO_ON);
	assert_int_equal(nsent, 2);
	assert_int_equal(outcome, LE_UNKNOWN);

	/* its turn comes late, but in time, which does not extend its time */
	nsent = answers = 0;
	for (int i = 0; i < lane_windows[LE_LANE_LIFE]; i++)
		ask(LE_OP_RENEW_TERMS);
	flight = le_flight_new(LE_OP_RENEW_TERMS, done);
	flight->not_after = now + 3 * LE_SEC;
	le_flight_send(w, flight, 3 * LE_SEC);
	answer_to(0, 2 * LE_SEC, OK);
	assert_int_equal(nsent, lane_windows[LE_LANE_LIFE] + 1);
	assert_true(sent[nsent - 1].timeout <= LE_SEC);
	file_secret = "three";
	answer(LE_SEC, STALE_REFUSED);
	assert_int_equal(nsent, lane_windows[LE_LANE_LIFE] + 1);
}

/* The last week of a secret is reported once, not with each read. */
static void
a_secret_that_ends_soon(void **state)
{
	file_secret = "first?";
	logged = 0;
	le_dispatch_configure(w);
	assert_true(logged > 0);
	logged = 0;
	for (int i = 0; i < 24 * 7; i++)
		pass(3600 * LE_SEC);
	assert_int_equal(logged, 0);
	file_secret = "second!";
	le_secret_read_again(w->secrets);
	logged = 0;
	pass(3600 * LE_SEC);
	assert_int_equal(logged, 1);
	pass(3600 * LE_SEC);
	assert_int_equal(logged, 1);
}

/* Requests sent in a minute of constant demand. */
static int
sent_in_a_minute(LeOpKind kind)
{
	le_time		end = now + 60 * LE_SEC;
	LeLane		lane = kind == LE_OP_ACQUIRE ? LE_LANE_CAMPAIGN : LE_LANE_LIFE;
	int			n = 0;

	while (now < end)
	{
		nsent = 0;
		if (dlist_is_empty(&w->lanes->each[lane].waiting))
			ask(kind);
		pass(100 * LE_MSEC);
		if (nsent > 0)
		{
			answer(0, w->throttle->level > 0 ? BUSY : OK);
			n++;
		}
	}
	return n;
}

/* Reads slow down first, campaigns second, renewals never. */
static void
a_busy_store_is_asked_less(void **state)
{
	le_throttle_busy(w->throttle, 0);
	assert_true(le_throttle_look(w->throttle, 2 * LE_SEC) == 4 * LE_SEC);
	assert_true(le_throttle_campaign(w->throttle, 15 * LE_SEC) == 0);
	le_throttle_busy(w->throttle, 0);
	assert_true(le_throttle_look(w->throttle, 2 * LE_SEC) == 8 * LE_SEC);
	le_throttle_campaigned(w->throttle);
	assert_true(le_throttle_campaign(w->throttle, 15 * LE_SEC) == now +
				500 * LE_MSEC);
	assert_in_range(sent_in_a_minute(LE_OP_RENEW_TERMS), 590, 600);
	assert_int_equal(w->throttle->level, 5);
	assert_in_range(sent_in_a_minute(LE_OP_ACQUIRE), 20, 30);
	assert_true(le_throttle_look(w->throttle, 2 * LE_SEC) == 30 * LE_SEC);
	assert_true(le_throttle_look(w->throttle, 40 * LE_SEC) == 40 * LE_SEC);
	/* step by step it returns to the normal rate */
	now += 10 * LE_SEC;
	assert_true(le_throttle_look(w->throttle, LE_SEC) == 16 * LE_SEC);
	now += 40 * LE_SEC;
	assert_true(le_throttle_look(w->throttle, 2 * LE_SEC) == 2 * LE_SEC);
	assert_true(le_throttle_look(w->throttle, 0) == 0);
	assert_in_range(sent_in_a_minute(LE_OP_ACQUIRE), 590, 600);
}

/* The store's request to wait holds up reads, and campaigns for a while. */
static void
a_busy_store_says_for_how_long(void **state)
{
	le_throttle_busy(w->throttle, 20 * LE_SEC);
	assert_true(le_throttle_look(w->throttle, 2 * LE_SEC) == 20 * LE_SEC);
	assert_true(le_throttle_campaign(w->throttle, 15 * LE_SEC) == 0);
	le_throttle_busy(w->throttle, 20 * LE_SEC);
	assert_true(le_throttle_campaign(w->throttle, 15 * LE_SEC) == now +
				2500 * LE_MSEC);
	ask(LE_OP_ACQUIRE);
	assert_int_equal(nsent, 0);
	assert_true(le_dispatch_timer(w) == now + 2500 * LE_MSEC);
	pass(2500 * LE_MSEC);
	assert_sent(0, "http://a", "/acquire/0");
	ask(LE_OP_RELEASE);
	assert_int_equal(nsent, 2);
	le_throttle_busy(w->throttle, 3600 * LE_SEC);
	assert_true(le_throttle_look(w->throttle, 2 * LE_SEC) == 60 * LE_SEC);
}

/* But the earlier of several requests may have been applied. */
static void
no_secret_is_to_be_had_for_the_rest(void **state)
{
	use_identity("me");
	ask(LE_OP_ACQUIRE);
	answer(LE_SEC, OK);
	answer(LE_SEC, GO_ON_ANCHORS);
	answer(LE_SEC, STALE);
	answer(LE_SEC, ELSEWHERE);
	answer(LE_SEC, ELSEWHERE);
	assert_int_equal(answers, 1);
	assert_int_equal(outcome, LE_UNKNOWN);
}

/* An operation of this node, or about the election "e", and its answer. */
static void
ask_and_hear(LeOpKind kind, int status)
{
	LeFlight   *flight = le_flight_new(kind, done);

	if (kind == LE_OP_READ || kind == LE_OP_ACQUIRE ||
		kind == LE_OP_RELEASE || kind == LE_OP_CLAIM)
		flight->op.election = "e";
	le_flight_send(w, flight, 10 * LE_SEC);
	le_dispatch_send(w);
	answers = 0;
	while (answers == 0)
		answer(LE_MSEC, status);	/* from each server, if necessary */
	nsent = 0;
}

/* A success ends only the refusals for want of the same permission. */
static void
a_refusal_ends_with_its_like(void **state)
{
	ask_and_hear(LE_OP_READ, REFUSED);
	assert_string_equal(le_store_trouble(w), "read");
	assert_string_equal(shown, "");	/* that election's alone */
	ask_and_hear(LE_OP_PROVE_NODE, REFUSED);
	assert_string_equal(shown, "prove node");
	ask_and_hear(LE_OP_RENEW_SESSION, OK);
	assert_string_equal(shown, "prove node");
	ask_and_hear(LE_OP_REGISTER_NODE, OK);
	assert_string_equal(shown, "");
	assert_int_equal(ups, 0);
	ask_and_hear(LE_OP_ACQUIRE, REFUSED);
	ask_and_hear(LE_OP_RELEASE, OK);
	assert_int_equal(ups, 0);
	ask_and_hear(LE_OP_READ, OK);
	assert_int_equal(ups, 1);
	assert_string_equal(le_store_trouble(w), "");
}

/* A query from before the failure says nothing of the time since. */
static void
an_earlier_success_ends_no_failure(void **state)
{
	ask(LE_OP_READ);
	now += LE_SEC;
	ask(LE_OP_READ);
	answer_to(1, LE_SEC, REFUSED);
	assert_string_equal(le_store_trouble(w), "read");
	answer_to(0, LE_SEC, OK);
	assert_int_equal(answers, 2);
	assert_int_equal(ups, 0);
	assert_string_equal(le_store_trouble(w), "read");
	ask(LE_OP_READ);
	answer(LE_SEC, OK);
	assert_int_equal(ups, 1);
	assert_string_equal(le_store_trouble(w), "");
}

/* An identity that was unknown, and is known now. */
static void
a_stranger_s_refusals_end_together(void **state)
{
	ask_and_hear(LE_OP_READ, STRANGER);
	ask_and_hear(LE_OP_WATCH, STRANGER);
	ask_and_hear(LE_OP_DESTROY_SESSION, STRANGER);
	assert_string_equal(shown, "destroy session");
	ask_and_hear(LE_OP_LIST_NODES, OK);	/* from any server, of any age */
	assert_int_equal(ups, 0);
	ask_and_hear(LE_OP_VERIFY_SESSION, OK);
	assert_int_equal(ups, 1);
	assert_string_equal(shown, "");
}

/* The newest refusal may concern another operation. */
static void
trouble_is_what_is_wrong_now(void **state)
{
	ask_and_hear(LE_OP_READ, STRANGER);
	assert_string_equal(shown, "read");
	ask_and_hear(LE_OP_READ, REFUSED);
	assert_string_equal(shown, "");
	ask_and_hear(LE_OP_CLAIM, ELSEWHERE);
	assert_string_equal(shown, "no");
	ask_and_hear(LE_OP_READ, OK);
	assert_string_equal(shown, "");
	assert_int_equal(ups, 1);
}

/*
 * An answer tells the second, which began at least so long ago.  Setting our
 * clock changes what is found, but the time that passes does not.
 */
static void
the_store_s_clock_is_compared(void **state)
{
	const int64 second = INT64CONST(1000000);
	const int64 at = 1795973000;
	char		text[512];

	date = at;
	ask(LE_OP_READ);
	answer(2 * LE_SEC, OK);
	date = 0;
	ask(LE_OP_READ);
	answer(0, OK);				/* tells nothing */
	now += 3600 * LE_SEC;

	/* by then the answer's second was at + 1 h, and 3 s more at most */
	wall = (at + 3600 + 3 + 61) * second - 1;
	assert_false(le_store_clock_differs(w, text, sizeof(text)));
	wall++;
	assert_true(le_store_clock_differs(w, text, sizeof(text)));
	assert_non_null(strstr(text, "is 61 s ahead of that of the store"));
	wall = (at + 3600 - 61) * second + 1;
	assert_false(le_store_clock_differs(w, text, sizeof(text)));
	wall--;
	assert_true(le_store_clock_differs(w, text, sizeof(text)));
	assert_non_null(strstr(text, "is 61 s behind that of the store"));
}

/* A parked query may be answered long after its send. */
static void
a_parked_query_tells_no_time(void **state)
{
	char		text[512];

	date = 1795973000;
	ask(LE_OP_WATCH);
	answer(0, OK);
	date = wall = 0;
	assert_false(le_store_clock_differs(w, text, sizeof(text)));
}

/* A part in each turn, though no other event makes one; the answer is one. */
static void
a_long_answer_is_decoded_in_parts(void **state)
{
	LeFlight   *flight = le_flight_new(LE_OP_WATCH, done);

	le_flight_send(w, flight, 10 * LE_SEC);
	le_dispatch_send(w);
	answers = 0;
	answer(LE_MSEC, LONG);
	assert_int_equal(answers, 0);
	assert_true(le_dispatch_timer(w) == now);
	pass(0);
	assert_int_equal(answers, 0);
	pass(0);
	assert_int_equal(answers, 1);
	assert_true(le_dispatch_timer(w) != now);
}

static void
a_list_of_nodes_speaks_for_itself(void **state)
{
	ask_and_hear(LE_OP_LIST_NODES, REFUSED);
	ask_and_hear(LE_OP_READ, OK);
	assert_int_equal(ups, 0);
	ask_and_hear(LE_OP_LIST_NODES, OK);
	assert_int_equal(ups, 1);
	ask_and_hear(LE_OP_READ, ELSEWHERE);
	ask_and_hear(LE_OP_LIST_NODES, OK);
	assert_int_equal(ups, 1);	/* by a server that has lost all others */
	ask_and_hear(LE_OP_READ, OK);
	assert_int_equal(ups, 2);
}

/* The store is there, and so is its server; this is told once. */
static void
an_answer_too_large_is_no_outage(void **state)
{
	static const LeOpKind kinds[] = {LE_OP_LIST_NODES, LE_OP_ACQUIRE};

	for (int i = 0; i < lengthof(kinds); i++)
	{
		begin(state);
		for (int j = 0; j < 3; j++)
		{
			ask_and_hear(kinds[i], UNTAKEN);
			assert_int_equal(outcome, le_op_writes(kinds[i]) ?
							 LE_UNKNOWN : LE_REFUSED);
			assert_string_equal(detail, "too large");
			assert_string_equal(le_store_trouble(w), "too large");
			ask_and_hear(LE_OP_PROVE_NODE, OK);
		}
		assert_int_equal(events, 1);
		assert_int_equal(downs, 0);
		ask(LE_OP_READ);
		assert_sent(0, "http://a", "/read/0");
		answer(LE_MSEC, OK);
		nsent = 0;
		ask_and_hear(kinds[i], OK);
		assert_int_equal(ups, 1);
	}
}

/* ---- lanes ---- */

static bool still_wanted;
static bool unsent;

static void
done_unsent(LeWorker *of, LeFlight *flight, const LeAnswer *a)
{
	unsent = a->unsent;
	done(of, flight, a);
}

static bool
is_wanted(LeWorker *of, LeFlight *flight)
{
	return still_wanted;
}

/* All campaigns go out; they wait for any time. */
static void
campaign(int n)
{
	still_wanted = true;
	for (int i = 0; i < n; i++)
	{
		LeFlight   *flight = le_flight_new(LE_OP_ACQUIRE, done);

		flight->slot = i;
		flight->request = 1;
		flight->wanted = is_wanted;
		flight->keeps_waiting = true;
		le_flight_send(w, flight, 10 * LE_SEC);
	}
	le_dispatch_send(w);
}

static void
give_answer(int number, int status)
{
	LeResponse response = {.net = LE_NET_OK, .http.status = status};

	response.http.content_type = response.body = "";
	sent[number].done(w, sent[number].arg, &response);
	le_dispatch_send(w);
}

/* Renewals do not wait for any number of campaigns. */
static void
campaigns_have_a_window(void **state)
{
	campaign(1000);
	assert_int_equal(nsent, lane_windows[LE_LANE_CAMPAIGN]);
	le_flight_send(w, le_flight_new(LE_OP_PROVE_NODE, done), 10 * LE_SEC);
	assert_int_equal(nsent, lane_windows[LE_LANE_CAMPAIGN] + 1);
	ask(LE_OP_RELEASE);
	assert_int_equal(nsent, lane_windows[LE_LANE_CAMPAIGN] + 2);
	assert_int_equal(sent[nsent - 1].lane, LE_LANE_RELEASE);
	give_answer(0, OK);
	assert_int_equal(answers, 1);
	assert_int_equal(nsent, lane_windows[LE_LANE_CAMPAIGN] + 3);
	assert_int_equal(sent[nsent - 1].lane, LE_LANE_CAMPAIGN);
}

/* Queueing counts neither as the request's own time nor as the store's. */
static void
time_begins_when_it_is_sent(void **state)
{
	campaign(lane_windows[LE_LANE_CAMPAIGN] + 1);
	now += 60 * LE_SEC;
	give_answer(0, OK);
	assert_int_equal(nsent, lane_windows[LE_LANE_CAMPAIGN] + 1);
	assert_true(sent[nsent - 1].at == now);
	assert_true(sent[nsent - 1].timeout > 9 * LE_SEC);
	answer(LE_SEC, OK);
	assert_true(counted_from == sent[nsent - 1].at);
	assert_int_equal(events, 0);
}

static void
what_is_not_wanted_is_not_sent(void **state)
{
	campaign(lane_windows[LE_LANE_CAMPAIGN] + 100);
	still_wanted = false;
	le_dispatch_send(w);
	assert_int_equal(nsent, lane_windows[LE_LANE_CAMPAIGN]);
	assert_int_equal(answers, 100);
	assert_int_equal(outcome, LE_UNAVAILABLE);
	assert_int_equal(events, 0);
}

static void
release(int n)
{
	for (int i = 0; i < n; i++)
	{
		LeFlight   *flight = le_flight_new(LE_OP_RELEASE, done);

		flight->slot = i;
		flight->op.election = psprintf("e%d", i);
		le_flight_send(w, flight, 10 * LE_SEC);
	}
	le_dispatch_send(w);
}

/* A request that finds no capacity counts as waiting once, alone or joined. */
static void
waits_are_counted(void **state)
{
	campaign(lane_windows[LE_LANE_CAMPAIGN]);
	assert_int_equal(waits, 0);
	campaign(2);
	le_dispatch_send(w);
	le_dispatch_send(w);
	assert_int_equal(waits, 0);
	give_answer(0, OK);
	give_answer(1, OK);
	assert_int_equal(waits, 2);
	for (int i = 0; i < lane_windows[LE_LANE_RELEASE]; i++)
		release(1);
	release(3);
	give_answer(nsent - 1, OK);
	assert_int_equal(waits, 5);
}

/* Waiting requests go together, and all count from one send. */
static void
several_go_in_one_request(void **state)
{
	release(25);
	assert_int_equal(nsent, 3);
	assert_sent(0, "http://a", "/release/0+9");
	assert_sent(1, "http://a", "/release/0+9");
	assert_sent(2, "http://a", "/release/0+4");
	now += LE_SEC;
	give_answer(0, OK);
	assert_int_equal(answers, 10);
	for (int i = 0; i < answers; i++)
		assert_true(counts_from[i] == sent[0].at);
	give_answer(1, ELSEWHERE);
	assert_sent(3, "http://b", "/release/0+9");
	give_answer(3, 500);
	give_answer(2, OK);
	assert_int_equal(answers, 25);
	assert_int_equal(w->lanes->each[LE_LANE_RELEASE].under_way, 0);
}

/* Two about one election never go together, from any caller. */
static void
one_of_each_election(void **state)
{
	for (int i = 0; i < 4; i++)
	{
		LeFlight   *flight = le_flight_new(LE_OP_RELEASE, done);

		flight->slot = i;
		flight->op.election = i < 3 ? "e0" : "e1";
		le_flight_send(w, flight, 10 * LE_SEC);
	}
	le_dispatch_send(w);
	assert_int_equal(nsent, 3);
	assert_sent(0, "http://a", "/release/0+1");
	assert_sent(1, "http://a", "/release/0");
	assert_sent(2, "http://a", "/release/0");
}

/*
 * A server that does not take them together gets them one by one, which no
 * caller notices; after a while it is tried again.
 */
static void
some_servers_take_one_at_a_time(void **state)
{
	lane_windows[LE_LANE_RELEASE] = 10;
	le_dispatch_start(w);
	release(5);
	assert_sent(0, "http://a", "/release/0+4");
	give_answer(0, NOT_TOGETHER);
	assert_int_equal(answers, 0);
	assert_int_equal(events, 0);
	assert_int_equal(nsent, 6);
	for (int i = 1; i < 6; i++)
		assert_sent(i, "http://a", "/release/0");
	now += LE_SEC;
	give_answer(1, NOT_TOGETHER);	/* now it is meant */
	assert_int_equal(answers, 1);
	assert_int_equal(outcome, LE_REFUSED);
	for (int i = 2; i < 6; i++)
		give_answer(i, OK);
	assert_int_equal(answers, 5);
	assert_int_equal(outcome, LE_DONE);
	assert_int_equal(w->lanes->each[LE_LANE_RELEASE].under_way, 0);

	nsent = 0;
	now += LE_APART - 2 * LE_SEC;
	release(2);
	assert_int_equal(nsent, 2);
	give_answer(0, OK);
	give_answer(1, OK);
	nsent = 0;
	now += LE_SEC;
	release(2);
	assert_sent(0, "http://a", "/release/0+1");
	give_answer(0, NOT_TOGETHER);
	assert_int_equal(nsent, 3);

	/* a reload may bring other servers */
	give_answer(1, OK);
	give_answer(2, OK);
	nsent = 0;
	le_dispatch_configure(w);
	release(2);
	assert_sent(0, "http://a", "/release/0+1");
	lane_windows[LE_LANE_RELEASE] = 4;
}

/*
 * Where each is carried out on its own, one request of a lane carries several
 * at a time; half as many if that takes long, and more again if it is quick.
 */
static void
many_are_not_let_loose_at_once(void **state)
{
	test_store.key_leases = true;
	test_store.batch.capacity = LE_MAX_JOINED;
	table.node.timing.lease = 16 * LE_SEC;
	le_dispatch_start(w);
	release(250);
	assert_int_equal(nsent, 1);
	assert_sent(0, "http://a", "/release/0+99");
	assert_true(le_dispatch_timer(w) == 0 || le_dispatch_timer(w) > now);
	le_flight_send(w, le_flight_new(LE_OP_PROVE_NODE, done), 10 * LE_SEC);
	assert_int_equal(nsent, 2);
	answer_to(0, 2 * LE_SEC, OK);	/* slow */
	assert_int_equal(answers, 100);
	assert_sent(2, "http://a", "/release/0+49");
	assert_int_equal(nsent, 3);
	answer_to(2, 700 * LE_MSEC, OK);	/* neither */
	assert_sent(3, "http://a", "/release/0+49");
	answer_to(3, 100 * LE_MSEC, OK);	/* quick */
	assert_sent(4, "http://a", "/release/0+49");
	assert_int_equal(w->lanes->together, 100);
	answer_to(4, 100 * LE_MSEC, OK);
	assert_int_equal(answers, 250);
	assert_int_equal(w->lanes->each[LE_LANE_RELEASE].carrying, 0);

	/* never fewer than a few */
	for (int i = 0; i < 8; i++)
	{
		release(20);
		while (w->lanes->each[LE_LANE_RELEASE].under_way > 0)
			answer(2 * LE_SEC, OK);
	}
	assert_int_equal(w->lanes->together, LE_LEAST_TOGETHER);
	assert_int_equal(w->lanes->each[LE_LANE_RELEASE].carrying, 0);
	test_store.key_leases = false;
	test_store.batch.capacity = 20;
}

/* While one carries several, others of its kind wait, but no other kind. */
static void
another_kind_is_not_held_up(void **state)
{
	int			lane = LE_LANE_RELEASE;

	test_store.key_leases = true;
	test_store.batch.capacity = LE_MAX_JOINED;
	le_dispatch_start(w);
	release(400);
	assert_int_equal(nsent, 1);
	for (int i = 0; i < 2; i++)
		le_flight_send(w, le_flight_new(LE_OP_TELL_NEWS, done), 10 * LE_SEC);
	le_dispatch_send(w);
	assert_int_equal(nsent, 3);
	assert_string_equal(sent[1].path, sent[2].path);
	assert_int_equal(sent[2].lane, lane);
	give_answer(2, OK);
	give_answer(1, OK);
	assert_int_equal(answers, 2);
	assert_int_equal(nsent, 3);
	give_answer(0, OK);
	assert_int_equal(answers, 102);
	assert_int_equal(nsent, 4);
	test_store.key_leases = false;
	test_store.batch.capacity = 20;
}

/* A dry run, which the store is to refuse, must not join real operations. */
static void
a_dry_run_goes_by_itself(void **state)
{
	LeFlight   *dry_run = le_flight_without_effect(LE_OP_RELEASE, "e", done);

	dry_run->slot = 9;
	le_flight_send(w, dry_run, 10 * LE_SEC);
	release(2);
	assert_int_equal(nsent, 2);
	assert_sent(0, "http://a", "/release/0+1");
	assert_sent(1, "http://a", "/release/0");
	assert_int_equal(sent[1].lane, LE_LANE_READ);
}

static void
perform(const LeOp *op, LeAnswer *a)
{
	memset(a, 0, sizeof(*a));
	a->index = op->local.next_token(op->local.tokens);
}

/* A token that becomes visible is flushed. */
static void
done_flushed(LeWorker *of, LeFlight *flight, const LeAnswer *a)
{
	assert_true(a->index <= LE_FIRST_OF_GENERATION(generation) + flushed);
	done(of, flight, a);
}

/* Operations of a store without requests do not all run in one turn, and one
 * flush of the log serves those of a turn. */
static void
the_local_store_takes_turns(void **state)
{
	test_store.between_instances = false;
	test_store.codec.perform = perform;
	le_dispatch_start(w);
	inserted = flushed = nflushes = 0;
	for (int i = 0; i < LE_LOCAL_AT_ONCE + 6; i++)
		le_flight_send(w, le_flight_new(LE_OP_ACQUIRE, done_flushed), LE_SEC);
	pass(0);
	assert_int_equal(answers, LE_LOCAL_AT_ONCE);
	assert_int_equal(nflushes, 1);
	assert_true(le_dispatch_timer(w) <= now);
	pass(0);
	assert_int_equal(answers, LE_LOCAL_AT_ONCE + 6);
	assert_int_equal(nflushes, 2);
	pass(0);
	assert_int_equal(nflushes, 2);
	test_store.between_instances = true;
	test_store.codec.perform = NULL;
}

static uint64
token_at(uint64 of_generation, XLogRecPtr position)
{
	le_local_tokens_begin(w->local_tokens, of_generation);
	inserted = position - 1;
	return le_local_token_next(w->local_tokens);
}

/* A later timeline has higher tokens, wherever its log goes on. */
static void
local_tokens_by_timeline(void **state)
{
	const uint64 pos = UINT64CONST(1) << 52;

	assert_true(token_at(1, 1) > 1);
	assert_true(token_at(1, pos + 1) > token_at(1, pos));
	assert_true(token_at(2, pos - 1000000) > token_at(1, pos));
	assert_true(token_at(3, 16) > token_at(2, pos / 8));
	/* not known yet; and where the next one would be negative */
	assert_true(token_at(0, 16) == 0);
	assert_true(token_at(LE_LAST_GENERATION, 16) > 0);
	assert_true(token_at(LE_LAST_GENERATION, UINT64CONST(1) << 50) == 0);
	assert_true(token_at(LE_LAST_GENERATION + 1, 16) == 0);
	assert_true(token_at(UINT64CONST(1) << 32, 16) == 0);
}

/* One is refused: the others go again, at once, and in the end alone. */
static void
others_go_again(void **state)
{
	release(5);
	assert_sent(0, "http://a", "/release/0+4");
	give_answer(0, FIRST_REFUSED);
	assert_int_equal(answers, 1);
	assert_int_equal(outcome, LE_CONFLICT);
	assert_sent(1, "http://a", "/release/0+3");
	give_answer(1, FIRST_REFUSED);
	assert_sent(2, "http://a", "/release/0+2");
	give_answer(2, FIRST_REFUSED);
	assert_int_equal(answers, 3);
	assert_int_equal(nsent, 5);
	assert_sent(3, "http://a", "/release/0");
	assert_sent(4, "http://a", "/release/0");
	give_answer(3, OK);
	give_answer(4, OK);
	assert_int_equal(answers, 5);
	assert_int_equal(w->lanes->each[LE_LANE_RELEASE].under_way, 0);
}

/* A caller's question about one of them overtakes those before it. */
static void
a_question_overtakes_campaigns(void **state)
{
	int			window = lane_windows[LE_LANE_CAMPAIGN];

	campaign(1000);
	assert_false(le_flight_waits(w, 0));
	assert_true(le_flight_waits(w, 950));
	now += 60 * LE_SEC;
	le_flight_hurry(w, 950);
	le_flight_hurry(w, 950);	/* for another caller */
	le_flight_hurry(w, 0);		/* is on its way */
	le_flight_hurry(w, 1500);	/* there is none */
	assert_true(le_flight_waits(w, 950));
	le_dispatch_send(w);
	assert_int_equal(nsent, window + 1);
	assert_int_equal(sent[window].lane, LE_LANE_ASKED);
	assert_false(le_flight_waits(w, 950));
	give_answer(window, OK);
	assert_int_equal(answers, 1);
	assert_false(le_flight_waits(w, 950));
	assert_int_equal(w->lanes->each[LE_LANE_ASKED].under_way, 0);
	assert_int_equal(w->lanes->each[LE_LANE_CAMPAIGN].under_way, window);
}

/* From then on its time is limited, as that of any other question. */
static void
a_question_is_not_kept_waiting(void **state)
{
	int			window = lane_windows[LE_LANE_ASKED];

	for (int i = 0; i < window; i++)
		ask(LE_OP_CLAIM);
	campaign(100);
	now += 5 * LE_SEC;
	le_flight_hurry(w, 99);
	now += 9 * LE_SEC;
	le_dispatch_send(w);
	assert_int_equal(answers, 0);
	now += LE_SEC;
	le_dispatch_send(w);
	assert_int_equal(answers, 1);
	assert_int_equal(outcome, LE_UNAVAILABLE);
	assert_false(le_flight_waits(w, 99));
}

/* An operation that goes again because another was refused was not applied. */
static void
what_goes_again_waits(void **state)
{
	for (int i = 0; i < 3; i++)
	{
		LeFlight   *flight = le_flight_new(LE_OP_RELEASE, done);

		flight->slot = i;
		flight->request = 1;
		flight->op.election = psprintf("e%d", i);
		le_flight_send(w, flight, 10 * LE_SEC);
	}
	assert_true(le_flight_waits(w, 1));
	le_dispatch_send(w);
	assert_sent(0, "http://a", "/release/0+2");
	assert_false(le_flight_waits(w, 1));
	w->lanes->each[LE_LANE_RELEASE].window = 0;
	give_answer(0, FIRST_REFUSED);
	assert_true(le_flight_waits(w, 1));
	w->lanes->each[LE_LANE_RELEASE].window = 4;
}

/* A caller waits: it gets the answer, and the store is not blamed. */
static void
a_turn_that_does_not_come(void **state)
{
	int			window = lane_windows[LE_LANE_ASKED];

	for (int i = 0; i < window; i++)
		ask(LE_OP_CLAIM);
	le_flight_send(w, le_flight_new(LE_OP_CLAIM, done_unsent), 10 * LE_SEC);
	le_dispatch_send(w);
	unsent = false;
	assert_int_equal(nsent, window);
	assert_true(le_dispatch_timer(w) == now + 10 * LE_SEC);
	now += 10 * LE_SEC;
	le_dispatch_send(w);
	assert_int_equal(nsent, window);
	assert_int_equal(answers, 1);
	assert_int_equal(outcome, LE_UNAVAILABLE);
	assert_true(unsent);
	assert_int_equal(events, 0);
	assert_string_equal(le_store_trouble(w), "");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(one_request, begin),
		cmocka_unit_test_setup(trust_counts_from_the_step_that_took_the_lease,
							   begin),
		cmocka_unit_test_setup(another_server_does_not_move_the_anchor,
							   begin),
		cmocka_unit_test_setup(the_last_step_may_anchor, begin),
		cmocka_unit_test_setup(no_rest_after_the_session, begin),
		cmocka_unit_test_setup(no_time_for_the_rest, begin),
		cmocka_unit_test_setup(all_servers_are_tried_once, begin),
		cmocka_unit_test_setup(a_reload_keeps_the_same_servers, begin),
		cmocka_unit_test_setup(another_store_s_answer_shows_nothing, begin),
		cmocka_unit_test_setup(a_failed_server_is_asked_whether_it_is_ready,
							   begin),
		cmocka_unit_test_setup(a_secret_is_fetched_first, begin),
		cmocka_unit_test_setup(a_secret_is_renewed_ahead, begin),
		cmocka_unit_test_setup(a_stale_secret_is_replaced_once, begin),
		cmocka_unit_test_setup(no_secret_is_to_be_had, begin),
		cmocka_unit_test_setup(no_secret_is_to_be_had_for_the_rest, begin),
		cmocka_unit_test_setup(no_secret_is_to_be_had_for_long, begin),
		cmocka_unit_test_setup(no_secret_comes_in_time, begin),
		cmocka_unit_test_setup(a_secret_is_fetched_ahead_of_all, begin),
		cmocka_unit_test_setup(a_secret_serves_until_there_is_another, begin),
		cmocka_unit_test_setup(a_secret_outlives_a_reload, begin),
		cmocka_unit_test_setup(a_stale_secret_has_been_replaced, begin),
		cmocka_unit_test_setup(a_useless_secret_is_left_alone, begin),
		cmocka_unit_test_setup(a_file_is_read_again, begin),
		cmocka_unit_test_setup(a_secret_that_ends_soon, begin),
		cmocka_unit_test_setup(not_after_its_time, begin),
		cmocka_unit_test_setup(a_busy_store_is_asked_less, begin),
		cmocka_unit_test_setup(a_busy_store_says_for_how_long, begin),
		cmocka_unit_test_setup(a_refusal_ends_with_its_like, begin),
		cmocka_unit_test_setup(an_earlier_success_ends_no_failure, begin),
		cmocka_unit_test_setup(a_stranger_s_refusals_end_together, begin),
		cmocka_unit_test_setup(trouble_is_what_is_wrong_now, begin),
		cmocka_unit_test_setup(the_store_s_clock_is_compared, begin),
		cmocka_unit_test_setup(a_parked_query_tells_no_time, begin),
		cmocka_unit_test_setup(a_long_answer_is_decoded_in_parts, begin),
		cmocka_unit_test_setup(a_list_of_nodes_speaks_for_itself, begin),
		cmocka_unit_test_setup(an_answer_too_large_is_no_outage, begin),
		cmocka_unit_test_setup(campaigns_have_a_window, begin),
		cmocka_unit_test_setup(time_begins_when_it_is_sent, begin),
		cmocka_unit_test_setup(what_is_not_wanted_is_not_sent, begin),
		cmocka_unit_test_setup(waits_are_counted, begin),
		cmocka_unit_test_setup(several_go_in_one_request, begin),
		cmocka_unit_test_setup(one_of_each_election, begin),
		cmocka_unit_test_setup(some_servers_take_one_at_a_time, begin),
		cmocka_unit_test_setup(many_are_not_let_loose_at_once, begin),
		cmocka_unit_test_setup(another_kind_is_not_held_up, begin),
		cmocka_unit_test_setup(a_dry_run_goes_by_itself, begin),
		cmocka_unit_test_setup(others_go_again, begin),
		cmocka_unit_test_setup(the_local_store_takes_turns, begin),
		cmocka_unit_test_setup(local_tokens_by_timeline, begin),
		cmocka_unit_test_setup(a_turn_that_does_not_come, begin),
		cmocka_unit_test_setup(a_question_overtakes_campaigns, begin),
		cmocka_unit_test_setup(a_question_is_not_kept_waiting, begin),
		cmocka_unit_test_setup(what_goes_again_waits, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
