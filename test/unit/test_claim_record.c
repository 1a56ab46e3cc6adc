/*-------------------------------------------------------------------------
 *
 * test_claim_record.c
 *		Tests of the record of a claim as text.
 *
 * test/unit/test_claim_record.c
 *
 *-------------------------------------------------------------------------
 */
#include "store_test.h"

#include "store/claim_record.h"

#define ID	"0123456789abcdef0123456789abcdef"
#define OLD \
	"{\"proto\":1,\"node\":\"n1\",\"job\":\"j\",\"tick\":5,\"try\":1," \
	"\"token\":7,\"claim\":\"" ID "\",\"state\":\"failed\"," \
	"\"claimed_at\":6,\"ended_at\":8"

#define GAP(n, from, to) \
	",\"missed\":" n ",\"missed_from\":" from ",\"missed_to\":" to "}"

static LeClaim
parsed(const char *text)
{
	LeClaim		claim;

	if (!le_claim_parse(text, strlen(text), &claim))
		fail_msg("%s", text);
	return claim;
}

/* Reading returns the written record. */
static void
test_there_and_back(void **state)
{
	LeClaim		claim = {
		.job = "j", .tick = 5, .try = 1, .id = ID, .token = 7, .node = "n1",
		.state = LE_CLAIM_FAILED, .claimed_at = 6, .ended_at = 8,
		.every = 60000, .wait = 5000, .last_success = 4, .failures = 2,
		.writes = 9, .gap = {3, 1, 4}, .sqlstate = "22012", .message = "\"\\ \xc3\xa9",
	};
	StringInfoData text;
	LeClaim		read;

	initStringInfo(&text);
	le_claim_append_text(&text, &claim);
	read = parsed(text.data);
	assert_int_equal(read.every, 60000);
	assert_int_equal(read.wait, 5000);
	assert_int_equal(read.last_success, 4);
	assert_int_equal(read.failures, 2);
	assert_int_equal(read.writes, 9);
	assert_int_equal(read.gap.n, 3);
	assert_int_equal(read.gap.first, 1);
	assert_int_equal(read.gap.last, 4);
	assert_string_equal(read.sqlstate, "22012");
	assert_string_equal(read.message, "\"\\ \xc3\xa9");
	assert_int_equal(read.ended_at, 8);

	/* nothing passed over */
	claim.gap.n = 0;
	resetStringInfo(&text);
	le_claim_append_text(&text, &claim);
	assert_null(strstr(text.data, "missed"));
	assert_int_equal(parsed(text.data).gap.n, 0);
}

/* An earlier version's lacks the text for people; a later one's has more. */
static void
test_other_versions(void **state)
{
	LeClaim		claim = parsed(OLD "}");

	assert_int_equal(claim.ended_at, 8);
	assert_int_equal(claim.every, 0);
	assert_int_equal(claim.wait, 0);
	assert_int_equal(claim.last_success, 0);
	assert_int_equal(claim.failures, -1);
	assert_int_equal(claim.gap.n, 0);
	assert_int_equal(claim.writes, 0);
	assert_null(claim.sqlstate);
	assert_null(claim.message);
	claim = parsed(OLD ",\"mood\":{\"every\":1},\"failures\":0}");
	assert_int_equal(claim.every, 0);
	assert_int_equal(claim.failures, 0);
}

static void
test_refused(void **state)
{
	static const char *const bad[] = {
		",\"every\":-1}", ",\"every\":\"1\"}", ",\"wait\":4503599627370497}",
		",\"failures\":2147483647}", ",\"failures\":null}",
		",\"sqlstate\":\"2201\"}", ",\"sqlstate\":\"22 12\"}",
		",\"sqlstate\":7}", ",\"message\":7}",
		/* a gap in parts */
		",\"missed\":1}", ",\"missed_from\":1}", ",\"missed_to\":1}",
		",\"missed\":1,\"missed_from\":1}",
		",\"missed\":1,\"missed_to\":1}",
		",\"missed_from\":1,\"missed_to\":1}",
		/* ... that is none, or lies elsewhere: the tick is 5 */
		GAP("0", "1", "1"), GAP("-1", "1", "1"), GAP("\"1\"", "1", "1"),
		GAP("1", "0", "4"), GAP("1", "-1", "4"), GAP("1", "3", "2"),
		GAP("1", "4", "5"), GAP("2", "4", "4"), GAP("5", "1", "4"),
		GAP("4503599627370497", "1", "4"), GAP("1", "1", "4503599627370497"),
		GAP("9223372036854775807", "1", "4"),
	};
	LeClaim		claim;

	for (int i = 0; i < lengthof(bad); i++)
	{
		char	   *text = psprintf(OLD "%s", bad[i]);

		if (le_claim_parse(text, strlen(text), &claim))
			fail_msg("%s", text);
	}
}

/* The bounds of what may have been passed over. */
static void
test_gap(void **state)
{
	assert_int_equal(parsed(OLD GAP("1", "1", "1")).gap.n, 1);
	assert_int_equal(parsed(OLD GAP("1", "4", "4")).gap.last, 4);
	assert_int_equal(parsed(OLD GAP("4", "1", "4")).gap.n, 4);
	assert_int_equal(parsed(OLD GAP("2", "1", "4")).gap.n, 2);
	assert_int_equal(parsed(OLD GAP("0", "0", "0")).gap.n, 0);
}

/* The first line, in whole characters, without controls. */
static void
test_message(void **state)
{
	char		text[LE_MAX_MESSAGE_LEN + 10];
	char	   *shown;

	assert_string_equal(le_shown_message(""), "");
	assert_string_equal(le_shown_message("a\nb"), "a");
	assert_string_equal(le_shown_message("a\tb\x1b\x7f\xc2\x85" "c"),
						"a b    c");
	memset(text, 'x', sizeof(text));
	text[LE_MAX_MESSAGE_LEN] = '\0';
	assert_string_equal(le_shown_message(text), text);
	strcpy(text + LE_MAX_MESSAGE_LEN - 1, "\xc3\xa9");
	shown = le_shown_message(text);
	assert_int_equal(strlen(shown), LE_MAX_MESSAGE_LEN - 1);
	strcpy(text + LE_MAX_MESSAGE_LEN - 2, "\xc3\xa9y");
	shown = le_shown_message(text);
	assert_int_equal(strlen(shown), LE_MAX_MESSAGE_LEN);
	assert_string_equal(shown + LE_MAX_MESSAGE_LEN - 2, "\xc3\xa9");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		store_test(test_there_and_back),
		store_test(test_other_versions),
		store_test(test_refused),
		store_test(test_gap),
		store_test(test_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
