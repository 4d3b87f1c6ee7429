#include "memory.h"

#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "calls.h"

/*
 * Memory comes from the kernel in large pieces, and small parts are cut from the last one: each piece is a mapping of the host, of which a
 * process may have 65,530 (op_state.py). A larger part has a piece of its own.
 */
#define PIECE_BYTES ((size_t)1 << 22)
#define OUT_OF_MEMORY 3
#define STANDARD_ERROR 2

struct piece {
	struct piece *before;
	size_t size_bytes;
};

static struct piece *last;
static size_t used_bytes;

static void end_without_memory(void)
{
	static const char said[] = "the compiled agent is out of memory: give the machine more with run.memory_mb\n";

	system_call(SYS_write, STANDARD_ERROR, (long)said, sizeof(said) - 1, 0, 0, 0);
	system_call(SYS_exit_group, OUT_OF_MEMORY, 0, 0, 0, 0, 0);
}

/* Its pages are there at once, in one stretch: pages that come one by one may be as many mappings. */
static struct piece *new_piece(size_t size_bytes)
{
	long at = system_call(SYS_mmap, 0, (long)size_bytes, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	struct piece *piece = (struct piece *)at;

	if (at < 0 && at > -4096)
		end_without_memory();
	piece->size_bytes = size_bytes;
	return piece;
}

void *memory(size_t size_bytes)
{
	struct piece *piece;
	void *part;

	size_bytes = (size_bytes + 15) / 16 * 16;
	if (size_bytes + sizeof(struct piece) > PIECE_BYTES) {
		piece = new_piece(size_bytes + sizeof(struct piece));
		/* Behind the last one, from which parts are still cut */
		if (last) {
			piece->before = last->before;
			last->before = piece;
		} else {
			last = piece;
			used_bytes = PIECE_BYTES;
		}
		return piece + 1;
	}
	if (!last || used_bytes + size_bytes > PIECE_BYTES) {
		piece = new_piece(PIECE_BYTES);
		piece->before = last;
		last = piece;
		used_bytes = sizeof(struct piece);
	}
	part = (char *)last + used_bytes;
	used_bytes += size_bytes;
	return part;
}

void *grown(const void *array, long *room, size_t item_bytes)
{
	long wanted = *room ? 2 * *room : 16;
	void *larger = memory((size_t)wanted * item_bytes);

	memcpy(larger, array, (size_t)*room * item_bytes);
	*room = wanted;
	return larger;
}

void release(void)
{
	while (last) {
		struct piece *before = last->before;

		system_call(SYS_munmap, (long)last, (long)last->size_bytes, 0, 0, 0, 0);
		last = before;
	}
	used_bytes = 0;
}

/* The compiler makes calls of these, and would also make one of a loop that copies. */
void *memcpy(void *to, const void *from, size_t size_bytes)
{
	void *at = to;

	__asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(size_bytes) : : "memory");
	return to;
}

void *memmove(void *to, const void *from, size_t size_bytes)
{
	char *target = to;
	const char *source = from;

	if (target <= source || target >= source + size_bytes)
		return memcpy(to, from, size_bytes);
	while (size_bytes--) {
		__asm__ volatile("" : : : "memory");
		target[size_bytes] = source[size_bytes];
	}
	return to;
}

void *memset(void *at, int value, size_t size_bytes)
{
	void *next = at;

	__asm__ volatile("rep stosb" : "+D"(next), "+c"(size_bytes) : "a"(value) : "memory");
	return at;
}
