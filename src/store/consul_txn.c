/*-------------------------------------------------------------------------
 *
 * consul_txn.c
 *		Transactions of the store "consul" as JSON, and their results.
 *
 * src/store/consul_txn.c
 *
 *-------------------------------------------------------------------------
 */
#ifdef FRONTEND
#include "postgres_fe.h"
#else
#include "postgres.h"
#endif

#include "store/consul_text.h"
#include "store/consul_txn.h"
#include "store/json.h"

static const char *const verbs[] = {
	[LE_CONSUL_CHECK_SESSION] = "check-session",
	[LE_CONSUL_CHECK_INDEX] = "check-index",
	[LE_CONSUL_CHECK_ABSENT] = "check-not-exists",
	[LE_CONSUL_LOCK] = "lock",
	[LE_CONSUL_UNLOCK] = "unlock",
	[LE_CONSUL_CAS] = "cas",
	[LE_CONSUL_SET] = "set",
	[LE_CONSUL_DELETE] = "delete",
};

static void
append_value(StringInfo body, const LeConsulValue *value)
{
	char	   *text = le_consul_value_text(value);

	appendStringInfo(body, ",\"Flags\":" UINT64_FORMAT ",\"Value\":\"",
					 LE_CONSUL_LOCK_FLAG);
	le_base64_append(body, text, (int) strlen(text));
	appendStringInfoChar(body, '"');
}

static void
append_step(StringInfo body, const LeNamespace *ns, const LeConsulStep *step)
{
	appendStringInfo(body, "{\"KV\":{\"Verb\":\"%s\",\"Key\":",
					 verbs[step->verb]);
	le_json_append_string(body, le_consul_key_text(ns, &step->key));
	if (step->session != NULL)
	{
		appendStringInfoString(body, ",\"Session\":");
		le_json_append_string(body, step->session);
	}
	if (step->index != 0)
		appendStringInfo(body, ",\"Index\":" UINT64_FORMAT, step->index);
	if (step->value.kind != LE_CONSUL_NOTHING)
		append_value(body, &step->value);
	appendStringInfoString(body, "}}");
}

void
le_consul_encode_plan(const LeNamespace *ns, const LeConsulPlan *plan,
					  LeRequest *request)
{
	le_consul_start_request(ns, request, "PUT", "txn", "",
							LE_CONSUL_MAX_SMALL_ANSWER);
	request->http.has_body = true;
	for (int i = 0; i < plan->nsteps; i++)
	{
		appendStringInfoChar(&request->http.body, i == 0 ? '[' : ',');
		append_step(&request->http.body, ns, &plan->steps[i]);
	}
	appendStringInfoChar(&request->http.body, ']');
}

/* ---- results ---- */

typedef struct TxnAnswer
{
	const LeNamespace *ns;
	const LeConsulPlan *plan;
	LeConsulOutcome outcome;
	char	   *keys[LE_MAX_JOINED];	/* each part's written key */
	LeConsulEntry entry;		/* being read */
	bool		has_results;	/* even an empty list */
	uint64		failed_step;	/* being read; nsteps: not shown */
	char	   *what;			/* being read */
} TxnAnswer;

static LeConsulReason
reason_of(const char *what)
{
	if (strstr(what, LE_CONSUL_DENIED_WORDS) != NULL ||
		strstr(what, LE_CONSUL_UNKNOWN_TOKEN) != NULL)
		return LE_CONSUL_DENIED;
	if (strstr(what, "invalid session") != NULL)
		return LE_CONSUL_NO_SESSION;
	if (strstr(what, "due to lock delay") != NULL)
		return LE_CONSUL_DELAYED;
	if (strstr(what, "lock is already held") != NULL ||
		strstr(what, "failed session check") != NULL)
		return LE_CONSUL_HELD_BY_OTHER;
	return LE_CONSUL_CHANGED;
}

