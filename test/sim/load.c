/*-------------------------------------------------------------------------
 *
 * load.c
 *		The number of requests per second of so many nodes.
 *
 * In fair weather: every node campaigns for every election, one leads each.
 *
 * test/sim/load.c
 *
 *-------------------------------------------------------------------------
 */
#include "cli.h"

#define WARM_UP		(60 * LE_SEC)
#define MEASURED	(300 * LE_SEC)

static void
measure(int nnodes, int nelections, int lease_ms)
{
	static Schedule s;
	double		elapsed = MEASURED / (double) LE_SEC;

	memset(&s, 0, sizeof(s));
	s.seed = 1;
	s.nnodes = nnodes;
	s.nelections = nelections;
	s.storm = WARM_UP;
	s.fair = true;		/* only for the store's usual expiry */
	for (int i = 0; i < nnodes; i++)
	{
		s.lease_ms[i] = lease_ms;
		s.margin_ms[i] = lease_ms < 5000 ? 500 : 1000;
		s.takeover[i] = true;
		s.campaigns[i] = (1 << nelections) - 1;
	}
	memset(&sim.counts, 0, sizeof(sim.counts));
	schedule_start(&s);
	sim.storm = false;
	schedule_run_until(WARM_UP);
	memset(&sim.counts, 0, sizeof(sim.counts));
	schedule_run_until(WARM_UP + MEASURED);
	printf("%5d %9d %5d s %10.1f %7.1f %7.1f %7.1f %7.1f %7.1f%s\n", nnodes,
		   nelections, lease_ms / 1000, sim.counts.requests / elapsed,
		   sim.counts.op[LE_OP_PROVE_NODE] / elapsed,
		   sim.counts.op[LE_OP_RENEW_SESSION] / elapsed,
		   sim.counts.op[LE_OP_LIST_NODES] / elapsed,
		   sim.counts.op[LE_OP_READ] / elapsed,
		   sim.counts.op[LE_OP_WATCH] / elapsed,
		   sim.counts.terms == 0 ? "" : "  (leaders changed)");
}

void
load_report(void)
{
	static const int nodes[] = {3, 10, 100};
	static const int leases[] = {15000, 10000, 3000};

	printf("requests per second to the store, every node campaigning\n");
	printf("nodes elections lease        all   prove   renew  listen    read"
		   "   watch\n");
	for (int i = 0; i < (int) lengthof(nodes); i++)
		for (int k = 0; k < (int) lengthof(leases); k++)
			measure(nodes[i], 1, leases[k]);
	for (int k = 0; k < (int) lengthof(leases); k++)
		measure(100, 4, leases[k]);
}
