/*-------------------------------------------------------------------------
 *
 * consul_plan.h
 *		Transactions of the store "consul", and the meaning of results.
 *
 * Data without text: an operation becomes a list of steps, results become an
 * answer.  consul_text.c prints and reads them as Consul's JSON; the simulator
 * runs the very same steps in its model of Consul.
 *
 * src/store/consul_plan.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_CONSUL_PLAN_H
#define LE_CONSUL_PLAN_H

#include "store/store.h"

/* Consul takes no more in a transaction; a node proof has nearly as many. */
#define LE_CONSUL_MAX_STEPS		64

/* The shortest TTL that Consul grants a session. */
#define LE_CONSUL_LEAST_SESSION (10 * LE_SEC)

/* Steps that joined operations share: our node key, our news, and the node key
 * of the holder that is taken over from. */
#define LE_CONSUL_COMMON_STEPS	5

/* Conditions first, then writes. */
typedef enum LeConsulVerb
{
	LE_CONSUL_CHECK_SESSION,	/* the key is locked by it; "": by none */
	LE_CONSUL_CHECK_INDEX,
	LE_CONSUL_CHECK_ABSENT,
	LE_CONSUL_LOCK,
	LE_CONSUL_UNLOCK,
	LE_CONSUL_CAS,
	LE_CONSUL_SET,
	LE_CONSUL_DELETE
} LeConsulVerb;

/* The meaning of a step's failure. */
typedef enum LeConsulRole
{
	LE_CONSUL_OWN,				/* our session or its node key is gone */
	LE_CONSUL_UNCHANGED,		/* the key is not as it was read */
	LE_CONSUL_FREE_OF_PATRONI,	/* the key's directory belongs to Patroni */
	LE_CONSUL_HELD,				/* this election's key is not ours */
	LE_CONSUL_WRITE				/* the write itself: the reason decides */
} LeConsulRole;

/* Keys; the head of consul_text.c has their names in Consul. */
typedef struct LeConsulKey
{
	enum
	{
		LE_CONSUL_LEADER,		/* the named election's */
		LE_CONSUL_CONFIG,		/* Patroni's, beside it */
		LE_CONSUL_INITIALIZE,	/* the same */
		LE_CONSUL_NODE,			/* the named session's */
		LE_CONSUL_NEWS,			/* the same */
		LE_CONSUL_CLAIM			/* the election's job's */
	}			kind;
	const char *name;
	const char *job;
} LeConsulKey;

/* The value that a step writes, all of it taken from an operation. */
typedef struct LeConsulValue
{
	enum
	{
		LE_CONSUL_NOTHING,
		LE_CONSUL_VALUE_OF_LEADER,	/* node, session, value, token */
		LE_CONSUL_VALUE_OF_NODE,	/* our own node key */
		LE_CONSUL_VALUE_OF_TARGET,	/* the node key of the target */
		LE_CONSUL_VALUE_OF_NEWS,
		LE_CONSUL_VALUE_OF_CLAIM
	}			kind;
	const LeOp *op;
	uint64		token;			/* the leader's term's; 0: the index is it */
	bool		ended;			/* released, revoked */
} LeConsulValue;

typedef struct LeConsulStep
{
	LeConsulRole role;
	int			part;			/* for which of the operations; or ... */
	LeConsulVerb verb;
	LeConsulKey key;
	const char *session;		/* NULL: none to be sent */
	uint64		index;			/* 0: none to be sent */
	LeConsulValue value;
} LeConsulStep;

#define LE_CONSUL_ALL_PARTS		(-1)	/* ... for each of them */

/* One transaction, for one operation or for several joined ones. */
typedef struct LeConsulPlan
{
	const LeOp *op;
	int			nsteps;
	int			nparts;
	int			part;			/* being planned */
	int			write[LE_MAX_JOINED];	/* each part's step that writes */
	LeConsulStep steps[LE_CONSUL_MAX_STEPS];
} LeConsulPlan;

/* Why a step was refused. */
typedef enum LeConsulReason
{
	LE_CONSUL_DENIED,			/* the token may not */
	LE_CONSUL_NO_SESSION,		/* the step's session is gone */
	LE_CONSUL_DELAYED,			/* the key's lock-delay is not over */
	LE_CONSUL_HELD_BY_OTHER,	/* a session other than the step's has it */
	LE_CONSUL_CHANGED			/* any other condition */
} LeConsulReason;

/* The key that a part writes, as the answer shows it. */
typedef struct LeConsulWritten
{
	uint64		index;			/* 0: it is not shown */
	bool		flagged;		/* it carries our lock flag */
	const char *session;		/* the one that holds it; NULL: none */
} LeConsulWritten;

/* An answer to a transaction while it is being read. */
typedef struct LeConsulOutcome
{
	const LeConsulPlan *plan;
	LeAnswer   *answers;		/* one for each part */
	int			nrefused;
	int			weight[LE_MAX_JOINED];	/* the gravest so far */
	LeConsulWritten written[LE_MAX_JOINED];
} LeConsulOutcome;

/* Times of a session. */
extern int64 le_consul_ttl_seconds(le_duration lease);
extern int64 le_consul_lock_delay_seconds(le_duration lease);

/* False if the operation is not a transaction. */
extern bool le_consul_plan(const LeOp *op, LeConsulPlan *plan);

/* Results: begin, then the refused or written steps, then settle. */
extern void le_consul_begin(LeConsulOutcome *outcome,
							const LeConsulPlan *plan, LeAnswer *answer);
extern void le_consul_refused(LeConsulOutcome *outcome, int step,
							  LeConsulReason reason, const char *detail);
extern bool le_consul_settle(LeConsulOutcome *outcome, bool refused,
							 LeAnswer *answer);

/* Rules for data from reads. */
extern uint64 le_consul_token(const LeKey *key, uint64 written);
extern uint64 le_consul_next_index(const LeOp *op, uint64 index);
extern bool le_consul_date_items(const LeGossip *news, LeGossipItem *items);

/* Several operations in one transaction. */
extern int	le_consul_takes(const LeOp *op);
extern bool le_consul_joins(const LeOp *op, const LeOp *other);

#endif							/* LE_CONSUL_PLAN_H */
