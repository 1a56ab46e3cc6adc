/*-------------------------------------------------------------------------
 *
 * azure.c
 *		A model of Azure Blob Storage: leases, conditions, metadata.
 *
 * Each operation, in each state of a lease, does as the documented table says
 * ("Lease Blob", "Outcomes of lease operations on blobs by lease state" in the
 * REST reference), or, where azurite is set, as its emulator Azurite does.
 * test/t/111_model_azure.pl asks a real Azurite for each cell of the table.
 * Chance decides where the documents leave a choice.
 *
 * A lease never ends early, but perhaps a minute late: "a client may need to
 * wait up to one minute" before another one is granted.  The service may also
 * count it from the beginning of a second, since nothing promises otherwise:
 * granularity takes that off the trust.
 *
 * Metadata are text, which the store neither reads nor changes; the checks do.
 *
 * test/sim/azure.c
 *
 *-------------------------------------------------------------------------
 */
#include "azure.h"

/* A lease without a term, or of another client. */
#define UNNAMED		(MAX_SESSIONS - 1)
#define FOREIGN_ID	1

typedef enum State
{
	AVAILABLE,
	LEASED,
	EXPIRED,
	BREAKING,
	BROKEN
} State;

static const char *const state_names[] = {
	[AVAILABLE] = "available",
	[LEASED] = "leased",
	[EXPIRED] = "expired",
	[BREAKING] = "breaking",
	[BROKEN] = "broken",
};

typedef struct Blob
{
	bool		exists;
	uint64		etag;
	char		meta[META_SIZE];

	/* its lease */
	uint64		id;				/* 0: none */
	int			seconds;
	le_time		expires;		/* not before this, ... */
	le_time		shows;			/* ... shows so from here on, ... */
	le_time		ends;			/* ... and others can take it from here on */
	le_time		breaks;			/* 0: it was not broken */

	/* the content of the metadata, for the checks */
	bool		ours;
	uint64		token;
	uint64		attempt;
	int			session;
	ClaimRecord claim;
	bool		stamped;		/* under this lease */
	bool		by_hand;		/* an operator broke the lease */
	Key			key;			/* for queries of az_key() */
} Blob;

static struct
{
	Blob		blobs[BLOBS];
	Blob		kept[BLOBS];	/* a copy of those that hold records */
	uint64		etags;			/* so far */
	uint64		changes;
	int			node;			/* node that acts, -1: none */
	le_time		down_until;
	le_time		busy_until;
	bool		azurite;
	bool		cuts_off;
	le_duration late;
} az;

/* By session; those of instances are numbered by incarnation. */
static le_duration leases[MAX_SESSIONS];
static int	owners[MAX_SESSIONS];	/* nodes */

void
azure_variant(bool azurite)
{
	memset(&az, 0, sizeof(az));
	az.node = -1;
	az.azurite = azurite;
}

static void
az_reset(void)
{
	const Schedule *s = sim.schedule;

	azure_variant(s->azurite);
	az.cuts_off = s->cuts_off;
	az.late = s->late_ms * LE_MSEC;
	memset(leases, 0, sizeof(leases));
	for (int i = 0; i < MAX_SESSIONS; i++)
		owners[i] = -1;
}

/* ---- leases ---- */

static State
state_of(const Blob *b)
{
	if (b->id == 0)
		return AVAILABLE;
	if (b->breaks != 0)
		return sim.now < b->breaks ? BREAKING : BROKEN;
	return sim.now < b->shows ? LEASED : EXPIRED;
}

const char *
azure_state(int blob)
{
	return state_names[state_of(&az.blobs[blob])];
}

static bool
is_locked(State state)
{
	return state == LEASED || state == BREAKING;
}

