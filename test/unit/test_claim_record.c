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
		.sqlstate = "22012", .message = "\"\\ \xc3\xa9",
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
	assert_string_equal(read.sqlstate, "22012");
	assert_string_equal(read.message, "\"\\ \xc3\xa9");
	assert_int_equal(read.ended_at, 8);
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
	};
	LeClaim		claim;

	for (int i = 0; i < lengthof(bad); i++)
	{
		char	   *text = psprintf(OLD "%s", bad[i]);

		if (le_claim_parse(text, strlen(text), &claim))
			fail_msg("%s", text);
	}
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
		store_test(test_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
