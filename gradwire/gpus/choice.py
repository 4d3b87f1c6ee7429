"""The GPUs that programs on hosts find, and the environment that lets them find these. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gradwire import PACKAGE
from gradwire.gpus.hip_devices import HipDevice
from gradwire.gpus.stand_ins import PRELOADED

MOST_DEVICES = 16
"""Of a host, as sources/settings.h has it."""
CALLS_VARIABLE = "GRADWIRE_GPU_CALLS"
SHARED_VARIABLE = "GRADWIRE_GPU_SHARED"
"""Names the folder of what the processes of one host share, for programs without an emulated host, whose own /dev/shm it is."""
SCRIPT_START = PACKAGE / "script_start"
"""A folder on the path of Pythons, of which a script that imports torch finds these GPUs."""
NS_PER_S = 1e9


@dataclass(frozen=True)
class GpuChoice:
    """The GPUs of each host that a program runs on."""

    #: Number per host.
    count: int
    device: HipDevice
    #: Whether data is really moved and added. Otherwise what is larger than 1 MiB only takes its time.
    moves_data: bool
    #: Folder of the compiled stand-ins.
    stand_ins: Path


def variables(choice: GpuChoice, inherited: Mapping[str, str], calls_file: Path) -> dict[str, str]:
    """Variables of a program that finds these GPUs. inherited: the environment that it has otherwise, whose own
    libraries come behind. calls_file: where its processes tell which calls got invented answers."""
    device = choice.device
    return {
        "LD_LIBRARY_PATH": _before(str(choice.stand_ins), inherited.get("LD_LIBRARY_PATH", "")),
        "PYTHONPATH": _before(str(SCRIPT_START), inherited.get("PYTHONPATH", "")),
        "GRADWIRE_SCRIPT_START": "gradwire.gpu_scripts.start",
        "LD_PRELOAD": _before(str(choice.stand_ins / PRELOADED), inherited.get("LD_PRELOAD", "")),
        "GRADWIRE_GPUS": str(choice.count),
        "GRADWIRE_GPU_DATA": str(int(choice.moves_data)),
        "GRADWIRE_GPU_NAME": device.name,
        "GRADWIRE_GPU_ARCHITECTURE": device.architecture,
        "GRADWIRE_GPU_XGMI": str(int(choice.count > 1)),
        "GRADWIRE_GPU_MEMORY_BYTES": str(device.memory_bytes),
        "GRADWIRE_GPU_UNITS": str(device.compute_units),
        "GRADWIRE_GPU_HALF_RATE": f"{device.half_flops_per_s:.0f}",
        "GRADWIRE_GPU_BFLOAT16_RATE": f"{device.bfloat16_flops_per_s:.0f}",
        "GRADWIRE_GPU_SINGLE_RATE": f"{device.single_flops_per_s:.0f}",
        "GRADWIRE_GPU_MEMORY_RATE": f"{device.memory_bytes_per_s:.0f}",
        "GRADWIRE_GPU_BUS_RATE": f"{device.bus_bytes_per_s:.0f}",
        "GRADWIRE_GPU_LINK_RATE": f"{device.link_bytes_per_s:.0f}",
        "GRADWIRE_GPU_LAUNCH_NS": f"{device.launch_s * NS_PER_S:.0f}",
        CALLS_VARIABLE: str(calls_file),
    }


def _before(first: str, others: str) -> str:
    return ":".join(filter(None, (first, others)))
