/* Devices: how many, which, what they can do. */
#include "ending.h"
#include "hip.h"
#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static __thread int device;
static __thread hip_error last_error;

hip_error failed(hip_error error)
{
	last_error = error;
	return error;
}

int current_device(void)
{
	return device;
}

void use_device(int number)
{
	device = number;
}

static int is_device(int number)
{
	return number >= 0 && number < settings.devices;
}

EXPORTED const char *hipGetErrorString(hip_error error)
{
	switch (error) {
	case SUCCESS: return "no error";
	case INVALID_VALUE: return "invalid argument";
	case OUT_OF_MEMORY: return "out of memory";
	case INVALID_DEVICE: return "invalid device ordinal";
	case MAP_FAILED_ERROR: return "mapping of buffer object failed";
	case INVALID_HANDLE: return "invalid resource handle";
	case NOT_READY: return "device not ready";
	default: return "unknown error";
	}
}

EXPORTED hip_error hipGetLastError(void)
{
	hip_error error = last_error;

	last_error = SUCCESS;
	return error;
}

EXPORTED hip_error hipGetDeviceCount(int *count)
{
	*count = settings.devices;
	return SUCCESS;
}

EXPORTED hip_error hipGetDevice(int *number)
{
	*number = device;
	return SUCCESS;
}

EXPORTED hip_error hipSetDevice(int number)
{
	if (!is_device(number))
		return failed(INVALID_DEVICE);
	device = number;
	return SUCCESS;
}

EXPORTED hip_error hipDeviceGetPCIBusId(char *id, int size, int number)
{
	if (!is_device(number))
		return failed(INVALID_DEVICE);
	snprintf(id, size, "0000:%02x:00.0", FIRST_BUS + number);
	return SUCCESS;
}

EXPORTED hip_error hipDeviceGetByPCIBusId(int *number, const char *id)
{
	unsigned domain, bus, slot;

	if (sscanf(id, "%x:%x:%x", &domain, &bus, &slot) != 3 || !is_device((int)bus - FIRST_BUS))
		return failed(INVALID_DEVICE);
	*number = (int)bus - FIRST_BUS;
	return SUCCESS;
}

/*
 * hipDeviceProp_t of ROCm 5 (hip_runtime_api.h of ROCm 5.4.3) has 792 bytes; what is not named here is zero. HIP gives it another name and
 * layout from ROCm 6 on (hipGetDevicePropertiesR0600), which programs ask for by that name.
 */
struct properties {
	char name[256];
	size_t total_memory, shared_memory;
	int registers, warp_size, most_threads, most_block[3], most_grid[3], clock_khz, memory_clock_khz, memory_bus_bits;
	size_t total_constant;
	int major, minor, units, l2_bytes, most_threads_of_unit, compute_mode, clock_instruction_khz;
	unsigned architecture_features;
	int concurrent_kernels, pci_domain, pci_bus, pci_slot;
	size_t shared_of_unit;
	int is_on_board, can_map_host, gcn_number;
	char gcn_name[256];
	char rest[140];
};
_Static_assert(sizeof(struct properties) == 792, "hipDeviceProp_t of ROCm 5");
_Static_assert(offsetof(struct properties, units) == 336 && offsetof(struct properties, gcn_name) == 396, "hipDeviceProp_t of ROCm 5");

enum { WAVE = 64, MOST_THREADS = 1024, MOST_GRID = 2147483647, KIB = 1024 };
/* All that `hipDeviceArch_t` can say, which these devices can do. */
enum { ALL_FEATURES = 0x7ffff };

/* The number that ROCm gives an architecture: gfx906 is 906, and gfx90a is 910 (hipDeviceProp_t.gcnArch). */
static int gcn_number(void)
{
	return !strcmp(settings.architecture, "gfx90a") ? 910 : atoi(settings.architecture + strlen("gfx"));
}

EXPORTED hip_error hipGetDeviceProperties(struct properties *found, int number)
{
	if (!is_device(number))
		return failed(INVALID_DEVICE);
	*found = (struct properties){
		.total_memory = settings.memory_bytes,
		.shared_memory = 64 * KIB,
		.registers = 64 * KIB,
		.warp_size = WAVE,
		.most_threads = MOST_THREADS,
		.most_block = {MOST_THREADS, MOST_THREADS, MOST_THREADS},
		.most_grid = {MOST_GRID, MOST_GRID, MOST_GRID},
		.major = 9,
		.units = settings.units,
		.most_threads_of_unit = 2 * MOST_THREADS,
		.architecture_features = ALL_FEATURES,
		.concurrent_kernels = 1,
		.pci_bus = FIRST_BUS + number,
		.can_map_host = 1,
		.gcn_number = gcn_number(),
	};
	snprintf(found->name, sizeof(found->name), "%s", settings.name);
	snprintf(found->gcn_name, sizeof(found->gcn_name), "%s:sramecc+:xnack-", settings.architecture);
	return SUCCESS;
}

/* hipDeviceAttribute_t of ROCm 5.4.3, those that RCCL asks for. */
enum {
	COMPUTE_CAPABILITY_MAJOR = 23,
	COMPUTE_CAPABILITY_MINOR = 61,
	MULTIPROCESSOR_COUNT = 63,
	WARP_SIZE = 87,
	HDP_MEMORY_FLUSH = 10005,
	HDP_REGISTER_FLUSH = 10006,
};

EXPORTED hip_error hipDeviceGetAttribute(int *value, int attribute, int number)
{
	uint32_t *nothing_to_flush = NULL;

	if (!is_device(number))
		return failed(INVALID_DEVICE);
	switch (attribute) {
	case HDP_MEMORY_FLUSH:
	case HDP_REGISTER_FLUSH: /* by the documentation a pointer, of 8 bytes */
		memcpy(value, &nothing_to_flush, sizeof(nothing_to_flush));
		return SUCCESS;
	case COMPUTE_CAPABILITY_MAJOR: *value = 9; return SUCCESS;
	case COMPUTE_CAPABILITY_MINOR: *value = 0; return SUCCESS;
	case MULTIPROCESSOR_COUNT: *value = settings.units; return SUCCESS;
	case WARP_SIZE: *value = WAVE; return SUCCESS;
	default: end_program("hipDeviceGetAttribute does not know attribute %d", attribute);
	}
}

EXPORTED hip_error hipDeviceCanAccessPeer(int *can, int number, int peer)
{
	if (!is_device(number) || !is_device(peer))
		return failed(INVALID_DEVICE);
	*can = number != peer;
	return SUCCESS;
}

EXPORTED hip_error hipDeviceEnablePeerAccess(int peer, unsigned flags)
{
	(void)flags;
	return is_device(peer) ? SUCCESS : failed(INVALID_DEVICE);
}

/* Nothing is ever captured here, so a thread's mode has no effect. */
EXPORTED hip_error hipThreadExchangeStreamCaptureMode(int *mode)
{
	static __thread int own;
	int before = own;

	own = *mode;
	*mode = before;
	return SUCCESS;
}
