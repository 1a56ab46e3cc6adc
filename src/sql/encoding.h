/*-------------------------------------------------------------------------
 *
 * encoding.h
 *		Text between the database's encoding and UTF-8.
 *
 * src/sql/encoding.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_ENCODING_H
#define LE_ENCODING_H

extern void le_find_conversions(void);
extern char *le_shown(const char *utf8);
extern char *le_to_utf8(const char *text);
extern char *le_to_utf8_anyway(const char *text);

#endif							/* LE_ENCODING_H */
