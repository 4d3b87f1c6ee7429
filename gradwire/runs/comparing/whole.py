"""Estimates the time of a whole model from a run with a few of its blocks.

Blocks repeat, and so does the difference between the emulated network and the ideal one. So the time of the whole model
is its time on the ideal network, times the ratio of the two that the run with fewer blocks measured.
docs/large-models.md has the error of this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from gradwire.analysis.bounds import bounds
from gradwire.analysis.points import PointResult
from gradwire.analysis.report.ranking import Ranking, rank
from gradwire.faults import InputFault
from gradwire.files import replacing
from gradwire.inside.point_protocol import write_json
from gradwire.runs.compiling.ideal_times import ideal_times, rule_of
from gradwire.runs.compiling.many_points import side_by_side
from gradwire.runs.judged import JudgedRun
from gradwire.runs.planned import PlannedRun
from gradwire.runs.stored.run_files import read_message, reading
from gradwire.scenario.contenders import FAMILIES, PARTIAL, is_random
from gradwire.scenario.loading import Scenario, origin_named
from gradwire.scenario.resolution.compilation import ResolvedPoint, compile_point
from gradwire.scenario.schema import PointSection
from gradwire.workloads import plan_size
from gradwire.workloads.models.resized import block_count

WHOLE_FILE = "whole.json"
NEARLY = 0.95
"""Share of the most ops that a plan may have from which on all blocks are compiled to be sure, because some layers may
belong to no block."""


class Whole(msgspec.Struct, frozen=True):
    """A point with all blocks of its model, on the ideal network."""

    #: Key of the run with fewer blocks that it belongs to (`PlannedRun.key`).
    key: str
    blocks: int
    iteration_s: float
    bound_s: float
    bound_kind: str
    #: Time that a worker alone computes in an iteration.
    compute_s: float
    #: Samples of all workers.
    samples: int


class _StoredTimes(msgspec.Struct, frozen=True):
    """The content of the file: by names of points' folders."""

    points: dict[str, Whole] = {}


def stands_for_more(section: PointSection) -> bool:
    """Returns whether a point has only some of its model's blocks."""
    return section.model.blocks is not None


def estimate_whole(planned: Sequence[PlannedRun], folder: Path, jobs: int) -> None:
    """Estimates the points of a comparison with all blocks, in up to `jobs` processes, and keeps that in the run
    folder."""
    wanted = [run for run in planned if stands_for_more(run.point.section)]
    if not wanted:
        return
    kept = read_whole(folder)
    missing = [run for run in wanted if run.folder.name not in kept or kept[run.folder.name].key != run.key]
    found = dict(kept)
    found |= zip((run.folder.name for run in missing), side_by_side(_whole, missing, jobs), strict=True)
    with replacing(folder / WHOLE_FILE) as partial:
        write_json(partial, _StoredTimes({run.folder.name: found[run.folder.name] for run in wanted}), indent=1)


def read_whole(folder: Path) -> Mapping[str, Whole]:
    """Reads the times of whole models from a run folder, by the names of points' folders. Raises InputFault for a
    damaged file."""
    path = folder / WHOLE_FILE
    if not path.exists() and not path.is_symlink():
        return {}
    with reading(path, f"remove {path}, and run the same command again"):
        return read_message(path, _StoredTimes).points


def refuse_too_large(section: PointSection, ops: int) -> None:
    """Raises InputFault if the plan of the whole model has too many ops, so that this is reported before any of its
    blocks runs.

    ops: of the plan of the blocks that the section keeps.

    Further blocks add as many ops each. So plans of few blocks tell how many ops all of them have; twice as many are
    compiled only if the model may be too large.
    """
    kept = section.model.blocks
    if kept is None:
        return
    whole = _with_blocks(section, None)
    blocks = block_count(ResolvedPoint(whole).job.profile)
    if ops * blocks <= plan_size.MOST_OPS * kept:
        return
    if 2 * kept < blocks:
        ops += (_ops(_with_blocks(section, 2 * kept)) - ops) * (blocks - kept) // kept
        if ops > plan_size.MOST_OPS:
            raise InputFault(
                f"the plan of all {blocks} blocks has about {ops:,} ops, and may have {plan_size.MOST_OPS:,}: take fewer "
                "workers, or a smaller model"
            )
        if ops < NEARLY * plan_size.MOST_OPS:
            return
    compile_point(whole)


def _with_blocks(section: PointSection, blocks: int | None) -> PointSection:
    return section.model_copy(update={"model": section.model.model_copy(update={"blocks": blocks})})


def _ops(section: PointSection) -> int:
    return max(len(plan.ops) for plan in compile_point(section).plans.values())


def _whole(run: PlannedRun) -> Whole:
    section = run.point.section
    whole = _with_blocks(section, None)
    with origin_named(run.point):
        compiled = compile_point(whole)
    rule = rule_of(compiled.unsent_bytes)
    estimates = {label: ideal_times(plan, compiled.fabric, rule).iteration_s for label, plan in compiled.plans.items()}
    label = min(estimates, key=lambda label: estimates[label])
    plan = compiled.plans[label]
    lower = bounds(plan, compiled.fabric)
    blocks = block_count(ResolvedPoint(whole).job.profile)
    return Whole(run.key, blocks, estimates[label], lower.lower_bound_s, lower.kind, plan.compute_s, plan.samples)


def at_full_size(row: PointResult, whole: Whole) -> PointResult:
    """A row with the values of a run with all blocks; an invalid row is unchanged."""
    if row.fluid_ratio is None:
        return row
    time_s = whole.iteration_s * row.fluid_ratio
    return replace(
        row,
        iteration_time_s=time_s,
        throughput_per_s=whole.samples / time_s,
        scaling_efficiency=whole.compute_s / time_s,
        lower_bound_s=whole.bound_s,
        lower_bound_kind=whole.bound_kind,
        fluid_time_s=whole.iteration_s,
    )


def ranking_of(scenario: Scenario, runs: Sequence[JudgedRun], folder: Path) -> Ranking | None:
    """The ranking of a comparison, by the times of whole models; None for another scenario. Raises InputFault for a
    damaged file."""
    if scenario.chart != "ranking":
        return None
    random = [is_random(run.point.section) for run in runs]
    words = _in_words(runs, read_whole(folder))
    return rank(ranked_rows(runs, folder), FAMILIES, PARTIAL, scenario.left_out, random, scaled=words)


def ranked_rows(runs: Sequence[JudgedRun], folder: Path) -> list[PointResult]:
    """Rows of a run that are ranked, at full size where that was estimated. Raises InputFault for a damaged file."""
    whole = read_whole(folder)
    return [
        at_full_size(run.result, whole[run.folder.name]) if run.folder.name in whole else run.result for run in runs
    ]


def _in_words(runs: Sequence[JudgedRun], whole: Mapping[str, Whole]) -> str:
    """Sentence that says how the times of a ranking follow from measured ones; "" if they are as measured."""
    blocks = {whole[run.folder.name].blocks for run in runs if run.folder.name in whole}
    kept = {run.point.section.model.blocks for run in runs if run.folder.name in whole}
    if not blocks:
        return ""
    without = ", which has none of the faults" if any(run.point.section.fault for run in runs) else ""
    few, many = (" or ".join(map(str, sorted(counts))) for counts in (filter(None, kept), blocks))
    return (
        f"time: of all {many} blocks on the ideal network{without}, times x fluid as measured with {few} (points.csv)."
    )
