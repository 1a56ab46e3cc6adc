/*-------------------------------------------------------------------------
 *
 * test_election.c
 *		Tests of src/core/election.c: every cell of its table, then stories.
 *
 * test/unit/test_election.c
 *
 *-------------------------------------------------------------------------
 */
#include "core_test.h"

#define NOW			(T0 + 100 * LE_SEC)
#define LEASE		(15 * LE_SEC)
#define HIS_LEASE	(20 * LE_SEC)
#define RANDOM		(UINT32_C(1) << 31)

/* ---- the cells ---- */

/* Keys as stores may show them. */
#define VIEW(...)	(&(const LeKeyView) {__VA_ARGS__})
#define KEY_AS_OF(i, a) .exists = true, .usable = true, .index = (i), \
						.as_of = (a), .holder_lease = HIS_LEASE
#define ABSENT_AS_OF(a) .as_of = (a), .holder_lease = LE_MAX_LEASE
#define ABSENT			ABSENT_AS_OF(1)
#define RELEASED(i)		KEY_AS_OF(i, i), .released = true
#define SILENT(i)		KEY_AS_OF(i, i)
#define OURS(i)			KEY_AS_OF(i, i), .holder = LE_KEY_OURS
#define OTHER(i)		KEY_AS_OF(i, i), .holder = LE_KEY_OTHER

static const LeKeyView absent = {ABSENT};
static const LeKeyView absent_newer = {ABSENT_AS_OF(106)};
static const LeKeyView released = {RELEASED(90)};
static const LeKeyView released_new = {RELEASED(95)};
static const LeKeyView silent = {SILENT(90)};
static const LeKeyView silent_old = {SILENT(80)};
static const LeKeyView silent_new = {SILENT(95)};
static const LeKeyView ended = {SILENT(95), .holder_ended = true};
static const LeKeyView foreign = {
	.exists = true, .released = true, .index = 95, .as_of = 95,
	.holder_lease = LE_MAX_LEASE
};
static const LeKeyView ours = {OURS(110)};
static const LeKeyView ours_anew = {OURS(110), .token = 110};
static const LeKeyView ours_edited = {OURS(110)};
static const LeKeyView ours_published = {OURS(110), .token = 100};
static const LeKeyView ours_low = {OURS(50), .token = 100};
static const LeKeyView ours_leased = {OURS(110), .own_lease = true};
static const LeKeyView other = {OTHER(110)};
static const LeKeyView silent_soon = {OTHER(110), .silent_at = NOW + 1};
static const LeKeyView silent_later = {OTHER(110), .silent_at = NOW + LEASE};
static const LeKeyView silent_now = {OTHER(110), .silent_at = NOW};
static const LeKeyView revoked = {OTHER(110), .holder_ended = true};
static const LeKeyView silent_same = {OTHER(90), .silent_at = NOW};
static const LeKeyView alive_same = {OTHER(90), .silent_at = NOW + LE_SEC};
static const LeKeyView other_as_old = {
	KEY_AS_OF(90, 105), .holder = LE_KEY_OTHER
};
static const LeKeyView other_newer = {OTHER(106)};

/*
 * Origin of a state, if its name does not tell it.  An unsure state has failed
 * once, and has a copy under way, in any case.
 */
#define PLAIN		0
#define GIVEN_UP	0x001		/* no longer wanted */
#define AGAIN		0x002		/* an earlier copy may be under way */
#define WORN		0x004		/* LE_ATTEMPTS failures in a row */
#define TAKEOVER	0x008		/* the acquire is one */
#define DRAINED		0x010		/* the term is to end in 3 s */
#define LEASED		0x020		/* the term has a lease of its own */
#define LAPSED		0x040		/* ... which has run out just now */
#define LOOKING		0x080		/* another holds the key: look in 2 s */
#define COUNTING	0x100		/* waiting out the key "silent" */
#define COUNTED		0x200		/* ... just long enough */
#define REFUSED		0x400		/* a token was refused just now */

typedef struct Cell
{
	int			line;
	LeState		from;
	int			past;
	LeInputKind event;
	const LeKeyView *view;
	uint64_t	index;
	LeOutcome	outcome;
	LeConflict	conflict;
	LeReason	reason;

	/* expected */
	LeState		to;
	LeSend		send;
	uint64_t	on;				/* condition of the write */
	LeVerdict	say;
	LeOutcome	because;
	LeReason	ends;			/* the term ends, with this reason */
	uint64_t	begins;			/* a term begins, with this token */
	le_time		silent_at;		/* LE_IN_HOLDER */
	le_duration trusted;		/* the answer's deadline, from now; 0: none */
	le_duration until;			/* expected deadline of the term; 0: none */
	le_duration timer;			/* from now; 0: none, -1: as before */
	uint64_t	write_index;	/* 0: as before */
	bool		wanted;
	int			failures;
	bool		drains;			/* the term goes on for its dependents */
} Cell;

#define AT		.line = __LINE__
#define RETRY1	(75 * LE_MSEC)	/* after one failure, at RANDOM */
#define RETRY2	(150 * LE_MSEC)
#define RETRY4	(600 * LE_MSEC)
#define BACKSTOP	(LEASE - LEASE / 20)
#define DELAYED		LE_SEC
#define HELD_BY_OTHER	(LEASE / 10 + LEASE / 20)	/* a read is worth it */
#define SPREAD		(LE_SEC / 8)	/* takeovers only: at most 250 ms */
#define TRUSTED		(4 * LE_SEC)	/* the rest of LEASED */
#define W		.wanted = true
#define UNTIL	(2 * LE_SEC)	/* LE_IN_DRAIN's time, from now */

