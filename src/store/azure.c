/*-------------------------------------------------------------------------
 *
 * azure.c
 *		Requests of the store "azure": leases on blobs of Azure Blob Storage.
 *
 * Each election is one empty block blob.  The service's lease on it decides
 * who leads and until when, the blob's ETag in which order, and a number in
 * its metadata is the fencing token.  To acquire takes three requests: HEAD
 * shows ETag and token; the lease is acquired on the condition of that ETag,
 * with a lease id that no other decision to acquire has; the metadata is
 * written ("stamped") with the next token, on the condition of both.  A term
 * exists once the stamp was answered, and is trusted from the sending of the
 * request for the lease.
 *
 * ETag and token of one answer make an acquire conditional.  Each ETag
 * carries at most one token, so tokens rise strictly for any course of leases,
 * and a late copy of an acquire fails once its term was stamped.  Renewals and
 * releases name only the lease id of one term, so no copy of them reaches
 * another.  An answer to a renewal or an acquire counts only if it names our
 * lease id.
 *
 * The service judges its leases: a lease shown as expired or available can be
 * taken at once.  A broken lease ends before its holder's belief does, so it
 * counts as free but not as released.
 *
 * The header x-ms-error-code, which never changes, tells outcomes apart; an
 * answer without the service's headers is a proxy's and leaves them unknown.
 *
 * src/store/azure.c
 *
 *-------------------------------------------------------------------------
 */
#ifdef FRONTEND
#include "postgres_fe.h"
#else
#include "postgres.h"
#endif

#include "store/azure.h"
#include "store/azure_auth.h"
#include "store/azure_list.h"

#define API_VERSION		"2021-12-02"

/* The longest answers that make sense, in bytes. */
#define MAX_SMALL_ANSWER	(64 * 1024)
#define MAX_LIST_ANSWER		(64 * 1024 * 1024)

/* An id that no lease has: to find out if one could be released. */
#define NO_LEASE		"00000000-0000-0000-0000-000000000000"

/* The session of a holder that has a lease, but has written nothing yet. */
#define UNNAMED			NO_LEASE

#define NO_CONTAINER	"ContainerNotFound"

/* ---- steps of operations that take several requests ---- */

enum
{
	STEP_HEAD,					/* every operation but a renewal */
	STEP_WRITE,					/* PUBLISH, RELEASE, CLAIM, COMPLETE */
	STEP_CHECK,					/* CLAIM: is the term still in force? */
	STEP_CREATE,				/* ACQUIRE */
	STEP_LEASE,
	STEP_STAMP,
	STEP_RENEW,					/* ACQUIRE again, after its stamp */
	STEP_WHOSE,					/* READ, WATCH: is the lease that of the
								 * metadata? */
	STEP_GIVE_BACK				/* ACQUIRE: a lease that cannot be stamped */
};

/* From which step on may no answer mean that something was applied? */
static int
first_write(const LeOp *op)
{
	switch (op->kind)
	{
		case LE_OP_RENEW_TERMS:
			return STEP_HEAD;
		case LE_OP_ACQUIRE:
			return STEP_LEASE;
		default:
			return STEP_WRITE;
	}
}

static bool
is_list(const LeOp *op)
{
	return op->kind == LE_OP_LIST_HELD || op->kind == LE_OP_LIST_CLAIMS;
}

/* It must change nothing. */
static bool
is_dry_release(const LeOp *op)
{
	return op->kind == LE_OP_RELEASE && op->dry_run;
}

static void
go_on(LeAnswer *answer, int step, uint64 index, const char *tag)
{
	answer->wire.again = true;
	answer->wire.next.number = step;
	answer->wire.next.index = index;
	strlcpy(answer->wire.next.tag, tag, sizeof(answer->wire.next.tag));
}

/* ---- requests ---- */

static void
add_line(LeRequest *request, const char *name, const char *value)
{
	appendStringInfo(&request->http.headers, "%s: %s\n", name, value);
}

static void
add_field(LeRequest *request, int field, const char *value)
{
	add_line(request, psprintf("x-ms-meta-%s", le_azure_field_names[field]),
			 value);
}

static void
add_number(LeRequest *request, int field, uint64 n)
{
	add_field(request, field, psprintf(UINT64_FORMAT, n));
}

static void
begin_request(LeRequest *request, const char *method, const char *name,
			  const char *query)
{
	request->http.method = method;
	appendStringInfoChar(&request->http.path, '/');
	le_append_encoded(&request->http.path, name, "/=");
	appendStringInfoString(&request->http.path, query);
}

