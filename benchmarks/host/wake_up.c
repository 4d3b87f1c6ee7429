/* How long a sleeping thread takes to run after another one has signalled its condition variable, as NCCL's threads of
 * sockets do to each other (persistentSocketThread, src/transport/net_socket.cc), while the one that signals goes on.
 *
 *   gcc -O2 -pthread -o /tmp/wake-up benchmarks/host/wake_up.c && /tmp/wake-up
 *
 * Prints microseconds: the 10th, 50th and 90th percentile of SIGNALS signals, which come as far apart as each line says. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SIGNALS 4000

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t signalled = PTHREAD_COND_INITIALIZER;
static int64_t asked, begun_ns[SIGNALS], taken_ns[SIGNALS];

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void *woken(void *unused)
{
    for (int64_t index = 0; index < SIGNALS; index++) {
        pthread_mutex_lock(&mutex);
        while (asked <= index)
            pthread_cond_wait(&signalled, &mutex);
        taken_ns[index] = now_ns() - begun_ns[index];
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

static int in_order(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

int main(void)
{
    const int64_t apart_ns[] = {50000, 200000, 1000000};

    for (size_t line = 0; line < sizeof apart_ns / sizeof *apart_ns; line++) {
        pthread_t thread;

        asked = 0;
        if (pthread_create(&thread, NULL, woken, NULL))
            return 1;
        for (int64_t index = 0; index < SIGNALS; index++) {
            for (int64_t until = now_ns() + apart_ns[line]; now_ns() < until;)
                ;
            pthread_mutex_lock(&mutex);
            begun_ns[index] = now_ns();
            asked = index + 1;
            pthread_cond_signal(&signalled);
            pthread_mutex_unlock(&mutex);
        }
        pthread_join(thread, NULL);
        qsort(taken_ns, SIGNALS, sizeof *taken_ns, in_order);
        printf("%5lld us apart: %.1f, %.1f, %.1f\n", (long long)(apart_ns[line] / 1000), taken_ns[SIGNALS / 10] / 1e3,
               taken_ns[SIGNALS / 2] / 1e3, taken_ns[SIGNALS * 9 / 10] / 1e3);
    }
    return 0;
}
