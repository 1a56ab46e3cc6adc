/*-------------------------------------------------------------------------
 *
 * fuzz_azure.c
 *		Decodes arbitrary answers as those of Azure Blob Storage; seeds:
 *		corpus/azure.
 *
 * For any input, the decoder must end, stay in its memory, and keep the rules
 * for answers (exchange.c).
 *
 * test/unit/fuzz_azure.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include "exchange.h"
#include "memory.h"

/* Is the step one of the operation's? */
static bool
has_step(LeOpKind kind, int step)
{
	switch (kind)
	{
		case LE_OP_READ:
		case LE_OP_WATCH:
			return step == 0 || step == 7;
		case LE_OP_ACQUIRE:
			return step == 0 || (step >= 3 && step <= 6);
		case LE_OP_CLAIM:
			return step >= 0 && step <= 2;
		case LE_OP_PUBLISH:
		case LE_OP_RELEASE:
		case LE_OP_COMPLETE:
			return step == 0 || step == 1;
		default:
			return step == 0;
	}
}

/* Step 7 asks for the holder of a term that was read, which has a token. */
static bool
has_index(const LeOp *op)
{
	return op->wire.step.number != 7 ||
		(op->wire.step.index > 0 && op->wire.step.index <= PG_INT64_MAX);
}

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	LeOp		op;
	LeResponse response;
	LeAnswer	answer;

	if (parse_exchange((const char *) data, size, &op, &response) &&
		!le_store_azure.codec.performs(op.kind) &&
		has_step(op.kind, op.wire.step.number) && has_index(&op))
	{
		op.renew.nterms = 1;
		le_store_azure.codec.decode(&test_namespace, &op, &response, &answer);
		check_blob_answer(&op, &response, &answer);
	}
	reset_memory();
	return 0;
}
