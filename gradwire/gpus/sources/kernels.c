/* Registers the kernels of a program by name, and launches them. Their code is never read. */
#include "kernels.h"

#include "collectives/kernel.h"
#include "ending.h"
#include "hip.h"
#include "progress.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct kernel {
	struct kernel *next;
	const void *function;
	char *name;
};

static struct kernel *kernels;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* What a compiler's output calls before main, for each binary with code for devices: also for the collective library. */
EXPORTED void **__hipRegisterFatBinary(const void *binary)
{
	static void *module;

	(void)binary;
	watch_library();
	return &module;
}

EXPORTED void __hipUnregisterFatBinary(void **module)
{
	(void)module;
}

EXPORTED void __hipRegisterFunction(void **module, const void *function, const char *function_name, const char *name, unsigned threads,
				    void *thread, void *block, dim3 *block_size, dim3 *grid_size, int *wave_size)
{
	struct kernel *kernel = malloc(sizeof(*kernel));

	(void)module, (void)function_name, (void)threads, (void)thread, (void)block, (void)block_size, (void)grid_size, (void)wave_size;
	if (!kernel)
		end_program("no memory for the names of kernels");
	*kernel = (struct kernel){.function = function, .name = strdup(name)};
	pthread_mutex_lock(&lock);
	kernel->next = kernels;
	kernels = kernel;
	pthread_mutex_unlock(&lock);
}

static const char *name_of(const void *function)
{
	const char *name = NULL;

	pthread_mutex_lock(&lock);
	for (struct kernel *kernel = kernels; kernel && !name; kernel = kernel->next)
		if (kernel->function == function)
			name = kernel->name;
	pthread_mutex_unlock(&lock);
	return name ? name : "a kernel that was not registered";
}

/* hipFuncAttributes of ROCm 5.4.3, of 56 bytes. */
struct function_attributes {
	int binary_version, cache_mode;
	size_t constant_bytes, local_bytes;
	int most_dynamic_shared_bytes, most_threads, registers, shared_carveout, ptx_version;
	size_t shared_bytes;
};
_Static_assert(sizeof(struct function_attributes) == 56, "hipFuncAttributes");

/* RCCL asks how much of a stack its kernels need (localSizeBytes): none. */
EXPORTED hip_error hipFuncGetAttributes(struct function_attributes *found, const void *function)
{
	(void)function;
	*found = (struct function_attributes){.most_threads = 1024};
	return SUCCESS;
}

EXPORTED hip_error hipFuncSetAttribute(const void *function, int attribute, int value)
{
	(void)function, (void)attribute, (void)value;
	return SUCCESS;
}

EXPORTED hip_error hipLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared_bytes, hip_stream stream)
{
	struct task task = {.kind = KERNEL};
	struct launch *launch = &task.launch;

	(void)shared_bytes;
	*launch = (struct launch){.function = function, .name = name_of(function), .blocks = grid.x, .threads = block.x};
	if (is_collective(launch->name))
		for (int number = 0; number < 3; number++)
			memcpy(&launch->arguments[number], arguments[number], sizeof(launch->arguments[number]));
	return queue(stream, &task);
}

hip_error hipEventRecord(hip_event event, hip_stream stream);

EXPORTED hip_error hipExtLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
				      hip_stream stream, hip_event begin, hip_event end, int flags)
{
	hip_error error;

	(void)flags;
	if (begin)
		hipEventRecord(begin, stream);
	error = hipLaunchKernel(function, grid, block, arguments, shared_bytes, stream);
	if (end)
		hipEventRecord(end, stream);
	return error;
}

/* Only called by stubs that launch kernels by <<<>>>, which RCCL has and does not use. */
EXPORTED hip_error __hipPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, hip_stream *stream)
{
	(void)grid, (void)block, (void)shared_bytes, (void)stream;
	end_program("__hipPopCallConfiguration (a launch by <<<>>>) is not there");
}

void run_kernel(const struct launch *launch)
{
	if (is_collective(launch->name))
		run_collectives(launch);
	else
		count_invented(INVENTED_KERNEL, 0);
}
