/*-------------------------------------------------------------------------
 *
 * secret.h
 *		What proves to the store who this node is.
 *
 * src/worker/secret.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_SECRET_H
#define LE_SECRET_H

#include "core/timing.h"

extern void le_secret_configure(void);
extern const char *le_secret_of_file(void);
extern const char *le_secret_trouble(void);
extern const char *le_secret(void);

/* where it is fetched from the store, or from somebody else */
extern bool le_secret_missing(void);
extern void le_secret_fetched(const char *secret, le_duration lasts);
extern void le_secret_refused(void);
extern le_time le_secret_due(void);

#endif							/* LE_SECRET_H */
