/*-------------------------------------------------------------------------
 *
 * tokens.h
 *		The highest fencing tokens and the latest records seen, kept on disk.
 *
 * src/worker/disk/tokens.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_TOKENS_H
#define LE_TOKENS_H

#include "store/store.h"

#define LE_TOKENS_HINT \
	"No term begins while fencing tokens cannot be kept in the data directory."

/*
 * Fencing tokens of the store "local" are positions in the write-ahead log,
 * plus this.  By less than that the log goes back where its end is lost.
 */
#define LE_FIRST_OF_GENERATION(n)	((uint64) (n) << 50)
#define LE_LAST_GENERATION			((uint64) PG_INT64_MAX >> 50)

typedef struct LeTokens LeTokens;

extern LeTokens *le_tokens_load(void);
extern bool le_tokens_led_before(LeTokens *tokens);
extern bool le_tokens_try(LeTokens *tokens);
extern bool le_tokens_keep(LeTokens *tokens, bool sync);
extern const char *le_tokens_trouble(LeTokens *tokens);
extern uint64 le_tokens_generation(LeTokens *tokens);
extern uint64 le_token_floor(LeTokens *tokens, const char *election);
extern void le_token_seen(LeTokens *tokens, const char *election,
						  uint64 token);
extern LeSeenRecord le_record_seen_last(LeTokens *tokens,
										const char *election,
										const char *job);
extern void le_each_record_seen(LeTokens *tokens,
								void (*act) (void *arg, const char *election,
											 const char *job,
											 const LeSeenRecord *seen),
								void *arg);
extern void le_record_seen(LeTokens *tokens, const LeClaim *claim);
extern bool le_tokens_forget(LeTokens *tokens, const char *election);

#endif							/* LE_TOKENS_H */
