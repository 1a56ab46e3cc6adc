/*-------------------------------------------------------------------------
 *
 * memory.c
 *		Memory contexts that cost next to nothing.
 *
 * A context is a chain of blocks from one pool; memory is freed with its
 * context only.  Between schedules all blocks return to the pool at once,
 * including those of killed processes.
 *
 * test/sim/memory.c
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

#include "utils/memutils.h"

#define BLOCK_SIZE	(8 * 1024)
#define MAX_BLOCKS	16384
#define LARGE_SIZE	(128 * 1024)	/* a list of locks */
#define MAX_LARGE	256

typedef struct Block
{
	struct Block *next;
	Size		used;
	Size		size;			/* bytes of data */
	char		data[FLEXIBLE_ARRAY_MEMBER] pg_attribute_aligned(16);
} Block;

typedef struct SimContext
{
	Block	   *blocks;
} SimContext;

MemoryContext TopMemoryContext = NULL;
MemoryContext CurrentMemoryContext = NULL;

/* Blocks of one size. */
typedef struct Pool
{
	Size		size;
	int			most;
	Block	  **every;
	int			nevery;
	int			nused;			/* every[0 .. nused) were handed out ... */
	Block	   *returned;		/* ... and these were freed */
} Pool;

static Block *small_blocks[MAX_BLOCKS];
static Block *large_blocks[MAX_LARGE];
static Pool small = {BLOCK_SIZE, MAX_BLOCKS, small_blocks};
static Pool large = {LARGE_SIZE, MAX_LARGE, large_blocks};

static Block *
get_block(Size need)
{
	Pool	   *pool = need > BLOCK_SIZE ? &large : &small;
	Block	   *b = pool->returned;

	if (need > LARGE_SIZE)
	{
		fprintf(stderr, "sim: a worker asked for %zu bytes\n", need);
		abort();
	}
	if (b != NULL)
		pool->returned = b->next;
	else
	{
		if (pool->nused == pool->nevery)
		{
			if (pool->nevery == pool->most ||
				(pool->every[pool->nevery] = malloc(offsetof(Block, data) +
													pool->size)) == NULL)
				abort();
			pool->nevery++;
		}
		b = pool->every[pool->nused++];
	}
	b->next = NULL;
	b->used = 0;
	b->size = pool->size;
	return b;
}

static void
put_block(Block *b)
{
	Pool	   *pool = b->size == LARGE_SIZE ? &large : &small;

	b->next = pool->returned;
	pool->returned = b;
}

static void *
get(SimContext *c, Size size)
{
	void	   *p;

	size = (size + 15) & ~(Size) 15;
	if (c->blocks->used + size > c->blocks->size)
	{
		Block	   *b = get_block(size);

		b->next = c->blocks;
		c->blocks = b;
	}
	p = c->blocks->data + c->blocks->used;
	c->blocks->used += size;
	return p;
}

/* The context itself lies in its first block. */
SimContext *
memory_new(void)
{
	Block	   *b = get_block(0);
	SimContext *c = (SimContext *) b->data;

	b->used = 16;
	c->blocks = b;
	return c;
}

void
memory_reset_all(void)
{
	small.nused = large.nused = 0;
	small.returned = large.returned = NULL;
}

/* ---- called by the server's code ---- */

MemoryContext
AllocSetContextCreateInternal(MemoryContext parent, const char *name,
							  Size minContextSize, Size initBlockSize,
							  Size maxBlockSize)
{
	return (MemoryContext) memory_new();
}

/* The oldest block, with the context in it, stays. */
void
MemoryContextReset(MemoryContext context)
{
	SimContext *c = (SimContext *) context;

	while (c->blocks->next != NULL)
	{
		Block	   *b = c->blocks;

		c->blocks = b->next;
		put_block(b);
	}
	c->blocks->used = 16;
}

void
MemoryContextDelete(MemoryContext context)
{
	MemoryContextReset(context);
	put_block(((SimContext *) context)->blocks);
}

void *
MemoryContextAlloc(MemoryContext context, Size size)
{
	return get((SimContext *) context, size);
}

void *
MemoryContextAllocZero(MemoryContext context, Size size)
{
	return memset(MemoryContextAlloc(context, size), 0, size);
}

char *
MemoryContextStrdup(MemoryContext context, const char *string)
{
	Size		size = strlen(string) + 1;

	return memcpy(MemoryContextAlloc(context, size), string, size);
}

void *
palloc(Size size)
{
	return MemoryContextAlloc(CurrentMemoryContext, size);
}

void *
palloc0(Size size)
{
	return memset(palloc(size), 0, size);
}

void *
repalloc(void *pointer, Size size)
{
	/* the old size is unknown, but so much can be read */
	return memmove(palloc(size), pointer, size);
}

char *
pstrdup(const char *in)
{
	return MemoryContextStrdup(CurrentMemoryContext, in);
}

void
pfree(void *pointer)
{
}

char *
pnstrdup(const char *in, Size len)
{
	char	   *s = palloc(len + 1);

	len = strnlen(in, len);
	memcpy(s, in, len);
	s[len] = '\0';
	return s;
}

Size
add_size(Size s1, Size s2)
{
	return s1 + s2;
}

Size
mul_size(Size s1, Size s2)
{
	return s1 * s2;
}