/* Counts from now; each lease draws how late it ends. */
static void
start_clock(Blob *b, int seconds)
{
	le_time		from = az.cuts_off ? sim.now / LE_SEC * LE_SEC : sim.now;

	b->seconds = seconds;
	b->breaks = 0;
	b->expires = b->shows = b->ends = NEVER;
	if (seconds == FOR_EVER)
		return;
	b->expires = b->shows = b->ends = from + seconds * LE_SEC;
	if (az.late != 0 && sim.storm)
	{
		b->ends = b->expires + sim_span(0, az.late);
		b->shows = sim_below(2) == 0 ? b->ends :
			sim_span(b->expires, b->ends);
	}
}

static void
end_lease(Blob *b)
{
	b->id = 0;
	b->breaks = 0;
	b->by_hand = b->stamped = false;
}

static void
grant(Blob *b, uint64 id, int seconds)
{
	if (b->id != id || state_of(b) != LEASED)
	{
		if (b->id != 0 && !b->stamped)
			sim.counts.unstamped++;
		sim.counts.leases++;
		b->stamped = b->by_hand = false;
	}
	b->id = id;
	start_clock(b, seconds);
}

/* ---- reports to the checks ---- */

/* The metadata name the lease of a term. */
static bool
is_named(const Blob *b)
{
	return b->ours && b->token != 0 && b->id == b->attempt;
}

static bool
is_held(const Blob *b)
{
	return is_locked(state_of(b)) ||
		(b->id != 0 && b->breaks == 0 && sim.now < b->ends);
}

/*
 * With left_too, an expired or broken lease is its holder's until another
 * takes it.
 */
static void
make_key(const Blob *b, bool left_too, Key *key)
{
	memset(key, 0, sizeof(*key));
	key->exists = b->exists && (!b->ours || b->token != 0);
	key->usable = !b->exists || b->ours;
	key->index = b->token;
	key->value.ours = b->ours;
	key->value.released = state_of(b) != BROKEN;
	if (b->id != 0 && (left_too || is_held(b)))
		key->session = is_named(b) ? b->session : UNNAMED;
}

/* By a request of the session; 0: by hand. */
static void
tell_checks(int blob, const Blob *before, int session)
{
	Key			from;
	Key			to;

	az.changes++;
	if (IS_CLAIM_BLOB(blob))
		return;
	make_key(before, true, &from);
	make_key(&az.blobs[blob], true, &to);
	if (from.session != to.session || from.index != to.index)
		check_write(session, blob, &from, &to);
}

/* Counts from now as broken, whenever it takes effect. */
static void
tell_of_break(int blob, const Blob *before)
{
	Key			from;
	Key			none;

	az.changes++;
	if (IS_CLAIM_BLOB(blob) || !is_locked(state_of(before)) ||
		az.blobs[blob].by_hand)
		return;
	sim.counts.broken++;
	az.blobs[blob].by_hand = true;
	make_key(before, true, &from);
	none = from;
	none.session = 0;
	check_write(0, blob, &from, &none);
}

static uint64
number_of_field(const char *meta, const char *name)
{
	const char *text = blob_field(meta, name);

	return text == NULL ? 0 : strtoull(text, NULL, 10);
}

static void
read_claim(Blob *b)
{
	ClaimRecord *c = &b->claim;
	const char *state = blob_field(b->meta, "state");

	c->exists = true;
	c->id = claim_of_name(blob_field(b->meta, "id"));
	c->tick = (int64) number_of_field(b->meta, "tick");
	c->try = (int) number_of_field(b->meta, "try");
	c->every = (int64) number_of_field(b->meta, "every");
	c->ended = number_of_field(b->meta, "ended") != 0;
	c->gap.n = (int64) number_of_field(b->meta, "missed");
	c->gap.first = (int64) number_of_field(b->meta, "missed_from");
	c->gap.last = (int64) number_of_field(b->meta, "missed_to");
	c->writes = number_of_field(b->meta, "writes");
	c->token = b->token;
	for (int i = 0; i < LE_CLAIM_NSTATES; i++)
		if (strncmp(state, le_claim_state_name(i),
					strlen(le_claim_state_name(i))) == 0)
			c->state = i;
}

