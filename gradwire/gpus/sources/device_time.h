/*
 * How long a device takes for what it moves and adds: as long as its memory, its bus or its links need for the bytes, whichever is the
 * last to have done so. Bytes of everything that a device does at once share them, one after the other.
 */
#ifndef GRADWIRE_DEVICE_TIME_H
#define GRADWIRE_DEVICE_TIME_H
#include <stddef.h>
#include <stdint.h>

/* Bytes of a stretch of work, by what carries them. */
struct traffic {
	uint64_t memory_bytes;
	/* Over the bus: what comes from the host, and what goes there. */
	uint64_t in_bytes, out_bytes;
	/* Over links to other devices. */
	uint64_t link_bytes;
};

/* Adds what a device reads from an address, or writes to it. */
void add_read(struct traffic *traffic, const void *address, size_t size_bytes);
void add_write(struct traffic *traffic, const void *address, size_t size_bytes);
/* The clock that all times here are of (CLOCK_MONOTONIC), in nanoseconds. */
int64_t now_ns(void);
/* When the traffic that begins now has ended on the calling thread's device. */
int64_t end_of(const struct traffic *traffic);
void sleep_until(int64_t time_ns);
#endif
