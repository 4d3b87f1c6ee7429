/* Computation that is slower while its GPU communicates: contention.py, in C. Nothing here does anything at full speed. */
#pragma once

#include <stdint.h>

#include "lanes.h"

struct replay;

/* The messages of one tensor that a rank sends and receives in an iteration. */
struct transfer {
	int32_t left;
	int32_t is_under_way;
};

/* What a stream computes: its work left as of a time, in FULL_SPEEDths of a nanosecond, and its timer. */
struct computing {
	int64_t left, since_ns;
	struct entry timer;
	int is_running;
};

struct communicating {
	int64_t transfers, until_ns;
};

void open_contention(struct replay *replay);
struct transfer *new_transfers(const struct replay *replay);
void reset_transfers(const struct replay *replay, struct transfer *transfers);
int slows(const struct replay *replay, int32_t op);
void computes(struct replay *replay, struct entry *timer);
void computed(struct replay *replay, int32_t op);
void note_begin(struct replay *replay, int32_t iteration, int32_t op);
void note_message_end(struct replay *replay, int32_t iteration, int32_t op, int64_t ended_ns);
