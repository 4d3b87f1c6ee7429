/*
 * The protocol LL: lines of 16 bytes, in which each 4 bytes of data are followed by the step's number as a flag. A line has come when both of
 * its flags have (prims_ll.h of rocm-5.4.3).
 */
#include "primitives.h"
#include "tasks.h"

#include <string.h>

struct line {
	volatile uint32_t low, low_flag, high, high_flag;
};

enum { LINE_BYTES = 16, DATA_BYTES = 8 };
_Static_assert(sizeof(struct line) == LINE_BYTES, "LL's line");
/* Before flags of 32 bits begin anew, all lines of a step are written, so that no old one is taken for a new one (devcomm.h, line 69). */
enum { CLEANING_STEPS = 0x7ffffff8 };

static uint32_t flag_of(const struct end *end)
{
	return (uint32_t)end->step + 1;
}

static void receive_lines(const struct primitives *of, const struct end *from, size_t lines)
{
	struct line *came = (struct line *)lines_at(of, from);
	uint32_t flag = flag_of(from);

	for (size_t number = 0; number < lines; number++) {
		struct line *line = &came[number];
		uint64_t data;

		WAIT_UNTIL((line->low_flag == flag && line->high_flag == flag) || *of->communicator->is_aborted);
		data = line->low | (uint64_t)line->high << 32;
		memcpy(of->received + number * DATA_BYTES, &data, sizeof(data));
	}
}

static void send_lines(const struct primitives *of, struct end *to, const char *out, size_t size_bytes, size_t lines)
{
	struct line *goes = (struct line *)lines_at(of, to);
	uint32_t flag = flag_of(to);
	int cleans = (to->step & CLEANING_STEPS) == CLEANING_STEPS;
	size_t all = of->step_bytes / LINE_BYTES;

	for (size_t number = 0; number < (cleans ? all : lines); number++) {
		uint64_t data = 0;

		if (of->moves && number < lines)
			memcpy(&data, out + number * DATA_BYTES, (size_t)smaller(DATA_BYTES, (ssize_t)(size_bytes - number * DATA_BYTES)));
		goes[number].low = (uint32_t)data;
		goes[number].high = (uint32_t)(data >> 32);
		goes[number].low_flag = flag;
		goes[number].high_flag = flag;
	}
	if (to->connection.sizes)
		to->connection.sizes[to->step % STEPS] = (int)((cleans ? all : lines) * LINE_BYTES);
	to->step++;
}

void carry_out_ll(struct primitives *of, const struct step *step)
{
	size_t size_bytes = (size_t)step->count * of->element_bytes, lines = (size_t)divide_up((ssize_t)size_bytes, DATA_BYTES);
	const char *source = address_in(of, step->source, step->source_at);
	char *target = address_in(of, step->target, step->target_at), *out = target ? target : of->sent;
	int is_input = step->source == INPUT;

	for (int peer = 0; step->sends && peer < of->to_count; peer++)
		wait_for_room(of, &of->to[peer], 1);
	for (int peer = 0; step->receives && peer < of->from_count; peer++) {
		receive_lines(of, &of->from[peer], lines);
		combine_received(of, out, source, is_input, peer, size_bytes, step->is_result);
	}
	if (!step->receives)
		combine(of, out, source, is_input, NULL, 0, size_bytes, step->is_result);
	take_time_with_lines(of, step, size_bytes, lines * LINE_BYTES);
	for (int peer = 0; step->receives && peer < of->from_count; peer++)
		*of->from[peer].connection.head = ++of->from[peer].step;
	for (int peer = 0; step->sends && peer < of->to_count; peer++)
		send_lines(of, &of->to[peer], out, size_bytes, lines);
}
