/*-------------------------------------------------------------------------
 *
 * test_dispatch.c
 *		Tests of operations on their way: several requests, several servers, a
 *		secret that runs out.
 *
 * worker/dispatch.c, servers.c and secret.c are compiled in here, as server
 * code, on a clock and a network of our own.  The store is one that does what
 * no store does yet, but what store.h promises to those to come.
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

#include "worker/dispatch.c"
#include "worker/secret.c"
#include "worker/servers.c"

/* ---- the network ---- */

#define MAX_SENT	16

typedef struct Sent
{
	char		base[64];
	char		path[64];
	char		secret[64];
	le_time		at;
	LeHttpDone	done;
	void	   *arg;
} Sent;

static Sent sent[MAX_SENT];
static int	nsent;
static le_time now;

void
le_http_start(int connections)
{
}

void
le_http_send(const LeHttpRequest *request, le_duration timeout,
			 LeHttpDone done, void *arg)
{
	Sent	   *s = &sent[nsent++];

	assert_true(nsent < MAX_SENT && timeout > 0);
	strlcpy(s->base, request->base, sizeof(s->base));
	strlcpy(s->path, request->path.data, sizeof(s->path));
	strlcpy(s->secret, request->secret ? request->secret : "",
			sizeof(s->secret));
	s->at = now;
	s->done = done;
	s->arg = arg;
}

/* The answer to the newest request comes after so long: a status says it all,
 * below. */
static void
answer(le_duration after, int status)
{
	LeHttpResponse response = {.net = LE_NET_OK, .status = status};
	Sent		s = sent[nsent - 1];

	response.content_type = response.body = "";
	now += after;
	s.done(s.arg, &response);
}

le_time
le_http_timer(void)
{
	return 0;
}

void
le_http_run(void)
{
}

/* ---- the store ---- */

#define OK			200			/* applied */
#define OK_ANCHORS	201			/* and it took the lease */
#define GO_ON		202			/* ... in a step of several */
#define GO_ON_ANCHORS 203
#define STALE		401			/* the secret has run out */
#define ELSEWHERE	503			/* another server may do it */

static bool fetches = false;
static const char *servers_setting = "http://a,http://b";

static const char *
servers_of_store(void)
{
	return servers_setting;
}

static bool
fetches_secret(void)
{
	return fetches;
}

static void
encode(const LePlace *place, const LeOp *op, LeHttpRequest *request)
{
	request->method = "PUT";
	request->without_secret = op->kind == LE_OP_AUTHENTICATE;
	appendStringInfo(&request->path, "/%s/%d%s", le_op_name(op->kind),
					 op->step.number, op->step.tag);
}

static void
decode(const LePlace *place, const LeOp *op, const LeHttpResponse *response,
	   LeAnswer *a)
{
	memset(a, 0, sizeof(*a));
	a->anchors = response->status == OK_ANCHORS ||
		response->status == GO_ON_ANCHORS;
	if (response->status == GO_ON || response->status == GO_ON_ANCHORS)
	{
		a->again = true;
		a->next.number = op->step.number + 1;
		strlcpy(a->next.tag, "-tag", sizeof(a->next.tag));
	}
	else if (response->status == STALE || response->status == ELSEWHERE)
	{
		le_fail(a, LE_UNAVAILABLE, "no");
		a->stale_secret = response->status == STALE;
		a->next_server = response->status == ELSEWHERE;
	}
	else if (op->kind == LE_OP_AUTHENTICATE)
	{
		a->secret = psprintf("secret%d", nsent);
		a->lasts = 30 * LE_SEC;
	}
}

static const LeStore test_store = {
	.name = "test",
	.between_instances = true,
	.ready_path = "/ready",
	.servers = servers_of_store,
	.authenticates = fetches_secret,
	.secret_header = "Secret: ",
	.encode = encode,
	.decode = decode,
};

/* ---- what the rest of the extension would be ---- */

static LeTable table;
LeTable    *le_table = &table;
int			MyProcPid = 1;
MemoryContext TopMemoryContext;
MemoryContext CurrentMemoryContext;
const LeClaimLog le_claim_log = {NULL};

