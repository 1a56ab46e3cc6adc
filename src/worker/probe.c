/*-------------------------------------------------------------------------
 *
 * probe.c
 *		le_check_config(): would the store do what it will be asked?
 *
 * Each question is sent to the store as a request of the kind that it is
 * about, with a condition that cannot hold.
 *
 * src/worker/probe.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "settings.h"
#include "worker/dispatch.h"
#include "worker/probe.h"
#include "worker/wishes.h"

/* An index that no key has: a write that depends on it changes nothing. */
#define NO_INDEX	((uint64) PG_INT64_MAX)

/* A claim that nobody has: to end it changes nothing. */
static const LeClaim no_claim = {
	.job = "le_check_config()",
	.try = 1,
	.id = "00000000000000000000000000000000",
	.node = "",
	.state = LE_CLAIM_DONE,
	.index = NO_INDEX
};

/*
 * A condition that does not hold, and a session that is gone, are answers of
 * a store that had nothing against the request.
 */
static void
check_answered(LeFlight *flight, const LeAnswer *answer)
{
	LePending  *p = le_pending_find(flight->pending, flight->slot);

	if (p == NULL)
		return;
	if (answer->outcome == LE_DONE || answer->outcome == LE_CONFLICT ||
		answer->outcome == LE_LOST)
		le_reply(p, LE_REPLY_TRUE);
	else
		le_reply_error(p, answer->outcome == LE_REFUSED ? LE_ERRCODE_REFUSED :
					   LE_ERRCODE_UNAVAILABLE, "",
					   answer->detail ? answer->detail : "no answer", "");
}

static void
send_check(const LePending *p, LeOpKind kind)
{
	LeFlight   *flight = le_flight_new(kind, check_answered);

	flight->pending = p->number;
	flight->slot = p->proc;
	if (p->ask.election[0] != '\0')
		flight->op.election = le_flight_string(flight, p->ask.election);
	flight->op.index = flight->op.token = NO_INDEX;
	flight->op.rev = 1;
	if (kind == LE_OP_COMPLETE)
		flight->op.claim = flight->op.previous = &no_claim;
	le_flight_send(flight, le_table->node.timing.request_timeout);
}

void
le_ask_check(LePending *p)
{
	const LeStore *store = le_configured_store();

	if (p->ask.check == LE_CHECK_SESSION && !le_session_live())
		le_wish_session();		/* le_pending_session_live() answers */
	else if (p->ask.check == LE_CHECK_WORKER ||
			 p->ask.check == LE_CHECK_SESSION || !store->between_instances)
		le_reply(p, LE_REPLY_TRUE);
	else if (p->ask.check == LE_CHECK_PREFIX)
		send_check(p, store->place_check);
	else if (p->ask.check == LE_CHECK_READ)
		send_check(p, LE_OP_READ);
	else if (p->ask.check == LE_CHECK_WRITE)
		send_check(p, LE_OP_RELEASE);
	else
		send_check(p, LE_OP_COMPLETE);
}
