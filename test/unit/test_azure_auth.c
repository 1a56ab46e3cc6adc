/*-------------------------------------------------------------------------
 *
 * test_azure_auth.c
 *		Tests of src/store/azure_auth.c, and of azure.c's handling of refusals
 *		and of a busy service.
 *
 * The answers come from the service's documents: only Azure has an instance
 * metadata service.
 *
 * test/unit/test_azure_auth.c
 *
 *-------------------------------------------------------------------------
 */
#include "store_test.h"

#include <stdlib.h>

#include "exchange.h"
#include "store/azure_auth.h"

#define CLIENT	"11111111-2222-3333-4444-555555555555"
#define NOW		(INT64CONST(1900000000) * 1000)	/* 2030-03-17 17:46:40 */

static void
set(const char *name, const char *value)
{
	for (int i = 0; i < le_store_azure.settings.n; i++)
	{
		const LeSetting *s = &le_store_azure.settings.list[i];

		if (strcmp(s->name, psprintf("leader_election.%s", name)) == 0)
		{
			*s->text = unconstify(char *, value);
			return;
		}
	}
	fail_msg("no setting %s", name);
}

static int
forget_settings(void **state)
{
	set("azure_identity", "");
	set("azure_sas_file", "");
	unsetenv("AZURE_FEDERATED_TOKEN_FILE");
	unsetenv("AZURE_CLIENT_ID");
	unsetenv("AZURE_TENANT_ID");
	unsetenv("AZURE_AUTHORITY_HOST");
	return forget_memory(state);
}

static LeRequest
encode(const LeOp *op)
{
	LeRequest r;

	memset(&r, 0, sizeof(r));
	initStringInfo(&r.http.path);
	initStringInfo(&r.http.headers);
	initStringInfo(&r.http.body);
	le_store_azure.codec.encode(&test_namespace, op, &r);
	return r;
}

static LeAnswer
decode(const LeOp *op, const LeResponse *response)
{
	LeAnswer	a;

	memset(&a, 0x55, sizeof(a));
	le_store_azure.codec.decode(&test_namespace, op, response, &a);
	return a;
}

/* ---- requests ---- */

#define METADATA	"/metadata/identity/oauth2/token?api-version=2018-02-01" \
	"&resource=https%3A%2F%2Fstorage.azure.com%2F"

static void
test_machine(void **state)
{
	LeOp		op = test_op(LE_OP_AUTHENTICATE);
	LeRequest r;

	set("azure_identity", "system");
	assert_string_equal(le_store_azure.secret.authenticates(), "system");
	assert_string_equal(le_store_azure.secret.file(), "");
	assert_false(le_store_azure.codec.performs(LE_OP_AUTHENTICATE));
	r = encode(&op);
	assert_string_equal(r.http.method, "GET");
	assert_string_equal(r.base, "http://169.254.169.254");
	assert_string_equal(r.http.path.data, METADATA);
	assert_string_equal(r.http.headers.data, "Metadata: true\n");
	assert_true(r.without_secret && !r.http.has_body && r.max_answer > 4096);
	set("azure_identity", CLIENT);
	assert_string_equal(encode(&op).http.path.data,
						METADATA "&client_id=" CLIENT);
}

static void
test_workload(void **state)
{
	LeOp		op = test_op(LE_OP_AUTHENTICATE);
	LeRequest r;

	set("azure_identity", "workload");
	assert_string_equal(le_store_azure.secret.file(), "");
	assert_non_null(strstr(le_azure_workload_fault(), "FEDERATED_TOKEN_FILE"));
	setenv("AZURE_FEDERATED_TOKEN_FILE", "/run/token", 1);
	setenv("AZURE_CLIENT_ID", CLIENT, 1);
	assert_non_null(strstr(le_azure_workload_fault(), "AZURE_TENANT_ID"));
	setenv("AZURE_TENANT_ID", "ten/ant", 1);
	assert_null(le_azure_workload_fault());
	assert_string_equal(le_store_azure.secret.file(), "/run/token");
	op.secret = "a.b+c";
	r = encode(&op);
	assert_string_equal(r.http.method, "POST");
	assert_string_equal(r.base, "https://login.microsoftonline.com");
	assert_string_equal(r.http.path.data, "/ten%2Fant/oauth2/v2.0/token");
	assert_string_equal(r.http.headers.data,
						"Content-Type: application/x-www-form-urlencoded\n");
	assert_true(r.without_secret && r.http.has_body);
	assert_string_equal(r.http.body.data,
						"grant_type=client_credentials&client_id=" CLIENT
						"&scope=https%3A%2F%2Fstorage.azure.com%2F.default"
						"&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth"
						"%3Aclient-assertion-type%3Ajwt-bearer"
						"&client_assertion=a.b%2Bc");
	setenv("AZURE_AUTHORITY_HOST", "https://login.example/", 1);
	assert_string_equal(encode(&op).base, "https://login.example");
	/* only known hosts get a token */
	setenv("AZURE_AUTHORITY_HOST", "http://login.example/", 1);
	assert_non_null(strstr(le_azure_workload_fault(), "https"));
	assert_string_equal(encode(&op).base, "https://login.microsoftonline.com");
}

