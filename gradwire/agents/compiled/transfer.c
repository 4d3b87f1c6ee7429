/* transfer.py: how a message is handed over, and how it is received. */
#include "transfer.h"

#include "arithmetic.h"
#include "departures.h"
#include "failures.h"
#include "interpreter.h"
#include "ledger.h"
#include "memory.h"
#include "replay.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

/* A field of a header: its name in border.h */
#define PUT(header, field, value) put((header) + HEADER_##field##_AT, (uint64_t)(value), HEADER_##field##_BYTES)
#define GET(header, field) get((header) + HEADER_##field##_AT, HEADER_##field##_BYTES)

static uint8_t zero[1];

static void put(uint8_t *at, uint64_t value, int bytes)
{
	while (bytes--) {
		at[bytes] = (uint8_t)value;
		value >>= 8;
	}
}

static uint64_t get(const uint8_t *at, int bytes)
{
	uint64_t value = 0;

	while (bytes--)
		value = value << 8 | *at++;
	return value;
}

static int set_bytes(const struct replay *replay)
{
	return (int)((replay->given.workers + 7) / 8);
}

static int header_bytes(const struct replay *replay)
{
	return FIXED_BYTES + set_bytes(replay);
}

/* A sender */

void open_sender(struct replay *replay, struct sender *sender, const struct end *end)
{
	sender->end = end;
	sender->head = memory((size_t)(header_bytes(replay) + INLINE_BYTES));
	sender->written_bytes = HELLO_BYTES;
	if (end->has_line)
		sender->timestamps = new_timestamps();
}

static void pack(const struct replay *replay, const struct sender *sender, const struct outgoing *message)
{
	const struct given *given = &replay->given;
	int32_t op = message->op;
	uint8_t *at = sender->head;

	PUT(at, MAGIC, MAGIC);
	PUT(at, VERSION, VERSION);
	PUT(at, FLAGS, 0);
	PUT(at, MASK_BYTES, set_bytes(replay));
	PUT(at, ITERATION, message->iteration);
	PUT(at, CONTRIBUTED_TO, message->carried.iteration);
	PUT(at, MESSAGE, op);
	PUT(at, SRC_RANK, given->rank[op]);
	PUT(at, DST_RANK, sender->end->destination);
	PUT(at, TENSOR, given->tensor[op]);
	PUT(at, CHUNK, given->chunk[op]);
	PUT(at, SIZE_BYTES, given->size_bytes[op]);
	memcpy(at + FIXED_BYTES, message->carried.workers, (size_t)set_bytes(replay));
}

void begin_message(struct replay *replay, struct sender *sender, const struct outgoing *message)
{
	int64_t size_bytes = replay->given.size_bytes[message->op];

	pack(replay, sender, message);
	sender->iteration = message->iteration;
	sender->op = message->op;
	sender->start_ns = replay->now_ns;
	sender->written_bytes += header_bytes(replay) + size_bytes;
	sender->head_at = sender->tail_at = sender->tail_bytes = 0;
	sender->head_bytes = header_bytes(replay);
	sender->left_bytes = size_bytes;
	if (size_bytes <= INLINE_BYTES) {
		sender->head_bytes += (int32_t)size_bytes;
		sender->left_bytes = 0;
	}
	sender->is_leaving = sender->end->has_line && header_bytes(replay) + size_bytes > sender->end->payload_bytes;
	if (!sender->is_leaving)
		return;
	if (sender->left_bytes) {
		sender->left_bytes--;
		sender->tail = zero;
		sender->tail_bytes = 1;
	} else {
		sender->tail = sender->head;
		sender->tail_bytes = sender->head_bytes;
		sender->head_bytes = 0;
	}
}

static void add_piece(struct replay *replay, struct call call, int64_t bytes)
{
	call.expected = bytes;
	add_call(&replay->list, call);
}

