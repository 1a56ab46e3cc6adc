/*-------------------------------------------------------------------------
 *
 * consul_session.h
 *		Sessions of the store "consul".
 *
 * src/store/consul_session.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_CONSUL_SESSION_H
#define LE_CONSUL_SESSION_H

#include "store/store.h"

extern void le_consul_encode_create(const LeNamespace *ns, const LeOp *op,
									LeRequest *request);
extern void le_consul_decode_created(const LeOp *op,
									 const LeResponse *response,
									 LeAnswer *answer);
extern void le_consul_decode_session(const LeOp *op,
									 const LeResponse *response,
									 LeAnswer *answer);
extern void le_consul_decode_true(const LeOp *op,
								  const LeResponse *response,
								  LeAnswer *answer);

#endif							/* LE_CONSUL_SESSION_H */
