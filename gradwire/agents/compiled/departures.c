/* departures.py: when a message's last byte has left its host, by timestamps of Linux. */
#include "departures.h"

#include "arithmetic.h"
#include "failures.h"
#include "memory.h"
#include "transfer.h"

#include <emmintrin.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

struct timestamps *new_timestamps(void)
{
	struct timestamps *made = memory(sizeof(struct timestamps));

	made->ask.header = (struct cmsghdr){
		.cmsg_len = sizeof(struct cmsghdr) + sizeof(uint32_t), .cmsg_level = SOL_SOCKET, .cmsg_type = SO_TIMESTAMPING_NUMBER};
	made->ask.flags = TX_SOFTWARE;
	made->asking = (struct msghdr){
		.msg_iov = &made->piece, .msg_iovlen = 1, .msg_control = &made->ask, .msg_controllen = sizeof(made->ask)};
	for (int number = 0; number < AT_ONCE; number++) {
		made->vectors[number] = (struct iovec){made->packets[number], sizeof(made->packets[number])};
		made->messages[number].header = (struct msghdr){
			.msg_iov = &made->vectors[number], .msg_iovlen = 1, .msg_control = made->controls[number]};
	}
	return made;
}

/* What to call when the sender's socket has something on its error queue. */
void expect_departure(struct call *call, const struct sender *sender)
{
	struct timestamps *timestamps = sender->timestamps;

	call->result = NOT_MADE;
	call->number = NOTHING;
	if (!sender->is_leaving)
		return;
	for (int number = 0; number < AT_ONCE; number++)
		timestamps->messages[number].header.msg_controllen = CONTROL_BYTES;
	*call = call_of(SYS_recvmmsg, (uint64_t)sender->end->descriptor, (uint64_t)timestamps->messages, AT_ONCE, MSG_ERRQUEUE, 0);
	call->events = EPOLLERR;
}

/* How long a packet takes on the line, as Line.packet_ns in departures.py. */
static int64_t packet_ns(const struct end *end, int64_t ip_bytes)
{
	int64_t bytes = ip_bytes - end->header_bytes;
	int64_t frames = larger(1, (bytes + end->payload_bytes - 1) / end->payload_bytes);
	int64_t on_line_bytes = bytes + frames * (end->header_bytes + end->overhead_bytes);

	return _mm_cvtsd_si64(_mm_set_sd((double)on_line_bytes * end->ns_per_byte));
}

static uint32_t word_at(const uint8_t *at)
{
	uint32_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

/* The length of a packet with its IP header, in network order. */
static int64_t ip_bytes(const uint8_t *packet)
{
	return packet[LENGTH_AT] << 8 | packet[LENGTH_AT + 1];
}

/* Whether the message that is leaving has left, and for how long its last packet is still on the line then. */
int has_departed(struct replay *replay, const struct call *call, struct sender *sender, int64_t *on_line_ns)
{
	if (call->result == -EAGAIN)
		return 0;
	if (call->result < 0)
		fail_timestamps_unreadable(replay, call);
	for (int64_t number = 0; number < call->result; number++) {
		const uint8_t *control = sender->timestamps->controls[number];
		uint32_t level = word_at(control + CONTROL_LEVEL_AT), type = word_at(control + CONTROL_TYPE_AT);

		if (level != IPPROTO_IP || type != IP_RECVERR_NUMBER) {
			fail_timestamp_without_number(replay, (struct timestamp_without_number){.level = level, .type = type});
			return 0;
		}
		if (word_at(control + CONTROL_NUMBER_AT) == (uint32_t)(sender->written_bytes - 1)) {
			sender->is_leaving = 0;
			*on_line_ns = packet_ns(sender->end, ip_bytes(sender->timestamps->packets[number]));
			return 1;
		}
	}
	return 0;
}
