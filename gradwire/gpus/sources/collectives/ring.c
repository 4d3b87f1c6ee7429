/*
 * Collectives on a ring, each rank of which sends to the next one (all_reduce.h, all_gather.h, reduce_scatter.h, broadcast.h and reduce.h of
 * rocm-5.4.3: runRing). Chunks are as large there, to the element.
 */
#include "collectives.h"

/* Slices of a chunk and steps of each by Simple: those of the first three, and of broadcasts and reduces (src/include/collectives.h). */
enum { CHUNK_SLICES = 2, SLICE_STEPS = 2 };

/* A channel's chunks within the loop that begins at an element. */
struct chunks {
	const struct collective *work;
	int ranks;
	/* Elements of all channels' chunks, and the element that this loop begins at. */
	ssize_t loop, begin;
	/* Elements of a chunk in this loop. */
	ssize_t size;
};

static int is_from_or_to_root(enum collective_kind kind)
{
	return kind == BROADCAST || kind == REDUCE;
}

/* Elements that chunks are multiples of. */
static ssize_t grain(const struct collective *work)
{
	ssize_t element_bytes = (ssize_t)size_of_type(work->type), threads = work->threads;

	if (work->protocol != LL128)
		return threads * (8 / element_bytes);
	/* 28 bytes per thread, of which all but broadcasts and reduces take half */
	return threads * (28 / element_bytes) / (is_from_or_to_root(work->kind) ? 1 : 2);
}

static ssize_t chunk_elements(const struct communicator *communicator, const struct collective *work)
{
	ssize_t steps = work->protocol == SIMPLE && !is_from_or_to_root(work->kind) ? CHUNK_SLICES * SLICE_STEPS : 1;

	return step_elements(communicator, work->protocol, work->type) * steps;
}

/* Elements of a chunk when so many are left, for so many chunks at once. */
static ssize_t size_of_chunk(const struct communicator *communicator, const struct collective *work, ssize_t left, ssize_t at_once)
{
	ssize_t most = chunk_elements(communicator, work), multiple = grain(work);

	if (work->protocol == SIMPLE)
		return divide_up(smaller(most, divide_up(left, at_once)), multiple) * multiple;
	if (work->protocol == LL && work->kind != ALL_REDUCE) /* the last chunks are the host's choice */
		return left < at_once * most ? work->last_chunk : most;
	return smaller(most, divide_up(left, at_once * multiple) * multiple);
}

/* Chunk i of an all-reduce: where it begins. */
static ssize_t chunk_at(const struct chunks *chunks, int number)
{
	const struct collective *work = chunks->work;
	ssize_t place = work->protocol == SIMPLE ? work->part * chunks->ranks + number : number * work->parts + work->part;

	return chunks->begin + place * chunks->size;
}

static void all_reduce_chunks(struct primitives *of, const struct chunks *chunks, const struct ring *ring)
{
	int ranks = chunks->ranks;

	for (int turn = 1; turn < 2 * ranks; turn++) { /* once around with sums of more and more ranks, once with the result */
		ssize_t at = chunk_at(chunks, (ring->index + 2 * ranks - turn) % ranks);
		ssize_t count = smaller(chunks->size, chunks->work->count - at);
		struct step step = {.source = NO_BUFFER, .source_at = at, .target = NO_BUFFER, .target_at = at, .count = count};

		step.source = turn <= ranks ? INPUT : NO_BUFFER;
		step.target = turn >= ranks ? OUTPUT : NO_BUFFER;
		step.receives = turn > 1;
		step.sends = turn < 2 * ranks - 1;
		step.is_result = turn == ranks;
		carry_out(of, step);
	}
}

static void broadcast_chunk(struct primitives *of, const struct collective *work, const struct communicator *communicator,
			    const struct ring *ring, ssize_t at, ssize_t count)
{
	struct step step = {.source = NO_BUFFER, .source_at = at, .target = OUTPUT, .target_at = at, .count = count};

	if (communicator->rank == work->root) {
		step.source = INPUT;
		step.target = work->send == work->receive ? NO_BUFFER : OUTPUT;
		step.sends = 1;
	} else {
		step.receives = 1;
		step.sends = ring->ranks[1] != work->root;
	}
	carry_out(of, step);
}

