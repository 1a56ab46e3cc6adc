/*-------------------------------------------------------------------------
 *
 * consul_plan.h
 *		Transactions of the store "consul", and what their results mean.
 *
 * Data without text: an operation becomes a list of steps, results become an
 * answer.  consul_text.c prints and reads them as Consul's JSON; the simulator
 * carries out the very same steps in its model of Consul.
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

/* Steps that joined operations have in common: our node key, our news, and
 * the node key of the holder that is taken over from. */
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

/* What it means when a step of a transaction fails. */
typedef enum LeConsulRole
{
	LE_CONSUL_OWN,				/* our session or its node key is gone */
	LE_CONSUL_UNCHANGED,		/* the key is not as it was read */
	LE_CONSUL_FREE_OF_PATRONI,	/* the key's directory belongs to Patroni */
	LE_CONSUL_HELD,				/* this election's key is not ours */
	LE_CONSUL_WRITE				/* the write itself: the reason tells */
} LeConsulRole;

/* Keys; the head of consul_text.c has their names in Consul. */
typedef struct LeConsulKey
{
	enum
	{
		LE_CONSUL_LEADER,		/* of the election that is named */
		LE_CONSUL_CONFIG,		/* Patroni's, beside it */
		LE_CONSUL_INITIALIZE,	/* the same */
		LE_CONSUL_NODE,			/* of the session that is named */
		LE_CONSUL_NEWS,			/* the same */
		LE_CONSUL_CLAIM			/* of the election's job */
	}			kind;
	const char *name;
	const char *job;
} LeConsulKey;

/* What a step writes, all of it taken from an operation. */
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
	uint64		token;			/* of the leader's term; 0: the index is it */
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

/* One transaction, for one operation or for several that are joined in it. */
typedef struct LeConsulPlan
{
	const LeOp *op;
	int			nsteps;
	int			nparts;
	int			part;			/* being planned */
	int			write[LE_MAX_JOINED];	/* the step that writes, of each */
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
	const char *session;		/* that holds it; NULL: none */
} LeConsulWritten;

/* An answer to a transaction while it is being read. */
typedef struct LeConsulOutcome
{
	const LeConsulPlan *plan;
	LeAnswer   *answers;		/* one for each part */
	int			nrefused;
	int			weight[LE_MAX_JOINED];	/* of the gravest so far */
	LeConsulWritten written[LE_MAX_JOINED];
} LeConsulOutcome;

/* What a session is made with. */
extern int64 le_consul_ttl_seconds(le_duration lease);
extern int64 le_consul_lock_delay_seconds(le_duration lease);

/* False if the operation is not a transaction. */
extern bool le_consul_plan(const LeOp *op, LeConsulPlan *plan);

/* Results: begin, then what was refused or what was written, then settle. */
extern void le_consul_begin(LeConsulOutcome *outcome,
							const LeConsulPlan *plan, LeAnswer *answer);
extern void le_consul_refused(LeConsulOutcome *outcome, int step,
							  LeConsulReason reason, const char *detail);
extern bool le_consul_settle(LeConsulOutcome *outcome, bool refused,
							 LeAnswer *answer);

/* Rules for what reads show. */
extern uint64 le_consul_token(const LeKey *key, uint64 written);
extern uint64 le_consul_next_index(const LeOp *op, uint64 index);
extern bool le_consul_date_items(const LeGossip *news, LeGossipItem *items);

/* Several operations in one transaction. */
extern int	le_consul_takes(const LeOp *op);
extern bool le_consul_joins(const LeOp *op, const LeOp *other);

#endif							/* LE_CONSUL_PLAN_H */
