/* What a host's kernel takes for what a program asks of it, where the kernel that emulates the host takes no time beyond
 * that of a call: for waking up a thread, and for copying what it sends and receives. Loaded before a dynamically linked
 * program by LD_PRELOAD (host_costs.py); what it takes is slept in virtual time.
 *
 * A thread that epoll_wait or a condition variable has woken up, not by a timeout, runs late by a time of a log-normal
 * distribution. A thread that was signalled 4,000 times, one ms apart, in a cloud's virtual machine ran after 14.7, 20.2
 * and 35.0 us (10th, 50th and 90th percentile; benchmarks/host/wake_up.c). The distribution has the last two; its 10th
 * percentile is 11.6 us. Segments of Gloo's come 0.8 ms apart and more. Threads that are woken up more often ran after 5
 * to 7 us, and are too late here.
 *
 * What read, write, recv, send, readv and writev move is copied at the rate at which one core of a host receives: 42
 * Gbit/s with segmentation offload and packets of 9,000 bytes (Cai et al., Understanding Host Network Stack Overheads,
 * SIGCOMM 2021, section 3.1), which that paper puts down to copies above all. A sender is charged the same, which is more
 * than it takes.
 *
 * Where programs are charged for computation (run.cpu_time), each call of the system costs its 2.9 us times the factor as
 * well, of which a wake-up has two more here, and a copy one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define WAKE_UP_US 20.2
#define SIGMA 0.43 /* ln(35.0 / 20.2) / 1.2816, the 90th percentile of a normal distribution */
#define COPIED_BYTES_PER_US (42e9 / 8 / 1e6)
#define LEAST_COPIED_BYTES 4096 /* Calls for less take less than a microsecond. */
#define REAL(name) \
    if (!real) \
    real = (typeof(real))dlsym(RTLD_NEXT, name)
#define REAL_OF(name, version) \
    if (!real && !(real = (typeof(real))dlvsym(RTLD_NEXT, name, version))) \
    abort()
/* Of condition variables, the C library of x86-64 has an older kind as well, which dlsym may find. */
#define CONDITIONS "GLIBC_2.3.2"

static void sleep_us(double us)
{
    struct timespec time = {(time_t)(us / 1e6), (long)(fmod(us, 1e6) * 1e3)};
    int error = errno, cancellable;

    /* The caller has the result of a call, or is between two states of a mutex: it must not end here. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
    while (nanosleep(&time, &time) && errno == EINTR)
        ;
    pthread_setcancelstate(cancellable, &cancellable);
    errno = error;
}

/* A process draws other times than the one that it was forked from. Asked by each wake-up, getpid would take its time. */
static int generation = 1;

static void forked(void)
{
    generation++;
}

__attribute__((constructor)) static void follow_forks(void)
{
    pthread_atfork(NULL, NULL, forked);
}

static void woken(void)
{
    static __thread unsigned short state[3];
    static __thread int begun_in;

    if (begun_in != generation) {
        begun_in = generation;
        state[0] = 0x330e;
        state[1] = (unsigned short)getpid();
        state[2] = (unsigned short)gettid();
    }
    double radius = sqrt(-2 * log(1 - erand48(state)));
    sleep_us(WAKE_UP_US * exp(SIGMA * radius * cos(2 * M_PI * erand48(state))));
}

static ssize_t copied(ssize_t size_bytes)
{
    if (size_bytes >= LEAST_COPIED_BYTES)
        sleep_us(size_bytes / COPIED_BYTES_PER_US);
    return size_bytes;
}

int epoll_wait(int poll, struct epoll_event *events, int most, int timeout_ms)
{
    static int (*real)(int, struct epoll_event *, int, int);

    REAL("epoll_wait");
    int count = real(poll, events, most, 0);
    if (count || !timeout_ms)
        return count; /* Nobody slept. */
    count = real(poll, events, most, timeout_ms);
    if (count > 0)
        woken();
    return count;
}

/* After a wait, the mutex is the thread's: others shall have it until the thread runs. */
static int woken_with(int result, pthread_mutex_t *mutex)
{
    if (result == 0) {
        pthread_mutex_unlock(mutex);
        woken();
        pthread_mutex_lock(mutex);
    }
    return result;
}

int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    static int (*real)(pthread_cond_t *, pthread_mutex_t *);

    REAL_OF("pthread_cond_wait", CONDITIONS);
    return woken_with(real(condition, mutex), mutex);
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until)
{
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

    REAL_OF("pthread_cond_timedwait", CONDITIONS);
    return woken_with(real(condition, mutex, until), mutex);
}

int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until)
{
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);

    REAL("pthread_cond_clockwait");
    return woken_with(real(condition, mutex, clock, until), mutex);
}

ssize_t read(int file, void *data, size_t size_bytes)
{
    static ssize_t (*real)(int, void *, size_t);

    REAL("read");
    return copied(real(file, data, size_bytes));
}

ssize_t write(int file, const void *data, size_t size_bytes)
{
    static ssize_t (*real)(int, const void *, size_t);

    REAL("write");
    return copied(real(file, data, size_bytes));
}

ssize_t readv(int file, const struct iovec *parts, int count)
{
    static ssize_t (*real)(int, const struct iovec *, int);

    REAL("readv");
    return copied(real(file, parts, count));
}

ssize_t writev(int file, const struct iovec *parts, int count)
{
    static ssize_t (*real)(int, const struct iovec *, int);

    REAL("writev");
    return copied(real(file, parts, count));
}

ssize_t recv(int file, void *data, size_t size_bytes, int flags)
{
    static ssize_t (*real)(int, void *, size_t, int);

    REAL("recv");
    return copied(real(file, data, size_bytes, flags));
}

ssize_t send(int file, const void *data, size_t size_bytes, int flags)
{
    static ssize_t (*real)(int, const void *, size_t, int);

    REAL("send");
    return copied(real(file, data, size_bytes, flags));
}
