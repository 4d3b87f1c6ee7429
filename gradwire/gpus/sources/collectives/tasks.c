/* Tasks with stacks of their own, switched by hand (System V ABI of x86-64): seven words per switch, and no system call. */
#define _GNU_SOURCE
#include "tasks.h"

#include "../device_time.h"
#include "../ending.h"
#include "../progress.h"

#include <stdlib.h>
#include <sys/mman.h>

#ifndef __x86_64__
#error "tasks.c switches stacks of x86-64"
#endif

enum { STACK_BYTES = 128 << 10, SAVED_REGISTERS = 6, STACK_ALIGNMENT = 64 };

struct task_of_block {
	struct task_of_block *next, *parent;
	void *stack, *stack_pointer;
	void (*run)(void *);
	void *argument;
	int children, has_ended;
};

/* Of the thread that runs tasks. */
static __thread struct {
	struct task_of_block *tasks, *running;
	void *stack_pointer;
	/* Whether any task went on since all were asked, and the earliest time that one waits for. */
	int has_progressed;
	int64_t wanted_ns;
} pool;

/* Saves what a function has to keep on the stack that is left, and takes it from the one that is entered. */
__attribute__((naked, noinline)) static void switch_stack(void **left, void *entered)
{
	(void)left, (void)entered;
	__asm__("push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
		"mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
		"pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret");
}

void look_again_later(void)
{
	struct task_of_block *task = pool.running;

	switch_stack(&task->stack_pointer, pool.stack_pointer);
}

void go_on(void)
{
	pool.has_progressed = 1;
}

static void begin_task(void)
{
	struct task_of_block *task = pool.running;

	task->run(task->argument);
	task->has_ended = 1;
	if (task->parent)
		task->parent->children--;
	go_on();
	look_again_later();
}

void start_task(void (*run)(void *), void *argument)
{
	struct task_of_block *task = calloc(1, sizeof(*task));
	void **top;

	if (!task)
		end_program("no memory for a block");
	task->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (task->stack == MAP_FAILED)
		end_program("no memory for a block's stack");
	top = (void **)((char *)task->stack + STACK_BYTES - STACK_ALIGNMENT);
	*--top = NULL; /* where begin_task would return to */
	*--top = (void *)begin_task;
	for (int saved = 0; saved < SAVED_REGISTERS; saved++)
		*--top = NULL;
	task->stack_pointer = top;
	task->run = run;
	task->argument = argument;
	task->parent = pool.running;
	if (task->parent)
		task->parent->children++;
	task->next = pool.tasks;
	pool.tasks = task;
	go_on();
}

static void remove_task(struct task_of_block *task)
{
	struct task_of_block **link = &pool.tasks;

	while (*link != task)
		link = &(*link)->next;
	*link = task->next;
	munmap(task->stack, STACK_BYTES);
	free(task);
}

/* Asks each task once whether it can go on. */
static void ask_all(void)
{
	for (struct task_of_block *task = pool.tasks, *next; task; task = next) {
		pool.running = task;
		switch_stack(&pool.stack_pointer, task->stack_pointer);
		next = task->next;
		if (task->has_ended)
			remove_task(task);
	}
	pool.running = NULL;
}

void run_tasks(void)
{
	while (pool.tasks) {
		uint32_t count = happened();

		pool.has_progressed = 0;
		pool.wanted_ns = 0;
		ask_all();
		if (pool.has_progressed)
			tell_progress();
		else
			wait_for_progress(count, pool.wanted_ns);
	}
}

void wait_until_time(int64_t time_ns)
{
	if (time_ns <= now_ns())
		return;
	do {
		if (!pool.wanted_ns || time_ns < pool.wanted_ns)
			pool.wanted_ns = time_ns;
		look_again_later();
	} while (now_ns() < time_ns);
	go_on();
}

void wait_for_started(void)
{
	struct task_of_block *task = pool.running;

	WAIT_UNTIL(!task->children);
}
