"""Commands that read run folders: `report`, `trace`, `why` and `utilisation`, and `diff`, which compares two runs or
two reproductions."""

from __future__ import annotations

import json
import webbrowser
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape

from gradwire.analysis.packets.line_use import BIN_S
from gradwire.analysis.parameters import describe
from gradwire.analysis.report.text_table import TextTable
from gradwire.analysis.run_difference import (
    IDENTITY,
    ClaimDifference,
    Gate,
    PointDifference,
    RunDifference,
    RunFacts,
    apart,
    claim_differences,
    differences,
)
from gradwire.analysis.timeline.kineto_trace import write_kineto
from gradwire.cli import terminal
from gradwire.cli.run_explanation import explain, warn_if_invalid
from gradwire.cli.run_timeline import make_timeline
from gradwire.csv_files import read_csv
from gradwire.faults import InputFault, MachineFault
from gradwire.files import as_one_set
from gradwire.inside.point_protocol import TASK_FILE
from gradwire.runs.judged import verdict_of
from gradwire.runs.launch.place import (
    REPORT_FILE,
    refuse_others,
    refuse_run_folder,
    refuse_unusable,
    refuse_unusable_file,
    writing,
)
from gradwire.runs.ran_programs import find_run
from gradwire.runs.stored.explanation import write_port_use
from gradwire.runs.stored.provenance import provenance
from gradwire.runs.stored.run_files import fitting, reading
from gradwire.runs.stored.run_folder import (
    RUNS,
    SCENARIO_FILE,
    chosen_iteration,
    named_run,
    run_folder,
    runs_of,
    stored_plans,
    stored_scenario,
)
from gradwire.runs.stored.settings_in_words import exact_settings
from gradwire.runs.stored.stored_run import StoredRun
from gradwire.runs.stored.symbolic_links import refuse_links
from gradwire.runs.works import judge_folder, judge_stored, work_of_scenario
from gradwire.workloads.traces.formats.chakra_writing import write_chakra

CLAIMS_FILE = "claims.csv"


def report(run: Path, out: Path | None, *, open_it: bool = False) -> None:
    """`gradwire report`."""
    folder = run_folder(run)
    refuse_unusable(folder) if out is None or _is_same(out, folder) else refuse_others(out, REPORT_FILE)
    scenario = stored_scenario(folder)
    work = work_of_scenario(scenario)
    runs = work.compared(judge_folder(folder, scenario.points), terminal.screen())
    with writing(out or folder), as_one_set(out or folder):
        shown = work.write_report(scenario, runs, folder, out or folder)
    terminal.show_report(shown, out or folder)
    if open_it and not webbrowser.open((out or folder).joinpath("report.html").absolute().as_uri()):
        raise MachineFault("--open: no browser was found; open report.html yourself")


def _is_same(one: Path, other: Path) -> bool:
    return one.exists() and one.samefile(other)


def trace(run: Path, point: str, iteration: int | None, out: Path | None) -> None:
    """`gradwire trace`."""
    if out:
        refuse_unusable_file(out)
    found = find_run(run, point, iteration)
    timeline = make_timeline(found, iteration)
    path = out or found.folder / timeline.file_name
    refuse_unusable_file(path)  # now that it is known what was read
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        timeline.write(path)
    shown = f"{escape(timeline.what)}: {len(timeline.events):,} events"
    terminal.console.print(shown, highlight=False)
    terminal.name_files({"trace, to be opened at https://ui.perfetto.dev": path})


def trace_of_ranks(
    run: Path, point: str, iteration: int | None, out: Path | None, chakra: Path | None, kineto: Path | None
) -> None:
    """`gradwire trace --chakra` and `--kineto`, or both."""
    if out:
        raise InputFault("--out: is for the timeline; --chakra and --kineto name the folders of theirs")
    if chakra is not None and chakra == kineto:
        raise InputFault(
            f"--kineto {kineto}: is the folder of --chakra; `gradwire import` reads one format from a folder"
        )
    for option, folder in {"--chakra": chakra, "--kineto": kineto}.items():
        if folder is not None:
            refuse_run_folder(folder, option)
    stored = named_run(run, point)
    plan, log = stored.plan(), stored.log()
    with fitting(stored.folder):
        chosen = chosen_iteration(iteration, stored.label, plan, log, stored.record())
    named = {}
    if chakra is not None:
        with writing(chakra), as_one_set(chakra), fitting(stored.folder):
            write_chakra(chakra, plan, log, chosen)
        named["Chakra trace"] = chakra
    if kineto is not None:
        with writing(kineto), as_one_set(kineto), fitting(stored.folder):
            write_kineto(kineto, plan, log, chosen, f"gradwire, iteration {chosen} of {stored.label}")
        named["profiles"] = kineto
    shown = f"iteration {chosen} of {escape(stored.label)}: {len(plan.rank_role)} ranks"
    terminal.console.print(shown, highlight=False)
    terminal.name_files(named)


