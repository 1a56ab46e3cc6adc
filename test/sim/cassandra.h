/*-------------------------------------------------------------------------
 *
 * cassandra.h
 *		Cassandra's table of locks, and the statements of its gateways.
 *
 * test/sim/cassandra.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_SIM_CASSANDRA_H
#define LE_SIM_CASSANDRA_H

#include "sim.h"

/* One statement on one row, as gateway/internal/cql sends it. */
typedef enum CqlKind
{
	CQL_POLL,					/* SELECT at QUORUM */
	CQL_READ,					/* SELECT at SERIAL */
	CQL_ACQUIRE,				/* the batch of two */
	CQL_BURN,
	CQL_RENEW,
	CQL_RELEASE,
	CQL_CLAIM,
	CQL_COMPLETE
} CqlKind;

typedef struct Cql
{
	CqlKind		kind;
	int			election;
	uint64		e0;				/* ACQUIRE, BURN: the epoch expected */
	Row			row;			/* to write; RENEW, RELEASE: with the expected
								 * revision */
	int			node;			/* CLAIM, COMPLETE: owner of the term ... */
	int			job;			/* ... and job; -1: not about a job */
	ClaimRecord claim;			/* to write; a read: the row found */
	ClaimRecord previous;
	int64		second;			/* the coordinator's clock, when it began */
	Travel		travel;			/* number of its request */
} Cql;

typedef enum CqlResult
{
	CQL_APPLIED,				/* a read: the row was shown */
	CQL_REFUSED,
	CQL_NOT_SENT,
	CQL_UNKNOWN
} CqlResult;

/* ---- cassandra.c ---- */

extern int64 cassandra_second(int election);
extern bool cassandra_down(void);
extern le_time cassandra_down_until(void);
extern CqlResult cassandra_execute(Cql *cql, Row *shown);
extern void cassandra_answered(int election);
extern void cassandra_later(const Cql *cql, le_duration delay);
extern void cassandra_propose(const Cql *cql);
extern void cassandra_asked_for(int owner, le_duration lease);

/* ---- gateway.c ---- */

extern void gateways_reset(void);
extern void gateways_event(int what, int a, uint32 b);
extern void gateways_clear_up(void);
extern void gateway_kill(int number, le_duration down);
extern void gateway_freeze(int number, le_time until);
extern void gateway_serve(const Request *r, int node, uint32 process,
						  int flight, uint32 number);

/* ---- http_text.c ---- */

extern bool lock_many(LockVerb verb);
extern void text_read_request(const LeRequest *request, Request *r);
extern void text_write_answer(const Answer *a, LeResponse *response);

#endif							/* LE_SIM_CASSANDRA_H */
