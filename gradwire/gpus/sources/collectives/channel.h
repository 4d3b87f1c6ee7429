/*
 * What a collective library hands its kernels, in words of our own: communicators, channels, connections and work. A version's file
 * (rccl_2_13.c) reads them from that version's structures; all else here knows no version.
 */
#ifndef GRADWIRE_CHANNEL_H
#define GRADWIRE_CHANNEL_H
#include "../streams.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum protocol { LL, LL128, SIMPLE, PROTOCOLS };
enum algorithm { TREE, RING, COLLNET, ALGORITHMS };
enum collective_kind { BROADCAST, REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_REDUCE, COLLECTIVES };
/* In the order of ncclRedOp_t, and the two by which it computes averages. */
enum operation { SUM, PRODUCT, MAXIMUM, MINIMUM, SUM_OF_SCALED, DIVIDED_SUM, OPERATIONS };
/* In the order of ncclDataType_t. */
enum element_type { INT8, UINT8, INT32, UINT32, INT64, UINT64, FLOAT16, FLOAT32, FLOAT64, BFLOAT16, TYPES };
/* Steps that a connection's buffer holds, and threads of a wave. */
enum { STEPS = 8, WAVE_THREADS = 64, MOST_CHILDREN = 3 };

struct layout;

struct communicator {
	const struct layout *layout;
	int rank, ranks;
	size_t buffer_bytes[PROTOCOLS];
	volatile uint32_t *is_aborted;
	void *channels;
};

/* Parent and children; -1 for none. */
struct tree {
	int up, down[MOST_CHILDREN];
};

struct ring {
	int previous, next;
	/* All ranks from this one on, in the ring's order; and this one's place in the ring. */
	const int *ranks;
	int index;
};

struct channel {
	struct ring ring;
	/* The second tree is the one that LL and LL128 may take (binTree). */
	struct tree tree, second_tree;
	void *peers;
	/* Where the device says which work it has taken from the queue. */
	volatile uint32_t *acknowledged;
};

enum direction { FROM_PEER, TO_PEER };

struct connection {
	char *buffers[PROTOCOLS];
	/* Steps that were written, by the sender's end, and that were read, by the receiver's. */
	volatile uint64_t *tail, *head;
	/* By step, in the queue to a proxy: bytes that were written, and where in a shared buffer; NULL for none. */
	volatile int *sizes, *offsets;
	/* Where the next kernel finds how many steps there were. */
	uint64_t *steps;
};

/* One channel's part of a collective. */
struct collective {
	enum collective_kind kind;
	enum algorithm algorithm;
	enum protocol protocol;
	enum element_type type;
	enum operation operation;
	int part, parts, threads, root, connection, takes_second_tree;
	char *send, *receive;
	ssize_t count, last_chunk;
	uint64_t argument;
};

/* A message to a peer or from it; a peer that is the rank itself is a copy between two of them. */
struct transfer {
	enum direction direction;
	int peer, connection;
	char *buffer;
	size_t size_bytes, chunk_bytes;
};

enum { MOST_TRANSFERS = 8 };
enum work_kind { COLLECTIVE_WORK, ONE_RANK_WORK, TRANSFER_WORK };

/* An entry of a channel's queue. */
struct work {
	enum work_kind kind;
	struct collective collective;
	struct transfer transfers[MOST_TRANSFERS];
	int transfer_count;
	/* Place of the next entry; none after the last. */
	int next, is_last;
	int is_acknowledged;
	uint32_t acknowledgement;
};

/* How a version of the library is read. */
struct layout {
	/* As ncclGetVersion has it. */
	int version;
	const char *name;
	void (*read_communicator)(const struct launch *launch, struct communicator *found);
	uint64_t (*channels_of)(const struct launch *launch);
	void (*read_channel)(const struct communicator *communicator, int number, struct channel *found);
	void (*read_connection)(const struct channel *channel, int peer, int number, enum direction direction, struct connection *found);
	/* The entry at a place of the queue that a launch begins with. */
	void (*read_work)(const struct launch *launch, int place, struct work *found);
};

/* The layout of the library that has launched a kernel. Ends the program, with the version, if there is none. */
const struct layout *layout_of(const struct launch *launch);
size_t size_of_type(enum element_type type);
const char *name_of_collective(enum collective_kind kind);
#endif
