#include "contention.h"

#include "arithmetic.h"
#include "memory.h"
#include "replay.h"

static int is_off(const struct replay *replay)
{
	return replay->given.speed_permille == FULL_SPEED;
}

void open_contention(struct replay *replay)
{
	replay->computing = memory((size_t)replay->given.streams * sizeof(struct computing));
	replay->communicating = memory((size_t)replay->given.ranks * sizeof(struct communicating));
}

struct transfer *new_transfers(const struct replay *replay)
{
	return memory((size_t)replay->given.transfers * sizeof(struct transfer));
}

void reset_transfers(const struct replay *replay, struct transfer *transfers)
{
	for (int64_t number = 0; number < replay->given.transfers; number++)
		transfers[number] = (struct transfer){replay->given.transfer_messages[number], 0};
}

int slows(const struct replay *replay, int32_t op)
{
	return !is_off(replay) && replay->given.slows[op];
}

/* Rounded up */
static int64_t quotient(int64_t left, int64_t speed)
{
	return (left + speed - 1) / speed;
}

static int64_t least(int64_t one, int64_t other)
{
	return one < other ? one : other;
}

/* For how long of a time from since_ns on the rank communicates, as is known now. */
static int64_t slow_part_ns(const struct communicating *of_rank, int64_t since_ns, int64_t time_ns)
{
	return of_rank->transfers ? time_ns : least(time_ns, larger(0, of_rank->until_ns - since_ns));
}

static void progress_until(const struct replay *replay, const struct communicating *of_rank, struct computing *computing, int64_t at_ns)
{
	int64_t spent_ns = at_ns - computing->since_ns, slow_ns;

	if (spent_ns <= 0)
		return;
	slow_ns = slow_part_ns(of_rank, computing->since_ns, spent_ns);
	computing->left = larger(0, computing->left - slow_ns * replay->given.speed_permille - (spent_ns - slow_ns) * FULL_SPEED);
	computing->since_ns = at_ns;
}

static int64_t end_ns(const struct replay *replay, const struct communicating *of_rank, const struct computing *computing)
{
	int64_t speed = replay->given.speed_permille;
	int64_t slow_ns = slow_part_ns(of_rank, computing->since_ns, quotient(computing->left, speed));
	int64_t left = larger(0, computing->left - slow_ns * speed);

	return computing->since_ns + slow_ns + quotient(left, FULL_SPEED);
}

/* Notes that a stream begins what the timer is of, and says when it ends if nothing changes meanwhile. */
void computes(struct replay *replay, struct entry *timer)
{
	const struct given *given = &replay->given;
	struct computing *computing = &replay->computing[given->stream[timer->op]];

	computing->left = given->duration_ns[timer->op] * FULL_SPEED;
	computing->since_ns = timer->nominal_start_ns;
	computing->is_running = 1;
	timer->key = end_ns(replay, &replay->communicating[given->rank[timer->op]], computing);
	computing->timer = *timer;
}

void computed(struct replay *replay, int32_t op)
{
	replay->computing[replay->given.stream[op]].is_running = 0;
}

static void change(struct replay *replay, int32_t rank, int by)
{
	const struct given *given = &replay->given;
	struct communicating *of_rank = &replay->communicating[rank];
	int64_t first = given->first_stream[rank], end = given->first_stream[rank + 1];

	for (int64_t number = first; number < end; number++)
		if (replay->computing[number].is_running)
			progress_until(replay, of_rank, &replay->computing[number], replay->now_ns);
	of_rank->transfers += by;
	if (of_rank->transfers > 1)
		return;
	for (int64_t number = first; number < end; number++) {
		struct computing *computing = &replay->computing[number];

		if (!computing->is_running)
			continue;
		take_out(&replay->timers, &computing->timer);
		computing->timer.key = end_ns(replay, of_rank, computing);
		push(&replay->timers, computing->timer);
	}
}

static struct transfer *begun_transfer(struct replay *replay, int32_t iteration, int32_t number)
{
	struct transfer *transfer = &replay->iterations[iteration]->transfers[number];

	if (!transfer->is_under_way) {
		transfer->is_under_way = 1;
		change(replay, replay->given.transfer_rank[number], 1);
	}
	return transfer;
}

void note_begin(struct replay *replay, int32_t iteration, int32_t op)
{
	if (!is_off(replay) && replay->given.transfer_of[op] >= 0)
		begun_transfer(replay, iteration, replay->given.transfer_of[op]);
}

void note_message_end(struct replay *replay, int32_t iteration, int32_t op, int64_t ended_ns)
{
	const struct given *given = &replay->given;
	struct communicating *of_rank;
	struct transfer *transfer;
	int32_t number;

	if (is_off(replay) || given->transfer_of[op] < 0)
		return;
	number = given->transfer_of[op];
	transfer = begun_transfer(replay, iteration, number);
	of_rank = &replay->communicating[given->transfer_rank[number]];
	of_rank->until_ns = larger(of_rank->until_ns, ended_ns);
	if (!--transfer->left) {
		transfer->is_under_way = 0;
		change(replay, given->transfer_rank[number], -1);
	}
}