/* ---- answers ---- */

static LeResponse
answer_of(int status, const char *body)
{
	LeResponse r = {.http.status = status, .http.content_type = "",
		.body = body};

	r.body_len = strlen(body);
	return r;
}

static void
test_tokens(void **state)
{
	static const struct
	{
		const char *body;
		int			lasts;		/* s; 0: not a token */
	}			cases[] = {
		{"{\"access_token\":\"eyJ0.x-_~\",\"client_id\":\"1\","
		"\"expires_in\":\"86399\",\"expires_on\":\"1900086399\","
		"\"token_type\":\"Bearer\"}", 86399},
		{"{\"access_token\":\"eyJ0.x-_~\",\"expires_in\":3599,"
		"\"ext_expires_in\":3599,\"token_type\":\"Bearer\"}", 3599},
		{"{\"access_token\":\"eyJ0.x-_~\",\"expires_in\":\"0\"}", 0},
		{"{\"access_token\":\"eyJ0.x-_~\",\"expires_in\":-1}", 0},
		{"{\"access_token\":\"eyJ0.x-_~\",\"expires_in\":\"99999999999\"}", 0},
		{"{\"access_token\":\"eyJ0.x-_~\",\"expires_in\":\"\"}", 0},
		{"{\"access_token\":\"eyJ0.x-_~\"}", 0},
		{"{\"access_token\":\"\",\"expires_in\":\"60\"}", 0},
		{"{\"access_token\":\"a b\",\"expires_in\":\"60\"}", 0},
		{"{\"access_token\":\"a\\r\\nx: y\",\"expires_in\":\"60\"}", 0},
		{"{\"access_token\":{\"a\":1},\"expires_in\":\"60\"}", 0},
		{"{\"expires_in\":\"60\"}", 0},
		{"[\"access_token\"]", 0},
		{"<html>eyJ0.x-_~</html>", 0},
		{"", 0},
	};
	LeOp		op = test_op(LE_OP_AUTHENTICATE);

	set("azure_identity", "system");
	for (int i = 0; i < lengthof(cases); i++)
	{
		LeResponse r = answer_of(200, cases[i].body);
		LeAnswer	a = decode(&op, &r);

		assert_int_equal(a.outcome,
						 cases[i].lasts > 0 ? LE_DONE : LE_UNAVAILABLE);
		if (cases[i].lasts > 0)
		{
			assert_string_equal(a.secret, "eyJ0.x-_~");
			assert_true(a.lasts == cases[i].lasts * LE_SEC);
		}
		else
			assert_null(strstr(a.detail, "eyJ0"));
	}
}

/* One longer than the longest secret is none. */
static void
test_long_token(void **state)
{
	char	   *long_token = palloc0(LE_MAX_SECRET_LEN + 1);
	LeOp		op = test_op(LE_OP_AUTHENTICATE);
	LeResponse r;

	set("azure_identity", "system");
	memset(long_token, 'a', LE_MAX_SECRET_LEN);
	r = answer_of(200, psprintf("{\"access_token\":\"%s\",\"expires_in\":9}",
								long_token));
	assert_int_equal(decode(&op, &r).outcome, LE_UNAVAILABLE);
	long_token[LE_MAX_SECRET_LEN - 1] = '\0';
	r = answer_of(200, psprintf("{\"access_token\":\"%s\",\"expires_in\":9}",
								long_token));
	assert_int_equal(decode(&op, &r).outcome, LE_DONE);
}

