/* What has begun and not ended, and what is to be told of: interpreter.py. */
#pragma once

#include <stdint.h>

#include "border.h"

struct receiver;
struct replay;
struct sender;
struct transfer;

/* A message that has arrived before its RECV could end. */
struct arrival {
	struct contributions carried;
	int64_t start_ns;
	struct arrival *next_free;
};

/* An iteration that has begun and not ended, with a place for each op and transfer of the plan. */
struct iteration {
	int32_t *pending;
	int64_t *ready_ns;
	struct arrival **arrivals;
	struct transfer *transfers;
	int64_t unended;
	struct iteration *next_free;
};

struct ended {
	int64_t end_ns, nominal_start_ns, start_ns;
	int32_t iteration, op;
};

struct outgoing {
	int32_t iteration, op;
	struct contributions carried;
};

/* A queue of places that is read from its front, or a stack; both forget what was read. */
struct ends {
	struct ended *at;
	long first, count, room;
};

struct places {
	int32_t *at;
	long count, room;
};

struct outbox {
	struct outgoing *at;
	long count, room;
};

void open_interpreter(struct replay *replay);
void begin(struct replay *replay, int64_t now_ns);
void advance(struct replay *replay, int64_t now_ns);
void sent(struct replay *replay, const struct sender *sender, int64_t on_line_ns);
void arrived(struct replay *replay, struct receiver *receiver);
