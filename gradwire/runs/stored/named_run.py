"""A run of a run folder by the name of its point: what `gradwire why`, `trace` and `utilisation` explain."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gradwire.analysis.iterations import iteration_times_s
from gradwire.analysis.parameters import Where, describe, fits
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import OpLog, PointRecord
from gradwire.faults import InputFault
from gradwire.runs.stored.point_folders import runs_of
from gradwire.runs.stored.run_folder import run_folder, stored_plans
from gradwire.runs.stored.stored_run import NEEDED_FILES, VERDICT_FILE, StoredRun


def named_run(run: Path, wanted: str | Where) -> StoredRun:
    """The run of the point `wanted` in a run folder: its folder's name or a unique part of it, or `key=value,...` as in points.csv.

    A mapping of parameters stands for the latter, and compares numbers as numbers. Raises InputFault for a name of no point or of several,
    with the points that there are, and for a run that did not come to its end.
    """
    run = run_folder(run)
    chosen = _chosen(run, _all_runs(run), wanted)
    _refuse_unfinished(chosen)
    return chosen


def _all_runs(run: Path) -> dict[str, StoredRun]:
    """The runs by their folders' names: those of the scenario's points first, then those of other folders."""
    runs = {stored.folder.name: stored for stored in runs_of(run, stored_plans(run).points)}
    folders = sorted(entry for entry in (run / "points").glob("*") if entry.is_dir())
    return {**runs, **{folder.name: StoredRun(folder) for folder in folders if folder.name not in runs}}


def _chosen(run: Path, runs: Mapping[str, StoredRun], wanted: str | Where) -> StoredRun:
    named = isinstance(wanted, str) and wanted in runs
    names = [str(wanted)] if named else [name for name, stored in runs.items() if _fits(stored, wanted)]
    # A point that was run again may leave a folder that no scenario has: a part of the name means the scenario's.
    names = [name for name in names if runs[name].parameters] or names
    if len(names) == 1:
        return runs[names[0]]
    fault = f"fits {len(names)} points" if names else "fits no point"
    listed = "\n".join(f"  {name}   {_parameters_text(runs[name].parameters)}" for name in (names or runs))
    asked = wanted if isinstance(wanted, str) else describe(wanted)
    raise InputFault(f"point '{asked}' {fault} of {run}; {'it could be' if names else 'there are'}:\n{listed}")


def _fits(stored: StoredRun, wanted: str | Where) -> bool:
    if not isinstance(wanted, str):
        return fits(stored.parameters, wanted)
    if "=" not in wanted:
        return wanted in stored.folder.name
    pairs = [part.partition("=") for part in wanted.split(",")]
    return all(stored.parameters.get(key.strip()) == value.strip() for key, _, value in pairs)


def _parameters_text(parameters: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in parameters.items() if value)


def _refuse_unfinished(stored: StoredRun) -> None:
    missing = [name for name in NEEDED_FILES if not (stored.folder / name).exists()]
    if not missing:
        return
    if not stored.folder.is_dir():
        raise InputFault(stored.absence)
    judged = (stored.folder / VERDICT_FILE).exists()
    why = f": {stored.last_verdict().summary}" if judged else f" (it has no {missing[0]})"
    raise InputFault(f"{stored.folder}: this point has not come to its end{why}; `gradwire run` completes the folder")


def slowest_iteration(plan: Plan, log: OpLog, record: PointRecord) -> int:
    """Number of the measured iteration that took longest."""
    times_s = iteration_times_s(plan, log, record.iterations)
    return record.warmup + int(times_s[record.warmup :].argmax())


def chosen_iteration(wanted: int | None, label: str, plan: Plan, log: OpLog, record: PointRecord) -> int:
    """The wanted iteration; by default the slowest measured one. Raises InputFault for a number that the run does not have."""
    if wanted is None:
        return slowest_iteration(plan, log, record)
    if not 0 <= wanted < record.iterations:
        raise InputFault(
            f"--iteration {wanted}: {label} has iterations 0 to {record.iterations - 1}, of which {record.warmup} are warm-up"
        )
    return wanted
