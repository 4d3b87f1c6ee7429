/*
 * The structures of RCCL 2.13.4 (ROCm 5.4), as its kernels get them. Facts of its public source at tag rocm-5.4.3: src/include/devcomm.h,
 * and the lines of it that stand beside each structure.
 *
 * Debian's build (librccl1 5.4.3-3) has its trace of collectives and no NPKit, which only changes what comes after the members here.
 */
#include "rccl_2_13.h"

#include "../ending.h"

#include <string.h>

enum { CONNECTIONS = 3 };

struct connection_2_13 { /* ncclConnInfo, lines 91-113 */
	char *buffers[PROTOCOLS];
	volatile uint64_t *tail, *head;
	int direct, shared;
	void **exchanged_pointers;
	uint64_t *exchanged_arguments;
	volatile int *sizes, *offsets;
	uint64_t steps, last_cleaning;
	uint32_t *next_flush, *own_flush;
};

struct peer_2_13 { /* ncclDevChannelPeer, lines 288-294 */
	struct connection_2_13 send[CONNECTIONS], receive[CONNECTIONS];
};

struct tree_2_13 { /* ncclTree, lines 146-150 */
	int depth, up, down[MOST_CHILDREN];
};

struct channel_2_13 { /* ncclDevChannel, lines 355-362 */
	struct peer_2_13 *peers;
	struct { /* ncclRing, lines 131-142 */
		int previous, next;
		int *ranks;
		int index;
	} ring;
	struct tree_2_13 tree, second_tree;
	struct { /* ncclDirect, lines 152-161 */
		int depth, out, heads, head_rank, shift, up[7], down[7];
	} collnet;
	volatile uint32_t *acknowledged;
} __attribute__((aligned(16)));

struct communicator_2_13 { /* ncclDevComm, lines 364-393 */
	int rank, ranks, buffer_bytes[PROTOCOLS], queue_depth;
	void *queue;
	volatile uint32_t *is_aborted;
	struct channel_2_13 *channels;
};

struct collective_2_13 { /* ncclWorkElem, lines 202-230 */
	uint8_t is_used : 1, has_argument_pointer : 1, is_registered : 1, waves : 5;
	uint8_t direct, part, parts;
	uint32_t root : 28, second_tree : 2, connection : 2;
	char *send, *receive;
	size_t count, last_chunk;
	uint64_t argument, number;
};

struct transfer_2_13 { /* ncclWorkElemP2p, lines 235-258 */
	int32_t peer : 30;
	uint32_t connection : 2;
	uint16_t kind : 4, waves : 4, first_wave : 4, groups : 4;
	uint16_t number;
	uint32_t buffer_high, buffer_low, count_high, count_low;
	int chunk_bytes;
};

enum { TRANSFERS = 2 }; /* NCCL_MAX_WORK_ELEMENTS_P2P, line 261 */

struct work_2_13 { /* ncclWork, lines 276-284, with ncclWorkHeader, lines 191-200 */
	union {
		int32_t next;
		uint32_t acknowledgement;
	};
	uint16_t function;
	uint8_t is_last : 1, is_in_queue : 1;
	uint8_t kind;
	union {
		char size[248];
		struct collective_2_13 collective;
		struct transfer_2_13 transfers[TRANSFERS];
	};
};

_Static_assert(sizeof(struct connection_2_13) == 112 && sizeof(struct peer_2_13) == 672, "RCCL 2.13: connections");
_Static_assert(sizeof(struct channel_2_13) == 160 && offsetof(struct channel_2_13, acknowledged) == 152, "RCCL 2.13: channels");
_Static_assert(offsetof(struct communicator_2_13, channels) == 40, "RCCL 2.13: communicators");
_Static_assert(sizeof(struct collective_2_13) == 56 && sizeof(struct transfer_2_13) == 28, "RCCL 2.13: elements of work");
_Static_assert(sizeof(struct work_2_13) == 256 && offsetof(struct work_2_13, collective) == 8, "RCCL 2.13: work");

/* ncclWorkType, lines 179-184; ncclWorkP2PType, lines 185-189 */
enum { COLLECTIVE_KIND = 1, TRANSFER_KIND = 2, UNUSED_TRANSFER = 0 };
/*
 * Numbers of functions: a table of collectives, operations, types, algorithms and protocols, then one function per type for one rank, then
 * messages (src/collectives/device/common.h, lines 284-313; src/include/collectives.h: FUNC_INDEX_P2P is 2710).
 */
enum {
	FIRST_ONE_RANK = COLLECTIVES * OPERATIONS * TYPES * ALGORITHMS * PROTOCOLS,
	TRANSFER_FUNCTION = FIRST_ONE_RANK + TYPES,
};
_Static_assert(TRANSFER_FUNCTION == 2710, "RCCL 2.13: functions");
/* The mark of a collective that takes the second tree (src/enqueue.cc, lines 1226-1231; all_reduce.h, line 379). */
enum { SECOND_TREE = 2 };