static const Cell cells[] = {
	/* idle */
	{AT, LE_IDLE, .event = LE_IN_WANT,
		.to = LE_READING, .send = LE_SEND_READ, W},
	{AT, LE_IDLE, .event = LE_IN_SEEN, .view = &ours,
		.to = LE_RELEASING, .send = LE_SEND_RELEASE, .on = 110},
	{AT, LE_IDLE, .event = LE_IN_SEEN, .view = &released, .to = LE_IDLE},
	{AT, LE_IDLE, .event = LE_IN_SEEN, .view = &absent, .to = LE_IDLE},
	{AT, LE_IDLE, .event = LE_IN_SEEN, .view = &other, .to = LE_IDLE},

	/* reading */
	{AT, LE_READING, .event = LE_IN_WANT, .to = LE_READING, W},
	{AT, LE_READING, .event = LE_IN_UNWANT, .to = LE_IDLE},
	{AT, LE_READING, WORN, LE_IN_UNWANT, .to = LE_IDLE},
	{AT, LE_READING, .event = LE_IN_READ, .view = &absent,
		.to = LE_ACQUIRING, .send = LE_SEND_ACQUIRE, .on = 0, W},
	{AT, LE_READING, WORN, LE_IN_READ, .view = &absent,
		.to = LE_ACQUIRING, .send = LE_SEND_ACQUIRE, .on = 0, W},
	{AT, LE_READING, .event = LE_IN_READ, .view = &released,
		.to = LE_ACQUIRING, .send = LE_SEND_ACQUIRE, .on = 90, W},
	{AT, LE_READING, .event = LE_IN_READ, .view = &ended,
		.to = LE_ACQUIRING, .send = LE_SEND_ACQUIRE, .on = 95, W},
	{AT, LE_READING, .event = LE_IN_READ, .view = &silent,
		.to = LE_WAITING, .say = LE_SAY_DENIED,
		.timer = HIS_LEASE + LEASE / 40, W},
	{AT, LE_READING, COUNTING, LE_IN_READ, .view = &silent,
		.to = LE_WAITING, .say = LE_SAY_DENIED, .timer = 1 + LEASE / 40, W},
	{AT, LE_READING, COUNTED, LE_IN_READ, .view = &silent,
		.to = LE_ACQUIRING, .send = LE_SEND_ACQUIRE, .on = 90, W},
	{AT, LE_READING, COUNTED, LE_IN_READ, .view = &silent_new,
		.to = LE_WAITING, .say = LE_SAY_DENIED,
		.timer = HIS_LEASE + LEASE / 40, W},
	{AT, LE_READING, .event = LE_IN_READ, .view = &other,
		.to = LE_WAITING, .say = LE_SAY_DENIED, .timer = BACKSTOP, W},
	{AT, LE_READING, .event = LE_IN_READ, .view = &silent_soon,
		.to = LE_WAITING, .say = LE_SAY_DENIED, .timer = 1 + SPREAD, W},
	{AT, LE_READING, .event = LE_IN_READ, .view = &silent_later,
		.to = LE_WAITING, .say = LE_SAY_DENIED, .timer = BACKSTOP, W},
	{AT, LE_READING, WORN, LE_IN_READ, .view = &silent_now,
		.to = LE_ACQUIRING, .send = LE_SEND_TAKE_OVER, .on = 110, W},
	{AT, LE_READING, .event = LE_IN_READ, .view = &revoked,
		.to = LE_ACQUIRING, .send = LE_SEND_TAKE_OVER, .on = 110, W},
	{AT, LE_READING, .event = LE_IN_READ, .view = &ours,
		.to = LE_RELEASING, .send = LE_SEND_RELEASE, .on = 110, W},
	{AT, LE_READING, .event = LE_IN_READ, .view = &foreign,
		.to = LE_WAITING, .say = LE_SAY_FAILED, .because = LE_REFUSED,
		.timer = LEASE, W},
	{AT, LE_READING, REFUSED, LE_IN_READ, .view = &released,
		.to = LE_WAITING, .say = LE_SAY_TOKEN_WENT_BACK,
		.because = LE_REFUSED, .timer = LEASE, W},
	{AT, LE_READING, .event = LE_IN_READ_FAILED, .outcome = LE_UNAVAILABLE,
		.to = LE_WAITING, .say = LE_SAY_FAILED, .because = LE_UNAVAILABLE,
		.timer = RETRY1, W, .failures = 1},
	{AT, LE_READING, WORN, LE_IN_READ_FAILED, .outcome = LE_REFUSED,
		.to = LE_WAITING, .say = LE_SAY_FAILED, .because = LE_REFUSED,
		.timer = RETRY4, W, .failures = LE_ATTEMPTS + 1},
	{AT, LE_READING, .event = LE_IN_NODE_ENDED, .reason = LE_REASON_EXPIRED,
		.to = LE_WAITING, W},

	/* waiting */
	{AT, LE_WAITING, .event = LE_IN_WANT,
		.to = LE_READING, .send = LE_SEND_READ, W},
	{AT, LE_WAITING, WORN, LE_IN_UNWANT, .to = LE_IDLE},
	{AT, LE_WAITING, .event = LE_IN_SEEN, .view = &absent,
		.to = LE_ACQUIRING, .send = LE_SEND_ACQUIRE, .on = 0, W},
	{AT, LE_WAITING, .event = LE_IN_SEEN, .view = &released,
		.to = LE_ACQUIRING, .send = LE_SEND_ACQUIRE, .on = 90, W},
	{AT, LE_WAITING, .event = LE_IN_SEEN, .view = &silent,
		.to = LE_WAITING, .say = LE_SAY_DENIED,
		.timer = HIS_LEASE + LEASE / 40, W},
	{AT, LE_WAITING, COUNTING, LE_IN_SEEN, .view = &silent,
		.to = LE_WAITING, .say = LE_SAY_DENIED, .timer = 1 + LEASE / 40, W},
	{AT, LE_WAITING, COUNTED, LE_IN_SEEN, .view = &silent,
		.to = LE_ACQUIRING, .send = LE_SEND_ACQUIRE, .on = 90, W},
	{AT, LE_WAITING, COUNTING, LE_IN_SEEN, .view = &ended,
		.to = LE_ACQUIRING, .send = LE_SEND_ACQUIRE, .on = 95, W},
	/* a view older than the key being waited out says nothing */
	{AT, LE_WAITING, COUNTING, LE_IN_SEEN, .view = &silent_old,
		.to = LE_WAITING, .timer = -1, W},
	{AT, LE_WAITING, COUNTING, LE_IN_SEEN, .view = &absent,
		.to = LE_WAITING, .timer = -1, W},
	{AT, LE_WAITING, COUNTING, LE_IN_SEEN, .view = &silent_new,
		.to = LE_WAITING, .say = LE_SAY_DENIED,
		.timer = HIS_LEASE + LEASE / 40, W},
	{AT, LE_WAITING, .event = LE_IN_SEEN, .view = &other,
		.to = LE_WAITING, .say = LE_SAY_DENIED, .timer = BACKSTOP, W},
	{AT, LE_WAITING, .event = LE_IN_SEEN, .view = &silent_soon,
		.to = LE_WAITING, .say = LE_SAY_DENIED, .timer = 1 + SPREAD, W},
	{AT, LE_WAITING, .event = LE_IN_SEEN, .view = &silent_now,
		.to = LE_ACQUIRING, .send = LE_SEND_TAKE_OVER, .on = 110, W},
	{AT, LE_WAITING, LOOKING, LE_IN_HOLDER, .silent_at = NOW + LE_SEC,
		.to = LE_WAITING, .timer = LE_SEC + SPREAD, W},
	{AT, LE_WAITING, LOOKING, LE_IN_HOLDER, .silent_at = NOW + LEASE,
		.to = LE_WAITING, .timer = 2 * LE_SEC, W},
	{AT, LE_WAITING, LOOKING, LE_IN_HOLDER, .silent_at = 0,
		.to = LE_WAITING, .timer = 2 * LE_SEC, W},
	{AT, LE_WAITING, .event = LE_IN_SEEN, .view = &ours,
		.to = LE_RELEASING, .send = LE_SEND_RELEASE, .on = 110, W},
	{AT, LE_WAITING, .event = LE_IN_SEEN, .view = &foreign,
		.to = LE_WAITING, .say = LE_SAY_FAILED, .because = LE_REFUSED,
		.timer = LEASE, W},
	{AT, LE_WAITING, REFUSED, LE_IN_SEEN, .view = &released,
		.to = LE_WAITING, .say = LE_SAY_TOKEN_WENT_BACK,
		.because = LE_REFUSED, .timer = LEASE, W},
	{AT, LE_WAITING, .event = LE_IN_TIMER,
		.to = LE_READING, .send = LE_SEND_READ, W},
	{AT, LE_WAITING, .event = LE_IN_NODE_ENDED, .reason = LE_REASON_EXPIRED,
		.to = LE_WAITING, W},

	/* acquiring */
	{AT, LE_ACQUIRING, .event = LE_IN_WANT, .to = LE_ACQUIRING, W},
	{AT, LE_ACQUIRING, GIVEN_UP, LE_IN_WANT, .to = LE_ACQUIRING, W},
	{AT, LE_ACQUIRING, .event = LE_IN_UNWANT, .to = LE_ACQUIRING},
	{AT, LE_ACQUIRING, .event = LE_IN_DONE, .index = 110,
		.to = LE_HELD, .say = LE_SAY_GRANTED, .begins = 110,
		.write_index = 110, W},
	{AT, LE_ACQUIRING, AGAIN, LE_IN_DONE, .index = 51,
		.to = LE_HELD, .say = LE_SAY_GRANTED, .begins = 51,
		.write_index = 51, W},
	{AT, LE_ACQUIRING, .event = LE_IN_DONE, .index = 50,
		.to = LE_RELEASING, .send = LE_SEND_RELEASE, .on = 50,
		.say = LE_SAY_TOKEN_WENT_BACK, .because = LE_REFUSED,
		.write_index = 50, W},
	{AT, LE_ACQUIRING, .event = LE_IN_DONE, .index = 49,
		.to = LE_RELEASING, .send = LE_SEND_RELEASE, .on = 49,
		.say = LE_SAY_TOKEN_WENT_BACK, .because = LE_REFUSED,
		.write_index = 49, W},
	{AT, LE_ACQUIRING, GIVEN_UP, LE_IN_DONE, .index = 110,
		.to = LE_RELEASING, .send = LE_SEND_RELEASE, .on = 110,
		.write_index = 110},
	{AT, LE_ACQUIRING, .event = LE_IN_CONFLICT,
		.conflict = LE_CONFLICT_CHANGED,
		.to = LE_ACQUIRE_UNSURE, .send = LE_SEND_READ, W, .failures = 1},
	/* certain: the key's view may be older than the grant */
	{AT, LE_ACQUIRING, .event = LE_IN_CONFLICT, .conflict = LE_CONFLICT_HELD,
		.to = LE_WAITING, .say = LE_SAY_DENIED, .timer = HELD_BY_OTHER, W},
	{AT, LE_ACQUIRING, GIVEN_UP, LE_IN_CONFLICT,
		.conflict = LE_CONFLICT_HELD,
		.to = LE_IDLE},
	/* an earlier copy may have been applied, and the key taken since */
	{AT, LE_ACQUIRING, AGAIN, LE_IN_CONFLICT, .conflict = LE_CONFLICT_HELD,
		.to = LE_ACQUIRE_UNSURE, .send = LE_SEND_READ, W, .failures = 2},
	{AT, LE_ACQUIRING, AGAIN | GIVEN_UP, LE_IN_CONFLICT,
		.conflict = LE_CONFLICT_HELD,
		.to = LE_ACQUIRE_UNSURE, .send = LE_SEND_READ, .failures = 2},
	{AT, LE_ACQUIRING, WORN, LE_IN_CONFLICT, .conflict = LE_CONFLICT_HELD,
		.to = LE_ACQUIRE_UNSURE, .say = LE_SAY_FAILED, .because = LE_UNKNOWN,
		.timer = RETRY4, W, .failures = LE_ATTEMPTS + 1},
	{AT, LE_ACQUIRING, .event = LE_IN_CONFLICT,
		.conflict = LE_CONFLICT_LOCK_DELAY,
		.to = LE_WAITING, .say = LE_SAY_DENIED, .timer = DELAYED, W},
	/* ... and may be applied before this one's answer arrives */
	{AT, LE_ACQUIRING, AGAIN, LE_IN_CONFLICT,
		.conflict = LE_CONFLICT_LOCK_DELAY,
		.to = LE_ACQUIRE_UNSURE, .say = LE_SAY_FAILED,
		.because = LE_UNKNOWN, .timer = DELAYED, W, .failures = 1},
	{AT, LE_ACQUIRING, GIVEN_UP, LE_IN_CONFLICT,
		.conflict = LE_CONFLICT_CHANGED,
		.to = LE_IDLE},
	{AT, LE_ACQUIRING, GIVEN_UP, LE_IN_CONFLICT,
		.conflict = LE_CONFLICT_LOCK_DELAY,
		.to = LE_IDLE},
	/* an earlier copy may be the cause, and must not stay behind */
	{AT, LE_ACQUIRING, AGAIN | GIVEN_UP, LE_IN_CONFLICT,
		.conflict = LE_CONFLICT_CHANGED,
		.to = LE_ACQUIRE_UNSURE, .send = LE_SEND_READ, .failures = 2},
	{AT, LE_ACQUIRING, AGAIN | GIVEN_UP, LE_IN_CONFLICT,
		.conflict = LE_CONFLICT_LOCK_DELAY,
		.to = LE_ACQUIRE_UNSURE, .say = LE_SAY_FAILED,
		.because = LE_UNKNOWN, .timer = DELAYED, .failures = 1},
	{AT, LE_ACQUIRING, .event = LE_IN_NOT_APPLIED, .outcome = LE_REFUSED,
		.to = LE_WAITING, .say = LE_SAY_FAILED, .because = LE_REFUSED,
		.timer = RETRY1, W, .failures = 1},
	{AT, LE_ACQUIRING, GIVEN_UP, LE_IN_NOT_APPLIED, .outcome = LE_LOST,
		.to = LE_IDLE, .say = LE_SAY_FAILED, .because = LE_LOST},
	{AT, LE_ACQUIRING, AGAIN, LE_IN_NOT_APPLIED, .outcome = LE_UNAVAILABLE,
		.to = LE_ACQUIRE_UNSURE, .say = LE_SAY_FAILED, .because = LE_UNKNOWN,
		.timer = RETRY2, W, .failures = 2},
	{AT, LE_ACQUIRING, AGAIN | GIVEN_UP, LE_IN_NOT_APPLIED,
		.outcome = LE_UNAVAILABLE,
		.to = LE_ACQUIRE_UNSURE, .say = LE_SAY_FAILED, .because = LE_UNKNOWN,
		.timer = RETRY2, .failures = 2},
	{AT, LE_ACQUIRING, .event = LE_IN_UNKNOWN,
		.to = LE_ACQUIRE_UNSURE, .send = LE_SEND_READ, W, .failures = 1},
	{AT, LE_ACQUIRING, GIVEN_UP, LE_IN_UNKNOWN,
		.to = LE_ACQUIRE_UNSURE, .send = LE_SEND_READ, .failures = 1},
	{AT, LE_ACQUIRING, WORN, LE_IN_UNKNOWN,
		.to = LE_ACQUIRE_UNSURE, .say = LE_SAY_FAILED, .because = LE_UNKNOWN,
		.timer = RETRY4, W, .failures = LE_ATTEMPTS + 1},
	{AT, LE_ACQUIRING, AGAIN, LE_IN_NODE_ENDED, .reason = LE_REASON_EXPIRED,
		.to = LE_WAITING, .say = LE_SAY_FAILED, .because = LE_UNKNOWN, W},
	{AT, LE_ACQUIRING, AGAIN | GIVEN_UP, LE_IN_NODE_ENDED,
		.reason = LE_REASON_EXPIRED,
		.to = LE_IDLE, .say = LE_SAY_FAILED, .because = LE_UNKNOWN},

	/* acquire unsure */
	{AT, LE_ACQUIRE_UNSURE, GIVEN_UP, LE_IN_WANT,
		.to = LE_ACQUIRE_UNSURE, W, .failures = 1, .timer = -1},
	{AT, LE_ACQUIRE_UNSURE, PLAIN, LE_IN_UNWANT,
		.to = LE_ACQUIRE_UNSURE, .failures = 1, .timer = -1},
	{AT, LE_ACQUIRE_UNSURE, PLAIN, LE_IN_READ, .view = &ours,
		.to = LE_HELD, .say = LE_SAY_GRANTED, .begins = 110,
		.write_index = 110, W},
	{AT, LE_ACQUIRE_UNSURE, PLAIN, LE_IN_READ, .view = &ours_low,
		.to = LE_RELEASING, .send = LE_SEND_RELEASE, .on = 50,
		.say = LE_SAY_TOKEN_WENT_BACK, .because = LE_REFUSED,
		.write_index = 50, W},
	{AT, LE_ACQUIRE_UNSURE, GIVEN_UP, LE_IN_READ, .view = &ours,
		.to = LE_RELEASING, .send = LE_SEND_RELEASE, .on = 110,
		.write_index = 110},
	{AT, LE_ACQUIRE_UNSURE, PLAIN, LE_IN_READ, .view = &released,
		.to = LE_ACQUIRING, .send = LE_SEND_ACQUIRE, .on = 90, W,
		.failures = 1},
	{AT, LE_ACQUIRE_UNSURE, GIVEN_UP, LE_IN_READ, .view = &released,
		.to = LE_ACQUIRING, .send = LE_SEND_ACQUIRE, .on = 90, .failures = 1},
	{AT, LE_ACQUIRE_UNSURE, PLAIN, LE_IN_READ, .view = &released_new,
		.to = LE_ACQUIRING, .send = LE_SEND_ACQUIRE, .on = 95, W},
	{AT, LE_ACQUIRE_UNSURE, GIVEN_UP, LE_IN_READ, .view = &released_new,
		.to = LE_IDLE},
	{AT, LE_ACQUIRE_UNSURE, PLAIN, LE_IN_READ, .view = &other,
		.to = LE_WAITING, .say = LE_SAY_DENIED, .timer = BACKSTOP, W},
	{AT, LE_ACQUIRE_UNSURE, GIVEN_UP, LE_IN_READ, .view = &other,
		.to = LE_IDLE},
	/* a takeover is sent again only while the holder is silent */
	{AT, LE_ACQUIRE_UNSURE, TAKEOVER, LE_IN_READ, .view = &ours,
		.to = LE_HELD, .say = LE_SAY_GRANTED, .begins = 110,
		.write_index = 110, W},
	{AT, LE_ACQUIRE_UNSURE, TAKEOVER, LE_IN_READ, .view = &silent_same,
		.to = LE_ACQUIRING, .send = LE_SEND_TAKE_OVER, .on = 90, W,
		.failures = 1},
	{AT, LE_ACQUIRE_UNSURE, TAKEOVER, LE_IN_READ, .view = &alive_same,
		.to = LE_WAITING, .say = LE_SAY_DENIED,
		.timer = LE_SEC + SPREAD, W},
	{AT, LE_ACQUIRE_UNSURE, TAKEOVER | GIVEN_UP, LE_IN_READ,
		.view = &alive_same, .to = LE_IDLE},
	{AT, LE_ACQUIRE_UNSURE, TAKEOVER, LE_IN_READ, .view = &released_new,
		.to = LE_ACQUIRING, .send = LE_SEND_ACQUIRE, .on = 95, W},
	{AT, LE_ACQUIRE_UNSURE, PLAIN, LE_IN_READ_FAILED,
		.outcome = LE_UNAVAILABLE,
		.to = LE_ACQUIRE_UNSURE, .say = LE_SAY_FAILED, .because = LE_UNKNOWN,
		.timer = RETRY2, W, .failures = 2},
	{AT, LE_ACQUIRE_UNSURE, PLAIN, LE_IN_TIMER,
		.to = LE_ACQUIRE_UNSURE, .send = LE_SEND_READ, W, .failures = 1},
	{AT, LE_ACQUIRE_UNSURE, PLAIN, LE_IN_NODE_ENDED,
		.reason = LE_REASON_SESSION_LOST,
		.to = LE_WAITING, .say = LE_SAY_FAILED, .because = LE_UNKNOWN, W},
	{AT, LE_ACQUIRE_UNSURE, GIVEN_UP, LE_IN_NODE_ENDED,
		.reason = LE_REASON_SESSION_LOST,
		.to = LE_IDLE, .say = LE_SAY_FAILED, .because = LE_UNKNOWN},

	/* held */
	{AT, LE_HELD, .event = LE_IN_UNWANT,
		.to = LE_RELEASING, .send = LE_SEND_RELEASE, .on = 105,
		.ends = LE_REASON_RELEASED},
	{AT, LE_HELD, .event = LE_IN_DRAIN,
		.to = LE_DRAINING, .timer = UNTIL, .drains = true},
	{AT, LE_HELD, .event = LE_IN_PUBLISH,
		.to = LE_PUBLISHING, .send = LE_SEND_PUBLISH, .on = 105, W},
	{AT, LE_HELD, .event = LE_IN_SEEN, .view = &ours_published,
		.to = LE_HELD, .write_index = 110, W},
	{AT, LE_HELD, .event = LE_IN_SEEN, .view = &ours_edited,
		.to = LE_HELD, W},
	{AT, LE_HELD, .event = LE_IN_SEEN, .view = &ours_anew,
		.to = LE_READING, .send = LE_SEND_READ, .say = LE_SAY_LOST,
		.ends = LE_REASON_KEY_LOST, W},
	{AT, LE_HELD, .event = LE_IN_SEEN, .view = &ours_low, .to = LE_HELD, W},
	{AT, LE_HELD, LEASED, LE_IN_SEEN, .view = &ours_leased, .to = LE_HELD,
		.until = TRUSTED, W},
	{AT, LE_HELD, .event = LE_IN_SEEN, .view = &other_as_old,
		.to = LE_HELD, W},
	{AT, LE_HELD, .event = LE_IN_SEEN, .view = &other_newer,
		.to = LE_READING, .send = LE_SEND_READ, .say = LE_SAY_LOST,
		.ends = LE_REASON_KEY_LOST, W},
	{AT, LE_HELD, .event = LE_IN_SEEN, .view = &absent_newer,
		.to = LE_READING, .send = LE_SEND_READ, .say = LE_SAY_LOST,
		.ends = LE_REASON_KEY_LOST, W},
	{AT, LE_HELD, .event = LE_IN_NOT_OURS,
		.to = LE_READING, .send = LE_SEND_READ, .say = LE_SAY_LOST,
		.ends = LE_REASON_KEY_LOST, W},
	{AT, LE_HELD, .event = LE_IN_NODE_ENDED, .reason = LE_REASON_EXPIRED,
		.to = LE_WAITING, .say = LE_SAY_LOST, .ends = LE_REASON_EXPIRED, W},

	/* ... with a lease of its own */
	{AT, LE_HELD, LEASED, LE_IN_RENEWED, .trusted = 10 * LE_SEC,
		.to = LE_HELD, .until = 10 * LE_SEC, W},
	{AT, LE_HELD, LEASED, LE_IN_RENEWED, .trusted = LE_SEC,
		.to = LE_HELD, .until = TRUSTED, W},
	{AT, LE_HELD, LAPSED, LE_IN_RENEWED, .trusted = 10 * LE_SEC,
		.to = LE_RELEASING, .send = LE_SEND_RELEASE, .on = 105,
		.say = LE_SAY_LOST, .ends = LE_REASON_EXPIRED, W},
	{AT, LE_HELD, LEASED, LE_IN_RENEW_FAILED, .outcome = LE_UNKNOWN,
		.to = LE_HELD, .until = TRUSTED, W},
	{AT, LE_HELD, LEASED, LE_IN_RENEW_FAILED, .outcome = LE_CONFLICT,
		.to = LE_HELD, .until = TRUSTED, W},
	{AT, LE_HELD, LEASED, LE_IN_RENEW_FAILED, .outcome = LE_LOST,
		.to = LE_READING, .send = LE_SEND_READ, .say = LE_SAY_LOST,
		.ends = LE_REASON_KEY_LOST, W},
	{AT, LE_HELD, LEASED, LE_IN_EXPIRED, .to = LE_HELD, .until = TRUSTED, W},
	{AT, LE_HELD, PLAIN, LE_IN_EXPIRED, .to = LE_HELD, W},
	{AT, LE_HELD, LAPSED, LE_IN_EXPIRED,
		.to = LE_RELEASING, .send = LE_SEND_RELEASE, .on = 105,
		.say = LE_SAY_LOST, .ends = LE_REASON_EXPIRED, W},
	{AT, LE_ACQUIRING, PLAIN, LE_IN_DONE, .index = 110,
		.trusted = 10 * LE_SEC, .to = LE_HELD, .say = LE_SAY_GRANTED,
		.begins = 110, .write_index = 110, .until = 10 * LE_SEC, W},
	{AT, LE_ACQUIRING, PLAIN, LE_IN_DONE, .index = 110,
		.trusted = -1, .to = LE_RELEASING, .send = LE_SEND_RELEASE,
		.on = 110, .say = LE_SAY_FAILED, .because = LE_UNKNOWN,
		.write_index = 110, W},
	{AT, LE_ACQUIRING, PLAIN, LE_IN_CONFLICT, .conflict = LE_CONFLICT_OWN,
		.index = 120, .to = LE_RELEASING, .send = LE_SEND_RELEASE,
		.on = 120, W},
	{AT, LE_ACQUIRE_UNSURE, PLAIN, LE_IN_READ, .view = &ours_leased,
		.to = LE_ACQUIRING, .send = LE_SEND_ACQUIRE, .on = 90, W,
		.failures = 1},
	{AT, LE_PUBLISHING, LEASED, LE_IN_DONE, .index = 105,
		.trusted = 10 * LE_SEC, .to = LE_HELD, .say = LE_SAY_PUBLISHED,
		.until = 10 * LE_SEC, W},
	{AT, LE_PUBLISHING, LAPSED, LE_IN_DONE, .index = 105,
		.trusted = 10 * LE_SEC, .to = LE_RELEASING,
		.send = LE_SEND_RELEASE, .on = 105, .say = LE_SAY_LOST,
		.ends = LE_REASON_EXPIRED, W},
	{AT, LE_PUBLISHING, GIVEN_UP, LE_IN_DONE, .index = 105,
		.trusted = 10 * LE_SEC, .to = LE_RELEASING,
		.send = LE_SEND_RELEASE, .on = 105, .say = LE_SAY_PUBLISHED},
	{AT, LE_PUBLISHING, LEASED, LE_IN_RENEWED, .trusted = 10 * LE_SEC,
		.to = LE_PUBLISHING, .until = 10 * LE_SEC, W},
	{AT, LE_PUBLISHING, LEASED, LE_IN_RENEW_FAILED, .outcome = LE_LOST,
		.to = LE_READING, .send = LE_SEND_READ, .say = LE_SAY_LOST,
		.ends = LE_REASON_KEY_LOST, W},
	{AT, LE_PUBLISHING, LAPSED, LE_IN_EXPIRED, .to = LE_PUBLISHING,
		.say = LE_SAY_LOST, .ends = LE_REASON_EXPIRED, W},
	{AT, LE_PUBLISH_UNSURE, LEASED, LE_IN_RENEWED, .trusted = 10 * LE_SEC,
		.to = LE_PUBLISH_UNSURE, .until = 10 * LE_SEC, .timer = -1, W,
		.failures = 1},
	{AT, LE_PUBLISH_UNSURE, LEASED, LE_IN_RENEW_FAILED,
		.outcome = LE_UNKNOWN, .to = LE_PUBLISH_UNSURE, .until = TRUSTED,
		.timer = -1, W, .failures = 1},
	{AT, LE_PUBLISH_UNSURE, LAPSED, LE_IN_EXPIRED, .to = LE_PUBLISH_UNSURE,
		.say = LE_SAY_LOST, .ends = LE_REASON_EXPIRED, .timer = -1, W,
		.failures = 1},

	/* publishing */
	{AT, LE_PUBLISHING, .event = LE_IN_WANT, .to = LE_PUBLISHING, W},
	{AT, LE_PUBLISHING, GIVEN_UP, LE_IN_WANT, .to = LE_PUBLISHING, W},
	{AT, LE_PUBLISHING, .event = LE_IN_UNWANT,
		.to = LE_PUBLISHING, .ends = LE_REASON_RELEASED},
	{AT, LE_PUBLISHING, GIVEN_UP, LE_IN_UNWANT, .to = LE_PUBLISHING},
	{AT, LE_PUBLISHING, .event = LE_IN_DRAIN,
		.to = LE_PUBLISHING, .drains = true},
	{AT, LE_PUBLISHING, GIVEN_UP, LE_IN_DRAIN, .to = LE_PUBLISHING},
	{AT, LE_PUBLISHING, .event = LE_IN_SEEN, .view = &ours_published,
		.to = LE_PUBLISHING, .write_index = 110, W},
	{AT, LE_PUBLISHING, .event = LE_IN_SEEN, .view = &ours_low,
		.to = LE_PUBLISHING, W},
	{AT, LE_PUBLISHING, .event = LE_IN_SEEN, .view = &other_newer,
		.to = LE_PUBLISHING, W},
	{AT, LE_PUBLISHING, .event = LE_IN_SEEN, .view = &ours_anew,
		.to = LE_PUBLISHING, W},
	{AT, LE_PUBLISHING, GIVEN_UP, LE_IN_SEEN, .view = &ours_published,
		.to = LE_PUBLISHING},
	{AT, LE_PUBLISHING, DRAINED, LE_IN_DRAIN,
		.to = LE_PUBLISHING, .drains = true},
	{AT, LE_PUBLISHING, DRAINED, LE_IN_WANT, .to = LE_PUBLISHING, W},
	{AT, LE_PUBLISHING, DRAINED, LE_IN_UNWANT,
		.to = LE_PUBLISHING, .ends = LE_REASON_RELEASED},
	{AT, LE_PUBLISHING, DRAINED, LE_IN_DONE, .index = 120,
		.to = LE_DRAINING, .say = LE_SAY_PUBLISHED, .write_index = 120,
		.timer = 3 * LE_SEC},
	{AT, LE_PUBLISHING, DRAINED, LE_IN_NOT_APPLIED, .outcome = LE_REFUSED,
		.to = LE_DRAINING, .say = LE_SAY_PUBLISH_FAILED,
		.because = LE_REFUSED, .timer = 3 * LE_SEC},
	{AT, LE_PUBLISHING, DRAINED, LE_IN_NOT_OURS,
		.to = LE_IDLE, .say = LE_SAY_RELEASED, .ends = LE_REASON_KEY_LOST},
	{AT, LE_PUBLISHING, DRAINED, LE_IN_NODE_ENDED,
		.reason = LE_REASON_EXPIRED,
		.to = LE_IDLE, .say = LE_SAY_RELEASE_FAILED, .because = LE_UNKNOWN,
		.ends = LE_REASON_EXPIRED},
	{AT, LE_PUBLISHING, .event = LE_IN_DONE, .index = 120,
		.to = LE_HELD, .say = LE_SAY_PUBLISHED, .write_index = 120, W},
	{AT, LE_PUBLISHING, AGAIN, LE_IN_DONE, .index = 120,
		.to = LE_HELD, .say = LE_SAY_PUBLISHED, .write_index = 120, W},
	{AT, LE_PUBLISHING, GIVEN_UP, LE_IN_DONE, .index = 120,
		.to = LE_RELEASING, .send = LE_SEND_RELEASE, .on = 120,
		.say = LE_SAY_PUBLISHED, .write_index = 120},
	{AT, LE_PUBLISHING, .event = LE_IN_CONFLICT,
		.to = LE_PUBLISH_UNSURE, .send = LE_SEND_READ, W, .failures = 1},
	{AT, LE_PUBLISHING, GIVEN_UP, LE_IN_CONFLICT,
		.to = LE_PUBLISH_UNSURE, .send = LE_SEND_READ, .failures = 1},
	{AT, LE_PUBLISHING, WORN, LE_IN_CONFLICT,
		.to = LE_PUBLISH_UNSURE, .say = LE_SAY_PUBLISH_FAILED,
		.because = LE_UNKNOWN, .timer = RETRY4, W,
		.failures = LE_ATTEMPTS + 1},
	{AT, LE_PUBLISHING, .event = LE_IN_NOT_APPLIED, .outcome = LE_REFUSED,
		.to = LE_HELD, .say = LE_SAY_PUBLISH_FAILED, .because = LE_REFUSED, W},
	{AT, LE_PUBLISHING, AGAIN, LE_IN_NOT_APPLIED, .outcome = LE_REFUSED,
		.to = LE_HELD, .say = LE_SAY_PUBLISH_FAILED, .because = LE_UNKNOWN, W},
	{AT, LE_PUBLISHING, GIVEN_UP, LE_IN_NOT_APPLIED,
		.outcome = LE_UNAVAILABLE,
		.to = LE_RELEASING, .send = LE_SEND_RELEASE, .on = 105,
		.say = LE_SAY_PUBLISH_FAILED, .because = LE_UNAVAILABLE},
	{AT, LE_PUBLISHING, .event = LE_IN_UNKNOWN,
		.to = LE_PUBLISH_UNSURE, .send = LE_SEND_READ, W, .failures = 1},
	{AT, LE_PUBLISHING, WORN, LE_IN_UNKNOWN,
		.to = LE_PUBLISH_UNSURE, .say = LE_SAY_PUBLISH_FAILED,
		.because = LE_UNKNOWN, .timer = RETRY4, W,
		.failures = LE_ATTEMPTS + 1},
	{AT, LE_PUBLISHING, .event = LE_IN_NOT_OURS,
		.to = LE_READING, .send = LE_SEND_READ, .say = LE_SAY_LOST,
		.ends = LE_REASON_KEY_LOST, W},
	{AT, LE_PUBLISHING, GIVEN_UP, LE_IN_NOT_OURS, .to = LE_PUBLISHING},
	{AT, LE_PUBLISHING, .event = LE_IN_NODE_ENDED,
		.reason = LE_REASON_SESSION_LOST,
		.to = LE_WAITING, .say = LE_SAY_LOST, .ends = LE_REASON_SESSION_LOST,
		W},
	{AT, LE_PUBLISHING, GIVEN_UP, LE_IN_NODE_ENDED,
		.reason = LE_REASON_SESSION_LOST,
		.to = LE_IDLE, .say = LE_SAY_RELEASE_FAILED, .because = LE_UNKNOWN},

	/* publish unsure */
	{AT, LE_PUBLISH_UNSURE, GIVEN_UP, LE_IN_WANT,
		.to = LE_PUBLISH_UNSURE, W, .failures = 1, .timer = -1},
	{AT, LE_PUBLISH_UNSURE, PLAIN, LE_IN_UNWANT,
		.to = LE_PUBLISH_UNSURE, .ends = LE_REASON_RELEASED, .failures = 1,
		.timer = -1},
	{AT, LE_PUBLISH_UNSURE, PLAIN, LE_IN_DRAIN,
		.to = LE_PUBLISH_UNSURE, .failures = 1, .timer = -1, .drains = true},
	{AT, LE_PUBLISH_UNSURE, GIVEN_UP, LE_IN_DRAIN,
		.to = LE_PUBLISH_UNSURE, .failures = 1, .timer = -1},
	{AT, LE_PUBLISH_UNSURE, DRAINED, LE_IN_UNWANT,
		.to = LE_PUBLISH_UNSURE, .ends = LE_REASON_RELEASED, .failures = 1,
		.timer = -1},
	{AT, LE_PUBLISH_UNSURE, DRAINED, LE_IN_READ, .view = &ours,
		.to = LE_PUBLISHING, .send = LE_SEND_PUBLISH, .on = 110,
		.write_index = 110, .failures = 1},
	{AT, LE_PUBLISH_UNSURE, DRAINED, LE_IN_READ, .view = &other,
		.to = LE_IDLE, .say = LE_SAY_RELEASED, .ends = LE_REASON_KEY_LOST},
	{AT, LE_PUBLISH_UNSURE, PLAIN, LE_IN_READ, .view = &ours,
		.to = LE_PUBLISHING, .send = LE_SEND_PUBLISH, .on = 110,
		.write_index = 110, W, .failures = 1},
	{AT, LE_PUBLISH_UNSURE, GIVEN_UP, LE_IN_READ, .view = &ours,
		.to = LE_RELEASING, .send = LE_SEND_RELEASE, .on = 110,
		.write_index = 110, .failures = 1},
	{AT, LE_PUBLISH_UNSURE, PLAIN, LE_IN_READ, .view = &other,
		.to = LE_READING, .send = LE_SEND_READ, .say = LE_SAY_LOST,
		.ends = LE_REASON_KEY_LOST, W},
	{AT, LE_PUBLISH_UNSURE, PLAIN, LE_IN_READ, .view = &absent,
		.to = LE_READING, .send = LE_SEND_READ, .say = LE_SAY_LOST,
		.ends = LE_REASON_KEY_LOST, W},
	{AT, LE_PUBLISH_UNSURE, GIVEN_UP, LE_IN_READ, .view = &other,
		.to = LE_IDLE, .say = LE_SAY_RELEASED},
	{AT, LE_PUBLISH_UNSURE, PLAIN, LE_IN_READ_FAILED,
		.outcome = LE_UNAVAILABLE,
		.to = LE_PUBLISH_UNSURE, .say = LE_SAY_PUBLISH_FAILED,
		.because = LE_UNKNOWN, .timer = RETRY2, W, .failures = 2},
	{AT, LE_PUBLISH_UNSURE, PLAIN, LE_IN_NOT_OURS,
		.to = LE_READING, .send = LE_SEND_READ, .say = LE_SAY_LOST,
		.ends = LE_REASON_KEY_LOST, W},
	{AT, LE_PUBLISH_UNSURE, GIVEN_UP, LE_IN_NOT_OURS,
		.to = LE_PUBLISH_UNSURE, .failures = 1, .timer = -1},
	{AT, LE_PUBLISH_UNSURE, PLAIN, LE_IN_TIMER,
		.to = LE_PUBLISH_UNSURE, .send = LE_SEND_READ, W, .failures = 1},
	{AT, LE_PUBLISH_UNSURE, PLAIN, LE_IN_NODE_ENDED,
		.reason = LE_REASON_EXPIRED,
		.to = LE_WAITING, .say = LE_SAY_LOST, .ends = LE_REASON_EXPIRED, W},
	{AT, LE_PUBLISH_UNSURE, GIVEN_UP, LE_IN_NODE_ENDED,
		.reason = LE_REASON_EXPIRED,
		.to = LE_IDLE, .say = LE_SAY_RELEASE_FAILED, .because = LE_UNKNOWN},

	/* draining */
	{AT, LE_DRAINING, PLAIN, LE_IN_UNWANT,
		.to = LE_RELEASING, .send = LE_SEND_RELEASE, .on = 105,
		.ends = LE_REASON_RELEASED},
	{AT, LE_DRAINING, PLAIN, LE_IN_DRAIN,
		.to = LE_DRAINING, .timer = UNTIL, .drains = true},
	{AT, LE_DRAINING, PLAIN, LE_IN_SEEN, .view = &ours_anew,
		.to = LE_IDLE, .say = LE_SAY_RELEASED, .ends = LE_REASON_KEY_LOST},
	{AT, LE_DRAINING, PLAIN, LE_IN_SEEN, .view = &ours_published,
		.to = LE_DRAINING, .timer = -1, .write_index = 110},
	{AT, LE_DRAINING, PLAIN, LE_IN_SEEN, .view = &other_as_old,
		.to = LE_DRAINING, .timer = -1},
	{AT, LE_DRAINING, PLAIN, LE_IN_SEEN, .view = &other_newer,
		.to = LE_IDLE, .say = LE_SAY_RELEASED, .ends = LE_REASON_KEY_LOST},
	{AT, LE_DRAINING, PLAIN, LE_IN_NOT_OURS,
		.to = LE_IDLE, .say = LE_SAY_RELEASED, .ends = LE_REASON_KEY_LOST},
	{AT, LE_DRAINING, PLAIN, LE_IN_TIMER,
		.to = LE_RELEASING, .send = LE_SEND_RELEASE, .on = 105,
		.ends = LE_REASON_RELEASED},
	{AT, LE_DRAINING, PLAIN, LE_IN_NODE_ENDED,
		.reason = LE_REASON_SESSION_LOST,
		.to = LE_IDLE, .say = LE_SAY_RELEASE_FAILED, .because = LE_UNKNOWN,
		.ends = LE_REASON_SESSION_LOST},

	{AT, LE_DRAINING, LEASED, LE_IN_RENEWED, .trusted = 10 * LE_SEC,
		.to = LE_DRAINING, .until = 10 * LE_SEC, .timer = -1},
	{AT, LE_DRAINING, LEASED, LE_IN_RENEW_FAILED, .outcome = LE_UNKNOWN,
		.to = LE_DRAINING, .until = TRUSTED, .timer = -1},
	{AT, LE_DRAINING, LEASED, LE_IN_RENEW_FAILED, .outcome = LE_LOST,
		.to = LE_IDLE, .say = LE_SAY_RELEASED, .ends = LE_REASON_KEY_LOST},
	{AT, LE_DRAINING, LEASED, LE_IN_EXPIRED,
		.to = LE_DRAINING, .until = TRUSTED, .timer = -1},
	{AT, LE_DRAINING, LAPSED, LE_IN_EXPIRED,
		.to = LE_RELEASING, .send = LE_SEND_RELEASE, .on = 105,
		.say = LE_SAY_LOST, .ends = LE_REASON_EXPIRED},

	/* releasing */
	{AT, LE_RELEASING, GIVEN_UP, LE_IN_WANT, .to = LE_RELEASING, W},
	{AT, LE_RELEASING, .event = LE_IN_UNWANT, .to = LE_RELEASING},
	{AT, LE_RELEASING, GIVEN_UP, LE_IN_DONE, .index = 120,
		.to = LE_IDLE, .say = LE_SAY_RELEASED},
	{AT, LE_RELEASING, .event = LE_IN_DONE, .index = 120,
		.to = LE_READING, .send = LE_SEND_READ, .say = LE_SAY_RELEASED, W},
	{AT, LE_RELEASING, GIVEN_UP, LE_IN_CONFLICT,
		.to = LE_RELEASE_UNSURE, .send = LE_SEND_READ, .failures = 1},
	{AT, LE_RELEASING, WORN, LE_IN_CONFLICT,
		.to = LE_RELEASE_UNSURE, .say = LE_SAY_RELEASE_FAILED,
		.because = LE_UNKNOWN, .timer = RETRY4, W,
		.failures = LE_ATTEMPTS + 1},
	{AT, LE_RELEASING, GIVEN_UP, LE_IN_NOT_APPLIED, .outcome = LE_REFUSED,
		.to = LE_RELEASE_UNSURE, .say = LE_SAY_RELEASE_FAILED,
		.because = LE_REFUSED, .timer = RETRY1, .failures = 1},
	{AT, LE_RELEASING, GIVEN_UP, LE_IN_UNKNOWN,
		.to = LE_RELEASE_UNSURE, .send = LE_SEND_READ, .failures = 1},
	{AT, LE_RELEASING, WORN, LE_IN_UNKNOWN,
		.to = LE_RELEASE_UNSURE, .say = LE_SAY_RELEASE_FAILED,
		.because = LE_UNKNOWN, .timer = RETRY4, W,
		.failures = LE_ATTEMPTS + 1},
	{AT, LE_RELEASING, GIVEN_UP, LE_IN_NODE_ENDED,
		.reason = LE_REASON_SESSION_LOST,
		.to = LE_IDLE, .say = LE_SAY_RELEASE_FAILED, .because = LE_UNKNOWN},
	{AT, LE_RELEASING, .event = LE_IN_NODE_ENDED, .reason = LE_REASON_EXPIRED,
		.to = LE_WAITING, .say = LE_SAY_RELEASE_FAILED,
		.because = LE_UNKNOWN, W},

	/* release unsure */
	{AT, LE_RELEASE_UNSURE, GIVEN_UP, LE_IN_WANT,
		.to = LE_RELEASE_UNSURE, W, .failures = 1, .timer = -1},
	{AT, LE_RELEASE_UNSURE, PLAIN, LE_IN_UNWANT,
		.to = LE_RELEASE_UNSURE, .failures = 1, .timer = -1},
	{AT, LE_RELEASE_UNSURE, GIVEN_UP, LE_IN_READ, .view = &ours,
		.to = LE_RELEASING, .send = LE_SEND_RELEASE, .on = 110, .failures = 1},
	{AT, LE_RELEASE_UNSURE, GIVEN_UP, LE_IN_READ, .view = &released,
		.to = LE_IDLE, .say = LE_SAY_RELEASED},
	{AT, LE_RELEASE_UNSURE, GIVEN_UP, LE_IN_READ, .view = &absent,
		.to = LE_IDLE, .say = LE_SAY_RELEASED},
	{AT, LE_RELEASE_UNSURE, PLAIN, LE_IN_READ, .view = &other,
		.to = LE_READING, .send = LE_SEND_READ, .say = LE_SAY_RELEASED, W},
	{AT, LE_RELEASE_UNSURE, GIVEN_UP, LE_IN_READ_FAILED,
		.outcome = LE_UNAVAILABLE,
		.to = LE_RELEASE_UNSURE, .say = LE_SAY_RELEASE_FAILED,
		.because = LE_UNKNOWN, .timer = RETRY2, .failures = 2},
	{AT, LE_RELEASE_UNSURE, GIVEN_UP, LE_IN_TIMER,
		.to = LE_RELEASE_UNSURE, .send = LE_SEND_READ, .failures = 1},
	{AT, LE_RELEASE_UNSURE, GIVEN_UP, LE_IN_NODE_ENDED,
		.reason = LE_REASON_SESSION_LOST,
		.to = LE_IDLE, .say = LE_SAY_RELEASE_FAILED, .because = LE_UNKNOWN},
};

