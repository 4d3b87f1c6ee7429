/* Opens and closes connections, and what the three protocols share. */
#include "primitives.h"

#include "../ending.h"
#include "reductions.h"
#include "tasks.h"

#include <stdlib.h>
#include <string.h>

/* Lines of LL128 are written in whole groups, a little behind the end of a step. */
enum { SCRATCH_MARGIN_BYTES = 4096 };

ssize_t smaller(ssize_t left, ssize_t right)
{
	return left < right ? left : right;
}

ssize_t divide_up(ssize_t number, ssize_t divisor)
{
	return (number + divisor - 1) / divisor;
}

/* Half of what LL sends is flags, and an eighth of what LL128 sends (primitives.h: calcBytePerStep). */
ssize_t step_elements(const struct communicator *communicator, enum protocol protocol, enum element_type type)
{
	ssize_t step_bytes = (ssize_t)communicator->buffer_bytes[protocol] / STEPS;

	switch (protocol) {
	case LL: return step_bytes / 2 / (ssize_t)size_of_type(type);
	case LL128: return step_bytes * 7 / 8 / (ssize_t)size_of_type(type);
	default: return step_bytes / (ssize_t)size_of_type(type);
	}
}

static int open_ends(struct end *ends, struct block *block, const int *peers, int most, int number, enum direction direction)
{
	int count = 0;

	for (; count < most && peers[count] >= 0; count++)
		block->communicator->layout->read_connection(&block->channel, peers[count], number, direction,
							     &ends[count].connection);
	return count;
}

static uint64_t first_step(const struct end *end, uint64_t steps_of_chunk)
{
	return (*end->connection.steps + steps_of_chunk - 1) / steps_of_chunk * steps_of_chunk;
}

void open_primitives(struct primitives *opened, struct block *block, const struct opening *how)
{
	int is_simple = how->protocol == SIMPLE, number = is_simple ? how->connection : 0;
	uint64_t steps_of_chunk;

	*opened = (struct primitives){
		.communicator = block->communicator,
		.protocol = how->protocol,
		.type = how->type,
		.operation = how->operation,
		.element_bytes = size_of_type(how->type),
		.step_bytes = block->communicator->buffer_bytes[how->protocol] / STEPS,
		.slices = is_simple ? how->slices : 1,
		.slice_steps = is_simple ? how->slice_steps : 1,
		.argument = how->argument,
		.buffers = {how->input, how->output},
		.moves = how->moves,
	};
	opened->from_count = open_ends(opened->from, block, how->from, how->most_from, number, FROM_PEER);
	opened->to_count = open_ends(opened->to, block, how->to, how->most_to, number, TO_PEER);
	steps_of_chunk = (uint64_t)(opened->slices * opened->slice_steps);
	for (int peer = 0; peer < opened->from_count; peer++) {
		struct end *end = &opened->from[peer];

		end->step = first_step(end, steps_of_chunk);
		if (is_simple)
			*end->connection.head = end->step; /* room for the sender, where steps were left out */
	}
	for (int peer = 0; peer < opened->to_count; peer++)
		opened->to[peer].step = first_step(&opened->to[peer], steps_of_chunk);
	if (is_simple)
		return;
	opened->received = malloc(2 * (opened->step_bytes + SCRATCH_MARGIN_BYTES));
	if (!opened->received)
		end_program("no memory for a step");
	opened->sent = opened->received + opened->step_bytes + SCRATCH_MARGIN_BYTES;
}

void close_primitives(struct primitives *opened)
{
	for (int peer = 0; peer < opened->from_count; peer++)
		*opened->from[peer].connection.steps = opened->from[peer].step;
	for (int peer = 0; peer < opened->to_count; peer++)
		*opened->to[peer].connection.steps = opened->to[peer].step;
	free(opened->received);
}

void carry_out(struct primitives *of, struct step step)
{
	if (step.count < 0)
		step.count = 0;
	switch (of->protocol) {
	case SIMPLE: carry_out_simple(of, &step); break;
	case LL: carry_out_ll(of, &step); break;
	default: carry_out_ll128(of, &step);
	}
}

char *address_in(const struct primitives *of, enum buffer buffer, ssize_t at)
{
	return buffer == NO_BUFFER ? NULL : of->buffers[buffer] + at * (ssize_t)of->element_bytes;
}

void combine(const struct primitives *of, char *out, const char *source, int is_input, char **came, int came_count, size_t size_bytes,
	     int is_result)
{
	size_t count = size_bytes / of->element_bytes;
	const char *so_far = source;
	int next = 0;

	if (!of->moves)
		return;
	if (source && is_input && of->operation == SUM_OF_SCALED) {
		scale(out, source, count, of->type, of->argument);
		so_far = out;
	}
	if (!so_far)
		so_far = came[next++];
	for (; next < came_count; next++) {
		reduce(out, so_far, came[next], count, of->operation, of->type);
		so_far = out;
	}
	if (so_far != out)
		memmove(out, so_far, size_bytes);
	if (is_result && of->operation == DIVIDED_SUM)
		divide(out, count, of->type, of->argument);
}

void combine_received(const struct primitives *of, char *out, const char *source, int is_input, int peer, size_t size_bytes,
		      int is_result)
{
	char *came[1] = {of->received};
	int is_last = peer + 1 == of->from_count;

	combine(of, out, peer ? out : source, peer ? 0 : is_input, came, 1, size_bytes, is_result && is_last);
}

void wait_for_room(const struct primitives *of, const struct end *to, int steps)
{
	WAIT_UNTIL(*to->connection.head + STEPS >= to->step + (uint64_t)steps || *of->communicator->is_aborted);
}

void wait_for_steps(const struct primitives *of, const struct end *from, int steps)
{
	WAIT_UNTIL(*from->connection.tail >= from->step + (uint64_t)steps || *of->communicator->is_aborted);
}

void take_time(const struct traffic *traffic)
{
	wait_until_time(end_of(traffic));
}

char *lines_at(const struct primitives *of, const struct end *end)
{
	return end->connection.buffers[of->protocol] + end->step % STEPS * of->step_bytes;
}

void take_time_with_lines(const struct primitives *of, const struct step *step, size_t size_bytes, size_t line_bytes)
{
	const char *source = address_in(of, step->source, step->source_at), *target = address_in(of, step->target, step->target_at);
	struct traffic traffic = {0};

	if (source)
		add_read(&traffic, source, size_bytes);
	if (target)
		add_write(&traffic, target, size_bytes);
	for (int peer = 0; step->receives && peer < of->from_count; peer++)
		add_read(&traffic, lines_at(of, &of->from[peer]), line_bytes);
	for (int peer = 0; step->sends && peer < of->to_count; peer++)
		add_write(&traffic, lines_at(of, &of->to[peer]), line_bytes);
	take_time(&traffic);
}
