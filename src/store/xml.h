/*-------------------------------------------------------------------------
 *
 * xml.h
 *		A strict walk through the little of XML that lists of blobs use.
 *
 * src/store/xml.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_XML_H
#define LE_XML_H

#define LE_XML_DEPTH	8		/* elements within each other */

typedef struct LeXmlName
{
	const char *name;			/* not terminated */
	size_t		len;
} LeXmlName;

typedef struct LeXmlNode
{
	int			depth;			/* elements from the root to this one */
	const LeXmlName *path;		/* depth names, the root's first */
	const char *text;			/* as it stands there; NULL: it contains
								 * elements */
	size_t		len;
} LeXmlNode;

/*
 * Called for each element when it ends: its inner elements come before.  False
 * ends the walk, and le_xml_walk returns false.
 */
typedef bool (*LeXmlVisit) (void *arg, const LeXmlNode *node);

extern bool le_xml_walk(const char *text, size_t len, LeXmlVisit visit,
						void *arg);
extern bool le_xml_at(const LeXmlNode *node, int level, const char *name);
extern char *le_xml_text(const LeXmlNode *node);

#endif							/* LE_XML_H */