static void reduce_chunk(struct primitives *of, const struct collective *work, const struct communicator *communicator,
			 const struct ring *ring, ssize_t at, ssize_t count)
{
	struct step step = {.source = INPUT, .source_at = at, .target = NO_BUFFER, .target_at = at, .count = count};

	if (communicator->rank == work->root) {
		step.target = OUTPUT;
		step.receives = step.is_result = 1;
	} else {
		step.receives = ring->ranks[communicator->ranks - 1] != work->root;
		step.sends = 1;
	}
	carry_out(of, step);
}

static void all_gather_chunk(struct primitives *of, const struct collective *work, int ranks, const struct ring *ring, ssize_t at,
			     ssize_t count)
{
	for (int turn = 0; turn < ranks; turn++) {
		ssize_t in_output = at + ring->ranks[(ranks - turn) % ranks] * work->count;
		struct step step = {.source = NO_BUFFER, .source_at = at, .target = OUTPUT, .target_at = in_output, .count = count};

		if (!turn) {
			step.source = INPUT;
			if (address_in(of, INPUT, at) == address_in(of, OUTPUT, in_output))
				step.target = NO_BUFFER; /* in place */
		}
		step.receives = turn > 0;
		step.sends = turn < ranks - 1;
		carry_out(of, step);
	}
}

static void reduce_scatter_chunk(struct primitives *of, const struct collective *work, int ranks, const struct ring *ring, ssize_t at,
				 ssize_t count)
{
	for (int turn = 1; turn <= ranks; turn++) {
		ssize_t in_input = at + ring->ranks[(ranks - turn) % ranks] * work->count;
		struct step step = {.source = INPUT, .source_at = in_input, .target = NO_BUFFER, .target_at = at, .count = count};

		step.target = turn == ranks ? OUTPUT : NO_BUFFER;
		step.receives = turn > 1;
		step.sends = turn < ranks;
		step.is_result = turn == ranks;
		carry_out(of, step);
	}
}

static void run_chunks(struct primitives *of, struct block *block, const struct chunks *chunks)
{
	const struct collective *work = chunks->work;
	const struct ring *ring = &block->channel.ring;
	ssize_t at = chunks->begin + work->part * chunks->size, count = smaller(chunks->size, work->count - at);

	switch (work->kind) {
	case ALL_REDUCE: all_reduce_chunks(of, chunks, ring); break;
	case BROADCAST: broadcast_chunk(of, work, block->communicator, ring, at, count); break;
	case REDUCE: reduce_chunk(of, work, block->communicator, ring, at, count); break;
	case ALL_GATHER: all_gather_chunk(of, work, chunks->ranks, ring, at, count); break;
	case REDUCE_SCATTER: reduce_scatter_chunk(of, work, chunks->ranks, ring, at, count); break;
	default: break;
	}
}

void run_ring(struct block *block, const struct collective *work)
{
	struct communicator *communicator = block->communicator;
	int by_root = is_from_or_to_root(work->kind), ranks = communicator->ranks;
	struct primitives primitives;
	struct chunks chunks = {.work = work, .ranks = ranks};
	ssize_t at_once = (ssize_t)work->parts * (work->kind == ALL_REDUCE ? ranks : 1);

	open_primitives(&primitives, block,
			&(struct opening){
				.protocol = work->protocol,
				.type = work->type,
				.operation = work->operation,
				.slices = by_root ? 1 : CHUNK_SLICES,
				.slice_steps = by_root ? 1 : SLICE_STEPS,
				.connection = work->connection,
				.from = &block->channel.ring.previous,
				.to = &block->channel.ring.next,
				.most_from = 1,
				.most_to = 1,
				.input = work->send,
				.output = work->receive,
				.argument = work->argument,
				.moves = moves_data((size_t)work->count * size_of_type(work->type)),
			});
	chunks.loop = at_once * chunk_elements(communicator, work);
	for (; chunks.begin < work->count; chunks.begin += chunks.loop) {
		chunks.size = size_of_chunk(communicator, work, work->count - chunks.begin, at_once);
		run_chunks(&primitives, block, &chunks);
	}
	close_primitives(&primitives);
}
