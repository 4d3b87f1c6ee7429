/* Streams, and what programs put into them. */
#include "streams.h"

#include "device_time.h"
#include "ending.h"
#include "kernels.h"
#include "memory.h"
#include "settings.h"
#include "waits.h"

#include <pthread.h>
#include <stdlib.h>

/* hipStreamNonBlocking: the stream does not wait for the null stream, nor that for it. */
enum { NON_BLOCKING = 1 };
/* hipStreamPerThread and hipStreamLegacy are small numbers that stand for a stream. */
enum { LAST_NUMBER_OF_A_STREAM = 2 };

struct stream {
	struct stream *next;
	pthread_mutex_t lock;
	pthread_cond_t more, idle;
	struct task *first, *last;
	uint64_t queued, done;
	int device, blocking, has_thread, ending;
};

static struct stream null_stream = {
	.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER, .blocking = 1};
static struct stream *streams;
static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;

static struct stream *stream_of(hip_stream stream)
{
	return (uintptr_t)stream > LAST_NUMBER_OF_A_STREAM ? stream : &null_stream;
}

static int64_t end_of_move(const struct task *task)
{
	struct traffic traffic = {0};

	add_write(&traffic, task->to, task->size_bytes);
	if (task->kind == COPY)
		add_read(&traffic, task->from, task->size_bytes);
	return end_of(&traffic);
}

static void perform(struct stream *stream, const struct task *task)
{
	switch (task->kind) {
	case COPY:
		sleep_until(end_of_move(task));
		move_memory(task->to, task->from, task->size_bytes);
		break;
	case FILL:
		sleep_until(end_of_move(task));
		fill_memory(task->to, task->value, task->size_bytes);
		break;
	case KERNEL:
		sleep_until(now_ns() + settings.launch_ns);
		run_kernel(&task->launch);
		break;
	case RECORD:
		reach(task->event, task->recording);
		let_go(task->event);
		break;
	case WAIT:
		await(task->event, task->recording);
		let_go(task->event);
		break;
	case CALLBACK: task->call(stream == &null_stream ? NULL : stream, SUCCESS, task->data); break;
	case HOLD: sleep_until(task->until_ns); break;
	}
}

static void *carry_out(void *argument)
{
	struct stream *stream = argument;

	use_device(stream->device);
	pthread_mutex_lock(&stream->lock);
	for (;;) {
		struct task *task;

		while (!stream->first && !stream->ending)
			pthread_cond_wait(&stream->more, &stream->lock);
		task = stream->first;
		if (!task)
			break;
		pthread_mutex_unlock(&stream->lock);
		perform(stream, task);
		pthread_mutex_lock(&stream->lock);
		stream->first = task->next;
		if (!stream->first)
			stream->last = NULL;
		stream->done++;
		pthread_cond_broadcast(&stream->idle);
		free(task);
	}
	pthread_mutex_unlock(&stream->lock);
	free(stream);
	return NULL;
}

/* A recording behind which nothing waits needs no thread: what is asked for is there at once. */
static int is_at_once(const struct stream *stream, const struct task *task)
{
	return !stream->first && task->kind == RECORD;
}

hip_error queue(hip_stream handle, const struct task *given)
{
	struct stream *stream = stream_of(handle);
	struct task *task;

	pthread_mutex_lock(&stream->lock);
	if (is_at_once(stream, given)) {
		perform(stream, given);
		pthread_mutex_unlock(&stream->lock);
		return SUCCESS;
	}
	task = malloc(sizeof(*task));
	if (!task)
		end_program("no memory for a stream's queue");
	*task = *given;
	task->next = NULL;
	if (stream->last)
		stream->last->next = task;
	else
		stream->first = task;
	stream->last = task;
	stream->queued++;
	if (!stream->has_thread) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, carry_out, stream))
			end_program("no thread for a stream");
		pthread_detach(thread);
		stream->has_thread = 1;
	}
	pthread_cond_signal(&stream->more);
	pthread_mutex_unlock(&stream->lock);
	if (waits_done) /* what the program wrote before, such as work for a proxy, has not been looked at */
		waits_done();
	return SUCCESS;
}

static void drain(struct stream *stream)
{
	uint64_t until;

	pthread_mutex_lock(&stream->lock);
	until = stream->queued;
	while (stream->done < until)
		pthread_cond_wait(&stream->idle, &stream->lock);
	pthread_mutex_unlock(&stream->lock);
}

