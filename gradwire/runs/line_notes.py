"""Notes in a report on the lines between switches: those that were loaded most, and the number of flows that met there,
over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradwire.analysis.link_loads import LoadedLine, flows_in_words, has_choices, lines_in_words, loaded_lines
from gradwire.datatypes.plan import Plan
from gradwire.inside.point_protocol import built_fabric
from gradwire.network.fabric import Fabric
from gradwire.runs.stored.files import fitting
from gradwire.runs.stored.spines import Spines

if TYPE_CHECKING:
    from gradwire.runs.judged import JudgedRun

SEED = "run.seed"


def lines_of_plan(plan: Plan, fabric: Fabric) -> list[LoadedLine]:
    """The lines between switches that a plan loads, those that are busy longest first; none where packets have no choice of ways, and none
    before a run whose controller is the user's own."""
    if not has_choices(fabric) or (fabric.controller and not fabric.ways):
        return []
    built = built_fabric(fabric, [plan])
    return loaded_lines(plan, built, Spines(built).spine_of)


@dataclass(frozen=True)
class _Loaded:
    """The most loaded lines of a run."""

    run: JudgedRun
    lines: Sequence[LoadedLine]


def line_notes(runs: Sequence[JudgedRun]) -> list[str]:
    """The most loaded lines of every valid point, and their range over points that differ in nothing but the seed."""
    alike: dict[tuple[tuple[str, str], ...], list[_Loaded]] = {}
    for run in runs:
        if not run.result.valid or not has_choices(run.fabric):
            continue
        with fitting(run.folder):
            lines = lines_of_plan(run.stored.plan(), run.fabric)
        if lines:
            own = tuple((key, str(value)) for key, value in run.result.parameters.items() if key != SEED)
            alike.setdefault(own, []).append(_Loaded(run, lines))
    return [_of_seeds(own, found) for own, found in alike.items()]


def _of_seeds(parameters: Sequence[tuple[str, str]], loaded: Sequence[_Loaded]) -> str:
    if len(loaded) == 1:
        return f"lines between switches, {loaded[0].run.label}: {lines_in_words(loaded[0].lines)}"
    most = [run.lines[0] for run in loaded]
    longest = max(loaded, key=lambda run: run.lines[0].busy_s)
    least_s, most_s = min(line.busy_s for line in most), max(line.busy_s for line in most)
    fewest, greatest = min(line.flows for line in most), max(line.flows for line in most)
    flows = flows_in_words(greatest) if fewest == greatest else f"{fewest} to {greatest} flows"
    which = " ".join(f"{key.rpartition('.')[2]} {value}" for key, value in parameters)
    busy = f"{most_s:.4g} s" if f"{least_s:.4g}" == f"{most_s:.4g}" else f"{least_s:.4g} to {most_s:.4g} s"
    return (
        f"lines between switches, {which}: over {len(loaded)} seeds, the most loaded line is busy for {busy} of each iteration with "
        f"{flows}; longest with seed {longest.run.result.parameters.get(SEED, '')}, from {longest.lines[0].name}"
    )