static bool
is_unsure(LeState state)
{
	return state == LE_ACQUIRE_UNSURE || state == LE_PUBLISH_UNSURE ||
		state == LE_RELEASE_UNSURE;
}

static bool
may_have_term(LeState state)
{
	return state == LE_HELD || state == LE_PUBLISHING ||
		state == LE_PUBLISH_UNSURE || state == LE_DRAINING;
}

/* An election in the given state, as if it had got there. */
static LeElection
election_in(LeState state, int past, LeInputKind event)
{
	le_time		due = event == LE_IN_TIMER ? NOW : 0;
	LeElection	e;

	if (state == LE_DRAINING)
		past |= DRAINED;
	le_election_init(&e, may_have_term(state) ||
					 state == LE_RELEASING ||
					 state == LE_RELEASE_UNSURE ? 100 : 50);
	e.state = state;
	e.request = 7;
	e.wanted = state != LE_IDLE && (past & (GIVEN_UP | DRAINED)) == 0;
	e.failures = past & WORN ? LE_ATTEMPTS :
		past & AGAIN || is_unsure(state) ? 1 : 0;
	e.attempt.unsure = e.failures > 0;
	e.attempt.takeover = (past & TAKEOVER) != 0;
	e.attempt.index = 90;
	e.attempt.floor = 50;
	if (may_have_term(state))
		e.token = past & GIVEN_UP ? 0 : 100;
	e.write_index = 105;
	if (past & DRAINED)
		e.drain_until = due != 0 ? due : NOW + 3 * LE_SEC;
	if (past & (LEASED | LAPSED))
		e.deadline = e.renew_at = past & LAPSED ? NOW : NOW + TRUSTED;
	e.renewing = e.deadline != 0;
	if (past & LOOKING)
		e.look_at = NOW + 2 * LE_SEC;
	if (past & (COUNTING | COUNTED))
	{
		e.seen_index = silent.index;
		e.seen_at = NOW - HIS_LEASE + (past & COUNTING ? 1 : 0);
	}
	if (past & REFUSED)
		e.refused_until = NOW + LEASE;
	if (state == LE_DRAINING)
		e.timer_at = e.drain_until;
	else if (state == LE_WAITING)
		e.timer_at = due != 0 ? due : NOW + LE_SEC;
	else if (is_unsure(state))
		e.timer_at = due;
	return e;
}

