/*-------------------------------------------------------------------------
 *
 * xml.c
 *		A strict walk through the little of XML that lists of blobs use.
 *
 * Elements, attributes (ignored), text with the five entities that every
 * document may have, and one declaration at the start.  Anything else, such as
 * a comment, a section of CDATA or a document type, ends the walk: the reader
 * does not guess.
 *
 * src/store/xml.c
 *
 *-------------------------------------------------------------------------
 */
#ifdef FRONTEND
#include "postgres_fe.h"
#else
#include "postgres.h"
#endif

#include "store/xml.h"

#define BYTE_ORDER_MARK	"\xef\xbb\xbf"

typedef struct Walk
{
	const char *at;
	const char *end;
	LeXmlName	path[LE_XML_DEPTH];
	int			depth;
	const char *text;			/* the innermost element's; NULL: it contains
								 * elements */
	LeXmlVisit	visit;
	void	   *arg;
} Walk;

static bool
is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool
is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		(c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.' || c == ':';
}

static void
skip_space(Walk *w)
{
	while (w->at < w->end && is_space(*w->at))
		w->at++;
}

static bool
starts(const Walk *w, const char *what)
{
	size_t		len = strlen(what);

	return (size_t) (w->end - w->at) >= len &&
		memcmp(w->at, what, len) == 0;
}

static bool
skip_declaration(Walk *w)
{
	if (starts(w, BYTE_ORDER_MARK))
		w->at += strlen(BYTE_ORDER_MARK);
	if (!starts(w, "<?xml"))
		return true;
	while (w->at < w->end && !starts(w, "?>"))
		w->at++;
	if (w->at == w->end)
		return false;
	w->at += 2;
	return true;
}

static bool
take_name(Walk *w, LeXmlName *name)
{
	name->name = w->at;
	while (w->at < w->end && is_name_char(*w->at))
		w->at++;
	name->len = w->at - name->name;
	return name->len > 0;
}

/* To the end of the tag; characters in quotes do not end it. */
static bool
skip_attributes(Walk *w, bool *empty)
{
	char		quote = '\0';

	for (; w->at < w->end; w->at++)
	{
		if (quote != '\0')
			quote = *w->at == quote ? '\0' : quote;
		else if (*w->at == '"' || *w->at == '\'')
			quote = *w->at;
		else if (*w->at == '<')
			return false;
		else if (*w->at == '>')
		{
			*empty = w->at[-1] == '/';
			w->at++;
			return true;
		}
	}
	return false;
}

/* The innermost element is over; its text ends at "end". */
static bool
leave(Walk *w, const char *end)
{
	LeXmlNode	node = {.depth = w->depth, .path = w->path};

	node.text = w->text;
	node.len = w->text == NULL ? 0 : end - w->text;
	if (!w->visit(w->arg, &node))
		return false;
	w->depth--;
	w->text = NULL;
	return true;
}

static bool
take_end(Walk *w)
{
	const char *end = w->at;
	LeXmlName	name;
	const LeXmlName *open = &w->path[w->depth - 1];

	w->at += 2;
	if (w->depth == 0 || !take_name(w, &name) || name.len != open->len ||
		memcmp(name.name, open->name, name.len) != 0)
		return false;
	skip_space(w);
	if (w->at == w->end || *w->at != '>')
		return false;
	w->at++;
	return leave(w, end);
}

static bool
take_start(Walk *w)
{
	bool		empty = false;

	w->at++;
	if (w->depth == LE_XML_DEPTH || !take_name(w, &w->path[w->depth]) ||
		!skip_attributes(w, &empty))
		return false;
	w->depth++;
	w->text = w->at;
	return !empty || leave(w, w->at);
}

bool
le_xml_walk(const char *text, size_t len, LeXmlVisit visit, void *arg)
{
	Walk		w = {.at = text, .end = text + len};

	w.visit = visit;
	w.arg = arg;
	if (!skip_declaration(&w))
		return false;
	skip_space(&w);
	if (w.at == w.end || *w.at != '<' || !take_start(&w))
		return false;
	while (w.depth > 0)
	{
		if (w.at == w.end || *w.at == '\0')
			return false;
		if (starts(&w, "</") ? !take_end(&w) :
			*w.at == '<' && !take_start(&w))
			return false;
		while (w.depth > 0 && w.at < w.end && *w.at != '<' && *w.at != '\0')
			w.at++;
	}
	skip_space(&w);
	return w.at == w.end;
}

/* Is this the name of the path's element at the level? */
bool
le_xml_at(const LeXmlNode *node, int level, const char *name)
{
	return level < node->depth && node->path[level].len == strlen(name) &&
		memcmp(node->path[level].name, name, node->path[level].len) == 0;
}

/* The text of an element; NULL if it contains anything else. */
char *
le_xml_text(const LeXmlNode *node)
{
	static const struct
	{
		const char *entity;
		char		c;
	}			known[] = {
		{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'},
		{"&apos;", '\''}
	};
	char	   *text;
	char	   *to;
	size_t		i = 0;

	if (node->text == NULL)
		return NULL;
	text = to = palloc(node->len + 1);
	while (i < node->len)
	{
		size_t		n = 1;
		char		c = node->text[i];

		for (int k = 0; c == '&' && k < lengthof(known); k++)
		{
			size_t		len = strlen(known[k].entity);

			if (len <= node->len - i &&
				memcmp(node->text + i, known[k].entity, len) == 0)
			{
				c = known[k].c;
				n = len;
				break;
			}
		}
		if (node->text[i] == '&' && n == 1)
			return NULL;
		*to++ = c;
		i += n;
	}
	*to = '\0';
	return text;
}