static void
begin_lease(LeRequest *request, const char *name, const char *action,
			const char *id)
{
	begin_request(request, "PUT", name, "?comp=lease");
	add_line(request, "x-ms-lease-action", action);
	add_line(request, "x-ms-lease-id", id);
}

/* Creates an empty blob, unless it exists. */
static void
begin_create(LeRequest *request, const char *name)
{
	begin_request(request, "PUT", name, "");
	add_line(request, "x-ms-blob-type", "BlockBlob");
	add_line(request, "If-None-Match", "*");
	add_number(request, F_PROTO, LE_AZURE_PROTO);
}

/* Replaces all metadata: a field that is not named is deleted. */
static void
begin_metadata(LeRequest *request, const char *name, const char *etag)
{
	begin_request(request, "PUT", name, "?comp=metadata");
	add_line(request, "If-Match", etag);
	add_number(request, F_PROTO, LE_AZURE_PROTO);
}

static void
encode_acquire(const LeOp *op, const char *name, LeRequest *request)
{
	begin_request(request, "PUT", name, "?comp=lease");
	add_line(request, "x-ms-lease-action", "acquire");
	add_line(request, "x-ms-lease-duration",
			 psprintf("%d", (int) ((op->lease + LE_SEC - 1) / LE_SEC)));
	add_line(request, "x-ms-proposed-lease-id",
			 le_azure_lease_id(op->term.attempt));
	add_line(request, "If-Match", op->wire.step.tag);
}

/* The term: for its stamp, and for each value published in it. */
static void
encode_term(const LeOp *op, const char *name, uint64 token,
			LeRequest *request)
{
	begin_metadata(request, name, op->wire.step.tag);
	add_line(request, "x-ms-lease-id", le_azure_lease_id(op->term.attempt));
	add_number(request, F_TOKEN, token);
	add_field(request, F_ATTEMPT, le_azure_lease_id(op->term.attempt));
	add_field(request, F_SESSION, op->session);
	add_field(request, F_NODE, le_azure_to_text(op->node_name));
	add_number(request, F_LEASE, op->lease / LE_MSEC);
	if (op->value != NULL)
		add_field(request, F_VALUE, le_azure_to_text(op->value));
}

static void
add_ms(LeRequest *request, int field, int64 ms)
{
	if (ms != 0)
		add_number(request, field, ms);
}

/* The record of a job without one, or in place of the one with this ETag. */
static void
encode_record(const LeOp *op, const char *name, LeRequest *request)
{
	const LeClaim *claim = op->claim.record;

	if (op->wire.step.tag[0] == '\0')
		begin_create(request, name);
	else
		begin_metadata(request, name, op->wire.step.tag);
	add_field(request, F_JOB, le_azure_to_text(claim->job));
	add_number(request, F_TICK, claim->tick);
	add_number(request, F_TRY, claim->try);
	add_number(request, F_TOKEN, claim->token);
	add_field(request, F_ID, claim->id);
	add_field(request, F_STATE, le_claim_state_name(claim->state));
	add_field(request, F_NODE,
			  le_azure_to_text(claim->node ? claim->node : ""));
	add_number(request, F_CLAIMED, claim->claimed_at);
	add_ms(request, F_ENDED, claim->ended_at);
	add_ms(request, F_EVERY, claim->every);
	add_ms(request, F_WAIT, claim->wait);
	add_ms(request, F_SUCCESS, claim->last_success);
	if (claim->gap.n > 0)
	{
		add_number(request, F_MISSED, claim->gap.n);
		add_number(request, F_MISSED_FROM, claim->gap.first);
		add_number(request, F_MISSED_TO, claim->gap.last);
	}
	if (claim->writes > 0)
		add_number(request, F_WRITES, claim->writes);
	if (claim->failures >= 0)
		add_number(request, F_FAILURES, claim->failures);
	if (claim->sqlstate != NULL)
		add_field(request, F_SQLSTATE, claim->sqlstate);
	if (claim->message != NULL)
		add_field(request, F_MESSAGE, le_azure_to_text(claim->message));
}

static void
encode_list(const LeNamespace *ns, const LeOp *op, LeRequest *request)
{
	request->http.method = "GET";
	request->max_answer = MAX_LIST_ANSWER;
	appendStringInfo(&request->http.path,
					 "?restype=container&comp=list&include=metadata"
					 "&maxresults=%d&prefix=", LE_AZURE_PAGE_SIZE);
	le_append_encoded(&request->http.path,
					  le_azure_name_prefix(ns,
										   op->kind == LE_OP_LIST_CLAIMS),
					  "");
	if (op->page != NULL)
	{
		appendStringInfoString(&request->http.path, "&marker=");
		le_append_encoded(&request->http.path, op->page, "");
	}
}

