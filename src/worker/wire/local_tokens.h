/*-------------------------------------------------------------------------
 *
 * local_tokens.h
 *		Fencing tokens of the store "local".
 *
 * src/worker/wire/local_tokens.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_LOCAL_TOKENS_H
#define LE_LOCAL_TOKENS_H

extern uint64 le_local_token_next(void);
extern void le_local_tokens_flush(void);

#endif							/* LE_LOCAL_TOKENS_H */
