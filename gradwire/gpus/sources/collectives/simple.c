/*
 * The protocol Simple: a chunk in slices, each of which waits until its bytes are there and there is room for what it sends, and then says
 * so to its peers by a count of steps (prims_simple.h of rocm-5.4.3: genericOp, waitPeer, postPeer).
 */
#include "primitives.h"

#include <stdatomic.h>
#include <string.h>

/* Slices begin at multiples of so many elements, and are no smaller than a part of the buffer's (genericOp). */
enum { ALIGNED_ELEMENTS = 16, SMALLEST_PART = 32 };

/* Where a step lies in a connection's buffer. */
static char *slot(const struct primitives *of, const struct end *end)
{
	const struct connection *connection = &end->connection;
	uint64_t number = end->step % STEPS;

	return connection->buffers[SIMPLE] + (connection->offsets ? (size_t)connection->offsets[number] : number * of->step_bytes);
}

static ssize_t slice_elements(const struct primitives *of, ssize_t count)
{
	ssize_t most = (ssize_t)(of->step_bytes / of->element_bytes) * of->slice_steps;
	ssize_t even = divide_up(count, (ssize_t)ALIGNED_ELEMENTS * of->slices) * ALIGNED_ELEMENTS;

	return even > most / SMALLEST_PART ? even : most / SMALLEST_PART;
}

/* Moves a slice's bytes once all is ready. */
static void move_slice(struct primitives *of, const struct step *step, ssize_t at, size_t size_bytes, char **came, char **goes)
{
	int came_count = step->receives ? of->from_count : 0, goes_count = step->sends ? of->to_count : 0;
	const char *source = address_in(of, step->source, step->source_at + at);
	char *target = address_in(of, step->target, step->target_at + at), *out = target ? target : goes_count ? goes[0] : NULL;
	struct traffic traffic = {0};

	if (source)
		add_read(&traffic, source, size_bytes);
	for (int peer = 0; peer < came_count; peer++)
		add_read(&traffic, came[peer], size_bytes);
	if (target)
		add_write(&traffic, target, size_bytes);
	for (int peer = 0; peer < goes_count; peer++)
		add_write(&traffic, goes[peer], size_bytes);
	take_time(&traffic);
	if (!out)
		return;
	combine(of, out, source, step->source == INPUT, came, came_count, size_bytes, step->is_result);
	for (int peer = 0; of->moves && peer < goes_count; peer++)
		if (goes[peer] != out)
			memcpy(goes[peer], out, size_bytes);
}

static void carry_out_slice(struct primitives *of, const struct step *step, ssize_t at, ssize_t count)
{
	size_t size_bytes = (size_t)count * of->element_bytes;
	char *came[MOST_PEERS], *goes[MOST_PEERS];

	for (int peer = 0; step->receives && peer < of->from_count; peer++) {
		wait_for_steps(of, &of->from[peer], of->slice_steps);
		came[peer] = slot(of, &of->from[peer]);
	}
	for (int peer = 0; step->sends && peer < of->to_count; peer++) {
		struct end *to = &of->to[peer];

		wait_for_room(of, to, of->slice_steps);
		if (to->connection.sizes)
			to->connection.sizes[to->step % STEPS] = (int)size_bytes;
		goes[peer] = slot(of, to);
	}
	if (count > 0)
		move_slice(of, step, at, size_bytes, came, goes);
	atomic_thread_fence(memory_order_seq_cst);
	for (int peer = 0; step->receives && peer < of->from_count; peer++)
		*of->from[peer].connection.head = of->from[peer].step += (uint64_t)of->slice_steps;
	for (int peer = 0; step->sends && peer < of->to_count; peer++)
		*of->to[peer].connection.tail = of->to[peer].step += (uint64_t)of->slice_steps;
}

void carry_out_simple(struct primitives *of, const struct step *step)
{
	ssize_t most = slice_elements(of, step->count), at = 0;

	for (int slice = 0; slice < of->slices; slice++) { /* empty ones too: proxies count them */
		ssize_t count = smaller(most, step->count - at);

		carry_out_slice(of, step, at, count);
		at += count;
	}
}