/* The extension's view of it. */
static void
read_meta(Blob *b, bool claims)
{
	const char *attempt = blob_field(b->meta, "attempt");
	const char *session = blob_field(b->meta, "session");

	b->ours = blob_field(b->meta, "proto") != NULL;
	b->token = number_of_field(b->meta, "token");
	b->attempt = attempt == NULL ? 0 : blob_lease_id(attempt);
	b->session = session == NULL ? 0 : session_of_name(session);
	memset(&b->claim, 0, sizeof(b->claim));
	if (claims && b->ours)
		read_claim(b);
}

static void
tell_of_claim(int blob, const Blob *before)
{
	int			number = Max(blob - MAX_ELECTIONS, 0);
	int			election = number / ELECTION_JOBS;
	int			job = number % ELECTION_JOBS;
	const Blob *leader = &az.blobs[election];

	if (!IS_CLAIM_BLOB(blob) || az.node < 0)
		return;
	claim_written(az.node, election, job, &before->claim,
				  &az.blobs[blob].claim,
				  is_held(leader) && is_named(leader) ?
				  owners[leader->session] : -1, leader->token);
}

/* ---- operations: each returns the refusal, or NULL once done ---- */

static const char *
moved(const BlobRequest *r, const Blob *b)
{
	return r->etag != 0 && r->etag != b->etag ? "ConditionNotMet" : NULL;
}

/* No document says which of two errors comes first. */
static const char *
either(const char *condition, const char *lease)
{
	if (condition == NULL || lease == NULL)
		return condition != NULL ? condition : lease;
	return az.azurite || sim_below(2) == 0 ? condition : lease;
}

static const char *
acquire(const BlobRequest *r, Blob *b, BlobAnswer *a)
{
	bool		same = b->id != 0 && r->proposed == b->id;
	State		state = state_of(b);
	const char *held = NULL;
	const char *why;

	if (state == BREAKING)
		held = same ? "LeaseIsBreakingAndCannotBeAcquired" :
			"LeaseAlreadyPresent";
	else if (!same && is_held(b))
		held = "LeaseAlreadyPresent";
	if ((why = either(moved(r, b), held)) != NULL)
		return why;
	grant(b, r->proposed, r->seconds);
	a->status = 201;
	a->lease_id = b->id;
	return NULL;
}

/* An expired one is renewed if there was no write or lease since. */
static const char *
renew(const BlobRequest *r, Blob *b, BlobAnswer *a)
{
	State		state = state_of(b);
	bool		same = b->id != 0 && r->lease_id == b->id;

	if (same && (state == BREAKING || state == BROKEN))
		return "LeaseIsBrokenAndCannotBeRenewed";
	/* Azurite does not look whose lease it was */
	if (!same && !(az.azurite && state == EXPIRED))
		return "LeaseIdMismatchWithLeaseOperation";
	start_clock(b, b->seconds);
	a->lease_id = b->id;
	return NULL;
}

static const char *
change(const BlobRequest *r, Blob *b, BlobAnswer *a)
{
	bool		same = r->lease_id == b->id;

	switch (state_of(b))
	{
		case LEASED:
			if (!same && r->proposed != b->id)
				return "LeaseIdMismatchWithLeaseOperation";
			b->id = r->proposed;
			a->lease_id = b->id;
			return NULL;
		case BREAKING:
			return same ? "LeaseIsBreakingAndCannotBeChanged" :
				"LeaseIdMismatchWithLeaseOperation";
		default:
			return "LeaseNotPresentWithLeaseOperation";
	}
}

static const char *
release(const BlobRequest *r, Blob *b)
{
	if (b->id == 0 || r->lease_id != b->id)
		return "LeaseIdMismatchWithLeaseOperation";
	end_lease(b);
	return NULL;
}

/* A break that is under way can be shortened, not prolonged. */
static const char *
break_lease(const BlobRequest *r, Blob *b, BlobAnswer *a)
{
	le_time		end = b->seconds == FOR_EVER ? sim.now : b->ends;
	State		state = state_of(b);

	if (state == AVAILABLE)
		return "LeaseNotPresentWithLeaseOperation";
	if (state == BREAKING)
		end = b->breaks;
	if (r->seconds != NOT_SAID && (b->seconds == FOR_EVER ||
								   sim.now + r->seconds * LE_SEC < end))
		end = sim.now + r->seconds * LE_SEC;
	if (state == LEASED || state == BREAKING)
		b->breaks = Max(end, 1);
	else if (state == EXPIRED)
		b->breaks = sim.now;
	a->status = 202;
	return NULL;
}

