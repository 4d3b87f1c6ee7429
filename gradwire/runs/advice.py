"""What would shorten the iterations of a run, by estimates: the settings that fit what its critical path waits for are estimated, and the
best one is told, unless none helps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from shlex import quote

from gradwire.analysis.report.text_table import TextLine
from gradwire.analysis.report.value_words import seconds
from gradwire.analysis.timeline.critical_path import CriticalPath
from gradwire.faults import Fault, InputFault
from gradwire.network.fabric import Fabric
from gradwire.reading_budget import reading_budget
from gradwire.runs.estimation import PointEstimate, estimate_points
from gradwire.runs.remedies import Held, Remedy, remedies
from gradwire.runs.stored.run_folder import SCENARIO_FILE, stored_plans
from gradwire.runs.stored.stored_run import StoredRun
from gradwire.scenario.loading import Point, Scenario, ScenarioOrigin, scenario_of_document

LEAST_GAIN = 0.01
"""What helps by less is not worth a change, and no further than estimates are trusted (docs/estimate.md)."""
LARGE_OPS = 300_000
"""Of a plan with more ops, an estimate takes many seconds, and only the first change is tried."""
ESTIMATED_BYTES = 60_000_000
"""Size of a file whose reading may take as long as the estimates of a run's point and its changes: half a minute."""
OFF = 0.1
"""Share by which a run may differ from its estimate, before that is said."""


@dataclass(frozen=True)
class Tried:
    """A change that was estimated."""

    remedy: Remedy
    #: With it, by estimate, what an iteration takes; of each job, where there are several.
    time_s: tuple[float, ...]

    @property
    def setting(self) -> str:
        """The change as `--set` takes it: `fabric.routing="spray"`."""
        return self.remedy.setting


@dataclass(frozen=True)
class Advice:
    """What was estimated of a run and of changes to it."""

    #: What an iteration takes as things are, by estimate; of each job, where there are several.
    now_s: tuple[float, ...] = ()
    #: The jobs' names, where there are several.
    jobs: tuple[str, ...] = ()
    tried: tuple[Tried, ...] = ()
    #: Faults that an estimate does not know, by their names.
    faults: tuple[str, ...] = ()
    #: Why nothing could be estimated, or a change could not.
    failed: tuple[str, ...] = ()

    def ratio(self, tried: Tried) -> float:
        """Time with a change over that without: of several jobs, the geometric mean."""
        ratios = [then / now for then, now in zip(tried.time_s, self.now_s, strict=True)]
        return math.prod(ratios) ** (1 / len(ratios))

    @property
    def best(self) -> Tried | None:
        """The change that helps most of those that need no other hardware, or else of all; None if none helps."""
        for is_hardware in (False, True):
            helping = [
                each
                for each in self.tried
                if each.remedy.is_hardware is is_hardware and self.ratio(each) < 1 - LEAST_GAIN
            ]
            if helping:
                return min(helping, key=self.ratio)
        return None


def advice_of(stored: StoredRun, path: CriticalPath) -> Advice:
    """Estimates the point of a run folder, and the changes that may shorten the iteration of this critical path, within a budget: the
    folder may be anybody's. Empty for a run that is none of a scenario."""
    if stored.point is None:
        return Advice()
    run = stored.folder.parent.parent
    try:
        with reading_budget(run / SCENARIO_FILE, ESTIMATED_BYTES):
            return advise(Held.of(path), stored.point, stored_plans(run), stored.built_fabric(), len(path.plan.ops))
    except InputFault as fault:
        return Advice(failed=(str(fault),))


