/*-------------------------------------------------------------------------
 *
 * answer.c
 *		Answers that are common to all stores, and texts that are fit to show.
 *
 * src/store/answer.c
 *
 *-------------------------------------------------------------------------
 */
#ifdef FRONTEND
#include "postgres_fe.h"
#else
#include "postgres.h"
#endif

#include "mb/pg_wchar.h"

#include "store/answer.h"

#define MAX_DETAIL_LEN		200

static const char *const outcomes[] = {
	[LE_DONE] = "done",
	[LE_CONFLICT] = "conflict",
	[LE_LOST] = "lost",
	[LE_REFUSED] = "refused",
	[LE_UNAVAILABLE] = "unavailable",
	[LE_UNKNOWN] = "unknown",
};

const char *
le_outcome_name(LeOutcome outcome)
{
	return outcomes[outcome];
}

/* Does a refusal for this cause concern every request? */
bool
le_refuses_all(LeCause cause)
{
	return cause == LE_CAUSE_STRANGER || cause == LE_CAUSE_NOT_STORE;
}

static const char *
copy_string(const char *s)
{
	return s == NULL ? NULL : pstrdup(s);
}

/* With its strings, in the current context. */
void
le_copy_key(LeKey *to, const LeKey *from)
{
	*to = *from;
	to->election = copy_string(from->election);
	to->holder = copy_string(from->holder);
	to->node = copy_string(from->node);
	to->value_session = copy_string(from->value_session);
	to->value = copy_string(from->value);
}

/*
 * A copy of UTF-8 text for people, cut at a whole character.  "blank" replaces
 * controls (C0, DEL, C1), which a terminal or a log might obey.
 */
static char *
without_controls(const char *text, size_t len, size_t max, char blank)
{
	char	   *shown;

	if (len > max)
	{
		len = max;
		while (len > 0 && ((unsigned char) text[len] & 0xc0) == 0x80)
			len--;
	}
	shown = pnstrdup(text, len);
	for (unsigned char *s = (unsigned char *) shown; *s != '\0'; s++)
	{
		if (*s < ' ' || *s == 0x7f)
			*s = blank;
		else if (*s == 0xc2 && s[1] >= 0x80 && s[1] < 0xa0)
			s[0] = s[1] = blank;
	}
	return shown;
}

/* The first line of a foreign message, to be kept and shown. */
char *
le_shown_message(const char *message)
{
	return without_controls(message, strcspn(message, "\r\n"),
							LE_MAX_MESSAGE_LEN, ' ');
}

/* A foreign name, as people may see it. */
char *
le_shown_name(const char *name, size_t len)
{
	return without_controls(name, len, LE_MAX_NODE_NAME_LEN, '?');
}

/* So much of a secret at the end of a text may be one that was cut. */
#define LEAST_OF_SECRET		4

/* A copy with the secret blotted out. */
char *
le_without_secret(const char *text, const char *secret)
{
	char	   *shown = pstrdup(text);
	size_t		len = strlen(secret);
	size_t		text_len = strlen(text);

	for (size_t i = 0; len > 0 && i < text_len; i++)
	{
		size_t		part = Min(len, text_len - i);

		if ((part == len || part >= LEAST_OF_SECRET) &&
			memcmp(text + i, secret, part) == 0)
			memset(shown + i, '*', part);
	}
	return shown;
}

static void
hide_in(const char **text, const char *secret)
{
	if (*text != NULL)
		*text = le_without_secret(*text, secret);
}

/*
 * The store, and everything in front of it, may quote the request, and texts
 * for people quote the answer in turn.  This is done once the answer has been
 * understood: a secret may be like one of the words that it is judged by.
 */
void
le_hide_secret(const LeOp *op, const char *secret, LeAnswer *answer)
{
	hide_in(&answer->detail, secret);
	for (int i = 0; answer->wire.parts != NULL && i <= op->wire.njoined; i++)
		hide_in(&answer->wire.parts[i].detail, secret);
	for (int i = 0; answer->renewals != NULL && i < op->renew.nterms; i++)
		hide_in(&answer->renewals[i].detail, secret);
}

/* ---- answers that are not DONE ---- */

/* Text for people: one line of limited length, plain ASCII. */
const char *
le_clean_detail(const char *s)
{
	char	   *result = palloc(MAX_DETAIL_LEN + 1);
	int			n = 0;

	for (; *s != '\0' && n < MAX_DETAIL_LEN; s++)
	{
		if (*s >= ' ' && *s <= '~')
			result[n++] = *s;
		else if (n > 0 && result[n - 1] != ' ')
			result[n++] = ' ';
	}
	while (n > 0 && result[n - 1] == ' ')
		n--;
	result[n] = '\0';
	return result;
}

void
le_fail(LeAnswer *answer, LeOutcome outcome, const char *detail)
{
	memset(answer, 0, sizeof(*answer));
	answer->outcome = outcome;
	answer->detail = le_clean_detail(detail);
}

/* No meaningful answer: the outcome depends on the operation. */
void
le_fail_open(const LeOp *op, LeAnswer *answer, const char *detail)
{
	le_fail(answer, le_op_writes(op->kind) ? LE_UNKNOWN : LE_UNAVAILABLE,
			detail);
}

/* An answer of some other server, such as a proxy. */
void
le_fail_shape(const LeOp *op, const LeResponse *response,
			  const char *whose, LeAnswer *answer)
{
	le_fail_open(op, answer,
				 psprintf("HTTP %d with an answer that is not %s (%s)",
						  response->http.status, whose,
						  response->http.content_type[0] != '\0' ?
						  response->http.content_type : "no type"));
}

/*
 * An answer came that could not be taken.  The next would be no smaller, so a
 * person has to be told.  With "open" something may have been applied.
 */
void
le_fail_untaken(const LeResponse *response, bool open, LeAnswer *answer)
{
	le_fail(answer, open ? LE_UNKNOWN : LE_REFUSED,
			response->net_error != NULL ? response->net_error :
			"the answer could not be taken");
	answer->wire.untaken = true;
}

/* No answer came, or none that fits, or the request was not even sent. */
void
le_fail_network(const LeOp *op, const LeResponse *response,
				LeAnswer *answer)
{
	const char *error = response->net_error;

	if (response->net == LE_NET_NOT_SENT)
		le_fail(answer, LE_UNAVAILABLE,
				error != NULL ? error : "no connection");
	else if (response->net == LE_NET_UNTAKEN)
		le_fail_untaken(response, le_op_writes(op->kind), answer);
	else
		le_fail_open(op, answer, error != NULL ? error : "no answer");
}
