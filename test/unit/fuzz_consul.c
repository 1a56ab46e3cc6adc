/*-------------------------------------------------------------------------
 *
 * fuzz_consul.c
 *		Decodes arbitrary answers as Consul's; seeds: corpus/consul.
 *
 * For any input, the decoder must end, stay in its memory, and keep the rules
 * for answers (exchange.c).  The input also serves as a user's value, which
 * must come back unchanged.
 *
 * test/unit/fuzz_consul.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include "exchange.h"
#include "mb/pg_wchar.h"
#include "memory.h"
#include "store/consul_list.h"

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
as_answer(const char *text, size_t len)
{
	LeOp		op;
	LeResponse response;
	LeAnswer	answer;

	if (!parse_exchange(text, len, &op, &response))
		return;
	le_consul_slice = 64;		/* a list comes in parts */
	do
	{
		le_store_consul.codec.decode(&test_namespace, &op, &response, &answer);
		op.wire.from = answer.wire.rest;
	} while (answer.outcome == LE_DONE && answer.wire.rest != 0);
	check_answer(&op, &response, &answer);
}

static void
as_value(const char *text, size_t len)
{
	if (len <= LE_MAX_VALUE_LEN &&
		pg_encoding_verifymbstr(PG_UTF8, text, (int) len) == (int) len)
		check_value(pnstrdup(text, len));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	as_answer((const char *) data, size);
	as_value((const char *) data, size);
	reset_memory();
	return 0;
}