static void
encode_step(const LeOp *op, const char *name, LeRequest *request)
{
	uint64		token = op->wire.step.index;

	switch (op->wire.step.number)
	{
		case STEP_HEAD:
			begin_request(request, "HEAD", name, "");
			break;
		case STEP_WHOSE:
			begin_request(request, "HEAD", name, "");
			add_line(request, "x-ms-lease-id", op->wire.step.tag);
			break;
		case STEP_CREATE:
			begin_create(request, name);
			add_number(request, F_TOKEN, 0);
			break;
		case STEP_LEASE:
			encode_acquire(op, name, request);
			break;
		case STEP_STAMP:
			encode_term(op, name, token + 1, request);
			break;
		case STEP_CHECK:
		case STEP_RENEW:
			begin_lease(request, name, "renew",
						le_azure_lease_id(op->term.attempt));
			break;
		case STEP_GIVE_BACK:
			begin_lease(request, name, "release",
						le_azure_lease_id(op->term.attempt));
			break;
		default:				/* STEP_WRITE */
			if (op->kind == LE_OP_RELEASE)
				begin_lease(request, name, "release", op->wire.step.tag);
			else if (op->kind == LE_OP_PUBLISH)
				encode_term(op, name, token, request);
			else
				encode_record(op, name, request);
			break;
	}
}

/* The blob that this request of the operation is about. */
static const char *
blob_name(const LeNamespace *ns, const LeOp *op)
{
	switch (op->kind)
	{
		case LE_OP_READ_CLAIM:
			return le_azure_claim_name(ns, op->election, op->claim.job);
		case LE_OP_CLAIM:
		case LE_OP_COMPLETE:
			if (op->wire.step.number != STEP_CHECK)
				return le_azure_claim_name(ns, op->election,
										   op->claim.record->job);
			return le_azure_leader_name(ns, op->election);
		case LE_OP_RENEW_TERMS:
			return le_azure_leader_name(ns, op->renew.terms[0].election);
		default:
			return le_azure_leader_name(ns, op->election);
	}
}

/*
 * The namespace of a session has the container's URL: a change of the setting
 * must not send requests about its terms elsewhere.
 */
void
le_azure_encode(const LeNamespace *ns, const LeOp *op, LeRequest *request)
{
	if (op->kind == LE_OP_AUTHENTICATE)
	{
		le_azure_ask_token(le_azure_identity, le_azure_identity_url, op,
						   request);
		return;
	}
	if (ns->part[0] != '\0')
		request->base = ns->part;
	request->max_answer = MAX_SMALL_ANSWER;
	add_line(request, "x-ms-version", API_VERSION);
	if (is_list(op))
		encode_list(ns, op, request);
	else if (op->kind == LE_OP_RENEW_TERMS)
		begin_lease(request, blob_name(ns, op), "renew",
					le_azure_lease_id(op->renew.terms[0].attempt));
	else if (is_dry_release(op))
		begin_lease(request, blob_name(ns, op), "release", NO_LEASE);
	else
		encode_step(op, blob_name(ns, op), request);
}

/* ---- errors ---- */

typedef enum Trouble
{
	NO_BLOB,
	LEASED,						/* another has the lease */
	MOVED,						/* the ETag is another one */
	EXISTS,
	OVER,						/* the lease is not, or no more, ours */
	UNDER_LEASE,				/* it needs a lease that we do not have ... */
	NOT_LEASED,					/* ... or that has ended */
	REFUSED,
	UNKNOWN_ASKER,				/* this node is not known, or may not ask */
	BUSY						/* and all codes that are not in the list */
} Trouble;

