"""A run folder of programs as an object: what each program reported, as pandas DataFrames."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Never

import pandas as pd

from gradwire.analysis.point_frames import INDEX
from gradwire.analysis.program_results import ProgramResult, figures_frame, points_frame
from gradwire.analysis.report.program_report import conclusion
from gradwire.api.run import Run
from gradwire.faults import InputFault
from gradwire.runs.launch.out_paths import writing
from gradwire.runs.program_points.reporting import judge_stored_programs, report_programs
from gradwire.runs.stored.point_folders import folder_name
from gradwire.runs.stored.run_folder import stored_programs
from gradwire.scenario.program_scenarios import ProgramScenario


class ProgramRun(Run):
    """A run folder of programs. It has points, figures and verdicts; what is of a strategy's plan raises InputFault."""

    def __init__(self, folder: Path, results: Sequence[ProgramResult] | None = None) -> None:
        super().__init__(folder)
        if results is not None:
            self._results = list(results)

    @cached_property
    def _results(self) -> list[ProgramResult]:
        return judge_stored_programs(self._programs, self.folder)

    @cached_property
    def _programs(self) -> ProgramScenario:
        return stored_programs(self.folder)

    @property
    def title(self) -> str:
        """What the scenario is called."""
        return self._programs.title

    @property
    def valid(self) -> bool:
        """Whether every point's verdict is valid. Figures of an invalid point are not results."""
        return all(result.valid for result in self._results)

    @property
    def conclusion(self) -> str:
        """How many points are valid, in a sentence."""
        return conclusion(self._results)

    @cached_property
    def _points(self) -> pd.DataFrame:
        frame = points_frame(self._results)
        return frame.assign(valid=[result.valid for result in self._results]).set_index(
            pd.Index(self._names, name=INDEX)
        )

    @cached_property
    def _figures(self) -> pd.DataFrame:
        return figures_frame(self._results)

    @property
    def points(self) -> pd.DataFrame:
        """One row per point, indexed by its folder's name: parameters, `virtual_s`, `wall_s`, `memory_bytes`, `verdict` and `valid`.

        Warns if a point is invalid.
        """
        self._warn_of_invalid()
        return self._points

    @property
    def figures(self) -> pd.DataFrame:
        """One row per row that a program reported: the point's parameters, `program`, `host`, its figures, and the point's `verdict`.

        Warns if a point is invalid, whose figures are not results.
        """
        self._warn_of_invalid()
        return self._figures

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """One row per point and check: `point`, `check`, `value`, `limit`, `meaning` (of a failure), `passed`."""
        rows = [
            (name, check.name, check.value, check.limit, check.meaning, check.ok)
            for name, result in zip(self._names, self._results, strict=True)
            for check in result.verdict.checks
        ]
        frame = pd.DataFrame(rows, columns=[INDEX, "check", "value", "limit", "meaning", "passed"])
        return frame.astype({INDEX: "category", "check": "category", "passed": "bool"})

    def report(self) -> Path:
        """Writes the report of the run again, with its chart, points.csv and figures.csv, and returns the path of report.html."""
        with writing(self.folder):
            report_programs(self._programs, self._results, self.folder)
        return self.folder / "report.html"

    @property
    def _names(self) -> list[str]:
        return [folder_name(point) for point in self._programs.points]

    @property
    def _invalid(self) -> list[tuple[str, str]]:
        found = zip(self._names, self._results, strict=True)
        return [(name, result.verdict.summary) for name, result in found if not result.valid]

    @property
    def _scenario(self) -> Never:
        raise InputFault(
            f"{self.folder}: its runs are of programs, which have no plan: they have points, figures, verdicts and a report"
        )

    _judged = _scenario
    _compared = _scenario

    def _chosen(self, *_: object) -> Never:
        self._scenario  # noqa: B018 (it raises)
        raise AssertionError

    def _repr_html_(self) -> str:
        """The conclusion and the table of points, for notebooks."""
        return f"<p><b>{escape(self.title)}</b></p><p>{escape(self.conclusion)}</p>{self._points.to_html()}"
