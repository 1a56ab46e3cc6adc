/*-------------------------------------------------------------------------
 *
 * consul_txn.h
 *		Transactions of the store "consul" as JSON, and their results.
 *
 * src/store/consul_txn.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_CONSUL_TXN_H
#define LE_CONSUL_TXN_H

#include "store/consul_plan.h"

extern void le_consul_encode_plan(const LeNamespace *ns,
								  const LeConsulPlan *plan,
								  LeRequest *request);
extern void le_consul_decode_plan(const LeNamespace *ns,
								  const LeConsulPlan *plan,
								  const LeResponse *response,
								  LeAnswer *answer);

#endif							/* LE_CONSUL_TXN_H */
