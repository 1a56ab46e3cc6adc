/*-------------------------------------------------------------------------
 *
 * context.h
 *		The state of a worker.
 *
 * Each part belongs to the file that defines its struct; most are seen by no
 * other file.  A function takes the part that it needs, or the worker, if it
 * or a function that it calls needs several.  So the simulator runs the
 * workers of several nodes in one process, and a unit test a few parts without
 * the others.
 *
 * State that outlives a worker is not here, but in shared memory.
 *
 * src/worker/base/context.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_CONTEXT_H
#define LE_CONTEXT_H

/* Sizes that only thousands of elections reach; the simulator lowers them. */
typedef struct LeLimits
{
	const int  *lane_windows;	/* by lane: requests under way */
	int			list_from;		/* with more candidacies, a list of all keys
								 * takes less than reading each */
	int			slots_at_once;	/* elections that a sweep looks at in a turn:
								 * a millisecond or two */
	int			gossip_from;	/* With more keys, news are heard instead of
								 * all keys.  An answer that shows so many has
								 * 40 kB, and takes half a millisecond to
								 * process, as long as a whole request. */
	int			gossip_capacity;	/* length of the list of news, at most
									 * LE_MAX_NEWS */
} LeLimits;

typedef struct LeWorker
{
	const LeLimits *limits;

	/* the loop */
	bool		orphaned;		/* the postmaster is dead */
	bool		first_turn;
	uint64		hints;			/* of backends, that were looked after */
	uint32		stores;			/* counts stores: le_cache_begin_anew() */
	struct WaitEventSet *wakes; /* the events that end a sleep */
	uint32		wait_event;

	/* disk */
	struct LeTokens *tokens;
	struct LeClaims *claims;
	struct LeStateFile *statefile;

	/* wire */
	struct LeHttp *http;
	struct LeServers *servers;
	struct LeSecrets *secrets;
	struct LeThrottle *throttle;
	struct LeGossiper *gossip;
	struct LeLocalTokens *local_tokens;
	struct LeFlights *flights;
	struct LeHealth *health;
	struct LeLanes *lanes;
	struct LeExchange *exchange;
	struct LeAuthentication *authentication;
	struct LeDispatch *dispatch;

	/* view */
	struct LeWishes *wishes;
	struct LeEligibility *eligibility;
	struct LeCache *cache;

	/* lead */
	struct LePendingList *pendings;
	struct LeRoster *roster;
	struct LeCandidacies *candidacies;
	struct LeGrants *grants;
	int			refused_slot;	/* key_op.c: the last that was asked again */
	int			proved_slot;	/* elect_all.c: the last whose key a proof
								 * checked in rotation */
	struct LeElectTimers *elect_timers;
	struct LeStoreSession *session;
	int64		renew_alone_until;	/* renew.c: terms one by one until then */

	/* watch */
	struct LeWatchAll *watch_all;
	struct LeWatchEach *watch_each;

	/* jobs */
	struct LeClaimCache *claim_cache;
	struct LePendingList *claim_asks;
	uint64		claims_abandoned;	/* numbers questions about them */
	struct LePendingList *claim_listings;
	struct LeNewJobs *new_jobs;
	struct LeJobScan *job_scan;
	bool		job_scan_due;	/* at once: a run was recorded as abandoned */
} LeWorker;

#endif							/* LE_CONTEXT_H */
