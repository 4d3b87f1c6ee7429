/* How the threads of streams wait for what others write into memory: RCCL's threads, and devices of other processes on the host. */
#ifndef GRADWIRE_PROGRESS_H
#define GRADWIRE_PROGRESS_H
#include <stdint.h>

/* Has the preloaded library, if it is there, look for the collective library, which is loaded by now, and tell what its threads do. */
void watch_library(void);
/* How often anything has happened on this host. Who means to wait reads it before it looks. */
uint32_t happened(void);
/* Tells all who wait that memory was written. */
void tell_progress(void);
/* Waits until something has happened since the count was read, at most until the time; 0: no such time. */
void wait_for_progress(uint32_t count, int64_t until_ns);
#endif
