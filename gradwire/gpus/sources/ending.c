/* Ends programs that ask for what is not there, and tells what was made up. */
#include "ending.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const names[INVENTED_CALLS] = {
	[INVENTED_COLLECTIVE] = "collective",
	[INVENTED_COPY] = "copy",
	[INVENTED_FILL] = "fill",
	[INVENTED_KERNEL] = "kernel",
};
static _Atomic uint64_t calls[INVENTED_CALLS], bytes_of[INVENTED_CALLS];

void end_program(const char *format, ...)
{
	char line[512];
	va_list rest;
	int begin = snprintf(line, sizeof(line), "gradwire's stand-in for a GPU: "), length;

	va_start(rest, format);
	length = begin + vsnprintf(line + begin, sizeof(line) - begin - 1, format, rest);
	va_end(rest);
	if (length > (int)sizeof(line) - 2)
		length = sizeof(line) - 2;
	line[length++] = '\n';
	if (write(STDERR_FILENO, line, length) < 0)
		_exit(1);
	abort();
}

void count_invented(enum invented call, uint64_t bytes)
{
	atomic_fetch_add(&calls[call], 1);
	atomic_fetch_add(&bytes_of[call], bytes);
}

/* One line of JSON per kind, in one write each, so that processes of a host do not mix theirs. */
__attribute__((destructor)) static void tell_invented(void)
{
	const char *path = getenv("GRADWIRE_GPU_CALLS");
	int file = -1;

	for (int call = 0; path && *path && call < INVENTED_CALLS; call++) {
		char line[128];
		int length;

		if (!calls[call])
			continue;
		if (file < 0)
			file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
		if (file < 0)
			return;
		length = snprintf(line, sizeof(line), "{\"call\": \"%s\", \"count\": %llu, \"size_bytes\": %llu}\n", names[call],
				  (unsigned long long)calls[call], (unsigned long long)bytes_of[call]);
		if (write(file, line, length) != length)
			break;
	}
	if (file >= 0)
		close(file);
}
