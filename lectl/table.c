/*
 * lectl/table.c
 *
 * Rows and columns for people and programs: printed by PostgreSQL's code, as
 * in psql, or as JSON, which that code lacks.
 */
#include "table.h"

#include "fe_utils/print.h"

TableRow *
table_add(Table *table, const char *const *cells, int rank)
{
	TableRow   *row;

	if (table->n == table->capacity)
	{
		table->capacity = 2 * table->capacity + 16;
		table->rows = pg_realloc(table->rows,
								 table->capacity * sizeof(TableRow));
	}
	row = &table->rows[table->n++];
	for (int i = 0; i < TABLE_COLUMNS; i++)
		row->cells[i] = cells[i] ? pg_strdup(cells[i]) : NULL;
	row->rank = rank;
	return row;
}

static void
print_json_string(const char *text, FILE *out)
{
	putc('"', out);
	for (const unsigned char *c = (const unsigned char *) text; *c; c++)
	{
		if (*c == '"' || *c == '\\')
			fprintf(out, "\\%c", *c);
		else if (*c < ' ' || *c == 0x7f)
			fprintf(out, "\\u%04x", *c);
		else
			putc(*c, out);
	}
	putc('"', out);
}

static void
print_json(const Table *table, FILE *out)
{
	putc('[', out);
	for (int r = 0; r < table->n; r++)
	{
		fputs(r == 0 ? "\n {" : ",\n {", out);
		for (int i = 0; i < TABLE_COLUMNS; i++)
		{
			const char *cell = table->rows[r].cells[i];

			fprintf(out, "%s\"%s\": ", i == 0 ? "" : ", ", table->headers[i]);
			if (cell == NULL)
				fputs("null", out);
			else if (table->numbers[i])
				fputs(cell, out);
			else
				print_json_string(cell, out);
		}
		putc('}', out);
	}
	fputs("\n]\n", out);
}

void
table_print(const Table *table, TableFormat format, FILE *out)
{
	printTableOpt opt = {0};
	printTableContent content;

	if (format == TABLE_JSON)
	{
		print_json(table, out);
		return;
	}
	opt.format = format == TABLE_CSV ? PRINT_CSV : PRINT_ALIGNED;
	opt.border = 1;
	opt.start_table = opt.stop_table = opt.default_footer = true;
	opt.csvFieldSep[0] = ',';
	opt.encoding = pg_char_to_encoding("UTF8");
	printTableInit(&content, &opt, NULL, TABLE_COLUMNS, table->n);
	for (int i = 0; i < TABLE_COLUMNS; i++)
		printTableAddHeader(&content, pg_strdup(table->headers[i]), false,
							table->numbers[i] ? 'r' : 'l');
	for (int r = 0; r < table->n; r++)
		for (int i = 0; i < TABLE_COLUMNS; i++)
			printTableAddCell(&content,
							  pg_strdup(table->rows[r].cells[i] ?
										table->rows[r].cells[i] : ""),
							  false, false);
	printTable(&content, out, false, NULL);
	printTableCleanup(&content);
}