static const struct
{
	const char *code;
	Trouble		trouble;
}			codes[] = {
	{"BlobNotFound", NO_BLOB},
	{"LeaseAlreadyPresent", LEASED},
	{"LeaseIsBreakingAndCannotBeAcquired", LEASED},
	{"ConditionNotMet", MOVED},
	{"BlobAlreadyExists", EXISTS},
	{"LeaseIdMismatchWithLeaseOperation", OVER},
	{"LeaseNotPresentWithLeaseOperation", OVER},
	{"LeaseIsBrokenAndCannotBeRenewed", OVER},
	{"LeaseIdMismatchWithBlobOperation", UNDER_LEASE},
	{"LeaseNotPresentWithBlobOperation", NOT_LEASED},
	{"LeaseIdMissing", UNDER_LEASE},
	{"LeaseLost", NOT_LEASED},
	{NO_CONTAINER, REFUSED},
	{"ContainerBeingDeleted", REFUSED},
	{"ContainerDisabled", REFUSED},
	{"ResourceNotFound", REFUSED},
	{"BlobImmutableDueToPolicy", REFUSED},
	{"BlobImmutableDueToLegalHold", REFUSED},
	{"AuthenticationFailed", UNKNOWN_ASKER},
	{"AuthorizationFailure", UNKNOWN_ASKER},
	{"InvalidAuthenticationInfo", UNKNOWN_ASKER},
	{"AuthorizationPermissionMismatch", REFUSED},
	{"OperationTimedOut", BUSY},
	{"ServerBusy", BUSY},
	{"InternalError", BUSY},
};

/* Statuses that refuse any request, if there is no known code. */
static Trouble
trouble_of_status(int status)
{
	switch (status)
	{
		case 400:
		case 403:
		case 405:
		case 413:
		case 414:
		case 431:
			return REFUSED;
		case 401:
			return UNKNOWN_ASKER;
		default:
			return status / 100 == 3 ? UNKNOWN_ASKER : BUSY;
	}
}

static Trouble
trouble_of(int status, const char *code)
{
	for (int i = 0; i < lengthof(codes); i++)
		if (strcmp(code, codes[i].code) == 0)
			return codes[i].trouble;
	return trouble_of_status(status);
}

/* A text for people: never a body, which may quote signed data. */
static const char *
detail_of(int status, const char *code)
{
	const char *why = "";
	bool		by_sas = le_azure_identity[0] == '\0';

	if (strcmp(code, "AuthorizationPermissionMismatch") == 0)
		why = by_sas ? " (the SAS needs at least sp=rwl)" :
			" (the identity needs the role Storage Blob Data Contributor)";
	else if (trouble_of(status, code) == UNKNOWN_ASKER && code[0] != '\0')
		why = by_sas ?
			" (is the SAS right and not expired, and is the network allowed?)" :
			" (is the identity's token accepted, and is the network allowed?)";
	else if (strcmp(code, NO_CONTAINER) == 0)
		why = " (see \"leader_election.azure_container_url\")";
	return psprintf("HTTP %d: %s%s", status,
					code[0] != '\0' ? code : "no error code", why);
}

/* Without a code the answer is not the service's own. */
static LeCause
cause_of(int status, const char *code)
{
	if (strcmp(code, "AuthorizationPermissionMismatch") == 0 ||
		strcmp(code, "InsufficientAccountPermissions") == 0)
		return LE_CAUSE_PERMISSION;
	if (strcmp(code, NO_CONTAINER) == 0)
		return LE_CAUSE_SETTING;
	if (trouble_of(status, code) != UNKNOWN_ASKER)
		return LE_CAUSE_OTHER;
	return code[0] != '\0' ? LE_CAUSE_STRANGER : LE_CAUSE_NOT_STORE;
}

static void
refuse(int status, const char *code, LeAnswer *answer)
{
	le_fail(answer, LE_REFUSED, detail_of(status, code));
	answer->cause = cause_of(status, code);
}

/* The operation failed in one of its steps: may one have changed anything? */
static bool
is_open(const LeOp *op)
{
	return le_op_writes(op->kind) &&
		op->wire.step.number >= first_write(op) && !is_dry_release(op);
}

static void
fail_open(const LeOp *op, LeAnswer *answer, const char *detail)
{
	le_fail(answer, is_open(op) ? LE_UNKNOWN : LE_UNAVAILABLE, detail);
}

static void
fail_shape(const LeOp *op, const LeResponse *response, LeAnswer *answer)
{
	fail_open(op, answer,
			  psprintf("HTTP %d with an answer that is not Azure's",
					   response->http.status));
}

static void
fail_network(const LeOp *op, const LeResponse *response, LeAnswer *answer)
{
	const char *error = response->net_error;

	if (response->net == LE_NET_NOT_SENT &&
		op->wire.step.number <= first_write(op))
		le_fail(answer, LE_UNAVAILABLE,
				error != NULL ? error : "no connection");
	else if (response->net == LE_NET_UNTAKEN)
		le_fail_untaken(response, is_open(op), answer);
	else
		fail_open(op, answer, error != NULL ? error : "no answer");
}

static void
conflict(LeAnswer *answer, LeConflict what, const char *detail)
{
	le_fail(answer, LE_CONFLICT, detail);
	answer->conflict = what;
}

