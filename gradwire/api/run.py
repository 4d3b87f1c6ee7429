"""A run folder as an object: its tables as pandas DataFrames, and its figures as matplotlib axes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from matplotlib.axes import Axes

from gradwire.analysis.figure_frames import frame_of_figures
from gradwire.analysis.iterations import iteration_ends_ns
from gradwire.analysis.packets.line_use import BIN_S
from gradwire.analysis.parameters import Value, fits
from gradwire.analysis.point_frames import INDEX
from gradwire.analysis.points import PointResult, pool_seeds
from gradwire.analysis.report.charts import Labels
from gradwire.analysis.report.conclusion import ranked_by_setting
from gradwire.analysis.report.finding_table import findings_frame
from gradwire.analysis.report.panels import draw_metric
from gradwire.analysis.report.utilisation import draw_utilisation
from gradwire.analysis.run_frames import logged_frame, parts_frame, ports_frame, ranking_frame, segments_frame
from gradwire.analysis.timeline.critical_path import CriticalPath
from gradwire.analysis.timeline.tracks import draw_timeline
from gradwire.api.drawing import drawing_on
from gradwire.api.grid import grid
from gradwire.faults import InputFault
from gradwire.runs.advice import Advice, advice_of
from gradwire.runs.comparing.whole import ranked_rows
from gradwire.runs.judged import ITERATION_COLUMNS, JudgedRun, by_job, iteration_rows, verdict_of
from gradwire.runs.launch.place import writing
from gradwire.runs.run_findings import findings_of_runs
from gradwire.runs.screen import Silent
from gradwire.runs.stored.explanation import captured_use, path_of
from gradwire.runs.stored.run_files import fitting
from gradwire.runs.stored.run_folder import chosen_iteration, named_run, stored_scenario
from gradwire.runs.stored.stored_run import StoredRun
from gradwire.runs.work import Work
from gradwire.runs.works import judge_folder, work_of_scenario
from gradwire.scenario.contenders import FAMILIES, PARTIAL, is_random
from gradwire.scenario.program_scenarios import AnyScenario, has_plans, of_plans

if TYPE_CHECKING:
    import xarray

SILENT = Silent()
"""Screen of an object that is asked for a table: it reports no progress."""


class InvalidPointWarning(UserWarning):
    """Numbers of a point were asked for whose verdict is not valid: they are not results."""


class Run:
    """A run folder. Everything in it is read, and judged with today's checks, when it is first asked for.

    Where a method takes a point, give its folder's name or a unique part of it, or its parameters as keywords:
    `run.ops("vgg19_p3")`, `run.ops(strategy="p3", rate="10gbit")`; nothing, if the run has a single point. All of them
    raise InputFault for a choice that no point fits, or several, and for a point that did not come to its end.
    """

    def __init__(
        self, folder: Path, judged: Sequence[JudgedRun[Any, Any]] | None = None, scenario: AnyScenario | None = None
    ) -> None:
        #: The run's folder.
        self.folder = folder
        if judged is not None:
            self._all = list(judged)
        if scenario is not None:
            self._scenario = scenario

    @cached_property
    def _scenario(self) -> AnyScenario:
        return stored_scenario(self.folder)

    @cached_property
    def _work(self) -> Work[Any, Any, Any]:
        return work_of_scenario(self._scenario)

    @cached_property
    def _all(self) -> list[JudgedRun[Any, Any]]:
        """The points, of any work."""
        return judge_folder(self.folder, self._scenario.points)

    @cached_property
    def _compared(self) -> Sequence[JudgedRun[Any, Any]]:
        """With how far they are from an ideal network, which takes a moment the first time."""
        return self._work.compared(self._all, SILENT)

    @property
    def _judged(self) -> list[JudgedRun]:
        """The points, which have plans. Raises InputFault for points of programs."""
        of_plans(
            self._scenario,
            f"{self.folder}: its runs are of programs, which have no plan: they have points, figures, verdicts and a "
            "report",
        )
        return self._all

    @property
    def _rows(self) -> list[PointResult]:
        return [judged.result for judged in self._judged]

    @property
    def title(self) -> str:
        """Title of the scenario."""
        return self._scenario.title

    @property
    def valid(self) -> bool:
        """Whether every point's verdict is valid. Numbers of an invalid point are not results."""
        return all(judged.valid for judged in self._all)

    @property
    def conclusion(self) -> str:
        """The conclusion of the run in a sentence or two, with which its report begins."""
        return self._work.conclusion(self._scenario, self._compared, self.folder)

    @property
    def findings(self) -> pd.DataFrame:
        """The findings that the conclusion tells: one row per compared value, as in findings.csv.

        Columns: `finding` ("best" value of a choice, "effect" of one of several choices, "dependence" on a condition,
        "growth" with workers or batches, share of "computation", "fault", "requests", "single", "shared" with other
        jobs, "note"), `job`, `setting` (everything else that varies), `value`, its measures, `ratio` with the ends of
        its 95 % interval over seeds, `outcome`, and `sentence`. The ratio is a time over that of the best choice, or
        of a condition's first value; of workers and batches it is of throughputs. Raises InputFault for a run of
        programs.
        """
        scenario = of_plans(self._scenario, f"{self.folder}: its runs are of programs: see `figures`")
        found = findings_of_runs(scenario, by_job(self._compared), self.folder)
        return findings_frame(found, self._labels)

    @property
    def points(self) -> pd.DataFrame:
        """One row per point, indexed by its folder's name: its parameters, its results, `valid` and `verdict`.

        Words such as strategies and models are categories, and rates have another column with their number
        (`rate_bps`). A column's unit is in its name. Warns if a point is invalid, whose numbers are not results.
        """
        self._warn_of_invalid()
        return self._points

    @cached_property
    def _points(self) -> pd.DataFrame:
        return self._work.points_frame(self._compared)

    def to_xarray(self) -> xarray.Dataset:
        """The points as an xarray Dataset: each result and `valid` as an array, with a dimension for each parameter that
        varies, and units as attributes. Needs the extra `gradwire[xarray]`.

        Where no point has a combination of parameters, numbers are NaN and `valid` is False. Warns if a point is
        invalid. Raises InputFault for a run of programs, and MachineFault without xarray.
        """
        of_plans(self._scenario, f"{self.folder}: its runs are of programs, whose points are not a grid: see `figures`")
        self._warn_of_invalid()
        return grid(self._points, self.title)

    @property
    def iterations(self) -> pd.DataFrame:
        """One row per point and iteration: the point and its parameters, `iteration`, `warmup`, `iteration_time_s`,
        `valid`."""
        self._warn_of_invalid()
        return self._iterations

    @cached_property
    def _iterations(self) -> pd.DataFrame:
        points = self._points
        results = list(points.columns[points.columns.get_loc("iteration_time_s") :])
        parameters = points.drop(columns=results)
        iterations = [(*row, judged.folder.name) for judged in self._judged for row in iteration_rows(judged)]
        rows = pd.DataFrame(iterations, columns=[*ITERATION_COLUMNS, INDEX])
        rows = rows.join(parameters.assign(valid=points["valid"]), on=INDEX)
        rows[INDEX] = pd.Categorical(rows[INDEX], categories=self._names)
        return rows[[INDEX, *parameters.columns, "iteration", "warmup", "iteration_time_s", "valid"]]

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """One row per point and check: `point`, `check`, `value`, `limit`, `meaning` (of a failure), `passed`."""
        rows = [
            (judged.folder.name, check.name, check.value, check.limit, check.meaning, check.ok)
            for judged in self._all
            for check in judged.verdict.checks
        ]
        frame = pd.DataFrame(rows, columns=[INDEX, "check", "value", "limit", "meaning", "passed"])
        return frame.astype({INDEX: "category", "check": "category", "passed": "bool"})

    @property
    def figures(self) -> pd.DataFrame:
        """One row per row that a program reported: the point's parameters, `program`, `host`, its figures, and the
        point's `verdict`.

        Of programs alone, and of those that ran together with a strategy. Warns if a point is invalid, whose figures
        are not results. Raises InputFault for a run without programs.
        """
        if not any(point.programs for point in self._scenario.points):
            raise InputFault(f"{self.folder}: its runs are of strategies; `points` and `iterations` are their results")
        self._warn_of_invalid()
        return self._figures

    @cached_property
    def _figures(self) -> pd.DataFrame:
        return frame_of_figures(
            [(judged.result.parameters, judged.figures, judged.verdict.summary) for judged in self._all]
        )

    def ops(self, point: str = "", **where: Value) -> pd.DataFrame:
        """Returns a point's ops and their times: one row per op and iteration, from the plan and the log.

        Columns: iteration, warmup, op (its number in the plan), kind, rank, role, host, peer, receivers, tensor,
        chunk, layer, size_bytes, traffic_class, crosses_network, duration_s, due_s, start_s and end_s (docs/python.md
        says what each means).
        """
        stored = self._chosen(point, where)
        with fitting(stored.folder):
            return logged_frame(stored.plan(), stored.log(), stored.record().warmup)

    def ports(self, point: str = "", **where: Value) -> pd.DataFrame:
        """Returns what every port of a point's network sent, one row per port and priority band.

        Columns: port, band, bytes_sent, packets_sent, drops, rate_bps, utilisation (the band's mean share of the line
        rate).
        """
        stored = self._chosen(point, where)
        with fitting(stored.folder):
            return ports_frame(stored.plan(), stored.built_fabric(), stored.log(), stored.record())

    def why(self, point: str = "", *, iteration: int | None = None, **where: Value) -> Why:
        """Explains where an iteration's time went, by its critical path; by default the slowest measured one."""
        stored = self._chosen(point, where)
        path = path_of(stored, iteration)
        with fitting(stored.folder):
            spent_s = path.duration_ns / 1e9
            frames = parts_frame(path), segments_frame(path)
            return Why(stored.label, path.iteration, spent_s, path.sentence(), *frames, stored, path)

    def compare(self) -> pd.DataFrame:
        """The strategies ranked at each setting of everything else: one row per strategy and setting, the fastest of
        each first.

        `ratio` is the time over the fastest's, and `speedup` the throughput over that of `baseline`, each with the
        ends of its 95 % interval over seeds. `outcome` is what may be said of the ratio: fastest, level (within 1 %),
        slower, or too few seeds. Where a few blocks stood for a whole model, the times are the whole model's
        (docs/quicker-runs.md).
        """
        rows = ranked_rows(self._judged, self.folder)
        return ranking_frame(ranked_by_setting(rows, PARTIAL, self._random, FAMILIES))

    def report(self) -> Path:
        """Writes the report of the run again, with its chart and points.csv, and returns the path of report.html."""
        with writing(self.folder):
            self._work.write_report(self._scenario, self._compared, self.folder, self.folder)
        return self.folder / "report.html"

    def plot(
        self,
        x: str,
        y: str = "iteration_time_s",
        *,
        by: str = "strategy",
        ax: Axes | None = None,
        **where: Value,
    ) -> Axes:
        """Draws a result over a parameter, pooled over seeds, with a series for each value of `by` and 95 % intervals.

        x: a parameter; numbers make lines, words bars. y: iteration_time_s, throughput_per_s or scaling_efficiency.
        ax: where to draw; by default new axes. where: only the points with these parameters. Invalid points are not
        drawn. Raises InputFault for what does not exist, and for points that differ in more than `x` and `by`.
        """
        rows = [row for row in pool_seeds(self._rows) if fits(row.parameters, where)]
        with drawing_on(ax) as axes:
            draw_metric(axes, rows, x, y, by, self._labels)
        return axes

    def timeline(
        self, point: str = "", iteration: int | None = None, *, ax: Axes | None = None, **where: Value
    ) -> Axes:
        """Draws what each rank computes, adds, sends and receives in an iteration, by default the slowest measured
        one."""
        stored = self._chosen(point, where)
        plan, log, record = stored.plan(), stored.log(), stored.record()
        with fitting(stored.folder):
            number = chosen_iteration(iteration, stored.label, plan, log, record)
        with drawing_on(ax, 3 * len(plan.rank_role)) as axes:
            draw_timeline(axes, plan, log, number)
        return axes

    def utilisation(
        self, point: str = "", port: str = "", *, bin_s: float = BIN_S, ax: Axes | None = None, **where: Value
    ) -> Axes:
        """Draws how both directions of a captured port were used over the measured iterations, from its packets.

        port: such as "h1-eth0"; by default the first that was captured, with `set={"run.capture": "h1"}`. Raises
        InputFault if it was not.
        """
        stored = self._chosen(point, where)
        use = captured_use(stored, port, bin_s)
        with fitting(stored.folder):
            edges_ns = iteration_ends_ns(stored.plan(), stored.log(), stored.record().iterations)
        with drawing_on(ax) as axes:
            draw_utilisation(axes, use.used, edges_ns)
        return axes

    @property
    def _names(self) -> list[str]:
        return [judged.folder.name for judged in self._judged]

    @property
    def _random(self) -> list[bool]:
        return [is_random(judged.point.section) for judged in self._judged]

    @property
    def _labels(self) -> Labels:
        return Labels(self._scenario.labels)

    def _chosen(self, point: str, where: dict[str, Value]) -> StoredRun:
        """The run of a point; warns if it is invalid."""
        if point and where:
            raise InputFault(f"point {point!r} and {', '.join(where)}: choose by the one or by the others")
        stored = named_run(self.folder, where or point)
        verdict = verdict_of(stored)
        if not verdict.valid:
            _warn(f"{stored.label}: {verdict.summary}: its numbers are not results")
        return stored

    def _warn_of_invalid(self) -> None:
        for label, summary in self._invalid:
            _warn(f"{label}: {summary.splitlines()[0]}: its numbers are not results")

    @property
    def _invalid(self) -> list[tuple[str, str]]:
        """Invalid points, each with the reason."""
        return [(judged.label, judged.verdict.summary) for judged in self._all if not judged.valid]

    def __repr__(self) -> str:
        """Text for a console."""
        return f"<gradwire.{type(self).__name__} {self.folder}: {self.conclusion}>"

    def _repr_html_(self) -> str:
        """The conclusion and the table of points, for notebooks."""
        table = self._work.points_table(self._scenario, self._compared)
        frame = pd.DataFrame(table.rows, columns=list(table.headers))
        foot = f"<p><small>{escape(table.foot)}</small></p>"
        return f"<p><b>{escape(self.title)}</b></p><p>{escape(self.conclusion)}</p>{frame.to_html(index=False)}{foot}"


