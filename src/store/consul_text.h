/*-------------------------------------------------------------------------
 *
 * consul_text.h
 *		Keys and values of the store "consul", as text and back.
 *
 * src/store/consul_text.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_CONSUL_TEXT_H
#define LE_CONSUL_TEXT_H

#include "store/consul_plan.h"
#include "store/json.h"

/* Consul's own client writes this flag to keys it locks, and refuses a key
 * without it, as we do. */
#define LE_CONSUL_LOCK_FLAG		UINT64CONST(3304740253564472344)

#define LE_CONSUL_NEWS_BELOW	".nodes/news/"

/* Consul's error for a token that it does not know, for any request. */
#define LE_CONSUL_UNKNOWN_TOKEN "ACL not found"
#define LE_CONSUL_DENIED_WORDS "Permission denied"

/* The longest answers that make sense, in bytes. */
#define LE_CONSUL_MAX_SMALL_ANSWER	(1024 * 1024)
#define LE_CONSUL_MAX_KEY_ANSWER	(1024 * 1024)	/* a foreign key may
													 * hold 512 kB, in
													 * base64 */
#define LE_CONSUL_MAX_LIST_ANSWER	(128 * 1024 * 1024)

/* Longest strings in answers; nothing of ours is longer. */
#define LE_CONSUL_MAX_KEY_LEN	1024
#define LE_CONSUL_MAX_NAME_LEN	256
#define LE_CONSUL_MAX_ERROR_LEN 4096

/* A key as an answer shows it, while it is being read. */
typedef struct LeConsulEntry
{
	char	   *key;			/* NULL: longer than any of ours */
	char	   *session;		/* NULL: free */
	uint64		index;			/* 0: not shown */
	uint64		flags;
	const char *value;			/* base64, in the answer; NULL: none */
	size_t		value_len;
} LeConsulEntry;

/* ---- requests ---- */

extern char *le_consul_key_prefix(const LeNamespace *ns);
extern char *le_consul_key_text(const LeNamespace *ns, const LeConsulKey *key);
extern char *le_consul_value_text(const LeConsulValue *value);
extern void le_consul_start_request(const LeNamespace *ns,
									LeRequest *request,
									const char *method, const char *endpoint,
									const char *what, size_t max_answer);
extern void le_consul_add_query(LeRequest *request,
								const char *parameter);

/* ---- answers ---- */

extern void le_consul_fail_shape(const LeOp *op,
								 const LeResponse *response,
								 LeAnswer *answer);
extern bool le_consul_valid_session(const char *s);
extern bool le_consul_valid_name(const char *s);
extern char *le_consul_between(const char *s, const char *prefix,
							   const char *suffix);
extern bool le_consul_entry_field(LeConsulEntry *entry,
								  const LeJsonNode *node);
extern void le_consul_entry_to_key(const LeConsulEntry *entry,
								   const char *election, LeKey *key);
extern bool le_consul_entry_to_node(const LeConsulEntry *entry,
									const char *session, LeNodeKey *node);
extern void le_consul_entry_to_news(const LeConsulEntry *entry,
									const char *session, LeGossip *news);
extern bool le_consul_entry_to_claim(const LeConsulEntry *entry,
									 const char *election, const char *job,
									 LeClaim *claim);

#endif							/* LE_CONSUL_TEXT_H */
