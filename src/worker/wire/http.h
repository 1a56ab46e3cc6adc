/*-------------------------------------------------------------------------
 *
 * http.h
 *		HTTP requests inside the worker's wait.
 *
 * src/worker/wire/http.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_HTTP_H
#define LE_HTTP_H

#include "core/timing.h"
#include "store/store.h"
#include "worker/base/context.h"

/* Kinds of requests that share no connections, the most urgent first. */
typedef enum LeLane
{
	LE_LANE_LIFE,				/* keep the terms that are held: proofs,
								 * renewals, the session's own steps */
	LE_LANE_RELEASE,			/* let others have them */
	LE_LANE_ASKED,				/* a backend of this instance waits for them */
	LE_LANE_CAMPAIGN,			/* seek elections that no backend waits for */
	LE_LANE_READ,				/* show something to people */
	LE_LANE_WATCH				/* parked ones, and lists of nodes */
} LeLane;

#define LE_NLANES	(LE_LANE_WATCH + 1)

typedef struct LeHttp LeHttp;

typedef void (*LeHttpDone) (LeWorker *w, void *arg,
							const LeResponse *response);

extern bool le_http_looks_up_apart(void);
extern void le_http_start(LeWorker *w, const int connections[LE_NLANES]);
extern void le_http_send(LeWorker *w, const LeRequest *request,
						 LeLane lane,
						 le_duration timeout, LeHttpDone done, void *arg);
extern void le_http_push(LeWorker *w);
extern int	le_http_socket(LeWorker *w);
extern le_time le_http_timer(LeWorker *w);
extern void le_http_run(LeWorker *w);

#endif							/* LE_HTTP_H */
