/*-------------------------------------------------------------------------
 *
 * test_node.c
 *		Tests of src/core/node.c: every cell of its table, stories, and a
 *		model in which several nodes use both machines on one store.
 *
 * test/unit/test_node.c
 *
 *-------------------------------------------------------------------------
 */
#include "core_test.h"

#define NOW			(T0 + 100 * LE_SEC)
#define TRUST		(14 * LE_SEC)	/* lease - margin */
#define RANDOM		(UINT32_C(1) << 31)

/* ---- the cells ---- */

/* Origin of a state, where it matters. */
typedef enum Past
{
	PLAIN,						/* the request of the step is in flight */
	UNWANTED,
	DUE,						/* the pause before the step is over */
	DUE_UNWANTED,
	EARLY,						/* ... but for one nanosecond */
	BAD_SETUPS,					/* two sessions could not be used */
	OFTEN,						/* the step failed twice already */
	DESTROYED,					/* we ended it */
	LAST_SECOND,				/* live, one nanosecond before the deadline */
	TOO_LATE,					/* live, at the deadline */
	BUSY,						/* live, proof and renewal are in flight */
	ASKED,						/* ... and another proof was asked for */
	ROUND,						/* live, the round is due */
	CLOSE,						/* ... the renewal later by the jitter */
	APART,						/* ... and by one nanosecond more */
	CLOSE_PROOF,				/* ... the proof later by the jitter */
	PAUSED,						/* the proof is due; the renewal has failed,
								 * and is in one nanosecond */
	WORN						/* live and busy, two attempts failed */
} Past;

typedef struct Cell
{
	int			line;
	LeNodeState from;
	Past		past;
	LeNodeInputKind event;
	LeOutcome	outcome;
	le_time		sent;			/* before NOW */
	uint64_t	index;
	int			held;
	int			named;
	bool		early;

	/* expected */
	LeNodeState to;
	unsigned	send;
	le_duration timeout;		/* 0: request_timeout */
	LeReason	ends;			/* all terms end, with this reason */
	le_time		deadline;		/* after NOW, if it moves */
	bool		live;
	bool		ended;
	bool		failed;
	LeOutcome	because;
	le_time		timer;			/* le_node_timer() after NOW; 0: as is */
	le_duration pause;			/* step_at after NOW; 0: none */
	bool		unwanted;
} Cell;

#define AT		.line = __LINE__
#define U		.unwanted = true
#define PAUSE1	(75 * LE_MSEC)	/* after one failure, at RANDOM */
#define PAUSE2	(150 * LE_MSEC)
#define PAUSE3	(300 * LE_MSEC)

