"""The most ops that a plan may have: MOST_OPS, and no more than fit into the memory that is free.

Whoever is about to make many ops says how many first (`PlanBuilder.expect`), so that a plan that is too large is refused
before it takes memory. What nobody said is counted as it is made.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gradwire.faults import InputFault

MOST_OPS = 8_000_000
"""Five times the largest plan that agents replay with a machine's default settings (README, Limitations). A larger one
would compile for minutes and take gigabytes before an agent dies of it."""
BYTES_PER_OP = 600
"""Bytes of memory for each op, with those of the plan's checker at the same time: rings and halving-doubling of 2.6
million ops took 510 and 540 at most."""
MOST_KEPT_BYTES_PER_OP = 250
"""The most bytes that the builder itself keeps for each op, with dependencies and chunks: plans of all strategies have
100 to 210."""
BYTES_PER_DEPENDENCY = 24
"""Bytes that each dependency takes of them."""
CGROUP = Path("/sys/fs/cgroup")


class TooManyOps(InputFault):
    """A plan with all ranks has more ops than it may have, or a part of it has."""

    def __init__(self, name: str, said: str) -> None:
        """said: how many ops, and what to do. name: the plan's; "" of a part, which does not know what it is for."""
        super().__init__(f"the plan of '{name}' has {said}" if name else f"a part of the plan has {said}")
        self.name, self.said = name, said

    def __reduce__(self) -> tuple[type[TooManyOps], tuple[str, str]]:
        """Comes back whole from the processes that compile points side by side."""
        return TooManyOps, (self.name, self.said)


@dataclass(frozen=True)
class MostOps:
    """The limit, and where it comes from."""

    ops: int
    free_bytes: int

    @staticmethod
    def here() -> MostOps:
        """The limit of this process at this moment."""
        free_bytes = _free_bytes()
        return MostOps(min(MOST_OPS, free_bytes // BYTES_PER_OP), free_bytes)

    @property
    def reason(self) -> str:
        """The limit in words."""
        if self.ops == MOST_OPS:
            return f"may have {self.ops:,}"
        return f"may have {self.ops:,}, which fit into the {self.free_bytes / 1e9:.1f} GB of memory that are free"

    def refuse(self, name: str, ops: int, *, more: bool = False) -> None:
        """Raises TooManyOps, with what to do, for a plan of more ops. more: it has not been made to its end. name: "" for a
        part of one."""
        if ops > self.ops:
            raise TooManyOps(
                name,
                f"{'more than ' if more else ''}{ops:,} ops, and {self.reason}: take fewer workers "
                "(cluster.workers), fewer layers (model.blocks) or messages (strategy.options), fuse small tensors "
                "(model.fused_parameters), or estimate it by classes of ranks (docs/thousands.md)",
            )


def _free_bytes() -> int:
    """Returns the bytes of memory that this process may still take, given the machine, its control group and its own
    limits."""
    free = []
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            free.append(int(line.split()[1]) * 1024)
    with suppress(OSError, ValueError):  # no control group, or "max"
        free.append(int((CGROUP / "memory.max").read_text()) - int((CGROUP / "memory.current").read_text()))
    pages = Path("/proc/self/statm").read_text().split()
    for limit, field in ((resource.RLIMIT_AS, 0), (resource.RLIMIT_DATA, 5)):
        most = resource.getrlimit(limit)[0]
        if most != resource.RLIM_INFINITY:
            free.append(most - int(pages[field]) * os.sysconf("SC_PAGE_SIZE"))
    return max(0, min(free, default=MOST_OPS * BYTES_PER_OP))
