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

extern void le_consul_encode_create(const LePlace *place, const LeOp *op,
									LeHttpRequest *request);
extern void le_consul_decode_created(const LeOp *op,
									 const LeHttpResponse *response,
									 LeAnswer *answer);
extern void le_consul_decode_session(const LeOp *op,
									 const LeHttpResponse *response,
									 LeAnswer *answer);
extern void le_consul_decode_true(const LeOp *op,
								  const LeHttpResponse *response,
								  LeAnswer *answer);

#endif							/* LE_CONSUL_SESSION_H */
