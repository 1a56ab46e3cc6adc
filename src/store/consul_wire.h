/*-------------------------------------------------------------------------
 *
 * consul_wire.h
 *		Requests to Consul's HTTP API, and its answers.
 *
 * src/store/consul_wire.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_CONSUL_WIRE_H
#define LE_CONSUL_WIRE_H

#include "store/store.h"

extern void le_consul_encode(const LePlace *place, const LeOp *op,
							 LeHttpRequest *request);
extern void le_consul_decode(const LePlace *place, const LeOp *op,
							 const LeHttpResponse *response,
							 LeAnswer *answer);

#endif							/* LE_CONSUL_WIRE_H */
