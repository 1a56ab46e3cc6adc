/*-------------------------------------------------------------------------
 *
 * test_json.c
 *		Tests of the JSON reader and writer.
 *
 * test/unit/test_json.c
 *
 *-------------------------------------------------------------------------
 */
#include "store_test.h"

#include <limits.h>

#include "store/json.h"

static bool
well_formed(const char *text)
{
	char	   *copy = pnstrdup(text, strlen(text));

	return le_json_walk(copy, strlen(text), NULL, NULL);
}

static void
test_grammar(void **state)
{
	static const char *const good[] = {
		"{}", "[]", "null", "true", "false", "0", "-1.5e+3", "\"\"",
		" [ 1 , 2 ] ", "{\"a\":{},\"b\":[[],[{}]]}", "\"\\u00e4\\\"\"",
		"[\"\xc3\xa4\"]", "18446744073709551616", "[1,\n\t\r2]"
	};
	static const char *const bad[] = {
		"", " ", "[", "]", "{", "}", "[1", "[1,", "[1,]", "[,1]", "[1 2]",
		"{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{,}", "{1:2}", "{\"a\" 1}",
		"{\"a\":1]", "[1}", "1 2", "{}{}", "nul", "True", "01", "1.", "+1",
		"'a'", "\"", "\"\\\"", "\"\\x\"", "\"\\u12\"", "\"a\nb\"", "NaN",
		"\"\xff\"", "\"\xc3\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"",
		"[\"a\":1]", "{\"a\":1:2}", ":", ",", "[1,:]", "<html>", "//", "[]x"
	};

	for (int i = 0; i < lengthof(good); i++)
	{
		if (!well_formed(good[i]))
			fail_msg("refused: %s", good[i]);
	}
	for (int i = 0; i < lengthof(bad); i++)
	{
		if (well_formed(bad[i]))
			fail_msg("accepted: %s", bad[i]);
	}
	assert_false(le_json_walk("[1]\0", 4, NULL, NULL));
	assert_false(le_json_walk("\"\0\"", 3, NULL, NULL));
	assert_false(le_json_walk("[]", (size_t) INT_MAX + 1, NULL, NULL));
}

static char *
nested(int depth)
{
	char	   *text = palloc0(2 * depth + 1);

	memset(text, '[', depth);
	memset(text + depth, ']', depth);
	return text;
}

static void
test_depth(void **state)
{
	char	   *deep;

	assert_true(well_formed(nested(LE_JSON_MAX_DEPTH)));
	assert_false(well_formed(nested(LE_JSON_MAX_DEPTH + 1)));
	deep = nested(1000000);
	assert_false(well_formed(deep));
	memset(deep, '[', 2000000);
	assert_false(well_formed(deep));
	assert_true(le_json_embeddable(nested(LE_JSON_MAX_DEPTH - 1)));
	assert_false(le_json_embeddable(nested(LE_JSON_MAX_DEPTH)));
}

/* Writes down the visitor's calls, one value a line. */
static bool
note_visit(void *arg, const LeJsonNode *node)
{
	StringInfo	notes = arg;

	for (int i = 0; i < node->depth; i++)
	{
		const LeJsonStep *step = &node->path[i];

		if (step->field != NULL)
			appendStringInfo(notes, ".%.*s", (int) step->field_len,
							 step->field);
		else
			appendStringInfo(notes, "[%zu]", step->position);
	}
	appendStringInfo(notes, "=%.*s\n", (int) node->len, node->text);
	return strncmp(node->text, "\"stop\"", node->len) != 0;
}

static void
test_paths(void **state)
{
	const char *text = "{\"a\": [1, {\"b\" : null}, []], \"c\":\"x\\n\"}";
	StringInfoData notes;

	initStringInfo(&notes);
	assert_true(le_json_walk(text, strlen(text), note_visit, &notes));
	assert_string_equal(notes.data,
						".a[0]=1\n"
						".a[1].b=null\n"
						".a[1]={\"b\" : null}\n"
						".a[2]=[]\n"
						".a=[1, {\"b\" : null}, []]\n"
						".c=\"x\\n\"\n"
						"={\"a\": [1, {\"b\" : null}, []], \"c\":\"x\\n\"}\n");
	resetStringInfo(&notes);
	text = "[1,\"stop\",2]";
	assert_false(le_json_walk(text, strlen(text), note_visit, &notes));
	assert_string_equal(notes.data, "[0]=1\n[1]=\"stop\"\n");
}

static bool
at_visit(void *arg, const LeJsonNode *node)
{
	bool	   *found = arg;

	if (le_json_at(node, 0, "ab") && le_json_at(node, 1, "c"))
		*found = true;
	assert_false(le_json_at(node, node->depth, "ab"));
	assert_false(le_json_at(node, 0, "a"));
	assert_false(le_json_at(node, 0, "abc"));
	return true;
}

static void
test_at(void **state)
{
	const char *text = "{\"ab\":{\"c\":1}}";
	bool		found = false;

	assert_true(le_json_walk(text, strlen(text), at_visit, &found));
	assert_true(found);
}

static LeJsonNode
scalar(LeJsonType type, const char *text)
{
	LeJsonNode	node = {.type = type, .text = text, .len = strlen(text)};

	return node;
}

static char *
string_of(const char *text, size_t max)
{
	LeJsonNode	node = scalar(LE_JSON_STRING, text);

	return le_json_string(&node, max);
}

