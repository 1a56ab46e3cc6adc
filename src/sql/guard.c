/*-------------------------------------------------------------------------
 *
 * guard.c
 *		le_fence_guard(): a shared table that refuses an older leader.
 *
 * The fence at commit protects this instance; data that several instances
 * write needs a fence of its own.  A row of a table holds the highest token so
 * far.  Each call updates the row instead of reading it: under REPEATABLE READ
 * a stale leader would see an old snapshot, but its update of a row that a
 * later leader changed fails.
 *
 * src/sql/guard.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "shmem/requests.h"
#include "sql/fence.h"
#include "sql/guard.h"

static bool
has_column(Relation rel, const char *name, Oid type)
{
	TupleDesc	desc = RelationGetDescr(rel);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(desc, i);

		if (!column->attisdropped && strcmp(NameStr(column->attname),
											name) == 0)
			return column->atttypid == type;
	}
	return false;
}

/* The quoted name of the table, which must have the columns of a guard. */
static char *
guard_table(Oid oid)
{
	Relation	rel = try_relation_open(oid, AccessShareLock);
	char	   *name;
	char	   *schema;

	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", oid)));
	if (!has_column(rel, "election", TEXTOID) ||
		!has_column(rel, "fencing_token", INT8OID))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("\"%s\" cannot guard an election",
						RelationGetRelationName(rel)),
				 errdetail("It needs the columns election text, as its primary key, and fencing_token bigint.")));
	schema = get_namespace_name(RelationGetNamespace(rel));
	if (schema == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_SCHEMA),
				 errmsg("schema with OID %u does not exist",
						RelationGetNamespace(rel))));
	name = quote_qualified_identifier(schema, RelationGetRelationName(rel));
	relation_close(rel, NoLock);
	return name;
}

/* Run one statement on the row; how many rows did it change? */
static uint64
run(const char *format, const char *table, const char *election, uint64 token)
{
	Oid			types[] = {TEXTOID, INT8OID};
	Datum		values[] = {
		CStringGetTextDatum(election), Int64GetDatum((int64) token)
	};

	if (SPI_execute_with_args(psprintf(format, table), 2, types, values, NULL,
							  false, 0) < 0)
		elog(ERROR, "could not update guard table %s", table);
	return SPI_processed;
}

/*
 * Separate statements, not INSERT ... ON CONFLICT (election): foreign tables
 * know only the form without a target.  The last one is for a row that another
 * session has inserted meanwhile.
 */
static bool
take_row(const char *table, const char *election, uint64 token)
{
	const char *const update = "UPDATE %s SET fencing_token = $2 "
		"WHERE election OPERATOR(pg_catalog.=) $1 "
		"AND fencing_token OPERATOR(pg_catalog.<=) $2";

	return run(update, table, election, token) > 0 ||
		run("INSERT INTO %s (election, fencing_token) VALUES ($1, $2) "
			"ON CONFLICT DO NOTHING", table, election, token) > 0 ||
		run(update, table, election, token) > 0;
}

void
le_guard(Oid rel, const char *election, uint64 token)
{
	char	   *table = guard_table(rel);
	bool		taken;

	SPI_connect();
	taken = take_row(table, election, token);
	SPI_finish();
	if (!taken)
		ereport(ERROR,
				(errcode(LE_ERRCODE_LOST),
				 errmsg("no longer leader of election \"%s\"", election),
				 errdetail("Table %s has seen a higher fencing token than " UINT64_FORMAT ".",
						   table, token)));
}
