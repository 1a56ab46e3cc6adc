/*-------------------------------------------------------------------------
 *
 * setting.h
 *		Settings of a store, and findings about them.
 *
 * src/store/setting.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_SETTING_H
#define LE_SETTING_H

/* A setting of a store; its name begins with "leader_election.". */
typedef enum LeSettingKind
{
	LE_SETTING_URL,
	LE_SETTING_URLS,			/* a list, the first that answers is asked */
	LE_SETTING_ISSUER,			/* URL of the issuer of secrets, on this
								 * machine or its host, or by https */
	LE_SETTING_PREFIX,			/* the prefix of keys */
	LE_SETTING_WORD,			/* letters, digits, "_" and "-"; or empty */
	LE_SETTING_FILE,
	LE_SETTING_FLAG,
	LE_SETTING_MS
} LeSettingKind;

typedef struct LeSetting
{
	const char *name;
	LeSettingKind kind;
	const char *brief;
	const char *detail;			/* NULL: none */
	char	  **text;			/* the variable, by kind; until then it has the
								 * default */
	bool	   *flag;
	int		   *ms;
	int			min_ms;			/* MS */
	int			max_ms;
} LeSetting;

/* How good a finding of le_check_config() is. */
typedef enum LeLevel
{
	LE_LEVEL_OK,
	LE_LEVEL_WARNING,
	LE_LEVEL_ERROR
} LeLevel;

typedef struct LeFinding
{
	LeLevel		level;
	const char *topic;
	const char *text;
	const char *lasting;		/* the same without parts that change with
								 * time; NULL: no such part */
} LeFinding;

#define LE_MAX_FINDINGS		4	/* from one store */

#endif							/* LE_SETTING_H */
