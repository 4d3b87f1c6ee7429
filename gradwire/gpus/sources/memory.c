/* Allocates, registers, and shares memory between processes of a host. */
#define _GNU_SOURCE
#include "memory.h"

#include "ending.h"
#include "hip.h"
#include "settings.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096 };
/*
 * The progress thread of RCCL 2.13 may read a flag until after ncclCommDestroy has freed it (src/proxy.cc at rocm-5.4.3, line 664), which
 * devices' drivers survive, for they keep a page mapped. So small host memory stays mapped.
 */
enum { KEPT_BYTES = 64 << 10 };

struct region {
	struct region *next;
	char *base;
	size_t size_bytes;
	struct place place;
	/* Of the file without a name that other processes may map; -1 for none. */
	int file;
	/* The program's own memory, which stands in for a device's. */
	int is_lent;
};

static struct region *regions;
static uint64_t taken_bytes[MOST_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Called with the lock. */
static struct region *region_of(const void *address)
{
	for (struct region *region = regions; region; region = region->next)
		if ((const char *)address >= region->base && (const char *)address < region->base + region->size_bytes)
			return region;
	return NULL;
}

struct place place_of(const void *address)
{
	struct region *region;
	struct place place = {.kind = PAGEABLE_MEMORY};

	pthread_mutex_lock(&lock);
	region = region_of(address);
	if (region)
		place = region->place;
	pthread_mutex_unlock(&lock);
	return place;
}

static void note(void *base, size_t size_bytes, struct place place, int file, int is_lent)
{
	struct region *region = malloc(sizeof(*region));

	if (!region)
		end_program("no memory for its own notes");
	*region = (struct region){.base = base, .size_bytes = size_bytes, .place = place, .file = file, .is_lent = is_lent};
	pthread_mutex_lock(&lock);
	region->next = regions;
	regions = region;
	pthread_mutex_unlock(&lock);
}

/* Takes bytes of a device's memory; returns whether it has so many left. */
static int take(int device, size_t size_bytes)
{
	int fits;

	pthread_mutex_lock(&lock);
	fits = taken_bytes[device] + size_bytes <= settings.memory_bytes;
	if (fits)
		taken_bytes[device] += size_bytes;
	pthread_mutex_unlock(&lock);
	return fits;
}

static void give_back(int device, size_t size_bytes)
{
	pthread_mutex_lock(&lock);
	taken_bytes[device] -= size_bytes;
	pthread_mutex_unlock(&lock);
}

/* Address space without memory behind it: pages come when they are touched, which is never without data. */
static void *mapped(size_t size_bytes, int file)
{
	int flags = MAP_NORESERVE | (file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
	void *base = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, flags, file, 0);

	return base == MAP_FAILED ? NULL : base;
}

/* A file without a name, which other processes map by hipIpcOpenMemHandle; -1 if there is none. */
static int shared_file(size_t size_bytes)
{
	int file = memfd_create("device memory", MFD_CLOEXEC);

	if (file >= 0 && ftruncate(file, (off_t)size_bytes)) {
		close(file);
		return -1;
	}
	return file;
}

static hip_error allocate_on_device(void **address, size_t asked_bytes)
{
	size_t size_bytes = (asked_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
	struct place place = {.kind = DEVICE_MEMORY, .device = current_device()};
	int file;

	*address = NULL;
	if (!asked_bytes)
		return SUCCESS;
	if (!take(place.device, size_bytes))
		return failed(OUT_OF_MEMORY);
	file = settings.devices > 1 ? shared_file(size_bytes) : -1; /* one device has no peers on its host */
	*address = mapped(size_bytes, file);
	if (!*address) {
		give_back(place.device, size_bytes);
		if (file >= 0)
			close(file);
		return failed(OUT_OF_MEMORY);
	}
	note(*address, size_bytes, place, file, 0);
	return SUCCESS;
}

static hip_error release(void *address)
{
	struct region *region = NULL;

	if (!address)
		return SUCCESS;
	pthread_mutex_lock(&lock);
	for (struct region **link = &regions; *link; link = &(*link)->next)
		if ((*link)->base == address) {
			region = *link;
			*link = region->next;
			break;
		}
	pthread_mutex_unlock(&lock);
	if (!region)
		return failed(INVALID_VALUE);
	if (region->is_lent) {
		free(region);
		return SUCCESS;
	}
	if (region->place.kind == DEVICE_MEMORY || (region->place.kind == HOST_MEMORY && region->size_bytes > KEPT_BYTES))
		munmap(region->base, region->size_bytes);
	if (region->place.kind == DEVICE_MEMORY && region->place.device >= 0)
		give_back(region->place.device, region->size_bytes);
	if (region->file >= 0)
		close(region->file);
	free(region);
	return SUCCESS;
}

EXPORTED hip_error hipMalloc(void **address, size_t size_bytes)
{
	return allocate_on_device(address, size_bytes);
}

EXPORTED hip_error hipExtMallocWithFlags(void **address, size_t size_bytes, unsigned flags)
{
	(void)flags;
	return allocate_on_device(address, size_bytes);
}

EXPORTED hip_error hipFree(void *address)
{
	return release(address);
}

/* No function of HIP: memory of the program's own is the calling thread's device's, until hipFree of the same address. */
EXPORTED hip_error gradwire_lend_memory(void *address, size_t size_bytes)
{
	struct place place = {.kind = DEVICE_MEMORY, .device = current_device()};

	note(address, size_bytes, place, -1, 1);
	return SUCCESS;
}

EXPORTED hip_error hipHostMalloc(void **address, size_t asked_bytes, unsigned flags)
{
	size_t size_bytes = (asked_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;

	(void)flags;
	*address = NULL;
	if (!asked_bytes)
		return SUCCESS;
	*address = mapped(size_bytes, -1);
	if (!*address)
		return failed(OUT_OF_MEMORY);
	note(*address, size_bytes, (struct place){.kind = HOST_MEMORY}, -1, 0);
	return SUCCESS;
}

EXPORTED hip_error hipHostFree(void *address)
{
	return release(address);
}

EXPORTED hip_error hipHostRegister(void *address, size_t size_bytes, unsigned flags)
{
	(void)flags;
	note(address, size_bytes, (struct place){.kind = REGISTERED_MEMORY}, -1, 0);
	return SUCCESS;
}

EXPORTED hip_error hipHostUnregister(void *address)
{
	return release(address);
}

EXPORTED hip_error hipHostGetDevicePointer(void **device_address, void *host_address, unsigned flags)
{
	(void)flags;
	*device_address = host_address;
	return SUCCESS;
}

/* hipPointerAttribute_t of ROCm 5, whose types are 0 for the host and 1 for a device. */
struct pointer_attributes {
	int type, device;
	void *device_address, *host_address;
	int is_managed;
	unsigned flags;
};

EXPORTED hip_error hipPointerGetAttributes(struct pointer_attributes *found, void *address)
{
	struct place place = place_of(address);

	*found = (struct pointer_attributes){0};
	if (place.kind == PAGEABLE_MEMORY)
		return failed(INVALID_VALUE);
	found->type = place.kind == DEVICE_MEMORY;
	found->device = place.device;
	found->device_address = address;
	found->host_address = place.kind == DEVICE_MEMORY ? NULL : address;
	return SUCCESS;
}

/* What a handle holds: the process and its file of the memory. */
struct shared {
	pid_t process;
	int file;
	size_t size_bytes;
};
_Static_assert(sizeof(struct shared) <= sizeof(hip_ipc_handle), "hipIpcMemHandle_t");

EXPORTED hip_error hipIpcGetMemHandle(hip_ipc_handle *handle, void *address)
{
	struct shared shared = {.process = getpid(), .file = -1};
	struct region *region;

	pthread_mutex_lock(&lock);
	region = region_of(address);
	if (region && region->place.kind == DEVICE_MEMORY) {
		shared.file = region->file;
		shared.size_bytes = region->size_bytes;
	}
	pthread_mutex_unlock(&lock);
	if (shared.file < 0)
		return failed(INVALID_VALUE);
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &shared, sizeof(shared));
	return SUCCESS;
}

EXPORTED hip_error hipIpcOpenMemHandle(void **address, hip_ipc_handle handle, unsigned flags)
{
	struct shared shared;
	char path[64];
	int file;

	(void)flags;
	memcpy(&shared, &handle, sizeof(shared));
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)shared.process, shared.file);
	file = open(path, O_RDWR | O_CLOEXEC);
	if (file < 0)
		return failed(MAP_FAILED_ERROR);
	*address = mapped(shared.size_bytes, file);
	close(file);
	if (!*address)
		return failed(MAP_FAILED_ERROR);
	note(*address, shared.size_bytes, (struct place){.kind = DEVICE_MEMORY, .device = -1}, -1, 0);
	return SUCCESS;
}

