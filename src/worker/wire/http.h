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

/*
 * What goes to the store at the same time without sharing connections, the
 * most urgent first.
 */
typedef enum LeLane
{
	LE_LANE_LIFE,				/* what keeps the terms that are held: proofs,
								 * renewals, the session's own steps */
	LE_LANE_RELEASE,			/* what lets others have them */
	LE_LANE_ASKED,				/* what a session of this instance waits for */
	LE_LANE_CAMPAIGN,			/* what is sought without anybody waiting */
	LE_LANE_READ,				/* what people want to look at */
	LE_LANE_WATCH				/* what stays parked, and lists of nodes */
} LeLane;

#define LE_NLANES	(LE_LANE_WATCH + 1)

typedef void (*LeHttpDone) (void *arg, const LeHttpResponse *response);

extern bool le_http_looks_up_apart(void);
extern void le_http_start(const int connections[LE_NLANES]);
extern void le_http_send(const LeHttpRequest *request, LeLane lane,
						 le_duration timeout, LeHttpDone done, void *arg);
extern void le_http_push(void);
extern int	le_http_socket(void);
extern le_time le_http_timer(void);
extern void le_http_run(void);

#endif							/* LE_HTTP_H */
