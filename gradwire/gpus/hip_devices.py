"""GPUs as HIP shows them to programs, by their data sheets: one entry per die, for ROCm shows each die as a device.

Rates are in one direction. A GPU of another generation than these is not in Debian's build of RCCL 2.13.
"""

from __future__ import annotations

from dataclasses import dataclass

from gradwire.faults import InputFault

GIB = 1 << 30
PCIE_4_X16_BYTES_PER_S = 16 * 16e9 / 8 * 128 / 130
"""PCI Express 4.0: 16 lanes of 16 GT/s, of which 128 of 130 bits are data (PCI Express Base Specification 4.0)."""


@dataclass(frozen=True)
class HipDevice:
    """A device."""

    name: str
    description: str
    #: The instruction set that its kernels are compiled for.
    architecture: str
    memory_bytes: int
    compute_units: int
    memory_bytes_per_s: float
    #: Over the bus to the host.
    bus_bytes_per_s: float
    #: Over one link of XGMI to another device of the host.
    link_bytes_per_s: float
    #: FLOP/s of fp16, bf16 and fp32, in matrices where the device has units for them.
    half_flops_per_s: float
    bfloat16_flops_per_s: float
    single_flops_per_s: float
    #: From a launch until the kernel runs. No data sheet has it, so it is zero: the host's part and the device's are left out.
    launch_s: float = 0.0


DEVICES = {
    device.name: device
    for device in (
        HipDevice(
            "mi50",
            "AMD Instinct MI50 (data sheet: 60 compute units, 32 GB at 1,024 GB/s, PCIe 4.0 x16, two links of 92 GB/s "
            "both ways; 26.5 TFLOP/s of fp16, 13.3 of fp32, which stands for bf16 too)",
            *("gfx906", 32 * GIB, 60, 1.024e12, PCIE_4_X16_BYTES_PER_S, 46e9, 26.5e12, 13.3e12, 13.3e12),
        ),
        HipDevice(
            "mi100",
            "AMD Instinct MI100 (data sheet: 120 compute units, 32 GB at 1,228.8 GB/s, PCIe 4.0 x16, three links of 92 GB/s "
            "both ways; in matrices 184.6 TFLOP/s of fp16, 92.3 of bf16, 46.1 of fp32)",
            *("gfx908", 32 * GIB, 120, 1.2288e12, PCIE_4_X16_BYTES_PER_S, 46e9, 184.6e12, 92.3e12, 46.1e12),
        ),
        HipDevice(
            "mi210",
            "AMD Instinct MI210 (data sheet: 104 compute units, 64 GB at 1,638.4 GB/s, PCIe 4.0 x16, three links of 100 GB/s "
            "both ways; in matrices 181 TFLOP/s of fp16 and bf16, 45.3 of fp32)",
            *("gfx90a", 64 * GIB, 104, 1.6384e12, PCIE_4_X16_BYTES_PER_S, 50e9, 181.0e12, 181.0e12, 45.3e12),
        ),
        HipDevice(
            "mi250x",
            "one of two dies of an AMD Instinct MI250X (data sheet, of both: 220 compute units, 128 GB at 3,276.8 GB/s, links of "
            "100 GB/s both ways; in matrices 383 TFLOP/s of fp16 and bf16, 95.7 of fp32; its link to the host as PCIe 4.0 x16)",
            *("gfx90a", 64 * GIB, 110, 1.6384e12, PCIE_4_X16_BYTES_PER_S, 50e9, 191.5e12, 191.5e12, 47.85e12),
        ),
    )
}
DEFAULT_DEVICE = "mi250x"


def hip_device(name: str) -> HipDevice:
    """The device of a name. Raises InputFault, with all names, for another."""
    if name not in DEVICES:
        raise InputFault(f"--gpu {name}: is not known; devices that RCCL 2.13 has code for are {', '.join(DEVICES)}")
    return DEVICES[name]
