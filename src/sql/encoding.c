/*-------------------------------------------------------------------------
 *
 * encoding.c
 *		Text between the database's encoding and UTF-8.
 *
 * Text of the store, of the worker and of other nodes is UTF-8, whatever the
 * encodings of the databases from which nodes are asked.  All such text enters
 * SQL by le_shown(): a name that a database cannot show must not be an error
 * there, in place of the answer or of another error.
 *
 * SQL_ASCII is no encoding; text in such a database is taken for UTF-8, and
 * shown as such.
 *
 * src/sql/encoding.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "utils/memutils.h"

#include "sql/encoding.h"

/* The conversions of this session's database. */
static bool found;
static FmgrInfo from_utf8;
static FmgrInfo into_utf8;

static bool
is_utf8(void)
{
	return GetDatabaseEncoding() == PG_UTF8 ||
		GetDatabaseEncoding() == PG_SQL_ASCII;
}

static void
find(FmgrInfo *conversion, int from, int to)
{
	Oid			oid = FindDefaultConversionProc(from, to);

	if (OidIsValid(oid))
		fmgr_info_cxt(oid, conversion, TopMemoryContext);
}

/* Call it where an error is harmless, before text that comes with an error. */
void
le_find_conversions(void)
{
	if (found || is_utf8() || !IsTransactionState())
		return;
	find(&from_utf8, PG_UTF8, GetDatabaseEncoding());
	find(&into_utf8, GetDatabaseEncoding(), PG_UTF8);
	found = true;
}

/* Converts what it can of the beginning; how many bytes of it were that? */
static int
convert_some(const char *s, int len, int from, int to, FmgrInfo *conversion,
			 char *result)
{
	int			n = 0;

	if (conversion->fn_oid != InvalidOid)
		return DatumGetInt32(FunctionCall6(conversion, Int32GetDatum(from),
										   Int32GetDatum(to),
										   CStringGetDatum(s),
										   CStringGetDatum(result),
										   Int32GetDatum(len),
										   BoolGetDatum(true)));
	if (is_utf8())
		n = pg_encoding_verifymbstr(PG_UTF8, s, len);
	else
		while (n < len && !IS_HIGHBIT_SET(s[n]))
			n++;
	memcpy(result, s, n);
	result[n] = '\0';
	return n;
}

/* A copy, with a question mark for each character that cannot be converted. */
static char *
convert(const char *s, int from, int to, FmgrInfo *conversion)
{
	int			len = strlen(s);
	char	   *result = palloc((Size) len * MAX_CONVERSION_GROWTH + 1);
	char	   *end = result;

	*end = '\0';
	while (len > 0)
	{
		int			n = convert_some(s, len, from, to, conversion, end);

		end += strlen(end);
		if (n < len)
		{
			n += Max(pg_encoding_verifymbchar(from, s + n, len - n), 1);
			*end++ = '?';
			*end = '\0';
		}
		s += n;
		len -= n;
	}
	return result;
}

/* A copy of UTF-8 text for SQL, which never fails. */
char *
le_shown(const char *utf8)
{
	le_find_conversions();
	return convert(utf8, PG_UTF8, is_utf8() ? PG_UTF8 : GetDatabaseEncoding(),
				   &from_utf8);
}

/* A caller's text has to be kept as it is, or refused. */
char *
le_to_utf8(const char *text)
{
	return pg_server_to_any(text, strlen(text), PG_UTF8);
}

/* A copy of text that comes with an error: never fails, looks nothing up. */
char *
le_to_utf8_anyway(const char *text)
{
	return convert(text, is_utf8() ? PG_UTF8 : GetDatabaseEncoding(), PG_UTF8,
				   &into_utf8);
}
