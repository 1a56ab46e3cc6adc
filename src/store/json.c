/*-------------------------------------------------------------------------
 *
 * json.c
 *		Reading and writing the JSON of lease stores.
 *
 * The reader takes tokens from PostgreSQL's lexer (common/jsonapi), which
 * exists for server and frontend builds alike, but does not use its parser.
 * The parser recurses, without a stack check in frontends, and unescapes
 * through the database's encoding, which a process without a database does not
 * have.  A loop with a stack of fixed size needs neither, and gives the raw
 * text of every value.
 *
 * All text here is UTF-8 without NUL, for any encoding of the database.
 *
 * src/store/json.c
 *
 *-------------------------------------------------------------------------
 */
#ifdef FRONTEND
#include "postgres_fe.h"
#else
#include "postgres.h"
#endif

#include <limits.h>

#include "common/base64.h"
#include "common/jsonapi.h"
#include "mb/pg_wchar.h"

#include "store/json.h"

/* The tokens that the grammar allows next. */
typedef enum Expect
{
	EXPECT_VALUE,
	EXPECT_VALUE_OR_END,		/* after [ */
	EXPECT_FIELD,
	EXPECT_FIELD_OR_END,		/* after { */
	EXPECT_COLON,
	EXPECT_COMMA_OR_END,
	EXPECT_NOTHING				/* the document is complete */
} Expect;

typedef struct Walk
{
	JsonLexContext *lex;
	Expect		expect;
	int			depth;
	bool		is_object[LE_JSON_MAX_DEPTH];
	const char *start[LE_JSON_MAX_DEPTH];
	LeJsonStep	path[LE_JSON_MAX_DEPTH];
	LeJsonVisit visit;
	void	   *arg;
} Walk;

static JsonLexContext *
make_lexer(const char *text, size_t len)
{
	/* No unescaping: see above. */
#if PG_VERSION_NUM >= 170000
	return makeJsonLexContextCstringLen(NULL, text, len, PG_UTF8, false);
#else
	return makeJsonLexContextCstringLen(unconstify(char *, text), (int) len,
										PG_UTF8, false);
#endif
}

static void
free_lexer(JsonLexContext *lex)
{
#if PG_VERSION_NUM >= 170000
	freeJsonLexContext(lex);
#else
	pfree(lex);
#endif
}

/* A value ends where the present token ends. */
static bool
value_complete(Walk *w, LeJsonType type, const char *start)
{
	LeJsonNode	node;

	node.type = type;
	node.depth = w->depth;
	node.path = w->path;
	node.text = start;
	node.len = w->lex->token_terminator - start;
	w->expect = w->depth > 0 ? EXPECT_COMMA_OR_END : EXPECT_NOTHING;
	return w->visit == NULL || w->visit(w->arg, &node);
}

static bool
open_container(Walk *w, bool is_object)
{
	if (w->depth >= LE_JSON_MAX_DEPTH)
		return false;
	w->is_object[w->depth] = is_object;
	w->start[w->depth] = w->lex->token_start;
	memset(&w->path[w->depth], 0, sizeof(LeJsonStep));
	w->depth++;
	w->expect = is_object ? EXPECT_FIELD_OR_END : EXPECT_VALUE_OR_END;
	return true;
}

static bool
close_container(Walk *w)
{
	w->depth--;
	return value_complete(w, w->is_object[w->depth] ?
						  LE_JSON_OBJECT : LE_JSON_ARRAY,
						  w->start[w->depth]);
}

static bool
take_value(Walk *w, JsonTokenType token)
{
	const char *start = w->lex->token_start;

	switch (token)
	{
		case JSON_TOKEN_OBJECT_START:
			return open_container(w, true);
		case JSON_TOKEN_ARRAY_START:
			return open_container(w, false);
		case JSON_TOKEN_STRING:
			return value_complete(w, LE_JSON_STRING, start);
		case JSON_TOKEN_NUMBER:
			return value_complete(w, LE_JSON_NUMBER, start);
		case JSON_TOKEN_TRUE:
			return value_complete(w, LE_JSON_TRUE, start);
		case JSON_TOKEN_FALSE:
			return value_complete(w, LE_JSON_FALSE, start);
		case JSON_TOKEN_NULL:
			return value_complete(w, LE_JSON_NULL, start);
		default:
			return false;
	}
}

static bool
take_field(Walk *w, JsonTokenType token)
{
	LeJsonStep *step = &w->path[w->depth - 1];

	if (token != JSON_TOKEN_STRING)
		return false;
	step->field = w->lex->token_start + 1;
	step->field_len = w->lex->token_terminator - w->lex->token_start - 2;
	w->expect = EXPECT_COLON;
	return true;
}

