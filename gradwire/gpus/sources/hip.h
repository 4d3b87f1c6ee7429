/*
 * Types and numbers of HIP's documented interface, as far as the stand-in implements it: libamdhip64.so.5, which is ROCm 5.
 *
 * Values are those of the public headers hip/hip_runtime_api.h and hip/driver_types.h of ROCm 5.4.3 (hipError_t, hipDeviceAttribute_t,
 * hipMemoryType).
 */
#ifndef GRADWIRE_HIP_H
#define GRADWIRE_HIP_H
#include <stddef.h>
#include <stdint.h>

typedef int hip_error;
enum {
	SUCCESS = 0,
	INVALID_VALUE = 1,
	OUT_OF_MEMORY = 2,
	INVALID_DEVICE = 101,
	MAP_FAILED_ERROR = 205,
	INVALID_HANDLE = 400,
	NOT_READY = 600,
};

typedef struct stream *hip_stream;
typedef struct event *hip_event;
typedef struct {
	unsigned x, y, z;
} dim3;
typedef struct {
	char reserved[64];
} hip_ipc_handle;

/* Where programs call it. Everything else is hidden. */
#define EXPORTED __attribute__((visibility("default")))

/* Notes the error of a call for hipGetLastError, and returns it. */
hip_error failed(hip_error error);
/* Device of the calling thread. */
int current_device(void);
void use_device(int device);
#endif
