/*-------------------------------------------------------------------------
 *
 * names.c
 *		Sessions, elections, nodes and values by name and by number.
 *
 * test/sim/names.c
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

const char *
name_of_session(int session)
{
	static char names[MAX_SESSIONS][LE_SESSION_LEN + 1];

	if (session == 0)
		return NULL;
	if (names[session][0] == '\0')
		pg_snprintf(names[session], sizeof(names[session]),
					"00000000-0000-4000-8000-%012x", session);
	return names[session];
}

/* In ASCII, letters are 0x41 and more. */
static uint32
digit(char c)
{
	return (c & 15) + (c >> 6) * 9;
}

static inline uint32
read_4_digits(const char *s)
{
	return digit(s[0]) << 12 | digit(s[1]) << 8 | digit(s[2]) << 4 |
		digit(s[3]);
}

static uint32
read_8_digits(const char *s)
{
	return read_4_digits(s) << 16 | read_4_digits(s + 4);
}

/*
 * By the last digits or, for a session in name only, by the first, those of
 * the incarnation.  "" is no session.
 */
int
session_of_name(const char *name)
{
	int			n;

	if (name == NULL || name[0] == '\0')
		return 0;
	n = (int) read_4_digits(name + LE_SESSION_LEN - 4);
	return n != 0 ? n : (int) read_8_digits(name);
}

/* "e0", "e1", ... */
int
election_of_name(const char *name)
{
	return name[1] - '0';
}

const char *
name_of_election(int election)
{
	static const char *const names[MAX_ELECTIONS] = {"e0", "e1", "e2", "e3"};

	return names[election];
}

short
node_of_name(const char *name)
{
	return (short) atoi(name + 1);
}

const char *
name_of_node(int node)
{
	static char names[MAX_NODES][8];

	if (names[node][0] == '\0')
		pg_snprintf(names[node], sizeof(names[node]), "n%d", node);
	return names[node];
}

/* Values are "v" and a number. */
uint32
number_of_value(const char *value)
{
	return value == NULL ? 0 : (uint32) atoi(value + 1) + 1;
}

const char *
name_of_value(uint32 user)
{
	static char names[16][8];

	if (user == 0)
		return NULL;
	if (user >= lengthof(names))
		abort();
	if (names[user][0] == '\0')
		pg_snprintf(names[user], sizeof(names[user]), "v%u", user - 1);
	return names[user];
}

uint32
number_of_incarnation(const char *incarnation)
{
	return read_8_digits(incarnation);
}

const char *
name_of_incarnation(uint32 number)
{
	static char names[1024][LE_INCARNATION_LEN + 1];
	char	   *name = names[number % 1024];

	if (name[0] == '\0')
		pg_snprintf(name, LE_INCARNATION_LEN + 1, "%08x%024d",
					number % 1024, 0);
	return name;
}
