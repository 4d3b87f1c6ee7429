/*
 * loop.py: the event loop. A turn of it is one list of calls, or a few where messages are handed over at once: what the last turn has left to
 * do, then the wait for what comes next, and then what is to be done first for each descriptor that is ready.
 */
#include "departures.h"
#include "exported.h"
#include "failures.h"
#include "interpreter.h"
#include "ledger.h"
#include "memory.h"
#include "replay.h"
#include "transfer.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>

#define MOST_EVENTS 1023 /* as many as Python's epoll takes */
#define TIMERS_PLACE 0
#define NEVER INT64_MIN
#define SECOND_NS 1000000000

static struct itimerspec timer_spec;
static struct timespec clock_read;

/* Carries out a list. The replay ends where the kernel cannot. */
static void carry_out_all(struct replay *replay, const struct calls *calls)
{
	long ended = carry_out(calls);

	if (ended < 0)
		fail_call(replay, &(struct call){.number = CALLS, .result = ended});
}

/* Makes one call in a list of its own; fails if it does. */
static int64_t make(struct replay *replay, struct call call)
{
	struct calls one = {&call, 1, 1};

	carry_out_all(replay, &one);
	if (!replay->told.failure && call.result < 0)
		fail_call(replay, &call);
	return call.result;
}

static struct call clock_call(void)
{
	return call_of(SYS_clock_gettime, CLOCK_MONOTONIC, (uint64_t)&clock_read, 0, 0, 0);
}

static int64_t clock_ns(const struct replay *replay)
{
	return clock_read.tv_sec * SECOND_NS + clock_read.tv_nsec - replay->given.start_ns;
}

static struct call timer_call(const struct replay *replay, int64_t at_ns)
{
	int64_t absolute_ns = at_ns == NEVER ? 0 : at_ns + replay->given.start_ns;

	timer_spec.it_value = (struct timespec){absolute_ns / SECOND_NS, absolute_ns % SECOND_NS};
	return call_of(SYS_timerfd_settime, (uint64_t)replay->timer, TFD_TIMER_ABSTIME, (uint64_t)&timer_spec, 0, 0);
}

static struct call wait_call(const struct replay *replay)
{
	return call_of(SYS_epoll_wait, (uint64_t)replay->poll, (uint64_t)replay->ready, MOST_EVENTS, (uint64_t)-1, 0);
}

static void watch(struct replay *replay, int descriptor, uint32_t events, uint64_t place)
{
	struct ready wanted = {events, place};

	make(replay, call_of(SYS_epoll_ctl, (uint64_t)replay->poll, EPOLL_CTL_ADD, (uint64_t)descriptor, (uint64_t)&wanted, 0));
}

static void wait_for_start(struct replay *replay)
{
	struct call call;
	struct calls one = {&call, 1, 1};

	do {
		call = wait_call(replay);
		carry_out(&one);
	} while (call.result == -EINTR);
	if (call.result < 0)
		fail_call(replay, &call);
}

/* Waits for the start, and then watches all connections. */
static void start(struct replay *replay)
{
	const struct given *given = &replay->given;

	replay->is_begun = 1;
	replay->poll = (int)make(replay, call_of(SYS_epoll_create1, 0, 0, 0, 0, 0));
	replay->timer = (int)make(replay, call_of(SYS_timerfd_create, CLOCK_MONOTONIC, TFD_NONBLOCK, 0, 0, 0));
	watch(replay, replay->timer, EPOLLIN, TIMERS_PLACE);
	make(replay, timer_call(replay, 0));
	wait_for_start(replay);
	for (int64_t place = 0; place < given->receivers; place++)
		watch(replay, given->incoming[place].descriptor, EPOLLIN, (uint64_t)(1 + place));
	for (int64_t place = 0; place < given->senders; place++)
		watch(replay, given->outgoing[place].descriptor, EPOLLET, (uint64_t)(1 + given->receivers + place));
	make(replay, clock_call());
	begin(replay, clock_ns(replay));
}

static struct call *call_of_sender(struct replay *replay, const struct sender *sender)
{
	return &replay->of_ready[1 + replay->given.receivers + (sender - replay->senders)];
}

/* Adds to the list what hands over the messages in the outbox. */
static void add_outbox(struct replay *replay)
{
	const struct given *given = &replay->given;

	for (long number = 0; number < replay->outbox.count; number++) {
		const struct outgoing *message = &replay->outbox.at[number];
		struct sender *sender = &replay->senders[given->sender[message->op]];
		int64_t written_bytes = sender->written_bytes;

		begin_message(replay, sender, message);
		add_pump(replay, sender);
		expect_departure(call_of_sender(replay, sender), sender);
		replay->told.messages_sent++;
		replay->told.bytes_sent += sender->written_bytes - written_bytes;
	}
	replay->outbox.count = 0;
}

/* What has become of the messages that a list was to hand over. Those with more pieces than fit into it are in the next one. */
static void note_attempts(struct replay *replay)
{
	long count = replay->attempts.count;
	enum progress progress[count + 1];

	for (long number = 0; number < count; number++)
		progress[number] = pumped(replay, &replay->attempts.at[number]);
	replay->attempts.count = replay->list.count = 0;
	for (long number = 0; number < count && !replay->told.failure; number++) {
		struct sender *sender = replay->attempts.at[number].sender;

		if (progress[number] == WHOLE && !sender->is_leaving)
			sent(replay, sender, 0);
		/* It takes a place at or before its own */
		if (progress[number] == HAS_MORE)
			add_pump(replay, sender);
	}
}

static void hear_receiver(struct replay *replay, int64_t place)
{
	struct call *call = &replay->of_ready[1 + place];

	take_bytes(replay, call, &replay->receivers[place]);
	expect_bytes(call, &replay->receivers[place]);
}

