/* What asks for a timestamp with a message's last piece, and what timestamps are read into: departures.py says how. */
#pragma once

#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "border.h"
#include "calls.h"

struct replay;
struct sender;

struct message_header {
	struct msghdr header;
	unsigned int size_bytes;
};

struct timestamps {
	struct msghdr asking;
	struct iovec piece;
	struct {
		struct cmsghdr header;
		uint32_t flags;
	} __attribute__((aligned(8))) ask;
	struct message_header messages[AT_ONCE];
	struct iovec vectors[AT_ONCE];
	uint8_t packets[AT_ONCE][LENGTH_AT + 2];
	uint8_t controls[AT_ONCE][CONTROL_BYTES];
};

struct timestamps *new_timestamps(void);
void expect_departure(struct call *call, const struct sender *sender);
int has_departed(struct replay *replay, const struct call *call, struct sender *sender, int64_t *on_line_ns);
