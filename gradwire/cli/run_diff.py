"""`gradwire diff`: compares two runs, or two reproductions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer
from rich.table import Table
from rich.text import Text

from gradwire.analysis.parameters import describe
from gradwire.analysis.point_frames import read_texts
from gradwire.analysis.run_difference import (
    ClaimDifference,
    Gate,
    PointDifference,
    RunDifference,
    RunFacts,
    claim_differences,
    differences,
)
from gradwire.cli import terminal
from gradwire.faults import InputFault
from gradwire.runs.point_protocol import TASK_FILE
from gradwire.runs.stored.files import reading
from gradwire.runs.stored.provenance import provenance
from gradwire.runs.stored.run_folder import RUNS, SCENARIO_FILE, run_folder, runs_of, stored_plans
from gradwire.runs.stored.stored_run import StoredRun
from gradwire.runs.stored.symbolic_links import refuse_links
from gradwire.runs.works import judge_stored

CLAIMS_FILE = "claims.csv"


def diff(first: Path, second: Path, gates: Sequence[str], *, every: bool, as_json: bool) -> None:
    """`gradwire diff`. Raises InputFault for what is not a run or not a gate."""
    wanted = [Gate.parse(text) for text in gates]
    one, other = _place(first), _place(second)
    if (one / CLAIMS_FILE).exists() != (other / CLAIMS_FILE).exists():
        raise InputFault(f"{one} and {other}: one is a reproduction and the other a run; give two of a kind")
    claims = _claims(one, other) if (one / CLAIMS_FILE).exists() else []
    by_run = {name: differences(facts_of(a), facts_of(b)) for name, (a, b) in _runs(one, other).items()}
    failures = [line for difference_of_run in by_run.values() for line in _failures(difference_of_run, wanted)]
    if as_json:
        print(json.dumps(_as_json(by_run, claims, failures), indent=1, default=str))
    else:
        for name, difference in by_run.items():
            _show(name, difference, every=every)
        if (one / CLAIMS_FILE).exists():
            _show_claims(claims)
        for line in failures:
            terminal.errors.print(f"[red]fails[/red]: {line}", highlight=False)
    if failures:
        raise typer.Exit(1)


def _place(path: Path) -> Path:
    for folder in (path, RUNS / path):
        if (folder / CLAIMS_FILE).exists():
            refuse_links(folder)
            return folder
    return run_folder(path)


def _runs(one: Path, other: Path) -> dict[str, tuple[Path, Path]]:
    """Run folders to compare, by name: the two themselves, or those of the same name in two reproductions."""
    if (one / SCENARIO_FILE).exists():
        return {"": (one, other)}
    names = sorted(path.parent.name for path in (one / "runs").glob(f"*/{SCENARIO_FILE}"))
    return {name: (one / "runs" / name, other / "runs" / name) for name in names if (other / "runs" / name).exists()}


def facts_of(folder: Path) -> list[RunFacts]:
    """What is compared of each point of a run folder. Raises InputFault for a folder that cannot be read."""
    scenario = stored_plans(folder)
    starts = provenance(folder).starts
    origin = {"kernel": starts[-1].kernel, "gradwire": _version(starts[-1])} if starts else {}
    facts = []
    for point, stored in zip(scenario.points, runs_of(folder, scenario.points), strict=True):
        judged = judge_stored(stored, point)
        completion = stored.completion()
        facts.append(
            RunFacts(judged.result, judged.fabric, _settings(stored), origin, completion.key if completion else "")
        )
    return facts


def _version(start: Any) -> str:
    return f"{start.version} {start.commit}".strip()


def _settings(stored: StoredRun) -> Mapping[str, str]:
    if not (stored.folder / TASK_FILE).exists():
        return {}
    task = stored.task()
    chosen = {
        "iterations": task.iterations,
        "warmup": task.warmup,
        "clock": task.clock,
        "agents per host": task.per_host,
    }
    return {name: str(value) for name, value in {**chosen, **asdict(task.sockets)}.items()}


def _claims(one: Path, other: Path) -> list[ClaimDifference]:
    rows = []
    for folder in (one, other):
        with reading(folder / CLAIMS_FILE):
            rows.append(read_texts(folder / CLAIMS_FILE))
    return claim_differences(*rows)


def _failures(difference: RunDifference, gates: Sequence[Gate]) -> list[str]:
    if not gates:
        return []
    lines = [
        f"{describe(point.parameters)}: {reason}"
        for point in difference.points
        for reason in dict.fromkeys(gate.fails(point) for gate in gates)
        if reason
    ]
    return lines + [f"{describe(parameters)}: is only in the first run" for parameters in difference.only_in_first]


def _show(name: str, difference: RunDifference, *, every: bool) -> None:
    changed = [point for point in difference.points if every or point.change() != 0 or point.causes]
    if name and not changed and not difference.only_in_first and not difference.only_in_second:
        return
    table = Table(title=name or None, box=None, pad_edge=False, header_style="bold", title_justify="left")
    for column in ("point", "time (s)", "then (s)", "change", "because of"):
        table.add_column(column, justify="left" if column in ("point", "because of") else "right", overflow="fold")
    for point in changed:
        table.add_row(*_row(point))
    if changed:
        terminal.console.print(table)
    same = len(difference.points) - sum(point.change() != 0 for point in difference.points)
    terminal.console.print(f"{same} of {len(difference.points)} points took the same time", highlight=False)
    for parameters, where in (
        *((parameters, "first") for parameters in difference.only_in_first),
        *((parameters, "second") for parameters in difference.only_in_second),
    ):
        terminal.console.print(f"only in the {where} run: {describe(parameters)}", markup=False, highlight=False)


def _row(point: PointDifference) -> tuple[Text, ...]:
    times = [f"{side.iteration_time_s:.6g}" if side.valid else "invalid" for side in (point.first, point.second)]
    change = f"{point.change():+.3%}" if point.comparable else ""
    return tuple(map(Text, (describe(point.parameters), *times, change, "; ".join(point.causes) or "nothing")))


def _show_claims(claims: Sequence[ClaimDifference]) -> None:
    if not claims:
        terminal.console.print("all claims came out the same")
        return
    table = Table(title="Claims", box=None, pad_edge=False, header_style="bold", title_justify="left")
    for column in ("claim", "measured", "then", "outcome", "then"):
        table.add_column(column, overflow="fold")
    for difference in claims:
        claim = f"{difference.scenario}/{difference.claim}"
        table.add_row(
            *map(
                Text, (claim, difference.first, difference.second, difference.first_outcome, difference.second_outcome)
            )
        )
    terminal.console.print(table)


def _as_json(
    differences_of_runs: Mapping[str, RunDifference], claims: Sequence[ClaimDifference], failures: Sequence[str]
) -> dict[str, Any]:
    return {
        "runs": [
            {
                "name": name,
                "points": [
                    {
                        "parameters": point.parameters,
                        "first": {"iteration_time_s": point.first.iteration_time_s, "verdict": point.first.verdict},
                        "second": {"iteration_time_s": point.second.iteration_time_s, "verdict": point.second.verdict},
                        "change": point.change() if point.comparable else None,
                        "causes": point.causes,
                    }
                    for point in difference.points
                ],
                "only_in_first": difference.only_in_first,
                "only_in_second": difference.only_in_second,
            }
            for name, difference in differences_of_runs.items()
        ],
        "claims": [asdict(claim) for claim in claims],
        "failures": failures,
    }