static bool
take_comma(Walk *w, JsonTokenType token)
{
	bool		is_object = w->is_object[w->depth - 1];

	if (token == (is_object ? JSON_TOKEN_OBJECT_END : JSON_TOKEN_ARRAY_END))
		return close_container(w);
	if (token != JSON_TOKEN_COMMA)
		return false;
	w->path[w->depth - 1].position++;
	w->expect = is_object ? EXPECT_FIELD : EXPECT_VALUE;
	return true;
}

static bool
take_token(Walk *w, JsonTokenType token)
{
	switch (w->expect)
	{
		case EXPECT_VALUE_OR_END:
			if (token == JSON_TOKEN_ARRAY_END)
				return close_container(w);
			return take_value(w, token);
		case EXPECT_VALUE:
			return take_value(w, token);
		case EXPECT_FIELD_OR_END:
			if (token == JSON_TOKEN_OBJECT_END)
				return close_container(w);
			return take_field(w, token);
		case EXPECT_FIELD:
			return take_field(w, token);
		case EXPECT_COLON:
			w->expect = EXPECT_VALUE;
			return token == JSON_TOKEN_COLON;
		case EXPECT_COMMA_OR_END:
			return take_comma(w, token);
		case EXPECT_NOTHING:
			break;
	}
	return false;
}

/*
 * Walks a document and shows each of its values to visit (NULL: checks it
 * only).  Returns whether the whole is one well-formed document; until then
 * the caller must not rely on the values shown.
 */
bool
le_json_walk(const char *text, size_t len, LeJsonVisit visit, void *arg)
{
	Walk		w;
	bool		ok = true;

	if (len == 0 || len > INT_MAX ||
		pg_encoding_verifymbstr(PG_UTF8, text, (int) len) != (int) len)
		return false;
	w.lex = make_lexer(text, len);
	w.expect = EXPECT_VALUE;
	w.depth = 0;
	w.visit = visit;
	w.arg = arg;
	while (ok)
	{
		ok = json_lex(w.lex) == JSON_SUCCESS;
		if (ok && w.lex->token_type == JSON_TOKEN_END)
		{
			ok = w.expect == EXPECT_NOTHING;
			break;
		}
		ok = ok && take_token(&w, w.lex->token_type);
	}
	free_lexer(w.lex);
	return ok;
}

/*
 * Does the path go through the field of this name at this level (0: the
 * document's own)?  A name that is written with escapes matches nothing; no
 * store writes ours so.
 */
bool
le_json_at(const LeJsonNode *node, int level, const char *name)
{
	const LeJsonStep *step;

	if (level >= node->depth)
		return false;
	step = &node->path[level];
	return step->field != NULL && step->field_len == strlen(name) &&
		memcmp(step->field, name, step->field_len) == 0;
}

/* The value of a digit in either case; -1: it is none. */
int
le_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* Four hex digits; the lexer's check of them is not relied on. */
static bool
take_hex(const char **s, const char *end, pg_wchar *unit)
{
	*unit = 0;
	for (int i = 0; i < 4; i++)
	{
		int			digit = *s < end ? le_hex_digit(**s) : -1;

		if (digit < 0)
			return false;
		*unit = *unit << 4 | digit;
		(*s)++;
	}
	return true;
}

/* The characters after \u, surrogate pairs combined; no NUL or half pair. */
static bool
take_unicode(const char **s, const char *end, pg_wchar *c)
{
	pg_wchar	second;

	if (!take_hex(s, end, c))
		return false;
	if (is_utf16_surrogate_first(*c))
	{
		if (end - *s < 2 || (*s)[0] != '\\' || (*s)[1] != 'u')
			return false;
		*s += 2;
		if (!take_hex(s, end, &second) || !is_utf16_surrogate_second(second))
			return false;
		*c = surrogate_pair_to_codepoint(*c, second);
	}
	return *c != 0 && !is_utf16_surrogate_second(*c);
}

/* The characters after a backslash. */
static bool
take_escape(const char **s, const char *end, char **out)
{
	static const char from[] = "\"\\/bfnrt";
	static const char to[] = "\"\\/\b\f\n\r\t";
	const char *found;
	pg_wchar	c;

	if (*s >= end)
		return false;
	if (**s == 'u')
	{
		(*s)++;
		if (!take_unicode(s, end, &c))
			return false;
		unicode_to_utf8(c, (unsigned char *) *out);
		/* 18's frontend library has pg_utf_mblen under another name */
		*out += c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
		return true;
	}
	found = memchr(from, **s, sizeof(from) - 1);
	if (found == NULL)
		return false;
	*(*out)++ = to[found - from];
	(*s)++;
	return true;
}

