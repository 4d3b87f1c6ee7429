/*
 * One count for all processes of a host, in its shared memory, on which they sleep (futex(2)).
 *
 * RCCL's threads write to memory that a stream's thread waits for. What they wrote before they sleep themselves is told by the preloaded
 * library, which calls tell_streams here.
 */
#define _GNU_SOURCE
#include "progress.h"

#include "device_time.h"
#include "ending.h"
#include "waits.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { NS_PER_S = 1000000000 };
/* How long a wait takes at most: an aborted communicator's flag is set by a thread that tells nobody. */
enum { GUARD_NS = 1000000 };

struct shared_count {
	_Atomic uint32_t happened, waiting;
};

static struct shared_count alone, *count = &alone;

/*
 * A folder /dev/shm of its own is what each host has, and it ends with the host. Stand-ins without a host are given another folder, which
 * is removed after them. Without either, processes of a host do not see each other, and wait for the guard.
 */
__attribute__((constructor)) static void share_count(void)
{
	const char *folder = getenv("GRADWIRE_GPU_SHARED");
	char path[PATH_MAX];
	struct stat status;
	void *mapped;
	int file;

	snprintf(path, sizeof(path), "%s/gradwire-gpus-%u", folder && *folder ? folder : "/dev/shm", (unsigned)getuid());
	file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (file < 0)
		return;
	if (!fstat(file, &status) && S_ISREG(status.st_mode) && !ftruncate(file, sizeof(struct shared_count))) {
		mapped = mmap(NULL, sizeof(struct shared_count), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
		if (mapped != MAP_FAILED)
			count = mapped;
	}
	close(file);
}

static void tell_streams(void)
{
	atomic_fetch_add(&count->happened, 1);
	if (atomic_load(&count->waiting))
		syscall(SYS_futex, &count->happened, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void watch_library(void)
{
	if (waits_watch)
		waits_watch(tell_streams);
}

uint32_t happened(void)
{
	return atomic_load(&count->happened);
}

void tell_progress(void)
{
	tell_streams();
	if (waits_done)
		waits_done();
}

void wait_for_progress(uint32_t seen, int64_t until_ns)
{
	int64_t end_ns = now_ns() + GUARD_NS;
	struct timespec end;

	if (!waits_watch) { /* nobody tells of RCCL's threads */
		sched_yield();
		return;
	}
	if (until_ns && until_ns < end_ns)
		end_ns = until_ns;
	end = (struct timespec){.tv_sec = end_ns / NS_PER_S, .tv_nsec = end_ns % NS_PER_S};
	atomic_fetch_add(&count->waiting, 1);
	/* until an absolute time of CLOCK_MONOTONIC */
	syscall(SYS_futex, &count->happened, FUTEX_WAIT_BITSET, seen, &end, NULL, FUTEX_BITSET_MATCH_ANY);
	atomic_fetch_sub(&count->waiting, 1);
}
