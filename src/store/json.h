/*-------------------------------------------------------------------------
 *
 * json.h
 *		Reading and writing the JSON that lease stores speak.
 *
 * src/store/json.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_JSON_H
#define LE_JSON_H

#include "lib/stringinfo.h"

/* Containers inside each other; deeper documents are refused. */
#define LE_JSON_MAX_DEPTH	32

typedef enum LeJsonType
{
	LE_JSON_OBJECT,
	LE_JSON_ARRAY,
	LE_JSON_STRING,
	LE_JSON_NUMBER,
	LE_JSON_TRUE,
	LE_JSON_FALSE,
	LE_JSON_NULL
} LeJsonType;

/* One step from a container to a value in it. */
typedef struct LeJsonStep
{
	const char *field;			/* as written between its quotes, not
								 * terminated; NULL in an array */
	size_t		field_len;
	size_t		position;		/* in the container, from 0 */
} LeJsonStep;

typedef struct LeJsonNode
{
	LeJsonType	type;
	int			depth;			/* containers around it; 0: the document */
	const LeJsonStep *path;		/* depth steps, the outermost first */
	const char *text;			/* as it stands in the document */
	size_t		len;
} LeJsonNode;

/*
 * Called for each value when it is complete: the values in a container come
 * before the container.  False ends the walk, and le_json_walk returns false.
 */
typedef bool (*LeJsonVisit) (void *arg, const LeJsonNode *node);

extern bool le_json_walk(const char *text, size_t len, LeJsonVisit visit,
						 void *arg);
extern bool le_json_at(const LeJsonNode *node, int level, const char *name);
extern char *le_json_string(const LeJsonNode *node, size_t max);
extern bool le_json_uint64(const LeJsonNode *node, uint64 *number);
extern bool le_json_embeddable(const char *text);
extern void le_json_append_string(StringInfo buf, const char *s);

extern int	le_hex_digit(char c);
extern void le_base64_append(StringInfo buf, const char *data, int len);
extern char *le_base64_decode(const char *text, int len, int *decoded_len);

#endif							/* LE_JSON_H */
