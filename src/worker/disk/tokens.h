/*-------------------------------------------------------------------------
 *
 * tokens.h
 *		The highest fencing token seen of each election, kept on disk.
 *
 * src/worker/disk/tokens.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_TOKENS_H
#define LE_TOKENS_H

#define LE_TOKENS_HINT \
	"No term begins while fencing tokens cannot be kept in the data directory."

typedef struct LeTokens LeTokens;

extern LeTokens *le_tokens_load(void);
extern bool le_tokens_led_before(LeTokens *tokens);
extern bool le_tokens_try(LeTokens *tokens);
extern bool le_tokens_keep(LeTokens *tokens, bool sync);
extern const char *le_tokens_trouble(LeTokens *tokens);
extern uint64 le_token_floor(LeTokens *tokens, const char *election);
extern void le_token_seen(LeTokens *tokens, const char *election,
						  uint64 token);
extern bool le_token_forget(LeTokens *tokens, const char *election);

#endif							/* LE_TOKENS_H */
