/*-------------------------------------------------------------------------
 *
 * http.h
 *		HTTP requests inside the worker's wait.
 *
 * src/worker/http.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_HTTP_H
#define LE_HTTP_H

#include "core/timing.h"
#include "store/store.h"

typedef void (*LeHttpDone) (void *arg, const LeHttpResponse *response);

extern void le_http_start(int connections);
extern void le_http_send(const LeHttpRequest *request, le_duration timeout,
						 LeHttpDone done, void *arg);
extern int	le_http_socket(void);
extern le_time le_http_timer(void);
extern void le_http_run(void);

#endif							/* LE_HTTP_H */
