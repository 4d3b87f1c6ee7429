/*
 * The blocks of a kernel, which run at the same time on a device, as tasks of one thread: each runs until it has to wait, and is asked
 * again when something has happened. The thread sleeps while none can go on.
 */
#ifndef GRADWIRE_TASKS_H
#define GRADWIRE_TASKS_H
#include <stdint.h>

/* Starts a task that calls run(argument) in a stack of its own. The running task may wait for those that it started. */
void start_task(void (*run)(void *argument), void *argument);
/* Runs tasks, on the calling thread, until all have ended. */
void run_tasks(void);
/* Within a task: lets others run, and returns when the condition that it waits for is to be looked at again. */
void look_again_later(void);
/* Within a task: notes that what it waited for is there. */
void go_on(void);
/* Within a task: waits for a time (CLOCK_MONOTONIC), or for all tasks that it started. */
void wait_until_time(int64_t time_ns);
void wait_for_started(void);

/* Waits until a condition on memory holds. */
#define WAIT_UNTIL(condition)                    \
	do {                                     \
		while (!(condition))             \
			look_again_later();      \
		go_on();                         \
	} while (0)
#endif
