"""Thirty calls of NCCL three times: as `gradwire ccl` has them, as a strategy's plan is estimated, and by packets.

    python -m benchmarks.nccl_agreement [--packets] [--folder FOLDER] [--only 8]

Prints a row of Markdown for each call of 2, 4 and 8 machines by each algorithm that goes between machines: what `gradwire
ccl` says, what an estimate of the plan says, what packets took, and the cause of what is off by more than 3 %. A cause is
tried: the first number is made anew with it, and must come within 3 % of the plan's. Of packets, it is what their run says
of itself (`fluid_cause` in points.csv), or smaller bursts, tried. `--packets` takes some ten minutes of a core, and goes on
in its `--folder`. `--only` leaves out other numbers of machines.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from gradwire.analysis.fluid.estimate import estimate
from gradwire.console.terminal_screen import TerminalScreen
from gradwire.csv_files import read_csv
from gradwire.runs.ccl import Row, kind_of, replayed_s, row_of
from gradwire.runs.ccl_machines import CclOptions, TestedCall, set_up
from gradwire.runs.ccl_packets import PacketResult, read_points, scenario_of, why_not
from gradwire.runs.compiling.many_points import SharedPlans
from gradwire.runs.estimation import estimate_points
from gradwire.runs.executing.executor_choice import Where
from gradwire.runs.launch.scenario_run import carry_out, prepare
from gradwire.scenario.loading import scenario_of as resolved_scenario
from gradwire.scenario.scenario_files import read_scenario
from gradwire.vm.machines import Clock
from gradwire.workloads.engines.collectives.schedule import Collective
from gradwire.workloads.engines.nccl.chooser import PAT, RING, choose
from gradwire.workloads.engines.nccl.duration import CallFacts, duration_s
from gradwire.workloads.engines.nccl.pieces import divide
from tests.shared.ccl_given import USUAL

NEAR = 0.03
UNEXPLAINED, SMALL_BURST = "unexplained", "16KiB"
SIZES = {"64 KiB": 64 << 10, "4 MiB": 4 << 20, "16 MiB": 16 << 20}
MACHINE = replace(USUAL, gpus=4, nics=4, nic="100gbit", transport="rdma", version="2.28")
ONE_GPU = replace(MACHINE, machines=8, gpus=1, nics=1, variables=("NCCL_ALGO=PAT",))
WIDTH = 4
HEAD = """| machines | call | size | by | `ccl` | plan's estimate | its packets | cause |
|---|---|---|---|---|---|---|---|"""


@dataclass(frozen=True)
class SizedCall:
    """A call of one size on one kind of machines."""

    given: CclOptions
    kind: TestedCall
    size: str

    @property
    def what(self) -> str:
        """Returns the cells that name it."""
        return f"{self.given.machines} x {self.given.gpus} | {self.kind.value} | {self.size}"


class WholeChunks(CallFacts):
    """A call whose chunks by LL and LL128 GPUs of a machine pass on when they are there as a whole, as a plan's messages are."""

    @property
    def by_lines(self) -> bool:
        """Returns False: nothing is passed on before it is there."""
        return False


def calls() -> Iterator[SizedCall]:
    """Yields the thirty calls."""
    for machines in (2, 4, 8):
        for algorithm in ("Ring", "Tree", "NVLSTree"):
            given = replace(MACHINE, machines=machines, variables=(f"NCCL_ALGO={algorithm}",))
            yield from (SizedCall(given, kind_of("all-reduce"), size) for size in SIZES)
    yield from (SizedCall(ONE_GPU, kind_of("all-gather"), size) for size in SIZES)


def row_of_call(call: SizedCall) -> Row:
    """The row of `gradwire ccl`."""
    comm, wires, _ = set_up(call.given, call.kind)
    return row_of(comm, wires, call.kind, SIZES[call.size], WIDTH)


def estimated_s(given: CclOptions, row: Row) -> float:
    """Seconds of the call as a plan of a strategy, on the second engine."""
    _, wires, _ = set_up(given, row.kind)
    (point,) = estimate_points(resolved_scenario(scenario_of(given, wires, [row])).points, 1)
    return point.iteration_time_s