le_time
le_now(void)
{
	return now;
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
le_slot_number_of(const char *election)
{
	return 0;
}

void
le_stat_answer(int slot, le_time at, LeOutcome outcome)
{
}

void
le_event(LeEventKind what, const char *election, uint64 token,
		 const char *detail,...)
{
}

/* ---- what the server would be ---- */

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

FILE *
AllocateFile(const char *name, const char *mode)
{
	return NULL;
}

int
FreeFile(FILE *file)
{
	return 0;
}

bool
RecoveryInProgress(void)
{
	return false;
}

XLogRecPtr
LogLogicalMessage(const char *prefix, const char *message, size_t size,
				  bool transactional
#if PG_VERSION_NUM >= 170000
				  ,bool flush
#endif
)
{
	return 0;
}

void
XLogFlush(XLogRecPtr record)
{
}

bool
errstart(int elevel, const char *domain)
{
	assert_true(elevel < ERROR);
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

/* ---- tests ---- */

static int	answers;
static LeOutcome outcome;
static le_time counted_from;	/* trust is */

static void
done(LeFlight *flight, const LeAnswer *a)
{
	answers++;
	outcome = a->outcome;
	counted_from = flight->sent;
}

static int
begin(void **state)
{
	nsent = answers = 0;
	now = 1000 * LE_SEC;
	fetches = false;
	authenticating = false;
	secretless = NIL;
	table.node.timing.request_timeout = 5 * LE_SEC;
	le_dispatch_start();
	return 0;
}

static void
ask(LeOpKind kind)
{
	le_flight_send(le_flight_new(kind, done), 10 * LE_SEC);
}

static void
assert_sent(int number, const char *base, const char *path)
{
	assert_true(number < nsent);
	assert_string_equal(sent[number].base, base);
	assert_string_equal(sent[number].path, path);
}

/* One request: trust counts from its send, whatever the answer took. */
static void
one_request(void **state)
{
	ask(LE_OP_ACQUIRE);
	assert_sent(0, "http://a", "/acquire/0");
	answer(3 * LE_SEC, OK);
	assert_int_equal(answers, 1);
	assert_int_equal(outcome, LE_DONE);
	assert_true(counted_from == sent[0].at);
}

/* What is sent after the lease was taken tells nothing of when it was. */
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

/* Nor does it matter where the rest of it is asked. */
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

/* A write whose rest cannot be sent in time may have been applied. */
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
	le_dispatch_run();
	assert_sent(2, "http://a", "/ready");
	ask(LE_OP_READ);
	assert_sent(3, "http://b", "/read/0");
	sent[3] = sent[2];
	answer(LE_SEC, 200);
	ask(LE_OP_READ);
	assert_sent(4, "http://a", "/read/0");
}

/* Whoever comes before there is a secret waits for it. */
static void
a_secret_is_fetched_first(void **state)
{
	fetches = true;
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

/* The next comes before the first has run out, and holds nobody up. */
static void
a_secret_is_renewed_ahead(void **state)
{
	fetches = true;
	ask(LE_OP_READ);
	answer(LE_SEC, OK);
	assert_true(le_dispatch_timer() == now + 20 * LE_SEC);
	now += 20 * LE_SEC;
	le_dispatch_run();
	assert_sent(2, "http://a", "/authenticate/0");
	le_dispatch_run();
	ask(LE_OP_READ);
	assert_int_equal(nsent, 4);
	assert_string_equal(sent[3].secret, "secret1");
}

/* One that is refused is replaced, and the same is asked once more. */
static void
a_stale_secret_is_replaced_once(void **state)
{
	fetches = true;
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

/* Without one nothing was sent, so nothing was applied. */
static void
no_secret_is_to_be_had(void **state)
{
	fetches = true;
	ask(LE_OP_ACQUIRE);
	answer(LE_SEC, ELSEWHERE);
	answer(LE_SEC, ELSEWHERE);
	assert_int_equal(answers, 1);
	assert_int_equal(outcome, LE_UNAVAILABLE);
	ask(LE_OP_ACQUIRE);
	assert_string_equal(sent[nsent - 1].path, "/authenticate/0");
}

/* But of several requests those before may have been. */
static void
no_secret_is_to_be_had_for_the_rest(void **state)
{
	fetches = true;
	ask(LE_OP_ACQUIRE);
	answer(LE_SEC, OK);
	answer(LE_SEC, GO_ON_ANCHORS);
	answer(LE_SEC, STALE);
	answer(LE_SEC, ELSEWHERE);
	answer(LE_SEC, ELSEWHERE);
	assert_int_equal(answers, 1);
	assert_int_equal(outcome, LE_UNKNOWN);
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
		cmocka_unit_test_setup(no_time_for_the_rest, begin),
		cmocka_unit_test_setup(all_servers_are_tried_once, begin),
		cmocka_unit_test_setup(a_failed_server_is_asked_whether_it_is_ready,
							   begin),
		cmocka_unit_test_setup(a_secret_is_fetched_first, begin),
		cmocka_unit_test_setup(a_secret_is_renewed_ahead, begin),
		cmocka_unit_test_setup(a_stale_secret_is_replaced_once, begin),
		cmocka_unit_test_setup(no_secret_is_to_be_had, begin),
		cmocka_unit_test_setup(no_secret_is_to_be_had_for_the_rest, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
