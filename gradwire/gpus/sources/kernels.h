/* Kernels: names of code that programs bring, and what is done in the place of that code. */
#ifndef GRADWIRE_KERNELS_H
#define GRADWIRE_KERNELS_H
#include "streams.h"

/* Runs to the kernel's end, on the thread of its stream. */
void run_kernel(const struct launch *launch);
#endif
