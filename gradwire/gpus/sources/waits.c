/*
 * Preloaded into programs: threads of a collective library that ask again and again sleep until something happened.
 *
 * The library's progress thread asks its sockets and the memory that it shares with the device, and yields when nothing was there. Each yield
 * is a microsecond of virtual time, in which the whole machine is woken: to wait for a second took a million rounds. What such a
 * thread waits for comes from a socket that it has just found empty or full, or from another thread. So a thread that yields
 *
 * 1. has the threads of streams look at what it wrote (nobody sees its writes to memory; they came before the yield),
 * 2. looks again itself if any thread has done something since it last began to look,
 * 3. and else sleeps until one of those sockets is ready, or another thread does something.
 *
 * Nothing is lost: what a thread does is counted after it was done, and who is about to sleep looks at the count after it is known to sleep.
 * Threads that the library has for sockets (NCCL_SOCKET_NTHREADS) never yield; they sleep when sockets were empty or full again and again.
 *
 * Only calls of the library itself are changed: a program's own sockets are left alone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

enum { MOST_THREADS = 256, MOST_SOCKETS = 256 };
/*
 * Failures of sockets, with no yield and no success between, after which a thread is taken for one that never yields. From then on it sleeps
 * when a socket fails again: it has gone through all that it has, and none was ready.
 */
enum { FAILURES_OF_A_LOOP = 64 };
/* For what no call tells: a communicator that is aborted, and threads that set it up and wait for each other. */
enum { GUARD_NS = 1000000 };

/* How often any thread did something. */
static _Atomic uint64_t done;
/* By thread: what wakes it, and whether it sleeps. A place is for another thread when its own has ended. */
static struct {
	int event;
	_Atomic int is_taken, sleeps;
} sleepers[MOST_THREADS];
/* Places that were ever taken, and what frees a thread's when it ends. */
static _Atomic int places;
static pthread_key_t ends_with_thread;

static __thread int self = -1;
/* The count when it last began to look. */
static __thread uint64_t seen;
/* Whether it has done something that others were not told. */
static __thread int untold;
/* Whether it has ever yielded, and is one that goes through all its work before it waits; or is known to be one that does not. */
static __thread int yields, loops;
/* Sockets found empty or full since it last slept, and how often that was since one was not. */
static __thread struct pollfd sockets[MOST_SOCKETS + 1];
static __thread int socket_count, failures;

static void (*look_again)(void);

static ssize_t (*real_recv)(int, void *, size_t, int);
static ssize_t (*real_send)(int, const void *, size_t, int);
static int (*real_yield)(void);
static int (*real_wait)(pthread_cond_t *, pthread_mutex_t *);
static int (*real_signal)(pthread_cond_t *);

/* Of a thread that ends: the argument is its place, plus one. */
static void free_place(void *place)
{
	int number = (int)(intptr_t)place - 1;

	close(sleepers[number].event);
	atomic_store(&sleepers[number].is_taken, 0);
}

__attribute__((constructor)) static void find_real_calls(void)
{
	real_recv = dlsym(RTLD_NEXT, "recv");
	real_send = dlsym(RTLD_NEXT, "send");
	real_yield = dlsym(RTLD_NEXT, "sched_yield");
	/* dlsym finds the conditions of before 2003, which are too small, where both are there */
	real_wait = dlvsym(RTLD_NEXT, "pthread_cond_wait", "GLIBC_2.3.2");
	real_signal = dlvsym(RTLD_NEXT, "pthread_cond_signal", "GLIBC_2.3.2");
	pthread_key_create(&ends_with_thread, free_place);
}

/* Constructors of other libraries may call before this one's has run. */
static void be_ready(void)
{
	if (!real_signal)
		find_real_calls();
}

/* The library's code: its first address and the one after its last. */
static _Atomic uintptr_t library_begin, library_end;

static int find_library(struct dl_phdr_info *object, size_t size, void *found)
{
	const char *name = strrchr(object->dlpi_name, '/');

	(void)size, (void)found;
	name = name ? name + 1 : object->dlpi_name;
	if (strncmp(name, "librccl.so", strlen("librccl.so")))
		return 0;
	for (int number = 0; number < object->dlpi_phnum; number++) {
		const ElfW(Phdr) *segment = &object->dlpi_phdr[number];

		if (segment->p_type == PT_LOAD && segment->p_flags & PF_X) {
			atomic_store(&library_end, object->dlpi_addr + segment->p_vaddr + segment->p_memsz);
			atomic_store(&library_begin, object->dlpi_addr + segment->p_vaddr);
		}
	}
	return 1;
}

static int is_librarys(void *return_address)
{
	uintptr_t address = (uintptr_t)return_address;

	return address >= atomic_load(&library_begin) && address < atomic_load(&library_end);
}
#define CALLED_BY_LIBRARY is_librarys(__builtin_return_address(0))

