"""The job that measures: sends between all hosts of a network at once. `python -m gradwire.inside.wall_scale_job
FOLDER`, as root."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import msgspec

from gradwire.agents.connections import SocketOptions
from gradwire.analysis.transfers import steady_flow_time_s
from gradwire.inside.point import bench, run_inside
from gradwire.inside.point_protocol import read_json, write_json
from gradwire.inside.processor_load import ProcessorReading
from gradwire.network.fabric import Fabric
from gradwire.workloads.patterns import compile_transfers, probe_phases

TASK_FILE, FOUND_FILE = "carry.json", "carried.json"
MESSAGES = 10
"""Of each flow; from the arrival of the first to that of the last, nine tenths of the bytes pass."""


class CarryTask(msgspec.Struct, frozen=True):
    """The traffic to carry for a measurement of the scale."""

    #: As text (`Fabric.to_json`), at the rate that is tried.
    fabric_json: str
    sockets: SocketOptions
    #: How long all hosts send at line rate.
    duration_s: float


class Carried(msgspec.Struct, frozen=True):
    """How it went."""

    #: Time that the slowest flow took, over the ideal one.
    ratio: float
    #: As in `ProcessorLoad`.
    busiest: float
    waited: float
    computed: float
    """Cores that the run kept busy on average."""


def _carry(folder: Path) -> None:
    task = read_json(folder / TASK_FILE, CarryTask)
    fabric = Fabric.from_json(task.fabric_json)
    with bench(fabric, task.sockets, folder, clock="wall", per_host=False, switch_prefix="gc") as ready:
        found = []
        for number, (transfers, rate_bps) in enumerate(
            probe_phases(fabric, int(fabric.rate_bps * task.duration_s / 8))
        ):
            plan = compile_transfers("carry", fabric.hosts, [replace(each, messages=MESSAGES) for each in transfers])
            path = folder / f"carry-{number}.npz"
            plan.save(path)
            before = ProcessorReading.now()
            log, _ = ready.agents.replay(plan, path, 1, lambda _: None)
            after = ProcessorReading.now()
            load = after.since(before)
            sent_bytes = transfers[0].size_bytes // MESSAGES * (MESSAGES - 1)
            ideal_s = sent_bytes * 8 / fabric.goodput_share() / rate_bps
            ratio = steady_flow_time_s(plan, log, 0) / ideal_s
            found.append(Carried(ratio, load.busiest, load.waited, load.computed_s / (after.at_s - before.at_s)))
    worst = max(found, key=lambda each: (each.ratio, each.busiest))
    write_json(folder / FOUND_FILE, worst)


if __name__ == "__main__":
    sys.exit(run_inside(_carry))
