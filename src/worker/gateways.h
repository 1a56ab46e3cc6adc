/*-------------------------------------------------------------------------
 *
 * gateways.h
 *		The gateways of the store "cassandra", and which of them to ask.
 *
 * src/worker/gateways.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_GATEWAYS_H
#define LE_GATEWAYS_H

#include "core/timing.h"

/* A gateway of the present list; it means nothing after the next reload. */
typedef struct LeGatewayRef
{
	uint32_t	list;
	int			number;
} LeGatewayRef;

extern void le_gateways_configure(const char *urls);
extern bool le_gateways_several(void);
extern bool le_gateway_pick(unsigned *tried, LeGatewayRef *gateway);
extern const char *le_gateway_url(LeGatewayRef gateway);
extern const char *le_gateway_place(void);
extern void le_gateway_failed(LeGatewayRef gateway, const char *why);
extern void le_gateway_answered(LeGatewayRef gateway);
extern void le_gateways_run_timers(void);
extern le_time le_gateways_timer(void);

#endif							/* LE_GATEWAYS_H */
