/* What Python calls. */
#pragma once

#include "border.h"

struct replay;

#define EXPORTED __attribute__((visibility("default")))

/* BORDER_DIGEST of the header that this was compiled with. */
EXPORTED uint64_t border_digest(void);

/* Whether the kernel takes lists of calls. */
EXPORTED int takes_lists(void);

/* A replay of what is given, which must stay where it is. */
EXPORTED struct replay *open_replay(const struct given *given);

/* Replays until an iteration is done, all are, or something is wrong. Call it again after an iteration. */
EXPORTED enum what go_on(struct replay *replay);

EXPORTED const struct told *told_by(const struct replay *replay);

/* Ends a replay and gives its memory back. There may be one at a time. */
EXPORTED void close_replay(struct replay *replay);
