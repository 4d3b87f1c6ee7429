/* What asks for a timestamp with a message's last piece, and what timestamps are read into: departures.py says how. */
#pragma once

#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define LENGTH_AT 16
#define AT_ONCE 8
#define CONTROL_BYTES 112

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
