/*-------------------------------------------------------------------------
 *
 * secret.h
 *		The secret that proves this node's identity to the store.
 *
 * src/worker/wire/secret.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_SECRET_H
#define LE_SECRET_H

#include "core/timing.h"
#include "store/store.h"

/* Advice after the store has refused a secret. */
typedef enum LeSecretAdvice
{
	LE_SECRET_AGAIN,			/* there is another by now */
	LE_SECRET_FETCH,			/* another is to be fetched */
	LE_SECRET_GIVE_UP
} LeSecretAdvice;

extern void le_secret_configure(void);
extern void le_secret_read_again(void);
extern bool le_secret_is_in_file(void);
extern const char *le_secret_of_file(void);
extern const char *le_secret_trouble(void);
extern const char *le_secret_tls_trouble(void);
extern bool le_secret_judge(LeFinding *finding);
extern const char *le_secret(void);
extern const char *le_secret_header(void);
extern uint32 le_secret_number(void);
extern LeSecretAdvice le_secret_refused(uint32 number);
extern void le_secret_blame(LeAnswer *answer);
extern void le_secret_run_timers(void);
extern le_time le_secret_timer(void);

/* for a secret that is fetched */
extern bool le_secret_missing(void);
extern void le_secret_fetched(const char *secret, le_duration lasts);
extern void le_secret_failed(const char *why, le_duration asked,
							 uint32 random);
extern le_time le_secret_due(void);

#endif							/* LE_SECRET_H */
