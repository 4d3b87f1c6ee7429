/* What a block does for each kind of work. */
#ifndef GRADWIRE_COLLECTIVES_H
#define GRADWIRE_COLLECTIVES_H
#include "primitives.h"

void run_ring(struct block *block, const struct collective *work);
void run_tree(struct block *block, const struct collective *work);
void run_on_one_rank(const struct collective *work);
void run_transfers(struct block *block, const struct work *work);
/* Whether a call of so many bytes is really carried out, on all of its ranks. */
int moves_data(size_t size_bytes);
#endif