static const Cell cells[] = {
	/* none */
	{AT, LE_NODE_NONE, UNWANTED, LE_NODE_IN_WANT,
		.to = LE_NODE_CREATING, .send = LE_NODE_SEND_CREATE},
	{AT, LE_NODE_NONE, UNWANTED, LE_NODE_IN_UNWANT, .to = LE_NODE_NONE, U},

	/* creating */
	{AT, LE_NODE_CREATING, UNWANTED, LE_NODE_IN_WANT,
		.to = LE_NODE_CREATING},
	{AT, LE_NODE_CREATING, .event = LE_NODE_IN_UNWANT,
		.to = LE_NODE_CREATING, U},
	{AT, LE_NODE_CREATING, EARLY, LE_NODE_IN_UNWANT,
		.to = LE_NODE_NONE, .ended = true, U},
	{AT, LE_NODE_CREATING, .event = LE_NODE_IN_DONE, .sent = LE_SEC,
		.to = LE_NODE_VERIFYING, .send = LE_NODE_SEND_VERIFY},
	{AT, LE_NODE_CREATING, UNWANTED, LE_NODE_IN_DONE, .sent = LE_SEC,
		.to = LE_NODE_LISTING, .send = LE_NODE_SEND_LIST, U},
	{AT, LE_NODE_CREATING, .event = LE_NODE_IN_FAILED,
		.outcome = LE_UNKNOWN, .to = LE_NODE_CREATING, .failed = true,
		.because = LE_UNKNOWN, .pause = PAUSE1},
	{AT, LE_NODE_CREATING, OFTEN, LE_NODE_IN_FAILED, .outcome = LE_REFUSED,
		.to = LE_NODE_CREATING, .failed = true, .because = LE_REFUSED,
		.pause = PAUSE3},
	{AT, LE_NODE_CREATING, UNWANTED, LE_NODE_IN_FAILED,
		.outcome = LE_UNKNOWN, .to = LE_NODE_NONE, .ended = true, U},
	{AT, LE_NODE_CREATING, EARLY, LE_NODE_IN_TIMER,
		.to = LE_NODE_CREATING, .pause = 1},
	{AT, LE_NODE_CREATING, DUE, LE_NODE_IN_TIMER,
		.to = LE_NODE_CREATING, .send = LE_NODE_SEND_CREATE},
	{AT, LE_NODE_CREATING, DUE_UNWANTED, LE_NODE_IN_TIMER,
		.to = LE_NODE_NONE, .ended = true, U},
	{AT, LE_NODE_CREATING, .event = LE_NODE_IN_TIMER,
		.to = LE_NODE_CREATING},

	/* verifying */
	{AT, LE_NODE_VERIFYING, UNWANTED, LE_NODE_IN_WANT,
		.to = LE_NODE_VERIFYING},
	{AT, LE_NODE_VERIFYING, .event = LE_NODE_IN_UNWANT,
		.to = LE_NODE_VERIFYING, U},
	{AT, LE_NODE_VERIFYING, .event = LE_NODE_IN_DONE,
		.to = LE_NODE_REGISTERING, .send = LE_NODE_SEND_REGISTER},
	{AT, LE_NODE_VERIFYING, .event = LE_NODE_IN_FAILED,
		.outcome = LE_REFUSED, .to = LE_NODE_LISTING,
		.send = LE_NODE_SEND_LIST, .failed = true, .because = LE_REFUSED},
	{AT, LE_NODE_VERIFYING, .event = LE_NODE_IN_FAILED, .outcome = LE_LOST,
		.to = LE_NODE_REVOKING, .send = LE_NODE_SEND_REVOKE,
		.failed = true, .because = LE_LOST},

	/* registering */
	{AT, LE_NODE_REGISTERING, UNWANTED, LE_NODE_IN_WANT,
		.to = LE_NODE_REGISTERING},
	{AT, LE_NODE_REGISTERING, .event = LE_NODE_IN_UNWANT,
		.to = LE_NODE_REGISTERING, U},
	{AT, LE_NODE_REGISTERING, .event = LE_NODE_IN_DONE, .sent = LE_SEC,
		.index = 40, .to = LE_NODE_LIVE, .deadline = TRUST - 2 * LE_SEC,
		.live = true, .timer = 3 * LE_SEC - LE_SEC / 4},
	{AT, LE_NODE_REGISTERING, UNWANTED, LE_NODE_IN_DONE, .sent = LE_SEC,
		.index = 40, .to = LE_NODE_LISTING, .send = LE_NODE_SEND_LIST, U},
	{AT, LE_NODE_REGISTERING, .event = LE_NODE_IN_DONE,
		.sent = TRUST - 1, .index = 40, .to = LE_NODE_LIVE, .deadline = 1,
		.live = true, .timer = 5 * LE_SEC - TRUST - LE_SEC / 4},
	{AT, LE_NODE_REGISTERING, .event = LE_NODE_IN_DONE,
		.sent = TRUST, .index = 40, .to = LE_NODE_LISTING,
		.send = LE_NODE_SEND_LIST},
	{AT, LE_NODE_REGISTERING, .event = LE_NODE_IN_FAILED,
		.outcome = LE_UNKNOWN, .to = LE_NODE_LISTING,
		.send = LE_NODE_SEND_LIST, .failed = true, .because = LE_UNKNOWN},
	{AT, LE_NODE_REGISTERING, .event = LE_NODE_IN_FAILED,
		.outcome = LE_LOST, .to = LE_NODE_REVOKING,
		.send = LE_NODE_SEND_REVOKE, .failed = true, .because = LE_LOST},

	/* live: proof sent 5 s ago, renewal 4 s ago, deadline in 9 s */
	{AT, LE_NODE_LIVE, .event = LE_NODE_IN_WANT, .to = LE_NODE_LIVE},
	{AT, LE_NODE_LIVE, .event = LE_NODE_IN_UNWANT,
		.to = LE_NODE_LISTING, .send = LE_NODE_SEND_LIST,
		.ends = LE_REASON_RELEASED, U},
	{AT, LE_NODE_LIVE, BUSY, LE_NODE_IN_RENEWED, .sent = LE_SEC,
		.to = LE_NODE_LIVE, .timer = 4 * LE_SEC - LE_SEC / 4},
	{AT, LE_NODE_LIVE, LAST_SECOND, LE_NODE_IN_RENEWED, .sent = LE_SEC,
		.to = LE_NODE_LIVE, .timer = 1},
	{AT, LE_NODE_LIVE, TOO_LATE, LE_NODE_IN_RENEWED, .sent = LE_SEC,
		.to = LE_NODE_LISTING, .send = LE_NODE_SEND_LIST,
		.ends = LE_REASON_EXPIRED},
	{AT, LE_NODE_LIVE, BUSY, LE_NODE_IN_RENEW_FAILED,
		.outcome = LE_UNKNOWN, .to = LE_NODE_LIVE, .failed = true,
		.because = LE_UNKNOWN, .timer = PAUSE1},
	{AT, LE_NODE_LIVE, WORN, LE_NODE_IN_RENEW_FAILED,
		.outcome = LE_UNAVAILABLE, .to = LE_NODE_LIVE, .failed = true,
		.because = LE_UNAVAILABLE, .timer = PAUSE3},
	{AT, LE_NODE_LIVE, BUSY, LE_NODE_IN_RENEW_FAILED, .outcome = LE_LOST,
		.to = LE_NODE_REVOKING, .send = LE_NODE_SEND_REVOKE,
		.ends = LE_REASON_SESSION_LOST},
	{AT, LE_NODE_LIVE, BUSY, LE_NODE_IN_PROVED, .sent = LE_SEC, .index = 41,
		.to = LE_NODE_LIVE, .deadline = TRUST - 4 * LE_SEC,
		.timer = 4 * LE_SEC - LE_SEC / 4},
	{AT, LE_NODE_LIVE, BUSY, LE_NODE_IN_PROVED, .sent = LE_SEC, .index = 40,
		.to = LE_NODE_LIVE, .timer = PAUSE1},
	{AT, LE_NODE_LIVE, BUSY, LE_NODE_IN_PROVED, .sent = LE_SEC, .index = 39,
		.to = LE_NODE_LIVE, .timer = PAUSE1},
	{AT, LE_NODE_LIVE, LAST_SECOND, LE_NODE_IN_PROVED, .sent = LE_SEC,
		.index = 41, .to = LE_NODE_LIVE, .deadline = TRUST - 4 * LE_SEC,
		.timer = 4 * LE_SEC - LE_SEC / 4},
	{AT, LE_NODE_LIVE, TOO_LATE, LE_NODE_IN_PROVED, .sent = LE_SEC,
		.index = 41, .to = LE_NODE_LISTING, .send = LE_NODE_SEND_LIST,
		.ends = LE_REASON_EXPIRED},
	{AT, LE_NODE_LIVE, ASKED, LE_NODE_IN_PROVED, .sent = LE_SEC,
		.index = 41, .to = LE_NODE_LIVE, .deadline = TRUST - 4 * LE_SEC,
		.send = LE_NODE_SEND_PROOF, .timeout = 10 * LE_SEC / 3},
	{AT, LE_NODE_LIVE, BUSY, LE_NODE_IN_PROOF_FAILED,
		.outcome = LE_UNKNOWN, .to = LE_NODE_LIVE, .failed = true,
		.because = LE_UNKNOWN, .timer = PAUSE1},
	{AT, LE_NODE_LIVE, BUSY, LE_NODE_IN_PROOF_FAILED, .outcome = LE_LOST,
		.to = LE_NODE_LISTING, .send = LE_NODE_SEND_LIST,
		.ends = LE_REASON_SESSION_LOST},
	{AT, LE_NODE_LIVE, BUSY, LE_NODE_IN_PROOF_FAILED,
		.outcome = LE_CONFLICT, .to = LE_NODE_LIVE,
		.send = LE_NODE_SEND_PROOF, .timeout = 9 * LE_SEC / 2},
	{AT, LE_NODE_LIVE, WORN, LE_NODE_IN_PROOF_FAILED,
		.outcome = LE_CONFLICT, .to = LE_NODE_LIVE, .failed = true,
		.because = LE_CONFLICT, .timer = PAUSE3},
	{AT, LE_NODE_LIVE, .event = LE_NODE_IN_PROVE_NOW, .to = LE_NODE_LIVE,
		.send = LE_NODE_SEND_PROOF | LE_NODE_SEND_RENEW,
		.timeout = 3 * LE_SEC},
	{AT, LE_NODE_LIVE, BUSY, LE_NODE_IN_PROVE_NOW, .to = LE_NODE_LIVE},
	{AT, LE_NODE_LIVE, TOO_LATE, LE_NODE_IN_PROVE_NOW,
		.to = LE_NODE_LISTING, .send = LE_NODE_SEND_LIST,
		.ends = LE_REASON_EXPIRED},
	{AT, LE_NODE_LIVE, .event = LE_NODE_IN_TIMER, .to = LE_NODE_LIVE,
		.timer = 1},
	{AT, LE_NODE_LIVE, ROUND, LE_NODE_IN_TIMER, .to = LE_NODE_LIVE,
		.send = LE_NODE_SEND_PROOF | LE_NODE_SEND_RENEW,
		.timeout = 3 * LE_SEC, .timer = 9 * LE_SEC},
	{AT, LE_NODE_LIVE, CLOSE, LE_NODE_IN_TIMER, .to = LE_NODE_LIVE,
		.send = LE_NODE_SEND_PROOF | LE_NODE_SEND_RENEW,
		.timeout = 3 * LE_SEC, .timer = 9 * LE_SEC},
	{AT, LE_NODE_LIVE, CLOSE_PROOF, LE_NODE_IN_TIMER, .to = LE_NODE_LIVE,
		.send = LE_NODE_SEND_PROOF | LE_NODE_SEND_RENEW,
		.timeout = 3 * LE_SEC, .timer = 9 * LE_SEC},
	{AT, LE_NODE_LIVE, APART, LE_NODE_IN_TIMER, .to = LE_NODE_LIVE,
		.send = LE_NODE_SEND_PROOF, .timeout = 3 * LE_SEC,
		.timer = LE_SEC / 2 + 1},
	{AT, LE_NODE_LIVE, PAUSED, LE_NODE_IN_TIMER, .to = LE_NODE_LIVE,
		.send = LE_NODE_SEND_PROOF, .timeout = 3 * LE_SEC, .timer = 1},
	{AT, LE_NODE_LIVE, BUSY, LE_NODE_IN_TIMER, .to = LE_NODE_LIVE,
		.timer = 9 * LE_SEC},
	{AT, LE_NODE_LIVE, LAST_SECOND, LE_NODE_IN_TIMER,
		.to = LE_NODE_LIVE, .timer = 1},
	{AT, LE_NODE_LIVE, TOO_LATE, LE_NODE_IN_TIMER,
		.to = LE_NODE_LISTING, .send = LE_NODE_SEND_LIST,
		.ends = LE_REASON_EXPIRED},

	/* listing */
	{AT, LE_NODE_LISTING, UNWANTED, LE_NODE_IN_WANT, .to = LE_NODE_LISTING},
	{AT, LE_NODE_LISTING, .event = LE_NODE_IN_UNWANT,
		.to = LE_NODE_LISTING, U},
	{AT, LE_NODE_LISTING, OFTEN, LE_NODE_IN_LISTED, .held = 0,
		.to = LE_NODE_DESTROYING, .send = LE_NODE_SEND_DESTROY},
	{AT, LE_NODE_LISTING, .event = LE_NODE_IN_LISTED, .held = 1,
		.to = LE_NODE_UNLOCKING, .send = LE_NODE_SEND_UNLOCKS},
	{AT, LE_NODE_LISTING, .event = LE_NODE_IN_LISTED, .held = 1, .early = true,
		.to = LE_NODE_UNLOCKING, .send = LE_NODE_SEND_UNLOCKS},
	{AT, LE_NODE_LISTING, .event = LE_NODE_IN_LISTED, .early = true,
		.to = LE_NODE_LISTING, .pause = PAUSE1},
	{AT, LE_NODE_LISTING, OFTEN, LE_NODE_IN_LISTED, .early = true,
		.to = LE_NODE_LISTING, .pause = PAUSE3},
	{AT, LE_NODE_LISTING, .event = LE_NODE_IN_FAILED, .outcome = LE_REFUSED,
		.to = LE_NODE_LISTING, .failed = true, .because = LE_REFUSED,
		.pause = PAUSE1},
	{AT, LE_NODE_LISTING, EARLY, LE_NODE_IN_TIMER, .to = LE_NODE_LISTING,
		.pause = 1},
	{AT, LE_NODE_LISTING, DUE, LE_NODE_IN_TIMER, .to = LE_NODE_LISTING,
		.send = LE_NODE_SEND_LIST},
	{AT, LE_NODE_LISTING, .event = LE_NODE_IN_TIMER, .to = LE_NODE_LISTING},

	/* unlocking: one key */
	{AT, LE_NODE_UNLOCKING, UNWANTED, LE_NODE_IN_WANT,
		.to = LE_NODE_UNLOCKING},
	{AT, LE_NODE_UNLOCKING, .event = LE_NODE_IN_UNWANT,
		.to = LE_NODE_UNLOCKING, U},
	{AT, LE_NODE_UNLOCKING, .event = LE_NODE_IN_UNLOCKED,
		.to = LE_NODE_LISTING, .send = LE_NODE_SEND_LIST},
	{AT, LE_NODE_UNLOCKING, OFTEN, LE_NODE_IN_UNLOCKED,
		.to = LE_NODE_LISTING, .pause = PAUSE3},

	/* destroying */
	{AT, LE_NODE_DESTROYING, UNWANTED, LE_NODE_IN_WANT,
		.to = LE_NODE_DESTROYING},
	{AT, LE_NODE_DESTROYING, .event = LE_NODE_IN_UNWANT,
		.to = LE_NODE_DESTROYING, U},
	{AT, LE_NODE_DESTROYING, .event = LE_NODE_IN_DONE,
		.to = LE_NODE_FORGETTING, .send = LE_NODE_SEND_FORGET},
	{AT, LE_NODE_DESTROYING, .named = 1, .event = LE_NODE_IN_DONE,
		.to = LE_NODE_REVOKING, .send = LE_NODE_SEND_REVOKE},
	{AT, LE_NODE_DESTROYING, .event = LE_NODE_IN_FAILED,
		.outcome = LE_UNKNOWN, .to = LE_NODE_DESTROYING, .failed = true,
		.because = LE_UNKNOWN, .pause = PAUSE1},
	{AT, LE_NODE_DESTROYING, EARLY, LE_NODE_IN_TIMER,
		.to = LE_NODE_DESTROYING, .pause = 1},
	{AT, LE_NODE_DESTROYING, DUE, LE_NODE_IN_TIMER,
		.to = LE_NODE_DESTROYING, .send = LE_NODE_SEND_DESTROY},

	/* revoking */
	{AT, LE_NODE_REVOKING, UNWANTED, LE_NODE_IN_WANT,
		.to = LE_NODE_REVOKING},
	{AT, LE_NODE_REVOKING, .event = LE_NODE_IN_UNWANT,
		.to = LE_NODE_REVOKING, U},
	{AT, LE_NODE_REVOKING, PLAIN, LE_NODE_IN_DONE, .to = LE_NODE_CREATING,
		.send = LE_NODE_SEND_CREATE, .ended = true},
	{AT, LE_NODE_REVOKING, UNWANTED, LE_NODE_IN_DONE, .to = LE_NODE_NONE,
		.ended = true, U},
	{AT, LE_NODE_REVOKING, PLAIN, LE_NODE_IN_FAILED, .outcome = LE_CONFLICT,
		.to = LE_NODE_LISTING, .send = LE_NODE_SEND_LIST},
	{AT, LE_NODE_REVOKING, DESTROYED, LE_NODE_IN_FAILED,
		.outcome = LE_CONFLICT, .to = LE_NODE_CREATING,
		.send = LE_NODE_SEND_CREATE, .ended = true},
	{AT, LE_NODE_REVOKING, PLAIN, LE_NODE_IN_FAILED,
		.outcome = LE_UNKNOWN, .to = LE_NODE_REVOKING, .failed = true,
		.because = LE_UNKNOWN, .pause = PAUSE1},
	{AT, LE_NODE_REVOKING, PLAIN, LE_NODE_IN_FAILED,
		.outcome = LE_UNAVAILABLE, .to = LE_NODE_REVOKING, .failed = true,
		.because = LE_UNAVAILABLE, .pause = PAUSE1},
	{AT, LE_NODE_REVOKING, PLAIN, LE_NODE_IN_FAILED,
		.outcome = LE_REFUSED, .to = LE_NODE_CREATING,
		.send = LE_NODE_SEND_CREATE, .ended = true},
	{AT, LE_NODE_REVOKING, BAD_SETUPS, LE_NODE_IN_DONE,
		.to = LE_NODE_CREATING, .ended = true, .pause = PAUSE2},
	{AT, LE_NODE_REVOKING, EARLY, LE_NODE_IN_TIMER,
		.to = LE_NODE_REVOKING, .pause = 1},
	{AT, LE_NODE_REVOKING, DUE, LE_NODE_IN_TIMER,
		.to = LE_NODE_REVOKING, .send = LE_NODE_SEND_REVOKE},

	/* forgetting */
	{AT, LE_NODE_FORGETTING, UNWANTED, LE_NODE_IN_WANT,
		.to = LE_NODE_FORGETTING},
	{AT, LE_NODE_FORGETTING, .event = LE_NODE_IN_UNWANT,
		.to = LE_NODE_FORGETTING, U},
	{AT, LE_NODE_FORGETTING, DESTROYED, LE_NODE_IN_DONE,
		.to = LE_NODE_CREATING, .send = LE_NODE_SEND_CREATE,
		.ended = true},
	{AT, LE_NODE_FORGETTING, UNWANTED, LE_NODE_IN_DONE,
		.to = LE_NODE_NONE, .ended = true, U},
	{AT, LE_NODE_FORGETTING, DESTROYED, LE_NODE_IN_FAILED,
		.outcome = LE_CONFLICT, .to = LE_NODE_CREATING,
		.send = LE_NODE_SEND_CREATE, .ended = true},
	{AT, LE_NODE_FORGETTING, DESTROYED, LE_NODE_IN_FAILED,
		.outcome = LE_UNAVAILABLE, .to = LE_NODE_FORGETTING,
		.failed = true, .because = LE_UNAVAILABLE, .pause = PAUSE1},
	{AT, LE_NODE_FORGETTING, DUE, LE_NODE_IN_TIMER,
		.to = LE_NODE_FORGETTING, .send = LE_NODE_SEND_FORGET},
};

