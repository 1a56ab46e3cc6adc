/*-------------------------------------------------------------------------
 *
 * mistakes.c
 *		Settings of ours that did not take effect.
 *
 * PostgreSQL reads its configuration before it loads this library.  It logs a
 * warning for an invalid or unknown setting, and keeps the default.  That is
 * dangerous for our settings: an instance with a misspelt store or key prefix
 * would lead beside the rightful leader.  A reload is no better: the setting
 * keeps its old value on this instance, while it changes on the others.  So a
 * node does not lead unless all of its settings took effect.
 *
 * Settings from the command line, and those that only a start can set, are
 * judged once, at the start: a value was given, but the setting is at its
 * default.  A reload can correct a setting from a file, so the worker reads
 * the files again, as PostgreSQL does for pg_file_settings, when it starts and
 * after each reload.
 *
 * Messages show no values, since every caller of le_acquire() sees them, but
 * those that the setting takes.
 *
 * src/mistakes.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "nodes/pg_list.h"
#include "utils/guc.h"
#include "utils/guc_tables.h"
#include "utils/memutils.h"

#include "compat.h"
#include "mistakes.h"

#define PREFIX		"leader_election."

/* A setting that has a value before it is defined. */
typedef struct Given
{
	const char *name;
	const char *where;			/* for people */
	bool		in_file;
} Given;

static List *given = NIL;
static StringInfoData lasting;	/* mistakes that need a restart */

static bool
is_ours(const char *name)
{
	return pg_strncasecmp(name, PREFIX, strlen(PREFIX)) == 0;
}

/* NULL: there is no such setting. */
static struct config_generic *
find_setting(const char *name)
{
	struct config_generic **all;
	struct config_generic *found = NULL;
	int			n;

	all = le_all_settings(&n);
	for (int i = 0; i < n && found == NULL; i++)
		if (pg_strcasecmp(all[i]->name, name) == 0)
			found = all[i];
	return found;
}

/* Append our settings that will have another value from a restart on. */
void
le_explain_pending(StringInfo names)
{
	struct config_generic **all;
	int			n;

	all = le_all_settings(&n);
	for (int i = 0; i < n; i++)
		if (is_ours(all[i]->name) &&
			(all[i]->status & GUC_PENDING_RESTART) != 0)
			appendStringInfo(names, "%s\"%s\"", names->len > 0 ? ", " : "",
							 all[i]->name);
}

bool
le_setting_is_default(const char *name)
{
	struct config_generic *setting = find_setting(name);

	return setting == NULL || setting->source == PGC_S_DEFAULT;
}

static const char *
in_line(const char *file, int line)
{
	const char *name = last_dir_separator(file);

	return psprintf("in line %d of file \"%s\"", line,
					name == NULL ? file : name + 1);
}

/* Put a blank before the next sentence; false: there are enough. */
static bool
begin_sentence(StringInfo detail)
{
	if (detail->len > 300)
		return false;
	if (detail->len > 0)
		appendStringInfoChar(detail, ' ');
	return true;
}

static void
no_setting(StringInfo detail, const char *name, const char *where)
{
	if (begin_sentence(detail))
		appendStringInfo(detail,
						 "There is no setting \"%s\", which is set %s.", name,
						 where);
}

static void
append_names(StringInfo detail, const struct config_enum_entry *entry)
{
	const char *before = "";

	for (; entry->name != NULL; entry++)
	{
		if (entry->hidden)
			continue;
		appendStringInfo(detail, "%s\"%s\"", before, entry->name);
		before = ", ";
	}
}

/* A number without a unit is often taken for seconds. */
static void
not_valid(StringInfo detail, struct config_generic *setting,
		  const char *where)
{
	if (!begin_sentence(detail))
		return;
	appendStringInfo(detail, "\"%s\" has a value that is not valid, %s",
					 setting->name, where);
	if (setting->vartype == PGC_INT)
		appendStringInfo(detail, ": it takes %d to %d%s",
						 LE_SETTING_PART(setting, int)->min,
						 LE_SETTING_PART(setting, int)->max,
						 (setting->flags & GUC_UNIT) == GUC_UNIT_MS ?
						 " ms, the unit of a number without one" :
						 (setting->flags & GUC_UNIT) == GUC_UNIT_S ?
						 " s, the unit of a number without one" : "");
	else if (setting->vartype == PGC_ENUM)
	{
		appendStringInfoString(detail, ": it takes ");
		append_names(detail, LE_SETTING_PART(setting, enum)->options);
	}
	appendStringInfoChar(detail, '.');
}

/* ---- at the start ---- */

