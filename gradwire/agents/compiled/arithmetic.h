/* The larger and the smaller of two numbers. */
#pragma once

#include <stdint.h>

static inline int64_t larger(int64_t one, int64_t other)
{
	return one > other ? one : other;
}

static inline int64_t smaller(int64_t one, int64_t other)
{
	return one < other ? one : other;
}
