#include "lanes.h"

#include "memory.h"
#include "replay.h"

static int is_before(const struct entry *one, const struct entry *other)
{
	if (one->key != other->key)
		return one->key < other->key;
	if (one->second_key != other->second_key)
		return one->second_key < other->second_key;
	if (one->iteration != other->iteration)
		return one->iteration < other->iteration;
	return one->op < other->op;
}

void push(struct heap *heap, struct entry entry)
{
	long place, parent;

	if (heap->count == heap->room)
		heap->at = grown(heap->at, &heap->room, sizeof(struct entry));
	for (place = heap->count++; place; place = parent) {
		parent = (place - 1) / 2;
		if (!is_before(&entry, &heap->at[parent]))
			break;
		heap->at[place] = heap->at[parent];
	}
	heap->at[place] = entry;
}

/* Puts the last entry in the place of another, and down from there. */
static void fill_from_end(struct heap *heap, long place)
{
	struct entry moved = heap->at[--heap->count];
	long child;

	while ((child = 2 * place + 1) < heap->count) {
		if (child + 1 < heap->count && is_before(&heap->at[child + 1], &heap->at[child]))
			child++;
		if (!is_before(&heap->at[child], &moved))
			break;
		heap->at[place] = heap->at[child];
		place = child;
	}
	heap->at[place] = moved;
}

struct entry pop(struct heap *heap)
{
	struct entry top = heap->at[0];

	fill_from_end(heap, 0);
	return top;
}

/* Of the few timers that there are. */
void take_out(struct heap *heap, const struct entry *entry)
{
	struct entry lowest = *entry;
	long place = 0, parent;

	while (heap->at[place].op != entry->op || heap->at[place].iteration != entry->iteration)
		place++;
	/* Up to the top, as if it were the lowest of all, and then out */
	for (; place; place = parent) {
		parent = (place - 1) / 2;
		heap->at[place] = heap->at[parent];
	}
	heap->at[0] = lowest;
	fill_from_end(heap, 0);
}

void open_lanes(struct replay *replay)
{
	replay->streams = memory((size_t)replay->given.streams * sizeof(struct stream));
	replay->queues = memory((size_t)replay->given.queues * sizeof(struct queue));
}

int pop_stream(struct stream *stream, struct entry *next)
{
	if (stream->is_running || !stream->waiting.count)
		return 0;
	stream->is_running = 1;
	*next = pop(&stream->waiting);
	return 1;
}

void push_send(struct replay *replay, int32_t lane, int64_t ready_ns, int32_t iteration, int32_t op)
{
	int64_t key = replay->given.discipline[lane] == FIFO ? ready_ns : iteration;

	push(&replay->queues[lane].waiting, (struct entry){key, replay->given.order[op], iteration, op, 0, 0});
}

int pop_send(struct replay *replay, int32_t lane, struct entry *next)
{
	struct queue *queue = &replay->queues[lane];
	const struct lists *orders = &replay->given.orders;

	if (queue->is_busy || !queue->waiting.count)
		return 0;
	if (replay->given.discipline[lane] == COUNTER) {
		const struct entry *first = &queue->waiting.at[0];
		int64_t begin = orders->start[lane], end = orders->start[lane + 1];
		int64_t order = replay->given.order[orders->of[begin + queue->position]];

		if (first->key != queue->iteration || first->second_key != order)
			return 0;
		queue->position++;
		if (queue->position == end - begin) {
			queue->position = 0;
			queue->iteration++;
		}
	}
	queue->is_busy = 1;
	*next = pop(&queue->waiting);
	return 1;
}
