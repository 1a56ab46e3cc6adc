/*-------------------------------------------------------------------------
 *
 * memory.h
 *		palloc and its kin as one memory context that can be reset.
 *
 * test/unit/memory.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_TEST_MEMORY_H
#define LE_TEST_MEMORY_H

extern void reset_memory(void);

#endif							/* LE_TEST_MEMORY_H */