static void
every_cell_does_what_the_table_says(void **state)
{
	(void) state;
	for (size_t i = 0; i < lengthof(cells); i++)
	{
		const Cell *c = &cells[i];
		int			line = c->line;
		LeElection	e = election_in(c->from, c->past, c->event);
		LeElection	before = e;
		LeInput		ev = {
			.kind = c->event, .now = NOW, .random = RANDOM,
			.timing = &defaults, .view = c->view, .index = c->index,
			.outcome = c->outcome, .conflict = c->conflict,
			.reason = c->reason, .silent_at = c->silent_at,
			.sent = c->trusted != 0 ? NOW - LE_SEC : 0,
			.deadline = c->trusted != 0 ? NOW + c->trusted : 0,
			.until = NOW + UNTIL
		};
		LeActions	act;
		le_time		timer = c->timer == 0 ? 0 :
			c->timer == -1 ? before.timer_at : NOW + c->timer;

		check_holds(line, le_election_sound(&before));
		check_holds(line, le_election_contract(&before, &ev));
		act = le_election_input(&e, &ev);
		check_holds(line, le_election_check(&before, &ev, &e, &act));
		check_int(e.state, c->to);
		check_int(act.send, c->send);
		check_int(act.index, c->on);
		check_int(act.verdict, c->say);
		check_int(act.outcome, c->because);
		check_int(act.term_ends, c->ends != LE_REASON_NONE);
		if (act.term_ends)
			check_int(act.reason, c->ends);
		check_int(act.term_drains, c->drains);
		check(!c->drains || e.drain_until == NOW + UNTIL);
		check_int(act.term_begins, c->begins != 0);
		if (c->begins != 0)
			check_int(e.token, c->begins);
		check_int(e.token_floor, c->begins != 0 ? c->begins :
				  before.token_floor);
		check(e.timer_at >= timer - 2048 && e.timer_at <= timer + 2048);
		check_int(e.write_index, c->write_index != 0 ? c->write_index :
				  before.write_index);
		check_int(e.wanted, c->wanted);
		check_int(e.failures, c->failures);
		check_int(e.deadline, c->until != 0 ? NOW + c->until : 0);
		check_int(act.deadline_moved, e.deadline > before.deadline);
		if (c->event == LE_IN_RENEWED || c->event == LE_IN_RENEW_FAILED)
			check(!e.renewing);
		if (c->send == LE_SEND_ACQUIRE || c->send == LE_SEND_TAKE_OVER)
		{
			check_int(e.attempt.index, c->on);
			check_int(e.attempt.takeover, c->send == LE_SEND_TAKE_OVER);
		}
		/* an answer still under way must not pass for a newer one */
		if (le_election_in_flight(&before) &&
			(c->to != c->from || act.send != LE_SEND_NOTHING) &&
			(c->event == LE_IN_UNWANT || c->event == LE_IN_NOT_OURS ||
			 c->event == LE_IN_NODE_ENDED))
			check(e.request != before.request);
	}
}

