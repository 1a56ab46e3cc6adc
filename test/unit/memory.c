/*-------------------------------------------------------------------------
 *
 * memory.c
 *		palloc and its kin as one memory context that can be reset.
 *
 * The codecs leave their memory to the caller's context.  A frontend's palloc
 * is malloc, with no context to reset, so these take its place (the linker
 * prefers them to libpgcommon's).  Each piece stays a malloc of its own, so
 * that the address sanitizer sees its end.
 *
 * test/unit/memory.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include "memory.h"

typedef struct Piece
{
	struct Piece *next;
	struct Piece *prev;
} Piece;

static Piece head = {&head, &head};

static void
link_piece(Piece *piece)
{
	piece->next = head.next;
	piece->prev = &head;
	head.next->prev = piece;
	head.next = piece;
}

static void
unlink_piece(Piece *piece)
{
	piece->next->prev = piece->prev;
	piece->prev->next = piece->next;
}

void
reset_memory(void)
{
	while (head.next != &head)
		pfree(head.next + 1);
}

void *
palloc(Size size)
{
	Piece	   *piece;

	/* the server's limit */
	if (size > 0x3fffffff || (piece = malloc(sizeof(Piece) + size)) == NULL)
		abort();
	link_piece(piece);
	return piece + 1;
}

void *
palloc0(Size size)
{
	return memset(palloc(size), 0, size);
}

void *
palloc_extended(Size size, int flags)
{
	return palloc0(size);
}

void *
pg_malloc(size_t size)
{
	return palloc(size);
}

void *
repalloc(void *pointer, Size size)
{
	Piece	   *old = (Piece *) pointer - 1;
	Piece	   *piece;

	unlink_piece(old);
	if (size > 0x3fffffff ||
		(piece = realloc(old, sizeof(Piece) + size)) == NULL)
		abort();
	link_piece(piece);
	return piece + 1;
}

void
pfree(void *pointer)
{
	Piece	   *piece = (Piece *) pointer - 1;

	unlink_piece(piece);
	free(piece);
}

char *
pnstrdup(const char *s, Size len)
{
	size_t		n = strnlen(s, len);
	char	   *copy = palloc(n + 1);

	memcpy(copy, s, n);
	copy[n] = '\0';
	return copy;
}

char *
pstrdup(const char *s)
{
	return pnstrdup(s, strlen(s));
}
