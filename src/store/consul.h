/*-------------------------------------------------------------------------
 *
 * consul.h
 *		What tests set of the store "consul".
 *
 * src/store/consul.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_CONSUL_H
#define LE_CONSUL_H

/* So much of a list is decoded at a time. */
extern size_t le_consul_slice;

#endif							/* LE_CONSUL_H */