/* Cells that the list above does not name are empty: they change nothing. */
static void
every_other_cell_is_empty(void **state)
{
	static const int pasts[] = {PLAIN, GIVEN_UP, AGAIN, AGAIN | GIVEN_UP};
	bool		listed[LE_NSTATES][LE_NINPUTS] = {{false}};
	int			empty = 0;

	(void) state;
	for (size_t i = 0; i < lengthof(cells); i++)
		listed[cells[i].from][cells[i].event] = true;
	for (int from = 0; from < LE_NSTATES; from++)
	{
		for (int event = 0; event < LE_NINPUTS; event++)
		{
			if (listed[from][event])
				continue;
			empty++;
			for (size_t p = 0; p < lengthof(pasts); p++)
			{
				int			line = from * 100 + event;
				LeElection	e = election_in(from, pasts[p], event);
				LeElection	before = e;
				LeInput		ev = {
					.kind = event, .now = NOW, .timing = &defaults,
					.view = &ours, .index = 300,
					.reason = LE_REASON_EXPIRED
				};
				LeActions	act = le_election_input(&e, &ev);
				LeActions	none = {0};

				check(memcmp(&e, &before, sizeof(e)) == 0);
				check(memcmp(&act, &none, sizeof(act)) == 0);
			}
		}
	}
	assert_int_equal(empty, LE_NSTATES * LE_NINPUTS - 81);
}

/* ---- stories ---- */

typedef struct Story
{
	LeElection	e;
	le_time		now;
	LeActions	act;			/* the last event's */
} Story;

static Story
begin(void)
{
	Story		s = {.now = T0};

	le_election_init(&s.e, 0);
	return s;
}

static void
feed(Story *s, LeInput ev)
{
	LeElection	before = s->e;

	ev.now = s->now;
	ev.timing = &defaults;
	check_holds(0, le_election_contract(&before, &ev));
	s->act = le_election_input(&s->e, &ev);
	check_holds(0, le_election_check(&before, &ev, &s->e, &s->act));
}

#define EV(...)		feed(&s, (LeInput) {__VA_ARGS__})
#define WANT()		EV(.kind = LE_IN_WANT)
#define UNWANT()	EV(.kind = LE_IN_UNWANT)
#define READ(...)	EV(.kind = LE_IN_READ, .view = VIEW(__VA_ARGS__))
#define SEEN(...)	EV(.kind = LE_IN_SEEN, .view = VIEW(__VA_ARGS__))
#define DONE(i)		EV(.kind = LE_IN_DONE, .index = (i))
#define CONFLICT(c) EV(.kind = LE_IN_CONFLICT, .conflict = (c))
#define UNKNOWN()	EV(.kind = LE_IN_UNKNOWN)
#define TIMER()		EV(.kind = LE_IN_TIMER)

#define expect_state(st) \
	assert_string_equal(le_state_name(s.e.state), le_state_name(st))
#define expect_send(what, on) \
	do { \
		assert_int_equal(s.act.send, what); \
		assert_int_equal(s.act.index, on); \
	} while (0)
#define expect_say(v, o) \
	do { \
		assert_int_equal(s.act.verdict, v); \
		assert_int_equal(s.act.outcome, o); \
	} while (0)

/* A leader whose term has the token 20. */
static Story
leader(void)
{
	Story		s = begin();

	WANT();
	READ(RELEASED(10));
	DONE(20);
	expect_state(LE_HELD);
	return s;
}

/* A seeker whose acquire on index 10 has an unknown outcome. */
static Story
unsure_seeker(void)
{
	Story		s = begin();

	WANT();
	READ(RELEASED(10));
	expect_send(LE_SEND_ACQUIRE, 10);
	s.now += 5 * LE_SEC;
	UNKNOWN();
	expect_state(LE_ACQUIRE_UNSURE);
	expect_send(LE_SEND_READ, 0);
	assert_false(le_election_has_term(&s.e));
	return s;
}

static void
a_term_from_wish_to_release(void **state)
{
	Story		s = begin();

	(void) state;
	assert_false(le_election_in_flight(&s.e));
	WANT();
	expect_send(LE_SEND_READ, 0);
	assert_true(le_election_in_flight(&s.e));
	READ(ABSENT);
	expect_send(LE_SEND_ACQUIRE, 0);
	assert_false(le_election_has_term(&s.e));
	DONE(12);
	expect_say(LE_SAY_GRANTED, LE_DONE);
	assert_true(s.act.term_begins);
	assert_int_equal(s.e.token, 12);

	/* a new value moves the write index, never the token */
	EV(.kind = LE_IN_PUBLISH);
	expect_send(LE_SEND_PUBLISH, 12);
	assert_true(le_election_has_term(&s.e));
	DONE(15);
	expect_say(LE_SAY_PUBLISHED, LE_DONE);
	assert_int_equal(s.e.token, 12);
	EV(.kind = LE_IN_PUBLISH);
	expect_send(LE_SEND_PUBLISH, 15);
	DONE(15);					/* the same value: the index stays */

	UNWANT();
	assert_true(s.act.term_ends);
	assert_int_equal(s.act.reason, LE_REASON_RELEASED);
	expect_send(LE_SEND_RELEASE, 15);
	DONE(16);
	expect_say(LE_SAY_RELEASED, LE_DONE);
	expect_state(LE_IDLE);

	/* a new term, a higher token */
	WANT();
	READ(RELEASED(16));
	DONE(17);
	assert_int_equal(s.e.token, 17);
}

