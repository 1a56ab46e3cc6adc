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

/* A server of the present list; it means nothing after the next reload. */
typedef struct LeServerRef
{
	uint32_t	list;
	int			number;
} LeServerRef;

extern void le_servers_configure(const char *urls);
extern bool le_servers_several(void);
extern bool le_server_pick(unsigned *tried, LeServerRef *server);
extern const char *le_server_url(LeServerRef server);
extern const char *le_server_place(void);
extern void le_server_failed(LeServerRef server, const char *why);
extern void le_server_answered(LeServerRef server);
extern void le_servers_run_timers(void);
extern le_time le_servers_timer(void);

#endif							/* LE_SERVERS_H */
