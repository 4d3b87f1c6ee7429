/* Notes why a replay cannot go on: structures.py. Only the first reason counts. */
#pragma once

#include "border.h"
#include "calls.h"

struct receiver;
struct replay;
struct sender;

/* The call that failed, or whose list was not carried out, has the error as its result. */
void fail_call(struct replay *replay, const struct call *call);
void fail_broken_while_sending(struct replay *replay, const struct sender *sender, const struct call *call);
void fail_broken(struct replay *replay, const struct receiver *receiver, const struct call *call);
void fail_closed(struct replay *replay, const struct receiver *receiver);
void fail_hung_up(struct replay *replay, const struct sender *sender);
void fail_timestamps_unreadable(struct replay *replay, const struct call *call);
void fail_timestamp_without_number(struct replay *replay, struct timestamp_without_number details);
void fail_framing_lost(struct replay *replay, struct framing_lost details);
void fail_nobody_waits(struct replay *replay, const struct receiver *receiver);
void fail_contradictory(struct replay *replay, struct contradictory details);
void fail_not_complete(struct replay *replay, struct not_complete details);