def sent(given: CclOptions, row: Row, folder: Path, settings: tuple[str, ...] = ()) -> PacketResult:
    """The call by packets."""
    if why := why_not(given, row):
        return PacketResult(None, why)
    _, wires, _ = set_up(given, row.kind)
    screen = TerminalScreen(Console(stderr=True, quiet=True), Console(stderr=True))
    read = read_scenario(scenario_of(given, wires, [row]), settings)
    carry_out(prepare(read, Clock(), folder, screen), Where(), "benchmarks.nccl_agreement", screen)
    return read_points(folder, [row])[row.size_bytes]


def alone_s(given: CclOptions, row: Row) -> float:
    """Seconds of the first call of the plan, with nothing before it: others follow one another without a barrier."""
    _, wires, _ = set_up(given, row.kind)
    (point,) = resolved_scenario(scenario_of(given, wires, [row])).points
    (plan,) = SharedPlans().of(point.resolved, point.resolved.job).values()
    return float(estimate(plan, point.resolved.fabric, most_iterations=1).iterations_s[0])


def cause_of(given: CclOptions, row: Row, plan_s: float) -> str:
    """The cause of a difference between `gradwire ccl` and a plan, tried; "" where there is none."""
    if abs(plan_s / row.time_s - 1) <= NEAR:
        return ""
    first_s = alone_s(given, row)
    if abs(first_s / row.time_s - 1) <= NEAR:
        return f"calls overlap with the next: the first takes {_us(first_s)}"
    assert isinstance(row.kind, Collective)
    comm, wires, _ = set_up(given, row.kind)
    choice = choose(comm, row.kind, row.size_bytes)
    pieces = divide(comm, row.kind, choice.algorithm, choice.protocol, row.size_bytes)
    call = WholeChunks(comm, wires.network, row.kind, choice, pieces, row.size_bytes)
    if choice.algorithm is PAT:
        tried_s = row.time_s - (comm.machines - 1).bit_length() * call.crossing_s
        cause = "latencies of PAT's steps pass while other chunks are sent"
    else:
        tried_s = duration_s(call) if choice.algorithm is RING else replayed_s(call, wires)
        cause = "a plan passes whole chunks on inside a machine"
    return f"{cause}: {_us(tried_s)}" + ("" if abs(plan_s / tried_s - 1) <= NEAR else ", which is not all")


def cause_of_packets(given: CclOptions, row: Row, plan_s: float, folder: Path) -> str:
    """The cause of a difference between packets and their plan: that of their run, or, where it has none, smaller bursts, tried."""
    cause = read_csv(folder / "points.csv")[0]["fluid_cause"]
    if cause == UNEXPLAINED:
        time_s = sent(
            given, row, folder.with_name(f"{folder.name}-{SMALL_BURST}"), (f"fabric.gso={SMALL_BURST}",)
        ).time_s
        if time_s is not None and abs(time_s / plan_s - 1) <= NEAR:
            cause = f"bursts ({_us(time_s)} if they are of {SMALL_BURST})"
    return f"packets: {cause}"


def cells(call: SizedCall, packets: Path | None) -> str:
    """The cells of a call's row."""
    row = row_of_call(call)
    plan_s = estimated_s(call.given, row)
    packet, cause = "", cause_of(call.given, row, plan_s)
    if packets is not None:
        result = sent(call.given, row, packets)
        packet = result.verdict if result.time_s is None else _against(result.time_s, plan_s)
        if result.time_s is not None and abs(result.time_s / plan_s - 1) > NEAR:
            cause = "; ".join(filter(None, (cause, cause_of_packets(call.given, row, plan_s, packets))))
    by = f"{row.algorithm} {row.protocol}"
    return f"| {call.what} | {by} | {_us(row.time_s)} | {_against(plan_s, row.time_s)} | {packet} | {cause} |"


def _against(time_s: float, other_s: float) -> str:
    """A time, and how far it is from another."""
    return f"{_us(time_s)} ({time_s / other_s - 1:+.1%})"


def _us(time_s: float) -> str:
    return f"{time_s * 1e6:,.1f} us"


def main() -> None:
    """Reads the arguments and prints the table, small calls first; packets' difference is from the plan's estimate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packets", action="store_true")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--only", type=int)
    arguments = parser.parse_args()
    print(HEAD)
    with TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        in_order = sorted(enumerate(calls()), key=lambda one: SIZES[one[1].size] * one[1].given.machines)
        for number, call in in_order:
            if arguments.only in (None, call.given.machines):
                print(cells(call, folder / f"call{number}" if arguments.packets else None), flush=True)


if __name__ == "__main__":
    main()
