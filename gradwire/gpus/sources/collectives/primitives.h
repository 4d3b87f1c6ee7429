/*
 * A block's ends of its connections, and the one step that all collectives are made of: what comes from peers is combined with what lies in
 * the input or output, and goes to the output, to peers, or both. By protocol, in simple.c, ll.c and ll128.c.
 *
 * How bytes are divided into steps has to agree exactly with the library's proxies, which count steps by the same formulas.
 */
#ifndef GRADWIRE_PRIMITIVES_H
#define GRADWIRE_PRIMITIVES_H
#include "../device_time.h"
#include "channel.h"

/* What runs a channel's work on this rank. */
struct block {
	struct communicator *communicator;
	struct channel channel;
	const struct launch *launch;
};

/* One end of a connection: the step that is next. */
struct end {
	struct connection connection;
	uint64_t step;
};

/* Peers of one step: children of a tree (NCCL_MAX_DEV_ARITY is 2 of its 3). */
enum { MOST_PEERS = 3 };
enum buffer { NO_BUFFER = -1, INPUT, OUTPUT };

struct primitives {
	const struct communicator *communicator;
	enum protocol protocol;
	enum element_type type;
	enum operation operation;
	size_t element_bytes, step_bytes;
	/* Slices of a chunk, each of so many steps, by the protocol Simple. */
	int slices, slice_steps;
	uint64_t argument;
	char *buffers[2];
	/* Whether bytes are moved; otherwise only the steps are counted. */
	int moves;
	struct end from[MOST_PEERS], to[MOST_PEERS];
	int from_count, to_count;
	/* For LL and LL128: what came, and what goes, where that is no buffer's. */
	char *received, *sent;
};

/* How a block's primitives are opened. Peers end with -1. */
struct opening {
	enum protocol protocol;
	enum element_type type;
	enum operation operation;
	int slices, slice_steps, connection;
	const int *from, *to;
	int most_from, most_to;
	char *input, *output;
	uint64_t argument;
	int moves;
};

/* A step with this many elements; fewer than one count as none. */
struct step {
	enum buffer source;
	ssize_t source_at;
	enum buffer target;
	ssize_t target_at;
	ssize_t count;
	int receives, sends;
	/* Whether what comes out is the collective's result, not a part of it. */
	int is_result;
};

void open_primitives(struct primitives *opened, struct block *block, const struct opening *how);
void close_primitives(struct primitives *opened);
void carry_out(struct primitives *of, struct step step);

/* Of the protocols. */
void carry_out_simple(struct primitives *of, const struct step *step);
void carry_out_ll(struct primitives *of, const struct step *step);
void carry_out_ll128(struct primitives *of, const struct step *step);

/* Of a buffer, the address of an element; NULL for none. */
char *address_in(const struct primitives *of, enum buffer buffer, ssize_t at);
/* Combines a source (or none) with what came from peers. The output may be the source. */
void combine(const struct primitives *of, char *out, const char *source, int is_input, char **came, int came_count, size_t size_bytes,
	     int is_result);
/* For LL and LL128, whose steps have peers one after the other. */
void combine_received(const struct primitives *of, char *out, const char *source, int is_input, int peer, size_t size_bytes,
		      int is_result);
/* Waits until an end has room for so many more steps, or so many more that came; or until the communicator is aborted. */
void wait_for_room(const struct primitives *of, const struct end *to, int steps);
void wait_for_steps(const struct primitives *of, const struct end *from, int steps);
/* For LL and LL128: where the lines of a step lie; and as long a wait as a step takes, with lines of so many bytes for each peer. */
char *lines_at(const struct primitives *of, const struct end *end);
void take_time_with_lines(const struct primitives *of, const struct step *step, size_t size_bytes, size_t line_bytes);
/* Waits for as long as the device takes for the traffic. */
void take_time(const struct traffic *traffic);

ssize_t smaller(ssize_t left, ssize_t right);
ssize_t divide_up(ssize_t number, ssize_t divisor);
/* Elements of data in a step of the protocol. */
ssize_t step_elements(const struct communicator *communicator, enum protocol protocol, enum element_type type);
#endif
