/* Events: marks in streams, with the time at which they were reached. */
#include "device_time.h"
#include "hip.h"
#include "streams.h"

#include <pthread.h>
#include <stdlib.h>

enum { NS_PER_MS = 1000000 };

struct event {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* How often it was recorded, and the last recording that was reached. */
	uint64_t recorded, reached;
	int64_t reached_ns;
	/* The program, until it destroys the event, and what is queued. */
	int holders;
};

static void hold(struct event *event)
{
	pthread_mutex_lock(&event->lock);
	event->holders++;
	pthread_mutex_unlock(&event->lock);
}

void let_go(struct event *event)
{
	int left;

	pthread_mutex_lock(&event->lock);
	left = --event->holders;
	pthread_mutex_unlock(&event->lock);
	if (!left)
		free(event);
}

void reach(struct event *event, uint64_t recording)
{
	pthread_mutex_lock(&event->lock);
	if (event->reached < recording) {
		event->reached = recording;
		event->reached_ns = now_ns();
		pthread_cond_broadcast(&event->changed);
	}
	pthread_mutex_unlock(&event->lock);
}

void await(struct event *event, uint64_t recording)
{
	pthread_mutex_lock(&event->lock);
	while (event->reached < recording)
		pthread_cond_wait(&event->changed, &event->lock);
	pthread_mutex_unlock(&event->lock);
}

EXPORTED hip_error hipEventCreateWithFlags(hip_event *created, unsigned flags)
{
	struct event *event = calloc(1, sizeof(*event));

	(void)flags;
	if (!event)
		return failed(OUT_OF_MEMORY);
	pthread_mutex_init(&event->lock, NULL);
	pthread_cond_init(&event->changed, NULL);
	event->holders = 1;
	*created = event;
	return SUCCESS;
}

EXPORTED hip_error hipEventCreate(hip_event *created)
{
	return hipEventCreateWithFlags(created, 0);
}

EXPORTED hip_error hipEventDestroy(hip_event event)
{
	let_go(event);
	return SUCCESS;
}

EXPORTED hip_error hipEventRecord(hip_event event, hip_stream stream)
{
	struct task task = {.kind = RECORD, .event = event};

	hold(event);
	pthread_mutex_lock(&event->lock);
	task.recording = ++event->recorded;
	pthread_mutex_unlock(&event->lock);
	return queue(stream, &task);
}

static uint64_t unreached_recording(struct event *event)
{
	uint64_t recording;

	pthread_mutex_lock(&event->lock);
	recording = event->reached < event->recorded ? event->recorded : 0;
	pthread_mutex_unlock(&event->lock);
	return recording;
}

EXPORTED hip_error hipEventQuery(hip_event event)
{
	return unreached_recording(event) ? NOT_READY : SUCCESS;
}

EXPORTED hip_error hipEventSynchronize(hip_event event)
{
	await(event, unreached_recording(event));
	return SUCCESS;
}

EXPORTED hip_error hipEventElapsedTime(float *duration_ms, hip_event begin, hip_event end)
{
	if (unreached_recording(begin) || unreached_recording(end))
		return failed(NOT_READY);
	*duration_ms = (float)(end->reached_ns - begin->reached_ns) / NS_PER_MS;
	return SUCCESS;
}

EXPORTED hip_error hipStreamWaitEvent(hip_stream stream, hip_event event, unsigned flags)
{
	uint64_t recording = unreached_recording(event);

	(void)flags;
	if (!recording)
		return SUCCESS;
	hold(event);
	return queue(stream, &(struct task){.kind = WAIT, .event = event, .recording = recording});
}
