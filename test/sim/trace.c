/*-------------------------------------------------------------------------
 *
 * trace.c
 *		The trace of events, for people.
 *
 * test/sim/trace.c
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

bool		trace_on = false;

/* NULL stands for the store and for fate. */
void
trace_write(const SimNode *n, const char *format,...)
{
	va_list		args;
	char		text[1200];

	va_start(args, format);
	pg_vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (n == NULL)
		printf("%10.4f            %s\n", sim.now / (double) LE_SEC, text);
	else
		printf("%10.4f n%d %8.3f %s\n", sim.now / (double) LE_SEC, n->number,
			   (clock_boot(n, sim.now) - n->clock.offset) / (double) LE_SEC,
			   text);
}

const char *
trace_blob_request(const BlobRequest *r)
{
	static const char *const blob_verbs[] = {
		[BLOB_HEAD] = "head", [BLOB_PUT] = "put",
		[BLOB_METADATA] = "set metadata", [BLOB_ACQUIRE] = "acquire",
		[BLOB_RENEW] = "renew", [BLOB_CHANGE] = "change",
		[BLOB_RELEASE] = "release", [BLOB_BREAK] = "break",
		[BLOB_DELETE] = "delete", [BLOB_LIST] = "list",
	};
	static char text[96];

	pg_snprintf(text, sizeof(text), "%s blob %d%s%s, lease %llx", blob_verbs[r->verb],
				r->blob, r->etag != 0 ? ", if as read" : "",
				r->absent ? ", if absent" : "",
				(unsigned long long) (r->lease_id + r->proposed));
	return text;
}

const char *
trace_request(const Request *r)
{
	static const char *const verbs[] = {
		[LE_CONSUL_CHECK_SESSION] = "session", [LE_CONSUL_CHECK_INDEX] = "index",
		[LE_CONSUL_CHECK_ABSENT] = "absent", [LE_CONSUL_LOCK] = "lock",
		[LE_CONSUL_UNLOCK] = "unlock", [LE_CONSUL_CAS] = "cas", [LE_CONSUL_SET] = "set",
		[LE_CONSUL_DELETE] = "delete",
	};
	static char text[512];
	size_t		len;

	pg_snprintf(text, sizeof(text), "%s", le_op_name(r->kind));
	len = strlen(text);
	if (r->election >= 0)
		len += pg_snprintf(text + len, sizeof(text) - len, " e%d",
						   r->election);
	if (r->session != 0)
		len += pg_snprintf(text + len, sizeof(text) - len, " (session %d)",
						   r->session);
	for (int i = 0; i < r->nsteps && len < sizeof(text) - 40; i++)
	{
		const Step *step = &r->steps[i];

		len += pg_snprintf(text + len, sizeof(text) - len, "%s %s ",
						   i == 0 ? ":" : ",", verbs[step->verb]);
		if (step->key < MAX_ELECTIONS)
			len += pg_snprintf(text + len, sizeof(text) - len, "e%d",
							   step->key);
		else if (IS_CLAIM_KEY(step->key))
			len += pg_snprintf(text + len, sizeof(text) - len, "job%d",
							   r->job);
		else if (IS_NEWS_KEY(step->key))
			len += pg_snprintf(text + len, sizeof(text) - len, "news%d",
							   step->key - NEWS_KEY(0));
		else
			len += pg_snprintf(text + len, sizeof(text) - len, "node%d",
							   step->key - MAX_ELECTIONS);
		if (step->verb == LE_CONSUL_CHECK_SESSION)
			len += pg_snprintf(text + len, sizeof(text) - len, "=%d",
							   step->session);
		if (step->index != 0)
			len += pg_snprintf(text + len, sizeof(text) - len,
							   "=" UINT64_FORMAT, step->index);
	}
	if (sim.model == &azure_model)
		pg_snprintf(text + len, sizeof(text) - len, ": %s",
					trace_blob_request(&r->blob));
	return text;
}
