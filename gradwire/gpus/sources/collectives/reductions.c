/* Ten types and five operations; bfloat16 is computed in float and rounded to nearest, ties to even. */
#include "reductions.h"

#include <string.h>

static float float_of(uint16_t bfloat16)
{
	uint32_t bits = (uint32_t)bfloat16 << 16;
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static uint16_t bfloat16_of(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	if ((bits & 0x7fffffff) > 0x7f800000)
		return 0x7fff; /* not a number */
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#define EACH(type, expression)                           \
	for (size_t i = 0; i < count; i++) {             \
		type x = ((const type *)left)[i];        \
		type y = ((const type *)right)[i];       \
		((type *)out)[i] = (type)(expression);   \
	}                                                \
	return

#define REDUCE(type)                                         \
	switch (operation) {                                 \
	case PRODUCT: EACH(type, x * y);                     \
	case MAXIMUM: EACH(type, x > y ? x : y);             \
	case MINIMUM: EACH(type, x < y ? x : y);             \
	default: EACH(type, x + y);                          \
	}

static void reduce_bfloat16(uint16_t *out, const uint16_t *left, const uint16_t *right, size_t count, enum operation operation)
{
	for (size_t i = 0; i < count; i++) {
		float x = float_of(left[i]), y = float_of(right[i]);

		switch (operation) {
		case PRODUCT: out[i] = bfloat16_of(x * y); break;
		case MAXIMUM: out[i] = bfloat16_of(x > y ? x : y); break;
		case MINIMUM: out[i] = bfloat16_of(x < y ? x : y); break;
		default: out[i] = bfloat16_of(x + y);
		}
	}
}

void reduce(void *out, const void *left, const void *right, size_t count, enum operation operation, enum element_type type)
{
	switch (type) {
	case INT8: REDUCE(int8_t)
	case UINT8: REDUCE(uint8_t)
	case INT32: REDUCE(int32_t)
	case UINT32: REDUCE(uint32_t)
	case INT64: REDUCE(int64_t)
	case UINT64: REDUCE(uint64_t)
	case FLOAT16: REDUCE(_Float16)
	case FLOAT32: REDUCE(float)
	case FLOAT64: REDUCE(double)
	case BFLOAT16: reduce_bfloat16(out, left, right, count, operation); return;
	case TYPES: return;
	}
}

#define SCALE(type)                                                                   \
	{                                                                             \
		type factor;                                                          \
		memcpy(&factor, &argument, sizeof(factor));                           \
		for (size_t i = 0; i < count; i++)                                    \
			((type *)out)[i] = (type)(((const type *)in)[i] * factor);    \
		return;                                                               \
	}

static void scale_bfloat16(uint16_t *out, const uint16_t *in, size_t count, float factor)
{
	for (size_t i = 0; i < count; i++)
		out[i] = bfloat16_of(float_of(in[i]) * factor);
}

void scale(void *out, const void *in, size_t count, enum element_type type, uint64_t argument)
{
	switch (type) {
	case INT8: SCALE(int8_t)
	case UINT8: SCALE(uint8_t)
	case INT32: SCALE(int32_t)
	case UINT32: SCALE(uint32_t)
	case INT64: SCALE(int64_t)
	case UINT64: SCALE(uint64_t)
	case FLOAT16: SCALE(_Float16)
	case FLOAT32: SCALE(float)
	case FLOAT64: SCALE(double)
	case BFLOAT16: scale_bfloat16(out, in, count, float_of((uint16_t)argument)); return;
	case TYPES: return;
	}
}

#define DIVIDE(type, as)                                                          \
	for (size_t i = 0; i < count; i++)                                        \
		((type *)values)[i] = (type)(((type *)values)[i] / (as)divisor);  \
	return

void divide(void *values, size_t count, enum element_type type, uint64_t divisor)
{
	switch (type) {
	case INT8: DIVIDE(int8_t, int64_t);
	case UINT8: DIVIDE(uint8_t, uint64_t);
	case INT32: DIVIDE(int32_t, int64_t);
	case UINT32: DIVIDE(uint32_t, uint64_t);
	case INT64: DIVIDE(int64_t, int64_t);
	case UINT64: DIVIDE(uint64_t, uint64_t);
	default: return; /* averages of other types are sums of scaled inputs */
	}
}