/* For a write, or a read that names a lease. */
static const char *
wrong_lease(const BlobRequest *r, const Blob *b)
{
	State		state = state_of(b);

	if (!is_locked(state))
	{
		if (r->lease_id == 0)
			return NULL;
		return state == EXPIRED && !az.azurite && r->verb != BLOB_HEAD &&
			sim_below(2) == 0 ? "LeaseLost" :
			"LeaseNotPresentWithBlobOperation";
	}
	if (r->lease_id == b->id)
		return NULL;
	return r->lease_id != 0 ? "LeaseIdMismatchWithBlobOperation" :
		r->verb == BLOB_HEAD ? NULL : "LeaseIdMissing";
}

static const char *
write_blob(const BlobRequest *r, Blob *b, BlobAnswer *a)
{
	const char *lease = wrong_lease(r, b);
	const char *why = either(moved(r, b), lease);

	if (r->absent)
		why = !az.azurite && lease != NULL ? lease : "BlobAlreadyExists";
	if (why != NULL)
		return why;
	/* a write without its id ends a broken or expired lease */
	if (!is_locked(state_of(b)))
		end_lease(b);
	b->etag = ++az.etags;
	strlcpy(b->meta, r->meta, sizeof(b->meta));
	read_meta(b, IS_CLAIM_BLOB(r->blob));
	b->stamped = b->stamped || is_named(b);
	a->status = r->verb == BLOB_PUT ? 201 : 200;
	return NULL;
}

static const char *
create(const BlobRequest *r, Blob *b, BlobAnswer *a)
{
	/* with a lease id Azurite does not mind; documented since 2013-08-15 */
	if (r->etag != 0)
		return "ConditionNotMet";
	if (r->lease_id != 0 && !az.azurite)
		return "LeaseNotPresentWithBlobOperation";
	memset(b, 0, sizeof(*b));
	b->exists = true;
	b->etag = ++az.etags;
	strlcpy(b->meta, r->meta, sizeof(b->meta));
	read_meta(b, IS_CLAIM_BLOB(r->blob));
	a->status = 201;
	return NULL;
}

static const char *
delete(const BlobRequest *r, Blob *b, BlobAnswer *a)
{
	const char *why = either(moved(r, b), wrong_lease(r, b));

	if (why == NULL)
	{
		memset(b, 0, sizeof(*b));
		a->status = 202;
	}
	return why;
}

static void
show(int blob, BlobAnswer *a)
{
	const Blob *b = &az.blobs[blob];
	BlobShown  *shown = &a->shown[a->nshown++];

	shown->blob = blob;
	shown->state = state_names[state_of(b)];
	shown->etag = b->etag;
	strlcpy(shown->meta, b->meta, sizeof(shown->meta));
}

static const char *
head(const BlobRequest *r, const Blob *b, BlobAnswer *a)
{
	const char *why = either(moved(r, b), wrong_lease(r, b));

	if (why == NULL)
		show(r->blob, a);
	return why;
}

static void
list(BlobAnswer *a)
{
	a->list = true;
	for (int e = 0; e < MAX_ELECTIONS; e++)
		if (az.blobs[e].exists)
			show(e, a);
}

static const char *
on_nothing(const BlobRequest *r, Blob *b, BlobAnswer *a)
{
	if (r->verb == BLOB_PUT)
		return create(r, b, a);
	return r->etag != 0 && (az.azurite || sim_below(2) == 0) ?
		"ConditionNotMet" : "BlobNotFound";
}

