/* Memory of devices and of the host, which is all the host's memory here. */
#ifndef GRADWIRE_MEMORY_H
#define GRADWIRE_MEMORY_H
#include <stddef.h>

enum memory_kind {
	/* Of neither: the program's own, which HIP was never told of. */
	PAGEABLE_MEMORY,
	DEVICE_MEMORY,
	/* The host's, which devices reach over their bus. */
	HOST_MEMORY,
	REGISTERED_MEMORY,
};

struct place {
	enum memory_kind kind;
	/* Device whose memory it is, where it is a device's. */
	int device;
};

/* What an address belongs to. */
struct place place_of(const void *address);
/* Copies or fills as a device's engine would, unless the memory is to stay untouched: then the call is counted as invented. */
void move_memory(void *to, const void *from, size_t size_bytes);
void fill_memory(void *to, int value, size_t size_bytes);
#endif
