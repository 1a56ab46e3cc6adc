/*-------------------------------------------------------------------------
 *
 * exchange.h
 *		One request to a store and its answer, from the corpus, and the rules
 *		for every answer.
 *
 * test/unit/exchange.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_TEST_EXCHANGE_H
#define LE_TEST_EXCHANGE_H

#include "store/store.h"

/* The corpus' names in place of recorded ones. */
#define SESSION		"11111111-1111-1111-1111-111111111111"
#define FOREIGN		"22222222-2222-2222-2222-222222222222"
#define INCARNATION	"00112233445566778899aabbccddeeff"
#define OWNER		"n1#11111111111111111111111111111111"
#define ATTEMPT		"00000000000000000000000000000001"
#define CLAIM		"0123456789abcdef0123456789abcdef"
#define PREVIOUS_CLAIM	"fedcba9876543210fedcba9876543210"

extern const LeNamespace test_namespace;

#define FILTERED	"X-Consul-Results-Filtered-By-ACLs"

extern void add_header(LeResponse *response, const char *name,
					   const char *value);
extern bool says_filtered(const LeResponse *response);
extern bool shows_header(const LeResponse *response, const char *name);


/* An operation of the kind, with all values that it may need. */
extern LeOp test_op(LeOpKind kind);
extern void add_test_news(LeOp *op);

/* Reads a file of the corpus; false if it is none.  Memory is palloc'd. */
extern bool parse_exchange(const char *text, size_t len, LeOp *op,
						   LeResponse *response);

/* Aborts with a message if an answer breaks the rules. */
extern void check_answer(const LeOp *op, const LeResponse *response,
						 const LeAnswer *answer);

/* The same for a store where each key has a lease of its own. */
extern void check_lease_answer(const LeOp *op, const LeResponse *response,
							   const LeAnswer *answer);

/* The same for a store whose leases are on blobs. */
extern void check_blob_answer(const LeOp *op, const LeResponse *response,
							  const LeAnswer *answer);

/* The user's value must survive being stored.  Aborts if it does not. */
extern void check_value(const char *value);

#endif							/* LE_TEST_EXCHANGE_H */