static const char *
on_blob(const BlobRequest *r, Blob *b, BlobAnswer *a)
{
	switch (r->verb)
	{
		case BLOB_HEAD:
			return head(r, b, a);
		case BLOB_PUT:
		case BLOB_METADATA:
			return write_blob(r, b, a);
		case BLOB_ACQUIRE:
			return acquire(r, b, a);
		case BLOB_RENEW:
			return renew(r, b, a);
		case BLOB_CHANGE:
			return change(r, b, a);
		case BLOB_RELEASE:
			return release(r, b);
		case BLOB_BREAK:
			return break_lease(r, b, a);
		case BLOB_DELETE:
			return delete(r, b, a);
		case BLOB_LIST:
			break;
	}
	abort();
}

static int
status_of(const char *code)
{
	if (strcmp(code, "BlobNotFound") == 0)
		return 404;
	if (strcmp(code, "ConditionNotMet") == 0 ||
		strcmp(code, "LeaseIdMissing") == 0 ||
		strcmp(code, "LeaseLost") == 0 ||
		strstr(code, "WithBlobOperation") != NULL)
		return 412;
	return 409;
}

/* Did a break end it before its holder stops believing? */
static bool
cut_short(const Blob *b)
{
	return b->breaks != 0 && b->seconds != FOR_EVER && b->breaks < b->expires;
}

/*
 * A reader of a broken lease waits until its holder cannot believe any more.
 * An acquire that was decided before takes it at once; so nobody may break a
 * lease with a period shorter than its remaining time.
 */
static void
tell_of_acquire(int blob, const Blob *before)
{
	if (!IS_CLAIM_BLOB(blob) && cut_short(before) &&
		sim.travel.sent < before->breaks)
		check_allow_overlap(blob);
	tell_checks(blob, before, -1);
}

/* Is a node about to acquire, or has an acquire of unknown outcome? */
static bool
any_acquires(int election)
{
	for (int i = 0; i < sim.nnodes; i++)
	{
		SimNode    *n = sim.node[i];
		const LeSlot *slot = n->up ? node_slot(n, election) : NULL;

		if (slot != NULL && (slot->election.state == LE_ACQUIRING ||
							 slot->election.state == LE_ACQUIRE_UNSURE))
			return true;
	}
	return false;
}

/* The writer: the term's session, if the request was applied. */
static void
tell(const BlobRequest *r, const Blob *before)
{
	const Blob *b = &az.blobs[r->blob];

	switch (r->verb)
	{
		case BLOB_BREAK:
			tell_of_break(r->blob, before);
			break;
		case BLOB_ACQUIRE:
			tell_of_acquire(r->blob, before);
			break;
		case BLOB_RELEASE:
			tell_checks(r->blob, before,
						is_named(before) ? before->session : -1);
			break;
		case BLOB_RENEW:
			az.changes++;
			if (is_named(b) && !IS_CLAIM_BLOB(r->blob))
				claims_confirmed(r->blob, b->token);
			break;
		case BLOB_PUT:
		case BLOB_METADATA:
			tell_checks(r->blob, before, is_named(b) ? b->session : -1);
			tell_of_claim(r->blob, before);
			break;
		default:
			tell_checks(r->blob, before, -1);
			break;
	}
}

/* The instant at which it is applied. */
void
azure_execute(const BlobRequest *r, BlobAnswer *a)
{
	static Blob before;
	Blob	   *b = &az.blobs[r->blob];

	memset(a, 0, offsetof(BlobAnswer, shown));
	a->status = 200;
	if (r->verb == BLOB_LIST)
	{
		list(a);
		return;
	}
	if (r->verb != BLOB_HEAD)
		before = *b;
	a->code = b->exists ? on_blob(r, b, a) : on_nothing(r, b, a);
	if (a->code != NULL)
		a->status = status_of(a->code);
	else if (r->verb != BLOB_HEAD)
		tell(r, &before);
	if (a->code == NULL && r->verb != BLOB_HEAD && b->exists)
	{
		a->nshown = 1;
		a->shown[0].etag = b->etag;
		a->shown[0].state = NULL;
		a->shown[0].meta[0] = '\0';
	}
}

/* ---- the worker's view ---- */