def advise(held: Held, point: Point, scenario: Scenario, fabric: Fabric, ops: int = 0) -> Advice:
    """Estimates the point, and the changes of it that may help. Where code of users would have to run for that, or a change does not fit,
    the advice says so. ops: number of the plan's."""
    faults = tuple(point.section.fault)
    try:
        (*rows,) = estimate_points([point], 1)
    except Fault as fault:
        return Advice(faults=faults, failed=(_first_line(fault),))
    now_s = tuple(row.iteration_time_s for row in rows)
    tried, failed = list[Tried](), list[str]()
    chosen = remedies(held, point.section, fabric)
    for remedy in chosen[:1] if ops > LARGE_OPS else chosen:
        if remedy.is_hardware and Advice(now_s, tried=tuple(tried)).best is not None:
            break
        try:
            changed = estimate_points([changed_point(scenario, point, remedy.setting)], 1)
        except Fault as fault:
            failed.append(f"{remedy.setting}: {_first_line(fault)}")
            continue
        tried.append(Tried(remedy, tuple(row.iteration_time_s for row in changed)))
    return Advice(now_s, _jobs_of(rows), tuple(tried), faults, tuple(failed))


def _jobs_of(rows: Sequence[PointEstimate]) -> tuple[str, ...]:
    return tuple(row.parameters["job"] for row in rows) if len(rows) > 1 else ()


def _first_line(fault: Fault) -> str:
    return str(fault).partition("\n")[0]


def changed_point(scenario: Scenario, point: Point, setting: str) -> Point:
    """A point of a scenario with one more setting: the point of the changed scenario with the same other parameters. Raises InputFault if
    the setting does not fit."""
    changed = scenario_of_document(
        scenario.document, ScenarioOrigin(f"--set {setting}", scenario.name, None), [setting]
    )
    key = setting.partition("=")[0]

    def stays(name: str) -> bool:
        swept = changed.keys.get(name, "")
        return name in point.parameters and not (
            swept == key or swept.startswith(f"{key}.") or key.startswith(f"{swept}.")
        )

    def alike(other: Point) -> int:
        return sum(other.parameters[name] == point.parameters[name] for name in other.parameters if stays(name))

    return max(changed.points, key=alike)


def advice_lines(advice: Advice, measured_s: float, scenario: str) -> Iterator[TextLine]:
    """Yields what would shorten iterations, and what was tried in vain.

    measured_s: mean time of the run's iterations. scenario: its file or name, for the command.
    """
    best = advice.best
    if best is not None:
        unset = best.remedy.setting.endswith("=")
        told = f"{best.remedy.setting.removesuffix('=')} unset" if unset else best.remedy.setting
        yield TextLine(f"What would change it: {told}", "strong")
        yield TextLine(f"  {_times(advice, best)}, by estimate{_measured(advice, measured_s)}")
        yield TextLine(f"  gradwire run {scenario} --set {quote(best.remedy.setting)}")
    elif advice.tried:
        tried = "; ".join(f"{each.remedy.setting} ({advice.ratio(each) - 1:+.1%})" for each in advice.tried)
        yield TextLine(f"No setting that was estimated shortens an iteration by more than {LEAST_GAIN:.0%}: {tried}")
    elif advice.faults and advice.now_s:
        names = " and ".join(f"fault.{name}" for name in advice.faults)
        yield TextLine(
            f"Without {names}, an iteration takes {seconds(advice.now_s[0])}, by estimate{_measured(advice, measured_s)}"
        )
    for failed in advice.failed:
        yield TextLine(f"Not estimated: {failed}")


def _times(advice: Advice, tried: Tried) -> str:
    words = [
        f"{f'job {job}: ' if job else ''}{seconds(then)} per iteration instead of {seconds(now)}"
        for job, then, now in zip(advice.jobs or ("",), tried.time_s, advice.now_s, strict=True)
    ]
    return f"{', '.join(words)} ({1 / advice.ratio(tried):.3g} times as fast)"


def _measured(advice: Advice, measured_s: float) -> str:
    """What was measured, beside the estimate of the same."""
    if advice.jobs:
        return ""
    off = measured_s / advice.now_s[0] - 1
    said = f"; measured: {seconds(measured_s)}"
    return f"{said}, so that the estimate is {abs(off):.0%} off here" if abs(off) > OFF and not advice.faults else said
