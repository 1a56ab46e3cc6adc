/*-------------------------------------------------------------------------
 *
 * xact.h
 *		Leases in scope "transaction".
 *
 * src/sql/xact.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_XACT_H
#define LE_XACT_H

extern void le_xact_prepare(void);
extern void le_xact_holds(const char *election, uint64 token);

#endif							/* LE_XACT_H */
