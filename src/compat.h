/*-------------------------------------------------------------------------
 *
 * compat.h
 *		Every difference between PostgreSQL versions on the server side of the
 *		extension, except for common/jsonapi: store/json.c also builds outside
 *		the server.
 *
 * src/compat.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_COMPAT_H
#define LE_COMPAT_H

#include "lib/ilist.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "postmaster/bgworker.h"
#include "storage/proc.h"
#include "utils/guc.h"
#include "utils/wait_event.h"

#if PG_VERSION_NUM < 150000
#error "leader_election needs PostgreSQL 15 or later"
#endif

#ifndef __linux__
#error "leader_election needs Linux (CLOCK_BOOTTIME, epoll)"
#endif

/*
 * A backend's number, 0 .. MaxBackends - 1.
 */
#if PG_VERSION_NUM >= 170000
#include "storage/procnumber.h"
#define LE_MY_PROC		((int) MyProcNumber)
#else
#define LE_MY_PROC		(MyProc->pgprocno)
#endif

/* 16 declares it for us. */
#if PG_VERSION_NUM < 160000
extern PGDLLEXPORT void _PG_init(void);
#endif

/* Memory that a GUC check hook hands over; 16 added functions for it. */
#if PG_VERSION_NUM >= 160000
#define le_guc_strdup(s)	guc_strdup(LOG, (s))
#define le_guc_malloc(n)	guc_malloc(LOG, (n))
#define le_guc_free(p)		guc_free(p)
#else
#define le_guc_strdup(s)	strdup(s)
#define le_guc_malloc(n)	malloc(n)
#define le_guc_free(p)		free(p)
#endif

/* All settings; 16 has them in a hash table. */
#if PG_VERSION_NUM >= 160000
#define le_all_settings(n)	get_guc_variables(n)
#else
#define le_all_settings(n)	(*(n) = GetNumConfigOptions(), get_guc_variables())
#endif

/* A setting's part for its type, as in LE_SETTING_PART(setting, enum). */
#if PG_VERSION_NUM >= 190000
#define LE_SETTING_PART(setting, type)	(&(setting)->_##type)
#else
#define LE_SETTING_PART(setting, type)	((struct config_##type *) (setting))
#endif

/* For the life of the process; since 17 a set has a resource owner. */
#if PG_VERSION_NUM >= 170000
#define le_create_wait_event_set(n)	CreateWaitEventSet(NULL, (n))
#else
#define le_create_wait_event_set(n)	CreateWaitEventSet(TopMemoryContext, (n))
#endif

/* Wait events with names of our own came with 17. */
#if PG_VERSION_NUM >= 170000
#define LE_WAIT_EVENT(cache, name) \
	((cache) != 0 ? (cache) : ((cache) = WaitEventExtensionNew(name)))
#else
#define LE_WAIT_EVENT(cache, name)	((void) (cache), PG_WAIT_EXTENSION)
#endif

/* An argument of the ExecutorRun hook until 17. */
#if PG_VERSION_NUM >= 180000
#define LE_RUN_ONCE_DECL
#define LE_RUN_ONCE
#else
#define LE_RUN_ONCE_DECL	, bool once
#define LE_RUN_ONCE			, once
#endif

/*
 * 19 made CLUSTER a form of REPACK, which can be told to work concurrently, by
 * several transactions.
 */
#if PG_VERSION_NUM >= 190000
#define LE_T_CLUSTER	T_RepackStmt
typedef RepackStmt LeClusterStmt;
#define le_clustered(statement) \
	((statement)->relation == NULL ? NULL : (statement)->relation->relation)
#else
#define LE_T_CLUSTER	T_ClusterStmt
typedef ClusterStmt LeClusterStmt;
#define le_clustered(statement)	((statement)->relation)
#endif

/* 19 has another REFRESH, of sequences, which may run in a transaction. */
#if PG_VERSION_NUM >= 190000
#define LE_ALTER_SUBSCRIPTION_REFRESH	ALTER_SUBSCRIPTION_REFRESH_PUBLICATION
#else
#define LE_ALTER_SUBSCRIPTION_REFRESH	ALTER_SUBSCRIPTION_REFRESH
#endif

/* WAIT FOR came with 19, for clients only: it must have no snapshot. */
#if PG_VERSION_NUM >= 190000
#define le_is_wait(statement)	IsA(statement, WaitStmt)
#else
#define le_is_wait(statement)	false
#endif

/* The postmaster's list of background workers, doubly linked since 18. */
#if PG_VERSION_NUM >= 180000
typedef dlist_iter LeRegisteredIter;
#define le_foreach_registered(iter)	dlist_foreach(iter, &BackgroundWorkerList)
#define le_registered(iter) \
	dlist_container(RegisteredBgWorker, rw_lnode, (iter).cur)
#else
typedef slist_iter LeRegisteredIter;
#define le_foreach_registered(iter)	slist_foreach(iter, &BackgroundWorkerList)
#define le_registered(iter) \
	slist_container(RegisteredBgWorker, rw_lnode, (iter).cur)
#endif

#if PG_VERSION_NUM >= 180000
#define LE_MODULE_MAGIC \
	PG_MODULE_MAGIC_EXT(.name = "leader_election", .version = LE_VERSION)
#else
#define LE_MODULE_MAGIC		PG_MODULE_MAGIC
#endif

/* 16 dropped an argument. */
#if PG_VERSION_NUM >= 160000
#define le_trap(text)	ExceptionalCondition((text), __FILE__, __LINE__)
#else
#define le_trap(text) \
	ExceptionalCondition((text), "FailedAssertion", __FILE__, __LINE__)
#endif

/* Fails unless "broken" is NULL, or else the text of the violated rule. */
#ifdef USE_ASSERT_CHECKING
#define le_assert_holds(broken) \
	do { \
		const char *broken_ = (broken); \
		if (broken_ != NULL) \
			le_trap(broken_); \
	} while (0)
#else
#define le_assert_holds(broken)	((void) 0)
#endif

/* 17 gave LogLogicalMessage a flush of its own. */
#if PG_VERSION_NUM >= 170000
#define le_log_logical_message(prefix, message, size) \
	LogLogicalMessage((prefix), (message), (size), false, false)
#else
#define le_log_logical_message(prefix, message, size) \
	LogLogicalMessage((prefix), (message), (size), false)
#endif

/* 17 has transaction_timeout: this transaction is not ended by it. */
#if PG_VERSION_NUM >= 170000
#define le_stop_transaction_timeout() \
	disable_timeout(TRANSACTION_TIMEOUT, false)
#else
#define le_stop_transaction_timeout() ((void) 0)
#endif

#endif							/* LE_COMPAT_H */
