/*-------------------------------------------------------------------------
 *
 * servers.h
 *		The servers of the store, and which of them to ask.
 *
 * src/worker/wire/servers.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_SERVERS_H
#define LE_SERVERS_H

#include "core/timing.h"
#include "worker/base/context.h"

/* A server of the present list; it means nothing in another one. */
typedef struct LeServerRef
{
	uint32_t	list;
	int			number;
} LeServerRef;

typedef struct LeServers LeServers;

extern LeServers *le_servers_new(void);
extern bool le_servers_configure(LeWorker *w, const char *urls);
extern bool le_servers_several(LeWorker *w);
extern bool le_server_pick(LeWorker *w, unsigned *tried, LeServerRef *server);
extern const char *le_server_url(LeWorker *w, LeServerRef server);
extern const char *le_server_address(LeWorker *w);
extern void le_server_failed(LeWorker *w, LeServerRef server, const char *why);
extern void le_server_answered(LeWorker *w, LeServerRef server);
extern void le_servers_run_timers(LeWorker *w);
extern le_time le_servers_timer(LeWorker *w);

#endif							/* LE_SERVERS_H */
