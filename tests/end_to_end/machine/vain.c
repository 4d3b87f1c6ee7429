/*
 * Asks the same question again and again until something has happened, as programs do that have nothing else to do, and prints how much later
 * than that it noticed, in nanoseconds, and how many times it asked.
 *
 *     ./vain WAY MS
 *
 * WAY, each until another process writes a byte after MS milliseconds, unless it says otherwise:
 *     both        select: whether that byte is there, or another descriptor can be written to, as it always can (iperf3)
 *     poll, epoll the same by poll and epoll_wait
 *     deadline    select, of the descriptor that can be written to alone, until the clock says that MS have passed
 *     zero        poll without waiting
 *     again       recv without waiting
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

static int has_come(const char *way, int byte, int writable, int epoll, long end_ns)
{
	struct pollfd polled[] = { { byte, POLLIN }, { writable, POLLOUT } };
	struct epoll_event events[2];
	fd_set reads, writes;
	int i, count;
	char c;

	if (!strcmp(way, "again"))
		return recv(byte, &c, 1, MSG_DONTWAIT) == 1;
	if (!strcmp(way, "zero"))
		return poll(polled, 1, 0) == 1;
	if (!strcmp(way, "poll"))
		return poll(polled, 2, -1) == 2;
	if (!strcmp(way, "epoll")) {
		count = epoll_wait(epoll, events, 2, -1);
		for (i = 0; i < count; i++)
			if (events[i].events & EPOLLIN)
				return 1;
		return 0;
	}
	FD_ZERO(&reads);
	FD_ZERO(&writes);
	FD_SET(writable, &writes);
	if (!strcmp(way, "both"))
		FD_SET(byte, &reads);
	select((byte > writable ? byte : writable) + 1, &reads, &writes, NULL, NULL);
	return strcmp(way, "both") ? now_ns() >= end_ns : FD_ISSET(byte, &reads);
}

int main(int argc, char **argv)
{
	struct epoll_event in = { EPOLLIN }, out = { EPOLLOUT };
	int byte[2], writable[2], epoll = epoll_create1(0), timed;
	long wait_ns, end_ns, asked = 0;

	if (argc != 3 || socketpair(AF_UNIX, SOCK_STREAM, 0, byte) || socketpair(AF_UNIX, SOCK_STREAM, 0, writable) ||
	    epoll_ctl(epoll, EPOLL_CTL_ADD, byte[0], &in) || epoll_ctl(epoll, EPOLL_CTL_ADD, writable[0], &out))
		return 2;
	timed = !strcmp(argv[1], "deadline");
	wait_ns = atol(argv[2]) * 1000000;
	prctl(PR_SET_TIMERSLACK, 1);
	end_ns = now_ns() + wait_ns;
	if (!timed && !fork()) {
		struct timespec pause = { wait_ns / 1000000000, wait_ns % 1000000000 };

		nanosleep(&pause, NULL);
		return write(byte[1], "", 1) != 1;
	}
	do {
		now_ns();
		asked++;
	} while (!has_come(argv[1], byte[0], writable[0], epoll, end_ns));
	printf("%ld %ld\n", now_ns() - end_ns, asked);
	return 0;
}
