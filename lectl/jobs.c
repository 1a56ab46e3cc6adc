/*
 * lectl/jobs.c
 *
 * The query about jobs, shared by the commands.
 */
#include "lectl.h"

/*
 * $1: the elections, $2: the job; NULL: all.  A tick may lie in the future,
 * since the claimant's clock counts.
 */
const char	jobs_query[] =
	"SELECT election, job, node, state, fencing_token, "
	"pg_catalog.date_trunc('second', started_at), tick, "
	"nullif(pg_catalog.concat_ws(', ', CASE WHEN try > 1 THEN 'try ' || try END, "
	"CASE WHEN late THEN 'late' END, CASE WHEN ahead THEN 'ahead' END), ''), "
	"pg_catalog.current_setting('leader_election.backend') = 'local', "
	"greatest(0, extract(epoch FROM clock_timestamp() - tick))::bigint, "
	"coalesce(late, false), ahead "
	"FROM le_jobs('0') "
	"WHERE ($1::text[] IS NULL OR election = ANY ($1::text[])) "
	"AND ($2::text IS NULL OR job = $2) "
	"ORDER BY election, job";