static void hear_sender(struct replay *replay, struct sender *sender, uint32_t events)
{
	struct call *call = call_of_sender(replay, sender);
	int64_t on_line_ns;

	if (events & EPOLLHUP)
		fail_hung_up(replay, sender);
	if (!(events & EPOLLERR) || !sender->is_leaving || call->result == NOT_MADE)
		return;
	if (has_departed(replay, call, sender, &on_line_ns))
		sent(replay, sender, on_line_ns);
	expect_departure(call, sender);
}

/* First what has come, and then what may go. */
static void note_ready(struct replay *replay, int64_t count)
{
	const struct given *given = &replay->given;
	int64_t place;

	advance(replay, clock_ns(replay));
	for (int64_t number = 0; number < count && !replay->told.failure; number++) {
		place = (int64_t)replay->ready[number].call - 1;
		if (place >= given->receivers)
			hear_sender(replay, &replay->senders[place - given->receivers], replay->ready[number].events);
		else if (place >= 0)
			hear_receiver(replay, place);
	}
	for (int64_t number = 0; number < count && !replay->told.failure; number++) {
		place = (int64_t)replay->ready[number].call - 1 - given->receivers;
		if (place >= 0 && replay->ready[number].events & EPOLLOUT && replay->senders[place].is_waiting)
			add_pump(replay, &replay->senders[place]);
	}
}

static int64_t next_timer_ns(const struct replay *replay)
{
	return replay->timers.count ? replay->timers.at[0].key : NEVER;
}

/* Of the calls that may not fail, whether they did. What became of messages is theirs to note. */
static void expect_success(struct replay *replay)
{
	for (long at = 0; at < replay->list.count; at++) {
		const struct call *call = &replay->list.at[at];
		int is_wait = call->number == SYS_epoll_wait;

		if (!is_wait && call->number != SYS_setsockopt && call->number != SYS_timerfd_settime &&
		    call->number != SYS_clock_gettime)
			continue;
		if (call->result < 0 && call->result != NOT_MADE && !(is_wait && call->result == -EINTR))
			fail_call(replay, call);
	}
}

static void carry_out_list(struct replay *replay)
{
	carry_out_all(replay, &replay->list);
	expect_success(replay);
}

/* Carries out the list, and then waits for what comes next unless there is news already. */
static void turn(struct replay *replay)
{
	int64_t timer_ns = next_timer_ns(replay), ready;
	long wait;

	if (timer_ns != replay->timer_ns)
		add_call(&replay->list, timer_call(replay, timer_ns))->waits = 1;
	wait = replay->list.count;
	add_call(&replay->list, wait_call(replay))->waits = 1;
	add_call(&replay->list, call_of(EACH_READY, (uint64_t)replay->ready, (uint64_t)replay->of_ready, 0, 0, 0));
	/* Only now, so that nothing is noted before it has happened: _turn in loop.py */
	add_call(&replay->list, clock_call());
	carry_out_list(replay);
	ready = replay->list.at[wait].result;
	if (ready != NOT_MADE)
		replay->timer_ns = timer_ns;
	note_attempts(replay);
	if (ready != NOT_MADE && !replay->told.failure)
		note_ready(replay, ready);
}

struct replay *open_replay(const struct given *given)
{
	struct replay *replay = memory(sizeof(struct replay));
	int64_t places = 1 + given->receivers + given->senders;

	replay->given = *given;
	replay->poll = replay->timer = -1;
	replay->set_words = (given->workers + 63) / 64;
	replay->told.arrived = new_contributions(replay);
	replay->told.total = new_contributions(replay);
	open_interpreter(replay);
	replay->ready = memory(MOST_EVENTS * sizeof(struct ready));
	replay->of_ready = memory((size_t)places * sizeof(struct call));
	replay->wanted = memory((size_t)given->senders * sizeof(struct ready));
	replay->receivers = memory((size_t)given->receivers * sizeof(struct receiver));
	replay->senders = memory((size_t)given->senders * sizeof(struct sender));
	replay->of_ready[TIMERS_PLACE].number = NOTHING;
	for (int64_t place = 0; place < given->receivers; place++) {
		open_receiver(replay, &replay->receivers[place], &given->incoming[place]);
		expect_bytes(&replay->of_ready[1 + place], &replay->receivers[place]);
	}
	for (int64_t place = 0; place < given->senders; place++) {
		open_sender(replay, &replay->senders[place], &given->outgoing[place]);
		expect_departure(&replay->of_ready[1 + given->receivers + place], &replay->senders[place]);
	}
	return replay;
}

enum what go_on(struct replay *replay)
{
	const struct given *given = &replay->given;
	int64_t done = replay->told.iterations_done;

	if (!replay->is_begun)
		start(replay);
	while (!replay->told.failure) {
		add_outbox(replay);
		if (replay->told.iterations_done != done) {
			if (!replay->attempts.count)
				return ITERATED;
			/* What the turn has left to do, and no wait: the news comes first */
			carry_out_list(replay);
			note_attempts(replay);
		} else if (!replay->attempts.count && (done == given->iterations || !given->own)) {
			return FINISHED;
		} else {
			turn(replay);
		}
	}
	return FAILED;
}

const struct told *told_by(const struct replay *replay)
{
	return &replay->told;
}

void close_replay(struct replay *replay)
{
	if (replay->is_begun) {
		system_call(SYS_close, replay->poll, 0, 0, 0, 0, 0);
		system_call(SYS_close, replay->timer, 0, 0, 0, 0, 0);
	}
	release();
}

uint64_t border_digest(void)
{
	return BORDER_DIGEST;
}

/* An empty list ends at its beginning. */
int takes_lists(void)
{
	struct calls none = {NULL, 0, 0};

	return carry_out(&none) == 0;
}
