/*-------------------------------------------------------------------------
 *
 * model_azure.c
 *		Answers of the model of Azure Blob Storage, cell by cell.
 *
 * One line of JSON for each operation in each state of a lease, and for each
 * variant of the service: the answer's status and code, the lease id that it
 * names, and the state that it leaves.  test/t/111_model_azure.pl asks a real
 * Azurite for the same, a fresh blob for each, and compares.
 *
 * Lease ids are letters: A has the lease, B is another one, C is proposed.
 *
 * test/sim/model_azure.c
 *
 *-------------------------------------------------------------------------
 */
#include "azure.h"
#include "cli.h"

#define A	((UINT64CONST(1) << 32) + 0xa)
#define B	((UINT64CONST(1) << 32) + 0xb)
#define C	((UINT64CONST(1) << 32) + 0xc)

#define LEASE	15				/* seconds */

static Schedule schedule;

typedef struct Operation
{
	const char *name;
	BlobRequest request;
} Operation;

static const Operation operations[] = {
	{"acquire A", {BLOB_ACQUIRE, .proposed = A, .seconds = LEASE}},
	{"acquire B", {BLOB_ACQUIRE, .proposed = B, .seconds = LEASE}},
	{"acquire B, another etag",
	{BLOB_ACQUIRE, .proposed = B, .seconds = LEASE, .etag = PG_UINT64_MAX}},
	{"renew A", {BLOB_RENEW, .lease_id = A}},
	{"renew B", {BLOB_RENEW, .lease_id = B}},
	{"change A to C", {BLOB_CHANGE, .lease_id = A, .proposed = C}},
	{"change B to C", {BLOB_CHANGE, .lease_id = B, .proposed = C}},
	{"change B to A", {BLOB_CHANGE, .lease_id = B, .proposed = A}},
	{"release A", {BLOB_RELEASE, .lease_id = A}},
	{"release B", {BLOB_RELEASE, .lease_id = B}},
	{"break 0", {BLOB_BREAK, .seconds = 0}},
	{"break", {BLOB_BREAK, .seconds = NOT_SAID}},
	{"metadata", {BLOB_METADATA}},
	{"metadata A", {BLOB_METADATA, .lease_id = A}},
	{"metadata B", {BLOB_METADATA, .lease_id = B}},
	{"metadata A, another etag",
	{BLOB_METADATA, .lease_id = A, .etag = PG_UINT64_MAX}},
	{"put", {BLOB_PUT}},
	{"put A", {BLOB_PUT, .lease_id = A}},
	{"put B", {BLOB_PUT, .lease_id = B}},
	{"put if absent", {BLOB_PUT, .absent = true}},
	{"head", {BLOB_HEAD}},
	{"head A", {BLOB_HEAD, .lease_id = A}},
	{"head B", {BLOB_HEAD, .lease_id = B}},
	{"delete", {BLOB_DELETE}},
	{"delete A", {BLOB_DELETE, .lease_id = A}},
};

/* The operations that lead to each state, in order. */
static const struct
{
	const char *name;
	int			nsteps;
	BlobRequest steps[2];
	bool		runs_out;
}			states[] = {
	{"no blob", 0},
	{"available", 0},
	{"released", 2, {{BLOB_ACQUIRE, .proposed = A, .seconds = LEASE},
	{BLOB_RELEASE, .lease_id = A}}},
	{"leased", 1, {{BLOB_ACQUIRE, .proposed = A, .seconds = LEASE}}},
	{"for ever", 1, {{BLOB_ACQUIRE, .proposed = A, .seconds = FOR_EVER}}},
	{"expired", 1, {{BLOB_ACQUIRE, .proposed = A, .seconds = LEASE}}, true},
	{"breaking", 2, {{BLOB_ACQUIRE, .proposed = A, .seconds = LEASE},
	{BLOB_BREAK, .seconds = NOT_SAID}}},
	{"broken", 2, {{BLOB_ACQUIRE, .proposed = A, .seconds = LEASE},
	{BLOB_BREAK, .seconds = 0}}},
	{"broken, rewritten", 2, {{BLOB_ACQUIRE, .proposed = A, .seconds = LEASE},
	{BLOB_BREAK, .seconds = 0}}},
	{"expired, rewritten", 1,
	{{BLOB_ACQUIRE, .proposed = A, .seconds = LEASE}}, true},
	{"expired, read", 1,
	{{BLOB_ACQUIRE, .proposed = A, .seconds = LEASE}}, true},
};

static void
execute(const BlobRequest *request, BlobAnswer *answer)
{
	BlobRequest r = *request;

	r.blob = 0;
	azure_execute(&r, answer);
}

static void
bring_about(int state, BlobAnswer *answer)
{
	static const BlobRequest put = {BLOB_PUT};
	static const BlobRequest metadata = {BLOB_METADATA};
	static const BlobRequest head = {BLOB_HEAD};

	if (strcmp(states[state].name, "no blob") != 0)
		execute(&put, answer);
	for (int i = 0; i < states[state].nsteps; i++)
		execute(&states[state].steps[i], answer);
	if (states[state].runs_out)
		sim.now += LEASE * LE_SEC;
	if (strstr(states[state].name, "rewritten") != NULL)
		execute(&metadata, answer);
	if (strstr(states[state].name, "read") != NULL)
		execute(&head, answer);
}

static const char *
letter(uint64 id)
{
	return id == A ? "\"A\"" : id == B ? "\"B\"" : id == C ? "\"C\"" : "null";
}

static void
cell(int state, const Operation *o, bool azurite)
{
	BlobAnswer	answer;
	BlobAnswer	after;
	BlobRequest head = {BLOB_HEAD};

	azure_variant(azurite);
	sim.now = LE_SEC;
	bring_about(state, &answer);
	execute(&o->request, &answer);
	execute(&head, &after);
	printf("{\"azurite\":%s,\"state\":\"%s\",\"operation\":\"%s\","
		   "\"status\":%d,\"code\":\"%s\",\"lease_id\":%s,\"after\":\"%s\"}\n",
		   azurite ? "true" : "false", states[state].name, o->name,
		   answer.status, answer.code != NULL ? answer.code : "",
		   letter(answer.lease_id), after.nshown > 0 ? azure_state(0) : "");
}

int
model_azure_run(void)
{
	schedule.store = STORE_AZURE;
	schedule.nelections = 1;
	sim.schedule = &schedule;
	sim.model = &azure_model;
	sim.random = sim_mix(1);
	sim.nelections = 1;
	sim.storm = false;
	azure_model.reset();
	check_reset();
	for (int variant = 0; variant < 2; variant++)
		for (int s = 0; s < lengthof(states); s++)
			for (int i = 0; i < lengthof(operations); i++)
				cell(s, &operations[i], variant == 0);
	return 0;
}
