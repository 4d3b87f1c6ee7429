"""What the notes of a point may say: its task, with the network that was built for it, and how it came to its end."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from gradwire.datatypes.fabric import Fabric
from gradwire.datatypes.records import PlannedFault
from gradwire.faults import InputFault
from gradwire.runs.protocol import PointTask
from gradwire.runs.stored.soundness.ranges import refuse_absurd, refuse_outside, shown
from gradwire.scenario.schema import LARGEST_SOCKET_BYTES, MOST_ITERATIONS
from gradwire.vm.machines import Clock
from gradwire.workloads.fields import HIGHEST_RATE_BPS, LOWEST_RATE_BPS, MOST_WORKERS

PLAN_FILE = re.compile(r"plan-[0-9]{1,6}\.npz")
CLOCKS = ("virtual", "wall")
MOST_HOSTS = 2 * MOST_WORKERS
"""Workers, and servers beside them."""
MOST_PLANS = 1000
"""Of one point: candidates among which a search chooses."""
LARGEST_SCALE = 2**40
"""What rates are divided by: the fastest would be 10 bit/s then."""
LEAST_MTU_BYTES, MOST_FRAME_BYTES = 256, 2**16


def refuse_unsound_clock(clock: Clock) -> None:
    """Raises ValueError for a clock that no run has."""
    if clock.name not in CLOCKS:
        raise ValueError(f"name = {shown(str(clock.name))}: must be {' or '.join(CLOCKS)}")
    if type(clock.scale) is not int:
        raise ValueError("scale is not a number")
    refuse_outside("scale", clock.scale, 0, LARGEST_SCALE)


def sound_fabric(text: str) -> Fabric:
    """The network in a task. Raises ValueError, or what Fabric raises for values that do not belong, for one that no scenario has."""
    said = msgspec.json.decode(text, type=dict[str, object])
    refuse_absurd(said)
    # A network names its switches as soon as it is made, so there must not be too many.
    for name in ("hosts", "leaves", "pods", "spines", "cores"):
        count = said.get(name, 1)
        if type(count) is not int:
            raise ValueError(f"fabric.{name} is not a number")
        refuse_outside(f"fabric.{name}", count, 0, MOST_HOSTS)
    try:
        msgspec.json.decode(text, type=Fabric)  # which compares types; the rest is for `from_json`
        fabric = Fabric.from_json(text)
    except InputFault as fault:
        raise ValueError(f"its network cannot be built: {fault}") from fault
    refuse_outside("fabric.rate", fabric.rate_bps, LOWEST_RATE_BPS / LARGEST_SCALE, HIGHEST_RATE_BPS)
    refuse_outside("fabric.mtu_bytes", fabric.mtu_bytes, LEAST_MTU_BYTES, MOST_FRAME_BYTES)
    refuse_outside("fabric.loss", fabric.loss, 0, 1)
    for name in ("queue_packets", "buffer_bytes", "ecn_bytes"):
        refuse_outside(f"fabric.{name}", getattr(fabric, name), 0)
    return fabric


def refuse_unsound_task(task: PointTask) -> None:
    """Raises ValueError for a task that no point has. Its network is told by `sound_fabric`."""
    refuse_outside("plans", len(task.plans), 1, MOST_PLANS)
    for plan in task.plans:
        # A file is read by this name, so it must be one that a run has written.
        if not PLAN_FILE.fullmatch(plan.file):
            raise ValueError(f"a plan's file is {shown(plan.file)}: must be like plan-0.npz")
    if len({plan.label for plan in task.plans}) < len(task.plans):
        raise ValueError("two plans have the same label")
    if task.clock not in CLOCKS:
        raise ValueError(f"clock = {shown(task.clock)}: must be {' or '.join(CLOCKS)}")
    # A warm-up to the steady state comes on top of the iterations that a scenario asks for.
    refuse_outside("iterations", task.iterations, 1, 4 * MOST_ITERATIONS)
    refuse_outside("warmup", task.warmup, 0, task.iterations - 1)
    refuse_outside("search_iterations", task.search_iterations, 0, MOST_ITERATIONS)
    refuse_outside("buffer_bytes", task.sockets.buffer_bytes, 1, LARGEST_SOCKET_BYTES)
    if task.sockets.unsent_bytes is not None:
        refuse_outside("unsent_bytes", task.sockets.unsent_bytes, 1, LARGEST_SOCKET_BYTES)
    refuse_outside("capture_snaplen", task.capture_snaplen, 1)
    refuse_outside("stall_limit_ns", task.stall_limit_ns, 0)
    refuse_outside("queue_period_ns", task.queue_period_ns, 0)
    refuse_unsound_faults(task.faults)


def refuse_unsound_faults(faults: Sequence[PlannedFault]) -> None:
    """Raises ValueError for faults that no scenario asks for."""
    for fault in faults:
        for name in ("iteration", "duration_ns", "worker", "source", "destination"):
            refuse_outside(f"{shown(fault.name)}: {name}", getattr(fault, name), -1)
        refuse_outside(f"{shown(fault.name)}: at_ns", fault.at_ns, 0)
        refuse_outside(f"{shown(fault.name)}: value", fault.value, 0, HIGHEST_RATE_BPS)
        if fault.worker >= MOST_WORKERS or max(fault.source, fault.destination) >= MOST_HOSTS:
            raise ValueError(f"{shown(fault.name)}: its place does not exist")