/* Consul's own words, except where people would not understand them. */
static const char *
detail_of(const TxnAnswer *txn, const LeConsulStep *step,
		  LeConsulReason reason)
{
	if (step->role == LE_CONSUL_FREE_OF_PATRONI &&
		reason != LE_CONSUL_NO_SESSION &&
		strstr(txn->what, "denied") == NULL)
		return le_clean_detail(psprintf("key \"%s\" exists: this name "
										"belongs to Patroni",
										le_consul_key_text(txn->ns,
														   &step->key)));
	return le_clean_detail(txn->what);
}

/* One error is complete. */
static bool
take_error(TxnAnswer *txn)
{
	const LeConsulStep *step;
	LeConsulReason reason;

	if (txn->what == NULL || txn->failed_step >= txn->plan->nsteps)
		return false;
	step = &txn->plan->steps[txn->failed_step];
	reason = reason_of(txn->what);
	le_consul_refused(&txn->outcome, (int) txn->failed_step, reason,
					  detail_of(txn, step, reason));
	return true;
}

static bool
error_field(TxnAnswer *txn, const LeJsonNode *node)
{
	if (le_json_at(node, 2, "OpIndex"))
		return le_json_uint64(node, &txn->failed_step);
	if (le_json_at(node, 2, "What"))
	{
		txn->what = le_json_string(node, LE_CONSUL_MAX_ERROR_LEN);
		return txn->what != NULL;
	}
	return true;
}

/* Checks have results too, with the key as they found it: the last counts. */
static void
take_result(TxnAnswer *txn)
{
	const LeConsulEntry *entry = &txn->entry;

	for (int i = 0; entry->key != NULL && i < txn->plan->nparts; i++)
		if (strcmp(entry->key, txn->keys[i]) == 0)
			txn->outcome.written[i] = (LeConsulWritten)
			{
				.index = entry->index,
				.flagged = entry->flags == LE_CONSUL_LOCK_FLAG,
				.session = entry->session
			};
	memset(&txn->entry, 0, sizeof(txn->entry));
}

static bool
errors_visit(TxnAnswer *txn, const LeJsonNode *node)
{
	bool		ok;

	if (node->depth == 1)
		return node->type == LE_JSON_ARRAY || node->type == LE_JSON_NULL;
	if (node->depth == 3)
		return error_field(txn, node);
	if (node->depth != 2)
		return true;
	ok = node->type == LE_JSON_OBJECT && take_error(txn);
	txn->failed_step = txn->plan->nsteps;
	txn->what = NULL;
	return ok;
}

static bool
results_visit(TxnAnswer *txn, const LeJsonNode *node)
{
	if (node->depth == 1)
	{
		txn->has_results = node->type == LE_JSON_ARRAY;
		return txn->has_results || node->type == LE_JSON_NULL;
	}
	if (node->depth == 4 && le_json_at(node, 2, "KV"))
		return le_consul_entry_field(&txn->entry, node);
	if (node->depth == 2)
		take_result(txn);
	return true;
}

static bool
txn_visit(void *arg, const LeJsonNode *node)
{
	TxnAnswer  *txn = arg;

	if (node->depth == 0)
		return node->type == LE_JSON_OBJECT;
	if (le_json_at(node, 0, "Errors"))
		return errors_visit(txn, node);
	if (le_json_at(node, 0, "Results"))
		return results_visit(txn, node);
	return true;
}

/* A refused transaction has status 409. */
void
le_consul_decode_plan(const LeNamespace *ns, const LeConsulPlan *plan,
					  const LeResponse *response, LeAnswer *answer)
{
	TxnAnswer  *txn = palloc0(sizeof(TxnAnswer));
	bool		refused = response->http.status == 409;

	txn->ns = ns;
	txn->plan = plan;
	txn->failed_step = plan->nsteps;
	le_consul_begin(&txn->outcome, plan, answer);
	for (int i = 0; i < plan->nparts; i++)
		txn->keys[i] =
			le_consul_key_text(ns, &plan->steps[plan->write[i]].key);
	if (!le_json_walk(response->body, response->body_len, txn_visit, txn) ||
		!(refused || txn->has_results) ||
		!le_consul_settle(&txn->outcome, refused, answer))
		le_consul_fail_shape(plan->op, response, answer);
}