class ProgramRun(Run):
    """A run folder of programs. It has points, figures and verdicts; what is of a strategy's plan raises InputFault."""


def run_in(
    folder: Path, judged: Sequence[JudgedRun[Any, Any]] | None = None, scenario: AnyScenario | None = None
) -> Run:
    """The run in a run folder. judged, scenario: contents of the folder that are known already, and so not read
    again."""
    scenario = scenario or stored_scenario(folder)
    kind = Run if has_plans(scenario) else ProgramRun
    return kind(folder, judged, scenario)


def _warn(text: str) -> None:
    """Warns at the line that asked, two calls above the one that warns."""
    warnings.warn(text, InvalidPointWarning, stacklevel=4)


@dataclass(frozen=True)
class Why:
    """The critical path of one iteration."""

    #: The point in a few words.
    label: str
    #: Number of the iteration; 0 is the first, warm-up included.
    iteration: int
    #: Its time.
    duration_s: float
    #: One sentence on where the time went.
    sentence: str
    #: One row per kind of time: part, kind, duration_s, share, meaning.
    parts: pd.DataFrame
    #: The path in order: what, kind, start_s, end_s, duration_s.
    segments: pd.DataFrame
    _stored: StoredRun
    _path: CriticalPath

    @cached_property
    def advice(self) -> Advice:
        """What would shorten iterations, by estimates, which take up to half a minute when this is first asked for: `best` is the setting
        that helps most, or None."""
        return advice_of(self._stored, self._path)

    @property
    def _title(self) -> str:
        return f"{self.label}: iteration {self.iteration}, {self.duration_s:.6f} s"

    @property
    def _shown(self) -> pd.DataFrame:
        """The parts that took time, as text."""
        took = self.parts[self.parts["duration_s"] > 0]
        columns = {
            "part": took["part"],
            "kind": took["kind"],
            "ms": [f"{1e3 * duration_s:.3f}" for duration_s in took["duration_s"]],
            "share": [f"{share:.1%}" for share in took["share"]],
            "meaning": took["meaning"],
        }
        return pd.DataFrame(columns)

    def __str__(self) -> str:
        """Text for `print`."""
        return f"{self._title}\n{self._shown.to_string(index=False)}\n{self.sentence}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        table = self._shown.to_html(index=False)
        return f"<p><b>{escape(self._title)}</b></p>{table}<p>{escape(self.sentence)}</p>"
