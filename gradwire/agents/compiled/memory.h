/* Memory of a replay, without a C library. It is given back when the process ends, or all at once by `release`. */
#pragma once

#include <stddef.h>

/* Zeroed memory. Ends the process, with exit status 3, where the kernel has none left. */
void *memory(size_t size_bytes);

/* A copy of an array with twice the room, or its first room. The old one stays where it is: in all that is as much again. */
void *grown(const void *array, long *room, size_t item_bytes);

void release(void);

void *memcpy(void *to, const void *from, size_t size_bytes);
void *memmove(void *to, const void *from, size_t size_bytes);
void *memset(void *at, int value, size_t size_bytes);
