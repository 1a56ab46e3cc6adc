/*-------------------------------------------------------------------------
 *
 * arguments.h
 *		Shared by the SQL functions: arguments, questions, terms.
 *
 * src/sql/arguments.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_ARGUMENTS_H
#define LE_ARGUMENTS_H

#include "fmgr.h"
#include "utils/timestamp.h"

#include "shmem/requests.h"

extern void le_say_not_preloaded(int elevel);
extern void le_check_preloaded(void);
extern void le_check_not_null(FunctionCallInfo fcinfo, int n,
							  const char *name);
extern void le_set_election(LeAsk *ask, text *name);
extern void le_set_value(LeAsk *ask, text *value);
extern le_duration le_to_duration(Interval *interval, const char *name);
extern le_duration le_to_hold_off(Interval *interval);
extern void le_start_ask(LeAsk *ask, LeRequestKind kind,
						 FunctionCallInfo fcinfo);
extern void le_throw(const LeReply *reply);
extern void le_ask_worker(LeAsk *ask, LeReply *reply);
extern void le_ask_store(LeAsk *ask, LeReply *reply, const char *hint);
extern bool le_my_term(const char *election, LeTerm *term);
extern bool le_make_progress(const char *election);
extern le_duration le_to_within(FunctionCallInfo fcinfo, int n);
extern bool le_may_begin(const char *election, LeTerm *term);
extern bool le_takes_part(const char *election);
extern const char *le_leader_seen(const LeSlot *slot);
extern const char *le_leader_instead(const char *election);

#endif							/* LE_ARGUMENTS_H */
