"""Runs what the papers' scenarios need: every point once, whichever scenarios share it, and no point that the store
has.

What was measured, what was only compiled, and facts of the models go to reproduction/scoring as evidence.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from gradwire import PACKAGE
from gradwire.analysis.point_frames import write_points_csv
from gradwire.analysis.points import PointResult
from gradwire.analysis.report.text_table import Part
from gradwire.datatypes.plan import Plan
from gradwire.faults import InputFault
from gradwire.runs.executing.executor import Executor
from gradwire.runs.judged import JudgedRun
from gradwire.runs.planned import virtual_clock
from gradwire.runs.stored.run_folder import folder_name, write_run_folder
from gradwire.runs.stored.symbolic_links import POINTS_FOLDER, refuse_links, store_folder
from gradwire.scenario.loading import Point, Scenario, load_scenario
from gradwire.scenario.resolution.compilation import compile_resolved
from gradwire.vm.code_digest import plan_digest, run_digest
from gradwire.vm.kernel import cached_kernel
from gradwire.vm.machines import Clock
from reproduction.measuring import from_critical_path
from reproduction.pages.files import write_pages
from reproduction.pages.report import terminal, write_report
from reproduction.pages.reproduced import Facts, Reproduced, reproduced_paper
from reproduction.pages.rows import row_of, write_rows
from reproduction.scoring.evidence import ModelFacts, NoEvidence, PointEvidence, Points
from reproduction.scoring.reference import Paper, ScenarioReference, choose_scenarios, load_papers
from reproduction.scoring.score import Evaluated, evaluate, load_bindings
from reproduction.stored_points import Progress, StoredPoints

SCENARIOS = PACKAGE / "scenarios"
STORE = store_folder()


@dataclass
class Gathered:
    """What became of every point."""

    #: Points by the name of their scenario file.
    by_run: dict[str, list[PointEvidence]] = field(default_factory=dict)
    #: Label and reason of each point whose run is not a result.
    failed: list[tuple[str, str]] = field(default_factory=list)
    #: Folders of the points that ran now; the others had run before.
    ran: set[Path] = field(default_factory=set)

    def points(self, scenario: ScenarioReference, only: Mapping[str, str | int | float] | None = None) -> Points:
        """The evidence of a scenario; `only` the points with these parameters."""
        points = [point for name in (*scenario.runs, *scenario.plans) for point in self.by_run[name]]
        return Points(points).only(**(only or {}))


class Reproduction:
    """The runs that scenarios need; `files` has every scenario file by its name.

    quick: of scenarios with `quick_only`, take only the points with these parameters. Raises InputFault for a wrong
    scenario file.
    """

    def __init__(
        self, scenarios: Sequence[ScenarioReference], store_folder: Path = STORE, *, quick: bool = False
    ) -> None:
        self._root = store_folder
        self._stored = StoredPoints(store_folder)
        self._clocks: dict[str, Clock] = {}
        self.files: dict[str, Scenario] = {}
        self._compiled: dict[str, list[Point]] = {}
        self._run: dict[str, list[Point]] = {}
        for scenario in scenarios:
            only = scenario.quick_only if quick else {}
            for names, needed in ((scenario.runs, self._run), (scenario.plans, self._compiled)):
                for name in names:
                    known = needed.setdefault(name, [])
                    known += [point for point in self._points(name, only) if point not in known]
        self._tasks: dict[str, list[Point]] = {}
        for points in self._run.values():
            for point in points:
                self._tasks.setdefault(self._task(point), []).append(point)

    @property
    def points(self) -> int:
        """Number of points to measure, each counted once."""
        return len(self._tasks)

    def _points(self, name: str, only: Mapping[str, str | int | float]) -> list[Point]:
        loaded = self.files.setdefault(name, load_scenario(SCENARIOS / f"{name}.toml"))
        if name not in self._clocks:
            self._clocks[name] = virtual_clock(loaded.points)
        named = [replace(point, parameters={"run": name, **point.parameters}) for point in loaded.points]
        wanted = {key: str(value) for key, value in only.items()}
        return [p for p in named if all(p.parameters.get(key) == value for key, value in wanted.items())]

    def gather(self, executor: Executor, watcher: Progress) -> Gathered:
        """Runs what the store lacks, after a trial of the machines, and returns everything.

        On Ctrl-C, what is complete is kept and KeyboardInterrupt is raised.
        """
        tasks = {name: (point, self._clocks[point.parameters["run"]]) for name, (point, *_) in self._tasks.items()}
        return self._gathered(self._stored.measure(tasks, executor, watcher))

    def _task(self, point: Point) -> str:
        """A name for what has to be measured, which points have in common that several scenario files share."""
        return f"{self._clocks[point.parameters['run']].scale}/{point.section.model_dump_json()}"

    def _gathered(self, done: Mapping[str, JudgedRun]) -> Gathered:
        gathered = Gathered(ran=self._stored.ran)
        for name, points in self._run.items():
            gathered.by_run[name] = [_evidence(point, done[self._task(point)]) for point in points]
        for section, users in self._tasks.items():
            if not done[section].result.valid:
                label = " ".join(users[0].parameters.values())
                gathered.failed.append((label, done[section].result.verdict))
        for name, points in self._compiled.items():
            known = gathered.by_run.setdefault(name, [])
            have = {json.dumps(dict(point.parameters)) for point in known}
            known += [_compiled_evidence(point) for point in points if json.dumps(point.parameters) not in have]
        return gathered

    def write_run_folders(self, gathered: Gathered, out: Path) -> None:
        """Makes a run folder for each scenario file, with links into the store,
        for `gradwire report` and others that read runs."""
        for name, points in self._run.items():
            folder = out / name
            refuse_links(folder, self._root)
            (folder / POINTS_FOLDER).mkdir(parents=True, exist_ok=True)
            for link in filter(Path.is_symlink, (folder / POINTS_FOLDER).iterdir()):
                link.unlink()
            write_run_folder(folder, self.files[name].document, self._clocks[name])
            rows: list[PointResult] = []
            for point, stored in zip(points, gathered.by_run[name], strict=False):
                assert stored.result is not None
                parameters = {key: value for key, value in stored.result.parameters.items() if key != "run"}
                rows.append(replace(stored.result, parameters=parameters))
                link = folder / POINTS_FOLDER / folder_name(replace(point, parameters=parameters))
                # `gradwire run` may have put a folder there.
                if stored.folder is not None and not link.exists():
                    link.symlink_to(stored.folder.absolute(), target_is_directory=True)
            write_points_csv(folder / "points.csv", rows)


def _evidence(point: Point, judged: JudgedRun) -> PointEvidence:
    """A measured point as evidence. A run that did not come to its end has only its row, which says why."""
    result = replace(judged.result, parameters=point.parameters)
    stored = judged.stored

    def absent() -> NoReturn:
        raise NoEvidence(f"{' '.join(point.parameters.values())}: {result.verdict}")

    plan, log, record = (stored.plan, stored.log, stored.record) if judged.ended else (absent, absent, absent)
    return PointEvidence(point.parameters, result, judged.fabric, model_facts(point), plan, log, record, judged.folder)


def _compiled_evidence(point: Point) -> PointEvidence:
    """A point that is not run, as evidence: its plan is compiled when it is asked for."""

    def plan() -> Plan:
        return next(iter(compile_resolved(point.resolved).plans.values()))

    def absent() -> NoReturn:
        raise NoEvidence(f"{' '.join(point.parameters.values())}: was only compiled, not run")

    return PointEvidence(point.parameters, None, point.resolved.fabric, model_facts(point), plan, absent, absent)


def model_facts(point: Point) -> ModelFacts:
    """What a point computes with."""
    job = point.resolved.job
    profile = job.profile
    return ModelFacts(
        name=profile.name,
        batch=job.batch,
        layer_names=tuple(layer.name for layer in profile.layers),
        layer_kinds=tuple(layer.kind.value for layer in profile.layers),
        flops=tuple(layer.flops for layer in profile.layers),
        forward_s=job.compute.forward_s,
        backward_s=job.compute.backward_s,
        tensor_names=tuple(tensor.name for tensor in profile.tensors),
        tensor_layer=profile.tensor_layer,
        tensor_parameters=tuple(tensor.parameters for tensor in profile.tensors),
        compute_source=job.compute.source,
        fitted_on=job.compute.fitted_on,
    )


def wanted_scenarios(names: Sequence[str], *, quick: bool) -> list[tuple[Paper, ScenarioReference]]:
    """The scenarios that names of papers and scenarios mean, with `quick` only
    the quick ones. Raises InputFault if none is left."""
    wanted = [
        (paper, scenario) for paper, scenario in choose_scenarios(load_papers(), names) if scenario.quick or not quick
    ]
    if not wanted:
        raise InputFault(f"{', '.join(names) or 'no paper'}: has no scenario for --quick")
    return wanted


def judge_claims(
    wanted: Sequence[tuple[Paper, ScenarioReference]], gathered: Gathered, *, quick: bool
) -> list[Evaluated]:
    """Evaluates every claim of the scenarios. Raises InternalFault for one that nothing measures."""
    load_bindings()
    evaluated = []
    for paper, scenario in wanted:
        only = scenario.quick_only if quick else {}
        points = gathered.points(scenario, only)
        evaluated.append(evaluate(paper, scenario, points, explain=from_critical_path, only=only))
    return evaluated


def reproduced_papers(evaluated: Sequence[Evaluated], gathered: Gathered) -> list[Reproduced]:
    """The papers of evaluated scenarios, with their figures and facts."""
    by_paper: dict[str, list[Evaluated]] = {}
    for judged in evaluated:
        by_paper.setdefault(judged.paper.paper, []).append(judged)
    return [reproduced_paper(judged[0].paper, _facts(judged, gathered), judged) for judged in by_paper.values()]


def write_reproduction(folder: Path, papers: Sequence[Reproduced]) -> list[Part]:
    """Writes claims.csv, report.html and the papers' pages into `folder`; returns what a terminal shows."""
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder / "claims.csv", [row_of(result) for paper in papers for result in paper.results])
    write_report(folder / "report.html", papers)
    write_pages(folder, papers)
    return terminal(papers)


def _facts(evaluated: Sequence[Evaluated], gathered: Gathered) -> Facts:
    """Of a paper's points, each counted once."""
    measured = {
        point.folder: point.result.wall_s
        for judged in evaluated
        for name in judged.scenario.runs
        for point in gathered.by_run[name]
        if point.result is not None and point.folder is not None
    }
    runs = {name for judged in evaluated for name in judged.scenario.runs}
    kernel = cached_kernel()
    packages = ("gradwire", "numpy", "mininet", "os-ken")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    return Facts(
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        versions=f"{versions}, Python {platform.python_version()}",
        kernel=kernel.name if kernel else "none",
        code=f"{plan_digest()[:8]}-{run_digest()[:8]}",
        points=len(measured),
        points_s=round(sum(measured.values()), 1),
        failed={label: reason for label, reason in gathered.failed if label.split()[0] in runs},
    )
