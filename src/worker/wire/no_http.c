/*-------------------------------------------------------------------------
 *
 * no_http.c
 *		The replacement of http.c in a library that is built without libcurl.
 *
 * An image of PostgreSQL may have to carry the library and nothing else, and
 * libcurl would bring a dozen more libraries.  The setting "backend" refuses
 * the stores that speak HTTP in such a build, so nothing is ever sent.
 *
 * src/worker/wire/no_http.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "worker/wire/http.h"

bool
le_http_looks_up_apart(void)
{
	return true;
}

void
le_http_start(LeWorker *w, const int connections[LE_NLANES])
{
	elog(ERROR, "this library was built without libcurl");
}

void
le_http_send(LeWorker *w, const LeRequest *request, LeLane lane,
			 le_duration timeout, LeHttpDone done, void *arg)
{
	elog(ERROR, "this library was built without libcurl");
}

void
le_http_push(LeWorker *w)
{
}

int
le_http_socket(LeWorker *w)
{
	return -1;
}

le_time
le_http_timer(LeWorker *w)
{
	return 0;
}

void
le_http_run(LeWorker *w)
{
}
