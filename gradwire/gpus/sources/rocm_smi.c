/*
 * The part of librocm_smi64.so.1 that RCCL asks for: which devices there are, and how they are joined. Documented functions of ROCm SMI 5
 * (rocm_smi.h).
 */
#include "hip.h"
#include "settings.h"

enum { RSMI_SUCCESS = 0, RSMI_INVALID_ARGUMENTS = 1 };
enum { LINK_PCIE = 1, LINK_XGMI = 2 };
/* What ROCm SMI says of a link: hops and weights, which grow with the distance (rsmi_topo_get_link_weight). */
enum { HOPS_XGMI = 1, HOPS_PCIE = 2, WEIGHT_XGMI = 15, WEIGHT_PCIE = 40 };
enum { BUS_SHIFT = 8, BYTES_PER_MB = 1000000 };

struct version {
	uint32_t major, minor, patch;
	const char *build;
};

EXPORTED int rsmi_init(uint64_t flags)
{
	(void)flags;
	return RSMI_SUCCESS;
}

EXPORTED int rsmi_version_get(struct version *version)
{
	*version = (struct version){.major = 5, .build = "stand-in of gradwire"};
	return RSMI_SUCCESS;
}

EXPORTED int rsmi_num_monitor_devices(uint32_t *count)
{
	*count = (uint32_t)settings.devices;
	return RSMI_SUCCESS;
}

static int is_device(uint32_t number)
{
	return number < (uint32_t)settings.devices;
}

EXPORTED int rsmi_dev_pci_id_get(uint32_t number, uint64_t *id)
{
	if (!is_device(number))
		return RSMI_INVALID_ARGUMENTS;
	*id = (uint64_t)(FIRST_BUS + number) << BUS_SHIFT;
	return RSMI_SUCCESS;
}

EXPORTED int rsmi_status_string(int status, const char **text)
{
	*text = status == RSMI_SUCCESS ? "success" : "invalid arguments";
	return RSMI_SUCCESS;
}

EXPORTED int rsmi_topo_get_link_type(uint32_t from, uint32_t to, uint64_t *hops, int *type)
{
	if (!is_device(from) || !is_device(to))
		return RSMI_INVALID_ARGUMENTS;
	*hops = settings.xgmi ? HOPS_XGMI : HOPS_PCIE;
	*type = settings.xgmi ? LINK_XGMI : LINK_PCIE;
	return RSMI_SUCCESS;
}

EXPORTED int rsmi_topo_get_link_weight(uint32_t from, uint32_t to, uint64_t *weight)
{
	if (!is_device(from) || !is_device(to))
		return RSMI_INVALID_ARGUMENTS;
	*weight = settings.xgmi ? WEIGHT_XGMI : WEIGHT_PCIE;
	return RSMI_SUCCESS;
}

/* In MB/s, in one direction. */
EXPORTED int rsmi_minmax_bandwidth_get(uint32_t from, uint32_t to, uint64_t *least, uint64_t *most)
{
	double rate = settings.xgmi ? settings.link_rate : settings.bus_rate;

	if (!is_device(from) || !is_device(to))
		return RSMI_INVALID_ARGUMENTS;
	*least = *most = (uint64_t)(rate / BYTES_PER_MB);
	return RSMI_SUCCESS;
}
