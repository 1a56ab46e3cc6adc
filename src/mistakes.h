/*-------------------------------------------------------------------------
 *
 * mistakes.h
 *		Settings of ours that did not take effect.
 *
 * src/mistakes.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_MISTAKES_H
#define LE_MISTAKES_H

#include "lib/stringinfo.h"

/* at the library's load, before and after the settings are defined */
extern void le_mistakes_given(void);
extern void le_mistakes_taken(void);

typedef enum LeMistakes
{
	LE_MISTAKES_NONE,
	LE_MISTAKES_SOME,
	LE_MISTAKES_UNREAD			/* a file could not be opened */
} LeMistakes;

/* at any time after that */
extern LeMistakes le_explain_mistakes(StringInfo detail, uint64 *taken);
extern void le_explain_pending(StringInfo names);
extern bool le_setting_is_default(const char *name);

#endif							/* LE_MISTAKES_H */
