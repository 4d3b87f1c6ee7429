/*
 * All-reduces on a binary tree: sums go up and results come down (all_reduce.h of rocm-5.4.3: runTreeUpDown for Simple, one after the other;
 * runTreeSplit for LL and LL128, both at once).
 */
#include "collectives.h"
#include "tasks.h"

enum { BOTH_CHILDREN = 2 };

/* One way of a block's tree. */
struct way {
	struct block *block;
	const struct collective *work;
	const struct tree *tree;
	/* Elements of a chunk, and of all channels' chunks. */
	ssize_t chunk, loop;
};

static void open_way(struct primitives *opened, const struct way *way, const int *from, int most_from, const int *to, int most_to)
{
	const struct collective *work = way->work;

	open_primitives(opened, way->block,
			&(struct opening){
				.protocol = work->protocol,
				.type = work->type,
				.operation = work->operation,
				.slices = 1,
				.slice_steps = 1,
				.from = from,
				.to = to,
				.most_from = most_from,
				.most_to = most_to,
				.input = work->send,
				.output = work->receive,
				.argument = work->argument,
				.moves = moves_data((size_t)work->count * size_of_type(work->type)),
			});
}

/* A step for each chunk, all alike but for their place. */
static void run_way(struct primitives *opened, const struct way *way, struct step step)
{
	for (ssize_t begin = 0; begin < way->work->count; begin += way->loop) {
		ssize_t at = begin + way->work->part * way->chunk;

		step.source_at = step.target_at = at;
		step.count = smaller(way->chunk, way->work->count - at);
		carry_out(opened, step);
	}
	close_primitives(opened);
}

static void go_up(const struct way *way)
{
	int is_root = way->tree->up < 0, is_leaf = way->tree->down[0] < 0;
	struct primitives opened;

	open_way(&opened, way, way->tree->down, BOTH_CHILDREN, &way->tree->up, 1);
	run_way(&opened, way,
		(struct step){.source = INPUT, .target = is_root ? OUTPUT : NO_BUFFER, .receives = !is_leaf, .sends = !is_root,
			      .is_result = is_root});
}

static void come_down(const struct way *way)
{
	int is_root = way->tree->up < 0, is_leaf = way->tree->down[0] < 0;
	struct primitives opened;

	open_way(&opened, way, &way->tree->up, 1, way->tree->down, BOTH_CHILDREN);
	run_way(&opened, way,
		(struct step){.source = is_root ? OUTPUT : NO_BUFFER, .target = is_root ? NO_BUFFER : OUTPUT, .receives = !is_root,
			      .sends = !is_leaf});
}

/* A root that sends a chunk's result down as soon as it has it. */
static void turn_around(const struct way *way)
{
	struct primitives opened;

	open_way(&opened, way, way->tree->down, BOTH_CHILDREN, way->tree->down, BOTH_CHILDREN);
	run_way(&opened, way, (struct step){.source = INPUT, .target = OUTPUT, .receives = 1, .sends = 1, .is_result = 1});
}

static void come_down_beside(void *way)
{
	come_down(way);
}

/* Elements that chunks are multiples of where there are few. */
static ssize_t smallest_chunk(const struct collective *work)
{
	ssize_t element_bytes = (ssize_t)size_of_type(work->type), threads = work->threads;

	switch (work->protocol) {
	case SIMPLE: return threads * 8 * (8 / element_bytes);
	case LL: return threads * (8 / element_bytes);
	default: return threads * (28 / element_bytes) / 8;
	}
}

void run_tree(struct block *block, const struct collective *work)
{
	int takes_second = work->protocol != SIMPLE && work->takes_second_tree;
	struct way way = {
		.block = block,
		.work = work,
		.tree = takes_second ? &block->channel.second_tree : &block->channel.tree,
		.chunk = work->protocol == LL ? step_elements(block->communicator, LL, work->type) : work->last_chunk,
	};

	way.loop = work->parts * way.chunk;
	if (way.loop > work->count)
		way.chunk = divide_up(work->count, work->parts * smallest_chunk(work)) * smallest_chunk(work);
	if (work->protocol == SIMPLE) {
		go_up(&way);
		come_down(&way);
	} else if (way.tree->up < 0) {
		turn_around(&way);
	} else {
		start_task(come_down_beside, &way);
		go_up(&way);
		wait_for_started();
	}
}