/*
 * A node takes the lease and dies before it writes its name: the key looks
 * free until its lease ends.
 */
static void
held_by_nobody_that_is_seen(void **state)
{
	Story		s = begin();

	(void) state;
	WANT();
	for (int i = 0; i < 3 * LE_ATTEMPTS; i++)
	{
		READ(ABSENT);
		expect_send(LE_SEND_ACQUIRE, 0);
		CONFLICT(LE_CONFLICT_HELD);
		expect_say(LE_SAY_DENIED, LE_DONE);
		expect_state(LE_WAITING);
		assert_true(s.e.timer_at >= s.now + LEASE / 10);
		assert_true(s.e.timer_at < s.now + LEASE / 5);
		s.now = s.e.timer_at;
		TIMER();
		expect_send(LE_SEND_READ, 0);
	}
	READ(ABSENT);
	DONE(1);
	expect_say(LE_SAY_GRANTED, LE_DONE);

	/* two nodes create the key at once: no copy of ours is under way either */
	s = begin();
	WANT();
	READ(ABSENT);
	CONFLICT(LE_CONFLICT_CHANGED);
	READ(.as_of = 1);
	expect_send(LE_SEND_ACQUIRE, 0);
	CONFLICT(LE_CONFLICT_HELD);
	expect_say(LE_SAY_DENIED, LE_DONE);
	expect_state(LE_WAITING);
	assert_false(s.act.unresolved);
	assert_int_equal(s.e.failures, 0);

	/* and the same after it was given up */
	s = begin();
	WANT();
	READ(ABSENT);
	CONFLICT(LE_CONFLICT_CHANGED);
	READ(.as_of = 1);
	UNWANT();
	CONFLICT(LE_CONFLICT_HELD);
	expect_state(LE_IDLE);
	expect_send(LE_SEND_NOTHING, 0);

	/* with a copy under way only the key can tell */
	s = unsure_seeker();
	READ(RELEASED(10));
	CONFLICT(LE_CONFLICT_HELD);
	expect_state(LE_ACQUIRE_UNSURE);
	expect_send(LE_SEND_READ, 0);
}

/* An acquire that may have been applied and is not readable is no "no". */
static void
acquire_that_stays_unresolved(void **state)
{
	Story		s = unsure_seeker();

	(void) state;
	EV(.kind = LE_IN_NODE_ENDED, .reason = LE_REASON_EXPIRED);
	assert_true(s.act.unresolved);
	expect_say(LE_SAY_FAILED, LE_UNKNOWN);

	s = unsure_seeker();
	READ(OTHER(30));			/* or it was, and was taken */
	assert_true(s.act.unresolved);
	expect_say(LE_SAY_DENIED, LE_DONE);

	s = begin();				/* a takeover, and then a sign of life */
	WANT();
	READ(OTHER(10), .silent_at = s.now);
	expect_send(LE_SEND_TAKE_OVER, 10);
	UNKNOWN();
	READ(OTHER(10), .silent_at = s.now + HIS_LEASE);
	assert_true(s.act.unresolved);
	expect_say(LE_SAY_DENIED, LE_DONE);

	s = unsure_seeker();
	READ(RELEASED(10));			/* not yet: the next copy decides */
	assert_false(s.act.unresolved);
	expect_send(LE_SEND_ACQUIRE, 10);
	CONFLICT(LE_CONFLICT_CHANGED);
	assert_false(s.act.unresolved);

	s = begin();				/* the only copy was refused: another won */
	WANT();
	READ(RELEASED(10));
	CONFLICT(LE_CONFLICT_CHANGED);
	READ(OTHER(30));
	assert_false(s.act.unresolved);
	expect_say(LE_SAY_DENIED, LE_DONE);

	s = begin();
	WANT();
	READ(RELEASED(10));
	UNWANT();					/* a step-down: a waiting caller is held off */
	DONE(12);
	assert_true(s.act.unresolved);
	expect_send(LE_SEND_RELEASE, 12);

	s = begin();				/* a refusal of the only copy is certain */
	WANT();
	READ(RELEASED(10));
	EV(.kind = LE_IN_NOT_APPLIED, .outcome = LE_UNAVAILABLE);
	assert_false(s.act.unresolved);
	expect_say(LE_SAY_FAILED, LE_UNAVAILABLE);
}

/*
 * A publish is answered by "not applied" for one copy of it, and another was
 * applied: from then on the key counts, as the watch shows it.
 */
static void
own_key_is_followed(void **state)
{
	Story		s = leader();

	(void) state;
	EV(.kind = LE_IN_PUBLISH);
	EV(.kind = LE_IN_NOT_APPLIED, .outcome = LE_UNAVAILABLE);
	expect_say(LE_SAY_PUBLISH_FAILED, LE_UNAVAILABLE);
	assert_int_equal(s.e.write_index, 20);
	SEEN(OURS(25), .token = 20);
	assert_int_equal(s.e.write_index, 25);
	assert_int_equal(s.e.token, 20);
	SEEN(OURS(20));				/* an answer from before */
	assert_int_equal(s.e.write_index, 25);
	SEEN(OURS(28));				/* another term's */
	assert_int_equal(s.e.write_index, 25);
	SEEN(KEY_AS_OF(20, 20), .holder = LE_KEY_OTHER);
	expect_state(LE_HELD);

	/* shown before the answer comes, and newer than that */
	EV(.kind = LE_IN_PUBLISH);
	expect_send(LE_SEND_PUBLISH, 25);
	SEEN(OURS(31), .token = 20);
	DONE(30);
	expect_say(LE_SAY_PUBLISHED, LE_DONE);
	UNWANT();
	expect_send(LE_SEND_RELEASE, 31);
}

/* A term's dependents may finish, but not for ever. */
static void
draining_ends_with_the_last_or_in_time(void **state)
{
	Story		s = leader();

	(void) state;
	EV(.kind = LE_IN_DRAIN, .until = s.now + 5 * LE_SEC);
	expect_state(LE_DRAINING);
	assert_true(s.act.term_drains);
	assert_true(le_election_has_term(&s.e));
	expect_send(LE_SEND_NOTHING, 0);
	s.now += LE_SEC;
	UNWANT();					/* the last is done */
	assert_true(s.act.term_ends);
	expect_send(LE_SEND_RELEASE, 20);
	DONE(21);
	expect_say(LE_SAY_RELEASED, LE_DONE);
	expect_state(LE_IDLE);

	/* asked again with less patience, and with more */
	s = leader();
	EV(.kind = LE_IN_DRAIN, .until = s.now + 5 * LE_SEC);
	EV(.kind = LE_IN_DRAIN, .until = s.now + 2 * LE_SEC);
	EV(.kind = LE_IN_DRAIN, .until = s.now + 9 * LE_SEC);
	assert_int_equal(s.e.timer_at, s.now + 2 * LE_SEC);
	s.now = s.e.timer_at;
	TIMER();
	assert_true(s.act.term_ends);
	expect_send(LE_SEND_RELEASE, 20);

	/* a worker that took the timer died before it acted on it */
	s = leader();
	EV(.kind = LE_IN_DRAIN, .until = s.now + 5 * LE_SEC);
	s.e.timer_at = 0;
	le_election_resume(&s.e, s.now);
	assert_int_equal(s.e.timer_at, s.now + 5 * LE_SEC);

	/* while a value is on its way: that comes first, the request is kept */
	s = leader();
	EV(.kind = LE_IN_PUBLISH);
	EV(.kind = LE_IN_DRAIN, .until = s.now + 5 * LE_SEC);
	expect_state(LE_PUBLISHING);
	UNKNOWN();
	READ(OURS(20));
	expect_send(LE_SEND_PUBLISH, 20);
	DONE(22);
	expect_state(LE_DRAINING);
	assert_int_equal(s.e.timer_at, s.now + 5 * LE_SEC);
	UNWANT();
	expect_send(LE_SEND_RELEASE, 22);

	/* a later term does not inherit it */
	DONE(23);
	WANT();
	READ(RELEASED(23));
	DONE(24);
	expect_state(LE_HELD);
	assert_int_equal(s.e.drain_until, 0);
}

static void
silent_holder_is_waited_out_to_the_instant(void **state)
{
	Story		s = begin();

	(void) state;
	WANT();
	s.now += LE_SEC;			/* the receipt counts, not the request */
	READ(SILENT(10));
	expect_say(LE_SAY_DENIED, LE_DONE);
	assert_true(s.e.timer_at >= T0 + LE_SEC + HIS_LEASE);
	assert_true(s.e.timer_at <= T0 + LE_SEC + HIS_LEASE + LEASE / 20);

	/* seeing it again does not prolong the wait, from watch or read */
	s.now += LE_SEC;
	SEEN(SILENT(10));
	assert_true(s.e.timer_at <= T0 + LE_SEC + HIS_LEASE + LEASE / 20);
	WANT();
	READ(SILENT(10));
	expect_say(LE_SAY_DENIED, LE_DONE);
	assert_true(s.e.timer_at <= T0 + LE_SEC + HIS_LEASE + LEASE / 20);

	/* nor does it cut it short */
	s.now = T0 + LE_SEC + HIS_LEASE - 1;
	WANT();
	READ(SILENT(10));
	expect_state(LE_WAITING);
	s.now = T0 + LE_SEC + HIS_LEASE;
	WANT();
	READ(SILENT(10));
	expect_send(LE_SEND_ACQUIRE, 10);
}

static void
waiting_starts_anew_when_the_key_has_moved(void **state)
{
	Story		s = begin();

	(void) state;
	WANT();
	READ(SILENT(10));
	s.now += HIS_LEASE - 1;
	SEEN(OTHER(11));			/* another node led meanwhile ... */
	s.now += LE_SEC;
	SEEN(SILENT(12));			/* ... and fell silent */
	expect_state(LE_WAITING);
	assert_true(s.e.timer_at >= s.now + HIS_LEASE);
	s.now += HIS_LEASE - 1;
	TIMER();
	READ(SILENT(12));
	expect_state(LE_WAITING);
	s.now += 1;
	TIMER();
	READ(SILENT(12));
	expect_send(LE_SEND_ACQUIRE, 12);
}

/* Not even if the same index was seen free before another node held it. */
static void
held_in_between_forgets_the_wait(void **state)
{
	Story		s = begin();

	(void) state;
	WANT();
	READ(SILENT(10));
	TIMER();
	READ(OTHER(10));			/* a rebuilt store repeats its indexes */
	s.now += HIS_LEASE;
	TIMER();
	READ(SILENT(10));
	expect_state(LE_WAITING);
	assert_true(s.e.timer_at >= s.now + HIS_LEASE);
}

static void
mark_of_the_holder_ends_the_wait(void **state)
{
	Story		s = begin();

	(void) state;
	WANT();
	READ(SILENT(10));
	SEEN(SILENT(10), .holder_ended = true);
	expect_send(LE_SEND_ACQUIRE, 10);
}

static void
old_watch_answer_does_not_restart_the_wait(void **state)
{
	Story		s = begin();
	le_time		timer_at;

	(void) state;
	WANT();
	READ(SILENT(10));
	timer_at = s.e.timer_at;
	s.now += 10 * LE_SEC;
	SEEN(OTHER(9));
	SEEN(SILENT(8));
	assert_int_equal(s.e.timer_at, timer_at);
	s.now = timer_at;
	TIMER();
	READ(SILENT(10));
	expect_send(LE_SEND_ACQUIRE, 10);
}

/*
 * The watch showed the release while a read from before it was under way, so
 * it will not show it again.
 */
static void
missed_watch_answer_is_made_up_for(void **state)
{
	Story		s = begin();

	(void) state;
	WANT();
	SEEN(RELEASED(11));
	expect_state(LE_READING);
	READ(OTHER(10));
	expect_state(LE_WAITING);
	assert_true(s.e.timer_at > s.now && s.e.timer_at <= s.now + LEASE);
	s.now = s.e.timer_at;
	TIMER();
	READ(RELEASED(11));
	expect_send(LE_SEND_ACQUIRE, 11);
}

