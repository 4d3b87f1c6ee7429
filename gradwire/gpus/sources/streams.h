/* Streams: a queue and a thread each, which carries out what is queued, one after the other. */
#ifndef GRADWIRE_STREAMS_H
#define GRADWIRE_STREAMS_H
#include "hip.h"

typedef void (*hip_callback)(hip_stream, hip_error, void *);

/* A launch of a kernel. A collective library's kernels have three arguments of 8 bytes. */
struct launch {
	/* The address that the program knows the kernel by. */
	const void *function;
	const char *name;
	unsigned blocks, threads;
	uint64_t arguments[3];
};

enum task_kind { COPY, FILL, KERNEL, RECORD, WAIT, CALLBACK, HOLD };

/* What is queued. */
struct task {
	struct task *next;
	enum task_kind kind;
	union {
		struct {
			void *to;
			const void *from;
			size_t size_bytes;
			int value;
		};
		struct launch launch;
		struct {
			struct event *event;
			uint64_t recording;
		};
		struct {
			hip_callback call;
			void *data;
		};
		int64_t until_ns;
	};
};

/* Queues a copy of a task. */
hip_error queue(hip_stream stream, const struct task *task);

/* Of events.c: a recording of an event is reached, and the wait for it. */
void reach(struct event *event, uint64_t recording);
void await(struct event *event, uint64_t recording);
void let_go(struct event *event);
#endif
