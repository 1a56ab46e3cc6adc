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
 * That holds only if an election has no second row, by which an older leader
 * could pass.  A unique index sees to that.  The index of a foreign table is
 * not known here, so nothing is inserted there.
 *
 * src/sql/guard.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "nodes/pg_list.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"

#include "shmem/requests.h"
#include "sql/fence.h"
#include "sql/guard.h"

/*
 * Statements name the rows without those of inheriting tables, which the index
 * does not cover.  Those of partitions it does cover.
 */
typedef struct Guard
{
	char	   *table;			/* quoted, with its schema */
	char	   *rows;			/* the same in SELECT and UPDATE */
	bool		foreign;
} Guard;

/* Its number; 0: there is none of that type. */
static AttrNumber
find_column(Relation rel, const char *name, Oid type)
{
	TupleDesc	desc = RelationGetDescr(rel);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(desc, i);

		if (!column->attisdropped && strcmp(NameStr(column->attname),
											name) == 0)
			return column->atttypid == type ? column->attnum : 0;
	}
	return 0;
}

/* Does the index forbid two rows with the same value, at any moment? */
static bool
forbids_two(Relation index, AttrNumber column)
{
	Form_pg_index form = index->rd_index;

	return form->indisunique && form->indimmediate && form->indisvalid &&
		form->indisready && form->indnkeyatts == 1 &&
		form->indkey.values[0] == column &&
		RelationGetIndexPredicate(index) == NIL;
}

/* The lock on the table keeps the index until the transaction ends. */
static bool
is_unique(Relation rel, AttrNumber column)
{
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *cell;
	bool		unique = false;

	foreach(cell, indexes)
	{
		Relation	index = index_open(lfirst_oid(cell), AccessShareLock);

		unique = unique || forbids_two(index, column);
		index_close(index, AccessShareLock);
	}
	list_free(indexes);
	return unique;
}

/* The table must be such that an older leader is refused. */
static void
check_table(Relation rel, const char *table)
{
	const char *name = RelationGetRelationName(rel);
	char		kind = rel->rd_rel->relkind;
	AttrNumber	election = find_column(rel, "election", TEXTOID);

	if (election == 0 || find_column(rel, "fencing_token", INT8OID) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("\"%s\" cannot guard an election", name),
				 errdetail("It needs the columns election text, as its primary key, and fencing_token bigint.")));
	if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE &&
		kind != RELKIND_FOREIGN_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("\"%s\" cannot guard an election", name),
				 errdetail_relkind_not_supported(kind)));
	if (rel->rd_rules != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("\"%s\" cannot guard an election", name),
				 errdetail("It has rules, which may write elsewhere.")));
	if (kind != RELKIND_FOREIGN_TABLE && !is_unique(rel, election))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("\"%s\" cannot guard an election", name),
				 errdetail("Without a unique index on exactly the column election, valid, immediate and not partial, a second row would let an older leader in."),
				 errhint("ALTER TABLE %s ADD PRIMARY KEY (election);",
						 table)));
}

static void
open_guard(Guard *guard, Oid oid)
{
	Relation	rel = try_relation_open(oid, AccessShareLock);
	char	   *schema;

	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", oid)));
	schema = get_namespace_name(RelationGetNamespace(rel));
	if (schema == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_SCHEMA),
				 errmsg("schema with OID %u does not exist",
						RelationGetNamespace(rel))));
	guard->table = quote_qualified_identifier(schema,
											  RelationGetRelationName(rel));
	check_table(rel, guard->table);
	guard->foreign = rel->rd_rel->relkind == RELKIND_FOREIGN_TABLE;
	guard->rows = rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE ?
		guard->table : psprintf("ONLY %s", guard->table);
	relation_close(rel, NoLock);
}

/* Run one statement on the table; how many rows were concerned? */
static uint64
run(const char *format, const char *table, const char *election, uint64 token)
{
	Oid			types[] = {TEXTOID, INT8OID};
	Datum		values[] = {
		CStringGetTextDatum(election), Int64GetDatum((int64) token)
	};

	if (SPI_execute_with_args(psprintf(format, table), 2, types, values, NULL,
							  false, 0) < 0)
		elog(ERROR, "could not use guard table %s", table);
	return SPI_processed;
}

/*
 * Separate statements: INSERT ... ON CONFLICT DO UPDATE would fire triggers on
 * INSERT each time.  The last one is for a row that another session has
 * inserted meanwhile.
 */
static bool
take_row(const Guard *guard, const char *election, uint64 token)
{
	const char *const update = "UPDATE %s SET fencing_token = $2 "
		"WHERE election OPERATOR(pg_catalog.=) $1 "
		"AND fencing_token OPERATOR(pg_catalog.<=) $2";

	if (run(update, guard->rows, election, token) > 0)
		return true;
	if (guard->foreign)
		return false;
	return run("INSERT INTO %s (election, fencing_token) VALUES ($1, $2) "
			   "ON CONFLICT DO NOTHING", guard->table, election, token) > 0 ||
		run(update, guard->rows, election, token) > 0;
}

/*
 * Does the caller see the row as it was written?  A trigger or row-level
 * security may have kept the write away, changed it, or hidden the row.
 */
static void
check_row(const Guard *guard, const char *election, uint64 token, bool taken)
{
	int			nrows = (int) run("SELECT fencing_token FROM %s "
								  "WHERE election OPERATOR(pg_catalog.=) $1",
								  guard->rows, election, token);
	bool		isnull = true;
	int64		noted = 0;

	if (nrows == 1)
		noted = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0],
											SPI_tuptable->tupdesc, 1,
											&isnull));
	if (taken && !isnull && noted == (int64) token)
		return;
	if (!taken && !isnull && noted > (int64) token)
		ereport(ERROR,
				(errcode(LE_ERRCODE_LOST),
				 errmsg("no longer leader of election \"%s\"", election),
				 errdetail("Table %s has seen a higher fencing token than " UINT64_FORMAT ".",
						   guard->table, token)));
	if (guard->foreign && nrows != 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("foreign table %s cannot guard election \"%s\"",
						guard->table, election),
				 errdetail("It shows %d rows of the election instead of one. Its server's keys are not known here, so no row is inserted.",
						   nrows),
				 errhint("Insert the row once, with fencing token 0.")));
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
			 errmsg("could not note fencing token " UINT64_FORMAT " of election \"%s\" in table %s",
					token, election, guard->table),
			 nrows != 1 ?
			 errdetail("The table shows %d rows of the election.", nrows) :
			 isnull ? errdetail("The row has no token.") :
			 !taken ? errdetail("The write changed no row.") :
			 errdetail("After the write the row shows " INT64_FORMAT ".",
					   noted),
			 errhint("Triggers and row-level security must let the caller write the row, and read it.")));
}

void
le_guard(Oid rel, const char *election, uint64 token)
{
	Guard		guard = {0};
	bool		taken;

	open_guard(&guard, rel);
	SPI_connect();
	taken = take_row(&guard, election, token);
	check_row(&guard, election, token, taken);
	SPI_finish();
}