/* The stand-in calls it for each library with code for devices, when that is there. */
EXPORTED void waits_watch(void (*look)(void))
{
	look_again = look;
	dl_iterate_phdr(find_library, NULL);
}

EXPORTED void waits_done(void)
{
	uint64_t before = atomic_fetch_add(&done, 1), one = 1;
	int count = atomic_load(&places);

	if (before == seen)
		seen = before + 1; /* its own doing; otherwise another thread did something that this one has not looked at */
	for (int number = 0; number < count; number++)
		if (number != self && atomic_exchange(&sleepers[number].sleeps, 0) && write(sleepers[number].event, &one, sizeof(one)) < 0)
			continue; /* the event is set already */
}

static void tell(void)
{
	if (untold) {
		untold = 0;
		waits_done();
	}
}

/* Takes a place. Threads that find none yield. */
static void be_known(void)
{
	for (int number = 0; number < MOST_THREADS; number++) {
		int most = atomic_load(&places);

		if (atomic_exchange(&sleepers[number].is_taken, 1))
			continue;
		sleepers[number].event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		pthread_setspecific(ends_with_thread, (void *)(intptr_t)(number + 1));
		while (most <= number && !atomic_compare_exchange_weak(&places, &most, number + 1))
			;
		self = number;
		return;
	}
}

/* Sleeps until a socket that was tried is ready, another thread did something, or the guard's time is over. */
static void sleep_for_events(void)
{
	const struct timespec guard = {.tv_nsec = GUARD_NS};
	uint64_t count;

	atomic_store(&sleepers[self].sleeps, 1);
	if (atomic_load(&done) == seen) {
		sockets[socket_count] = (struct pollfd){.fd = sleepers[self].event, .events = POLLIN};
		ppoll(sockets, (nfds_t)socket_count + 1, &guard, NULL);
	}
	atomic_store(&sleepers[self].sleeps, 0);
	if (read(sleepers[self].event, &count, sizeof(count)) < 0)
		return; /* not set: a socket, or the guard */
}

/* What a thread does that has found nothing. */
static void rest(void)
{
	int saved = errno;

	if (self < 0)
		be_known();
	tell();
	if (look_again)
		look_again();
	if (self < 0)
		real_yield();
	else if (atomic_load(&done) == seen)
		sleep_for_events();
	seen = atomic_load(&done);
	socket_count = failures = 0;
	errno = saved;
}

static int is_noted(int socket, short events)
{
	for (int number = 0; number < socket_count; number++)
		if (sockets[number].fd == socket && sockets[number].events == events)
			return 1;
	return 0;
}

static void note_failure(int socket, short events)
{
	int has_failed = is_noted(socket, events);

	tell();
	if (!has_failed && socket_count < MOST_SOCKETS)
		sockets[socket_count++] = (struct pollfd){.fd = socket, .events = events};
	loops = loops || (!yields && ++failures >= FAILURES_OF_A_LOOP);
	if (loops && !yields && has_failed)
		rest();
}

static ssize_t noted(ssize_t result, int socket, short events)
{
	if (result > 0) {
		untold = 1;
		failures = 0;
		if (loops)
			socket_count = 0; /* one that failed before may be ready by now, and is not asked again before it sleeps */
	} else if (result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
		int saved = errno;

		note_failure(socket, events);
		errno = saved;
	}
	return result;
}

EXPORTED ssize_t recv(int socket, void *bytes, size_t size_bytes, int flags)
{
	ssize_t result;

	be_ready();
	result = real_recv(socket, bytes, size_bytes, flags);
	return CALLED_BY_LIBRARY ? noted(result, socket, POLLIN) : result;
}

EXPORTED ssize_t send(int socket, const void *bytes, size_t size_bytes, int flags)
{
	ssize_t result;

	be_ready();
	result = real_send(socket, bytes, size_bytes, flags);
	return CALLED_BY_LIBRARY ? noted(result, socket, POLLOUT) : result;
}

EXPORTED int sched_yield(void)
{
	be_ready();
	if (!CALLED_BY_LIBRARY)
		return real_yield();
	yields = 1;
	rest();
	return 0;
}

/* A thread that has done something and now waits for a condition tells so before. */
EXPORTED int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
	be_ready();
	if (CALLED_BY_LIBRARY)
		tell();
	return real_wait(condition, mutex);
}

/* The library signals a thread that may sleep here and not at the condition. */
EXPORTED int pthread_cond_signal(pthread_cond_t *condition)
{
	int result;

	be_ready();
	result = real_signal(condition);
	if (CALLED_BY_LIBRARY)
		waits_done();
	return result;
}
