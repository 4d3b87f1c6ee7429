/* interpreter.py, whose docstring says what the states of an op are, and how it keeps its times. */
#include "interpreter.h"

#include "arithmetic.h"
#include "contention.h"
#include "failures.h"
#include "ledger.h"
#include "memory.h"
#include "replay.h"

static void push_place(struct places *places, int32_t place)
{
	if (places->count == places->room)
		places->at = grown(places->at, &places->room, sizeof(int32_t));
	places->at[places->count++] = place;
}

static void serve_stream_later(struct replay *replay, int32_t number)
{
	struct stream *stream = &replay->streams[number];

	if (!stream->is_to_serve)
		push_place(&replay->streams_to_serve, number);
	stream->is_to_serve = 1;
}

static void serve_queue_later(struct replay *replay, int32_t lane)
{
	struct queue *queue = &replay->queues[lane];

	if (!queue->is_to_serve)
		push_place(&replay->queues_to_serve, lane);
	queue->is_to_serve = 1;
}

static void note_end(struct replay *replay, struct ended end)
{
	struct ends *ended = &replay->ended;

	if (ended->count == ended->room)
		ended->at = grown(ended->at, &ended->room, sizeof(struct ended));
	ended->at[ended->count++] = end;
}

/* From WAITING to READY */

static void add_up(struct replay *replay, int32_t iteration, int32_t op, const struct contributions *carried)
{
	int32_t slot = replay->given.slot[op];

	if (arrive(replay, slot, replay->given.combine[op], carried) || replay->told.failure)
		return;
	copy_contributions(replay, &replay->told.arrived, carried);
	copy_contributions(replay, &replay->told.total, &replay->sums[slot]);
	fail_contradictory(replay, (struct contradictory){.iteration = iteration, .op = op});
}

static void become_ready(struct replay *replay, int32_t iteration, int32_t op, int64_t ready_ns)
{
	const struct given *given = &replay->given;
	struct iteration *of = replay->iterations[iteration];
	uint8_t kind = given->kind[op];
	int32_t lane = given->lane[op];

	of->ready_ns[op] = ready_ns;
	if (kind == RECV) {
		struct arrival *arrival = of->arrivals[op];
		int64_t start_ns = arrival->start_ns;

		of->arrivals[op] = NULL;
		if (given->slot[op] >= 0)
			add_up(replay, iteration, op, &arrival->carried);
		arrival->next_free = replay->free_arrivals;
		replay->free_arrivals = arrival;
		note_end(replay, (struct ended){replay->now_ns, start_ns, start_ns, iteration, op});
	} else if (kind == SEND) {
		push_send(replay, lane, ready_ns, iteration, op);
		serve_queue_later(replay, lane);
	} else {
		int64_t order = given->order[op];
		struct entry entry = {ready_ns, order, iteration, op, 0, 0};

		if (kind == REDUCE)
			entry = (struct entry){order, ready_ns, iteration, op, 0, 0};
		push(&replay->streams[given->stream[op]].waiting, entry);
		serve_stream_later(replay, given->stream[op]);
	}
}

static struct iteration *new_iteration(struct replay *replay)
{
	size_t ops = (size_t)replay->given.ops;
	struct iteration *made = replay->free_iterations;

	if (made) {
		replay->free_iterations = made->next_free;
		return made;
	}
	made = memory(sizeof(struct iteration));
	made->pending = memory(ops * sizeof(int32_t));
	made->ready_ns = memory(ops * sizeof(int64_t));
	made->arrivals = memory(ops * sizeof(struct arrival *));
	made->transfers = new_transfers(replay);
	return made;
}

static struct iteration *iteration_of(struct replay *replay, int32_t number)
{
	const struct given *given = &replay->given;
	const int32_t *waits = number ? given->waits_later : given->waits_first;
	struct iteration *made = replay->iterations[number];

	if (made)
		return made;
	made = new_iteration(replay);
	memcpy(made->pending, waits, (size_t)given->ops * sizeof(int32_t));
	memset(made->ready_ns, 0, (size_t)given->ops * sizeof(int64_t));
	reset_transfers(replay, made->transfers);
	made->unended = given->own;
	replay->iterations[number] = made;
	for (int64_t own = 0; own < given->own; own++) {
		int32_t op = (int32_t)given->own_ops[own];

		if (!waits[op])
			become_ready(replay, number, op, replay->now_ns);
	}
	return made;
}

static void dependency_ended(struct replay *replay, int32_t number, int32_t op, int64_t end_ns)
{
	struct iteration *iteration = iteration_of(replay, number);

	iteration->ready_ns[op] = larger(iteration->ready_ns[op], end_ns);
	if (!--iteration->pending[op])
		become_ready(replay, number, op, iteration->ready_ns[op]);
}

