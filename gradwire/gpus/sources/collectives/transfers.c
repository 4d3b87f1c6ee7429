/* Messages: sends and receives of a group, each its own task; and what one rank does alone (sendrecv.h, onerank_reduce.cu of rocm-5.4.3). */
#include "collectives.h"
#include "reductions.h"
#include "tasks.h"

#include <string.h>

struct one_transfer {
	struct block *block;
	struct transfer transfer;
};

static void run_transfer(void *argument)
{
	struct one_transfer *one = argument;
	const struct transfer *transfer = &one->transfer;
	int is_sent = transfer->direction == TO_PEER, none = -1;
	struct primitives opened;
	ssize_t at = 0, size_bytes = (ssize_t)transfer->size_bytes;

	open_primitives(&opened, one->block,
			&(struct opening){
				.protocol = SIMPLE,
				.type = INT8,
				.slices = 1,
				.slice_steps = 1,
				.connection = transfer->connection,
				.from = is_sent ? &none : &transfer->peer,
				.to = is_sent ? &transfer->peer : &none,
				.most_from = 1,
				.most_to = 1,
				.input = transfer->buffer,
				.output = transfer->buffer,
				.moves = moves_data(transfer->size_bytes),
			});
	do { /* a message of no bytes has a step too */
		ssize_t count = smaller((ssize_t)transfer->chunk_bytes, size_bytes - at);

		carry_out(&opened, (struct step){.source = is_sent ? INPUT : NO_BUFFER, .source_at = at,
						 .target = is_sent ? NO_BUFFER : OUTPUT, .target_at = at, .count = count,
						 .receives = !is_sent, .sends = is_sent});
		at += count;
	} while (at < size_bytes);
	close_primitives(&opened);
}

/* A rank's message to itself: a receive, and the send behind it. */
static void copy_to_self(const struct transfer *received, const struct transfer *sent)
{
	struct traffic traffic = {0};

	add_read(&traffic, sent->buffer, sent->size_bytes);
	add_write(&traffic, received->buffer, sent->size_bytes);
	take_time(&traffic);
	if (received->buffer != sent->buffer && moves_data(sent->size_bytes))
		memmove(received->buffer, sent->buffer, sent->size_bytes);
}

void run_transfers(struct block *block, const struct work *work)
{
	struct one_transfer all[MOST_TRANSFERS];

	for (int number = 0; number < work->transfer_count; number++) {
		const struct transfer *transfer = &work->transfers[number];

		all[number] = (struct one_transfer){.block = block, .transfer = *transfer};
		if (transfer->peer != block->communicator->rank)
			start_task(run_transfer, &all[number]);
		else if (transfer->direction == TO_PEER && number)
			copy_to_self(&work->transfers[number - 1], transfer);
	}
	wait_for_started();
}

/* An average of one rank: its input, scaled. */
void run_on_one_rank(const struct collective *work)
{
	size_t size_bytes = (size_t)work->count * size_of_type(work->type);
	struct traffic traffic = {0};

	if (work->part)
		return;
	add_read(&traffic, work->send, size_bytes);
	add_write(&traffic, work->receive, size_bytes);
	take_time(&traffic);
	if (moves_data(size_bytes))
		scale(work->receive, work->send, (size_t)work->count, work->type, work->argument);
}
