/*
 * Functions of the interface that are not there: programs are loaded with them, and end with the name of the first one that they call.
 *
 * MISSING_NAMES is the list of names, hip_missing.h or rocm_smi_missing.h: those of ROCm 5.7's documented interface without what is implemented
 * here.
 */
#include "ending.h"
#include "hip.h"

#define MISSING(name)                                                       \
	EXPORTED void name(void)                                            \
	{                                                                   \
		end_program("the program calls %s, which is not there", #name); \
	}

#include MISSING_NAMES
