/* Reads the settings once, before anything is called. */
#include "settings.h"

#include <stdlib.h>

struct settings settings;

int64_t setting(const char *name, int64_t otherwise)
{
	const char *value = getenv(name);

	return value && *value ? strtoll(value, NULL, 0) : otherwise;
}

static const char *text(const char *name, const char *otherwise)
{
	const char *value = getenv(name);

	return value && *value ? value : otherwise;
}

__attribute__((constructor)) static void read_settings(void)
{
	int64_t devices = setting("GRADWIRE_GPUS", 1);

	settings = (struct settings){
		.devices = devices < 0 ? 0 : devices > MOST_DEVICES ? MOST_DEVICES : (int)devices,
		.data = (int)setting("GRADWIRE_GPU_DATA", 0),
		.xgmi = (int)setting("GRADWIRE_GPU_XGMI", 0),
		.architecture = text("GRADWIRE_GPU_ARCHITECTURE", "gfx90a"),
		.name = text("GRADWIRE_GPU_NAME", "stand-in of gradwire"),
		.memory_bytes = (uint64_t)setting("GRADWIRE_GPU_MEMORY_BYTES", 64ll << 30),
		.units = (int)setting("GRADWIRE_GPU_UNITS", 110),
		.memory_rate = (double)setting("GRADWIRE_GPU_MEMORY_RATE", 0),
		.bus_rate = (double)setting("GRADWIRE_GPU_BUS_RATE", 0),
		.link_rate = (double)setting("GRADWIRE_GPU_LINK_RATE", 0),
		.launch_ns = setting("GRADWIRE_GPU_LAUNCH_NS", 0),
	};
}
