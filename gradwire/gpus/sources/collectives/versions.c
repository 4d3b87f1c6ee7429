/* The versions of the library whose structures are known. Structures change with almost every version, so that no other one is tried. */
#define _GNU_SOURCE
#include "../ending.h"
#include "channel.h"
#include "rccl_2_13.h"

#include <dlfcn.h>
#include <stdatomic.h>

static const struct layout *const layouts[] = {&rccl_2_13_4};

enum { LAYOUTS = sizeof(layouts) / sizeof(layouts[0]) };

size_t size_of_type(enum element_type type)
{
	static const size_t sizes[TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

	return sizes[type];
}

const char *name_of_collective(enum collective_kind kind)
{
	static const char *const names[COLLECTIVES] = {"broadcast", "reduce", "all-gather", "reduce-scatter", "all-reduce"};

	return names[kind];
}

static const struct layout *find_layout(const struct launch *launch)
{
	Dl_info library;
	void *handle;
	int (*get_version)(int *), version = 0;

	if (!dladdr(launch->function, &library) || !library.dli_fname)
		end_program("%s is launched by no library that could be asked for its version", launch->name);
	handle = dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	*(void **)&get_version = handle ? dlsym(handle, "ncclGetVersion") : NULL;
	if (!get_version || get_version(&version))
		end_program("%s does not tell its version by ncclGetVersion", library.dli_fname);
	for (int number = 0; number < LAYOUTS; number++)
		if (layouts[number]->version == version)
			return layouts[number];
	/* As of NCCL 2.9: 10,000 per major and 100 per minor number */
	end_program("%s is version %d.%d.%d, and the stand-in knows the structures of %s alone", library.dli_fname, version / 10000,
		    version / 100 % 100, version % 100, layouts[0]->name);
}

const struct layout *layout_of(const struct launch *launch)
{
	static _Atomic(const struct layout *) found;
	const struct layout *layout = atomic_load(&found);

	if (!layout) {
		layout = find_layout(launch);
		atomic_store(&found, layout);
	}
	return layout;
}