static void
test_no_token(void **state)
{
	static const struct
	{
		int			status;
		LeOutcome	outcome;
		bool		busy;
	}			cases[] = {
		{400, LE_REFUSED, false},
		{401, LE_REFUSED, false},
		{403, LE_REFUSED, false},
		{404, LE_UNAVAILABLE, false},
		{410, LE_UNAVAILABLE, false},
		{429, LE_UNAVAILABLE, true},
		{500, LE_UNAVAILABLE, false},
		{503, LE_UNAVAILABLE, true},
		{302, LE_UNAVAILABLE, false},
	};
	LeOp		op = test_op(LE_OP_AUTHENTICATE);
	LeResponse r;
	LeAnswer	a;

	set("azure_identity", "system");
	for (int i = 0; i < lengthof(cases); i++)
	{
		r = answer_of(cases[i].status, "{\"error\":\"eyJ0\"}");
		r.http.headers = "Retry-After: 7\r\n";
		a = decode(&op, &r);
		assert_int_equal(a.outcome, cases[i].outcome);
		assert_int_equal(a.wire.busy, cases[i].busy);
		assert_true(a.wire.busy_for == (cases[i].busy ? 7 * LE_SEC : 0));
		assert_null(a.secret);
		assert_null(strstr(a.detail, "eyJ0"));
		assert_non_null(strstr(a.detail, psprintf("HTTP %d", cases[i].status)));
		assert_non_null(strstr(a.detail, "metadata service"));
	}
	r = (LeResponse) {.net = LE_NET_BROKEN, .net_error = "timed out"};
	a = decode(&op, &r);
	assert_int_equal(a.outcome, LE_UNAVAILABLE);
	assert_string_equal(a.detail, "no token from the machine's metadata service: timed out");
	set("azure_identity", "workload");
	assert_non_null(strstr(decode(&op, &r).detail, "Entra"));
}

/* ---- refusals of the identity, and the service's load ---- */

static LeAnswer
refusal(int status, const char *code, const char *more)
{
	LeOp		op = test_op(LE_OP_READ);
	LeResponse r = answer_of(status, "");

	r.http.headers =
		psprintf("x-ms-request-id: r\r\nx-ms-error-code: %s\r\n%s",
				 code, more);
	return decode(&op, &r);
}

static void
test_stale(void **state)
{
	static const struct
	{
		int			status;
		const char *code;
		bool		sas;		/* may another help? */
		bool		token;
	}			cases[] = {
		{401, "InvalidAuthenticationInfo", true, true},
		{403, "AuthenticationFailed", true, true},
		{403, "AuthorizationFailure", true, false},
		{403, "AuthorizationPermissionMismatch", true, false},
		{404, "ContainerNotFound", false, false},
		{404, "BlobNotFound", false, false},
		{503, "ServerBusy", false, false},
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		LeAnswer	a = refusal(cases[i].status, cases[i].code, "");

		assert_int_equal(a.wire.stale_secret, cases[i].sas);
		set("azure_identity", "system");
		a = refusal(cases[i].status, cases[i].code, "");
		assert_int_equal(a.wire.stale_secret, cases[i].token);
		if (a.detail != NULL)
			assert_null(strstr(a.detail, "SAS"));
		set("azure_identity", "");
	}
	set("azure_identity", "system");
	assert_non_null(strstr(refusal(403, "AuthorizationPermissionMismatch",
								   "").detail,
						   "Storage Blob Data Contributor"));
}

static void
test_busy(void **state)
{
	LeOp		op = test_op(LE_OP_READ);
	LeResponse r = answer_of(429, "<html>");

	assert_true(refusal(503, "ServerBusy", "").wire.busy);
	assert_true(refusal(503, "ServerBusy", "").wire.busy_for == 0);
	assert_true(refusal(503, "ServerBusy",
						"Retry-After: 12\r\n").wire.busy_for ==
				12 * LE_SEC);
	assert_true(refusal(429, "TooManyRequests",
						"Retry-After: x\r\n").wire.busy);
	assert_true(refusal(500, "OperationTimedOut", "").wire.busy);
	assert_false(refusal(500, "InternalError", "").wire.busy);
	assert_false(refusal(404, "BlobNotFound", "").wire.busy);
	assert_true(decode(&op, &r).wire.busy);	/* a proxy's */
	r.net = LE_NET_BROKEN;
	assert_false(decode(&op, &r).wire.busy);
	assert_true(refusal(503, "ServerBusy",
						"Retry-After: Sun, 17 Mar 2030\r\n").wire.busy_for ==
				0);
}

/* ---- signatures ---- */

