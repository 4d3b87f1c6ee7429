"""A point of a run folder, found by name and read back: what `gradwire trace` and `gradwire why` explain.

Only what the run left there is read (task.json, plans, op log, record, verdict): nothing is compiled, so an old run stays readable
after strategies have changed, and whatever version of gradwire made it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gradwire.agents.records import OpLog, PointRecord
from gradwire.analysis.iterations import iteration_times_s
from gradwire.analysis.verdict.verdict import Verdict
from gradwire.controller.flows import SpineChoice, SwitchRules, switch_rules, trace_group
from gradwire.faults import InputFault
from gradwire.run.point import fabric_for
from gradwire.run.stored.files import load_log, load_plan, load_record, load_task, load_verdict, reading
from gradwire.run.stored.point_folders import Held, held_points, in_words
from gradwire.run.stored.run_folder import run_folder, stored_scenario
from gradwire.topo.fabric import Fabric, MulticastGroup, dscp_of_band
from gradwire.workloads.plan import Plan

NEEDED = ("task.json", "completed.json", "record.json", "ops.npz")


@dataclass(frozen=True)
class StoredPoint:
    """A point that came to its end. parameters: as in points.csv, empty for one that the folder's scenario no longer has."""

    folder: Path
    parameters: Mapping[str, str]
    plan: Plan
    fabric: Fabric
    log: OpLog
    record: PointRecord
    verdict: Verdict

    @property
    def label(self) -> str:
        """The point in a few words."""
        return in_words(self.parameters) or self.folder.name

    def slowest_iteration(self) -> int:
        """Number of the measured iteration that took longest."""
        times_s = iteration_times_s(self.plan, self.log, self.record.iterations)
        return self.record.warmup + int(times_s[self.record.warmup :].argmax())

    def iteration(self, wanted: int | None) -> int:
        """The wanted iteration, by default the slowest measured one. Raises InputFault if there is none of that number."""
        if wanted is None:
            return self.slowest_iteration()
        if not 0 <= wanted < self.record.iterations:
            last, warmup = self.record.iterations - 1, self.record.warmup
            raise InputFault(
                f"--iteration {wanted}: {self.label} has iterations 0 to {last}, of which {warmup} are warm-up"
            )
        return wanted

    def spine_of(self, source: int, target: int, members: tuple[int, ...]) -> int | None:
        """The spine that the controller's rules put messages of two endpoints on (gradwire.analysis.link_loads.SpineOf)."""
        if not members:
            return self._choice(source, target)
        group = self.fabric.groups.index(MulticastGroup(source, members))
        spines = self.fabric.spine_names()
        hops = trace_group(self.fabric, self._rules, group, dscp_of_band(1))
        return next((spines.index(hop.switch) for hop in hops if hop.switch in spines), None)

    @cached_property
    def _choice(self) -> SpineChoice:
        return SpineChoice(self.fabric)

    @cached_property
    def _rules(self) -> list[SwitchRules]:
        return switch_rules(self.fabric)


def stored_point(run: Path, wanted: str) -> StoredPoint:
    """The point `wanted` of a run folder: its folder's name or a unique part of it, or `key=value,...` as in points.csv.

    Raises InputFault, with all there is, for what names no point or several, and for one whose run did not come to its end.
    """
    run = run_folder(run)
    held = held_points(run, stored_scenario(run).points)
    known = _points(run, held)
    folder = _chosen(run, known, wanted)
    _refuse_unfinished(folder, held)
    with reading(folder / "completed.json"):
        label = json.loads((folder / "completed.json").read_text())["plan"]
    task = load_task(folder)
    return StoredPoint(
        folder,
        known[folder.name],
        load_plan(folder, task, label),
        fabric_for(task.fabric, [load_plan(folder, task, name) for name, _ in task.plans]),
        load_log(folder),
        load_record(folder),
        load_verdict(folder),
    )


def _refuse_unfinished(folder: Path, held: Sequence[Held]) -> None:
    missing = [name for name in NEEDED if not (folder / name).exists()]
    if not missing:
        return
    if not folder.is_dir():
        raise InputFault(next(one.absence for one in held if one.folder == folder))
    failed = (folder / "verdict.json").exists()
    why = f": {load_verdict(folder).summary}" if failed else f" (it has no {missing[0]})"
    raise InputFault(f"{folder}: this point has not come to its end{why}; `gradwire run` completes the folder")


def _points(run: Path, held: Sequence[Held]) -> dict[str, Mapping[str, str]]:
    """Parameters of each point by its folder's name: those of the scenario first, then others that are there."""
    known: dict[str, Mapping[str, str]] = {one.folder.name: one.point.parameters for one in held}
    there = sorted(entry.name for entry in (run / "points").glob("*") if entry.is_dir())
    return {**known, **{name: {} for name in there if name not in known}}


def _chosen(run: Path, known: Mapping[str, Mapping[str, str]], wanted: str) -> Path:
    names = [wanted] if wanted in known else [name for name in known if _fits(name, known[name], wanted)]
    # Of a point that was run again, a folder may be left that no scenario has: by a part of the name, the scenario's is meant.
    names = [name for name in names if known[name]] or names
    if len(names) == 1:
        return run / "points" / names[0]
    fault = f"fits {len(names)} points" if names else "fits no point"
    listed = "\n".join(f"  {name}   {_parameters_text(known[name])}" for name in (names or known))
    raise InputFault(f"point '{wanted}' {fault} of {run}; {'it could be' if names else 'there are'}:\n{listed}")


def _fits(name: str, parameters: Mapping[str, str], wanted: str) -> bool:
    if "=" not in wanted:
        return wanted in name
    pairs = [part.partition("=") for part in wanted.split(",")]
    return all(parameters.get(key.strip()) == value.strip() for key, _, value in pairs)


def _parameters_text(parameters: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in parameters.items() if value)