static void read_communicator(const struct launch *launch, struct communicator *found)
{
	const struct communicator_2_13 *given = (const void *)launch->arguments[0];

	found->rank = given->rank;
	found->ranks = given->ranks;
	for (int protocol = 0; protocol < PROTOCOLS; protocol++)
		found->buffer_bytes[protocol] = (size_t)given->buffer_bytes[protocol];
	found->is_aborted = given->is_aborted;
	found->channels = given->channels;
}

static uint64_t channels_of(const struct launch *launch)
{
	return launch->arguments[1];
}

static struct tree tree_of(const struct tree_2_13 *given)
{
	return (struct tree){.up = given->up, .down = {given->down[0], given->down[1], given->down[2]}};
}

static void read_channel(const struct communicator *communicator, int number, struct channel *found)
{
	const struct channel_2_13 *given = (const struct channel_2_13 *)communicator->channels + number;

	found->ring = (struct ring){given->ring.previous, given->ring.next, given->ring.ranks, given->ring.index};
	found->tree = tree_of(&given->tree);
	found->second_tree = tree_of(&given->second_tree);
	found->peers = given->peers;
	found->acknowledged = given->acknowledged;
}

static void read_connection(const struct channel *channel, int peer, int number, enum direction direction, struct connection *found)
{
	struct peer_2_13 *of_peer = (struct peer_2_13 *)channel->peers + peer;
	struct connection_2_13 *given = direction == FROM_PEER ? &of_peer->receive[number] : &of_peer->send[number];

	for (int protocol = 0; protocol < PROTOCOLS; protocol++)
		found->buffers[protocol] = given->buffers[protocol];
	found->tail = given->tail;
	found->head = given->head;
	found->sizes = given->sizes;
	found->offsets = given->offsets;
	found->steps = &given->steps;
}

static void read_collective(const struct collective_2_13 *given, struct collective *found)
{
	found->part = given->part;
	found->parts = given->parts;
	found->threads = given->waves * WAVE_THREADS;
	found->root = (int)given->root;
	found->connection = (int)given->connection;
	found->takes_second_tree = given->second_tree == SECOND_TREE;
	found->send = given->send;
	found->receive = given->receive;
	found->count = (ssize_t)given->count;
	found->last_chunk = (ssize_t)given->last_chunk;
	found->argument = given->argument;
	if (given->has_argument_pointer) {
		found->argument = 0;
		memcpy(&found->argument, (const void *)given->argument, size_of_type(found->type));
	}
}

static void read_function(int function, struct collective *found)
{
	found->protocol = function % PROTOCOLS;
	function /= PROTOCOLS;
	found->algorithm = function % ALGORITHMS;
	function /= ALGORITHMS;
	found->type = function % TYPES;
	function /= TYPES;
	found->operation = function % OPERATIONS;
	found->kind = function / OPERATIONS;
	if (found->kind == BROADCAST || found->kind == ALL_GATHER) { /* count bytes: common.h, lines 252-262 */
		found->type = INT8;
		found->operation = SUM;
	}
}

static void read_transfers(const struct transfer_2_13 *given, struct work *found)
{
	for (int group = 0; group < given[0].groups && group < TRANSFERS; group++) {
		const struct transfer_2_13 *one = &given[group];

		if (one->kind == UNUSED_TRANSFER || one->peer < 0)
			continue;
		found->transfers[found->transfer_count++] = (struct transfer){
			.direction = group % 2 ? TO_PEER : FROM_PEER,
			.peer = one->peer,
			.connection = (int)one->connection,
			.buffer = (char *)((uint64_t)one->buffer_high << 32 | one->buffer_low),
			.size_bytes = (uint64_t)one->count_high << 32 | one->count_low,
			.chunk_bytes = (size_t)one->chunk_bytes,
		};
	}
}

static void read_work(const struct launch *launch, int place, struct work *found)
{
	const struct work_2_13 given = ((const struct work_2_13 *)launch->arguments[2])[place];

	*found = (struct work){
		.is_last = given.is_last,
		.next = given.next,
		.is_acknowledged = given.is_last && given.is_in_queue,
		.acknowledgement = given.acknowledgement,
	};
	if (given.kind == TRANSFER_KIND) {
		found->kind = TRANSFER_WORK;
		read_transfers(given.transfers, found);
	} else if (given.kind == COLLECTIVE_KIND && given.function < FIRST_ONE_RANK) {
		found->kind = COLLECTIVE_WORK;
		read_function(given.function, &found->collective);
		read_collective(&given.collective, &found->collective);
	} else if (given.kind == COLLECTIVE_KIND && given.function < TRANSFER_FUNCTION) {
		found->kind = ONE_RANK_WORK;
		found->collective.type = given.function - FIRST_ONE_RANK;
		found->collective.operation = SUM_OF_SCALED;
		read_collective(&given.collective, &found->collective);
	} else {
		end_program("RCCL 2.13.4 launches function %d of kind %d, which is not there", given.function, given.kind);
	}
}

const struct layout rccl_2_13_4 = {
	.version = 21304,
	.name = "RCCL 2.13.4",
	.read_communicator = read_communicator,
	.channels_of = channels_of,
	.read_channel = read_channel,
	.read_connection = read_connection,
	.read_work = read_work,
};
