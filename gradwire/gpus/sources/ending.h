/* How the stand-in ends a program, and what it tells of calls whose answers it made up. */
#ifndef GRADWIRE_ENDING_H
#define GRADWIRE_ENDING_H
#include <stdint.h>

/* Ends the program: says on standard error what is missing, as printf does, and aborts. */
_Noreturn void end_program(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Calls whose answers are invented, in the order in which they are told. */
enum invented {
	/* A collective's result: the memory it would be in was left as it was. */
	INVENTED_COLLECTIVE,
	/* A copy whose target was left as it was. */
	INVENTED_COPY,
	/* A fill whose target was left as it was. */
	INVENTED_FILL,
	/* A kernel that is none of the collective library's: nothing was computed. */
	INVENTED_KERNEL,
	INVENTED_CALLS,
};

/* Counts one, and the bytes that it was about. The counts are appended to the file $GRADWIRE_GPU_CALLS when the process ends. */
void count_invented(enum invented call, uint64_t bytes);
#endif
