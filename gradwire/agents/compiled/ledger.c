#include "ledger.h"

#include "memory.h"
#include "replay.h"

struct contributions new_contributions(const struct replay *replay)
{
	return (struct contributions){-1, memory((size_t)replay->set_words * sizeof(uint64_t))};
}

void copy_contributions(const struct replay *replay, struct contributions *to, const struct contributions *from)
{
	to->iteration = from->iteration;
	for (long word = 0; word < replay->set_words; word++)
		to->workers[word] = from->workers[word];
}

void open_ledger(struct replay *replay)
{
	int64_t slots = replay->given.slots;
	uint64_t *sets = memory((size_t)(slots * replay->set_words) * sizeof(uint64_t));

	replay->sums = memory((size_t)slots * sizeof(struct contributions));
	replay->complete = memory((size_t)slots * sizeof(int64_t));
	for (int64_t slot = 0; slot < slots; slot++) {
		replay->sums[slot] = (struct contributions){-1, sets + slot * replay->set_words};
		replay->complete[slot] = -1;
	}
}

static const uint64_t *whole(const struct replay *replay, int32_t slot)
{
	return replay->given.wholes + replay->given.whole[slot] * replay->set_words;
}

static int is_whole(const struct replay *replay, int32_t slot, const uint64_t *workers)
{
	for (long word = 0; word < replay->set_words; word++)
		if (workers[word] != whole(replay, slot)[word])
			return 0;
	return 1;
}

static void note_complete(struct replay *replay, int32_t slot)
{
	if (is_whole(replay, slot, replay->sums[slot].workers))
		replay->complete[slot] = replay->sums[slot].iteration;
}

void produce(struct replay *replay, int32_t slot, int32_t worker, int64_t iteration)
{
	struct contributions *sum = &replay->sums[slot];

	sum->iteration = iteration;
	for (long word = 0; word < replay->set_words; word++)
		sum->workers[word] = worker < 0 ? whole(replay, slot)[word] : 0;
	if (worker >= 0)
		sum->workers[worker / 64] = (uint64_t)1 << worker % 64;
	note_complete(replay, slot);
}

void carry(struct replay *replay, int32_t slot, enum combine combine, struct contributions *carried)
{
	if (combine != COPY) {
		copy_contributions(replay, carried, &replay->sums[slot]);
		return;
	}
	carried->iteration = replay->complete[slot];
	for (long word = 0; word < replay->set_words; word++)
		carried->workers[word] = whole(replay, slot)[word];
}

/* Returns whether the contributions add up. */
int arrive(struct replay *replay, int32_t slot, enum combine combine, const struct contributions *arrived)
{
	struct contributions *sum = &replay->sums[slot];
	uint64_t any = 0, common = 0;

	if (combine == COPY) {
		if (!is_whole(replay, slot, arrived->workers))
			return 0;
		replay->complete[slot] = arrived->iteration;
		return 1;
	}
	for (long word = 0; word < replay->set_words; word++) {
		any |= arrived->workers[word];
		common |= arrived->workers[word] & sum->workers[word];
	}
	if (!any)
		return 0;
	if (arrived->iteration > sum->iteration) {
		copy_contributions(replay, sum, arrived);
	} else if (arrived->iteration < sum->iteration || common) {
		return 0;
	} else {
		for (long word = 0; word < replay->set_words; word++)
			sum->workers[word] |= arrived->workers[word];
	}
	note_complete(replay, slot);
	return 1;
}
