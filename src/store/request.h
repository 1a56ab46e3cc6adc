/*-------------------------------------------------------------------------
 *
 * request.h
 *		Requests and responses, as a store's codec writes and reads them.
 *
 * A store says what is sent and reads what came; worker/wire sends it.  HTTP
 * is the one transport so far.
 *
 * src/store/request.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_REQUEST_H
#define LE_REQUEST_H

#include "lib/stringinfo.h"

typedef struct LeRequest
{
	/* as encode() writes it, for the transport HTTP */
	struct
	{
		const char *method;		/* HEAD too */
		StringInfoData path;	/* path and query, percent-encoded, below the
								 * URL of a server */
		StringInfoData headers; /* "Name: value", each ended by a newline */
		StringInfoData body;	/* sent with Content-Length if has_body */
		bool		has_body;
	}			http;

	size_t		max_answer;		/* larger answers are not taken */

	/*
	 * Is this much of the answer enough?  If so it ends there, whole; NULL:
	 * never before its end.  Called by libcurl: it may only look.
	 */
	bool		(*enough) (const char *body, size_t len);

	bool		without_secret; /* sent to obtain the secret */

	/* set by the caller of encode() */
	const char *base;			/* URL of the server, without a slash at its
								 * end; encode() may name another one */
	bool		fresh;			/* over a new connection, to try it */
	int			connect_ms;		/* 0: as long as for the answer */
	const char *secret;			/* NULL: none; it goes behind ... */
	const char *secret_header;	/* ... this, or if that is NULL into the
								 * query */
} LeRequest;

typedef enum LeNet
{
	LE_NET_OK,					/* a complete response */
	LE_NET_NOT_SENT,			/* no connection, TLS refused: the store
								 * cannot have acted on it */
	LE_NET_BROKEN,				/* sent, perhaps in part; no (whole) answer */
	LE_NET_UNTAKEN				/* answered; but the answer is too large, or
								 * there was no memory for it */
} LeNet;

typedef struct LeResponse
{
	LeNet		net;
	const char *net_error;		/* for people, when net is not OK */
	const char *body;			/* not terminated */
	size_t		body_len;
	const char *secret;			/* sent with the request, and perhaps quoted:
								 * not to be shown; NULL: none */

	/* of the transport HTTP */
	struct
	{
		int			status;
		const char *content_type;	/* "" if none */
		const char *headers;	/* as they came, a line each; NULL: none.  See
								 * le_header() */
		int64		date;		/* the server's wall clock when it answered,
								 * in s since 1970; 0: not told */
	}			http;
} LeResponse;

extern bool le_header(const LeResponse *response, const char *name,
					  char *value, size_t size);
extern void le_append_encoded(StringInfo path, const char *s,
							  const char *kept);
extern bool le_is_loopback(const char *url);

#endif							/* LE_REQUEST_H */
