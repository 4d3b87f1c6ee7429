/*
 * A replay of a plan for the ranks of some hosts: replay/interpreter.py and loop.py, in C. Those two say what is done and why, and this does
 * the same in the same order, so that both write the same log to the nanosecond (tests/end_to_end/machine/test_compiled_agents.py).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "calls.h"

#define MOST_PIECES 16 /* of a long message, in one list of calls */

/* As in datatypes/plan.py. */
enum kind { COMPUTE = 1, SEND, RECV, REDUCE };
enum combine { CONTROL = 1, COPY, ADD };
enum discipline { FIFO = 1, PRIORITY, COUNTER };

/* Lists of numbers in one column: list i is of[start[i]] up to of[start[i + 1]]. */
struct lists {
	const int64_t *start;
	const int32_t *of;
};

/* One end of a connection, as Python hands it over. */
struct end {
	int32_t descriptor, connection;
	int32_t destination; /* rank */
	int32_t has_line;
	double ns_per_byte;
	int64_t payload_bytes, header_bytes, overhead_bytes;
};

/* What Python hands over; the fields of `Given` in compiled/replay.py. Columns without a comment are those of the plan's ops. */
struct given {
	int64_t ops, queues, streams, slots, own, iterations, workers, senders, receivers;
	const uint8_t *kind;
	const int32_t *rank, *lane, *chunk;
	const int64_t *order, *duration_ns, *size_bytes;
	const uint8_t *combine, *received_as, *is_remote;
	const int32_t *tensor;    /* of each op's chunk; -1 for none */
	const int32_t *stream;    /* of each COMPUTE and REDUCE: which of all ranks' streams */
	const int32_t *slot;      /* of each SEND and RECV: its rank's holding of its chunk in the ledger; -1 for control messages */
	const int32_t *recv;      /* of each SEND to one of these ranks: its RECV */
	const int32_t *sender;    /* of each SEND of these ranks: its connection, as a place in `outgoing` */
	const int32_t *waits_first, *waits_later;
	const int64_t *own_ops;
	const uint8_t *lag;       /* of each entry of `successors` */
	struct lists successors;
	struct lists produces, consumes, needs; /* slots of each op */
	const int32_t *worker;    /* of each rank: its number as a worker, or -1 */
	const int32_t *whole;     /* of each slot: which of `wholes` makes it complete */
	const uint64_t *wholes;   /* sets of workers */
	const uint8_t *discipline;
	struct lists orders;      /* of each COUNTER queue: the ops of an iteration, by order */
	const struct end *outgoing, *incoming;
	int32_t payload, spare;   /* descriptor of the file that payload is sent from */
	int64_t start_ns;
	int64_t *log;             /* rows of five */
	int64_t *lateness_ns;
};

enum what { ITERATED = 1, FINISHED, FAILED };

enum failure {
	BROKEN_WHILE_SENDING = 1, /* which connection, error number */
	BROKEN,                   /* which connection, error number */
	CLOSED,                   /* which connection */
	HUNG_UP,                  /* which connection */
	TIMESTAMPS_UNREADABLE,    /* error number */
	TIMESTAMP_WITHOUT_NUMBER, /* level, type */
	FRAMING_LOST,             /* which connection, magic, version, bytes of the set, bytes of the message */
	NOBODY_WAITS,             /* which connection, message, iteration */
	CONTRIBUTIONS,            /* iteration, op, and the two sets */
	NOT_COMPLETE,             /* iteration, op, slot, iteration held, iteration needed */
	CALL_FAILED,              /* system call, error number */
};

/* The contributions to a chunk that a message carries or a rank has summed. */
struct contributions {
	int64_t iteration;
	uint64_t *workers;
};

/* What Python reads afterwards; the fields of `Told` in compiled/replay.py. */
struct told {
	int64_t iterations_done, rows, timers;
	int64_t messages_sent, messages_received, bytes_sent, bytes_received;
	int64_t failure, detail[5];
	struct contributions arrived, total;
};

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

/* A message that has arrived before its RECV could end. */
struct arrival {
	struct contributions carried;
	int64_t start_ns;
	struct arrival *next_free;
};

/* An iteration that has begun and not ended, with a place for each op of the plan. */
struct iteration {
	int32_t *pending;
	int64_t *ready_ns;
	struct arrival **arrivals;
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

struct replay {
	struct given given;
	struct told told;
	long set_words; /* of a set of workers */
	int64_t now_ns;
	/* The interpreter's */
	struct iteration **iterations, *free_iterations;
	struct arrival *free_arrivals;
	struct stream *streams;
	struct queue *queues;
	struct heap timers;
	struct ends ended;
	struct places streams_to_serve, queues_to_serve;
	struct outbox outbox;
	/* The ledger's: of each slot, the sum under way and the last complete iteration */
	struct contributions *sums;
	int64_t *complete;
	/* The loop's */
	struct sender *senders;
	struct receiver *receivers;
	int poll, timer, is_begun;
	int64_t timer_ns;
	struct calls list;
	struct call *of_ready; /* by place in epoll's data: the timer's, receivers', senders' */
	struct ready *ready;
	struct ready *wanted; /* of each sender: what it is to wait for */
	struct attempts attempts;
};

static inline int64_t larger(int64_t one, int64_t other)
{
	return one > other ? one : other;
}

static inline int64_t smaller(int64_t one, int64_t other)
{
	return one < other ? one : other;
}

/* Notes why the replay cannot go on; only the first reason counts. */
void fail(struct replay *replay, enum failure failure, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e);

/* ledger.c: the Ledger of datatypes/plan.py */
void open_ledger(struct replay *replay);
void produce(struct replay *replay, int32_t slot, int32_t worker, int64_t iteration);
void carry(struct replay *replay, int32_t slot, enum combine combine, struct contributions *carried);
int arrive(struct replay *replay, int32_t slot, enum combine combine, const struct contributions *arrived);
struct contributions new_contributions(const struct replay *replay);
void copy_contributions(const struct replay *replay, struct contributions *to, const struct contributions *from);

/* lanes.c: replay/lanes.py */
void open_lanes(struct replay *replay);
int pop_stream(struct stream *stream, struct entry *next);
void push_send(struct replay *replay, int32_t lane, int64_t ready_ns, int32_t iteration, int32_t op);
int pop_send(struct replay *replay, int32_t lane, struct entry *next);

/* interpreter.c: replay/interpreter.py */
void open_interpreter(struct replay *replay);
void begin(struct replay *replay, int64_t now_ns);
void advance(struct replay *replay, int64_t now_ns);
void sent(struct replay *replay, const struct sender *sender, int64_t on_line_ns);
void arrived(struct replay *replay, struct receiver *receiver);

/* departures.c */
void expect_departure(struct call *call, const struct sender *sender);
int has_departed(struct replay *replay, const struct call *call, struct sender *sender, int64_t *on_line_ns);

/* transfer.c: transfer.py */
void open_sender(struct replay *replay, struct sender *sender, const struct end *end);
void open_receiver(struct replay *replay, struct receiver *receiver, const struct end *end);
void begin_message(struct replay *replay, struct sender *sender, const struct outgoing *message);
void add_pump(struct replay *replay, struct sender *sender);
enum progress pumped(struct replay *replay, const struct attempt *attempt);
void expect_bytes(struct call *call, struct receiver *receiver);
void take_bytes(struct replay *replay, const struct call *call, struct receiver *receiver);
