"""A law for all plans that the tests of strategies make, whatever their options: what a plan's builder is told to expect is
what it gets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gradwire.datatypes.plan import Plan
from gradwire.workloads.builder import PlanBuilder

SAY_ALL = {"fsdp", "zero1", "zero2", "megatron", "diloco"}
"""Strategies whose builders are told of all ops; others say them before they have one."""


@pytest.fixture(autouse=True, scope="module")
def _plans_say_their_size() -> Iterator[None]:
    build = PlanBuilder.build

    def checked(builder: PlanBuilder, compute_s: float, samples: int) -> Plan:
        plan = build(builder, compute_s, samples)
        if builder.name in SAY_ALL and builder.expected:  # nothing is said of classes of ranks, which are few
            assert builder.expected == len(plan.ops), builder.name
        return plan

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlanBuilder, "build", checked)
        yield
