"""Costs of a scenario as strategies take them, and workers' compute times as they vary. Pure."""

from __future__ import annotations

import math
import random

from gradwire.scenario.schema import PointSection
from gradwire.scenario.sections.costs import CostsSection
from gradwire.workloads.engines.nccl.devices import DEVICES
from gradwire.workloads.job import Costs

KERNELS = "-kernels"
"""Ending of devices that are the same GPU, timed by kind of layer."""


def gpu_of(device: str | None) -> str | None:
    """Returns the GPU that NCCL's tables have for a device; None for one that they do not have."""
    name = (device or "").removesuffix(KERNELS)
    return name if name in DEVICES else None


def costs_of(section: CostsSection, link_bytes_per_s: float | None = None) -> Costs:
    """Costs of a scenario; those that it leaves out are free, but for the rate inside a machine, where the device has one."""
    free = float("inf")
    return Costs(
        aggregation_bytes_per_s=section.aggregation_rate.value if section.aggregation_rate else free,
        message_latency_s=section.message_latency.value if section.message_latency else 0.0,
        local_bytes_per_s=section.local_rate.value if section.local_rate else link_bytes_per_s or free,
        call_latency_s=section.call_latency.value if section.call_latency else None,
        local_latency_s=section.local_latency.value if section.local_latency else None,
        copy_bytes_per_s=section.copy_rate.value if section.copy_rate else free,
        merge_s=section.slice_merge.value if section.slice_merge else 0.0,
        speed_while_communicating=section.compute_while_communicating.value
        if section.compute_while_communicating
        else 1.0,
    )


def drawn_times(section: PointSection) -> tuple[float, ...]:
    """Each worker's factor on its compute times: drawn per worker, and the same for every model, strategy and network."""
    variation = section.costs.compute_variation
    if variation is None or not variation.value:
        return ()
    spread = math.sqrt(math.log1p(variation.value**2))
    draws = (random.Random(f"{section.run.seed}/compute/{worker}") for worker in range(section.cluster.workers))
    return tuple(draw.lognormvariate(-(spread**2) / 2, spread) for draw in draws)


def cost_defects(section: PointSection) -> list[str]:
    """Describes costs that do not fit together with the rest, one line each."""
    lines: list[str] = []
    jobs = [job.costs or section.costs for job in section.job.values()] or [section.costs]
    speeds = {costs_of(costs).speed_while_communicating for costs in jobs}
    if len(speeds) > 1:
        listed = ", ".join(f"{speed:g}" for speed in sorted(speeds))
        lines.append(
            f"costs.compute_while_communicating = {listed}: jobs that share a network have the same; write it once, in [costs]"
        )
    slow = [name for name, fault in section.fault.items() if fault.kind == "slow-worker"]
    if slow and speeds != {1.0}:
        lines.append(
            f"fault.{slow[0]}.kind = 'slow-worker': a worker is slowed down either by a fault or by its communication "
            "(costs.compute_while_communicating): leave out one of them"
        )
    return lines
