/* Arithmetic on elements, as the library's kernels do it. */
#ifndef GRADWIRE_REDUCTIONS_H
#define GRADWIRE_REDUCTIONS_H
#include "channel.h"

/* out[i] = left[i] combined with right[i]; out may be one of them. */
void reduce(void *out, const void *left, const void *right, size_t count, enum operation operation, enum element_type type);
/* out[i] = in[i] times the argument, which has the elements' type: what PreMulSum does with an input. */
void scale(void *out, const void *in, size_t count, enum element_type type, uint64_t argument);
/* Divides by the number of ranks: what SumPostDiv does with a result, of whole numbers alone. */
void divide(void *values, size_t count, enum element_type type, uint64_t divisor);
#endif
