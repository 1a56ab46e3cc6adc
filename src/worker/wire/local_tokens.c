/*-------------------------------------------------------------------------
 *
 * local_tokens.c
 *		Fencing tokens of the store "local": positions in the WAL.
 *
 * src/worker/wire/local_tokens.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "replication/message.h"
#include "utils/memutils.h"

#include "compat.h"
#include "worker/wire/local_tokens.h"

struct LeLocalTokens
{
	XLogRecPtr	last;			/* 0: all of them are flushed */
};

LeLocalTokens *
le_local_tokens_new(void)
{
	return MemoryContextAllocZero(TopMemoryContext, sizeof(LeLocalTokens));
}

/*
 * The next token of the local store: a position in the write-ahead log that is
 * flushed before anybody sees it, see dispatch.c.  The log goes on behind it,
 * whatever becomes of the server.
 */
uint64
le_local_token_next(LeLocalTokens *tokens)
{
	static const char note[] = "term";

	if (RecoveryInProgress())
		return 0;
	tokens->last = le_log_logical_message("leader_election", note,
										  sizeof(note));
	return tokens->last;
}

/* Flush all before it, too, also of a worker that ended before its flush. */
void
le_local_tokens_flush(LeLocalTokens *tokens)
{
	if (tokens->last != 0)
		XLogFlush(tokens->last);
	tokens->last = 0;
}
