/* Runs a launch: a block for each channel of its mask, which goes through that channel's work. */
#include "kernel.h"

#include "../ending.h"
#include "../settings.h"
#include "collectives.h"
#include "tasks.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_CHANNELS = 64 };

int is_collective(const char *name)
{
	return strstr(name, "ncclKernel") != NULL;
}

int moves_data(size_t size_bytes)
{
	return settings.data || size_bytes < LARGE_BYTES;
}

/* Counts a call whose result was not computed, once for all of its channels. */
static void note_if_invented(int is_first, size_t size_bytes)
{
	if (is_first && !moves_data(size_bytes))
		count_invented(INVENTED_COLLECTIVE, size_bytes);
}

static void run_collective(struct block *block, const struct collective *work)
{
	note_if_invented(!work->part, (size_t)work->count * size_of_type(work->type));
	if (work->algorithm == RING)
		run_ring(block, work);
	else if (work->algorithm == TREE && work->kind == ALL_REDUCE)
		run_tree(block, work);
	else
		end_program("%s by the library's algorithm %d is not there", name_of_collective(work->kind), work->algorithm);
}

static void run_work(struct block *block, const struct work *work)
{
	switch (work->kind) {
	case COLLECTIVE_WORK: run_collective(block, &work->collective); break;
	case ONE_RANK_WORK: run_on_one_rank(&work->collective); break;
	case TRANSFER_WORK:
		for (int number = 0; number < work->transfer_count; number++)
			note_if_invented(work->transfers[number].direction == FROM_PEER, work->transfers[number].size_bytes);
		run_transfers(block, work);
	}
}

struct block_of_launch {
	struct block block;
	/* Place of its first work: blocks' first entries come one after the other. */
	int first;
};

static void run_block(void *argument)
{
	struct block_of_launch *running = argument;
	struct block *block = &running->block;
	const struct layout *layout = block->communicator->layout;
	struct work work = {.next = running->first};

	do {
		layout->read_work(block->launch, work.next, &work);
		if (work.is_acknowledged)
			*block->channel.acknowledged = work.acknowledgement;
		run_work(block, &work);
	} while (!work.is_last && !*block->communicator->is_aborted);
}

void run_collectives(const struct launch *launch)
{
	const struct layout *layout = layout_of(launch);
	struct communicator communicator = {.layout = layout};
	uint64_t channels = layout->channels_of(launch);
	struct block_of_launch *blocks = calloc((size_t)__builtin_popcountll(channels), sizeof(*blocks));
	int count = 0;

	if (!blocks)
		end_program("no memory for the blocks of a kernel");
	layout->read_communicator(launch, &communicator);
	for (int number = 0; number < MOST_CHANNELS; number++) {
		struct block_of_launch *each = &blocks[count];

		if (!(channels >> number & 1))
			continue;
		each->block = (struct block){.communicator = &communicator, .launch = launch};
		layout->read_channel(&communicator, number, &each->block.channel);
		each->first = count++;
		start_task(run_block, each);
	}
	run_tasks();
	free(blocks);
}