/* Adds a call for each piece of what is left, as many as fit; returns whether that is all. */
static int add_pieces(struct replay *replay, struct sender *sender)
{
	uint64_t descriptor = (uint64_t)sender->end->descriptor;
	int64_t left_bytes = sender->left_bytes, bytes;

	if (sender->head_at < sender->head_bytes) {
		bytes = sender->head_bytes - sender->head_at;
		add_piece(replay,
			  call_of(SYS_sendto, descriptor, (uint64_t)(sender->head + sender->head_at), (uint64_t)bytes,
				  left_bytes ? MSG_MORE : 0, 0),
			  bytes);
	}
	for (int piece = 0; left_bytes && piece < MOST_PIECES; piece++) {
		bytes = smaller(left_bytes, PAYLOAD_FILE_BYTES);
		sender->offsets[piece] = 0;
		add_piece(replay,
			  call_of(SYS_sendfile, descriptor, (uint64_t)replay->given.payload,
				  (uint64_t)&sender->offsets[piece], (uint64_t)bytes, 0),
			  bytes);
		left_bytes -= bytes;
	}
	if (left_bytes)
		return 0;
	if (sender->tail_at < sender->tail_bytes) {
		struct timestamps *timestamps = sender->timestamps;

		bytes = sender->tail_bytes - sender->tail_at;
		timestamps->piece = (struct iovec){sender->tail + sender->tail_at, (size_t)bytes};
		add_piece(replay, call_of(SYS_sendmsg, descriptor, (uint64_t)&timestamps->asking, 0, 0, 0), bytes);
	}
	return 1;
}

/* The sender's place in epoll's data is that of its call in `of_ready`. */
static uint64_t place_of(const struct replay *replay, const struct sender *sender)
{
	return (uint64_t)(1 + replay->given.receivers + (sender - replay->senders));
}

/*
 * Adds the calls that hand over a message, as far as the kernel accepts it: each piece if the one before was taken whole. If not, the
 * sender waits until there is room again; if so, it waits no longer.
 */
void add_pump(struct replay *replay, struct sender *sender)
{
	struct attempts *attempts = &replay->attempts;
	struct attempt attempt = {sender, replay->list.count, 0};
	int is_all = add_pieces(replay, sender);
	struct ready *wanted = &replay->wanted[sender - replay->senders];
	uint8_t waits = sender->is_waiting;

	attempt.pieces = replay->list.count - attempt.first;
	for (long piece = 0; piece < attempt.pieces; piece++)
		replay->list.at[attempt.first + piece].else_skip = (uint8_t)(attempt.pieces - 1 - piece + waits);
	replay->list.at[replay->list.count - 1].is_news = 1;
	replay->list.at[replay->list.count - 1].then_skip = !(is_all && waits);
	*wanted = (struct ready){EPOLLET | (waits ? 0 : EPOLLOUT), place_of(replay, sender)};
	add_call(&replay->list, call_of(SYS_epoll_ctl, (uint64_t)replay->poll, EPOLL_CTL_MOD,
					(uint64_t)sender->end->descriptor, (uint64_t)wanted, 0));
	if (attempts->count == attempts->room)
		attempts->at = grown(attempts->at, &attempts->room, sizeof(struct attempt));
	attempts->at[attempts->count++] = attempt;
}

/* Takes note of what became of a message's calls. */
enum progress pumped(struct replay *replay, const struct attempt *attempt)
{
	struct sender *sender = attempt->sender;
	const struct call *calls = replay->list.at + attempt->first;
	enum progress progress = BLOCKED;

	for (long piece = 0; piece < attempt->pieces; piece++) {
		int64_t result = calls[piece].result;

		if (result == -EAGAIN || result == NOT_MADE)
			break;
		if (result == -EPIPE || result == -ECONNRESET)
			fail_broken_while_sending(replay, sender, &calls[piece]);
		else if (result < 0)
			fail_call(replay, &calls[piece]);
		if (result < 0)
			break;
		if (calls[piece].number == SYS_sendto)
			sender->head_at += (int32_t)result;
		else if (calls[piece].number == SYS_sendfile)
			sender->left_bytes -= result;
		else
			sender->tail_at += (int32_t)result;
		if (result == calls[piece].expected && piece == attempt->pieces - 1)
			progress = sender->left_bytes ? HAS_MORE : WHOLE;
	}
	if (calls[attempt->pieces].result == 0)
		sender->is_waiting = !sender->is_waiting;
	else if (calls[attempt->pieces].result != NOT_MADE)
		fail_call(replay, &calls[attempt->pieces]);
	return progress;
}

/* A receiver */

void open_receiver(struct replay *replay, struct receiver *receiver, const struct end *end)
{
	receiver->end = end;
	receiver->buffer = memory((size_t)(READ_BYTES + header_bytes(replay)));
	receiver->carried = new_contributions(replay);
	receiver->low_water = 1;
}

