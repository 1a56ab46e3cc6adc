/*-------------------------------------------------------------------------
 *
 * statement.h
 *		Hooks around statements.
 *
 * src/sql/statement.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_STATEMENT_H
#define LE_STATEMENT_H

extern void le_install_statement_hooks(void);

#endif							/* LE_STATEMENT_H */
