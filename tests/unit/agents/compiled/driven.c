/*
 * What the tests need beside the agent: lists of calls without the virtual-time kernel (calls.h), and its interpreter without sockets.
 */
#include "exported.h"
#include "interpreter.h"
#include "memory.h"
#include "replay.h"

#include <errno.h>
#include <sys/syscall.h>

static long early_clocks;

/* Calls that took something after the last look at the clock of their list: what they took might be noted before it came. */
EXPORTED long drive_early_clocks(void)
{
	return early_clocks;
}

/* What gradwire/vm/patches/6.12/um-calls.patch does inside the kernel. */
static int64_t one_call(struct call *call)
{
	const uint64_t *a = call->arguments;

	call->result = system_call((long)call->number, (long)a[0], (long)a[1], (long)a[2], (long)a[3], (long)a[4], (long)a[5]);
	return call->result;
}

static void each_ready(const struct call *call, int64_t count)
{
	const struct ready *ready = (const struct ready *)call->arguments[0];
	struct call *table = (struct call *)call->arguments[1];

	for (; count > 0; count--, ready++) {
		struct call *of_event = &table[ready->call];

		if (of_event->number != NOTHING && (ready->events & of_event->events))
			one_call(of_event);
	}
}

long __wrap_carry_out(const struct calls *calls)
{
	int has_news = 0, has_taken = 0;
	int64_t ready = 0, result = 0;
	long at;

	for (at = 0; at < calls->count; at++) {
		struct call *call = &calls->at[at];

		if (call->waits && has_news)
			break;
		if (call->number == EACH_READY) {
			each_ready(call, ready);
			has_taken |= ready > 0;
			continue;
		}
		result = one_call(call);
		if (call->number == SYS_clock_gettime)
			has_taken = 0;
		if (call->waits)
			ready = result;
		if (result == call->expected && call->is_news)
			has_news = 1;
		at += result == call->expected ? call->then_skip : call->else_skip;
	}
	early_clocks += has_taken;
	return at;
}

EXPORTED void drive_begin(struct replay *replay, int64_t now_ns)
{
	begin(replay, now_ns);
}

EXPORTED void drive_advance(struct replay *replay, int64_t now_ns)
{
	advance(replay, now_ns);
}

EXPORTED void drive_sent(struct replay *replay, int32_t iteration, int32_t op, int64_t start_ns, int64_t now_ns, int64_t on_line_ns)
{
	struct sender sender = {.iteration = iteration, .op = op, .start_ns = start_ns};

	replay->now_ns = now_ns;
	sent(replay, &sender, on_line_ns);
}

EXPORTED void drive_arrived(struct replay *replay, int64_t message, int32_t iteration, int64_t of_iteration, uint64_t *workers,
			    int64_t start_ns, int64_t now_ns)
{
	struct end end = {.connection = 0};
	struct receiver receiver = {
		.end = &end, .message = message, .iteration = iteration, .carried = {of_iteration, workers}, .start_ns = start_ns};

	replay->now_ns = now_ns;
	arrived(replay, &receiver);
}

EXPORTED int64_t drive_next_timer_ns(const struct replay *replay)
{
	return replay->timers.count ? replay->timers.at[0].key : -1;
}

/*
 * A message of the outbox: its iteration, its op, and the iteration and the set that it carries. Returns whether there is one of this number;
 * if not, the outbox is empty from now on.
 */
EXPORTED int drive_outbox(struct replay *replay, long number, int64_t *message, uint64_t *workers)
{
	const struct outgoing *outgoing = &replay->outbox.at[number];

	if (number == replay->outbox.count) {
		replay->outbox.count = 0;
		return 0;
	}
	message[0] = outgoing->iteration;
	message[1] = outgoing->op;
	message[2] = outgoing->carried.iteration;
	memcpy(workers, outgoing->carried.workers, (size_t)replay->set_words * sizeof(uint64_t));
	return 1;
}
