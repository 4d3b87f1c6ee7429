/* The layout of RCCL 2.13.4. */
#ifndef GRADWIRE_RCCL_2_13_H
#define GRADWIRE_RCCL_2_13_H
#include "channel.h"

extern const struct layout rccl_2_13_4;
#endif