static void
changed(LeAnswer *answer)
{
	conflict(answer, LE_CONFLICT_CHANGED, "the blob has changed");
}

/* The term is over, in any way: there is nothing left to release. */
static void
released(const LeOp *op, LeAnswer *answer)
{
	answer->index = op->index;
}

static void
renewal_lost(LeAnswer *answer, const char *detail)
{
	answer->renewals = palloc0(sizeof(LeRenewal));
	answer->renewals->outcome = LE_LOST;
	answer->renewals->detail = le_clean_detail(detail);
}

static void
show_nothing(LeAnswer *answer)
{
	answer->index = 1;			/* newer than a key that never existed */
}

/* ---- keys ---- */

static LeKey *
add_key(LeAnswer *answer)
{
	answer->keys = palloc0(sizeof(LeKey));
	answer->nkeys = 1;
	return answer->keys;
}

/*
 * Between the lease and the stamp of another node's acquire the metadata is
 * still that of the term before.  If that was ours, it must not be taken for a
 * term left behind, and people must not be shown a leader that has given up.
 * In both cases a second request asks for the lease's owner.  A candidate need
 * not ask: it waits for any holder, and reads often.
 */
static void
decode_read(const LeOp *op, const LeAzureBlob *blob, LeAnswer *answer)
{
	uint64		token;

	if (!le_azure_read_term(blob, &token) || blob->endless)
	{
		add_key(answer)->election = op->election;	/* not to be used */
		if (blob->endless)
			answer->keys->fault = "the blob has an infinite lease, which this extension never takes: end it by \"az storage blob lease break\"";
		return;
	}
	if (token == 0)
	{
		show_nothing(answer);
		return;
	}
	if (op->wire.step.number == STEP_HEAD && blob->lease == LE_AZURE_HELD &&
		(op->for_people ||
		 le_azure_field_is(blob, F_SESSION, op->session)))
	{
		go_on(answer, STEP_WHOSE, token, blob->fields[F_ATTEMPT]);
		return;
	}
	le_azure_show_key(op->election, blob, token, add_key(answer));
	/* Above the token: a holder that still believes loses the term. */
	answer->index = answer->keys->holder == NULL ? token + 1 : token;
}

/*
 * The lease is not the one that the metadata names, and its holder has written
 * nothing yet: the election is held, and nobody leads.
 */
static void
show_unnamed(const LeOp *op, LeAnswer *answer)
{
	LeKey	   *key = add_key(answer);

	key->election = op->election;
	key->holder = key->value_session = UNNAMED;
	key->node = "";
	key->index = key->token = answer->index = op->wire.step.index;
	key->usable = key->ours = true;
}

/* ---- acquiring ---- */

/* The blob has moved on since: by a copy of this acquire, or by others. */
static void
judge_moved(const LeOp *op, const LeAzureBlob *blob, uint64 token,
			LeAnswer *answer)
{
	bool		next = token == op->index + 1 &&
		blob->lease == LE_AZURE_HELD &&
		le_azure_field_is(blob, F_SESSION, op->session);

	if (next &&
		le_azure_field_is(blob, F_ATTEMPT,
						  le_azure_lease_id(op->term.attempt)))
		go_on(answer, STEP_RENEW, token, "");
	else if (next)
	{
		conflict(answer, LE_CONFLICT_OWN, "it is held by this node");
		answer->index = token;
	}
	else
		changed(answer);
}

static void
decode_acquire_head(const LeOp *op, const LeAzureBlob *blob, const char *etag,
					LeAnswer *answer)
{
	uint64		token;

	if (!le_azure_read_term(blob, &token))
		changed(answer);		/* the next read shows a foreign blob */
	else if (token == op->index)
		go_on(answer, STEP_LEASE, token, etag);
	else
		judge_moved(op, blob, token, answer);
}

static void
grant(const LeOp *op, uint64 token, LeAnswer *answer)
{
	answer->index = token;
	answer->term.trust = op->lease - LE_SEC;
}

/* ---- claims ---- */

/* Is the record still the one that the write depends on? */
static bool
is_as_read(const LeOp *op, const LeClaim *found)
{
	return op->claim.previous != NULL &&
		strcmp(found->id, op->claim.previous->id) == 0 &&
		found->state == op->claim.previous->state;
}

