/* How a message is handed over, and how it is received: transfer.py. */
#pragma once

#include <stdint.h>

#include "border.h"
#include "calls.h"

#define MOST_PIECES 16 /* of a long message, in one list of calls */

struct outgoing;
struct replay;

struct sender {
	const struct end *end;
	int32_t iteration, op;
	int64_t start_ns, left_bytes, written_bytes;
	uint8_t *head;
	int32_t head_at, head_bytes, tail_at, tail_bytes;
	uint8_t *tail;
	uint8_t is_leaving, is_waiting;
	struct timestamps *timestamps;
	int64_t offsets[MOST_PIECES];
};

struct receiver {
	const struct end *end;
	uint8_t *buffer;
	int64_t buffered_bytes, left_bytes, start_ns;
	int32_t low_water;
	uint8_t is_inside; /* a message whose header has been read */
	int32_t iteration;
	int64_t message;
	struct contributions carried;
};

/* The calls of one message in a list: its pieces, and one that changes what the sender waits for. */
struct attempt {
	struct sender *sender;
	long first, pieces;
};

enum progress { BLOCKED, HAS_MORE, WHOLE };

struct attempts {
	struct attempt *at;
	long count, room;
};

void open_sender(struct replay *replay, struct sender *sender, const struct end *end);
void open_receiver(struct replay *replay, struct receiver *receiver, const struct end *end);
void begin_message(struct replay *replay, struct sender *sender, const struct outgoing *message);
void add_pump(struct replay *replay, struct sender *sender);
enum progress pumped(struct replay *replay, const struct attempt *attempt);
void expect_bytes(struct call *call, struct receiver *receiver);
void take_bytes(struct replay *replay, const struct call *call, struct receiver *receiver);