static void
silent_leader_is_taken_over_to_the_instant(void **state)
{
	Story		s = begin();
	le_time		silent_at = T0 + HIS_LEASE;

	(void) state;
	WANT();
	READ(OTHER(10), .silent_at = silent_at);
	expect_say(LE_SAY_DENIED, LE_DONE);

	/* signs of life put it off, but the key is read all the same */
	s.now = T0 + 5 * LE_SEC;
	silent_at = s.now + HIS_LEASE;
	EV(.kind = LE_IN_HOLDER, .silent_at = silent_at);
	assert_true(s.e.timer_at <= T0 + LEASE);
	s.now = s.e.timer_at;
	TIMER();
	READ(OTHER(10), .silent_at = silent_at);
	s.now = silent_at - 1;
	TIMER();
	READ(OTHER(10), .silent_at = silent_at);
	expect_state(LE_WAITING);
	s.now = silent_at;
	TIMER();
	READ(OTHER(10), .silent_at = silent_at);
	expect_send(LE_SEND_TAKE_OVER, 10);
	assert_false(le_election_has_term(&s.e));

	/* an unknown outcome is resolved like that of any acquire */
	UNKNOWN();
	READ(OTHER(10), .silent_at = silent_at);
	expect_send(LE_SEND_TAKE_OVER, 10);
	CONFLICT(LE_CONFLICT_CHANGED);
	READ(OURS(20));
	assert_int_equal(s.e.token, 20);
}

static void
unknown_acquire_was_applied(void **state)
{
	Story		s = unsure_seeker();

	(void) state;
	READ(OURS(20));
	expect_say(LE_SAY_GRANTED, LE_DONE);
	assert_int_equal(s.e.token, 20);
	assert_int_equal(s.e.write_index, 20);
}

static void
unknown_acquire_was_not_applied_and_never_will(void **state)
{
	Story		s = unsure_seeker();
	uint32_t	decisions = s.e.attempt.number;

	(void) state;
	READ(RELEASED(10));
	expect_send(LE_SEND_ACQUIRE, 10);	/* the same write again */
	assert_int_equal(s.e.attempt.number, decisions);
	DONE(20);
	expect_say(LE_SAY_GRANTED, LE_DONE);
	assert_int_equal(s.e.token, 20);
}

static void
unknown_acquire_came_too_late(void **state)
{
	Story		s = unsure_seeker();
	uint32_t	decisions = s.e.attempt.number;

	(void) state;
	READ(OTHER(20));
	expect_say(LE_SAY_DENIED, LE_DONE);
	expect_state(LE_WAITING);
	SEEN(RELEASED(21));
	expect_send(LE_SEND_ACQUIRE, 21);	/* on the new index only */
	assert_int_equal(s.e.attempt.number, decisions + 1);
}

/* The first copy was late, not lost: it makes the second fail. */
static void
unknown_acquire_overtakes_its_repetition(void **state)
{
	Story		s = unsure_seeker();

	(void) state;
	READ(RELEASED(10));
	CONFLICT(LE_CONFLICT_CHANGED);
	expect_state(LE_ACQUIRE_UNSURE);
	READ(OURS(20));
	expect_say(LE_SAY_GRANTED, LE_DONE);
	assert_int_equal(s.e.token, 20);

	/* the same in the shape of a lock-delay, which hides other errors */
	s = unsure_seeker();
	READ(RELEASED(10));
	CONFLICT(LE_CONFLICT_LOCK_DELAY);
	s.now = s.e.timer_at;
	TIMER();
	READ(OURS(20));
	assert_int_equal(s.e.token, 20);
}

/* Given up while unknown: a term from a late copy is released, at any time. */
static void
unknown_acquire_that_was_given_up_leaves_nothing(void **state)
{
	Story		s = unsure_seeker();

	(void) state;
	UNWANT();
	expect_state(LE_ACQUIRE_UNSURE);
	READ(RELEASED(10));
	expect_send(LE_SEND_ACQUIRE, 10);

	/* the repetition was certainly not applied; the first copy still may */
	EV(.kind = LE_IN_NOT_APPLIED, .outcome = LE_UNAVAILABLE);
	expect_state(LE_ACQUIRE_UNSURE);
	s.now = s.e.timer_at;
	TIMER();
	READ(OURS(20));
	assert_false(s.act.term_begins);
	expect_send(LE_SEND_RELEASE, 20);
	DONE(21);
	expect_state(LE_IDLE);

	/* the first copy stood in the repetition's way */
	s = unsure_seeker();
	UNWANT();
	READ(RELEASED(10));
	CONFLICT(LE_CONFLICT_CHANGED);
	READ(OURS(20));
	expect_send(LE_SEND_RELEASE, 20);

	/* the index has moved: no copy can succeed any more */
	s = unsure_seeker();
	UNWANT();
	READ(SILENT(20));
	expect_state(LE_IDLE);
}

static void
wish_may_come_back_while_unknown(void **state)
{
	Story		s = unsure_seeker();

	(void) state;
	UNWANT();
	WANT();
	READ(OURS(20));
	expect_say(LE_SAY_GRANTED, LE_DONE);
	assert_int_equal(s.e.token, 20);
}

/* A store that answers every read and loses every write. */
static void
losing_every_write_is_neither_hectic_nor_silent(void **state)
{
	static const LeSend writes[] = {
		LE_SEND_ACQUIRE, LE_SEND_PUBLISH, LE_SEND_RELEASE
	};

	(void) state;
	for (size_t i = 0; i < lengthof(writes) * 2; i++)
	{
		LeSend		write = writes[i / 2];
		Story		s = write == LE_SEND_ACQUIRE ? begin() : leader();
		int			requests = 0;
		int			told = 0;

		if (write == LE_SEND_ACQUIRE)
			WANT();
		else if (write == LE_SEND_PUBLISH)
			EV(.kind = LE_IN_PUBLISH);
		else
			UNWANT();
		while (s.now < T0 + 60 * LE_SEC)
		{
			s.now += LE_MSEC;	/* all answers are quick */
			if (!le_election_in_flight(&s.e))
			{
				if (s.now < s.e.timer_at)
					continue;
				TIMER();
			}
			else if (s.act.send == LE_SEND_READ)
			{
				if (write == LE_SEND_ACQUIRE)
					READ(RELEASED(10));
				else
					READ(OURS(20));
			}
			else if (i % 2 == 0)
				UNKNOWN();
			else
				CONFLICT(LE_CONFLICT_CHANGED);
			if (s.act.send != LE_SEND_NOTHING)
				requests++;
			if (s.act.verdict != LE_SAY_NOTHING)
				told++;
		}
		assert_in_range(requests, 20, 200);
		assert_true(told > 5);
	}
}

/*
 * After the store has gone back, the keys of the watch may be newer by their
 * indexes than any read.  However wrong views are: no write follows the last
 * one at once, again and again.
 */
static void
wrong_views_are_not_acted_on_for_ever(void **state)
{
	(void) state;
	for (int held = 0; held < 2; held++)
	{
		Story		s = begin();
		int			writes = 0;
		int			rests = 0;
		uint64_t	index = 10;

		WANT();
		while (s.now < T0 + 10 * LE_SEC)
		{
			s.now += LE_MSEC;
			if (s.e.state == LE_WAITING && s.now < s.e.timer_at)
			{
				/* the watch goes on, and cuts no rest short */
				if (held)
					SEEN(OURS(214));
				else
					SEEN(RELEASED(214));
				expect_state(LE_WAITING);
				continue;
			}
			if (s.e.state == LE_WAITING)
				TIMER();
			else if (s.act.send != LE_SEND_READ)
				CONFLICT(LE_CONFLICT_CHANGED);
			else if (!held)
				READ(RELEASED(index));
			else if (s.e.state == LE_READING)
				READ(OURS(214));	/* the watch's, newer by its index */
			else
				READ(RELEASED(19));
			index++;
			if (s.act.send != LE_SEND_NOTHING &&
				s.act.send != LE_SEND_READ)
			{
				assert_int_equal(s.act.send, held ? LE_SEND_RELEASE :
								 LE_SEND_ACQUIRE);
				writes++;
			}
			rests += s.e.state == LE_WAITING;
		}
		assert_in_range(writes, 20, 60);
		assert_true(rests > 20);

		/* a rest is no obstacle once the views are right */
		while (s.e.state != LE_WAITING)
		{
			if (s.act.send == LE_SEND_READ)
				READ(RELEASED(19));
			else
				CONFLICT(LE_CONFLICT_CHANGED);
		}
		s.now = s.e.timer_at;
		TIMER();
		READ(RELEASED(19));
		expect_send(LE_SEND_ACQUIRE, 19);
		DONE(20);
		expect_say(LE_SAY_GRANTED, LE_DONE);
		assert_int_equal(s.e.tries, 0);
	}
}

static void
publish_mismatch_is_read_back_and_repeated(void **state)
{
	Story		s = leader();

	(void) state;
	EV(.kind = LE_IN_PUBLISH);
	expect_send(LE_SEND_PUBLISH, 20);
	UNKNOWN();					/* its answer is lost ... */
	READ(OURS(25));				/* ... but it was applied */
	expect_send(LE_SEND_PUBLISH, 25);
	assert_true(le_election_has_term(&s.e));
	DONE(25);
	expect_say(LE_SAY_PUBLISHED, LE_DONE);
	assert_int_equal(s.e.token, 20);
	UNWANT();
	expect_send(LE_SEND_RELEASE, 25);
}

/* A failed publish is applied after all: the release must cope with it. */
static void
release_mismatch_is_read_back_and_repeated(void **state)
{
	Story		s = leader();

	(void) state;
	EV(.kind = LE_IN_PUBLISH);
	UNKNOWN();
	READ(OURS(20));
	EV(.kind = LE_IN_NOT_APPLIED, .outcome = LE_REFUSED);
	expect_say(LE_SAY_PUBLISH_FAILED, LE_UNKNOWN);
	expect_state(LE_HELD);
	UNWANT();
	expect_send(LE_SEND_RELEASE, 20);
	CONFLICT(LE_CONFLICT_CHANGED);
	READ(OURS(25));
	expect_send(LE_SEND_RELEASE, 25);
	DONE(26);
	expect_say(LE_SAY_RELEASED, LE_DONE);
	expect_state(LE_IDLE);
}

static void
unknown_release_is_resolved_before_a_new_term(void **state)
{
	Story		s = leader();

	(void) state;
	UNWANT();
	WANT();
	expect_state(LE_RELEASING);
	UNKNOWN();
	WANT();
	EV(.kind = LE_IN_READ_FAILED, .outcome = LE_UNAVAILABLE);
	expect_say(LE_SAY_RELEASE_FAILED, LE_UNKNOWN);
	s.now = s.e.timer_at;
	TIMER();
	READ(OURS(20));
	expect_send(LE_SEND_RELEASE, 20);
	UNKNOWN();
	READ(RELEASED(21));
	expect_say(LE_SAY_RELEASED, LE_DONE);
	expect_send(LE_SEND_READ, 0);
	READ(RELEASED(21));
	DONE(22);
	assert_int_equal(s.e.token, 22);
}

static void
wishes_during_a_publish_wait_for_it(void **state)
{
	Story		s = leader();

	(void) state;
	EV(.kind = LE_IN_PUBLISH);
	UNWANT();
	assert_true(s.act.term_ends);
	assert_int_equal(s.act.send, LE_SEND_NOTHING);
	WANT();						/* too late for this term */
	assert_false(s.act.term_begins);
	DONE(25);
	expect_send(LE_SEND_RELEASE, 25);
	DONE(26);
	READ(RELEASED(26));
	DONE(27);
	assert_int_equal(s.e.token, 27);
}

static void
watch_may_shorten_a_term_only_if_it_is_newer(void **state)
{
	Story		s = leader();

	(void) state;
	SEEN(RELEASED(10));
	SEEN(OTHER(20));
	assert_true(le_election_has_term(&s.e));
	SEEN(OTHER(21));
	assert_true(s.act.term_ends);
	assert_int_equal(s.act.reason, LE_REASON_KEY_LOST);
	expect_say(LE_SAY_LOST, LE_DONE);
	expect_send(LE_SEND_READ, 0);
}

static void
old_watch_answer_does_not_hide_that_the_key_is_free(void **state)
{
	Story		s = begin();

	(void) state;
	SEEN(RELEASED(31));
	SEEN(OTHER(30));
	SEEN(ABSENT);
	WANT();
	expect_send(LE_SEND_ACQUIRE, 31);

	s = begin();
	SEEN(RELEASED(31));
	SEEN(OTHER(32));
	WANT();
	expect_send(LE_SEND_READ, 0);
}

/* The proof was wrong or about an earlier term: our key is released. */
static void
key_without_a_term_is_released(void **state)
{
	Story		s = leader();

	(void) state;
	EV(.kind = LE_IN_NOT_OURS);
	assert_true(s.act.term_ends);
	READ(OURS(20));
	expect_send(LE_SEND_RELEASE, 20);
	DONE(21);
	READ(RELEASED(21));
	DONE(22);
	assert_int_equal(s.e.token, 22);

	s = begin();
	SEEN(OURS(30));				/* idle: a late acquire, found by the watch */
	expect_send(LE_SEND_RELEASE, 30);
	DONE(31);
	expect_state(LE_IDLE);
}

