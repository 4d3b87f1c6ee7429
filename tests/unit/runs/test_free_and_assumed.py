"""What follows from a named device and machine by default, and the line that says so."""

from __future__ import annotations

from typing import Any

import pytest

from gradwire.documents import Document
from gradwire.runs.estimation import estimate_points
from gradwire.runs.free_and_assumed import free_and_assumed
from gradwire.scenario.loading import Point, resolve
from gradwire.workloads.engines.call_costs import CallCosts
from gradwire.workloads.engines.collectives.schedule import Collective
from gradwire.workloads.engines.nccl.devices import GpuName
from gradwire.workloads.engines.nccl.options import NcclOptions, setup_of
from tests.shared.parts import tells

RAILS: Document = {"rate": "25gbit", "topology": "leaf-spine", "leaves": 8, "spines": 2, "rails": True}


def point(device: str = "a100", workers: int = 16, options: Any = None, costs: Any = None, name: str = "fsdp") -> Point:
    document: Document = {
        "title": "defaults",
        "cluster": {"workers": workers, "workers_per_host": 8, "nics_per_host": 8},
        "fabric": RAILS,
        "model": {"name": "bert-large", "device": device, "blocks": 4},
        "strategy": {"name": name, "options": options or {}},
        "costs": costs or {},
    }
    (found,) = resolve(document, "test", "test").points
    return found


def time_s(of: Point) -> float:
    (found,) = estimate_points([of], 1)
    return found.iteration_time_s


def test_a_machines_links_and_calls_are_those_of_the_device() -> None:
    job = point().resolved.job
    assert job.costs.local_bytes_per_s == 300e9
    assert job.gpu == "a100"
    assert point(device="h200-kernels").resolved.job.gpu == "h200"
    assert point(costs={"local_rate": {"value": "1GB/s", "source": "x"}}).resolved.job.costs.local_bytes_per_s == 1e9


def test_calls_take_what_nccls_table_has() -> None:
    calls = CallCosts(point().resolved.job, "ring")
    # A ring of 2 x 8 by Simple: 8.4 us, one hop of 14 us and 14 of 3.4 us (src/graph/tuning.cc).
    assert calls.seconds(Collective.ALL_GATHER, 1 << 30) == pytest.approx((8.4 + 14 * 3.4 + 14) / 1e6)
    assert calls.seconds(Collective.ALL_GATHER, 1 << 10) < calls.seconds(Collective.ALL_GATHER, 1 << 30)
    assert CallCosts(point().resolved.job, "nccl").seconds(Collective.ALL_GATHER, 1 << 30) == 0.0
    by_message = {"message_latency": {"value": "5us", "source": "x"}}
    assert CallCosts(point(costs=by_message).resolved.job, "ring").seconds(Collective.ALL_GATHER, 1 << 30) == 0.0
    said = {"call_latency": {"value": "7us", "source": "x"}}
    assert CallCosts(point(costs=said).resolved.job, "ring").seconds(Collective.ALL_GATHER, 1) == 7e-6


def test_the_default_uses_all_nics() -> None:
    by_hand = time_s(point(options={"channels": 8}))
    assert time_s(point()) == pytest.approx(by_hand)
    assert time_s(point(options={"channels": 1})) > 3 * by_hand


def test_smaller_buckets_cost_more_calls() -> None:
    large, small = (
        time_s(point(name="ddp", options={"bucket_cap": cap, "overlap": False})) for cap in ("25MiB", "1MiB")
    )
    assert small > large


def test_the_line_names_what_was_free_and_assumed() -> None:
    free, assumed = free_and_assumed([point()]).split("; assumed: ")
    assert tells(assumed, "300GB/s", "a100", "NCCL 2.22", "8 rings")
    assert "copies inside a machine" not in free
    free, assumed = free_and_assumed(
        [point(options={"shard": 8}, costs={"call_latency": {"value": "0s", "source": "x"}})]
    ).split("; assumed: ")
    assert "calls" in free
    assert "rings" not in assumed
    assert free_and_assumed([]) == ""


@pytest.mark.parametrize(("device", "said"), [("a100", "2.22"), ("b200", "2.27")])
def test_nccl_is_that_of_the_device(device: str, said: str) -> None:
    of = point(device=device, options={"algorithm": "nccl"})
    assert setup_of(of.resolved.job, NcclOptions()) == setup_of(of.resolved.job, NcclOptions(gpu=GpuName(device)))
    assert setup_of(of.resolved.job, NcclOptions()) != setup_of(of.resolved.job, NcclOptions(gpu=GpuName.H100))
    assert tells(free_and_assumed([of]), said, device)
