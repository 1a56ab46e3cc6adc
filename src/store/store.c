/*-------------------------------------------------------------------------
 *
 * store.c
 *		The lease stores by name.
 *
 * src/store/store.c
 *
 *-------------------------------------------------------------------------
 */
#ifdef FRONTEND
#include "postgres_fe.h"
#else
#include "postgres.h"
#endif

#include "store/store.h"

/* The registry; the list that a wrong name brings up has the same order. */
static const LeStore *const stores[] = {
	&le_store_local,
	&le_store_consul,
	&le_store_cassandra,
	&le_store_azure,
};

/* The stores in the order of the registry; NULL: there are no more. */
const LeStore *
le_store_number(int number)
{
	return number < lengthof(stores) ? stores[number] : NULL;
}

/* The store's limits on a lease; settings make the rest of the timing. */
void
le_store_limits(const LeStore *store, LeTiming *timing)
{
	timing->session_ttl = le_session_ttl(timing->lease,
										 store->lease.least_session);
	timing->least_lease = store->lease.least;
	timing->most_lease = store->lease.most;
	timing->granularity = store->lease.granularity;
}

/* Does perform() answer the operation, without a request? */
bool
le_performs(const LeStore *store, LeOpKind kind)
{
	return !store->between_instances ||
		(store->codec.performs != NULL && store->codec.performs(kind));
}
