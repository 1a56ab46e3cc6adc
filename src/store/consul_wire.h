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

extern void le_consul_encode(const LeNamespace *ns, const LeOp *op,
							 LeRequest *request);
extern void le_consul_decode(const LeNamespace *ns, const LeOp *op,
							 const LeResponse *response,
							 LeAnswer *answer);

#endif							/* LE_CONSUL_WIRE_H */
