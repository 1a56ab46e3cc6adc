/*-------------------------------------------------------------------------
 *
 * azure_list.c
 *		Lists of blobs in the store "azure".
 *
 * src/store/azure_list.c
 *
 *-------------------------------------------------------------------------
 */
#ifdef FRONTEND
#include "postgres_fe.h"
#else
#include "postgres.h"
#endif

#include "store/azure_list.h"
#include "store/xml.h"

typedef struct List
{
	const LeNamespace *ns;
	const LeOp *op;
	char	   *name;			/* the present blob's */
	LeAzureBlob blob;
	LeKey	   *keys;
	int			nkeys;
	LeClaim    *claims;
	int			nclaims;
	char	   *next;
} List;

static bool
list_key(List *list)
{
	char	   *election = le_azure_election_of(list->ns, list->name);
	uint64		token;

	if (election == NULL || !le_azure_read_term(&list->blob, &token) ||
		token == 0)
		return true;			/* foreign, or without a term yet */
	if (list->blob.lease == LE_AZURE_UNCLEAR)
		return false;
	if (list->keys == NULL)
		list->keys = palloc(LE_AZURE_PAGE_SIZE * sizeof(LeKey));
	if (list->nkeys == LE_AZURE_PAGE_SIZE)
		return false;
	le_azure_show_key(election, &list->blob, token,
					  &list->keys[list->nkeys++]);
	return true;
}

static bool
list_claim(List *list)
{
	LeClaim		claim;

	if (!le_azure_read_claim(&list->blob, NULL, &claim))
		return true;
	claim.election = le_azure_election_of_claim(list->ns, list->name,
												claim.job);
	if (claim.election == NULL)
		return true;
	if (list->claims == NULL)
		list->claims = palloc(LE_AZURE_PAGE_SIZE * sizeof(LeClaim));
	if (list->nclaims == LE_AZURE_PAGE_SIZE)
		return false;
	list->claims[list->nclaims++] = claim;
	return true;
}

static bool
list_blob(List *list)
{
	bool		ok = list->name != NULL;

	if (ok)
		ok = list->op->kind == LE_OP_LIST_CLAIMS ? list_claim(list) :
			list_key(list);
	list->name = NULL;
	memset(&list->blob, 0, sizeof(LeAzureBlob));
	list->blob.lease = LE_AZURE_UNCLEAR;
	return ok;
}

/* A value of the metadata, or the state of the lease. */
static void
list_field(List *list, const LeXmlNode *node, char *text)
{
	if (le_xml_at(node, 3, "Properties") && le_xml_at(node, 4, "LeaseState"))
		list->blob.lease = le_azure_lease_of(text);
	if (!le_xml_at(node, 3, "Metadata"))
		return;
	for (int i = 0; i < LE_AZURE_NFIELDS; i++)
		if (le_xml_at(node, 4, le_azure_field_names[i]))
			list->blob.fields[i] = text;
}

static bool
list_visit(void *arg, const LeXmlNode *node)
{
	List	   *list = arg;
	char	   *text;

	if (!le_xml_at(node, 0, "EnumerationResults"))
		return false;
	if (node->depth == 2 && le_xml_at(node, 1, "NextMarker"))
	{
		list->next = le_xml_text(node);
		return list->next != NULL;
	}
	if (node->depth < 3 || !le_xml_at(node, 1, "Blobs") ||
		!le_xml_at(node, 2, "Blob"))
		return true;
	if (node->depth == 3)
		return list_blob(list);
	if (node->text == NULL)
		return true;			/* its inner elements have been visited */
	if ((text = le_xml_text(node)) == NULL)
		return false;
	if (node->depth == 4 && le_xml_at(node, 3, "Name"))
		list->name = text;
	else if (node->depth == 5)
		list_field(list, node, text);
	return true;
}

/* False: the answer is no list. */
bool
le_azure_read_list(const LeNamespace *ns, const LeOp *op,
				   const LeResponse *response, LeAnswer *answer)
{
	List		list = {.ns = ns, .op = op};

	list.blob.lease = LE_AZURE_UNCLEAR;
	if (!le_xml_walk(response->body, response->body_len, list_visit, &list))
		return false;
	answer->keys = list.keys;
	answer->nkeys = list.nkeys;
	answer->claims = list.claims;
	answer->nclaims = list.nclaims;
	if (list.next != NULL && list.next[0] != '\0')
		answer->page = list.next;
	return true;
}
