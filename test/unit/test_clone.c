/*-------------------------------------------------------------------------
 *
 * test_clone.c
 *		Tests of src/core/clone.c: which of two instances is the clone.
 *
 * test/unit/test_clone.c
 *
 *-------------------------------------------------------------------------
 */
#include "core_test.h"

#include "core/clone.h"

#define A			UINT64_C(7300000000000000001)
#define B			UINT64_C(7300000000000000002)
#define C			UINT64_C(7300000000000000003)
#define SYSTEM		{{A}}
#define NONE		{{0}}
#define LIVES		.lives = true
#define CONTENDS	.contends = true
#define PROMOTED	true

typedef struct KinCase
{
	int			line;
	LeSystems	systems;		/* this instance's */
	uint64_t	since;
	bool		promoted;
	LeInstance	other;
	LeKinship	kin;
} KinCase;

static const KinCase cases[] = {
	/* the other was there before, and lives */
	{__LINE__, SYSTEM, 101, false, {SYSTEM, 100, false, LIVES, CONTENDS},
	LE_KIN_ORIGINAL},
	/* it came later */
	{__LINE__, SYSTEM, 100, false, {SYSTEM, 101, false, LIVES, CONTENDS},
	LE_KIN_OTHER},
	/* the next two may be what a crash of this one has left */
	{__LINE__, SYSTEM, 101, false, {SYSTEM, 100, false, CONTENDS},
	LE_KIN_UNCLEAR},
	{__LINE__, SYSTEM, 101, false, {SYSTEM, 100, true, LIVES, CONTENDS},
	LE_KIN_NONE},
	{__LINE__, SYSTEM, 101, false, {SYSTEM, 100, true, CONTENDS},
	LE_KIN_NONE},
	/* one that came later need not be waited for */
	{__LINE__, SYSTEM, 100, false, {SYSTEM, 101, false, CONTENDS},
	LE_KIN_NONE},

	/* the other has stepped back, or may not lead: production's restart */
	{__LINE__, SYSTEM, 101, false, {SYSTEM, 100, false, LIVES},
	LE_KIN_OTHER},
	{__LINE__, SYSTEM, 101, false, {SYSTEM, 100}, LE_KIN_NONE},

	/* a former standby does not give way to its primary; that one may have to,
	 * if it came back later */
	{__LINE__, SYSTEM, 101, PROMOTED, {SYSTEM, 100, false, LIVES, CONTENDS},
	LE_KIN_OTHER},
	{__LINE__, SYSTEM, 101, PROMOTED, {SYSTEM, 100, false, CONTENDS},
	LE_KIN_NONE},

	/* copies that were given another identifier, each as seen by the other,
	 * and two of one original */
	{__LINE__, {{B, A}}, 101, false, {SYSTEM, 100, false, LIVES, CONTENDS},
	LE_KIN_ORIGINAL},
	{__LINE__, SYSTEM, 101, false, {{{B, A}}, 100, false, LIVES, CONTENDS},
	LE_KIN_ORIGINAL},
	{__LINE__, {{B, A}}, 101, false, {{{C, A}}, 100, false, LIVES, CONTENDS},
	LE_KIN_ORIGINAL},
	{__LINE__, {{B, A}}, 100, false, {SYSTEM, 101, false, LIVES, CONTENDS},
	LE_KIN_OTHER},
	{__LINE__, {{B, A}}, 101, false, {SYSTEM, 100, false, CONTENDS},
	LE_KIN_UNCLEAR},
	/* a former standby of the copy is none of the original */
	{__LINE__, {{B, A}}, 101, PROMOTED, {SYSTEM, 100, false, LIVES, CONTENDS},
	LE_KIN_ORIGINAL},
	{__LINE__, {{B, A}}, 101, PROMOTED,
		{{{B, A}}, 100, false, LIVES, CONTENDS}, LE_KIN_OTHER},

	/* another system; a standby, or an older version, on either side */
	{__LINE__, SYSTEM, 101, false, {{{B}}, 100, false, LIVES, CONTENDS},
	LE_KIN_NONE},
	{__LINE__, {{B, A}}, 101, false, {{{C}}, 100, false, LIVES, CONTENDS},
	LE_KIN_NONE},
	{__LINE__, SYSTEM, 101, false, {NONE, 100, false, LIVES, CONTENDS},
	LE_KIN_NONE},
	{__LINE__, NONE, 101, false, {SYSTEM, 100, false, LIVES, CONTENDS},
	LE_KIN_NONE},
	{__LINE__, NONE, 101, false, {NONE, 100, false, LIVES, CONTENDS},
	LE_KIN_NONE},
};

static void
kinship(void **state)
{
	(void) state;
	for (size_t i = 0; i < lengthof(cases); i++)
	{
		const KinCase *c = &cases[i];
		LeKinship	kin = le_kinship(&c->systems, c->since, c->promoted,
									 &c->other);

		if (kin != c->kin)
			fail_msg("case in line %d: %d", c->line, kin);
	}
}

/* Whatever two see of each other, they do not both step back. */
static void
one_goes_on(void **state)
{
	(void) state;
	for (int i = 0; i < 1 << 6; i++)
	{
		LeSystems	systems[2] = {SYSTEM, {{(i & 32) ? B : A, A}}};
		uint64_t	since[2] = {100 + (i & 1), 101 - (i & 1)};
		LeKinship	kin[2];

		for (int k = 0; k < 2; k++)
		{
			LeInstance	other = {
				systems[1 - k], since[1 - k], false, LIVES,
				.contends = (i >> (1 + k)) & 1,
			};

			kin[k] = le_kinship(&systems[k], since[k], (i >> (3 + k)) & 1,
								&other);
		}
		assert_false(kin[0] == LE_KIN_ORIGINAL && kin[1] == LE_KIN_ORIGINAL);
		assert_true(kin[0] != LE_KIN_NONE && kin[1] != LE_KIN_NONE);
	}
}

/* The present one is the first, each is there once, the oldest are dropped. */
static void
earlier_systems(void **state)
{
	LeSystems	systems = NONE;

	(void) state;
	le_add_system(&systems, A);
	le_add_system(&systems, B);
	le_add_system(&systems, A);
	assert_true(systems.ids[0] == A && systems.ids[1] == B);
	assert_true(systems.ids[2] == 0);
	for (uint64_t i = 1; i <= LE_MAX_SYSTEMS; i++)
		le_add_system(&systems, i);
	for (int i = 0; i < LE_MAX_SYSTEMS; i++)
		assert_true(systems.ids[i] == (uint64_t) (LE_MAX_SYSTEMS - i));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kinship),
		cmocka_unit_test(one_goes_on),
		cmocka_unit_test(earlier_systems),
	};

	return cmocka_run_group_tests_name("clone", tests, NULL, NULL);
}
