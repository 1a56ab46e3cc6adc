/*-------------------------------------------------------------------------
 *
 * dry_run.c
 *		le_check_config(): would the store carry out its requests?
 *
 * The store gets a request of the kind in question, with a condition that
 * cannot hold.
 *
 * src/worker/ask/dry_run.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "settings.h"
#include "worker/ask/dry_run.h"
#include "worker/disk/claimlog.h"
#include "worker/disk/statefile.h"
#include "worker/disk/tokens.h"
#include "worker/lead/elect_timers.h"
#include "worker/view/eligible.h"
#include "worker/view/wishes.h"
#include "worker/wire/dispatch.h"
#include "worker/wire/secret.h"

/* A claim of nobody's: to end it changes nothing. */
static const LeClaim no_claim = {
	.job = "le_check_config()",
	.try = 1,
	.id = "00000000000000000000000000000000",
	.node = "",
	.state = LE_CLAIM_DONE,
	.index = LE_NO_INDEX
};

/*
 * A condition that does not hold, and a session that is gone, are answers of a
 * store without objections to the request.
 */
static void
check_answered(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	LePending  *p = le_pending_find(w, flight->asker.number,
									flight->asker.proc);

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
send_check(LeWorker *w, const LePending *p, LeOpKind kind)
{
	LeFlight   *flight = le_flight_without_effect(kind, p->ask.election,
												  check_answered);

	flight->asker.proc = p->proc;
	flight->asker.number = p->number;
	flight->may_be_refused = true;
	/* Once only: kept connections say nothing about the files of TLS. */
	flight->fresh = p->ask.check == LE_CHECK_PREFIX;
	if (kind == LE_OP_COMPLETE)
		flight->op.claim.record = flight->op.claim.previous = &no_claim;
	le_flight_send(w, flight, le_table->node.timing.request_timeout);
}

/* The worker answers; report at once what could keep it from that. */
static void
check_worker(LePending *p)
{
	if (!le_configured_store()->between_instances || le_http_looks_up_apart())
		le_reply(p, LE_REPLY_TRUE);
	else
		le_reply_error(p, ERRCODE_WARNING, "",
					   "This server's libcurl was built without AsynchDNS, so a name server that hangs holds up the worker. Give the store's address as a number, or use another libcurl.",
					   "");
}

static void
check_settings(LePending *p)
{
	if (le_settings_fault()[0] == '\0')
		le_reply(p, LE_REPLY_TRUE);
	else
		le_reply_error(p, LE_ERRCODE_REFUSED, "", le_settings_fault(), "");
}

/*
 * Report the secret's fault, or its own description, in whole sentences with a
 * code for the severity.
 */
static void
check_secret(LeWorker *w, LePending *p)
{
	const int	codes[] = {
		[LE_LEVEL_OK] = ERRCODE_SUCCESSFUL_COMPLETION,
		[LE_LEVEL_WARNING] = ERRCODE_WARNING,
		[LE_LEVEL_ERROR] = LE_ERRCODE_REFUSED,
	};
	const char *trouble = le_secret_trouble(w->secrets);
	LeFinding	finding;

	if (trouble[0] != '\0')
		le_reply_error(p, le_secret(w->secrets) == NULL ? LE_ERRCODE_REFUSED :
					   ERRCODE_WARNING, "", trouble, "");
	else if (le_secret_judge(w->secrets, &finding))
		le_reply_error(p, codes[finding.level], finding.text, "", "");
	else
		le_reply(p, LE_REPLY_TRUE);
}

/* The servers of the store need these files either all or not at all. */
static void
check_tls(LeWorker *w, LePending *p)
{
	const char *why = le_secret_tls_trouble(w->secrets);

	if (why[0] == '\0')
		le_reply(p, LE_REPLY_TRUE);
	else
		le_reply_error(p, LE_ERRCODE_REFUSED, "", why, "");
}

static void
check_files(LeWorker *w, LePending *p)
{
	if (!le_elect_can_begin(w))
		le_reply_error(p, LE_ERRCODE_REFUSED, "", le_tokens_trouble(w->tokens),
					   "");
	else if (le_statefile_trouble(w->statefile)[0] != '\0')
		le_reply_error(p, ERRCODE_WARNING, "",
					   le_statefile_trouble(w->statefile), "");
	else
		le_reply(p, LE_REPLY_TRUE);
}

static void
check_clock(LeWorker *w, LePending *p)
{
	char		text[512];

	if (le_store_clock_differs(w, text, sizeof(text)))
		le_reply_error(p, LE_ERRCODE_REFUSED, "", text, "");
	else
		le_reply(p, LE_REPLY_TRUE);
}

static void
check_claim_file(LeWorker *w, LePending *p)
{
	const char *trouble = le_configured_store()->between_instances ? NULL :
		le_claim_log.trouble(w->claims);

	if (trouble == NULL)
		le_reply(p, LE_REPLY_TRUE);
	else
		le_reply_error(p, LE_ERRCODE_REFUSED, "", trouble, "");
}

void
le_ask_check(LeWorker *w, LePending *p)
{
	const LeStore *store = le_configured_store();

	if (p->ask.check == LE_CHECK_SETTINGS)
		check_settings(p);
	else if (p->ask.check == LE_CHECK_SECRET)
		check_secret(w, p);
	else if (p->ask.check == LE_CHECK_TLS)
		check_tls(w, p);
	else if (p->ask.check == LE_CHECK_CLOCK)
		check_clock(w, p);
	else if (p->ask.check == LE_CHECK_FILES)
		check_files(w, p);
	else if (p->ask.check == LE_CHECK_CLAIM_FILE)
		check_claim_file(w, p);
	else if (p->ask.check == LE_CHECK_SESSION && !le_session_live())
		le_wish_session(w->wishes);	/* le_pending_session_live() answers */
	else if (p->ask.check == LE_CHECK_WORKER)
		check_worker(p);
	else if (p->ask.check == LE_CHECK_SESSION || !store->between_instances)
		le_reply(p, LE_REPLY_TRUE);
	else if (p->ask.check == LE_CHECK_PREFIX)
		send_check(w, p, store->people.namespace_check);
	else if (p->ask.check == LE_CHECK_READ)
		send_check(w, p, LE_OP_READ);
	else if (p->ask.check == LE_CHECK_WRITE)
		send_check(w, p, LE_OP_RELEASE);
	else
		send_check(w, p, LE_OP_COMPLETE);
}
