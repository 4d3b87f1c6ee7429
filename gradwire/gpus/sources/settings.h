/*
 * What `gradwire exec --gpus` has decided, from the environment: how many devices a host has, of which kind, and whether data is moved.
 * gradwire/gpus/choice.py writes these variables and says where the numbers come from.
 */
#ifndef GRADWIRE_SETTINGS_H
#define GRADWIRE_SETTINGS_H
#include <stdint.h>

enum { MOST_DEVICES = 16 };

struct settings {
	int devices;
	/* Whether data is really moved and added. Otherwise memory of LARGE_BYTES and more is never touched. */
	int data;
	/* Whether devices of a host are joined by XGMI, and not by PCI Express alone. */
	int xgmi;
	/* Name of the instruction set, such as gfx90a. */
	const char *architecture;
	const char *name;
	uint64_t memory_bytes;
	int units;
	/* Rates in one direction, in bytes per second; 0: takes no time. */
	double memory_rate, bus_rate, link_rate;
	/* From a launch in a stream until the kernel runs. */
	int64_t launch_ns;
};

extern struct settings settings;

/* Copies and fills of fewer bytes are carried out without --gpu-data too: a collective library keeps its structures in such memory. */
enum { LARGE_BYTES = 1 << 20 };

/* Each device has a bus of its own, from this number on; the number has to be the same for both libraries. */
enum { FIRST_BUS = 0x10 };

int64_t setting(const char *name, int64_t otherwise);
#endif
