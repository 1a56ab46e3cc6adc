/*-------------------------------------------------------------------------
 *
 * cron_jobs.c
 *		The jobs of pg_cron, those of all roles.
 *
 * Row security shows each role its own jobs only.  But pg_cron's key is name
 * and role, and that of a job's record is election and name: two roles' jobs
 * of one name would have the same ticks, and neither role could see why its
 * job does not run.  So the table is read here without a query: nothing that
 * somebody else wrote is evaluated.
 *
 * src/sql/cron_jobs.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "sql/call.h"
#include "sql/cron.h"
#include "sql/cron_jobs.h"

PG_FUNCTION_INFO_V1(le_cron_taken);

/* As SQL has it: left(md5(text), 16). */
#define DIGITS_OF_NAME	16

/* Invalid: pg_cron is not in this database, or the table is not its own. */
static Oid
table_of_jobs(Oid schema)
{
	Oid			table = OidIsValid(schema) ?
		get_relname_relid("job", schema) : InvalidOid;
	Oid			extension = get_extension_oid("pg_cron", true);

	if (!OidIsValid(table) || !OidIsValid(extension) ||
		getExtensionOfObject(RelationRelationId, table) != extension ||
		!le_cron_is_here())
		return InvalidOid;
	return table;
}

/* NULL: the column is null, or this version of pg_cron does not have it. */
static char *
column(Relation table, HeapTuple tuple, const char *name)
{
	AttrNumber	n = get_attnum(RelationGetRelid(table), name);
	Datum		value;
	bool		isnull;

	if (n == InvalidAttrNumber)
		return NULL;
	value = heap_getattr(tuple, n, RelationGetDescr(table), &isnull);
	if (isnull)
		return NULL;
	switch (get_atttype(RelationGetRelid(table), n))
	{
		case TEXTOID:
			return TextDatumGetCString(value);
		case NAMEOID:
			return pstrdup(NameStr(*DatumGetName(value)));
		case INT4OID:
			return psprintf("%d", DatumGetInt32(value));
		case BOOLOID:
			return pstrdup(DatumGetBool(value) ? "t" : "f");
		default:
			return NULL;
	}
}

/* That of a job without one is the same on each instance. */
static char *
made_name(const char *schedule, const char *command)
{
	text	   *both = cstring_to_text(psprintf("%s\n%s", schedule, command));
	Datum		hash = DirectFunctionCall1(md5_text, PointerGetDatum(both));

	return psprintf("cron-%.*s", DIGITS_OF_NAME, TextDatumGetCString(hash));
}

/* NULL: a job of the role that is left out, or none that pg_cron could run. */
static LeCronJob *
job_of(Relation table, HeapTuple tuple, const char *left_out)
{
	LeCronJob  *job = palloc0(sizeof(LeCronJob));
	char	   *schedule = column(table, tuple, "schedule");
	char	   *host = column(table, tuple, "nodename");
	char	   *port = column(table, tuple, "nodeport");
	char	   *active = column(table, tuple, "active");

	job->role = column(table, tuple, "username");
	job->command = column(table, tuple, "command");
	if (job->role == NULL || job->command == NULL || schedule == NULL ||
		(left_out != NULL && strcmp(job->role, left_out) == 0))
		return NULL;
	if (host != NULL && port != NULL)
		job->server = le_cron_server_of(host, atoi(port));
	job->active = active == NULL || strcmp(active, "t") == 0;
	job->calls_run = le_calls_run(job->command, &job->election, &job->job);
	job->name = column(table, tuple, "jobname");
	if (job->name == NULL)
		job->name = job->job;
	if (job->name == NULL)
		job->name = made_name(schedule, job->command);
	return job;
}

static List *
jobs_in(Oid oid, const char *left_out)
{
	Relation	table;
	SysScanDesc scan;
	HeapTuple	tuple;
	List	   *jobs = NIL;

	if (!OidIsValid(oid))
		return NIL;
	table = table_open(oid, AccessShareLock);
	scan = systable_beginscan(table, InvalidOid, false, GetActiveSnapshot(), 0,
							  NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		LeCronJob  *job = job_of(table, tuple, left_out);

		if (job != NULL)
			jobs = lappend(jobs, job);
	}
	systable_endscan(scan);
	table_close(table, AccessShareLock);
	return jobs;
}

/* NIL if pg_cron has none in this database. */
List *
le_all_cron_jobs(void)
{
	return jobs_in(table_of_jobs(get_namespace_oid("cron", true)), NULL);
}

bool
le_have_same_ticks(const LeCronJob *a, const LeCronJob *b)
{
	return a->election != NULL && a->job != NULL &&
		b->election != NULL && b->job != NULL &&
		strcmp(a->election, b->election) == 0 && strcmp(a->job, b->job) == 0;
}

/*
 * Has a job of another role that name in that election?  Only a role that may
 * have jobs can ask, and it learns no more than this.
 */
Datum
le_cron_taken(PG_FUNCTION_ARGS)
{
	LeCronJob	wanted = {
		.job = text_to_cstring(PG_GETARG_TEXT_PP(0)),
		.election = text_to_cstring(PG_GETARG_TEXT_PP(1))
	};
	char	   *role = text_to_cstring(PG_GETARG_TEXT_PP(2));
	Oid			table = table_of_jobs(LookupExplicitNamespace("cron", true));
	ListCell   *lc;

	if (OidIsValid(table) &&
		pg_class_aclcheck(table, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_TABLE, "job");
	foreach(lc, jobs_in(table, role))
		if (le_have_same_ticks(lfirst(lc), &wanted))
			PG_RETURN_BOOL(true);
	PG_RETURN_BOOL(false);
}
