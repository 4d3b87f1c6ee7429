"""The one device of this process: its clock, its memory, and the times of its kernels."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import torch

from gradwire.gpu_scripts.device_clock import DeviceClock
from gradwire.gpu_scripts.device_memory import DeviceMemory
from gradwire.gpu_scripts.kernel_times import KernelTimes, rates_of_environment


class ScriptDevice:
    """The device that a script knows as `cuda`. Which of the host's it is, its first `set_device` says."""

    def __init__(self) -> None:
        self.clock = DeviceClock()
        self.memory = DeviceMemory(lambda: int(os.environ["GRADWIRE_GPU_MEMORY_BYTES"]))
        self.index = 0
        #: Whether what is made now is the device's memory (True), the host's (False), or goes by what it is made of (None).
        self.makes: bool | None = None
        #: Whether anything was put on the device.
        self.is_used = False
        #: Large products that were not computed, and the bytes that they would have yielded.
        self.invented = [0, 0]

    @cached_property
    def times(self) -> KernelTimes:
        """Rates come when they are first needed: a Python that is forked for each host does not have them before."""
        return KernelTimes(rates_of_environment())

    @cached_property
    def computes(self) -> bool:
        """Whether all numbers are computed."""
        return os.environ["GRADWIRE_GPU_DATA"] == "1"

    def count_invented(self, size_bytes: int) -> None:
        """Counts a product that was not computed."""
        self.invented[0] += 1
        self.invented[1] += size_bytes

    @property
    def count(self) -> int:
        """Devices of the host."""
        return int(os.environ["GRADWIRE_GPUS"])

    @property
    def name(self) -> torch.device:
        """As tensors have it."""
        return torch.device("cuda", self.index)

    def choose(self, index: Any) -> None:
        """Makes another of the host's devices this process's. Raises RuntimeError once one is in use, for a process has one here."""
        number = index_of(index)
        if number is None or number == self.index:
            return
        if not 0 <= number < self.count:
            raise RuntimeError(
                f"CUDA error: invalid device ordinal {number}: the host has {self.count} (gradwire exec --gpus)"
            )
        if self.is_used:
            raise NotImplementedError(
                f"gradwire: a process that uses cuda:{self.index} and cuda:{number}: it can have one device"
            )
        self.index = number

    def add(self, tensor: Any) -> None:
        """Makes a tensor the device's."""
        self.is_used = True
        self.memory.add(tensor)

    def synchronize(self) -> None:
        """See DeviceClock.synchronize."""
        self.clock.synchronize()


def index_of(device: Any) -> int | None:
    """The number in a name such as `cuda:1`; None if there is none."""
    if isinstance(device, int):
        return device
    return torch.device(device).index if device is not None else None


@contextmanager
def making(device: ScriptDevice, *, on_device: bool) -> Iterator[None]:
    """What is made meanwhile is the device's memory, or the host's."""
    before, device.makes = device.makes, on_device
    try:
        yield
    finally:
        device.makes = before


DEVICE = ScriptDevice()
"""Of this process."""
