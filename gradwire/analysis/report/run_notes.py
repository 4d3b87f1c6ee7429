"""Sentences of a report on how its points ran: what was divided, measured later, run again, loaded most, and how fast it went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradwire.analysis.fluid.steady import MeasuredIterations
from gradwire.analysis.link_loads import LoadedLine, flows_in_words, lines_in_words
from gradwire.analysis.report.program_report import FIGURES_FILE
from gradwire.datatypes.records import NOT_SERVED


def tell_asked_division(numbers: Sequence[int], worst_share: float) -> str:
    """Tells by what bytes and rates of points were divided because the scenario allows it. worst_share: of an iteration's
    time, by which that moves it at most."""
    if all(number == 1 for number in numbers):
        return (
            "fidelity: no point is divided: even twice as long, bursts would move an iteration by more than was asked "
            "for"
        )
    return f"fidelity: {_divided(numbers, worst_share)}"


def tell_forced_division(numbers: Sequence[int], worst_share: float) -> str:
    """Tells by what bytes and rates of points were divided because the virtual clock carries no more."""
    return f"the virtual clock carries no more: {_divided(numbers, worst_share)}"


def _divided(numbers: Sequence[int], worst_share: float) -> str:
    least, most = min(numbers), max(numbers)
    by = f"{least}" if least == most else f"{least} to {most}"
    return (
        f"bytes and rates of {_points(len(numbers))} are divided by {by}; bursts, which are not, move an iteration "
        f"by up to {worst_share:.2%} on the ideal network"
    )


def _points(count: int) -> str:
    return "1 point" if count == 1 else f"{count} points"


def tell_finer_bursts(points: int, gso_bytes: int) -> str:
    """Tells that hosts handed over finer bursts, because those of 64 KiB would have moved an iteration."""
    return (
        f"fabric.gso: hosts sent bursts of {gso_bytes:,} bytes at {_points(points)}, of which an iteration is so short that "
        "those of 64 KiB could move it"
    )


def tell_later_window(label: str, unsteady: Sequence[MeasuredIterations], measured: MeasuredIterations) -> str:
    """Tells that a point was measured after a longer warm-up, because its iterations were not steady in these windows."""
    tried = " or ".join(f"in {each.iterations} iterations after a warm-up of {each.warmup}" for each in unsteady)
    return (
        f"warm-up: {label} was not steady {tried}; its result is that of {measured.iterations} iterations after a warm-up "
        f"of {measured.warmup}"
    )


def tell_programs(with_programs: int, points: int, rows: int, *, of_jobs: bool) -> str:
    """Tells at how many points programs ran, how many rows they reported, and what x fluid means there."""
    told = f", and reported {rows} rows of figures ({FIGURES_FILE})" if rows else ""
    without = "the jobs" if of_jobs else "the strategy alone"
    alone = ", and x alone has neither programs nor other jobs" if of_jobs else ""
    return (
        f"programs ran during {with_programs} of {points} points{told}; the bound and the ideal network of x fluid are of "
        f"{without}{alone}"
    )


def tell_slow_agents(slow: int, points: int) -> str:
    """Tells at how many points the kernel could not run the compiled agents that were asked for."""
    return f"agents of {slow} of {points} points are in {NOT_SERVED}: points take longer, and are the same"


def tell_stopped(labels: Sequence[str]) -> str:
    """Tells which points began anew because a signal had stopped their machine."""
    return f"stopped by a signal and run anew from the start, {_points(len(labels))}: {', '.join(labels)}"


@dataclass(frozen=True)
class PointSpeed:
    """How fast a point ran, in wall time."""

    #: From the start of the machine to the first byte.
    first_byte_s: float
    replay_s: float
    #: Payload that crossed the network during the replay.
    payload_bytes: int
    total_s: float


def tell_speed(speeds: Sequence[PointSpeed]) -> str:
    """Tells how fast points booted and ran."""
    payload_bytes = sum(speed.payload_bytes for speed in speeds)
    replay_s = sum(speed.replay_s for speed in speeds)
    slowest_s = max(speed.first_byte_s for speed in speeds)
    mean_s = sum(speed.first_byte_s for speed in speeds) / len(speeds)
    rate = payload_bytes / replay_s if replay_s else 0.0
    return (
        f"speed: boot to first byte {mean_s:.1f} s (slowest {slowest_s:.1f} s); {payload_bytes / 1e9:.0f} GB of "
        f"emulated payload at {rate / 1e9:.2f} GB/s; points took {sum(speed.total_s for speed in speeds):.0f} s of wall time "
        "in all, each on one core"
    )


@dataclass(frozen=True)
class LoadedPoint:
    """The lines between switches that a point loads, those that are busy longest first; at least one."""

    label: str
    seed: str
    lines: Sequence[LoadedLine]


def tell_loaded_lines(parameters: Sequence[tuple[str, str]], points: Sequence[LoadedPoint]) -> str:
    """Tells the most loaded lines of a point, or their range over points that differ in nothing but the seed.

    parameters: names and values that they share.
    """
    if len(points) == 1:
        return f"lines between switches, {points[0].label}: {lines_in_words(points[0].lines)}"
    most = [point.lines[0] for point in points]
    longest = max(points, key=lambda point: point.lines[0].busy_s)
    least_s, most_s = min(line.busy_s for line in most), max(line.busy_s for line in most)
    fewest, greatest = min(line.flows for line in most), max(line.flows for line in most)
    flows = flows_in_words(greatest) if fewest == greatest else f"{fewest} to {greatest} flows"
    which = " ".join(f"{key.rpartition('.')[2]} {value}" for key, value in parameters)
    busy = f"{most_s:.4g} s" if f"{least_s:.4g}" == f"{most_s:.4g}" else f"{least_s:.4g} to {most_s:.4g} s"
    return (
        f"lines between switches, {which}: over {len(points)} seeds, the most loaded line is busy for {busy} of each iteration with "
        f"{flows}; longest with seed {longest.seed}, from {longest.lines[0].name}"
    )
