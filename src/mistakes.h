/*-------------------------------------------------------------------------
 *
 * mistakes.h
 *		Settings of ours that did not take.
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

/* at any time after that */
extern bool le_explain_mistakes(StringInfo detail);
extern bool le_setting_is_default(const char *name);

#endif							/* LE_MISTAKES_H */