/* What to call when the receiver's socket has something to read. */
void expect_bytes(struct call *call, struct receiver *receiver)
{
	uint64_t descriptor = (uint64_t)receiver->end->descriptor;

	if (receiver->is_inside && !receiver->buffered_bytes)
		*call = call_of(SYS_recvfrom, descriptor, (uint64_t)zero, (uint64_t)smaller(receiver->left_bytes, SKIP_BYTES), MSG_TRUNC, 0);
	else
		*call = call_of(SYS_recvfrom, descriptor, (uint64_t)(receiver->buffer + receiver->buffered_bytes), READ_BYTES, 0, 0);
	call->events = ~(uint32_t)0;
}

static void set_low_water(struct replay *replay, struct receiver *receiver)
{
	int64_t mark = receiver->left_bytes > LOW_WATER_BYTES / 8 ? smaller(receiver->left_bytes, LOW_WATER_BYTES) : 1;

	if (mark == receiver->low_water)
		return;
	receiver->low_water = (int32_t)mark;
	add_call(&replay->list, call_of(SYS_setsockopt, (uint64_t)receiver->end->descriptor, SOL_SOCKET, SO_RCVLOWAT,
					(uint64_t)&receiver->low_water, sizeof(receiver->low_water)));
}

/* Reads a header; returns whether it is one of this plan. */
static int unpack(struct replay *replay, struct receiver *receiver, const uint8_t *at)
{
	int64_t magic = (int64_t)GET(at, MAGIC), version = (int64_t)GET(at, VERSION);
	int64_t of_set = (int64_t)GET(at, MASK_BYTES), size_bytes = (int64_t)GET(at, SIZE_BYTES);
	int is_header = magic == MAGIC && version == VERSION && of_set == set_bytes(replay);

	if (!is_header || size_bytes < 0) {
		fail_framing_lost(replay, (struct framing_lost){.connection = receiver->end->connection,
								.magic = magic,
								.version = version,
								.set_bytes = of_set,
								.size_bytes = is_header ? size_bytes : 0});
		return 0;
	}
	receiver->iteration = (int32_t)GET(at, ITERATION);
	receiver->carried.iteration = (int32_t)GET(at, CONTRIBUTED_TO);
	receiver->message = (int64_t)GET(at, MESSAGE);
	receiver->left_bytes = size_bytes;
	receiver->carried.workers[replay->set_words - 1] = 0;
	memcpy(receiver->carried.workers, at + FIXED_BYTES, (size_t)set_bytes(replay));
	return 1;
}

static void complete(struct replay *replay, struct receiver *receiver)
{
	receiver->is_inside = 0;
	arrived(replay, receiver);
}

/* The headers and small messages in the buffer; what remains of them goes to its front. */
static void read_buffer(struct replay *replay, struct receiver *receiver)
{
	int64_t at = 0, end = receiver->buffered_bytes, here;

	while (end - at >= header_bytes(replay) && !replay->told.failure) {
		if (!unpack(replay, receiver, receiver->buffer + at))
			return;
		receiver->is_inside = 1;
		receiver->start_ns = replay->now_ns;
		at += header_bytes(replay);
		here = smaller(receiver->left_bytes, end - at);
		at += here;
		receiver->left_bytes -= here;
		if (receiver->left_bytes)
			break;
		complete(replay, receiver);
	}
	receiver->buffered_bytes = end - at;
	memmove(receiver->buffer, receiver->buffer + at, (size_t)(end - at));
}

/* Takes note of what became of the receiver's call. */
void take_bytes(struct replay *replay, const struct call *call, struct receiver *receiver)
{
	int was_inside = receiver->is_inside && !receiver->buffered_bytes;

	if (call->result == -EAGAIN || call->result == NOT_MADE)
		return;
	if (call->result == -ECONNRESET)
		fail_broken(replay, receiver, call);
	else if (call->result == 0)
		fail_closed(replay, receiver);
	else if (call->result < 0)
		fail_call(replay, call);
	if (replay->told.failure)
		return;
	replay->told.bytes_received += call->result;
	if (was_inside) {
		receiver->left_bytes -= call->result;
		if (!receiver->left_bytes)
			complete(replay, receiver);
	} else {
		receiver->buffered_bytes += call->result;
		read_buffer(replay, receiver);
	}
	set_low_water(replay, receiver);
}
