/*-------------------------------------------------------------------------
 *
 * local_tokens.c
 *		Fencing tokens of the store "local": positions in the WAL.
 *
 * On a new timeline, of a standby that was promoted or a server that was
 * restored, positions go back where the end of the log was lost.  So each
 * timeline has a generation of tokens of its own, see tokens.c.  The position
 * is added, so that tokens increase whatever it is.
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
#include "worker/disk/tokens.h"
#include "worker/wire/local_tokens.h"

struct LeLocalTokens
{
	XLogRecPtr	last;			/* 0: all of them are flushed */
	uint64		generation;		/* 0: not known yet */
};

LeLocalTokens *
le_local_tokens_new(void)
{
	return MemoryContextAllocZero(TopMemoryContext, sizeof(LeLocalTokens));
}

void
le_local_tokens_begin(LeLocalTokens *tokens, uint64 generation)
{
	tokens->generation = generation;
}

/*
 * The next token of the local store: a position in the write-ahead log that is
 * flushed before anybody sees it, see dispatch.c.  The log goes on behind it,
 * whatever becomes of the server.  0: there is none.
 */
uint64
le_local_token_next(LeLocalTokens *tokens)
{
	static const char note[] = "term";

	if (RecoveryInProgress())
		return 0;
	tokens->last = le_log_logical_message("leader_election", note,
										  sizeof(note));
	if (tokens->generation == 0 || tokens->generation > LE_LAST_GENERATION ||
		tokens->last > PG_INT64_MAX -
		LE_FIRST_OF_GENERATION(tokens->generation))
		return 0;
	return LE_FIRST_OF_GENERATION(tokens->generation) + tokens->last;
}

/* Flush all before it, too, also of a worker that ended before its flush. */
void
le_local_tokens_flush(LeLocalTokens *tokens)
{
	if (tokens->last != 0)
		XLogFlush(tokens->last);
	tokens->last = 0;
}
