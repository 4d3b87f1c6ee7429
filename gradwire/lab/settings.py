"""Settings of a lab, apart from its network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from gradwire.faults import InputFault
from gradwire.lab.drawing import quantity, seconds, size_bytes
from gradwire.programs.cpu_time import charged_cpu_time
from gradwire.workloads.units import SIZE

MIB = 1 << 20
LEAST_MEMORY_MB = 256
"""Least memory of a lab's kernel, in MiB. With 128 MiB, Open vSwitch and the controller leave no room for
programs."""


@dataclass(frozen=True)
class Settings:
    """Limits and seeds of a lab."""

    #: Decides losses, jitter, the ways through the network, and what `net.random` gives.
    seed: int = 1
    #: Memory of the kernel, for all hosts together.
    memory: str | float = "1GiB"
    mtu_bytes: int = 1500
    #: Virtual time that a wait may take, unless it says another limit.
    time_limit: str | float = "1h"
    #: Wall time that a wait may take.
    wall_limit: str | float = "5min"
    #: Wall time that the virtual clock may stand still while programs run.
    stall_limit: str | float = "20s"
    #: Processes that all programs together may have at one time.
    process_limit: int = 400
    #: Largest size of the output of programs that is kept.
    output_limit: str | float = "256MiB"
    #: Whether the packets of hosts' ports are captured, and how many bytes of each.
    capture: bool = False
    snaplen_bytes: int = 512
    #: Folder for captures at the end; by default they are kept only if a test fails.
    packets: str | Path | None = None
    #: Virtual time that computation takes, as a multiple of the CPU time that the machine counts for it, which differs
    #: from run to run. A lab with another value than 0 does not repeat.
    cpu_time: float = 0.0
    #: The CPU that the kernel is pinned to; by default one of this process's.
    cpu: int | None = None

    @staticmethod
    def of(values: Mapping[str, object]) -> Settings:
        """Settings by their names. Raises InputFault for a name that there is not."""
        names = [each.name for each in fields(Settings)]
        for name in values:
            if name not in names:
                raise InputFault(f"{name}: no such setting of a lab; there are {', '.join(names)}")
        given: dict[str, Any] = dict(values)
        return Settings(**given)

    def check(self) -> None:
        """Raises InputFault for settings that cannot be."""
        if self.memory_mb < LEAST_MEMORY_MB:
            raise InputFault(f"memory = {self.memory!r}: must be at least {LEAST_MEMORY_MB}MiB")
        for key in ("time_limit", "wall_limit", "stall_limit"):
            if seconds(key, getattr(self, key)) <= 0:
                raise InputFault(f"{key} = {getattr(self, key)!r}: must be above 0")
        if not 576 <= self.mtu_bytes <= 9216:
            raise InputFault(f"mtu_bytes = {self.mtu_bytes}: must be 576 to 9216")
        charged_cpu_time(self.cpu_time, "cpu_time")
        if self.process_limit < 1:
            raise InputFault(f"process_limit = {self.process_limit}: must be at least 1")
        size_bytes("output_limit", self.output_limit)

    @property
    def memory_mb(self) -> int:
        """MiB of the kernel's memory."""
        return int(quantity("memory", self.memory, SIZE) / MIB)

    @property
    def captures(self) -> bool:
        """Whether packets are captured."""
        return self.capture or self.packets is not None
