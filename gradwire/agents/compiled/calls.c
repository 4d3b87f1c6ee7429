#include "calls.h"

#include "memory.h"

long system_call(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

struct call call_of(long number, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e)
{
	return (struct call){.number = (uint64_t)number, .arguments = {a, b, c, d, e}, .result = NOT_MADE};
}

struct call *add_call(struct calls *calls, struct call call)
{
	if (calls->count == calls->room)
		calls->at = grown(calls->at, &calls->room, sizeof(struct call));
	calls->at[calls->count] = call;
	return &calls->at[calls->count++];
}

long carry_out(const struct calls *calls)
{
	return system_call(CALLS, (long)calls->at, calls->count, 0, 0, 0, 0);
}