/* The watch was faster: it showed the key's fate after the grant. */
static void
grant_that_is_over_when_it_is_answered(void **state)
{
	Story		s = begin();

	(void) state;
	WANT();
	READ(ABSENT);
	expect_send(LE_SEND_ACQUIRE, 0);
	s.e.token_floor = 31;		/* free again at 31, as le_note_holder() saw */
	DONE(30);
	assert_false(le_election_has_term(&s.e));
	expect_say(LE_SAY_FAILED, LE_UNKNOWN);
	expect_send(LE_SEND_READ, 0);
	READ(RELEASED(31));
	expect_send(LE_SEND_ACQUIRE, 31);
	DONE(32);
	assert_int_equal(s.e.token, 32);

	/*
	 * The same while the outcome was unknown, by a server whose clock is
	 * ahead: for the next one the lease still lasts, and the store was not
	 * rebuilt.
	 */
	s = unsure_seeker();
	s.e.token_floor = 30;
	READ(OURS(30), .own_lease = true);
	expect_send(LE_SEND_ACQUIRE, 10);
	DONE(30);
	assert_false(le_election_has_term(&s.e));
	expect_say(LE_SAY_FAILED, LE_UNKNOWN);
	expect_send(LE_SEND_READ, 0);
	READ(OURS(30), .own_lease = true);
	expect_send(LE_SEND_RELEASE, 30);
}

static void
token_that_went_back_is_refused_and_not_retried(void **state)
{
	Story		s = leader();
	int			acquires = 0;
	uint64_t	index = 5;		/* the store was rebuilt */

	(void) state;
	SEEN(ABSENT_AS_OF(21));
	while (s.now < T0 + 60 * LE_SEC)
	{
		s.now += LE_MSEC;
		if (s.act.send == LE_SEND_READ)
			READ(RELEASED(index));
		else if (s.act.send == LE_SEND_ACQUIRE)
		{
			acquires++;
			index++;
			DONE(index);
			assert_false(le_election_has_term(&s.e));
			expect_say(LE_SAY_TOKEN_WENT_BACK, LE_REFUSED);
			expect_send(LE_SEND_RELEASE, index);
		}
		else if (s.act.send == LE_SEND_RELEASE)
		{
			index++;
			DONE(index);
		}
		else if (s.now >= s.e.timer_at)
			TIMER();
	}
	assert_in_range(acquires, 3, 5);

	/* the effect of le_accept_store */
	s.e.token_floor = 0;
	s.now = s.e.timer_at;
	TIMER();
	READ(RELEASED(index));
	index++;
	DONE(index);
	assert_int_equal(s.e.token, index);
}

static void
node_end_cuts_through_everything(void **state)
{
	Story		s = unsure_seeker();
	uint32_t	request = s.e.request;

	(void) state;
	EV(.kind = LE_IN_NODE_ENDED, .reason = LE_REASON_EXPIRED);
	assert_int_not_equal(s.e.request, request);
	expect_state(LE_WAITING);
	WANT();						/* another session lives */
	READ(RELEASED(10));
	DONE(30);
	assert_int_equal(s.e.token, 30);

	EV(.kind = LE_IN_PUBLISH);
	EV(.kind = LE_IN_NODE_ENDED, .reason = LE_REASON_SESSION_LOST);
	expect_say(LE_SAY_LOST, LE_DONE);
	assert_int_equal(s.act.reason, LE_REASON_SESSION_LOST);
	assert_false(le_election_has_term(&s.e));
	WANT();
	READ(SILENT(31));			/* our own former self is waited out, too */
	expect_state(LE_WAITING);
}

/*
 * A new worker finds a request in flight and does not know its outcome: it
 * says so, and the machine goes on.
 */
static void
new_worker_finds_every_request_unknown(void **state)
{
	Story		s = begin();

	(void) state;
	WANT();
	EV(.kind = LE_IN_READ_FAILED, .outcome = LE_UNKNOWN);
	expect_state(LE_WAITING);
	s.now = s.e.timer_at;
	TIMER();
	READ(ABSENT);
	UNKNOWN();
	EV(.kind = LE_IN_READ_FAILED, .outcome = LE_UNKNOWN);
	s.now = s.e.timer_at;
	TIMER();
	READ(OURS(20));
	EV(.kind = LE_IN_PUBLISH);
	UNKNOWN();
	assert_true(le_election_has_term(&s.e));
	EV(.kind = LE_IN_READ_FAILED, .outcome = LE_UNKNOWN);
	s.now = s.e.timer_at;
	TIMER();
	READ(OURS(20));
	DONE(21);
	UNWANT();
	UNKNOWN();
	EV(.kind = LE_IN_READ_FAILED, .outcome = LE_UNKNOWN);
	s.now = s.e.timer_at;
	TIMER();
	READ(RELEASED(22));
	expect_state(LE_IDLE);
}

static void
every_state_and_reason_has_a_name(void **state)
{
	(void) state;
	for (int a = 0; a < LE_NSTATES; a++)
	{
		assert_non_null(le_state_name(a));
		for (int b = 0; b < a; b++)
			assert_string_not_equal(le_state_name(a), le_state_name(b));
	}
	for (int a = 0; a <= LE_REASON_TOKEN; a++)
	{
		assert_non_null(le_reason_name(a));
		for (int b = 0; b < a; b++)
			assert_string_not_equal(le_reason_name(a), le_reason_name(b));
	}
}

/*
 * When renewals are due: spread at first, then once per interval, again soon
 * after a failure, at once when the key had moved on, never two at a time.
 */
static void
a_lease_of_its_own_is_renewed(void **state)
{
	Story		s = begin();

	(void) state;
	WANT();
	READ(ABSENT);
	EV(.kind = LE_IN_DONE, .index = 5, .random = ALL_LUCK,
	   .sent = s.now - LE_SEC, .deadline = s.now + 10 * LE_SEC);
	expect_state(LE_HELD);
	assert_true(s.act.deadline_moved);
	assert_in_range(le_election_renew_at(&s.e), s.now + 1500 * LE_MSEC,
					s.now + 1501 * LE_MSEC);

	le_election_renewal_sent(&s.e);
	assert_int_equal(le_election_renew_at(&s.e), 0);
	s.now += 2 * LE_SEC;
	EV(.kind = LE_IN_RENEWED, .random = NO_LUCK, .sent = s.now - LE_SEC,
	   .deadline = s.now + 11 * LE_SEC);
	assert_int_equal(s.e.deadline, s.now + 11 * LE_SEC);
	assert_int_equal(le_election_renew_at(&s.e), s.now + 4 * LE_SEC);

	/* a renewal without a turn is due as before, and has not failed */
	le_election_renewal_sent(&s.e);
	le_election_renewal_unsent(&s.e);
	assert_int_equal(le_election_renew_at(&s.e), s.now + 4 * LE_SEC);
	assert_int_equal(s.e.renew_failures, 0);

	le_election_renewal_sent(&s.e);
	EV(.kind = LE_IN_RENEW_FAILED, .outcome = LE_CONFLICT);
	assert_int_equal(le_election_renew_at(&s.e), s.now);
	le_election_renewal_sent(&s.e);
	EV(.kind = LE_IN_RENEW_FAILED, .outcome = LE_UNKNOWN);
	assert_true(le_election_renew_at(&s.e) > s.now);
	assert_int_equal(s.e.renew_failures, 2);
	le_election_renewal_sent(&s.e);
	EV(.kind = LE_IN_RENEW_FAILED, .outcome = LE_CONFLICT);
	assert_true(le_election_renew_at(&s.e) > s.now);

	le_election_renew_now(&s.e, s.now);
	assert_int_equal(le_election_renew_at(&s.e), s.now);
	le_election_renewal_sent(&s.e);
	le_election_renew_now(&s.e, s.now);
	assert_int_equal(le_election_renew_at(&s.e), 0);
	s.now += LE_SEC;
	le_election_resume(&s.e, s.now);
	assert_int_equal(le_election_renew_at(&s.e), s.now);

	/* a publish renews, too */
	EV(.kind = LE_IN_PUBLISH);
	assert_int_equal(le_election_renew_at(&s.e), 0);
	EV(.kind = LE_IN_DONE, .index = 5, .random = NO_LUCK, .sent = s.now,
	   .deadline = s.now + 12 * LE_SEC);
	assert_int_equal(s.e.renew_failures, 0);
	assert_int_equal(le_election_renew_at(&s.e), s.now + 5 * LE_SEC);

	/* otherwise renewals go on beside it, with any result of it */
	s.e.renews_apart = true;
	EV(.kind = LE_IN_PUBLISH);
	assert_int_equal(le_election_renew_at(&s.e), s.now + 5 * LE_SEC);
	EV(.kind = LE_IN_UNKNOWN);
	expect_state(LE_PUBLISH_UNSURE);
	assert_int_equal(le_election_renew_at(&s.e), s.now + 5 * LE_SEC);
	le_election_renewal_sent(&s.e);
	EV(.kind = LE_IN_RENEWED, .random = NO_LUCK, .sent = s.now,
	   .deadline = s.now + 13 * LE_SEC);
	assert_int_equal(s.e.deadline, s.now + 13 * LE_SEC);
	READ(OURS(5));
	EV(.kind = LE_IN_DONE, .index = 5);
	expect_state(LE_HELD);
	assert_int_equal(s.e.deadline, s.now + 13 * LE_SEC);
	assert_int_equal(le_election_renew_at(&s.e), s.now + 5 * LE_SEC);

	/* the term's end ends its lease, and its renewal */
	le_election_renewal_sent(&s.e);
	UNWANT();
	expect_send(LE_SEND_RELEASE, 5);
	assert_int_equal(s.e.deadline, 0);
	assert_int_equal(le_election_renew_at(&s.e), 0);
	le_election_renew_now(&s.e, s.now);
	assert_int_equal(s.e.renew_at, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_cell_does_what_the_table_says),
		cmocka_unit_test(every_other_cell_is_empty),
		cmocka_unit_test(a_term_from_wish_to_release),
		cmocka_unit_test(held_by_nobody_that_is_seen),
		cmocka_unit_test(acquire_that_stays_unresolved),
		cmocka_unit_test(own_key_is_followed),
		cmocka_unit_test(draining_ends_with_the_last_or_in_time),
		cmocka_unit_test(silent_holder_is_waited_out_to_the_instant),
		cmocka_unit_test(waiting_starts_anew_when_the_key_has_moved),
		cmocka_unit_test(held_in_between_forgets_the_wait),
		cmocka_unit_test(mark_of_the_holder_ends_the_wait),
		cmocka_unit_test(old_watch_answer_does_not_restart_the_wait),
		cmocka_unit_test(missed_watch_answer_is_made_up_for),
		cmocka_unit_test(silent_leader_is_taken_over_to_the_instant),
		cmocka_unit_test(unknown_acquire_was_applied),
		cmocka_unit_test(unknown_acquire_was_not_applied_and_never_will),
		cmocka_unit_test(unknown_acquire_came_too_late),
		cmocka_unit_test(unknown_acquire_overtakes_its_repetition),
		cmocka_unit_test(unknown_acquire_that_was_given_up_leaves_nothing),
		cmocka_unit_test(wish_may_come_back_while_unknown),
		cmocka_unit_test(losing_every_write_is_neither_hectic_nor_silent),
		cmocka_unit_test(wrong_views_are_not_acted_on_for_ever),
		cmocka_unit_test(publish_mismatch_is_read_back_and_repeated),
		cmocka_unit_test(release_mismatch_is_read_back_and_repeated),
		cmocka_unit_test(unknown_release_is_resolved_before_a_new_term),
		cmocka_unit_test(wishes_during_a_publish_wait_for_it),
		cmocka_unit_test(watch_may_shorten_a_term_only_if_it_is_newer),
		cmocka_unit_test(old_watch_answer_does_not_hide_that_the_key_is_free),
		cmocka_unit_test(key_without_a_term_is_released),
		cmocka_unit_test(grant_that_is_over_when_it_is_answered),
		cmocka_unit_test(token_that_went_back_is_refused_and_not_retried),
		cmocka_unit_test(node_end_cuts_through_everything),
		cmocka_unit_test(new_worker_finds_every_request_unknown),
		cmocka_unit_test(every_state_and_reason_has_a_name),
		cmocka_unit_test(a_lease_of_its_own_is_renewed),
	};

	return cmocka_run_group_tests_name("election", tests, NULL, NULL);
}