/* Remember our settings in the configuration, before they are defined. */
void
le_mistakes_given(void)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	struct config_generic **all;
	int			n;

	all = le_all_settings(&n);
	for (int i = 0; i < n; i++)
	{
		Given	   *g;

		if (!is_ours(all[i]->name))
			continue;
		g = palloc(sizeof(Given));
		g->name = pstrdup(all[i]->name);
		g->in_file = all[i]->source == PGC_S_FILE;
		g->where = g->in_file && all[i]->sourcefile != NULL ?
			in_line(all[i]->sourcefile, all[i]->sourceline) :
			"on the command line";
		given = lappend(given, g);
	}
	MemoryContextSwitchTo(old);
}

/* The settings are defined now, and the valid values are in effect. */
void
le_mistakes_taken(void)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	ListCell   *cell;

	initStringInfo(&lasting);
	foreach(cell, given)
	{
		Given	   *g = lfirst(cell);
		struct config_generic *setting = find_setting(g->name);

		if (setting == NULL)
		{
			if (!g->in_file)
				no_setting(&lasting, g->name, g->where);
		}
		else if (setting->source == PGC_S_DEFAULT &&
				 (!g->in_file || setting->context == PGC_POSTMASTER))
			not_valid(&lasting, setting, g->where);
	}
	MemoryContextSwitchTo(old);
}

/* ---- the files as they are now ---- */

/* Later lines replace earlier ones of the same name. */
static bool
counts(const ConfigVariable *item)
{
	for (const ConfigVariable *later = item->next; later != NULL;
		 later = later->next)
		if (later->name != NULL && pg_strcasecmp(later->name, item->name) == 0)
			return false;
	return true;
}

static void
judge_line(const ConfigVariable *item, StringInfo detail)
{
	const char *where = in_line(item->filename, item->sourceline);
	struct config_generic *setting = find_setting(item->name);

	if (setting == NULL)
		no_setting(detail, item->name, where);
	else if (set_config_option(item->name, item->value, PGC_POSTMASTER,
							   PGC_S_FILE, GUC_ACTION_SET, false, DEBUG2,
							   false) == 0)
		not_valid(detail, setting, where);
}

/*
 * PostgreSQL ignores the whole reload if a line cannot be parsed, or names an
 * unknown setting without a library's prefix.
 */
static bool
is_fatal(const ConfigVariable *item)
{
	return item->name == NULL ||
		(strchr(item->name, '.') == NULL && find_setting(item->name) == NULL);
}

/* The file could not be opened; the next attempt may succeed. */
static bool
is_unread(const ConfigVariable *item)
{
	return item->name == NULL && item->errmsg != NULL &&
		strncmp(item->errmsg, "could not open", strlen("could not open")) == 0;
}

static uint64
sum_of(const StringInfoData *text)
{
	return hash_bytes_extended((const unsigned char *) text->data, text->len,
							   0) | 1;
}

/*
 * The postmaster has logged the errors, once for all processes.  At debug
 * levels, the parser stops at the first error of a file.
 */
#define READ_LEVEL	NOTICE

static LeMistakes
read_files(StringInfo detail, uint64 *taken)
{
	ConfigVariable *head = NULL;
	ConfigVariable *tail = NULL;
	StringInfoData ours;
	bool		whole;
	bool		unread = false;

	whole = ParseConfigFile(ConfigFileName, true, NULL, 0, 0, READ_LEVEL,
							&head, &tail);
	whole = ParseConfigFile(PG_AUTOCONF_FILENAME, false, NULL, 0, 0,
							READ_LEVEL, &head, &tail) && whole;
	initStringInfo(&ours);
	for (ConfigVariable *item = head; item != NULL; item = item->next)
	{
		whole = whole && !is_fatal(item);
		unread = unread || is_unread(item);
		if (item->name == NULL || !is_ours(item->name) || !counts(item))
			continue;
		appendStringInfo(&ours, "%s=%s\n", item->name, item->value);
		judge_line(item, detail);
	}
	if (whole)
		*taken = sum_of(&ours);
	else if (detail->len == 0 && *taken != sum_of(&ours))
		appendStringInfoString(detail,
							   "The configuration files contain errors, so none of their changes took effect.");
	return detail->len == 0 ? LE_MISTAKES_NONE :
		unread ? LE_MISTAKES_UNREAD : LE_MISTAKES_SOME;
}

/*
 * Append those of our settings that did not take effect to detail.  "taken" is
 * a checksum of our settings in the files as last read; 0: not known.  It
 * outlives the worker, as the settings in effect do.
 */
LeMistakes
le_explain_mistakes(StringInfo detail, uint64 *taken)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "leader_election mistakes",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	StringInfoData now;
	LeMistakes	found = LE_MISTAKES_SOME;

	initStringInfo(&now);
	appendStringInfoString(&now, lasting.data);
	if (now.len == 0)
		found = read_files(&now, taken);
	MemoryContextSwitchTo(old);
	appendStringInfoString(detail, now.data);
	MemoryContextDelete(context);
	return found;
}
