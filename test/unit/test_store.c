/*-------------------------------------------------------------------------
 *
 * test_store.c
 *		Rules for all stores: names and URLs.  (Messages are in
 *		test_claim_record.c, the registry is in test_local.c.)
 *
 * test/unit/test_store.c
 *
 *-------------------------------------------------------------------------
 */
#include "store_test.h"

#include "store/store.h"

/* Whole addresses only: the resolver may send other names anywhere. */
static void
test_loopback(void **state)
{
	static const char *const here[] = {
		"http://localhost", "http://localhost:8500/path",
		"http://127.0.0.1", "http://127.0.0.1:8500", "http://127.0.0.1/x",
		"http://127.255.255.255:1", "https://127.1.2.3",
		"http://[::1]", "http://[::1]:8500", "http://[::1]/x",
	};
	static const char *const elsewhere[] = {
		"http://127.1", "http://127", "http://127.0.0.1.example.com",
		"http://127.100.100.100.example.com:80", "http://127.0.0.256",
		"http://128.0.0.1", "http://localhost.example.com",
		"http://localhosts", "http://[::1]x", "http://[::1", "http://[::2]",
		"http://[::1].example.com", "http://0.0.0.0", "http://",
		"http://example.com/127.0.0.1", "http://169.254.169.254",
	};

	for (int i = 0; i < lengthof(here); i++)
		if (!le_is_loopback(here[i]))
			fail_msg("%s", here[i]);
	for (int i = 0; i < lengthof(elsewhere); i++)
		if (le_is_loopback(elsewhere[i]))
			fail_msg("%s", elsewhere[i]);
}

/* Whole characters, and nothing that a terminal would obey. */
static void
test_shown_name(void **state)
{
	char		text[LE_MAX_NODE_NAME_LEN + 10];

	assert_string_equal(le_shown_name("", 0), "");
	assert_string_equal(le_shown_name("db1#abc", 3), "db1");
	assert_string_equal(le_shown_name("a\tb\x1b\x7f\xc2\x9b" "c\xc3\xa9", 9),
						"a?b????c\xc3");
	assert_string_equal(le_shown_name("\xc2\xa0", 2), "\xc2\xa0");
	/* cut off within a control */
	assert_string_equal(le_shown_name("a\xc2\x9b", 2), "a\xc2");
	memset(text, 'x', sizeof(text));
	strcpy(text + LE_MAX_NODE_NAME_LEN - 1, "\xc3\xa9");
	assert_int_equal(strlen(le_shown_name(text, strlen(text))),
					 LE_MAX_NODE_NAME_LEN - 1);
}

/* The whole secret, each time, and what was left of one that was cut. */
static void
test_without_secret(void **state)
{
	static const char *const cases[][3] = {
		{"a secret: abcdef", "abcdef", "a secret: ******"},
		{"abcdefabcdef, abcdef", "abcdef", "************, ******"},
		{"cut at abcd", "abcdef", "cut at ****"},
		{"cut at abc", "abcdef", "cut at abc"},
		{"in the middle abcde of it", "abcdef", "in the middle abcde of it"},
		{"ababab", "abab", "******"},
		{"", "abcdef", ""},
	};

	for (int i = 0; i < lengthof(cases); i++)
		assert_string_equal(le_without_secret(cases[i][0], cases[i][1]),
							cases[i][2]);
}

static void
test_claim_states(void **state)
{
	LeClaimState found;

	for (int i = 0; i < LE_CLAIM_NSTATES; i++)
	{
		assert_true(le_claim_state_named(le_claim_state_name(i), &found));
		assert_int_equal(found, i);
	}
	assert_false(le_claim_state_named(NULL, &found));
	assert_false(le_claim_state_named("", &found));
	assert_false(le_claim_state_named("Done", &found));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		store_test(test_loopback),
		store_test(test_shown_name),
		store_test(test_without_secret),
		store_test(test_claim_states),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
