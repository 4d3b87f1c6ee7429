/*
 * Lists of system calls that the virtual-time kernel carries out in one stop of the process. vm/patches/6.12/um-calls.patch has the same
 * definitions, and says what each field does.
 */
#pragma once

#include <stdint.h>

#define CALLS 0x6777 /* the system call that takes a list */
#define EACH_READY 0x6778
#define NOTHING 0x6779

#define NOT_MADE INT64_MIN /* the result of a call that was left out */

struct call {
	uint64_t number;
	uint64_t arguments[6];
	int64_t result;
	int64_t expected;
	uint8_t then_skip, else_skip;
	uint8_t is_news, waits;
	uint32_t events;
};

/* What epoll_wait writes. */
struct ready {
	uint32_t events;
	uint64_t call;
} __attribute__((packed));

long system_call(long number, long a, long b, long c, long d, long e, long f);

/* The call with these arguments. Its result is expected to be 0. */
struct call call_of(long number, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e);

/* A list that grows. */
struct calls {
	struct call *at;
	long count, room;
};

struct call *add_call(struct calls *calls, struct call call);

/* Carries out a list; returns where it ended, or a negative error number. */
long carry_out(const struct calls *calls);
