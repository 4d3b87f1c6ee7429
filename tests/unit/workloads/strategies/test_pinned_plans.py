"""Plans with groups that are as they were before their strategies had further options, whose defaults must change
nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gradwire.workloads.job import Cluster, Costs, Job
from tests.shared.small_allreduces import plan_of
from tests.unit.workloads.strategies.test_fsdp import blocks
from tests.unit.workloads.strategies.test_megatron import mixture, small_transformer

SLOW = Costs(aggregation_bytes_per_s=1e6, message_latency_s=1e-5, local_bytes_per_s=1e7)


def sharded(costs: Costs) -> Job:
    return replace(blocks(3, 4, root_values=50, values=77), cluster=Cluster(4, workers_per_host=2), costs=costs)


def transformer(per_host: int, costs: Costs | None = None) -> Job:
    return replace(small_transformer(4, 8, batch=4, per_host=per_host), costs=costs or Costs())


@pytest.mark.parametrize(
    ("job", "strategy", "options", "digest"),
    [
        (sharded(Costs()), "fsdp", {"prefetch": 1}, "c7748639235e20b4"),
        (sharded(SLOW), "fsdp", {"prefetch": 2, "reshard_after_forward": False}, "1189a257f31342a7"),
        (transformer(1), "megatron", {}, "4dee1a64fb34d3b8"),
        (transformer(2), "megatron", {"tensor": 2, "stages": 2, "microbatches": 2}, "9494c5c4fda76418"),
        (
            transformer(1, SLOW),
            "megatron",
            {"tensor": 2, "stages": 2, "microbatches": 4, "schedule": "gpipe"},
            "abc03ed420100ff4",
        ),
        (
            mixture(8, batch=4),
            "megatron",
            {"experts": 2, "tensor": 2, "stages": 2, "microbatches": 2},
            "d5220f8489497771",
        ),
        (mixture(8, batch=4), "megatron", {"experts": 4, "microbatches": 2}, "b11ebf57a53aaeec"),
    ],
)
def test_the_digest_is_as_it_was(job: Job, strategy: str, options: Mapping[str, Any], digest: str) -> None:
    assert plan_of(job, strategy, options).digest() == digest
