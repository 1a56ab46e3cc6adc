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

extern void le_tokens_load(void);
extern bool le_tokens_led_before(void);
extern bool le_tokens_try(void);
extern bool le_tokens_keep(bool sync);
extern const char *le_tokens_trouble(void);
extern uint64 le_token_floor(const char *election);
extern void le_token_seen(const char *election, uint64 token);
extern bool le_token_forget(const char *election);

#endif							/* LE_TOKENS_H */