static int is_busy(struct stream *stream)
{
	int busy;

	pthread_mutex_lock(&stream->lock);
	busy = stream->done < stream->queued;
	pthread_mutex_unlock(&stream->lock);
	return busy;
}

/* Waits until the streams have nothing queued that was there: all of the thread's device, or those that the null stream waits for. */
static void drain_streams(int only_blocking)
{
	for (;;) {
		struct stream *busy = NULL;

		pthread_mutex_lock(&streams_lock);
		for (struct stream *stream = streams; stream && !busy; stream = stream->next)
			if ((!only_blocking || stream->blocking) && stream->device == current_device() && is_busy(stream))
				busy = stream;
		pthread_mutex_unlock(&streams_lock);
		if (!busy)
			break;
		drain(busy);
	}
	drain(&null_stream);
}

EXPORTED hip_error hipStreamCreateWithFlags(hip_stream *created, unsigned flags)
{
	struct stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return failed(OUT_OF_MEMORY);
	pthread_mutex_init(&stream->lock, NULL);
	pthread_cond_init(&stream->more, NULL);
	pthread_cond_init(&stream->idle, NULL);
	stream->device = current_device();
	stream->blocking = !(flags & NON_BLOCKING);
	pthread_mutex_lock(&streams_lock);
	stream->next = streams;
	streams = stream;
	pthread_mutex_unlock(&streams_lock);
	*created = stream;
	return SUCCESS;
}

EXPORTED hip_error hipStreamCreate(hip_stream *created)
{
	return hipStreamCreateWithFlags(created, 0);
}

/* Returns at once; what is queued is still carried out, as HIP has it. */
EXPORTED hip_error hipStreamDestroy(hip_stream handle)
{
	struct stream *stream = stream_of(handle);
	int has_thread;

	if (stream == &null_stream)
		return failed(INVALID_HANDLE);
	pthread_mutex_lock(&streams_lock);
	for (struct stream **link = &streams; *link; link = &(*link)->next)
		if (*link == stream) {
			*link = stream->next;
			break;
		}
	pthread_mutex_unlock(&streams_lock);
	pthread_mutex_lock(&stream->lock);
	stream->ending = 1;
	has_thread = stream->has_thread;
	pthread_cond_signal(&stream->more);
	pthread_mutex_unlock(&stream->lock);
	if (!has_thread)
		free(stream);
	return SUCCESS;
}

EXPORTED hip_error hipStreamSynchronize(hip_stream handle)
{
	struct stream *stream = stream_of(handle);

	if (stream == &null_stream)
		drain_streams(1);
	else
		drain(stream);
	return SUCCESS;
}

EXPORTED hip_error hipStreamQuery(hip_stream handle)
{
	return is_busy(stream_of(handle)) ? NOT_READY : SUCCESS;
}

EXPORTED hip_error hipDeviceSynchronize(void)
{
	drain_streams(0);
	return SUCCESS;
}

EXPORTED hip_error hipStreamAddCallback(hip_stream stream, hip_callback call, void *data, unsigned flags)
{
	(void)flags;
	return queue(stream, &(struct task){.kind = CALLBACK, .call = call, .data = data});
}

/* No function of HIP: what is queued behind begins at a time of CLOCK_MONOTONIC or later, as behind kernels that end then. */
EXPORTED hip_error gradwire_hold_stream(hip_stream stream, int64_t until_ns)
{
	return queue(stream, &(struct task){.kind = HOLD, .until_ns = until_ns});
}

EXPORTED hip_error hipMemcpyAsync(void *to, const void *from, size_t size_bytes, int direction, hip_stream stream)
{
	(void)direction;
	return queue(stream, &(struct task){.kind = COPY, .to = to, .from = from, .size_bytes = size_bytes});
}

EXPORTED hip_error hipMemcpy(void *to, const void *from, size_t size_bytes, int direction)
{
	struct task task = {.kind = COPY, .to = to, .from = from, .size_bytes = size_bytes};

	(void)direction;
	drain_streams(1);
	perform(&null_stream, &task);
	return SUCCESS;
}

EXPORTED hip_error hipMemsetAsync(void *to, int value, size_t size_bytes, hip_stream stream)
{
	return queue(stream, &(struct task){.kind = FILL, .to = to, .value = value, .size_bytes = size_bytes});
}

EXPORTED hip_error hipMemset(void *to, int value, size_t size_bytes)
{
	struct task task = {.kind = FILL, .to = to, .value = value, .size_bytes = size_bytes};

	drain_streams(1);
	perform(&null_stream, &task);
	return SUCCESS;
}
