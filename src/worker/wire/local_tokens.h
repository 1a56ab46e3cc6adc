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

typedef struct LeLocalTokens LeLocalTokens;

extern LeLocalTokens *le_local_tokens_new(void);
extern void le_local_tokens_begin(LeLocalTokens *tokens, uint64 generation);
extern uint64 le_local_token_next(LeLocalTokens *tokens);
extern void le_local_tokens_flush(LeLocalTokens *tokens);

#endif							/* LE_LOCAL_TOKENS_H */
