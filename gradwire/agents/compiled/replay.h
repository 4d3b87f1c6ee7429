/*
 * A replay of a plan for the ranks of some hosts: interpreter.py and loop.py, in C. Those two say what is done and why, and this does
 * the same in the same order, so that both write the same log to the nanosecond (tests/end_to_end/machine/test_compiled_agents.py).
 */
#pragma once

#include <stdint.h>

#include "border.h"
#include "calls.h"
#include "contention.h"
#include "interpreter.h"
#include "lanes.h"
#include "transfer.h"

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
	/* By stream, and by rank */
	struct computing *computing;
	struct communicating *communicating;
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
