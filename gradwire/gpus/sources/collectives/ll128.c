/*
 * The protocol LL128: lines of which the last 8 bytes are the step's number as a flag. Those of AMD's devices have 64 bytes, 56 of them data,
 * and are written 32 at a time (prims_ll128.h and devcomm.h of rocm-5.4.3, lines 75-80).
 */
#include "primitives.h"
#include "tasks.h"

#include <stdatomic.h>
#include <string.h>

enum { LINE_BYTES = 64, DATA_BYTES = 56, LINES_TOGETHER = 32 };

static volatile uint64_t *flag_at(char *line)
{
	return (volatile uint64_t *)(line + DATA_BYTES);
}

static size_t lines_for(size_t size_bytes)
{
	return (size_t)divide_up((ssize_t)size_bytes, DATA_BYTES * LINES_TOGETHER) * LINES_TOGETHER;
}

static size_t data_in(size_t number, size_t size_bytes)
{
	size_t before = number * DATA_BYTES;

	return before < size_bytes ? (size_t)smaller(DATA_BYTES, (ssize_t)(size_bytes - before)) : 0;
}

static void receive_lines(const struct primitives *of, const struct end *from, size_t size_bytes)
{
	char *line = lines_at(of, from);

	for (size_t number = 0; number < lines_for(size_bytes); number++, line += LINE_BYTES) {
		WAIT_UNTIL(*flag_at(line) == from->step + 1 || *of->communicator->is_aborted);
		if (of->moves)
			memcpy(of->received + number * DATA_BYTES, line, data_in(number, size_bytes));
	}
}

static void send_lines(const struct primitives *of, struct end *to, const char *out, size_t size_bytes)
{
	char *line = lines_at(of, to);

	for (size_t number = 0; number < lines_for(size_bytes); number++, line += LINE_BYTES) {
		if (of->moves)
			memcpy(line, out + number * DATA_BYTES, data_in(number, size_bytes));
		*flag_at(line) = to->step + 1;
	}
	atomic_thread_fence(memory_order_seq_cst);
	to->step++;
	if (to->connection.sizes)
		*to->connection.tail = to->step;
}

void carry_out_ll128(struct primitives *of, const struct step *step)
{
	size_t size_bytes = (size_t)step->count * of->element_bytes;
	const char *source = address_in(of, step->source, step->source_at);
	char *target = address_in(of, step->target, step->target_at), *out = target ? target : of->sent;
	int is_input = step->source == INPUT;

	for (int peer = 0; step->sends && peer < of->to_count; peer++) {
		struct end *to = &of->to[peer];

		wait_for_room(of, to, 1);
		if (to->connection.sizes)
			to->connection.sizes[to->step % STEPS] = (int)(lines_for(size_bytes) * LINE_BYTES);
	}
	for (int peer = 0; step->receives && peer < of->from_count; peer++) {
		receive_lines(of, &of->from[peer], size_bytes);
		combine_received(of, out, source, is_input, peer, size_bytes, step->is_result);
	}
	if (!step->receives)
		combine(of, out, source, is_input, NULL, 0, size_bytes, step->is_result);
	take_time_with_lines(of, step, size_bytes, lines_for(size_bytes) * LINE_BYTES);
	for (int peer = 0; step->sends && peer < of->to_count; peer++)
		send_lines(of, &of->to[peer], out, size_bytes);
	for (int peer = 0; step->receives && peer < of->from_count; peer++)
		*of->from[peer].connection.head = ++of->from[peer].step;
}