/* A claim is written, then checked: a record with our id is not yet a yes. */
static void
decode_claim_head(const LeOp *op, const LeClaim *found, const char *etag,
				  LeAnswer *answer)
{
	if (op->kind == LE_OP_READ_CLAIM)
	{
		answer->claims = palloc(sizeof(LeClaim));
		answer->claims[0] = *found;
		answer->nclaims = 1;
	}
	else if (op->kind == LE_OP_CLAIM &&
			 strcmp(found->id, op->claim.record->id) == 0)
		go_on(answer, STEP_CHECK, 0, "");
	else if (op->kind == LE_OP_COMPLETE &&
			 le_claim_ends_alike(found, op->claim.record))
		answer->index = found->index;	/* by an earlier copy */
	else if (is_as_read(op, found))
		go_on(answer, STEP_WRITE, 0, etag);
	else
		changed(answer);
}

/* ---- answers by step ---- */

static bool
is_about_a_claim(const LeOp *op)
{
	return op->kind == LE_OP_READ_CLAIM || op->kind == LE_OP_CLAIM ||
		op->kind == LE_OP_COMPLETE;
}

static void
decode_claim_blob(const LeOp *op, const LeAzureBlob *blob, const char *etag,
				  LeAnswer *answer)
{
	LeClaim		found;
	const char *job = op->kind == LE_OP_READ_CLAIM ? op->claim.job :
		op->claim.record->job;

	if (!le_azure_read_claim(blob, op->election, &found) ||
		strcmp(found.job, job) != 0)
		le_fail(answer, LE_REFUSED,
				"the blob of the job is not this extension's");
	else
		decode_claim_head(op, &found, etag, answer);
}

/*
 * A term is released by its lease id, which the metadata has.  So is a term
 * whose lease has run out: a renewal still in flight would take it for another
 * lease's time.
 */
static void
decode_release_head(const LeOp *op, const LeAzureBlob *blob, LeAnswer *answer)
{
	bool		ends = blob->lease == LE_AZURE_HELD ||
		blob->lease == LE_AZURE_EXPIRED;
	uint64		token;

	if (le_azure_read_term(blob, &token) && token > 0 && token == op->index &&
		ends && le_azure_field_is(blob, F_SESSION, op->session))
		go_on(answer, STEP_WRITE, token, blob->fields[F_ATTEMPT]);
	else
		released(op, answer);
}

static void
decode_publish_head(const LeOp *op, const LeAzureBlob *blob, const char *etag,
					LeAnswer *answer)
{
	uint64		token;

	if (le_azure_read_term(blob, &token) && token == op->index &&
		le_azure_field_is(blob, F_ATTEMPT,
						  le_azure_lease_id(op->term.attempt)))
		go_on(answer, STEP_WRITE, token, etag);
	else
		changed(answer);
}

static void
decode_head(const LeOp *op, const LeResponse *response, LeAnswer *answer)
{
	char		etag[LE_MAX_TAG_LEN + 1];
	LeAzureBlob blob;

	le_azure_read_blob(response, &blob);
	if (!le_header(response, "ETag", etag, sizeof(etag)) ||
		etag[0] == '\0' || blob.lease == LE_AZURE_UNCLEAR)
		fail_shape(op, response, answer);
	else if (is_about_a_claim(op))
		decode_claim_blob(op, &blob, etag, answer);
	else if (op->kind == LE_OP_ACQUIRE)
		decode_acquire_head(op, &blob, etag, answer);
	else if (op->kind == LE_OP_RELEASE)
		decode_release_head(op, &blob, answer);
	else if (op->kind == LE_OP_PUBLISH)
		decode_publish_head(op, &blob, etag, answer);
	else
		decode_read(op, &blob, answer);
}

/* Does the answer name this lease id? */
static bool
names(const LeResponse *response, const char *id)
{
	char		found[LE_SESSION_LEN + 1];

	return le_header(response, "x-ms-lease-id", found, sizeof(found)) &&
		strcmp(found, id) == 0;
}

static void
decode_created(const LeOp *op, const LeResponse *response,
			   LeAnswer *answer)
{
	char		etag[LE_MAX_TAG_LEN + 1];

	if (le_header(response, "ETag", etag, sizeof(etag)) && etag[0] != '\0')
		go_on(answer, STEP_LEASE, 0, etag);
	else
		fail_shape(op, response, answer);
}

/* A lease was acquired or renewed; but is it ours? */
static void
decode_lease(const LeOp *op, const LeResponse *response, LeAnswer *answer)
{
	if (!names(response, le_azure_lease_id(op->term.attempt)))
		fail_shape(op, response, answer);
	else if (op->wire.step.number == STEP_CHECK)
		answer->index = op->token;
	else if (op->wire.step.number == STEP_RENEW)
		grant(op, op->wire.step.index, answer);
	else
		go_on(answer, STEP_STAMP, op->wire.step.index, op->wire.step.tag);
	answer->wire.anchors = answer->outcome == LE_DONE &&
		op->wire.step.number != STEP_CHECK;
}

