"""Presents the device when a script has imported torch."""

from __future__ import annotations

import atexit
import json
import os
import sys
from typing import Any

from gradwire.script_start.torch_import import when_torch_is_imported

MOST_OPERATIONS = 50
"""Of which it is told how long they took."""


def watch_for_torch() -> None:
    """Prepares to present the device once torch is imported."""
    when_torch_is_imported(present)


def present() -> None:
    """Makes this process's torch one with a GPU, unless it is a build that has GPUs of its own."""
    import torch  # noqa: PLC0415 (where it is there)

    if torch.version.cuda is not None or torch.version.hip is not None:
        print(
            "gradwire: this torch is a build for GPUs, which finds none; scripts need the build for CPUs",
            file=sys.stderr,
        )
        return
    from gradwire.gpu_scripts.cuda_module import present_module  # noqa: PLC0415
    from gradwire.gpu_scripts.device import DEVICE  # noqa: PLC0415
    from gradwire.gpu_scripts.kernels import Kernels  # noqa: PLC0415
    from gradwire.gpu_scripts.presented_calls import PresentedCalls  # noqa: PLC0415
    from gradwire.gpu_scripts.presented_classes import present_classes  # noqa: PLC0415
    from gradwire.gpu_scripts.presented_tensors import present_tensors  # noqa: PLC0415
    from gradwire.gpu_scripts.process_group import ProcessGroupNCCL  # noqa: PLC0415

    def modes() -> tuple[Any, ...]:
        return Kernels(DEVICE), PresentedCalls(DEVICE)

    present_module(DEVICE)
    ProcessGroupNCCL.device, ProcessGroupNCCL.modes = DEVICE, staticmethod(modes)
    present_tensors(DEVICE)
    present_classes(DEVICE)
    for mode in modes():
        mode.__enter__()
    atexit.register(_end)


def _end() -> None:
    """Lets the ranks wait for each other, and tells what the device did."""
    from torch.distributed import distributed_c10d  # noqa: PLC0415

    from gradwire.gpu_scripts.device import DEVICE  # noqa: PLC0415
    from gradwire.gpu_scripts.process_group import ProcessGroupNCCL  # noqa: PLC0415

    for group in list(distributed_c10d._world.pg_map):
        if isinstance(group, ProcessGroupNCCL):
            group.shutdown()
    if DEVICE.is_used:
        _tell(DEVICE)


def _tell(device: Any) -> None:
    """Appends a line of JSON to the file that the stand-ins write to, too (gradwire/gpus/device_use.py reads it)."""
    path, times = os.environ.get("GRADWIRE_GPU_CALLS"), device.times
    if not path:
        return
    use = {
        "busy_ns": device.clock.busy_ns,
        "flops": times.flops,
        "most_bytes": device.memory.peak_bytes,
        "operations": dict(times.spent_ns.most_common(MOST_OPERATIONS)),
    }
    with open(path, "a", encoding="utf-8") as file:  # noqa: PTH123 (one write)
        file.write(json.dumps(use) + "\n")
        if device.invented[0]:
            count, size_bytes = device.invented
            file.write(json.dumps({"call": "kernel", "count": count, "size_bytes": size_bytes}) + "\n")
