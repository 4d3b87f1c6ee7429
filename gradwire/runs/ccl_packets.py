"""`gradwire ccl --packets`: rows of the table as packets in the machine, next to the estimate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gradwire.analysis.iterations import times_of_ops_ns
from gradwire.analysis.points import VALID
from gradwire.csv_files import read_csv
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import OpLog
from gradwire.faults import InternalFault
from gradwire.named_code import COMMAND_LINE, permit
from gradwire.runs.ccl import Row
from gradwire.runs.ccl_machines import TYPES, CclOptions, Wires, set_up
from gradwire.workloads.engines.collectives.schedule import PER_MEMBER, Collective
from gradwire.workloads.engines.nccl.chooser import choose
from gradwire.workloads.engines.nccl.grouped import GroupedCall
from gradwire.workloads.engines.nccl.pieces import divide
from gradwire.workloads.trace_replay import single_call
from gradwire.workloads.trace_replay.compiler import GATE_LANE
from gradwire.workloads.trace_replay.single_call import ENDS, NAME
from gradwire.workloads.units import DURATION


def call_times_s(plan: Plan, log: OpLog, iterations: int) -> list[float]:
    """Seconds that the call took in each iteration: the longest of all ranks, from the end of its barrier to the end of
    its part. Raises InternalFault for a plan of another strategy."""
    ranks = len(plan.workers)
    gates = np.flatnonzero(plan.ops.lane == GATE_LANE)[: 2 * ENDS * ranks]
    tasks = gates.reshape(-1, ranks)
    # Tasks in their order: barriers of all ranks, then their calls; first the ops that begin tasks, then those that end
    # them (workloads/trace_replay/compiler.py).
    if plan.name != NAME or len(tasks) != 2 * ENDS or (np.diff(gates) != 1).any():
        raise InternalFault(f"a plan of '{plan.name}' has no single call behind a barrier")
    begins = times_of_ops_ns(log, log.end_ns, tasks[1], iterations)
    ends = times_of_ops_ns(log, log.end_ns, tasks[3], iterations)
    return [float(time) for time in (ends - begins).max(axis=1) / 1e9]


STRATEGY_FILE = single_call.__file__
MOST_RANKS = 64
MOST_CARRIED_BYTES = 4e9
"""Payload of a row's three calls, which takes seconds of one core."""
MOST_MESSAGES = 200_000
"""Largest number of messages of a row's plan."""


def why_not(given: CclOptions, row: Row) -> str:
    """Why a row is not run as packets; "" where it is."""
    if isinstance(row.kind, GroupedCall) or given.machines == 1:
        return "one machine has no network" if given.machines == 1 else "sends and receives have no packets here"
    if row.ranks > MOST_RANKS:
        return f"{row.ranks} GPUs are more than {MOST_RANKS}"
    if given.gpus % given.nics:
        return f"{given.nics} NICs do not divide {given.gpus} GPUs"
    if given.burst_cost is not None:
        return "packets have no --burst-cost"
    carried = 3 * 2 * row.size_bytes * given.machines
    if carried > MOST_CARRIED_BYTES:
        return f"three calls carry up to {carried / 1e9:.0f} GB, more than {MOST_CARRIED_BYTES / 1e9:.0f}"
    is_other = given.transport == "efa" and not _is_chosen_without_plugin(given, row, row.kind)
    return "packets go as NCCL chooses without the plugin, which takes something else here" if is_other else ""


def _is_chosen_without_plugin(given: CclOptions, row: Row, kind: Collective) -> bool:
    comm, _, _ = set_up(replace(given, transport="rdma", plugin=None))
    choice = choose(comm, kind, row.size_bytes)
    pieces = divide(comm, kind, choice.algorithm, choice.protocol, row.size_bytes)
    taken = (choice.algorithm.value, choice.protocol.value, pieces.channels, pieces.chunk_bytes)
    return taken == (row.algorithm, row.protocol, row.channels, row.chunk_bytes)


def alike(rows: Iterable[Row]) -> list[list[Row]]:
    """Divides rows into those whose NICs carry as much, which one scenario has."""
    found: dict[float, list[Row]] = {}
    for row in rows:
        found.setdefault(row.nic_bytes_per_s, []).append(row)
    return list(found.values())


def scenario_of(given: CclOptions, wires: Wires, rows: Sequence[Row]) -> dict[str, Any]:
    """Rows that are alike, as a scenario of single calls, one after the other without a barrier, as nccl-tests time
    them. A line carries what a NIC does in such a call."""
    kind = rows[0].kind
    per_member = {row.size_bytes: row.size_bytes // row.ranks if kind in PER_MEMBER else row.size_bytes for row in rows}
    delay_s = DURATION.parse(given.delay)
    permit(Path(STRATEGY_FILE), COMMAND_LINE)  # the command itself names it
    nccl: dict[str, Any] = {
        "version": given.nccl,
        "gpu": given.gpu,
        "transport": "tcp" if given.transport == "tcp" else "rdma",
        "nvswitch": given.nvswitch,
        "amd": given.amd,
        "nic": given.nic,
        "most_messages": MOST_MESSAGES,
        "env": dict(variable.split("=", 1) for variable in given.variables),
    }
    if given.links is not None:
        nccl["nvlink"] = given.links
    return {
        "title": f"gradwire ccl {kind.value} --packets",
        "cluster": {
            "workers": given.machines * given.gpus,
            "workers_per_host": given.gpus,
            "nics_per_host": given.nics,
        },
        "fabric": {
            "rate": f"{rows[0].nic_bytes_per_s * 8 / wires.fabric(2).goodput_share():.0f}bps",
            "mtu_bytes": wires.mtu_bytes,
            "delay": f"{delay_s / 2 * 1e9:.0f}ns",
        },
        "model": {
            "name": "nothing",
            "layers": [{"name": "nothing", "size": ["4B"], "forward": "0us", "backward": "0us"}],
            "batch": 1,
        },
        "strategy": {
            "name": STRATEGY_FILE,
            "options": {
                "collective": kind.value,
                "algorithm": "nccl",
                "element": TYPES[given.dtype],
                "barrier": False,
                "nccl": nccl,
            },
        },
        "costs": {
            "message_latency": {
                "value": f"{(wires.crossing_s - delay_s) * 1e9:.0f}ns",
                "source": "gradwire ccl: the transport's, or as given",
            }
        },
        "run": {"warmup": 1, "iterations": 2},
        "sweep": {"strategy.options.size": [f"{size}B" for size in per_member.values()]},
    }


@dataclass(frozen=True)
class PacketResult:
    """The result of a row that was run as packets."""

    #: Time of the row; None if it was not run, or the run is not a result.
    time_s: float | None
    #: "valid", or why there is no time.
    verdict: str


def read_points(folder: Path, rows: Sequence[Row]) -> dict[int, PacketResult]:
    """The rows of a run folder by their size, in the order in which they were swept."""
    records = read_csv(folder / "points.csv")
    if len(records) != len(rows):
        raise InternalFault(f"{folder}: {len(records)} points of {len(rows)} calls")
    found = {}
    for row, record in zip(rows, records, strict=True):
        verdict = record["verdict"]
        found[row.size_bytes] = PacketResult(float(record["iteration_time_s"]) if verdict == VALID else None, verdict)
    return found
