/*-------------------------------------------------------------------------
 *
 * status.h
 *		Shared by the functions that return rows.
 *
 * src/sql/status.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_STATUS_H
#define LE_STATUS_H

#include "access/tupdesc.h"
#include "fmgr.h"
#include "utils/tuplestore.h"

extern Tuplestorestate *le_begin_rows(FunctionCallInfo fcinfo,
									  TupleDesc *desc);

#endif							/* LE_STATUS_H */
