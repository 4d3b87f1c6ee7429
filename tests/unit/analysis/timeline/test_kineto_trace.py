"""Runs as profiles of torch.profiler: what tools need to read them, and every message and byte again after an import."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradwire.analysis.timeline.kineto_trace import write_kineto
from gradwire.datatypes.plan import OpKind, Plan
from gradwire.faults import InputFault
from gradwire.workloads.job import Cluster
from gradwire.workloads.models.profile import LayerKind
from gradwire.workloads.traces.record import Reading
from gradwire.workloads.traces.trace_import import import_traces
from gradwire.workloads.traces.workload import Kind
from tests.shared.parts import in_order
from tests.shared.simulation import replay
from tests.shared.small_jobs import compiled, job_of, profile_of

LAYERS: list[tuple[LayerKind, list[int]]] = [
    (LayerKind.FC, [300_000]),
    (LayerKind.CONV, [50_000, 7]),
    (LayerKind.FC, [90_000]),
]
STRATEGIES: list[tuple[str, int, dict[str, Any]]] = [
    ("ring", 0, {}),
    ("halving-doubling", 0, {}),
    ("vanilla", 3, {}),
    ("p3", 3, {}),
    ("geryon", 3, {"rule": "coarse", "slice_parameters": 2000}),
]


def plan_of(name: str, servers: int = 0, options: dict[str, Any] | None = None) -> Plan:
    job = job_of(profile_of(LAYERS), Cluster(3 if servers else 4, servers))
    return next(iter(compiled(job, name, options or {}).values()))


def documents(files: list[Path]) -> list[dict[str, Any]]:
    return [json.loads(gzip.decompress(file.read_bytes())) for file in files]


@pytest.mark.parametrize(("name", "servers", "options"), STRATEGIES)
def test_an_import_finds_the_same_messages_and_bytes(
    tmp_path: Path, name: str, servers: int, options: dict[str, Any]
) -> None:
    plan = plan_of(name, servers, options)
    files = write_kineto(tmp_path / "run", plan, replay(plan, 3), 1, "a test")
    assert [file.name for file in files] == [f"rank{rank}.json.gz" for rank in range(len(plan.rank_role))]
    outcome = import_traces(files, "again", Reading(), lambda *_: None)
    told = "\n".join(finding.words for finding in outcome.findings)
    assert outcome.workload is not None, told
    assert "written by gradwire" in told
    tasks, ops = outcome.workload.tasks, plan.ops
    sends, sent = tasks.kind == Kind.SEND, ops.kind == OpKind.SEND
    found = Counter(
        zip(tasks.rank[sends].tolist(), tasks.peer[sends].tolist(), tasks.size_bytes[sends].tolist(), strict=True)
    )
    assert found == Counter(
        zip(ops.rank[sent].tolist(), ops.peer[sent].tolist(), ops.size_bytes[sent].tolist(), strict=True)
    )
    timed = (ops.kind == OpKind.COMPUTE) & (ops.duration_ns > 0)
    kernels_us = sum(
        event["dur"] for each in documents(files) for event in each["traceEvents"] if event["name"].startswith(("forward", "backward"))
    )  # fmt: skip
    assert kernels_us * 1e3 == pytest.approx(ops.duration_ns[timed].sum(), abs=1000 * int(timed.sum()))


def test_tools_find_what_they_need(tmp_path: Path) -> None:
    """See gradwire/analysis/timeline/kineto_trace.py: what HolisticTraceAnalysis reads."""
    plan = plan_of("geryon", 3, {"rule": "coarse", "slice_parameters": 2000})
    files = write_kineto(tmp_path / "run", plan, replay(plan, 3), 2, "a test")
    for rank, (file, document) in enumerate(zip(files, documents(files), strict=True)):
        (match,) = re.findall(r'"rank":\s+(\d+)', gzip.decompress(file.read_bytes()).decode())
        assert int(match) == rank
        assert document["distributedInfo"]["world_size"] == len(plan.rank_role)
        events = document["traceEvents"]
        spans = [each for each in events if each["ph"] == "X"]
        assert all(type(each[key]) is int and each["dur"] >= 0 for each in spans for key in ("ts", "dur"))
        (step,) = (each for each in spans if each["cat"] == "user_annotation")
        assert step["name"] == "ProfilerStep#2"
        launches = {each["args"]["correlation"]: each for each in spans if each["cat"] == "cuda_runtime"}
        kernels = [each for each in spans if each["cat"] == "kernel"]
        assert launches.keys() == {each["args"]["correlation"] for each in kernels}
        for kernel in kernels:
            launch = launches[kernel["args"]["correlation"]]
            assert step["ts"] <= launch["ts"] <= kernel["ts"]
            assert kernel["ts"] + kernel["dur"] <= step["ts"] + step["dur"]
            assert kernel["name"].startswith("nccl") == ("Collective name" in kernel["args"])
        host = sorted((each["ts"], each["ts"] + each["dur"]) for each in spans if each["name"] == "record_param_comms")
        assert all(end <= begin for (_, end), (begin, _) in pairwise(host))


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    plan = plan_of("ring")
    with pytest.raises(InputFault, match="several ranks"):
        write_kineto(tmp_path / "run", plan_of("ring-multicast"), replay(plan), 1, "a test")
    with pytest.raises(InputFault, match=in_order("iteration 5:", "0 of", f"{len(plan.ops)} ops")):
        write_kineto(tmp_path / "run", plan, replay(plan), 5, "a test")
    assert not (tmp_path / "run").exists()
    assert np.unique(replay(plan).iteration).tolist() == [0, 1]