/* Busy, failing, or a proxy answers; it does not tell the outcome. */
static void
no_answer_that_counts(BlobAnswer *a, bool applied)
{
	static const struct
	{
		int			status;
		const char *code;
	}			said[] = {
		{500, "InternalError"},
		{500, "OperationTimedOut"},
		{502, NULL},
		{404, NULL},
		{503, "ServerBusy"},
		{429, "TooManyRequests"},
	};
	int			n = (int) sim_below(applied ? 3 : lengthof(said));

	memset(a, 0, offsetof(BlobAnswer, shown));
	a->status = said[n].status;
	a->code = said[n].code;
	a->foreign = said[n].code == NULL;
	sim.counts.throttled += n >= 4;
}

static void
execute_for(int node, const BlobRequest *r, BlobAnswer *a)
{
	az.node = node;
	azure_execute(r, a);
	az.node = -1;
	if (r->verb != BLOB_HEAD && r->verb != BLOB_LIST)
		trace(NULL, "  %s: %s", trace_blob_request(r),
			  a->code != NULL ? a->code : "done");
}

static bool
az_apply(const Request *r, Answer *a, int node, uint32 process, int flight,
		 uint32 number)
{
	const Weather *w = &sim.schedule->weather;
	bool		down = sim.now < az.down_until;

	memset(a, 0, offsetof(Answer, keys));
	a->net = LE_NET_OK;
	a->outcome = LE_DONE;
	if (down && sim_below(2) == 0)
		return false;
	if (down || (sim.now < az.busy_until && sim_below(4) != 0) ||
		sim_chance(w->refuse))
	{
		no_answer_that_counts(&a->blob, false);
		return true;
	}
	if (!sim_chance(w->break_answer))
		execute_for(node, &r->blob, &a->blob);
	else
	{
		if (sim_below(2) == 0)
			execute_for(node, &r->blob, &a->blob);
		no_answer_that_counts(&a->blob, true);
	}
	return true;
}

static void
az_event(int what, int a, uint32 b)
{
	(void) what;
	(void) a;
	(void) b;
	abort();
}

/* An operator breaks a lease of this node, or one without a holder. */
static void
az_break(int session)
{
	static const int periods[] = {NOT_SAID, 0, 60, 5};
	BlobRequest r = {.verb = BLOB_BREAK};
	BlobAnswer	a;

	for (int e = 0; e < sim.nelections; e++)
	{
		const Blob *b = &az.blobs[e];

		if (state_of(b) != LEASED ||
			(is_named(b) && b->session != session) || sim_below(3) == 0)
			continue;
		r.blob = e;
		r.seconds = periods[sim_below(lengthof(periods))];
		trace(NULL, "the lease on e%d is broken, %d s", e, r.seconds);
		azure_execute(&r, &a);
		if (cut_short(b) && any_acquires(e))
			check_allow_overlap(e);
		return;
	}
}

static void
az_new_server(le_duration down)
{
	az.down_until = sim.now + down;
	trace(NULL, "the service is not available for %.1f s",
		  down / (double) LE_SEC);
}

static void
az_busy(le_time until)
{
	az.busy_until = until;
	trace(NULL, "the service is busy for %.1f s",
		  (until - sim.now) / (double) LE_SEC);
}

/* As le_accept_store() on every instance. */
static void
az_forget(int election)
{
	traces_deed(election, "lower tokens count");
	for (int i = 0; i < sim.nnodes; i++)
	{
		SimNode    *n = sim.node[i];
		LeSlot	   *slot = n->up ? node_slot(n, election) : NULL;

		n->token_floor[election] = n->token_kept[election] = 0;
		n->hasty[election] = 0;
		if (slot != NULL)
			slot->election.token_floor = slot->election.refused_until = 0;
	}
}

/* Records of jobs, and commits, name the tokens of terms. */
static bool
tokens_matter(void)
{
	for (int i = 0; i < sim.schedule->nevents; i++)
		if (sim.schedule->events[i].what == HAPPEN_JOB ||
			sim.schedule->events[i].what == HAPPEN_TRANSACTION)
			return true;
	return false;
}