/* From RUNNING to ENDED */

static void end_stream_op(struct replay *replay, const struct entry *timer)
{
	int32_t number = replay->given.stream[timer->op];
	struct stream *stream = &replay->streams[number];

	if (slows(replay, timer->op))
		computed(replay, timer->op);
	stream->is_running = 0;
	stream->free_ns = timer->key;
	serve_stream_later(replay, number);
	note_end(replay, (struct ended){timer->key, timer->nominal_start_ns, timer->start_ns, timer->iteration, timer->op});
}

static void end_send(struct replay *replay, int32_t iteration, int32_t op, int64_t start_ns, int64_t end_ns)
{
	int32_t lane = replay->given.lane[op];
	struct queue *queue = &replay->queues[lane];

	note_end(replay, (struct ended){end_ns, replay->iterations[iteration]->ready_ns[op], start_ns, iteration, op});
	queue->is_busy = 0;
	queue->free_ns = end_ns;
	serve_queue_later(replay, lane);
}

/* From READY to RUNNING */

static void expect_complete(struct replay *replay, int32_t iteration, int32_t op, const struct lists *of, int64_t needed)
{
	for (int64_t at = of->start[op]; at < of->start[op + 1]; at++)
		if (replay->complete[of->of[at]] != needed)
			fail_not_complete(replay, (struct not_complete){.iteration = iteration,
									.op = op,
									.slot = of->of[at],
									.held = replay->complete[of->of[at]],
									.needed = needed});
}

static void serve_stream(struct replay *replay, int32_t number)
{
	const struct given *given = &replay->given;
	struct stream *stream = &replay->streams[number];
	struct entry next, timer;

	if (!pop_stream(stream, &next))
		return;
	expect_complete(replay, next.iteration, next.op, &given->consumes, next.iteration - 1);
	expect_complete(replay, next.iteration, next.op, &given->needs, next.iteration);
	timer = next;
	timer.second_key = 0;
	timer.nominal_start_ns = larger(replay->iterations[next.iteration]->ready_ns[next.op], stream->free_ns);
	timer.start_ns = replay->now_ns;
	timer.key = timer.nominal_start_ns + given->duration_ns[next.op];
	if (slows(replay, next.op))
		computes(replay, &timer);
	if (timer.key > replay->now_ns)
		push(&replay->timers, timer);
	else
		end_stream_op(replay, &timer);
}

static void deliver(struct replay *replay, int32_t op, int32_t iteration, const struct contributions *carried, int64_t start_ns)
{
	struct arrival **place = &iteration_of(replay, iteration)->arrivals[op];
	struct arrival *arrival = *place ? *place : replay->free_arrivals;

	if (!arrival) {
		arrival = memory(sizeof(struct arrival));
		arrival->carried = new_contributions(replay);
	} else if (!*place) {
		replay->free_arrivals = arrival->next_free;
	}
	copy_contributions(replay, &arrival->carried, carried);
	arrival->start_ns = start_ns;
	*place = arrival;
	dependency_ended(replay, iteration, op, replay->now_ns);
}

static struct outgoing *new_outgoing(struct replay *replay)
{
	struct outbox *outbox = &replay->outbox;

	if (outbox->count == outbox->room) {
		long had = outbox->room;

		outbox->at = grown(outbox->at, &outbox->room, sizeof(struct outgoing));
		for (; had < outbox->room; had++)
			outbox->at[had].carried = new_contributions(replay);
	}
	return &outbox->at[outbox->count++];
}

/* Sends a message onto the network, or through memory if its receiver is on the same host. */
static void dispatch(struct replay *replay, int32_t iteration, int32_t op)
{
	const struct given *given = &replay->given;
	struct outgoing *message = new_outgoing(replay);

	message->iteration = iteration;
	message->op = op;
	message->carried.iteration = -1;
	memset(message->carried.workers, 0, (size_t)replay->set_words * sizeof(uint64_t));
	if (given->slot[op] >= 0)
		carry(replay, given->slot[op], given->received_as[op], &message->carried);
	if (given->is_remote[op])
		return;
	replay->outbox.count--;
	end_send(replay, iteration, op, replay->now_ns, replay->now_ns);
	deliver(replay, given->recv[op], iteration, &message->carried, replay->now_ns);
}