/* Azurite lets a lease that ran out be renewed in another's name. */
static void
decode_renewal(const LeOp *op, const LeResponse *response,
			   LeAnswer *answer)
{
	char		found[LE_SESSION_LEN + 1];

	if (!le_header(response, "x-ms-lease-id", found, sizeof(found)))
		fail_shape(op, response, answer);
	else if (!names(response, le_azure_lease_id(op->renew.terms[0].attempt)))
		renewal_lost(answer, "another lease was renewed");
	else
	{
		answer->renewals = palloc0(sizeof(LeRenewal));
		answer->renewals->outcome = LE_DONE;
		answer->renewals->rev = op->renew.terms[0].rev;
		answer->renewals->trust = op->lease - LE_SEC;
	}
}

static void
decode_written(const LeOp *op, LeAnswer *answer)
{
	if (op->kind == LE_OP_CLAIM)
		go_on(answer, STEP_CHECK, 0, "");
	else if (op->kind == LE_OP_COMPLETE)
		answer->index = op->claim.record->token;
	else
		answer->index = op->index;	/* no publish renews the lease */
}

static void
decode_success(const LeNamespace *ns, const LeOp *op,
			   const LeResponse *response, LeAnswer *answer)
{
	if (is_list(op))
	{
		if (!le_azure_read_list(ns, op, response, answer))
			fail_shape(op, response, answer);
	}
	else if (op->kind == LE_OP_RENEW_TERMS)
		decode_renewal(op, response, answer);
	else if (is_dry_release(op))
		released(op, answer);
	else if (op->wire.step.number == STEP_HEAD ||
			 op->wire.step.number == STEP_WHOSE)
		decode_head(op, response, answer);
	else if (op->wire.step.number == STEP_CREATE)
		decode_created(op, response, answer);
	else if (op->wire.step.number == STEP_STAMP)
		grant(op, op->wire.step.index + 1, answer);
	else if (op->wire.step.number == STEP_WRITE)
		decode_written(op, answer);
	else
		decode_lease(op, response, answer);
}

/* ---- answers that say no ---- */

/* There is no blob of that name. */
static void
decode_no_blob(const LeOp *op, LeAnswer *answer)
{
	switch (op->kind)
	{
		case LE_OP_READ:
		case LE_OP_WATCH:
			show_nothing(answer);
			break;
		case LE_OP_READ_CLAIM:
			break;
		case LE_OP_RELEASE:
			released(op, answer);
			break;
		case LE_OP_RENEW_TERMS:
			renewal_lost(answer, "the blob is gone");
			break;
		case LE_OP_ACQUIRE:
			if (op->index == 0)
				go_on(answer, STEP_CREATE, 0, "");
			else
				changed(answer);
			break;
		case LE_OP_CLAIM:
			if (op->claim.previous == NULL)
				go_on(answer, STEP_WRITE, 0, "");
			else
				changed(answer);
			break;
		default:
			changed(answer);
			break;
	}
}

/* Trouble that an operation's first request may meet. */
static bool
first_expects(const LeOp *op, Trouble trouble, LeAnswer *answer)
{
	if (trouble == NO_BLOB && !is_list(op))
		decode_no_blob(op, answer);
	else if (trouble == OVER && op->kind == LE_OP_RENEW_TERMS)
		renewal_lost(answer, "the lease is over");
	else if (trouble == OVER && is_dry_release(op))
		released(op, answer);
	else
		return false;
	return true;
}

/* MOVED is left out: a copy of the same write may have moved the ETag. */
static bool
write_expects(const LeOp *op, Trouble trouble, LeAnswer *answer)
{
	if (op->kind == LE_OP_RELEASE && (trouble == OVER || trouble == NO_BLOB))
		released(op, answer);
	else if (trouble == UNDER_LEASE || trouble == NOT_LEASED ||
			 trouble == NO_BLOB ||
			 trouble == EXISTS)
		changed(answer);
	else
		return false;
	return true;
}

static bool
lease_expects(Trouble trouble, LeAnswer *answer)
{
	if (trouble == LEASED)
		conflict(answer, LE_CONFLICT_HELD, "another has the lease");
	else if (trouble == MOVED || trouble == NO_BLOB)
		changed(answer);
	else
		return false;
	return true;
}

