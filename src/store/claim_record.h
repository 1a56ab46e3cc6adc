/*-------------------------------------------------------------------------
 *
 * claim_record.h
 *		The record of a claim as text, and the key of a job.
 *
 * src/store/claim_record.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_STORE_CLAIM_H
#define LE_STORE_CLAIM_H

#include "store/store.h"

/* The longest record, with all names escaped. */
#define LE_MAX_CLAIM_TEXT	(8 * 1024)

extern void le_claim_append_key(StringInfo key, const char *election,
								const char *job);
extern bool le_claim_split_key(const char *key, char **election, char **job);
extern void le_claim_append_text(StringInfo text, const LeClaim *claim);
extern bool le_claim_parse(const char *text, size_t len, LeClaim *claim);

#endif							/* LE_STORE_CLAIM_H */