static void serve_queue(struct replay *replay, int32_t lane)
{
	struct entry next;
	int64_t latency_ns, start_ns;

	if (!pop_send(replay, lane, &next))
		return;
	note_begin(replay, next.iteration, next.op);
	latency_ns = replay->given.duration_ns[next.op];
	if (!latency_ns) {
		dispatch(replay, next.iteration, next.op);
		return;
	}
	start_ns = larger(replay->now_ns, replay->queues[lane].free_ns);
	push(&replay->timers, (struct entry){start_ns + latency_ns, 0, next.iteration, next.op, start_ns, start_ns});
}

static void end_timer(struct replay *replay, const struct entry *timer)
{
	replay->given.lateness_ns[replay->told.timers++] = replay->now_ns - timer->key;
	if (replay->given.kind[timer->op] == SEND)
		dispatch(replay, timer->iteration, timer->op);
	else
		end_stream_op(replay, timer);
}

/* Logs an op that has ended and tells those that depend on it. */
static void propagate(struct replay *replay, const struct ended *end)
{
	const struct given *given = &replay->given;
	struct iteration *iteration = replay->iterations[end->iteration];
	int64_t *row = given->log + LOG_COLUMNS * replay->told.rows++;
	const struct lists *produces = &given->produces, *successors = &given->successors;

	note_message_end(replay, end->iteration, end->op, end->end_ns);
	row[LOG_ITERATION] = end->iteration;
	row[LOG_OP] = end->op;
	row[LOG_NOMINAL_START_NS] = end->nominal_start_ns;
	row[LOG_START_NS] = end->start_ns;
	row[LOG_END_NS] = slows(replay, end->op) ? end->end_ns : larger(end->end_ns, replay->now_ns);
	for (int64_t at = produces->start[end->op]; at < produces->start[end->op + 1]; at++)
		produce(replay, produces->of[at], given->worker[given->rank[end->op]], end->iteration);
	for (int64_t edge = successors->start[end->op]; edge < successors->start[end->op + 1]; edge++) {
		int32_t number = end->iteration + given->lag[edge];

		if (number < given->iterations)
			dependency_ended(replay, number, successors->of[edge], end->end_ns);
	}
	if (!--iteration->unended) {
		replay->iterations[end->iteration] = NULL;
		iteration->next_free = replay->free_iterations;
		replay->free_iterations = iteration;
		replay->told.iterations_done++;
	}
}

/* Lets everything happen that takes no time: "The invariant" of interpreter.py. */
static void settle(struct replay *replay)
{
	struct ends *ended = &replay->ended;

	while (!replay->told.failure) {
		if (ended->first < ended->count) {
			struct ended end = ended->at[ended->first++];

			if (ended->first == ended->count)
				ended->first = ended->count = 0;
			propagate(replay, &end);
		} else if (replay->streams_to_serve.count) {
			int32_t number = replay->streams_to_serve.at[--replay->streams_to_serve.count];

			replay->streams[number].is_to_serve = 0;
			serve_stream(replay, number);
		} else if (replay->queues_to_serve.count) {
			int32_t lane = replay->queues_to_serve.at[--replay->queues_to_serve.count];

			replay->queues[lane].is_to_serve = 0;
			serve_queue(replay, lane);
		} else {
			return;
		}
	}
}

/* What the loop calls */

void open_interpreter(struct replay *replay)
{
	replay->iterations = memory((size_t)replay->given.iterations * sizeof(struct iteration *));
	open_ledger(replay);
	open_lanes(replay);
	open_contention(replay);
}

void begin(struct replay *replay, int64_t now_ns)
{
	replay->now_ns = now_ns;
	iteration_of(replay, 0);
	settle(replay);
}

void advance(struct replay *replay, int64_t now_ns)
{
	struct heap *timers = &replay->timers;

	replay->now_ns = now_ns;
	while (timers->count && timers->at[0].key <= now_ns) {
		int64_t due_ns = timers->at[0].key;

		while (timers->count && timers->at[0].key == due_ns) {
			struct entry timer = pop(timers);

			end_timer(replay, &timer);
		}
		settle(replay);
	}
}

void sent(struct replay *replay, const struct sender *sender, int64_t on_line_ns)
{
	end_send(replay, sender->iteration, sender->op, sender->start_ns, replay->now_ns + on_line_ns);
	settle(replay);
}

void arrived(struct replay *replay, struct receiver *receiver)
{
	const struct given *given = &replay->given;
	int64_t message = receiver->message;

	if (message < 0 || message >= given->ops || given->recv[message] < 0 || receiver->iteration < 0 ||
	    receiver->iteration >= given->iterations) {
		fail_nobody_waits(replay, receiver);
		return;
	}
	replay->told.messages_received++;
	deliver(replay, given->recv[message], receiver->iteration, &receiver->carried, receiver->start_ns);
	settle(replay);
}