EXPORTED hip_error hipIpcCloseMemHandle(void *address)
{
	return release(address);
}

void move_memory(void *to, const void *from, size_t size_bytes)
{
	if (settings.data || size_bytes < LARGE_BYTES)
		memmove(to, from, size_bytes);
	else
		count_invented(INVENTED_COPY, size_bytes);
}

/*
 * Makes large memory zero without touching it: whole pages are given back, and come back as zeros when somebody reads them. Returns whether
 * that is possible, as it is not for memory that another process has.
 */
static int clear_pages(char *to, size_t size_bytes)
{
	char *begin = (char *)(((uintptr_t)to + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES);
	char *end = (char *)((uintptr_t)(to + size_bytes) / PAGE_BYTES * PAGE_BYTES);
	struct region *region, found = {0};

	pthread_mutex_lock(&lock);
	region = region_of(to);
	if (region)
		found = *region;
	pthread_mutex_unlock(&lock);
	if (found.place.kind != DEVICE_MEMORY && found.place.kind != HOST_MEMORY)
		return 0;
	if (found.place.device < 0 || madvise(begin, (size_t)(end - begin), found.file < 0 ? MADV_DONTNEED : MADV_REMOVE))
		return 0;
	memset(to, 0, (size_t)(begin - to));
	memset(end, 0, (size_t)(to + size_bytes - end));
	return 1;
}

void fill_memory(void *to, int value, size_t size_bytes)
{
	if (size_bytes >= LARGE_BYTES && !value && clear_pages(to, size_bytes))
		return;
	if (settings.data || size_bytes < LARGE_BYTES)
		memset(to, value, size_bytes);
	else
		count_invented(INVENTED_FILL, size_bytes);
}
