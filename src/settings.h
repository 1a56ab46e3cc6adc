/*-------------------------------------------------------------------------
 *
 * settings.h
 *		The settings of the extension (leader_election.*).
 *
 * src/settings.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_SETTINGS_H
#define LE_SETTINGS_H

#include "lib/stringinfo.h"

#include "store/store.h"

#define LE_SECRET_MODE \
	"It must have permissions u=rw (0600) or less, or u=rw,g=r (0640) or less if owned by root."

/* Where the store knows less than this instance has seen. */
#define LE_ACCEPT_HINT \
	"If the store was rebuilt, restored or replaced on purpose, or this is a copied data directory with a store of its own, follow the runbook for that and call le_accept_store()."

/* Files of the data directory that several processes use. */
#define LE_CLAIMS_FILE		"leader_election.claims"
#define LE_TOKENS_FILE		"leader_election.tokens"
#define LE_CLONE_FILE		"leader_election.clone"
#define LE_PAST_FILE		"leader_election.past"
#define LE_SYSTEMS_FILE		"leader_election.systems"
#define LE_UPGRADED_FILE	"leader_election.upgraded"

/* In the name of a damaged file that was set aside; a number follows. */
#define LE_DAMAGED			".damaged."

/* The fate of a running statement when its term is about to end. */
typedef enum LeOnLoss
{
	LE_ON_LOSS_NONE,			/* it goes on; its commit is refused */
	LE_ON_LOSS_CANCEL			/* it is canceled in time */
} LeOnLoss;

extern char *le_campaign_list;
extern char *le_allowed_list;	/* elections that this session may change */
extern int	le_max_hold_off;	/* s */
extern bool le_eligible;
extern bool le_standby_eligible;
extern bool le_clone_eligible;
extern bool le_read_only_eligible;
extern int	le_max_elections;
extern int	le_max_events;
extern int	le_max_jobs;	/* per election */
extern int	le_max_tick_ahead;	/* s */
extern int	le_max_clock_offset;	/* s */
extern int	le_job_check_interval;	/* ms; 0: only when asked */
extern bool le_log_error;		/* keep the messages of jobs that fail */
extern int	le_lease_ttl;		/* ms, as all times here */
extern int	le_renew_interval;
extern int	le_safety_margin;
extern int	le_request_timeout;
extern int	le_shutdown_timeout;
extern int	le_on_loss;			/* LeOnLoss */
extern int	le_cancel_lead;
extern int	le_commit_margin;
extern int	le_drain_timeout;
extern int	le_progress_within; /* s; 0: off */
extern char *le_ca_file;
extern char *le_cert_file;
extern char *le_key_file;

extern void le_define_settings(void);
extern const LeStore *le_configured_store(void);
extern void le_configured_timing(LeTiming *timing);
extern bool le_explain_timing(const LeTiming *timing, StringInfo detail);
extern bool le_explain_cancel_lead(const LeTiming *timing, StringInfo detail);
extern LeOnLoss le_on_loss_named(const char *name);
extern const char *le_my_name(void);
extern const char *le_my_value(void);
/* Before the path of a socket, instead of a server's URL. */
#define LE_UNIX_SCHEME	"unix://"

extern bool le_goes_in_clear(const char *url);
extern bool le_others_can_read(const char *file);
extern bool le_next_name(const char **list, char *buf, size_t size);
extern bool le_allows(const char *list, const char *election);
extern void le_each_campaign(void (*act) (const char *election, void *arg),
							 void *arg);

#endif							/* LE_SETTINGS_H */
