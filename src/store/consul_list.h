/*-------------------------------------------------------------------------
 *
 * consul_list.h
 *		Lists of keys in the store "consul", some of them in parts.
 *
 * src/store/consul_list.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_CONSUL_LIST_H
#define LE_CONSUL_LIST_H

#include "store/store.h"

/* Bytes of a list to decode at a time; for tests to set. */
extern size_t le_consul_slice;

extern bool le_consul_has_index(const LeResponse *response,
								uint64 *index);
extern void le_consul_decode_list(const LeNamespace *ns, const LeOp *op,
								  const LeResponse *response,
								  LeAnswer *answer);

#endif							/* LE_CONSUL_LIST_H */