/* Handles trouble that a step may meet without anything being wrong. */
static bool
is_expected(const LeOp *op, Trouble trouble, LeAnswer *answer)
{
	bool		over = trouble == OVER || trouble == NO_BLOB;

	switch (op->wire.step.number)
	{
		case STEP_HEAD:
			return first_expects(op, trouble, answer);
		case STEP_WHOSE:
			if (trouble == UNDER_LEASE)
				show_unnamed(op, answer);
			else if (trouble == NOT_LEASED)
				go_on(answer, STEP_HEAD, 0, "");	/* released meanwhile */
			return trouble == UNDER_LEASE || trouble == NOT_LEASED;
		case STEP_LEASE:
			return lease_expects(trouble, answer);
		case STEP_RENEW:
			if (over)
				changed(answer);
			return over;
		case STEP_CHECK:
			if (over)
				le_fail(answer, LE_LOST, "the term is over");
			return over;
		default:				/* CREATE, STAMP, WRITE */
			return write_expects(op, trouble, answer);
	}
}

/*
 * Would another secret help?  A file may have a new SAS by now, for any kind
 * of refusal.  AuthorizationFailure is not about a token, but about networks.
 */
static bool
may_be_stale(const LeResponse *response, const char *code)
{
	if (le_azure_identity[0] == '\0')
		return response->http.status == 401 || response->http.status == 403;
	return response->http.status == 401 ||
		strcmp(code, "AuthenticationFailed") == 0;
}

static void
decode_error(const LeOp *op, const LeResponse *response, const char *code,
			 LeAnswer *answer)
{
	Trouble		trouble = trouble_of(response->http.status, code);

	if (is_expected(op, trouble, answer))
		return;
	/* The claim written before the check stays, for any refusal of that. */
	if (trouble == REFUSED && op->wire.step.number == STEP_STAMP)
		go_on(answer, STEP_GIVE_BACK, response->http.status, code);
	else if ((trouble == REFUSED || trouble == UNKNOWN_ASKER) &&
			 op->wire.step.number != STEP_CHECK)
		refuse(response->http.status, code, answer);
	else
		fail_open(op, answer, detail_of(response->http.status, code));
	answer->wire.stale_secret = may_be_stale(response, code);
}

/*
 * The stamp was refused, so there is no term, and the lease, unless it was
 * given back, ends by itself.  The answer says why the stamp was refused.
 */
static void
given_back(const LeOp *op, LeAnswer *answer)
{
	refuse((int) op->wire.step.index, op->wire.step.tag, answer);
}

static bool
has(const LeResponse *response, const char *header)
{
	char		value[256];

	return le_header(response, header, value, sizeof(value));
}

/* Answers of an overloaded service, or of a proxy. */
static void
note_busy(const LeResponse *response, const char *code, LeAnswer *answer)
{
	char		seconds[16];

	if (response->net != LE_NET_OK ||
		(response->http.status != 429 && response->http.status != 503 &&
		 strcmp(code, "OperationTimedOut") != 0))
		return;
	answer->wire.busy = true;
	if (le_header(response, "Retry-After", seconds, sizeof(seconds)) &&
		strlen(seconds) <= 4 &&
		strspn(seconds, "0123456789") == strlen(seconds))
		answer->wire.busy_for = atoi(seconds) * LE_SEC;
}

void
le_azure_decode(const LeNamespace *ns, const LeOp *op,
				const LeResponse *response, LeAnswer *answer)
{
	char		code[128];

	memset(answer, 0, sizeof(*answer));
	answer->outcome = LE_DONE;
	if (!le_header(response, "x-ms-error-code", code, sizeof(code)))
		code[0] = '\0';
	if (op->kind == LE_OP_AUTHENTICATE)
		le_azure_take_token(le_azure_identity, response, answer);
	else if (op->wire.step.number == STEP_GIVE_BACK)
		given_back(op, answer);
	else if (response->net != LE_NET_OK)
		fail_network(op, response, answer);
	else if (response->http.status >= 200 && response->http.status <= 202 &&
			 has(response, "x-ms-request-id") &&
			 has(response, "x-ms-version") && code[0] == '\0')
		decode_success(ns, op, response, answer);
	else if (has(response, "x-ms-request-id") && code[0] != '\0')
		decode_error(op, response, code, answer);
	else if (response->http.status == 400 || response->http.status == 413 ||
			 response->http.status == 414 || response->http.status == 431 ||
			 response->http.status / 100 == 3)
		decode_error(op, response, "", answer);
	else
		fail_shape(op, response, answer);
	note_busy(response, code, answer);
}
