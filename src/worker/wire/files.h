/*-------------------------------------------------------------------------
 *
 * files.h
 *		Files that settings name.
 *
 * src/worker/wire/files.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_FILES_H
#define LE_FILES_H

/* Room for a sentence with a path in it. */
#define LE_MAX_FILE_TROUBLE	(MAXPGPATH + 200)

extern bool le_read_file(const char *what, const char *path, char *text,
						 size_t size, size_t *len, char *trouble);
extern void le_tls_trouble(char *trouble);

#endif							/* LE_FILES_H */
