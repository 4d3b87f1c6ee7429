/* When a device's parts have carried what they were given. */
#include "device_time.h"

#include "hip.h"
#include "memory.h"
#include "settings.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

enum { NS_PER_S = 1000000000 };
enum part { MEMORY, BUS_IN, BUS_OUT, LINK, PARTS };

/* When each part of each device is free again. */
static double free_ns[MOST_DEVICES][PARTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void add(struct traffic *traffic, const void *address, size_t size_bytes, uint64_t *over_bus)
{
	struct place place = place_of(address);

	if (place.kind != DEVICE_MEMORY)
		*over_bus += size_bytes;
	else if (place.device == current_device())
		traffic->memory_bytes += size_bytes;
	else
		traffic->link_bytes += size_bytes;
}

void add_read(struct traffic *traffic, const void *address, size_t size_bytes)
{
	add(traffic, address, size_bytes, &traffic->in_bytes);
}

void add_write(struct traffic *traffic, const void *address, size_t size_bytes)
{
	add(traffic, address, size_bytes, &traffic->out_bytes);
}

int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * (int64_t)NS_PER_S + now.tv_nsec;
}

int64_t end_of(const struct traffic *traffic)
{
	const double rates[PARTS] = {
		[MEMORY] = settings.memory_rate,
		[BUS_IN] = settings.bus_rate,
		[BUS_OUT] = settings.bus_rate,
		[LINK] = settings.xgmi ? settings.link_rate : settings.bus_rate,
	};
	const uint64_t bytes[PARTS] = {
		[MEMORY] = traffic->memory_bytes,
		[BUS_IN] = traffic->in_bytes,
		[BUS_OUT] = traffic->out_bytes,
		[LINK] = traffic->link_bytes,
	};
	double *device_free_ns = free_ns[current_device()], now = (double)now_ns(), end = now;

	pthread_mutex_lock(&lock);
	for (int part = 0; part < PARTS; part++) {
		if (!bytes[part] || rates[part] <= 0)
			continue;
		if (device_free_ns[part] < now)
			device_free_ns[part] = now;
		device_free_ns[part] += (double)bytes[part] * NS_PER_S / rates[part];
		if (end < device_free_ns[part])
			end = device_free_ns[part];
	}
	pthread_mutex_unlock(&lock);
	return (int64_t)end;
}

void sleep_until(int64_t time_ns)
{
	struct timespec until = {.tv_sec = time_ns / NS_PER_S, .tv_nsec = time_ns % NS_PER_S};

	if (time_ns > now_ns())
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
			;
}
