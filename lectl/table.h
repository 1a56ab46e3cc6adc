/*
 * lectl/table.h
 *
 * Rows and columns for people and programs.
 */
#ifndef LECTL_TABLE_H
#define LECTL_TABLE_H

#include "lectl.h"

#define TABLE_COLUMNS	9

typedef enum TableFormat
{
	TABLE_ALIGNED,
	TABLE_CSV,
	TABLE_JSON
} TableFormat;

typedef struct TableRow
{
	const char *cells[TABLE_COLUMNS];	/* NULL: empty */
	int			rank;			/* for the caller, to sort by */
} TableRow;

typedef struct Table
{
	const char *const *headers; /* TABLE_COLUMNS of them */
	const bool *numbers;
	TableRow   *rows;
	int			n;
	int			capacity;
} Table;

/* cells are copied */
extern TableRow *table_add(Table *table, const char *const *cells, int rank);
extern void table_print(const Table *table, TableFormat format, FILE *out);

#endif							/* LECTL_TABLE_H */