static void
test_signatures(void **state)
{
	static const struct
	{
		const char *sas;
		LeLevel		level;
		const char *says;
	}			cases[] = {
		{"sv=2021-12-02&sr=c&sp=rwl&se=2031-01-01T00%3A00%3A00Z&sig=x%3D",
			LE_LEVEL_OK,
		"The SAS expires at 2031-01-01 00:00:00 UTC, in 289.3 days."},
		{"?sp=racwl&se=2031-01-01&sig=x", LE_LEVEL_OK, "2031-01-01 00:00:00"},
		{"sp=lwr&se=2030-04-01T12:30Z&sig=x", LE_LEVEL_OK,
		"2030-04-01 12:30:00 UTC, in 14.8"},
		{"sp=rwl&se=2030-03-24T17%3a46%3a39.1234567Z&sig=x",
		LE_LEVEL_WARNING, "in 7.0 days"},
		{"sp=rwl&se=2030-03-17T17:46:41Z&sig=x", LE_LEVEL_WARNING,
		"in 0.0 days"},
		{"sp=rwl&se=2030-03-17T17:46:40Z&sig=x", LE_LEVEL_ERROR,
		"The SAS has expired at 2030-03-17 17:46:40 UTC."},
		{"sp=rwl&st=2030-03-18&se=2031-01-01&sig=x", LE_LEVEL_ERROR,
		"not valid before 2030-03-18 00:00:00 UTC"},
		{"sp=rwl&st=2030-03-17&se=2031-01-01&sig=x", LE_LEVEL_OK,
		"expires at"},
		{"sp=rl&se=2031-01-01&sig=x", LE_LEVEL_ERROR, "\"w\" is missing"},
		{"sp=d&se=2031-01-01&sig=x", LE_LEVEL_ERROR, "\"rwl\" is missing"},
		{"sp=r&se=2020-01-01&sig=x", LE_LEVEL_ERROR, "has expired"},
		{"si=policy&sv=2021-12-02&sr=c&sig=x", LE_LEVEL_OK, "access policy"},
		{"sp=rwl&se=tomorrow&sig=x", LE_LEVEL_WARNING, "cannot be read"},
		{"sp=rwl&se=2031-01-01T&sig=x", LE_LEVEL_WARNING, "cannot be read"},
		{"sp=rwl&se=2031-01-01T00:00:00+01:00&sig=x", LE_LEVEL_WARNING,
		"cannot be read"},
		{"sp=rwl&se=2031-01-01", LE_LEVEL_ERROR, "no signature"},
		{"rse=2031-01-01&sig=x", LE_LEVEL_OK, "access policy"},
		{"%", LE_LEVEL_ERROR, "no signature"},
		{"sp=rwl&se=%&sig=%4", LE_LEVEL_WARNING, "cannot be read"},
	};
	LeFinding	finding;

	for (int i = 0; i < lengthof(cases); i++)
	{
		le_store_azure.secret.judge(cases[i].sas, NOW, &finding);
		if (finding.level != cases[i].level ||
			strstr(finding.text, cases[i].says) == NULL)
			fail_msg("%s: %d %s", cases[i].sas, finding.level, finding.text);
		assert_null(strstr(finding.text, "sig=x"));
		assert_true(strstr(finding.text, " days") == NULL ||
					strstr(finding.lasting, " days") == NULL);
	}
	/* a workload's token is no SAS */
	set("azure_identity", "workload");
	le_store_azure.secret.judge("eyJ", NOW, &finding);
	assert_null(finding.text);
}

/* The service's name for this instance. */
static void
test_findings(void **state)
{
	LeTiming	timing = {.lease = 15 * LE_SEC, .renew_interval = 5 * LE_SEC};
	LeFinding	f[LE_MAX_FINDINGS];

	assert_int_equal(le_store_azure.people.explain(&timing, 1, f), 3);
	assert_int_equal(f[2].level, LE_LEVEL_ERROR);
	set("azure_sas_file", "/sas");
	assert_int_equal(le_store_azure.people.explain(&timing, 1, f), 2);
	set("azure_identity", "system");
	assert_int_equal(le_store_azure.people.explain(&timing, 1, f), 3);
	assert_int_equal(f[2].level, LE_LEVEL_WARNING);
	set("azure_identity", "workload");
	set("azure_sas_file", "");
	assert_int_equal(le_store_azure.people.explain(&timing, 1, f), 3);
	assert_non_null(strstr(f[2].text, "AZURE_FEDERATED_TOKEN_FILE"));
	set("azure_identity", CLIENT);
	assert_int_equal(le_store_azure.people.explain(&timing, 1, f), 2);
}

#define auth_test(f)	cmocka_unit_test_setup_teardown(f, forget_settings, \
														forget_settings)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		auth_test(test_machine),
		auth_test(test_workload),
		auth_test(test_tokens),
		auth_test(test_long_token),
		auth_test(test_no_token),
		auth_test(test_stale),
		auth_test(test_busy),
		auth_test(test_signatures),
		auth_test(test_findings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