static void
put_by_hand(Blob *b, const char *meta)
{
	end_lease(b);
	b->etag = ++az.etags;
	strlcpy(b->meta, meta, sizeof(b->meta));
	read_meta(b, false);
}

/*
 * By hand.  The blob is deleted, and its token with it; where that matters it
 * is put back unchanged.  Or another blob takes its place.
 */
static void
az_by_hand(int election, bool delete)
{
	static char was[MAX_ELECTIONS][META_SIZE];
	Blob	   *b = &az.blobs[election];
	Blob		before = *b;

	if (!b->exists)
		return;
	if (b->ours)
		strlcpy(was[election], b->meta, META_SIZE);
	if (!delete)
		put_by_hand(b, "x-ms-meta-colour: blue\n");
	else if (tokens_matter())
		put_by_hand(b, was[election]);
	else
	{
		memset(b, 0, sizeof(*b));
		check_begins_anew(election);
		az_forget(election);
	}
	tell_checks(election, &before, 0);
}

/* Another client takes a lease if it can have it, and lets it run out. */
static void
az_foreign_lock(int election)
{
	BlobRequest r = {.verb = BLOB_ACQUIRE, .blob = election};
	BlobAnswer	a;

	if (state_of(&az.blobs[election]) == BROKEN)
		return;
	r.proposed = FOREIGN_ID;
	r.seconds = 15 + (int) sim_below(46);
	azure_execute(&r, &a);
}

static void
az_clear_up(void)
{
	az.down_until = Min(az.down_until, sim.now);
	az.busy_until = Min(az.busy_until, sim.now);
}

/* ---- queries of the checks ---- */

void
azure_asked_for(int session, le_duration lease)
{
	owners[session] = sim_node->number;
	leases[session] = Max(leases[session], lease);
}

static Key *
az_key(int election)
{
	Blob	   *b = &az.blobs[election];

	make_key(b, false, &b->key);
	return &b->key;
}

static int
az_owner(int session)
{
	return session > 0 && session < MAX_SESSIONS ? owners[session] : -1;
}

static bool
az_lives(int session)
{
	int			node = az_owner(session);

	return node >= 0 && sim.node[node]->up &&
		sim.node[node]->incarnation == (uint32) session;
}

static le_duration
az_lease(int session)
{
	return leases[session];
}

static uint64
az_index(void)
{
	return az.changes;
}

/* As long as it cannot end, unless by an operator. */
static bool
az_safe(int session, int election, uint64 token)
{
	const Blob *b = &az.blobs[election];

	return b->by_hand || (is_named(b) && b->token == token &&
						  b->session == session && sim.now < b->expires);
}

static bool
az_ran_out(int election, uint64 token)
{
	(void) token;
	return az.blobs[election].by_hand;
}

static void
az_records(bool restore)
{
	for (int i = MAX_ELECTIONS; i < BLOBS; i++)
	{
		Blob	   *b = &az.blobs[i];

		if (!restore)
		{
			az.kept[i] = *b;
			continue;
		}
		*b = az.kept[i];
		b->etag = ++az.etags;
		record_restored((i - MAX_ELECTIONS) / ELECTION_JOBS,
						(i - MAX_ELECTIONS) % ELECTION_JOBS, &b->claim);
	}
}

const StoreModel azure_model = {
	.store = &sim_azure,
	.reset = az_reset,
	.apply = az_apply,
	.event = az_event,
	.invalidate = az_break,
	.new_server = az_new_server,
	.hang_watches = az_busy,
	.clear_up = az_clear_up,
	.lives = az_lives,
	.key = az_key,
	.write_by_hand = az_by_hand,
	.foreign_lock = az_foreign_lock,
	.records = az_records,
	.forget = az_forget,
	.index = az_index,
	.owner = az_owner,
	.lease = az_lease,
	.read_request = blob_read_request,
	.write_answer = blob_write_answer,
	.safe = az_safe,
	.ran_out = az_ran_out,
};
