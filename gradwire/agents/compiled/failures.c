#include "failures.h"

#include "replay.h"

/* Returns where the details of a failure go, which is nowhere for one that is not the first. */
static union details *details_of(struct replay *replay, enum failure failure)
{
	static union details ignored;

	if (replay->told.failure)
		return &ignored;
	replay->told.failure = failure;
	return &replay->told.details;
}

void fail_call(struct replay *replay, const struct call *call)
{
	details_of(replay, CALL_FAILED)->call_failed = (struct call_failed){.number = (int64_t)call->number, .error = -call->result};
}

void fail_broken_while_sending(struct replay *replay, const struct sender *sender, const struct call *call)
{
	details_of(replay, BROKEN_WHILE_SENDING)->broken_while_sending =
		(struct broken_while_sending){.connection = sender->end->connection, .error = -call->result};
}

void fail_broken(struct replay *replay, const struct receiver *receiver, const struct call *call)
{
	details_of(replay, BROKEN)->broken = (struct broken){.connection = receiver->end->connection, .error = -call->result};
}

void fail_closed(struct replay *replay, const struct receiver *receiver)
{
	details_of(replay, CLOSED)->closed = (struct closed){.connection = receiver->end->connection};
}

void fail_hung_up(struct replay *replay, const struct sender *sender)
{
	details_of(replay, HUNG_UP)->hung_up = (struct hung_up){.connection = sender->end->connection};
}

void fail_timestamps_unreadable(struct replay *replay, const struct call *call)
{
	details_of(replay, TIMESTAMPS_UNREADABLE)->timestamps_unreadable = (struct timestamps_unreadable){.error = -call->result};
}

void fail_timestamp_without_number(struct replay *replay, struct timestamp_without_number details)
{
	details_of(replay, TIMESTAMP_WITHOUT_NUMBER)->timestamp_without_number = details;
}

void fail_framing_lost(struct replay *replay, struct framing_lost details)
{
	details_of(replay, FRAMING_LOST)->framing_lost = details;
}

void fail_nobody_waits(struct replay *replay, const struct receiver *receiver)
{
	details_of(replay, NOBODY_WAITS)->nobody_waits = (struct nobody_waits){
		.connection = receiver->end->connection, .message = receiver->message, .iteration = receiver->iteration};
}

void fail_contradictory(struct replay *replay, struct contradictory details)
{
	details_of(replay, CONTRADICTORY)->contradictory = details;
}

void fail_not_complete(struct replay *replay, struct not_complete details)
{
	details_of(replay, NOT_COMPLETE)->not_complete = details;
}
