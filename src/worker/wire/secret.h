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

typedef struct LeSecrets LeSecrets;

extern LeSecrets *le_secrets_new(void);
extern void le_secret_configure(LeSecrets *secrets);
extern void le_secret_read_again(LeSecrets *secrets);
extern bool le_secret_is_in_file(LeSecrets *secrets);
extern const char *le_secret_of_file(LeSecrets *secrets);
extern const char *le_secret_trouble(LeSecrets *secrets);
extern const char *le_secret_tls_trouble(LeSecrets *secrets);
extern bool le_secret_judge(LeSecrets *secrets, LeFinding *finding);
extern const char *le_secret(LeSecrets *secrets);
extern const char *le_secret_header(LeSecrets *secrets);
extern uint32 le_secret_number(LeSecrets *secrets);
extern LeSecretAdvice le_secret_refused(LeSecrets *secrets, uint32 number);
extern void le_secret_blame(LeAnswer *answer);
extern void le_secret_run_timers(LeSecrets *secrets);
extern le_time le_secret_timer(LeSecrets *secrets);

/* for a secret that is fetched */
extern bool le_secret_missing(LeSecrets *secrets);
extern void le_secret_fetched(LeSecrets *secrets, const char *secret,
							  le_duration lasts);
extern void le_secret_failed(LeSecrets *secrets, const char *why,
							 le_duration asked, uint32 random);
extern le_time le_secret_due(LeSecrets *secrets);

#endif							/* LE_SECRET_H */
