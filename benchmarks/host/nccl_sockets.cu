/* What a message of NCCL's sockets takes on top of TCP's own round trip, on one machine with one GPU.
 *
 *   nvcc -O2 -Xcompiler -rdynamic -o /tmp/nccl-sockets benchmarks/host/nccl_sockets.cu -ldl
 *   CUDA_MODULE_LOADING=EAGER NCCL_RUNTIME_CONNECT=0 NCCL_SHM_DISABLE=1 NCCL_P2P_DISABLE=1 NCCL_SOCKET_NTHREADS=4 \
 *       NCCL_NSOCKS_PERTHREAD=1 NCCL_SOCKET_INLINE=0 NCCL_ALGO=Tree NCCL_PROTO=LL /tmp/nccl-sockets /path/of/libnccl.so.2 2 8
 *
 * Arguments: NCCL's library, ranks, and bytes of an all-reduce (several). Ranks are threads of one process, on one GPU,
 * each with a copy of the library of its own, which takes itself to be on a host of its own (NCCL_HOSTID). So they reach each
 * other by sockets on the loopback interface, and their kernels run side by side. Prints, first, half of a round trip of
 * one byte of TCP on the same interface between two threads that sleep until it comes, as netperf's TCP_RR does; then the
 * time of each call, CALLS of them after each other, in microseconds: median, least and most of REPEATS. */
#include <arpa/inet.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST_RANKS 4
#define ROUND_TRIPS 20000
#define CALLS 200
#define WARM_UP 50
#define REPEATS 31
#define NCCL_FLOAT 7
#define NCCL_SUM 0

typedef struct {
    char bytes[128];
} UniqueId;
typedef int (*GetUniqueId)(UniqueId *);
typedef int (*CommInitRank)(void **, int, UniqueId, int);
typedef int (*AllReduce)(const void *, void *, size_t, int, int, void *, cudaStream_t);

extern char **environ;
static int ranks, size_count;
static size_t sizes[16];
static void *libraries[MOST_RANKS];
static UniqueId identity;
static pthread_barrier_t together;
static double call_us[16][REPEATS];

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static void need(int done, const char *what)
{
    if (!done) {
        fprintf(stderr, "nccl-sockets: %s\n", what);
        exit(1);
    }
}

/* Each copy of the library asks for its host by this function, which tells copies apart by where they were loaded from. */
extern "C" char *getenv(const char *name) noexcept
{
    size_t length = strlen(name);

    if (strcmp(name, "NCCL_HOSTID") == 0) {
        Dl_info caller;

        if (dladdr(__builtin_return_address(0), &caller) && caller.dli_fname)
            return (char *)caller.dli_fname;
    }
    for (char **each = environ; each && *each; each++)
        if (strncmp(*each, name, length) == 0 && (*each)[length] == '=')
            return *each + length + 1;
    return NULL;
}

