/*
 * What the compiled agent shares with Python, which says it. Written by border.py beside this file, and not by hand:
 * `python -m gradwire.agents.compiled.border`
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Of the rest of this file: compared when the agent is loaded */
#define BORDER_DIGEST UINT64_C(0x59c5f6af135851d9)

/* What Python found where */
#define SIZED(type, size_bytes) _Static_assert(sizeof(type) == (size_bytes), #type " has another size in Python")
#define PLACED(type, field, at) \
	_Static_assert(offsetof(type, field) == (at), #field " of " #type " is elsewhere in Python")

/* agents/transfer.py */
#define PAYLOAD_FILE_BYTES INT64_C(16777216)
#define INLINE_BYTES 4096
#define READ_BYTES 16384
#define SKIP_BYTES INT64_C(268435456)
#define LOW_WATER_BYTES INT64_C(1048576)

/* datatypes/wire/framing.py */
#define MAGIC INT64_C(1196902738)
#define VERSION 1
#define HELLO_BYTES 8
#define FIXED_BYTES 48

/* agents/departures.py */
#define SO_TIMESTAMPING_NUMBER 37
#define IP_RECVERR_NUMBER 11
#define TX_SOFTWARE 2
#define LENGTH_AT 16
#define AT_ONCE 8
#define CONTROL_BYTES 112

/* datatypes/plan.py */
#define FULL_SPEED 1000

/* agents/op_state.py, whose columns are those of OpLog */
#define LOG_COLUMNS 5
#define LOG_ITERATION 0
#define LOG_OP 1
#define LOG_NOMINAL_START_NS 2
#define LOG_START_NS 3
#define LOG_END_NS 4

/* The fixed part of a header, big-endian: datatypes/wire/framing.py */
#define HEADER_MAGIC_AT 0
#define HEADER_MAGIC_BYTES 4
#define HEADER_VERSION_AT 4
#define HEADER_VERSION_BYTES 1
#define HEADER_FLAGS_AT 5
#define HEADER_FLAGS_BYTES 1
#define HEADER_MASK_BYTES_AT 6
#define HEADER_MASK_BYTES_BYTES 2
#define HEADER_ITERATION_AT 8
#define HEADER_ITERATION_BYTES 4
#define HEADER_CONTRIBUTED_TO_AT 12
#define HEADER_CONTRIBUTED_TO_BYTES 4
#define HEADER_MESSAGE_AT 16
#define HEADER_MESSAGE_BYTES 8
#define HEADER_SRC_RANK_AT 24
#define HEADER_SRC_RANK_BYTES 4
#define HEADER_DST_RANK_AT 28
#define HEADER_DST_RANK_BYTES 4
#define HEADER_TENSOR_AT 32
#define HEADER_TENSOR_BYTES 4
#define HEADER_CHUNK_AT 36
#define HEADER_CHUNK_BYTES 4
#define HEADER_SIZE_BYTES_AT 40
#define HEADER_SIZE_BYTES_BYTES 8

/* What comes with a timestamp: ANCILLARY of agents/departures.py */
#define CONTROL_LENGTH_AT 64
#define CONTROL_LENGTH_BYTES 8
#define CONTROL_LEVEL_AT 72
#define CONTROL_LEVEL_BYTES 4
#define CONTROL_TYPE_AT 76
#define CONTROL_TYPE_BYTES 4
#define CONTROL_ERROR_AT 80
#define CONTROL_ERROR_BYTES 4
#define CONTROL_ORIGIN_AT 84
#define CONTROL_ORIGIN_BYTES 1
#define CONTROL_OF_TYPE_AT 85
#define CONTROL_OF_TYPE_BYTES 1
#define CONTROL_CODE_AT 86
#define CONTROL_CODE_BYTES 1
#define CONTROL_PADDING_AT 87
#define CONTROL_PADDING_BYTES 1
#define CONTROL_INFORMATION_AT 88
#define CONTROL_INFORMATION_BYTES 4
#define CONTROL_NUMBER_AT 92
#define CONTROL_NUMBER_BYTES 4

/* datatypes/plan.py: OpKind */
enum kind {
	COMPUTE = 1,
	SEND = 2,
	RECV = 3,
	REDUCE = 4,
};

/* datatypes/plan.py: Combine */
enum combine {
	CONTROL = 1,
	COPY = 2,
	ADD = 3,
};

/* datatypes/plan.py: Discipline */
enum discipline {
	FIFO = 1,
	PRIORITY = 2,
	COUNTER = 3,
};

/* agents/compiled/structures.py: What, why go_on returns */
enum what {
	ITERATED = 1,
	FINISHED = 2,
	FAILED = 3,
};

/* agents/compiled/structures.py */
enum failure {
	BROKEN_WHILE_SENDING = 1,
	BROKEN = 2,
	CLOSED = 3,
	HUNG_UP = 4,
	TIMESTAMPS_UNREADABLE = 5,
	TIMESTAMP_WITHOUT_NUMBER = 6,
	FRAMING_LOST = 7,
	NOBODY_WAITS = 8,
	CONTRADICTORY = 9,
	NOT_COMPLETE = 10,
	CALL_FAILED = 11,
};

/* A connection broke while a message was handed over. */
struct broken_while_sending {
	int64_t connection;
	int64_t error;
};
SIZED(struct broken_while_sending, 16);
PLACED(struct broken_while_sending, connection, 0);
PLACED(struct broken_while_sending, error, 8);

/* A connection broke while a message was received. */
struct broken {
	int64_t connection;
	int64_t error;
};
SIZED(struct broken, 16);
PLACED(struct broken, connection, 0);
PLACED(struct broken, error, 8);

/* The other end closed a connection that begins there. */
struct closed {
	int64_t connection;
};
SIZED(struct closed, 8);
PLACED(struct closed, connection, 0);

/* The other end closed a connection that begins here. */
struct hung_up {
	int64_t connection;
};
SIZED(struct hung_up, 8);
PLACED(struct hung_up, connection, 0);

/* The timestamps of a socket cannot be read. */
struct timestamps_unreadable {
	int64_t error;
};
SIZED(struct timestamps_unreadable, 8);
PLACED(struct timestamps_unreadable, error, 0);

/* A timestamp came with another control message than its number: that one's level and type. */
struct timestamp_without_number {
	int64_t level;
	int64_t type;
};
SIZED(struct timestamp_without_number, 16);
PLACED(struct timestamp_without_number, level, 0);
PLACED(struct timestamp_without_number, type, 8);

/* What a connection brought is not a header of this plan, or one of a message of fewer than 0 bytes. */
struct framing_lost {
	int64_t connection;
	int64_t magic;
	int64_t version;
	int64_t set_bytes;
	int64_t size_bytes;
};
SIZED(struct framing_lost, 40);
PLACED(struct framing_lost, connection, 0);
PLACED(struct framing_lost, magic, 8);
PLACED(struct framing_lost, version, 16);
PLACED(struct framing_lost, set_bytes, 24);
PLACED(struct framing_lost, size_bytes, 32);

/* A message came that no RECV waits for. */
struct nobody_waits {
	int64_t connection;
	int64_t message;
	int64_t iteration;
};
SIZED(struct nobody_waits, 24);
PLACED(struct nobody_waits, connection, 0);
PLACED(struct nobody_waits, message, 8);
PLACED(struct nobody_waits, iteration, 16);

/* The contributions that a message brought do not add up with those held: `arrived` and `total` of Told. */
struct contradictory {
	int64_t iteration;
	int64_t op;
};
SIZED(struct contradictory, 16);
PLACED(struct contradictory, iteration, 0);
PLACED(struct contradictory, op, 8);

/* An op begins that needs the chunk in a slot of the ledger whole from one iteration, and it is from another. */
struct not_complete {
	int64_t iteration;
	int64_t op;
	int64_t slot;
	int64_t held;
	int64_t needed;
};
SIZED(struct not_complete, 40);
PLACED(struct not_complete, iteration, 0);
PLACED(struct not_complete, op, 8);
PLACED(struct not_complete, slot, 16);
PLACED(struct not_complete, held, 24);
PLACED(struct not_complete, needed, 32);

/* A system call failed that may not. */
struct call_failed {
	int64_t number;
	int64_t error;
};
SIZED(struct call_failed, 16);
PLACED(struct call_failed, number, 0);
PLACED(struct call_failed, error, 8);

union details {
	struct broken_while_sending broken_while_sending;
	struct broken broken;
	struct closed closed;
	struct hung_up hung_up;
	struct timestamps_unreadable timestamps_unreadable;
	struct timestamp_without_number timestamp_without_number;
	struct framing_lost framing_lost;
	struct nobody_waits nobody_waits;
	struct contradictory contradictory;
	struct not_complete not_complete;
	struct call_failed call_failed;
};
SIZED(union details, 40);

/* Lists of numbers in one column: list i is of[start[i]] up to of[start[i + 1]]. */
struct lists {
	const int64_t *start;
	const int32_t *of;
};
SIZED(struct lists, 16);
PLACED(struct lists, start, 0);
PLACED(struct lists, of, 8);

/* One end of a connection. */
struct end {
	int32_t descriptor;
	int32_t connection; /* its number */
	int32_t destination; /* a rank */
	int32_t has_line;
	double ns_per_byte;
	int64_t payload_bytes;
	int64_t header_bytes;
	int64_t overhead_bytes;
};
SIZED(struct end, 48);
PLACED(struct end, descriptor, 0);
PLACED(struct end, connection, 4);
PLACED(struct end, destination, 8);
PLACED(struct end, has_line, 12);
PLACED(struct end, ns_per_byte, 16);
PLACED(struct end, payload_bytes, 24);
PLACED(struct end, header_bytes, 32);
PLACED(struct end, overhead_bytes, 40);

/* What Python hands over. Columns without a comment are those of the plan's ops. */
struct given {
	int64_t ops;
	int64_t queues;
	int64_t streams;
	int64_t slots; /* places of the ledger: what one rank holds of one chunk */
	int64_t own; /* ops of the hosts' ranks */
	int64_t iterations;
	int64_t workers;
	int64_t senders;
	int64_t receivers;
	int64_t ranks;
	int64_t transfers;
	int64_t speed_permille; /* of computation while its rank communicates; FULL_SPEED: nothing below is read */
	const uint8_t *kind;
	const int32_t *rank;
	const int32_t *lane;
	const int32_t *chunk;
	const int64_t *order;
	const int64_t *duration_ns;
	const int64_t *size_bytes;
	const uint8_t *combine;
	const uint8_t *received_as;
	const uint8_t *is_remote;
	const int32_t *tensor; /* of each op's chunk; -1 for none */
	const int32_t *stream; /* of each COMPUTE and REDUCE: which of all ranks' streams */
	const int32_t *slot; /* of each SEND and RECV: its rank's holding of its chunk in the ledger; -1 for control messages */
	const int32_t *recv; /* of each SEND to one of these ranks: its RECV */
	const int32_t *sender; /* of each SEND of these ranks: its connection, as a place in `outgoing` */
	const int32_t *waits_first;
	const int32_t *waits_later;
	const int64_t *own_ops;
	const uint8_t *lag; /* of each entry of `successors` */
	struct lists successors;
	struct lists produces; /* slots of each op */
	struct lists consumes; /* the same */
	struct lists needs; /* the same */
	const int32_t *worker; /* of each rank: its number as a worker, or -1 */
	const int32_t *whole; /* of each slot: which of `wholes` makes it complete */
	const uint64_t *wholes; /* sets of workers */
	const uint8_t *discipline;
	struct lists orders; /* of each COUNTER queue: the ops of an iteration, by order */
	const struct end *outgoing;
	const struct end *incoming;
	const int32_t *transfer_of; /* of each op: the transfer of its message; -1 for none */
	const int32_t *transfer_rank;
	const int32_t *transfer_messages;
	const uint8_t *slows; /* of each op */
	const int64_t *first_stream; /* of each rank, and one more */
	int32_t payload; /* descriptor of the file that payload is sent from */
	int32_t spare;
	int64_t start_ns;
	int64_t *log; /* rows of LOG_COLUMNS */
	int64_t *lateness_ns; /* of each timer */
};
SIZED(struct given, 448);
PLACED(struct given, ops, 0);
PLACED(struct given, queues, 8);
PLACED(struct given, streams, 16);
PLACED(struct given, slots, 24);
PLACED(struct given, own, 32);
PLACED(struct given, iterations, 40);
PLACED(struct given, workers, 48);
PLACED(struct given, senders, 56);
PLACED(struct given, receivers, 64);
PLACED(struct given, ranks, 72);
PLACED(struct given, transfers, 80);
PLACED(struct given, speed_permille, 88);
PLACED(struct given, kind, 96);
PLACED(struct given, rank, 104);
PLACED(struct given, lane, 112);
PLACED(struct given, chunk, 120);
PLACED(struct given, order, 128);
PLACED(struct given, duration_ns, 136);
PLACED(struct given, size_bytes, 144);
PLACED(struct given, combine, 152);
PLACED(struct given, received_as, 160);
PLACED(struct given, is_remote, 168);
PLACED(struct given, tensor, 176);
PLACED(struct given, stream, 184);
PLACED(struct given, slot, 192);
PLACED(struct given, recv, 200);
PLACED(struct given, sender, 208);
PLACED(struct given, waits_first, 216);
PLACED(struct given, waits_later, 224);
PLACED(struct given, own_ops, 232);
PLACED(struct given, lag, 240);
PLACED(struct given, successors, 248);
PLACED(struct given, produces, 264);
PLACED(struct given, consumes, 280);
PLACED(struct given, needs, 296);
PLACED(struct given, worker, 312);
PLACED(struct given, whole, 320);
PLACED(struct given, wholes, 328);
PLACED(struct given, discipline, 336);
PLACED(struct given, orders, 344);
PLACED(struct given, outgoing, 360);
PLACED(struct given, incoming, 368);
PLACED(struct given, transfer_of, 376);
PLACED(struct given, transfer_rank, 384);
PLACED(struct given, transfer_messages, 392);
PLACED(struct given, slows, 400);
PLACED(struct given, first_stream, 408);
PLACED(struct given, payload, 416);
PLACED(struct given, spare, 420);
PLACED(struct given, start_ns, 424);
PLACED(struct given, log, 432);
PLACED(struct given, lateness_ns, 440);

/* The contributions to a chunk that a message carries or a rank has summed. */
struct contributions {
	int64_t iteration;
	uint64_t *workers;
};
SIZED(struct contributions, 16);
PLACED(struct contributions, iteration, 0);
PLACED(struct contributions, workers, 8);

/* What Python reads afterwards. */
struct told {
	int64_t iterations_done;
	int64_t rows; /* of the log */
	int64_t timers;
	int64_t messages_sent;
	int64_t messages_received;
	int64_t bytes_sent;
	int64_t bytes_received;
	int64_t failure; /* an enum failure, or 0 */
	union details details; /* of that failure */
	struct contributions arrived; /* what CONTRADICTORY is about */
	struct contributions total; /* the same */
};
SIZED(struct told, 136);
PLACED(struct told, iterations_done, 0);
PLACED(struct told, rows, 8);
PLACED(struct told, timers, 16);
PLACED(struct told, messages_sent, 24);
PLACED(struct told, messages_received, 32);
PLACED(struct told, bytes_sent, 40);
PLACED(struct told, bytes_received, 48);
PLACED(struct told, failure, 56);
PLACED(struct told, details, 64);
PLACED(struct told, arrived, 104);
PLACED(struct told, total, 120);
