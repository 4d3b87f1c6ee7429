"""Traces that others recorded and published, where they lie: GRADWIRE_REAL_TRACES names the folder.

Wanted there, from three repositories: hta_ddp_rank0of2_kineto.json.gz (facebookresearch/HolisticTraceAnalysis,
tests/data/nccl_parser_config), param_resnet50_2gpu_pytorch_et.json.gz (facebookresearch/param, et_replay/tests/inputs)
and chakra_feeder_et.tar.gz (mlcommons/chakra, tests/data).
"""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import numpy as np
import pytest

from gradwire.datatypes.plan import OpKind
from gradwire.workloads.checker import check
from gradwire.workloads.job import Cluster, Costs
from gradwire.workloads.trace_replay.compiler import busiest_s, compile_workload
from gradwire.workloads.trace_replay.replay_strategy import ReplayOptions, routes_of
from gradwire.workloads.traces.record import Reading
from gradwire.workloads.traces.trace_import import Imported
from gradwire.workloads.traces.workload import Kind
from tests.unit.workloads.traces.small_traces import finds, imported, words

FOLDER = os.environ.get("GRADWIRE_REAL_TRACES", "")
pytestmark = pytest.mark.traces
BUCKETS = [2_049_000, 7_875_584, 6_563_840, 6_637_568, 2_431_040]
"""Gradients in each of DDP's buckets of ResNet-50, in the order of their all-reduces."""
PARAMETERS = 25_557_032
"""Of ResNet-50 (torchvision)."""


def kineto() -> Imported:
    return imported(Path(FOLDER) / "hta_ddp_rank0of2_kineto.json.gz")


def execution_trace() -> Imported:
    return imported(Path(FOLDER) / "param_resnet50_2gpu_pytorch_et.json.gz")


def chakra(folder: Path, reading: Reading) -> Imported:
    with tarfile.open(Path(FOLDER) / "chakra_feeder_et.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    (path,) = folder.rglob("*.et")
    return imported(path, reading=reading)


def reduced(outcome: Imported) -> list[int]:
    """Elements of four bytes of rank 0's all-reduces, in order."""
    assert outcome.workload is not None, words(outcome)
    tasks = outcome.workload.tasks
    reductions = (tasks.kind == Kind.ALL_REDUCE) & (tasks.rank == 0)
    values: list[int] = (tasks.size_bytes[reductions] // 4).tolist()
    return values


@pytest.mark.parametrize("outcome", [kineto, execution_trace])
def test_three_steps_of_resnet50_in_ddps_five_buckets(outcome: object) -> None:
    assert callable(outcome)
    assert sum(BUCKETS) == PARAMETERS
    assert reduced(outcome()) == 3 * BUCKETS


def test_a_step_of_the_profile_waits_where_ddp_does() -> None:
    """All five waits are behind the last all-reduce's start, in order; the two broadcasts are waited for before the
    first."""
    outcome = kineto()
    assert outcome.workload is not None
    tasks = outcome.workload.tasks
    of_rank = np.flatnonzero(tasks.rank == 0)
    waits = [
        (task, on)
        for task in of_rank[tasks.kind[of_rank] == Kind.COMPUTE].tolist()
        for on in outcome.workload.dep_task[
            outcome.workload.dep_start[task] : outcome.workload.dep_start[task + 1]
        ].tolist()
        if tasks.kind[on] != Kind.COMPUTE
    ]
    assert len(waits) == 3 * 7
    assert [on for _, on in waits] == sorted(on for _, on in waits)
    assert "waits is believed" not in words(outcome)
    assert finds(outcome, "'wait'", "none", "(6 in all)")
    assert outcome.summary is not None
    assert outcome.summary.compute_s == pytest.approx((0.6668, 0.6668), abs=1e-4)


def test_the_chakra_trace_says_what_it_lacks(tmp_path: Path) -> None:
    refused = chakra(tmp_path, Reading())
    (refusal,) = refused.refusals
    assert "--ranks" in refusal.what
    outcome = chakra(tmp_path, Reading(ranks=2))
    assert reduced(outcome) == BUCKETS
    assert finds(outcome, "comm_size", "bytes", "(7 in all)")
    assert finds(outcome, "without comm_size", "(14 in all)")


def test_their_plans_are_sound_and_carry_every_byte(tmp_path: Path) -> None:
    """A ring of two sends what a rank reduces to each of the two; a broadcast goes once."""
    for outcome in (kineto(), execution_trace(), chakra(tmp_path, Reading(ranks=2))):
        source = outcome.workload
        assert source is not None
        plan = compile_workload(source, Cluster(2), Costs(), routes_of(ReplayOptions()), min(busiest_s(source)), 0)
        check(plan)
        sizes = {
            kind: int(source.tasks.size_bytes[source.tasks.kind == kind].sum())
            for kind in (Kind.ALL_REDUCE, Kind.BROADCAST)
        }
        sent = int(plan.ops.size_bytes[plan.ops.kind == OpKind.SEND].sum())
        assert sent == sizes[Kind.ALL_REDUCE] + sizes[Kind.BROADCAST] // 2
