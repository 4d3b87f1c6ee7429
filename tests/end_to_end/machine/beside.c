/* How late a process wakes beside others that wait in a loop: `beside WAY COUNT` prints the worst of 30 times in ns. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

static const long PERIOD_NS = 1000000;

static long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void wait_once(const char *way, int empty, int epoll)
{
	struct pollfd polled = {empty, POLLIN, 0};
	struct timespec no_time = {0, 0};
	struct timeval no_timeval = {0, 0};
	struct epoll_event event;
	fd_set set;
	char byte;

	FD_ZERO(&set);
	FD_SET(empty, &set);
	if (!strcmp(way, "clock"))
		now_ns();
	else if (!strcmp(way, "read"))
		(void)!read(empty, &byte, 1);
	else if (!strcmp(way, "poll"))
		poll(&polled, 1, 0);
	else if (!strcmp(way, "ppoll"))
		ppoll(&polled, 1, &no_time, NULL);
	else if (!strcmp(way, "select"))
		select(empty + 1, &set, NULL, NULL, &no_timeval);
	else if (!strcmp(way, "pselect"))
		pselect(empty + 1, &set, NULL, NULL, &no_time, NULL);
	else if (!strcmp(way, "epoll_wait"))
		epoll_wait(epoll, &event, 1, 0);
	else if (!strcmp(way, "epoll_pwait2"))
		epoll_pwait2(epoll, &event, 1, &no_time, NULL);
	else if (!strcmp(way, "sched_yield"))
		sched_yield();
	else
		exit(2);
}

int main(int argc, char **argv)
{
	const char *way = argc == 3 ? argv[1] : "";
	int count = argc == 3 ? atoi(argv[2]) : 0, ends[2], epoll = epoll_create1(0);
	struct epoll_event wanted = {EPOLLIN};
	struct timespec period = {0, PERIOD_NS};
	struct timespec booting = {1, 0}; /* the kernel's timers get exact a few ticks after it has started this */
	long worst_ns = 0;

	if (pipe2(ends, O_NONBLOCK) || epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &wanted))
		return 1;
	for (int child = 0; child < count; child++)
		if (!fork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			nanosleep(&booting, NULL);
			for (;;)
				wait_once(way, ends[0], epoll);
		}
	prctl(PR_SET_TIMERSLACK, 1);
	nanosleep(&booting, NULL);
	for (int i = 0; i < 30; i++) {
		long begin_ns = now_ns(), late_ns;

		nanosleep(&period, NULL);
		late_ns = now_ns() - begin_ns - PERIOD_NS;
		if (late_ns > worst_ns)
			worst_ns = late_ns;
	}
	printf("%ld\n", worst_ns);
	return 0;
}
