/*-------------------------------------------------------------------------
 *
 * stores.c
 *		The worker's view of the stores.
 *
 * test/sim/stores.c
 *
 *-------------------------------------------------------------------------
 */
#include "azure.h"

LeStore		sim_consul;
LeStore		sim_cassandra;
LeStore		sim_azure;

/* Other servers of the same store: what was seen counts no longer. */
static const char *
two_gateways(void)
{
	return sim_node->moved ? "http://g1,http://g0" : "http://g0,http://g1";
}

static const char *
an_agent(void)
{
	return sim_node->moved ? "http://agent1" : "http://agent0";
}

/* Facts that a request's text lacks: its purpose, and its term. */
static void
noting_encode(const LeNamespace *ns, const LeOp *op, LeRequest *request)
{
	Request    *r = &sim_node->encoded;
	const char *election = op->kind == LE_OP_RENEW_TERMS ?
		op->renew.terms[0].election : op->election;

	r->kind = op->kind;
	r->node = sim_node->number;
	r->session = session_of_name(op->session);
	r->election = election == NULL ? -1 : election_of_name(election);
	r->term = op->kind == LE_OP_RENEW_TERMS ? op->renew.terms[0].token :
		op->index;
	azure_asked_for(r->session, op->lease);
	le_store_azure.codec.encode(ns, op, request);
}

static bool
node_takes_over(void)
{
	return sim_node->takeover;
}

/* A store can do what the real one claims to. */
void
stores_adapt(void)
{
	sim_consul = le_store_consul;
	sim_consul.takes_over = node_takes_over;
	sim_consul.servers.urls = an_agent;
	sim_cassandra = le_store_cassandra;
	sim_cassandra.servers.urls = two_gateways;
	sim_azure = le_store_azure;
	sim_azure.codec.encode = noting_encode;
}
