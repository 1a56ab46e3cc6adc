/*-------------------------------------------------------------------------
 *
 * model.c
 *		Random transactions and their results in the model of Consul.
 *
 * One line of JSON per operation: the request, the failed steps, and the state
 * of all keys afterwards. test/t/110_model.pl asks a real Consul the same and
 * compares.  Sessions and indexes are the model's own numbers; the test keeps
 * the real ones beside them.
 *
 * test/sim/model.c
 *
 *-------------------------------------------------------------------------
 */
#include "cli.h"

#define SESSIONS	4			/* sessions alive at a time, about */

static Schedule schedule;

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

static int
some_session(void)
{
	int			newest = store_nsessions();

	return newest == 0 ? 0 :
		newest - (int) sim_below(Min(newest, SESSIONS + 2));
}

static int
some_key(void)
{
	int			s = some_session();

	return s != 0 && sim_below(3) == 0 ? NODE_KEY(s) :
		(int) sim_below(MAX_ELECTIONS);
}

/* Mostly steps that pass, so that whole transactions do, too. */
static void
fill_step(Request *r, Step *step)
{
	const Key  *key;
	bool		fitting = sim_below(4) != 0;

	memset(step, 0, sizeof(*step));
	step->role = LE_CONSUL_UNCHANGED;
	step->verb = (LeConsulVerb) sim_below(lengthof(verbs));
	step->key = r->nsteps > 1 && sim_below(2) == 0 ?
		r->steps[0].key : some_key();
	step->value = (int) sim_below(2);
	key = store_key(step->key);
	switch (step->verb)
	{
		case LE_CONSUL_CHECK_SESSION:
		case LE_CONSUL_UNLOCK:
		case LE_CONSUL_LOCK:
			step->session = fitting && key->session != 0 ? key->session :
				some_session();
			if (step->verb == LE_CONSUL_CHECK_SESSION && fitting)
				step->session = key->session;
			break;
		case LE_CONSUL_CHECK_INDEX:
		case LE_CONSUL_CAS:
			step->index = fitting && key->index != 0 ? key->index :
				store_index();
			break;
		default:
			break;
	}
}

static void
print_step(const Request *r, const Step *step)
{
	printf("{\"verb\":\"%s\",\"key\":%d,\"session\":%d,\"index\":"
		   UINT64_FORMAT ",\"value\":\"v%u\"}", verbs[step->verb], step->key,
		   step->session, step->index, r->values[step->value].user);
}

static void
print_keys(void)
{
	const char *comma = "";

	printf(",\"keys\":[");
	for (int k = 0; k <= NODE_KEY(store_nsessions()); k++)
	{
		const Key  *key = store_key(k);

		if (k >= MAX_ELECTIONS + 1 || k < MAX_ELECTIONS)
			if (key->exists)
			{
				printf("%s{\"key\":%d,\"session\":%d,\"index\":" UINT64_FORMAT
					   ",\"value\":\"v%u\"}", comma, k, key->session,
					   key->index, key->value.user);
				comma = ",";
			}
	}
	printf("]}\n");
}

static void
transaction(void)
{
	Request		r;
	Answer		a;
	uint32		failed;

	memset(&r, 0, sizeof(r));
	memset(&a, 0, sizeof(a));
	r.kind = LE_OP_ACQUIRE;
	r.nvalues = 2;
	r.nparts = 1;
	for (int i = 0; i < 2; i++)
	{
		r.values[i].ours = true;
		r.values[i].user = (uint32) sim_below(3);
	}
	r.nsteps = 1 + (int) sim_below(4);
	for (int i = 0; i < r.nsteps; i++)
		fill_step(&r, &r.steps[i]);
	failed = store_try(&r, &a);
	printf("{\"op\":\"txn\",\"steps\":[");
	for (int i = 0; i < r.nsteps; i++)
	{
		printf("%s", i == 0 ? "" : ",");
		print_step(&r, &r.steps[i]);
	}
	printf("],\"delayed\":%s,\"failed\":[",
		   a.nrefused > 0 && a.refused[0].reason == LE_CONSUL_DELAYED ?
		   "true" : "false");
	for (int i = 0, n = 0; i < r.nsteps; i++)
		if ((failed >> i) & 1)
			printf("%s%d", n++ == 0 ? "" : ",", i);
	printf("]");
	print_keys();
}

int
model_run(uint64 seed, int operations)
{
	memset(&schedule, 0, sizeof(schedule));
	schedule.nelections = MAX_ELECTIONS;
	sim.schedule = &schedule;
	sim.model = &consul_model;
	sim.random = sim_mix(seed);
	sim.nelections = MAX_ELECTIONS;
	sim.now = LE_SEC;
	sim.storm = false;
	network_reset();
	store_reset();
	for (int i = 0; i < operations; i++)
	{
		uint64		what = sim_below(20);
		int			s;

		if (store_nsessions() < 2 || what == 0)
		{
			Request		r = {
				.node = -1, .lease = 60 * LE_SEC, .ttl = 60 * LE_SEC,
				.lock_delay = 60 * LE_SEC
			};

			printf("{\"op\":\"create\",\"session\":%d", store_create(&r));
			print_keys();
		}
		else if (what == 1 && (s = some_session()) != 0)
		{
			printf("{\"op\":\"destroy\",\"session\":%d", s);
			store_invalidate(s);
			print_keys();
		}
		else
			transaction();
	}
	return 0;
}