static int connected(int listening, int *other)
{
    struct sockaddr_in address = {};
    socklen_t length = sizeof address;
    int on = 1;

    need(getsockname(listening, (struct sockaddr *)&address, &length) == 0, "getsockname");
    *other = socket(AF_INET, SOCK_STREAM, 0);
    need(connect(*other, (struct sockaddr *)&address, length) == 0, "connect");
    int one = accept(listening, NULL, NULL);
    need(one >= 0, "accept");
    setsockopt(one, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(*other, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return one;
}

static void *answering(void *given)
{
    char byte;
    int answers = *(int *)given;

    while (recv(answers, &byte, 1, 0) == 1)
        need(send(answers, &byte, 1, 0) == 1, "send");
    return NULL;
}

static double half_round_trip_us(void)
{
    struct sockaddr_in address = {};
    int listening = socket(AF_INET, SOCK_STREAM, 0), answers;
    pthread_t thread;
    char byte = 1;
    double began_us = 0;

    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    need(bind(listening, (struct sockaddr *)&address, sizeof address) == 0 && listen(listening, 1) == 0, "listen");
    int asks = connected(listening, &answers);
    need(pthread_create(&thread, NULL, answering, &answers) == 0, "thread");
    for (int trip = -1000; trip < ROUND_TRIPS; trip++) {
        if (trip == 0)
            began_us = now_us();
        need(send(asks, &byte, 1, 0) == 1 && recv(asks, &byte, 1, 0) == 1, "round trip");
    }
    double half_us = (now_us() - began_us) / ROUND_TRIPS / 2;
    shutdown(asks, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(asks), close(answers), close(listening);
    return half_us;
}

static void *symbol(int rank, const char *name)
{
    void *found = dlsym(libraries[rank], name);

    need(found != NULL, name);
    return found;
}

static void copied(const char *from, const char *to)
{
    static char block[1 << 20];
    FILE *source = fopen(from, "rb"), *copy = fopen(to, "wb");

    need(source && copy, "the library cannot be copied");
    for (size_t got; (got = fread(block, 1, sizeof block, source)) > 0;)
        need(fwrite(block, 1, got, copy) == got, "the library cannot be copied");
    fclose(source), fclose(copy);
}

static void *rank_thread(void *given)
{
    int rank = (int)(intptr_t)given;
    void *comm, *from, *to;
    cudaStream_t stream;
    CommInitRank init = (CommInitRank)symbol(rank, "ncclCommInitRank");
    AllReduce all_reduce = (AllReduce)symbol(rank, "ncclAllReduce");

    need(cudaSetDevice(0) == cudaSuccess, "no GPU");
    need(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess, "stream");
    need(init(&comm, ranks, identity, rank) == 0, "ncclCommInitRank");
    for (int index = 0; index < size_count; index++) {
        need(cudaMalloc(&from, sizes[index]) == cudaSuccess && cudaMalloc(&to, sizes[index]) == cudaSuccess, "memory");
        need(cudaMemset(from, 0, sizes[index]) == cudaSuccess, "memset");
        for (int repeat = -1; repeat < REPEATS; repeat++) {
            int calls = repeat < 0 ? WARM_UP : CALLS;

            need(cudaStreamSynchronize(stream) == cudaSuccess, "synchronize");
            pthread_barrier_wait(&together);
            double began_us = now_us();
            for (int call = 0; call < calls; call++)
                need(all_reduce(from, to, sizes[index] / 4, NCCL_FLOAT, NCCL_SUM, comm, stream) == 0, "ncclAllReduce");
            need(cudaStreamSynchronize(stream) == cudaSuccess, "synchronize");
            if (rank == 0 && repeat >= 0)
                call_us[index][repeat] = (now_us() - began_us) / calls;
            pthread_barrier_wait(&together);
        }
        /* Not freed: cudaFree waits for the device, whose other kernels may wait for this rank. */
    }
    return NULL;
}

static int in_order(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

int main(int count, char **words)
{
    pthread_t threads[MOST_RANKS];
    char folder[] = "/tmp/nccl-sockets-XXXXXX", path[64];

    need(count >= 4 && count <= 19, "nccl-sockets LIBRARY RANKS BYTES..., at most 16 of them");
    ranks = atoi(words[2]);
    need(ranks >= 1 && ranks <= MOST_RANKS, "ranks must be 1 to 4");
    for (int word = 3; word < count; word++)
        sizes[size_count++] = strtoull(words[word], NULL, 10);
    printf("half of a round trip of TCP: %.1f us\n", half_round_trip_us());
    fflush(stdout);
    setenv("NCCL_SOCKET_IFNAME", "lo", 0);
    need(mkdtemp(folder) != NULL, "no folder in /tmp");
    for (int rank = 0; rank < ranks; rank++) {
        snprintf(path, sizeof path, "%s/rank-%d.so", folder, rank);
        copied(words[1], path);
        libraries[rank] = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        need(libraries[rank] != NULL, dlerror());
        unlink(path);
    }
    rmdir(folder);
    pthread_barrier_init(&together, NULL, ranks);
    need(((GetUniqueId)symbol(0, "ncclGetUniqueId"))(&identity) == 0, "ncclGetUniqueId");
    for (int rank = 0; rank < ranks; rank++)
        need(pthread_create(&threads[rank], NULL, rank_thread, (void *)(intptr_t)rank) == 0, "thread");
    for (int rank = 0; rank < ranks; rank++)
        pthread_join(threads[rank], NULL);
    for (int index = 0; index < size_count; index++) {
        qsort(call_us[index], REPEATS, sizeof *call_us[index], in_order);
        printf("%zu bytes, %d ranks: %.1f us (%.1f to %.1f)\n", sizes[index], ranks, call_us[index][REPEATS / 2],
               call_us[index][0], call_us[index][REPEATS - 1]);
    }
    fflush(stdout);
    _exit(0);
}
