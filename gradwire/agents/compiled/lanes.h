/* What waits for a stream or a send queue, in the order in which it is served: op_state.py. */
#pragma once

#include <stdint.h>

#include "border.h"

struct replay;

/* A line of a heap: a waiting op (lanes.c), or one on a timer. The lowest keys are on top, then the iteration, then the op. */
struct entry {
	int64_t key, second_key;
	int32_t iteration, op;
	int64_t nominal_start_ns, start_ns;
};

struct heap {
	struct entry *at;
	long count, room;
};

void push(struct heap *heap, struct entry entry);
struct entry pop(struct heap *heap);
void take_out(struct heap *heap, const struct entry *entry);

struct stream {
	int64_t free_ns;
	uint8_t is_running, is_to_serve;
	struct heap waiting;
};

struct queue {
	int64_t free_ns, position, iteration;
	uint8_t is_busy, is_to_serve;
	struct heap waiting;
};

void open_lanes(struct replay *replay);
int pop_stream(struct stream *stream, struct entry *next);
void push_send(struct replay *replay, int32_t lane, int64_t ready_ns, int32_t iteration, int32_t op);
int pop_send(struct replay *replay, int32_t lane, struct entry *next);
