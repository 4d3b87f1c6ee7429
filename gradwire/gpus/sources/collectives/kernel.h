/* A launch of a collective library's kernel. */
#ifndef GRADWIRE_KERNEL_H
#define GRADWIRE_KERNEL_H
#include "../streams.h"

/* Whether a kernel of this name is a collective library's. */
int is_collective(const char *name);
/* Does all the work of a launch, on the thread of its stream. */
void run_collectives(const struct launch *launch);
#endif