def why(run: Path, point: str, iteration: int | None, *, every: bool) -> None:
    """`gradwire why`."""
    terminal.show(*explain(find_run(run, point, iteration), iteration, every=every))


def utilisation(run: Path, point: str, port: str, bin_s: float | None) -> None:
    """`gradwire utilisation`."""
    stored = named_run(run, point)
    with writing(stored.folder):
        used = write_port_use(stored, port, bin_s or BIN_S)
    terminal.show(*warn_if_invalid(verdict_of(stored)), used.table)
    terminal.name_files({"chart": used.chart})


def diff(first: Path, second: Path, gates: Sequence[str], *, every: bool, as_json: bool) -> None:
    """`gradwire diff`. Raises InputFault for a folder that is not a run, and for a text that is not a gate."""
    wanted = [Gate.parse(text) for text in gates]
    one, other = _place(first), _place(second)
    if (one / CLAIMS_FILE).exists() != (other / CLAIMS_FILE).exists():
        raise InputFault(f"{one} and {other}: one is a reproduction and the other a run; give two of a kind")
    claims = _claims(one, other) if (one / CLAIMS_FILE).exists() else []
    facts = {name: (facts_of(a), facts_of(b)) for name, (a, b) in _runs(one, other).items()}
    by_run = {name: differences(*both) for name, both in facts.items()}
    if not any(difference.points for difference in by_run.values()):
        raise InputFault(_nothing_in_common(one, other, facts))
    failures = [line for difference_of_run in by_run.values() for line in _failures(difference_of_run, wanted)]
    if as_json:
        print(json.dumps(_as_json(by_run, claims, failures), indent=1, default=str))
    else:
        for name, difference in by_run.items():
            _show(name, difference, every=every)
        if (one / CLAIMS_FILE).exists():
            _show_claims(claims)
        for line in failures:
            terminal.errors.print(f"[red]fails[/red]: {escape(line)}", highlight=False)
    if failures:
        raise typer.Exit(1)


def _nothing_in_common(
    one: Path, other: Path, facts: Mapping[str, tuple[Sequence[RunFacts], Sequence[RunFacts]]]
) -> str:
    """Why there is nothing to compare."""
    if not facts:
        return f"{one} and {other}: have no run of the same name, so there is nothing to compare"
    found = "; ".join(line for both in facts.values() for line in apart(*both))
    return f"{one} and {other}: have no point in common, so there is nothing to compare{f' ({found})' if found else ''}"


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
    """Facts of each point of a run folder that are compared. Raises InputFault for a folder that cannot be read."""
    scenario = stored_plans(folder)
    starts = provenance(folder).starts
    origin = {"kernel": starts[-1].kernel, "gradwire": _version(starts[-1])} if starts else {}
    facts = []
    for point, stored in zip(scenario.points, runs_of(folder, scenario.points), strict=True):
        judged = judge_stored(stored, point)
        completion = stored.completion()
        facts.append(
            RunFacts(
                judged.result,
                judged.fabric,
                _settings(stored),
                origin,
                completion.key if completion else "",
                exact_settings(point.section),
            )
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
            rows.append(read_csv(folder / CLAIMS_FILE))
            if missing := next((name for row in rows[-1] for name in IDENTITY if name not in row), ""):
                raise ValueError(f"has no column {missing}")
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
    if changed:
        headers = ("point", "time (s)", "then (s)", "change", "because of")
        table = TextTable(name, headers, tuple(map(_row, changed)), 1, ("",) * len(changed))
        terminal.show(table)
    same = len(difference.points) - sum(point.change() != 0 for point in difference.points)
    terminal.console.print(f"{same} of {len(difference.points)} points took the same time", highlight=False)
    for parameters, where in (
        *((parameters, "first") for parameters in difference.only_in_first),
        *((parameters, "second") for parameters in difference.only_in_second),
    ):
        terminal.console.print(f"only in the {where} run: {describe(parameters)}", markup=False, highlight=False)


def _row(point: PointDifference) -> tuple[str, ...]:
    times = [f"{side.iteration_time_s:.6g}" if side.valid else "invalid" for side in (point.first, point.second)]
    change = f"{point.change():+.3%}" if point.comparable else ""
    return describe(point.parameters), *times, change, "; ".join(point.causes) or "nothing"


def _show_claims(claims: Sequence[ClaimDifference]) -> None:
    if not claims:
        terminal.console.print("all claims came out the same")
        return
    rows = tuple(
        (f"{each.scenario}/{each.claim}", each.first, each.second, each.first_outcome, each.second_outcome)
        for each in claims
    )
    headers = ("claim", "measured", "then", "outcome", "outcome then")
    terminal.show(TextTable("Claims", headers, rows, len(headers), ("",) * len(rows)))


def _as_json(
    differences_of_runs: Mapping[str, RunDifference], claims: Sequence[ClaimDifference], failures: Sequence[str]
) -> dict[str, object]:
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
