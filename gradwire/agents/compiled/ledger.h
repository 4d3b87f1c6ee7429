/* What the ranks hold of each chunk: the Ledger of datatypes/plan.py. */
#pragma once

#include <stdint.h>

#include "border.h"

struct replay;

void open_ledger(struct replay *replay);
void produce(struct replay *replay, int32_t slot, int32_t worker, int64_t iteration);
void carry(struct replay *replay, int32_t slot, enum combine combine, struct contributions *carried);
int arrive(struct replay *replay, int32_t slot, enum combine combine, const struct contributions *arrived);
struct contributions new_contributions(const struct replay *replay);
void copy_contributions(const struct replay *replay, struct contributions *to, const struct contributions *from);