/* A node in the given state, as if it had got there. */
static LeNode
node_in(LeNodeState state, Past past)
{
	LeNode		n;

	le_node_init(&n);
	le_node_set_timing(&n, &defaults);
	n.state = state;
	n.wanted = state != LE_NODE_NONE && past != UNWANTED &&
		past != DUE_UNWANTED;
	n.epoch = 3;
	n.seq = 5;
	n.renew_sent = NOW - 2 * LE_SEC;
	n.unlocks = state == LE_NODE_UNLOCKING;
	n.destroyed = state == LE_NODE_FORGETTING;
	n.gone = n.destroyed || state == LE_NODE_REVOKING;
	if (state == LE_NODE_LIVE)
	{
		n.proof_index = 40;
		n.proof_sent = NOW - 5 * LE_SEC;
		n.renew_sent = NOW - 4 * LE_SEC;
		n.deadline = NOW + 9 * LE_SEC;
		n.prove_at = n.renew_at = NOW + 1;
	}
	switch (past)
	{
		case DUE:
		case DUE_UNWANTED:
			n.step_at = NOW;
			break;
		case EARLY:
			n.step_at = state == LE_NODE_LIVE ? 0 : NOW + 1;
			break;
		case BAD_SETUPS:
			n.gone = true;
			n.setup_failures = 2;
			break;
		case OFTEN:
			n.step_failures = 2;
			break;
		case DESTROYED:
			n.destroyed = true;
			n.gone = true;
			break;
		case LAST_SECOND:
		case TOO_LATE:
			n.deadline = NOW + (past == LAST_SECOND);
			n.proof_sent = n.deadline - TRUST;
			n.proving = n.renewing = true;
			break;
		case ASKED:
			n.prove_again = true;
			n.proving = n.renewing = true;
			break;
		case WORN:
			n.proof_failures = n.renew_failures = 2;
			n.proving = n.renewing = true;
			break;
		case BUSY:
			n.proving = n.renewing = true;
			break;
		case ROUND:
			n.prove_at = n.renew_at = NOW;
			break;
		case CLOSE:
			n.prove_at = NOW;
			n.renew_at = NOW + LE_SEC / 2;
			break;
		case APART:
			n.prove_at = NOW;
			n.renew_at = NOW + LE_SEC / 2 + 1;
			break;
		case CLOSE_PROOF:
			n.prove_at = NOW + LE_SEC / 2;
			n.renew_at = NOW;
			break;
		case PAUSED:
			n.prove_at = NOW;
			n.renew_at = NOW + 1;
			n.renew_failures = 1;
			break;
		default:
			break;
	}
	return n;
}

static void
every_cell_does_what_the_table_says(void **state)
{
	(void) state;
	for (size_t i = 0; i < lengthof(cells); i++)
	{
		const Cell *c = &cells[i];
		int			line = c->line;
		LeNode		n = node_in(c->from, c->past);
		LeNode		before;
		LeNodeInput ev = {
			.kind = c->event, .now = NOW, .random = RANDOM,
			.outcome = c->outcome, .sent = NOW - c->sent,
			.index = c->index, .held = c->held, .named = c->named,
			.early = c->early
		};
		LeNodeActions act;

		if (c->from == LE_NODE_DESTROYING)
			n.named = c->named;
		before = n;
		check_holds(line, le_node_sound(&n));
		check_holds(line, le_node_contract(&n, &ev));
		act = le_node_input(&n, &ev);
		check_holds(line, le_node_check(&before, &ev, &n, &act));
		check_int(n.state, c->to);
		check_int(act.send, c->send);
		if (c->send != 0)
			check_int(act.timeout, c->timeout != 0 ? c->timeout :
					  defaults.request_timeout);
		check_int(act.terms_end, c->ends != LE_REASON_NONE);
		check_int(act.reason, c->ends);
		check_int(n.deadline, c->deadline != 0 ? NOW + c->deadline :
				  c->to == LE_NODE_LIVE ? before.deadline : 0);
		check_int(act.became_live, c->live);
		check_int(act.ended, c->ended);
		check_int(act.failed, c->failed);
		check_int(act.outcome, c->because);
		if (c->timer != 0)
			check(le_node_timer(&n) >= NOW + c->timer - 2048 &&
				  le_node_timer(&n) <= NOW + c->timer + 2048);
		if (c->to == LE_NODE_LIVE)
			check_int(n.step_at, 0);
		else if (c->pause == 0)
			check_int(le_node_timer(&n), 0);
		else
			check(le_node_timer(&n) > NOW &&
				  le_node_timer(&n) >= NOW + c->pause - 1024 &&
				  le_node_timer(&n) <= NOW + c->pause);
		check_int(n.wanted, !c->unwanted);
	}
}

/* Cells that the list above does not name are empty: they change nothing. */
static void
every_other_cell_is_empty(void **state)
{
	static const Past pasts[] = {PLAIN, UNWANTED, DUE, BUSY};
	bool		listed[LE_NODE_NSTATES][LE_NODE_NINPUTS] = {{false}};
	int			empty = 0;

	(void) state;
	for (size_t i = 0; i < lengthof(cells); i++)
		listed[cells[i].from][cells[i].event] = true;
	for (int from = 0; from < LE_NODE_NSTATES; from++)
	{
		for (int event = 0; event < LE_NODE_NINPUTS; event++)
		{
			if (listed[from][event])
				continue;
			empty++;
			for (size_t p = 0; p < lengthof(pasts); p++)
			{
				int			line = from * 100 + event;
				LeNode		n = node_in(from, pasts[p]);
				LeNode		before = n;
				LeNodeInput ev = {
					.kind = event, .now = NOW, .sent = NOW - 1,
					.index = 300, .outcome = LE_LOST
				};
				LeNodeActions act = le_node_input(&n, &ev);
				LeNodeActions none = {0};

				check(memcmp(&n, &before, sizeof(n)) == 0);
				check(memcmp(&act, &none, sizeof(act)) == 0);
			}
		}
	}
	assert_int_equal(empty, LE_NODE_NSTATES * LE_NODE_NINPUTS - 46);
}

/* ---- stories ---- */

typedef struct Story
{
	LeNode		n;
	le_time		now;
	LeNodeActions act;			/* the last event's */
} Story;

static void
feed(Story *s, LeNodeInput ev)
{
	LeNode		before = s->n;

	ev.now = s->now;
	check_holds(0, le_node_contract(&s->n, &ev));
	s->act = le_node_input(&s->n, &ev);
	check_holds(0, le_node_check(&before, &ev, &s->n, &s->act));
}