static void
test_string(void **state)
{
	LeJsonNode	number = scalar(LE_JSON_NUMBER, "12");

	assert_string_equal(string_of("\"\"", 0), "");
	assert_string_equal(string_of("\"abc\"", 3), "abc");
	assert_null(string_of("\"abcd\"", 3));
	assert_string_equal(string_of("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", 8),
						"\"\\/\b\f\n\r\t");
	assert_string_equal(string_of("\"\\u0041\\u00E4\\u20ac\"", 6),
						"A\xc3\xa4\xe2\x82\xac");
	assert_string_equal(string_of("\"\\ud83d\\ude00\"", 4),
						"\xf0\x9f\x98\x80");
	assert_null(string_of("\"\\ud83d\\ude00\"", 3));
	assert_null(string_of("\"\\u0000\"", 9));
	assert_null(string_of("\"\\ud83d\"", 9));
	assert_null(string_of("\"\\ud83d\\u0041\"", 9));
	assert_null(string_of("\"\\ud83dx\"", 9));
	assert_null(string_of("\"\\ude00\"", 9));
	assert_null(string_of("\"\\ud83d\\ud83d\"", 9));
	assert_null(le_json_string(&number, 9));
}

static bool
number_of(const char *text, uint64 *n)
{
	LeJsonNode	node = scalar(LE_JSON_NUMBER, text);

	return le_json_uint64(&node, n);
}

static void
test_uint64(void **state)
{
	static const char *const bad[] = {
		"18446744073709551616", "99999999999999999999", "-1", "-0", "1.0",
		"1e3", "184467440737095516150"
	};
	LeJsonNode	string = scalar(LE_JSON_STRING, "\"1\"");
	uint64		n;

	assert_true(number_of("0", &n));
	assert_true(n == 0);
	assert_true(number_of("3304740253564472344", &n));
	assert_true(n == UINT64CONST(3304740253564472344));
	assert_true(number_of("18446744073709551615", &n));
	assert_true(n == PG_UINT64_MAX);
	for (int i = 0; i < lengthof(bad); i++)
	{
		if (number_of(bad[i], &n))
			fail_msg("accepted: %s", bad[i]);
	}
	assert_false(le_json_uint64(&string, &n));
}

static void
test_embeddable(void **state)
{
	static const char *const yes[] = {
		"{}", "{\"a\": \"\\u0000\"}", "[1, 2]", "1", "-1.5e300", "true",
		"false", "{\"a\":null}"
	};
	static const char *const no[] = {
		"", "null", "\"a\"", " 1", "1 ", "[1]\n", "abc", "{", "1,2", "nan"
	};

	for (int i = 0; i < lengthof(yes); i++)
	{
		if (!le_json_embeddable(yes[i]))
			fail_msg("not embeddable: %s", yes[i]);
	}
	for (int i = 0; i < lengthof(no); i++)
	{
		if (le_json_embeddable(no[i]))
			fail_msg("embeddable: %s", no[i]);
	}
}

static const char *
quoted(const char *s)
{
	StringInfoData buf;

	initStringInfo(&buf);
	le_json_append_string(&buf, s);
	return buf.data;
}

static void
test_append_string(void **state)
{
	assert_string_equal(quoted(""), "\"\"");
	assert_string_equal(quoted("a\"b\\c/"), "\"a\\\"b\\\\c/\"");
	assert_string_equal(quoted("\n\t\r\001\177"),
						"\"\\n\\t\\u000d\\u0001\177\"");
	assert_string_equal(quoted("\xc3\xa4\xf0\x9f\x98\x80"),
						"\"\xc3\xa4\xf0\x9f\x98\x80\"");
	assert_string_equal(quoted("\xff" "a\xc3"), "\"?a?\"");
	assert_string_equal(quoted("\xed\xa0\x80"), "\"???\"");
}

/* Each character comes back unchanged. */
static void
test_round_trip(void **state)
{
	for (int c = 1; c < 128; c++)
	{
		char		s[2] = {(char) c, '\0'};
		const char *text = quoted(s);

		assert_true(well_formed(text));
		assert_string_equal(string_of(text, 1), s);
	}
}

static void
test_base64(void **state)
{
	StringInfoData buf;
	char	   *back;
	int			len;

	initStringInfo(&buf);
	appendStringInfoString(&buf, "x");
	le_base64_append(&buf, "a\0b", 3);
	assert_string_equal(buf.data, "xYQBi");
	back = le_base64_decode("YQBi", 4, &len);
	assert_int_equal(len, 3);
	assert_memory_equal(back, "a\0b", 4);
	resetStringInfo(&buf);
	le_base64_append(&buf, "", 0);
	assert_string_equal(buf.data, "");
	assert_non_null(le_base64_decode("", 0, &len));
	assert_int_equal(len, 0);
	assert_null(le_base64_decode("a", 1, &len));
	assert_null(le_base64_decode("YQ", 2, &len));
	assert_null(le_base64_decode("Y*==", 4, &len));
	assert_null(le_base64_decode("====", 4, &len));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		store_test(test_grammar),
		store_test(test_depth),
		store_test(test_paths),
		store_test(test_at),
		store_test(test_string),
		store_test(test_uint64),
		store_test(test_embeddable),
		store_test(test_append_string),
		store_test(test_round_trip),
		store_test(test_base64),
	};

	return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
