/* Fills the vector registers with a pattern of its own in each thread, does what makes the kernel save or restore them, and compares. */
#define _GNU_SOURCE
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define ROUNDS 200

static volatile int wrong;

/* One system call between filling and reading all sixteen ymm registers, so that nothing else touches them. */
static long kept(long number, long a, long b, long c, unsigned pattern, long *result)
{
	unsigned in[8], out[16][8];
	for (int i = 0; i < 8; i++) in[i] = pattern * 2654435761u + i;
	register long r10 __asm__("r10") = 0;
	register long r8 __asm__("r8") = 0;
	long rax = number;
	__asm__ volatile(
		"vmovdqu (%[in]), %%ymm0\n vmovdqa %%ymm0, %%ymm1\n vmovdqa %%ymm0, %%ymm2\n vmovdqa %%ymm0, %%ymm3\n"
		"vmovdqa %%ymm0, %%ymm4\n vmovdqa %%ymm0, %%ymm5\n vmovdqa %%ymm0, %%ymm6\n vmovdqa %%ymm0, %%ymm7\n"
		"vmovdqa %%ymm0, %%ymm8\n vmovdqa %%ymm0, %%ymm9\n vmovdqa %%ymm0, %%ymm10\n vmovdqa %%ymm0, %%ymm11\n"
		"vmovdqa %%ymm0, %%ymm12\n vmovdqa %%ymm0, %%ymm13\n vmovdqa %%ymm0, %%ymm14\n vmovdqa %%ymm0, %%ymm15\n"
		"syscall\n"
		"vmovdqu %%ymm0, (%[out])\n vmovdqu %%ymm1, 32(%[out])\n vmovdqu %%ymm2, 64(%[out])\n vmovdqu %%ymm3, 96(%[out])\n"
		"vmovdqu %%ymm4, 128(%[out])\n vmovdqu %%ymm5, 160(%[out])\n vmovdqu %%ymm6, 192(%[out])\n vmovdqu %%ymm7, 224(%[out])\n"
		"vmovdqu %%ymm8, 256(%[out])\n vmovdqu %%ymm9, 288(%[out])\n vmovdqu %%ymm10, 320(%[out])\n vmovdqu %%ymm11, 352(%[out])\n"
		"vmovdqu %%ymm12, 384(%[out])\n vmovdqu %%ymm13, 416(%[out])\n vmovdqu %%ymm14, 448(%[out])\n vmovdqu %%ymm15, 480(%[out])\n"
		: "+a"(rax)
		: "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), [in] "r"(in), [out] "r"(out)
		: "rcx", "r11", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
		  "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
	if (result) *result = rax;
	for (int r = 0; r < 16; r++)
		if (memcmp(out[r], in, sizeof in)) return 1 + r;
	return 0;
}

static void check(const char *what, long number, long a, long b, long c, unsigned pattern)
{
	long bad = kept(number, a, b, c, pattern, NULL);
	if (bad) { printf("%s: register %ld changed\n", what, bad - 1); wrong = 1; }
}

static void on_signal(int signal)
{
	check("in a handler", SYS_sched_yield, 0, 0, 0, 7777 + signal);
}

static void *thread(void *number)
{
	unsigned base = 1000 * (unsigned)(long)number;
	long tid = syscall(SYS_gettid), pid = getpid();
	struct timespec pause = {0, 1000};
	for (unsigned i = 0; i < ROUNDS; i++) {
		check("getppid", SYS_getppid, 0, 0, 0, base + i);
		check("sched_yield", SYS_sched_yield, 0, 0, 0, base + i);
		check("nanosleep", SYS_nanosleep, (long)&pause, 0, 0, base + i);
		check("tgkill of itself", SYS_tgkill, pid, tid, SIGUSR1, base + i);
	}
	return NULL;
}

static void fork_keeps(unsigned pattern)
{
	long pid;
	long bad = kept(SYS_fork, 0, 0, 0, pattern, &pid);
	if (pid == 0) _exit(bad ? 1 : 0);
	int status = -1;
	if (waitpid(pid, &status, 0) != pid || status) { puts("fork: the child's registers differ"); wrong = 1; }
	if (bad) { puts("fork: the parent's registers changed"); wrong = 1; }
}

/* A page fault between filling and reading: the store faults, the registers must not notice. */
static void fault_keeps(char *page, unsigned pattern)
{
	unsigned in[8], out[8];
	for (int i = 0; i < 8; i++) in[i] = pattern + i;
	__asm__ volatile("vmovdqu (%1), %%ymm5\n movb $1, (%0)\n vmovdqu %%ymm5, (%2)" : : "r"(page), "r"(in), "r"(out) : "memory", "xmm5");
	if (memcmp(in, out, sizeof in)) { puts("page fault: a register changed"); wrong = 1; }
}

int main(void)
{
	signal(SIGUSR1, on_signal);
	pthread_t threads[THREADS];
	for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, thread, (void *)i);
	for (unsigned i = 0; i < 50; i++) fork_keeps(500000 + i);
	char *pages = mmap(NULL, 4096L * ROUNDS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (unsigned i = 0; i < ROUNDS; i++) fault_keeps(pages + 4096L * i, 600000 + i);
	for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
	puts(wrong ? "registers were lost" : "registers kept");
	return wrong;
}