#define EV(k, ...) \
	feed(&s, (LeNodeInput) {.kind = LE_NODE_IN_##k, ##__VA_ARGS__})
#define FAILED(o)	EV(FAILED, .outcome = (o))

/* The message of a test that fails. */
static const char *const state_names[LE_NODE_NSTATES] = {
	[LE_NODE_NONE] = "no session",
	[LE_NODE_CREATING] = "creating session",
	[LE_NODE_VERIFYING] = "verifying session",
	[LE_NODE_REGISTERING] = "registering",
	[LE_NODE_LIVE] = "live",
	[LE_NODE_LISTING] = "ending session: listing keys",
	[LE_NODE_UNLOCKING] = "ending session: releasing keys",
	[LE_NODE_DESTROYING] = "ending session",
	[LE_NODE_REVOKING] = "marking session ended",
	[LE_NODE_FORGETTING] = "leaving",
};

#define expect_state(st) \
	assert_string_equal(state_names[s.n.state], state_names[st])
#define expect_send(what)	assert_int_equal(s.act.send, what)

static Story
begin(void)
{
	Story		s = {.now = T0};

	le_node_init(&s.n);
	le_node_set_timing(&s.n, &defaults);
	assert_int_equal(le_node_timer(&s.n), 0);
	return s;
}

/* Live since T0: every request of the setup was sent and answered then. */
static Story
live(void)
{
	Story		s = begin();

	EV(WANT);
	expect_send(LE_NODE_SEND_CREATE);
	EV(DONE, .sent = T0);
	expect_send(LE_NODE_SEND_VERIFY);
	EV(DONE, .sent = T0);
	expect_send(LE_NODE_SEND_REGISTER);
	EV(DONE, .sent = T0, .index = 10);
	expect_state(LE_NODE_LIVE);
	assert_true(s.act.became_live);
	assert_int_equal(s.n.deadline, T0 + TRUST);
	return s;
}

static void
setup_is_anchored_at_its_oldest_request(void **state)
{
	Story		s = begin();

	(void) state;
	EV(WANT);
	s.now += 2 * LE_SEC;
	EV(DONE, .sent = T0);		/* the create */
	s.now += 2 * LE_SEC;
	EV(DONE, .sent = T0 + 2 * LE_SEC);
	s.now += 2 * LE_SEC;
	EV(DONE, .sent = T0 + 4 * LE_SEC, .index = 10);
	assert_int_equal(s.n.deadline, T0 + TRUST);
	/* the proof's round counts from its own request */
	assert_int_equal(s.n.renew_at, T0 + 5 * LE_SEC);
	assert_int_equal(s.n.prove_at, T0 + 9 * LE_SEC);
}

static void
deadline_follows_the_older_send(void **state)
{
	Story		s = live();

	(void) state;
	s.now = le_node_timer(&s.n);
	assert_int_equal(s.now, T0 + 5 * LE_SEC);
	EV(TIMER);
	expect_send(LE_NODE_SEND_PROOF | LE_NODE_SEND_RENEW);
	assert_int_equal(le_node_timer(&s.n), s.n.deadline);

	/* one alone does not help */
	s.now = T0 + 7 * LE_SEC;
	EV(PROVED, .sent = T0 + 5 * LE_SEC, .index = 11);
	assert_false(s.act.deadline_moved);
	assert_int_equal(s.n.deadline, T0 + TRUST);
	s.now = T0 + 8 * LE_SEC;
	EV(RENEWED, .sent = T0 + 5 * LE_SEC);
	assert_true(s.act.deadline_moved);
	assert_int_equal(s.n.deadline, T0 + 5 * LE_SEC + TRUST);

	/* the other way round, and with different ages */
	s.now = T0 + 10 * LE_SEC;
	EV(TIMER);
	s.now = T0 + 11 * LE_SEC;
	EV(RENEWED, .sent = T0 + 10 * LE_SEC);
	assert_int_equal(s.n.deadline, T0 + 5 * LE_SEC + TRUST);
	EV(PROVE_NOW);				/* the first attempt is not answered yet */
	EV(PROOF_FAILED, .outcome = LE_UNKNOWN);
	s.now = le_node_timer(&s.n);
	EV(TIMER);
	expect_send(LE_NODE_SEND_PROOF);
	s.now = T0 + 13 * LE_SEC;
	EV(PROVED, .sent = T0 + 12 * LE_SEC, .index = 12);
	assert_int_equal(s.n.deadline, T0 + 10 * LE_SEC + TRUST);
}

static void
identical_rewrite_is_no_proof(void **state)
{
	Story		s = live();

	(void) state;
	s.now = T0 + 5 * LE_SEC;
	EV(TIMER);
	EV(RENEWED, .sent = s.now);
	EV(PROVED, .sent = s.now, .index = 10);
	assert_int_equal(s.n.deadline, T0 + TRUST);
	/* nor is an index below the highest one seen */
	s.now = T0 + 6 * LE_SEC;
	EV(TIMER);
	EV(PROVED, .sent = s.now, .index = 12);
	assert_int_equal(s.n.deadline, T0 + 5 * LE_SEC + TRUST);
	s.now = T0 + 11 * LE_SEC;
	EV(TIMER);
	EV(RENEWED, .sent = s.now);
	EV(PROVED, .sent = s.now, .index = 11);
	assert_int_equal(s.n.deadline, T0 + 6 * LE_SEC + TRUST);
	assert_int_equal(s.n.proof_sent, T0 + 6 * LE_SEC);
}

static void
every_attempt_has_a_number_of_its_own(void **state)
{
	Story		s = live();
	uint64_t	seq = s.n.seq;

	(void) state;
	for (int i = 0; i < 50 && s.n.state == LE_NODE_LIVE; i++)
	{
		s.now = le_node_timer(&s.n);
		if (i % 7 == 6)
		{
			le_node_resume(&s.n, s.now);
			assert_true(s.n.seq >= seq);
			continue;
		}
		EV(TIMER);
		if (s.act.send & LE_NODE_SEND_PROOF)
		{
			assert_true(s.n.seq > seq);
			seq = s.n.seq;
			EV(PROOF_FAILED, .outcome = LE_UNKNOWN);
		}
		if (s.act.send & LE_NODE_SEND_RENEW)
			EV(RENEW_FAILED, .outcome = LE_UNAVAILABLE);
	}
	expect_state(LE_NODE_LISTING);
}

static void
expiry_is_final(void **state)
{
	Story		s = live();
	uint32_t	epoch = s.n.epoch;

	(void) state;
	s.now = T0 + 5 * LE_SEC;
	EV(TIMER);
	s.now = T0 + TRUST - 1;
	EV(TIMER);
	expect_state(LE_NODE_LIVE);
	s.now = T0 + TRUST;
	assert_int_equal(le_node_timer(&s.n), s.now);
	EV(TIMER);
	assert_true(s.act.terms_end);
	assert_int_equal(s.act.reason, LE_REASON_EXPIRED);
	assert_int_not_equal(s.n.epoch, epoch);
	expect_send(LE_NODE_SEND_LIST);

	/* a wish that comes now, or a new worker, changes nothing */
	EV(PROVE_NOW);
	assert_int_equal(s.n.deadline, 0);
	le_node_resume(&s.n, s.now);
	assert_int_equal(s.n.deadline, 0);
	expect_state(LE_NODE_LISTING);
}

/* The answers came in time, but the worker was frozen and reads them late. */
static void
frozen_worker_does_not_revive_its_terms(void **state)
{
	Story		s = live();

	(void) state;
	s.now = T0 + 5 * LE_SEC;
	EV(TIMER);
	s.now = T0 + 60 * LE_SEC;
	EV(PROVED, .sent = T0 + 5 * LE_SEC, .index = 11);
	assert_true(s.act.terms_end);
	expect_state(LE_NODE_LISTING);

	s = live();
	s.now = T0 + 5 * LE_SEC;
	EV(TIMER);
	s.now = T0 + 60 * LE_SEC;
	EV(RENEWED, .sent = T0 + 5 * LE_SEC);
	assert_true(s.act.terms_end);

	s = live();
	s.now = T0 + 60 * LE_SEC;
	le_node_resume(&s.n, s.now);
	EV(TIMER);
	assert_true(s.act.terms_end);
	assert_int_equal(s.act.reason, LE_REASON_EXPIRED);
}

static void
silent_store_gets_three_attempts_of_each_kind(void **state)
{
	Story		s = live();
	le_time		proof_due = 0;
	le_time		renew_due = 0;
	int			proofs = 0;
	int			renewals = 0;

	(void) state;
	while (s.n.state == LE_NODE_LIVE)
	{
		le_time		next = le_earliest(le_node_timer(&s.n),
									   le_earliest(proof_due, renew_due));

		s.now = next;
		if (next == proof_due)
		{
			proof_due = 0;
			EV(PROOF_FAILED, .outcome = LE_UNKNOWN, .random = ALL_LUCK);
			continue;
		}
		if (next == renew_due)
		{
			renew_due = 0;
			EV(RENEW_FAILED, .outcome = LE_UNKNOWN);
			continue;
		}
		EV(TIMER);
		if (s.act.send & LE_NODE_SEND_PROOF)
		{
			proofs++;
			proof_due = s.now + s.act.timeout;
		}
		if (s.act.send & LE_NODE_SEND_RENEW)
		{
			renewals++;
			renew_due = s.now + s.act.timeout;
		}
	}
	assert_in_range(proofs, 3, 5);
	assert_in_range(renewals, 3, 5);
	assert_int_equal(s.now, T0 + TRUST);
}

/* Two requests at once: neither may use up the time for the other. */
static void
shortest_timeout_serves_both_requests(void **state)
{
	Story		s = live();

	(void) state;
	s.now = T0 + 5 * LE_SEC;
	s.n.renew_failures = 2;
	EV(TIMER);
	expect_send(LE_NODE_SEND_PROOF | LE_NODE_SEND_RENEW);
	assert_int_equal(s.act.timeout, 3 * LE_SEC);

	s = live();
	s.now = T0 + 5 * LE_SEC;
	s.n.proof_failures = 2;
	EV(TIMER);
	assert_int_equal(s.act.timeout, 3 * LE_SEC);
}

static void
lost_keys_are_dropped_without_delay_but_not_for_ever(void **state)
{
	Story		s = live();

	(void) state;
	EV(PROVE_NOW);
	for (int i = 1; i < LE_ATTEMPTS; i++)
	{
		EV(PROOF_FAILED, .outcome = LE_CONFLICT);
		expect_send(LE_NODE_SEND_PROOF);
	}
	EV(PROOF_FAILED, .outcome = LE_CONFLICT);
	expect_send(0);
	assert_true(le_node_timer(&s.n) > s.now);
	assert_int_equal(s.n.deadline, T0 + TRUST);
}

static void
proof_that_was_asked_for_is_sent_after_the_question(void **state)
{
	Story		s = live();

	(void) state;
	EV(PROVE_NOW);
	expect_send(LE_NODE_SEND_PROOF);
	EV(PROVE_NOW);
	expect_send(0);
	EV(PROVED, .sent = T0, .index = 11);
	expect_send(LE_NODE_SEND_PROOF);
	EV(PROVED, .sent = T0, .index = 12);
	expect_send(0);
}

/*
 * A request for a proof must move the deadline by the proof, not merely up to
 * the last renewal's limit.
 */
static void
proof_that_was_asked_for_is_not_held_back(void **state)
{
	Story		s = live();

	(void) state;
	EV(PROVE_NOW);				/* both were sent at this very instant */
	expect_send(LE_NODE_SEND_PROOF);
	EV(PROVED, .sent = T0, .index = 11);
	s.now = T0 + LE_SEC;
	EV(PROVE_NOW);
	expect_send(LE_NODE_SEND_PROOF | LE_NODE_SEND_RENEW);
	EV(PROVE_NOW);				/* one renewal does for both */
	expect_send(0);
	EV(PROVED, .sent = T0 + LE_SEC, .index = 12);
	expect_send(LE_NODE_SEND_PROOF);
	EV(RENEWED, .sent = T0 + LE_SEC);
	assert_int_equal(s.n.deadline, T0 + LE_SEC + TRUST);

	/* a proof is under way already, the renewal is not */
	s.now = T0 + 2 * LE_SEC;
	EV(PROVE_NOW);
	expect_send(LE_NODE_SEND_RENEW);

	/* a session that outlives the lease need not be renewed so often */
	s = live();
	s.n.timing.session_ttl = s.n.timing.lease + 2 * LE_SEC;
	s.now = T0 + 2 * LE_SEC;
	EV(PROVE_NOW);
	expect_send(LE_NODE_SEND_PROOF);
	EV(PROVED, .sent = s.now, .index = 11);
	s.now = T0 + 2 * LE_SEC + 1;
	EV(PROVE_NOW);
	expect_send(LE_NODE_SEND_PROOF | LE_NODE_SEND_RENEW);
}

/* A new leader of the store does not know the session yet: it lives on. */
static void
false_report_of_a_lost_session(void **state)
{
	Story		s = live();

	(void) state;
	s.now = T0 + 5 * LE_SEC;
	EV(TIMER);
	EV(RENEW_FAILED, .outcome = LE_LOST);
	assert_true(s.act.terms_end);
	assert_int_equal(s.act.reason, LE_REASON_SESSION_LOST);
	expect_send(LE_NODE_SEND_REVOKE);
	FAILED(LE_CONFLICT);		/* the session lives and holds its node key */
	expect_send(LE_NODE_SEND_LIST);
	EV(LISTED, .held = 2);
	expect_send(LE_NODE_SEND_UNLOCKS);
	EV(UNLOCKED);
	expect_send(0);
	EV(UNLOCKED);
	expect_send(LE_NODE_SEND_LIST);
	EV(LISTED, .held = 0, .named = 1);
	expect_send(LE_NODE_SEND_DESTROY);
	EV(DONE);
	expect_send(LE_NODE_SEND_REVOKE);
	FAILED(LE_CONFLICT);		/* no third time */
	assert_true(s.act.ended);
	expect_send(LE_NODE_SEND_CREATE);
}

static void
true_report_of_a_lost_session(void **state)
{
	Story		s = live();
	uint32_t	epoch = s.n.epoch;

	(void) state;
	s.now = T0 + 5 * LE_SEC;
	EV(TIMER);
	EV(RENEW_FAILED, .outcome = LE_LOST);
	EV(DONE);
	assert_true(s.act.ended);
	expect_send(LE_NODE_SEND_CREATE);
	assert_true(s.n.epoch > epoch);
	EV(DONE, .sent = s.now);
	EV(DONE, .sent = s.now);
	EV(DONE, .sent = s.now, .index = 5);	/* a store may be rebuilt */
	expect_state(LE_NODE_LIVE);
	assert_int_equal(s.n.deadline, s.now + TRUST);
	assert_int_equal(s.n.proof_index, 5);
	assert_int_equal(s.n.seq, 1);
	s.now += 5 * LE_SEC;
	EV(TIMER);
	expect_send(LE_NODE_SEND_PROOF | LE_NODE_SEND_RENEW);
}

/* A key that cannot be released: the rounds are paced. */
static void
stubborn_key_is_not_hammered(void **state)
{
	Story		s = live();
	int			lists = 0;

	(void) state;
	EV(UNWANT);
	while (s.now < T0 + 60 * LE_SEC)
	{
		s.now += LE_MSEC;		/* all answers are quick */
		if (s.n.state == LE_NODE_UNLOCKING)
			EV(UNLOCKED, .outcome = LE_REFUSED);
		else if (s.n.step_at == 0)
		{
			lists++;
			EV(LISTED, .held = 1);
		}
		else if (s.now >= le_node_timer(&s.n))
			EV(TIMER);
	}
	assert_in_range(lists, 10, 80);
}

static void
useless_sessions_are_not_made_in_a_tight_loop(void **state)
{
	Story		s = begin();
	int			sessions = 0;

	(void) state;
	EV(WANT);
	while (s.now < T0 + 60 * LE_SEC)
	{
		s.now += LE_MSEC;
		switch (s.n.state)
		{
			case LE_NODE_CREATING:
				if (s.n.step_at == 0)
				{
					sessions++;
					EV(DONE, .sent = s.now);
				}
				else if (s.now >= le_node_timer(&s.n))
					EV(TIMER);
				break;
			case LE_NODE_VERIFYING:
				FAILED(LE_REFUSED);
				break;
			case LE_NODE_LISTING:
				EV(LISTED);
				break;
			default:
				EV(DONE);
				break;
		}
	}
	assert_in_range(sessions, 10, 80);
}

static void
unwanted_session_is_taken_out_of_the_store(void **state)
{
	Story		s = begin();

	(void) state;
	EV(WANT);
	EV(UNWANT);
	EV(DONE, .sent = T0);		/* it came into being all the same */
	expect_send(LE_NODE_SEND_LIST);
	EV(LISTED);
	EV(DONE);
	expect_send(LE_NODE_SEND_FORGET);
	EV(DONE);
	assert_true(s.act.ended);
	expect_state(LE_NODE_NONE);
	assert_int_equal(le_node_timer(&s.n), 0);
}

static void
predecessor_is_ended_first(void **state)
{
	Story		s = begin();
	LeTiming	his = defaults;

	(void) state;
	his.lease = his.session_ttl = 30 * LE_SEC;
	le_node_adopt_predecessor(&s.n, &his, T0);
	assert_int_equal(le_node_timer(&s.n), T0);
	EV(WANT);
	expect_send(0);
	EV(TIMER);
	expect_send(LE_NODE_SEND_LIST);
	assert_int_equal(s.n.deadline, 0);
	EV(LISTED, .held = 1, .named = 1);
	EV(UNLOCKED);
	EV(LISTED, .held = 0, .named = 1);
	expect_send(LE_NODE_SEND_DESTROY);
	EV(DONE);
	expect_send(LE_NODE_SEND_REVOKE);
	assert_int_equal(s.n.timing.lease, his.lease);
	EV(DONE);
	assert_true(s.act.ended);
	expect_send(LE_NODE_SEND_CREATE);
	assert_int_equal(s.n.timing.lease, defaults.lease);

	/* not wanted: ended all the same */
	s = begin();
	le_node_adopt_predecessor(&s.n, &his, T0);
	EV(TIMER);
	EV(LISTED);
	EV(DONE);
	EV(DONE);
	expect_state(LE_NODE_NONE);
}

static void
new_worker_resumes_in_every_state(void **state)
{
	static const struct
	{
		LeNodeState from;
		LeNodeState to;
		unsigned	send;		/* at its first timer; 0: none */
	}			cases[] = {
		{LE_NODE_NONE, LE_NODE_NONE, 0},
		{LE_NODE_CREATING, LE_NODE_CREATING, LE_NODE_SEND_CREATE},
		{LE_NODE_VERIFYING, LE_NODE_LISTING, LE_NODE_SEND_LIST},
		{LE_NODE_REGISTERING, LE_NODE_LISTING, LE_NODE_SEND_LIST},
		{LE_NODE_LIVE, LE_NODE_LIVE, LE_NODE_SEND_PROOF | LE_NODE_SEND_RENEW},
		{LE_NODE_LISTING, LE_NODE_LISTING, LE_NODE_SEND_LIST},
		{LE_NODE_UNLOCKING, LE_NODE_LISTING, LE_NODE_SEND_LIST},
		{LE_NODE_DESTROYING, LE_NODE_DESTROYING, LE_NODE_SEND_DESTROY},
		{LE_NODE_REVOKING, LE_NODE_REVOKING, LE_NODE_SEND_REVOKE},
		{LE_NODE_FORGETTING, LE_NODE_FORGETTING, LE_NODE_SEND_FORGET},
	};

	(void) state;
	assert_int_equal(lengthof(cases), LE_NODE_NSTATES);
	for (size_t i = 0; i < lengthof(cases); i++)
	{
		static const Past pasts[] = {PLAIN, EARLY, BUSY, ASKED};

		for (size_t p = 0; p < lengthof(pasts); p++)
		{
			Story		s = {
				.n = node_in(cases[i].from, pasts[p]), .now = NOW
			};
			uint32_t	epoch = s.n.epoch;
			le_time		deadline = s.n.deadline;

			le_node_resume(&s.n, NOW);
			assert_int_not_equal(s.n.epoch, epoch);
			assert_int_equal(s.n.deadline, deadline);
			expect_state(cases[i].to);
			if (cases[i].send == 0)
				continue;
			assert_int_equal(le_node_timer(&s.n), NOW);
			EV(TIMER);
			expect_send(cases[i].send);
			expect_state(cases[i].to);
		}
	}
}

/* A create was in flight that is no longer wanted. */
static void
new_worker_does_not_create_what_nobody_wants(void **state)
{
	Story		s = begin();

	(void) state;
	EV(WANT);
	EV(UNWANT);
	le_node_resume(&s.n, s.now);
	EV(TIMER);
	expect_send(0);
	expect_state(LE_NODE_NONE);
	assert_true(s.act.ended);
}

static void
settings_are_fixed_for_the_life_of_a_session(void **state)
{
	LeTiming	longer = {
		.lease = 60 * LE_SEC, .session_ttl = 60 * LE_SEC, .margin = 2 * LE_SEC,
		.renew_interval = 20 * LE_SEC, .request_timeout = 3 * LE_SEC
	};
	Story		s = begin();

	(void) state;
	EV(WANT);
	le_node_set_timing(&s.n, &longer);	/* the create is under way */
	assert_int_equal(s.n.timing.lease, defaults.lease);
	EV(DONE, .sent = T0);
	EV(DONE, .sent = T0);
	EV(DONE, .sent = T0, .index = 10);
	assert_int_equal(s.n.deadline, T0 + TRUST);
	le_node_set_timing(&s.n, &longer);
	EV(PROVE_NOW);
	EV(PROVED, .sent = T0, .index = 11);
	assert_int_equal(s.n.deadline, T0 + TRUST);

	/* the next session has them at once */
	EV(UNWANT);
	EV(WANT);
	EV(LISTED);
	EV(DONE);
	assert_int_equal(s.n.timing.lease, defaults.lease);
	EV(DONE);
	expect_send(LE_NODE_SEND_CREATE);
	assert_int_equal(s.n.timing.lease, longer.lease);
	EV(DONE, .sent = T0);
	EV(DONE, .sent = T0);
	EV(DONE, .sent = T0, .index = 20);
	assert_int_equal(s.n.deadline, T0 + 58 * LE_SEC);
}

/*
 * ---- the model ----
 *
 * Three nodes, each with a clock of its own rate, two elections and one
 * store.  The store is as consul.c assumes it: an index that every write
 * moves, sessions, keys that sessions hold, conditional writes.  Requests are
 * lost, delayed and duplicated, so are answers; watches are late or silent;
 * sessions end without warning; a renewal reports a live session gone or a
 * dead one alive; workers freeze and restart, instances crash; a holder that
 * is silent for its lease is taken over from.  After every step at most one
 * node may believe that it leads, each term has a higher token than any
 * before, and no node asks the store in a tight loop.  Once the faults stop,
 * every election gets its leader; once no node wants them any more, nothing is
 * left behind.
 */

#define NODES			3
#define ELECTIONS		2
#define SESSIONS		1024
#define MESSAGES		256
#ifndef MODEL_STEPS
#define MODEL_STEPS		400000
#endif

/* A request's subject: an election's number or one of these. */
#define FOR_STEP		ELECTIONS
#define FOR_PROOF		(ELECTIONS + 1)
#define FOR_RENEWAL		(ELECTIONS + 2)
#define FOR_UNLOCK		(ELECTIONS + 3)	/* + the election's number */
#define SLOTS			(FOR_UNLOCK + ELECTIONS)

typedef struct ModelSession
{
	bool		alive;
	le_time		dies;			/* end of its TTL, unless it is renewed */
	le_duration lease;
	le_duration ttl;
	/* its node key */
	bool		exists;
	bool		held;
	bool		revoked;
	uint64_t	index;
	uint64_t	seq;
} ModelSession;

typedef struct ModelKey
{
	bool		exists;
	int			holder;			/* 0: free */
	int			author;			/* session that wrote the value */
	bool		released;
	int			value;
	uint64_t	index;
} ModelKey;

typedef struct Message
{
	enum
	{
		UNUSED, REQUEST, ANSWER, WATCH
	}			kind;
	le_time		arrives;
	int			node;
	int			slot;
	uint32_t	number;			/* the sender forgets all but the newest */
	unsigned	what;			/* LE_NODE_SEND_... or LeSend */
	int			session;
	uint64_t	index;			/* condition; in the answer: result */
	uint64_t	seq;
	int			value;
	unsigned	held;			/* mask of elections */
	LeOutcome	outcome;
	LeConflict	conflict;
	ModelKey	key;
	ModelSession author;		/* session in the key's value */
	int			victim;			/* for a takeover ... */
	uint64_t	victim_index;	/* ... and the target's node key as seen */
	uint64_t	as_of;
	uint64_t	indexes[ELECTIONS];
	int			named;
} Message;

/* A node key as shown to a node: since when has it been unchanged? */
typedef struct Sighting
{
	uint64_t	index;
	le_time		at;
} Sighting;

/* A node's requests without an answer yet. */
typedef struct Pending
{
	bool		active;
	uint32_t	number;
	unsigned	what;
	le_time		sent;			/* on the node's clock */
	le_time		gives_up;
} Pending;

typedef struct ModelNode
{
	LeNode		node;
	LeElection	elections[ELECTIONS];
	LeTiming	timing;
	le_time		offset;			/* rate of its clock */
	int			ppm;
	int			session;
	bool		wants[ELECTIONS];
	int			value;
	le_time		frozen_until;
	bool		restarts;		/* as a new worker when it thaws */
	uint32_t	last_number;
	Pending		pending[SLOTS];
	uint64_t	listed[ELECTIONS];	/* index of each key held; 0: not held */
	int			holder[ELECTIONS];	/* session last seen to hold it */
	Sighting	sightings[SESSIONS];	/* node keys as seen, by session */
} ModelNode;

typedef struct Model
{
	uint64_t	seed;
	le_time		now;			/* true time */
	int			faults;			/* per cent; 0: none any more */
	bool		watches;
	uint64_t	index;
	int			nsessions;
	ModelSession sessions[SESSIONS];
	ModelKey	keys[ELECTIONS];
	Message		messages[MESSAGES];
	ModelNode	nodes[NODES];
	uint64_t	last_token[ELECTIONS];

	/* counters of events, so that no proof is empty */
	int			steps;
	int			requests;
	int			terms;
	int			lost;
	int			drained;
	int			unsure;
	int			waited;
	int			takeovers;
	int			restarts;
	int			crashes;
} Model;

static Model model;

static bool
chance(int per_thousand)
{
	return (int) (draw(&model.seed) % 1000) < per_thousand;
}

/* Does a fault strike, in the present weather? */
static bool
mishap(int per_thousand)
{
	return model.faults > 0 && chance(per_thousand * model.faults / 100);
}

static le_time
local_time(const ModelNode *m, le_time t)
{
	return m->offset + t + t / 1000000 * m->ppm +
		t % 1000000 * m->ppm / 1000000;
}

static le_time
clock_of(const ModelNode *m)
{
	return local_time(m, model.now);
}

/* The true time at which the node's clock shows this. */
static le_time
true_time(const ModelNode *m, le_time local)
{
	le_time		t = (local - m->offset) / (1000000 + m->ppm) * 1000000;

	while (local_time(m, t) < local)
		t += 100000;
	return t;
}

static le_duration
latency(void)
{
	le_duration usual = LE_MSEC + le_jitter(20 * LE_MSEC, draw(&model.seed));

	if (mishap(50))
		return usual + le_jitter(3 * LE_SEC, draw(&model.seed));
	if (mishap(30))
		return usual + le_jitter(40 * LE_SEC, draw(&model.seed));
	return usual;
}

static void
post(const Message *message)
{
	for (int i = 0; i < MESSAGES; i++)
	{
		if (model.messages[i].kind == UNUSED)
		{
			model.messages[i] = *message;
			model.messages[i].arrives = model.now + latency();
			return;
		}
	}
	fail_msg("too many messages");
}

/* ---- the model's store ---- */

static void
watch_fires(int election)
{
	if (!model.watches)
		return;
	for (int i = 0; i < NODES; i++)
	{
		if (!mishap(300))
			post(&(Message)
			{
				.kind = WATCH, .node = i, .slot = election,
				.key = model.keys[election], .as_of = model.index,
				.author = model.sessions[model.keys[election].author]
			});
	}
}

static void
end_session(int id)
{
	ModelSession *s = &model.sessions[id];

	if (!s->alive)
		return;
	s->alive = false;
	if (s->held)
	{
		s->held = false;
		s->index = ++model.index;
	}
	for (int e = 0; e < ELECTIONS; e++)
	{
		if (model.keys[e].holder == id)
		{
			model.keys[e].holder = 0;
			model.keys[e].index = ++model.index;
			watch_fires(e);
		}
	}
}

/* The store ends a session between one and two TTLs after its renewal. */
static le_time
session_dies(const ModelSession *s)
{
	return model.now + s->ttl + le_jitter(s->ttl, draw(&model.seed));
}

static void
serve_node(Message *m)
{
	ModelSession *s = &model.sessions[m->session];

	switch (m->what)
	{
		case LE_NODE_SEND_CREATE:
			assert_true(model.nsessions + 1 < SESSIONS);
			m->session = ++model.nsessions;
			s = &model.sessions[m->session];
			*s = (ModelSession)
			{
				.alive = true, .lease = m->index,
				.ttl = le_session_ttl(m->index, LEAST_SESSION)
			};
			s->dies = session_dies(s);
			break;
		case LE_NODE_SEND_VERIFY:
			m->outcome = s->alive ? LE_DONE : LE_LOST;
			break;
		case LE_NODE_SEND_REGISTER:
			if (!s->alive)
				m->outcome = LE_LOST;
			else if (s->exists)
				m->outcome = LE_CONFLICT;
			else
			{
				s->exists = s->held = true;
				s->seq = m->seq;
				s->index = m->index = ++model.index;
			}
			break;
		case LE_NODE_SEND_RENEW:
			/* neither answer is linearizable */
			if (s->alive)
			{
				if (mishap(20))
					m->outcome = LE_LOST;
				else
					s->dies = session_dies(s);
			}
			else if (!mishap(300))
				m->outcome = LE_LOST;
			break;
		case LE_NODE_SEND_PROOF:
			if (!s->alive || !s->held)
			{
				m->outcome = LE_LOST;
				break;
			}
			for (int e = 0; e < ELECTIONS; e++)
			{
				if (model.keys[e].holder == m->session)
					m->held &= ~(1 << e);
			}
			if (m->held != 0)
				m->outcome = LE_CONFLICT;
			else
			{
				if (s->seq != m->seq)
					s->index = ++model.index;
				s->seq = m->seq;
				m->index = s->index;
			}
			break;
		case LE_NODE_SEND_LIST:
			m->named = 0;
			for (int e = 0; e < ELECTIONS; e++)
			{
				const ModelKey *k = &model.keys[e];

				m->indexes[e] = k->holder == m->session ? k->index : 0;
				m->named += k->exists && k->holder == 0 && !k->released &&
					k->author == m->session;
			}
			break;
		case LE_NODE_SEND_DESTROY:
			end_session(m->session);
			break;
		case LE_NODE_SEND_REVOKE:
			if (s->alive || !s->exists)
				m->outcome = LE_CONFLICT;
			else
			{
				s->revoked = true;
				s->index = ++model.index;
			}
			break;
		case LE_NODE_SEND_FORGET:
			if (s->alive || !s->exists)
				m->outcome = LE_CONFLICT;
			else
				s->exists = false;
			break;
		default:
			fail();
	}
}

static void
serve_election(Message *m, int election)
{
	ModelKey   *k = &model.keys[election];
	const ModelSession *s = &model.sessions[m->session];

	if (m->what == LE_SEND_READ)
	{
		m->key = *k;
		m->author = model.sessions[k->author];
		m->as_of = model.index;
		return;
	}
	if (m->what != LE_SEND_RELEASE && (!s->alive || !s->held))
	{
		m->outcome = LE_LOST;
		return;
	}
	if (m->what == LE_SEND_ACQUIRE && k->holder == 0 && !k->released &&
		mishap(200))
	{
		/* checked before anything else, and leaky */
		m->outcome = LE_CONFLICT;
		m->conflict = LE_CONFLICT_LOCK_DELAY;
		return;
	}
	if (m->what == LE_SEND_TAKE_OVER)
	{
		ModelSession *victim = &model.sessions[m->victim];

		if (k->index != m->index || k->holder != m->victim ||
			!victim->exists || victim->index != m->victim_index ||
			!(victim->revoked || (victim->held && victim->alive)))
		{
			m->outcome = LE_CONFLICT;
			m->conflict = LE_CONFLICT_CHANGED;
			return;
		}
		model.takeovers++;
		victim->revoked = true;
		victim->held = false;
		victim->index = ++model.index;
		k->holder = 0;
		m->what = LE_SEND_ACQUIRE;
	}
	if (k->index != m->index ||
		k->holder != (m->what == LE_SEND_ACQUIRE ? 0 : m->session))
	{
		m->outcome = LE_CONFLICT;
		m->conflict = k->holder != 0 ? LE_CONFLICT_HELD :
			LE_CONFLICT_CHANGED;
		return;
	}
	if (m->what == LE_SEND_PUBLISH && k->value == m->value)
	{
		m->index = k->index;	/* an identical rewrite */
		return;
	}
	k->exists = true;
	k->holder = m->what == LE_SEND_RELEASE ? 0 : m->session;
	k->author = m->session;
	k->released = m->what == LE_SEND_RELEASE;
	k->value = m->value;
	k->index = m->index = ++model.index;
	watch_fires(election);
}

static void
serve(Message m)
{
	if (mishap(20))
		m.outcome = chance(800) ? LE_UNAVAILABLE : LE_REFUSED;
	else if (m.slot < ELECTIONS)
		serve_election(&m, m.slot);
	else if (m.slot >= FOR_UNLOCK)
		serve_election(&m, m.slot - FOR_UNLOCK);
	else
		serve_node(&m);
	m.kind = ANSWER;
	if (!mishap(50))
		post(&m);
}

/* ---- the model's worker ---- */

static void node_event(ModelNode *m, LeNodeInput ev);
static void election_event(ModelNode *m, int election, LeInput ev);

static void
ask(ModelNode *m, int slot, unsigned what, le_duration timeout,
	Message request)
{
	int			copies = mishap(50) ? 0 : mishap(100) ? 2 : 1;

	model.requests++;
	m->pending[slot] = (Pending)
	{
		.active = true, .number = ++m->last_number, .what = what,
		.sent = clock_of(m), .gives_up = clock_of(m) + timeout
	};
	request.kind = REQUEST;
	request.node = m - model.nodes;
	request.slot = slot;
	request.number = m->last_number;
	request.what = what;
	request.session = m->session;
	while (copies-- > 0)
		post(&request);
}

static bool
believes(const ModelNode *m, int election)
{
	return le_election_has_term(&m->elections[election]) &&
		le_believes(clock_of(m), m->node.deadline);
}

/* The node event's actions, in the order that node.h asks for. */
static void
node_event(ModelNode *m, LeNodeInput ev)
{
	LeNode		before = m->node;
	LeNodeActions act;

	ev.now = clock_of(m);
	ev.random = draw(&model.seed);
	check_holds(0, le_node_contract(&m->node, &ev));
	act = le_node_input(&m->node, &ev);
	check_holds(0, le_node_check(&before, &ev, &m->node, &act));

	if (act.terms_end || (before.state == LE_NODE_LIVE &&
						  m->node.state != LE_NODE_LIVE))
	{
		for (int e = 0; e < ELECTIONS; e++)
		{
			m->pending[e].active = false;
			election_event(m, e, (LeInput)
			{
				.kind = LE_IN_NODE_ENDED, .reason = act.reason
			});
		}
	}
	if (before.epoch != m->node.epoch)
	{
		for (int slot = FOR_STEP; slot < SLOTS; slot++)
			m->pending[slot].active = false;
	}
	if (act.ended)
		m->session = 0;
	for (unsigned what = 1; what <= LE_NODE_SEND_FORGET; what <<= 1)
	{
		Message		request = {.seq = m->node.seq};

		if ((act.send & what) == 0)
			continue;
		if (what == LE_NODE_SEND_UNLOCKS)
		{
			for (int e = 0; e < ELECTIONS; e++)
			{
				request.index = m->listed[e];
				if (m->listed[e] != 0)
					ask(m, FOR_UNLOCK + e, LE_SEND_RELEASE, act.timeout,
						request);
			}
			continue;
		}
		if (what == LE_NODE_SEND_CREATE)
			request.index = m->node.timing.lease;
		if (what == LE_NODE_SEND_PROOF)
		{
			for (int e = 0; e < ELECTIONS; e++)
				request.held |= le_election_has_term(&m->elections[e]) << e;
		}
		ask(m, what == LE_NODE_SEND_PROOF ? FOR_PROOF :
			what == LE_NODE_SEND_RENEW ? FOR_RENEWAL : FOR_STEP,
			what, act.timeout, request);
	}
	if (act.became_live)
	{
		for (int e = 0; e < ELECTIONS; e++)
		{
			if (m->wants[e] || m->elections[e].wanted)
				election_event(m, e, (LeInput) {.kind = LE_IN_WANT});
		}
	}
}

static void
election_event(ModelNode *m, int election, LeInput ev)
{
	LeElection *e = &m->elections[election];
	LeElection	before = *e;
	LeActions	act;
	int			victim = m->holder[election];

	ev.now = clock_of(m);
	ev.random = draw(&model.seed);
	ev.timing = &m->timing;
	check_holds(0, le_election_contract(e, &ev));
	act = le_election_input(e, &ev);
	check_holds(0, le_election_check(&before, &ev, e, &act));
	if (e->request != before.request)
		m->pending[election].active = false;	/* it is of no use now */

	model.drained += act.term_drains;
	model.lost += act.term_ends && act.reason != LE_REASON_RELEASED;
	model.unsure += e->state == LE_ACQUIRE_UNSURE && act.send != 0;
	model.waited += e->state == LE_ACQUIRING && e->seen_index != 0 &&
		e->seen_index == act.index;
	if (act.term_begins)
	{
		model.terms++;
		assert_true(e->token > model.last_token[election]);
		model.last_token[election] = e->token;
	}
	if (act.send != LE_SEND_NOTHING)
	{
		if (act.send == LE_SEND_PUBLISH && before.state == LE_HELD)
			m->value = chance(800) ? (int) draw(&model.seed) : m->value;
		ask(m, election, act.send, m->timing.request_timeout, (Message)
		{
			.index = act.index, .value = m->value, .victim = victim,
			.victim_index = m->sightings[victim].index
		});
	}
	/* a wish that came before the end of a term waits for that end */
	if (before.state != LE_IDLE && e->state == LE_IDLE &&
		m->wants[election] && m->node.state == LE_NODE_LIVE)
		election_event(m, election, (LeInput) {.kind = LE_IN_WANT});
}

/* The key as this node understands the store's view. */
static LeKeyView
view_of(ModelNode *m, int election, const Message *shown)
{
	const ModelKey *k = &shown->key;
	const ModelSession *author = &shown->author;
	Sighting   *s = &m->sightings[k->author];
	bool		waits = k->holder != 0 && k->holder != m->session &&
		author->exists && author->held;

	if (s->index != author->index)
		*s = (Sighting)
		{
			.index = author->index, .at = clock_of(m)
		};
	m->holder[election] = k->holder;
	return (LeKeyView)
	{
		.holder = k->holder == 0 ? LE_KEY_FREE :
			k->holder == m->session ? LE_KEY_OURS : LE_KEY_OTHER,
		.exists = k->exists, .usable = true, .released = k->released,
		.holder_ended = author->exists && author->revoked,
		.silent_at = waits && !author->revoked ? s->at + author->lease : 0,
		.index = k->index, .as_of = shown->as_of,
		.holder_lease = author->lease != 0 ? author->lease : LE_MAX_LEASE
	};
}

/* The answer to a request, or its timeout: a message with LE_UNKNOWN. */
static void
answered(ModelNode *m, const Message *a)
{
	Pending    *p = &m->pending[a->slot];
	le_time		sent = p->sent;
	LeOutcome	outcome = a->outcome;

	if (!p->active || p->number != a->number)
		return;
	p->active = false;
	if (a->slot < ELECTIONS)
	{
		LeKeyView	view;
		LeInput		ev = {
			.view = &view, .index = a->index, .outcome = outcome,
			.conflict = a->conflict
		};

		if (p->what == LE_SEND_READ && outcome == LE_DONE)
			view = view_of(m, a->slot, a);
		if (p->what == LE_SEND_READ)
			ev.kind = outcome == LE_DONE ? LE_IN_READ : LE_IN_READ_FAILED;
		else
			ev.kind = outcome == LE_DONE ? LE_IN_DONE :
				outcome == LE_CONFLICT ? LE_IN_CONFLICT :
				outcome == LE_UNKNOWN ? LE_IN_UNKNOWN : LE_IN_NOT_APPLIED;
		election_event(m, a->slot, ev);
		if (outcome == LE_LOST)
			node_event(m, (LeNodeInput) {.kind = LE_NODE_IN_PROVE_NOW});
	}
	else if (a->slot >= FOR_UNLOCK)
		node_event(m, (LeNodeInput) {.kind = LE_NODE_IN_UNLOCKED});
	else
	{
		LeNodeInput ev = {
			.outcome = outcome, .sent = sent, .index = a->index,
			.named = a->named
		};
		bool		done = outcome == LE_DONE;

		ev.kind = done ? LE_NODE_IN_DONE : LE_NODE_IN_FAILED;
		if (a->slot == FOR_PROOF)
		{
			ev.kind = done ? LE_NODE_IN_PROVED : LE_NODE_IN_PROOF_FAILED;
			for (int e = 0; outcome == LE_CONFLICT && e < ELECTIONS; e++)
			{
				if (a->held & (1 << e))
					election_event(m, e, (LeInput) {.kind = LE_IN_NOT_OURS});
			}
		}
		else if (a->slot == FOR_RENEWAL)
			ev.kind = done ? LE_NODE_IN_RENEWED : LE_NODE_IN_RENEW_FAILED;
		else if (done && p->what == LE_NODE_SEND_CREATE)
			m->session = a->session;
		else if (done && p->what == LE_NODE_SEND_LIST)
		{
			ev.kind = LE_NODE_IN_LISTED;
			ev.early = chance(200);
			for (int e = 0; e < ELECTIONS; e++)
			{
				m->listed[e] = a->indexes[e];
				ev.held += a->indexes[e] != 0;
			}
		}
		node_event(m, ev);
	}
}

/* A new worker, or the same after a pause. */
static void
thaw(ModelNode *m)
{
	m->frozen_until = 0;
	if (!m->restarts)
		return;
	m->restarts = false;
	model.restarts++;
	memset(m->pending, 0, sizeof(m->pending));
	le_node_resume(&m->node, clock_of(m));
	for (int e = 0; e < ELECTIONS; e++)
	{
		LeElection *el = &m->elections[e];

		if (m->node.state != LE_NODE_LIVE)
			election_event(m, e, (LeInput)
			{
				.kind = LE_IN_NODE_ENDED, .reason = LE_REASON_EXPIRED
			});
		else if (el->state == LE_ACQUIRING || el->state == LE_PUBLISHING ||
				 el->state == LE_RELEASING)
			election_event(m, e, (LeInput) {.kind = LE_IN_UNKNOWN});
		else if (le_election_in_flight(el))
			election_event(m, e, (LeInput)
			{
				.kind = LE_IN_READ_FAILED, .outcome = LE_UNKNOWN
			});
	}
}

/* The instance starts; its memory is empty, except perhaps for a file. */
static void
start(ModelNode *m)
{
	int			session = m->session;

	memset(m->pending, 0, sizeof(m->pending));
	m->restarts = false;
	m->frozen_until = 0;
	m->session = 0;
	memset(m->holder, 0, sizeof(m->holder));
	memset(m->sightings, 0, sizeof(m->sightings));
	le_node_init(&m->node);
	for (int e = 0; e < ELECTIONS; e++)
		le_election_init(&m->elections[e], 0);
	if (session != 0 && chance(500))
	{
		m->session = session;
		le_node_adopt_predecessor(&m->node, &m->timing, clock_of(m));
	}
	le_node_set_timing(&m->node, &m->timing);
	node_event(m, (LeNodeInput) {.kind = LE_NODE_IN_WANT});
}

static void
wish(ModelNode *m, int election, bool wants)
{
	m->wants[election] = wants;
	if (!wants && le_election_has_term(&m->elections[election]) &&
		chance(500))
		election_event(m, election, (LeInput)
		{
			.kind = LE_IN_DRAIN, .until = clock_of(m) +
				le_jitter(5 * LE_SEC, draw(&model.seed))
		});
	else if (!wants)
		election_event(m, election, (LeInput) {.kind = LE_IN_UNWANT});
	else if (m->node.state == LE_NODE_LIVE)
		election_event(m, election, (LeInput) {.kind = LE_IN_WANT});
}

/* A random user's action or fault, somewhere. */
static void
interfere(void)
{
	ModelNode  *m = &model.nodes[draw(&model.seed) % NODES];
	int			e = draw(&model.seed) % ELECTIONS;

	if (mishap(20))
	{
		m->frozen_until = model.now + le_jitter(30 * LE_SEC,
												draw(&model.seed));
		m->restarts = chance(500);
	}
	else if (mishap(8))
	{
		model.crashes++;
		start(m);
	}
	else if (mishap(20) && m->session != 0)
		end_session(m->session);
	if (m->frozen_until != 0)
		return;
	switch (draw(&model.seed) % 8)
	{
		case 0:
			wish(m, e, chance(700));
			break;
		case 1:
			if (m->elections[e].state == LE_HELD)
				election_event(m, e, (LeInput) {.kind = LE_IN_PUBLISH});
			break;
		case 2:
			node_event(m, (LeNodeInput) {.kind = LE_NODE_IN_PROVE_NOW});
			break;
		case 3:
			if (chance(100))
			{
				node_event(m, (LeNodeInput) {.kind = LE_NODE_IN_UNWANT});
				node_event(m, (LeNodeInput) {.kind = LE_NODE_IN_WANT});
			}
			break;
		default:
			break;
	}
}

/* The node's next event, by its own clock. */
static le_time
alarm_of(const ModelNode *m)
{
	le_time		local = le_node_timer(&m->node);

	if (m->frozen_until != 0)
		return m->frozen_until;
	for (int slot = 0; slot < SLOTS; slot++)
	{
		if (m->pending[slot].active)
			local = le_earliest(local, m->pending[slot].gives_up);
	}
	for (int e = 0; e < ELECTIONS && m->node.state == LE_NODE_LIVE; e++)
		local = le_earliest(local, m->elections[e].timer_at);
	return local == 0 ? 0 : true_time(m, local);
}

static void
ring(ModelNode *m)
{
	if (m->frozen_until != 0)
	{
		thaw(m);
		return;
	}
	for (int slot = 0; slot < SLOTS; slot++)
	{
		const Pending *p = &m->pending[slot];

		if (p->active && clock_of(m) >= p->gives_up)
		{
			answered(m, &(Message)
			{
				.slot = slot, .number = p->number, .outcome = LE_UNKNOWN
			});
			return;
		}
	}
	for (int e = 0; e < ELECTIONS && m->node.state == LE_NODE_LIVE; e++)
	{
		if (m->elections[e].timer_at != 0 &&
			clock_of(m) >= m->elections[e].timer_at)
		{
			election_event(m, e, (LeInput) {.kind = LE_IN_TIMER});
			return;
		}
	}
	if (le_node_timer(&m->node) != 0 && clock_of(m) >= le_node_timer(&m->node))
		node_event(m, (LeNodeInput) {.kind = LE_NODE_IN_TIMER});
}

static void
deliver(Message *message)
{
	Message		m = *message;
	ModelNode  *to = &model.nodes[m.node];

	if (m.kind != REQUEST && to->frozen_until != 0)
	{
		/* it waits in the socket */
		message->arrives = to->frozen_until + LE_MSEC;
		return;
	}
	message->kind = UNUSED;
	if (m.kind == REQUEST)
		serve(m);
	else if (m.kind == ANSWER)
		answered(to, &m);
	else if (to->node.state == LE_NODE_LIVE)
	{
		LeKeyView	view = view_of(to, m.slot, &m);

		if (view.holder == LE_KEY_OTHER && view.silent_at != 0 &&
			to->elections[m.slot].look_at != 0)
			election_event(to, m.slot, (LeInput)
			{
				.kind = LE_IN_HOLDER, .silent_at = view.silent_at
			});
		election_event(to, m.slot, (LeInput)
		{
			.kind = LE_IN_SEEN, .view = &view
		});
	}
}

/* The earliest future event; false if that is after "until". */
static bool
advance(le_time until)
{
	le_time		next = until;
	Message    *message = NULL;
	ModelNode  *node = NULL;

	for (int i = 0; i < MESSAGES; i++)
	{
		if (model.messages[i].kind != UNUSED &&
			model.messages[i].arrives < next)
		{
			message = &model.messages[i];
			next = message->arrives;
		}
	}
	for (int i = 0; i < NODES; i++)
	{
		le_time		alarm = alarm_of(&model.nodes[i]);

		if (alarm != 0 && alarm < next)
		{
			node = &model.nodes[i];
			next = alarm;
		}
	}
	if (next > model.now)
		model.now = next;
	for (int s = 1; s <= model.nsessions; s++)
	{
		if (model.sessions[s].alive && model.now >= model.sessions[s].dies)
			end_session(s);
	}
	if (node != NULL)
		ring(node);
	else if (message != NULL)
		deliver(message);
	model.steps++;

	for (int e = 0; e < ELECTIONS; e++)
	{
		int			believers = 0;

		for (int i = 0; i < NODES; i++)
			believers += believes(&model.nodes[i], e);
		assert_true(believers <= 1);
	}
	return node != NULL || message != NULL;
}

static void
run_for(le_duration span, int per_second)
{
	le_time		end = model.now + span;
	int			requests = model.requests;

	while (model.now < end)
	{
		le_time		next = end;

		if (per_second > 0)
			next = model.now + LE_SEC / per_second / 2 +
				le_jitter(LE_SEC / per_second, draw(&model.seed));
		while (advance(next))
			;
		if (per_second > 0)
			interfere();
	}
	requests = model.requests - requests;
	assert_true(requests < NODES * (ELECTIONS + 1) * 2 * (span / LE_SEC + 10));
}

static void
play(uint64_t seed)
{
	int			steps = model.steps;

	/* keep the counters, forget the rest */
	memset(&model, 0, offsetof(Model, steps));
	model.seed = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
	model.now = LE_SEC;
	model.index = 10;
	model.faults = 20 + 40 * (seed % 4);
	model.watches = seed % 3 != 0;
	for (int i = 0; i < NODES; i++)
	{
		ModelNode  *m = &model.nodes[i];

		m->timing = defaults;
		m->timing.lease = (5 + draw(&model.seed) % 4 * 5) * LE_SEC;
		m->timing.session_ttl = le_session_ttl(m->timing.lease,
												LEAST_SESSION);
		m->timing.renew_interval = le_default_interval(m->timing.lease);
		m->offset = T0 + draw(&model.seed) % 1000 * LE_SEC;
		m->ppm = (int) (draw(&model.seed) % 3 - 1) * 24000;
		start(m);
		for (int e = 0; e < ELECTIONS; e++)
			wish(m, e, true);
	}
	run_for(300 * LE_SEC, 4);

	/* the weather clears up: every election gets a leader and keeps it */
	model.faults = 0;
	for (int i = 0; i < NODES; i++)
	{
		if (model.nodes[i].frozen_until != 0)
			thaw(&model.nodes[i]);
		for (int e = 0; e < ELECTIONS; e++)
			wish(&model.nodes[i], e, true);
	}
	run_for(180 * LE_SEC, 0);
	for (int e = 0; e < ELECTIONS; e++)
	{
		int			believers = 0;
		uint64_t	token = model.last_token[e];

		run_for(20 * LE_SEC, 0);
		for (int i = 0; i < NODES; i++)
			believers += believes(&model.nodes[i], e);
		assert_int_equal(believers, 1);
		assert_int_equal(model.last_token[e], token);
	}

	/* no node wants anything any more: nothing is left */
	for (int i = 0; i < NODES; i++)
	{
		for (int e = 0; e < ELECTIONS; e++)
			wish(&model.nodes[i], e, false);
	}
	run_for(10 * LE_SEC, 0);
	for (int e = 0; e < ELECTIONS; e++)
	{
		assert_int_equal(model.keys[e].holder, 0);
		assert_true(model.keys[e].released);
	}
	for (int i = 0; i < NODES; i++)
		node_event(&model.nodes[i],
				   (LeNodeInput) {.kind = LE_NODE_IN_UNWANT});
	run_for(10 * LE_SEC, 0);
	for (int i = 0; i < NODES; i++)
	{
		assert_int_equal(model.nodes[i].node.state, LE_NODE_NONE);
		assert_int_equal(alarm_of(&model.nodes[i]), 0);
	}
	assert_true(model.steps > steps);
}

static void
model_of_three_nodes_and_a_bad_store(void **state)
{
	uint64_t	seed = 1;

	(void) state;
	memset(&model, 0, sizeof(model));
	while (model.steps < MODEL_STEPS)
	{
		play(seed);
		seed++;
	}
	print_message("%d episodes, %d steps, %d requests, %d terms, %d lost, "
				  "%d drained, %d unsure, %d waited out, %d taken over, %d restarts, "
				  "%d crashes\n",
				  (int) seed - 1, model.steps, model.requests, model.terms,
				  model.lost, model.drained, model.unsure, model.waited,
				  model.takeovers, model.restarts, model.crashes);
	/* the run did exercise its subject */
	assert_true(model.terms > 500);
	assert_true(model.lost > 100);
	assert_true(model.drained > 50);
	assert_true(model.unsure > 100);
	assert_true(model.waited > 50);
	assert_true(model.takeovers > 50);
	assert_true(model.restarts > 50);
	assert_true(model.crashes > 10);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_cell_does_what_the_table_says),
		cmocka_unit_test(every_other_cell_is_empty),
		cmocka_unit_test(setup_is_anchored_at_its_oldest_request),
		cmocka_unit_test(deadline_follows_the_older_send),
		cmocka_unit_test(identical_rewrite_is_no_proof),
		cmocka_unit_test(every_attempt_has_a_number_of_its_own),
		cmocka_unit_test(expiry_is_final),
		cmocka_unit_test(frozen_worker_does_not_revive_its_terms),
		cmocka_unit_test(silent_store_gets_three_attempts_of_each_kind),
		cmocka_unit_test(shortest_timeout_serves_both_requests),
		cmocka_unit_test(lost_keys_are_dropped_without_delay_but_not_for_ever),
		cmocka_unit_test(proof_that_was_asked_for_is_sent_after_the_question),
		cmocka_unit_test(proof_that_was_asked_for_is_not_held_back),
		cmocka_unit_test(false_report_of_a_lost_session),
		cmocka_unit_test(true_report_of_a_lost_session),
		cmocka_unit_test(stubborn_key_is_not_hammered),
		cmocka_unit_test(useless_sessions_are_not_made_in_a_tight_loop),
		cmocka_unit_test(unwanted_session_is_taken_out_of_the_store),
		cmocka_unit_test(predecessor_is_ended_first),
		cmocka_unit_test(new_worker_resumes_in_every_state),
		cmocka_unit_test(new_worker_does_not_create_what_nobody_wants),
		cmocka_unit_test(settings_are_fixed_for_the_life_of_a_session),
		cmocka_unit_test(model_of_three_nodes_and_a_bad_store),
	};

	return cmocka_run_group_tests_name("node", tests, NULL, NULL);
}