/*
 * The string that a node stands for, palloc'd and terminated.  NULL if it is
 * no string, has more than max bytes, or cannot be one in C.
 */
char *
le_json_string(const LeJsonNode *node, size_t max)
{
	const char *s = node->text + 1;
	const char *end = node->text + node->len - 1;
	char	   *result;
	char	   *out;

	/* No escape is longer than six times its character. */
	if (node->type != LE_JSON_STRING || node->len > 6 * max + 2)
		return NULL;
	out = result = palloc(node->len);	/* no escape is shorter */
	while (s < end)
	{
		if (*s != '\\')
			*out++ = *s++;
		else
		{
			s++;
			if (!take_escape(&s, end, &out))
				return NULL;
		}
	}
	*out = '\0';
	return out - result <= max ? result : NULL;
}

/*
 * A number that is exactly an unsigned 64-bit integer.  Doubles would not do:
 * flags use all 64 bits.
 */
bool
le_json_uint64(const LeJsonNode *node, uint64 *number)
{
	uint64		n = 0;

	if (node->type != LE_JSON_NUMBER)
		return false;
	for (size_t i = 0; i < node->len; i++)
	{
		unsigned	digit = (unsigned char) node->text[i] - '0';

		if (digit > 9 || n > (PG_UINT64_MAX - digit) / 10)
			return false;
		n = n * 10 + digit;
	}
	*number = n;
	return true;
}

/* State of le_json_embeddable: the document itself, seen last. */
typedef struct Embed
{
	LeJsonType	type;
	size_t		len;
} Embed;

static bool
embed_visit(void *arg, const LeJsonNode *node)
{
	Embed	   *embed = arg;

	embed->type = node->type;
	embed->len = node->len;
	/* One container more will be around it. */
	return (node->type != LE_JSON_OBJECT && node->type != LE_JSON_ARRAY) ||
		node->depth < LE_JSON_MAX_DEPTH - 1;
}

/*
 * Can a text stand in a document as it is, and be read from there unchanged,
 * distinct from one that was written as a string?
 */
bool
le_json_embeddable(const char *text)
{
	Embed		embed;
	size_t		len = strlen(text);

	return le_json_walk(text, len, embed_visit, &embed) &&
		embed.type != LE_JSON_STRING && embed.type != LE_JSON_NULL &&
		embed.len == len;		/* no white space around it */
}

static void
append_escaped_char(StringInfo buf, unsigned char c)
{
	if (c == '"' || c == '\\')
		appendStringInfo(buf, "\\%c", c);
	else if (c == '\n')
		appendStringInfoString(buf, "\\n");
	else if (c == '\t')
		appendStringInfoString(buf, "\\t");
	else if (c < 0x20)
		appendStringInfo(buf, "\\u%04x", c);
	else
		appendStringInfoChar(buf, (char) c);
}

/*
 * Appends a text as a JSON string.  A byte that is not UTF-8 becomes ?, so
 * that the text grows no longer and others can read the document.
 */
void
le_json_append_string(StringInfo buf, const char *s)
{
	appendStringInfoChar(buf, '"');
	while (*s != '\0')
	{
		int			good;

		good = pg_encoding_verifymbstr(PG_UTF8, s, (int) strlen(s));
		for (; good > 0; good--)
			append_escaped_char(buf, (unsigned char) *s++);
		if (*s != '\0')
		{
			appendStringInfoChar(buf, '?');
			s++;
		}
	}
	appendStringInfoChar(buf, '"');
}

void
le_base64_append(StringInfo buf, const char *data, int len)
{
	int			size = pg_b64_enc_len(len);
	int			n;

	enlargeStringInfo(buf, size + 1);
#if PG_VERSION_NUM >= 180000
	n = pg_b64_encode((const uint8 *) data, len, buf->data + buf->len, size);
#else
	n = pg_b64_encode(data, len, buf->data + buf->len, size);
#endif
	Assert(n >= 0);
	buf->len += Max(n, 0);
	buf->data[buf->len] = '\0';
}

/* The decoded bytes, palloc'd and terminated; NULL if it is not base64. */
char *
le_base64_decode(const char *text, int len, int *decoded_len)
{
	int			size = pg_b64_dec_len(len);
	char	   *result = palloc(size + 1);

#if PG_VERSION_NUM >= 180000
	*decoded_len = pg_b64_decode(text, len, (uint8 *) result, size);
#else
	*decoded_len = pg_b64_decode(text, len, result, size);
#endif
	if (*decoded_len < 0)
		return NULL;
	result[*decoded_len] = '\0';
	return result;
}
