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

#include "compat.h"
#include "worker/wire/local_tokens.h"

static XLogRecPtr last_local_token = 0; /* 0: all of them are flushed */

/*
 * The next token of the local store: a position in the write-ahead log that is
 * flushed before anybody sees it, see dispatch.c.  The log goes on behind it,
 * whatever becomes of the server.
 */
uint64
le_local_token_next(void)
{
	static const char note[] = "term";

	if (RecoveryInProgress())
		return 0;
	last_local_token = le_log_logical_message("leader_election", note,
											  sizeof(note));
	return last_local_token;
}

/* Flush all before it, too, also of a worker that ended before its flush. */
void
le_local_tokens_flush(void)
{
	if (last_local_token != 0)
		XLogFlush(last_local_token);
	last_local_token = 0;
}
