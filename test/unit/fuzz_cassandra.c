/*-------------------------------------------------------------------------
 *
 * fuzz_cassandra.c
 *		Decodes arbitrary answers as the gateway's; seeds: corpus/cassandra.
 *
 * For any input, the decoder must end, stay in its memory, and keep the rules
 * for answers (exchange.c).
 *
 * test/unit/fuzz_cassandra.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include "exchange.h"
#include "memory.h"

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	LeOp		op;
	LeResponse response;
	LeAnswer	answer;

	if (parse_exchange((const char *) data, size, &op, &response) &&
		!le_store_cassandra.codec.performs(op.kind))
	{
		le_store_cassandra.codec.decode(&test_namespace, &op, &response,
										&answer);
		check_lease_answer(&op, &response, &answer);
	}
	reset_memory();
	return 0;
}
