"""How far apart copies of multicast messages arrive, from logs that say it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradwire.analysis.agreement.held_bytes import copies_apart_s
from gradwire.analysis.logged import LoggedOps
from gradwire.datatypes.plan import OpKind
from gradwire.datatypes.records import OpLog
from tests.shared.small_allreduces import one_tensor, plan_of
from tests.unit.analysis.agreement.made_up_runs import halving_doubling

PLAN = plan_of(one_tensor(1_000_000, 4), "ring-multicast", {})
OPS = PLAN.ops
COPIES = np.flatnonzero(
    (OPS.kind == OpKind.RECV) & (OPS.traffic_class >= 0) & (OPS.group[np.maximum(OPS.message, 0)] == 1)
)


def log_of(late: dict[int, int]) -> OpLog:
    """Two iterations of 1 s, in which every op ends at 0.5 s but for those that are late by so many nanoseconds in the second."""
    count = len(OPS)
    end = np.full((2, count), 500_000_000) + np.arange(2)[:, None] * 1_000_000_000
    for recv, late_ns in late.items():
        end[1, recv] += late_ns
    iteration, op = np.divmod(np.arange(2 * count), count)
    return OpLog(iteration, op, end.ravel() - 1000, end.ravel() - 1000, end.ravel())


def test_copies_that_arrive_together_are_not_apart() -> None:
    assert len(COPIES) > 2
    assert copies_apart_s(LoggedOps.of(PLAN, log_of({})), 0) == 0.0


def test_the_last_copy_is_as_far_from_the_first_as_the_log_says() -> None:
    of_message: dict[int, list[int]] = {}
    for recv in COPIES.tolist():
        of_message.setdefault(int(OPS.message[recv]), []).append(recv)
    late = {recv: 1_000_000 * place for recvs in of_message.values() for place, recv in enumerate(recvs)}
    copies = len(next(iter(of_message.values())))
    assert copies == 3
    assert copies_apart_s(LoggedOps.of(PLAN, log_of(late)), 1) == pytest.approx(0.002)
    swapped = {recv: 1_000_000 - late_ns for recv, late_ns in late.items()}
    assert copies_apart_s(LoggedOps.of(PLAN, log_of(swapped)), 1) == pytest.approx(0.002), "whichever is the first"


def test_warm_up_does_not_count() -> None:
    log = log_of({int(COPIES[0]): 5_000_000})
    later = replace(log, iteration=1 - log.iteration)
    assert copies_apart_s(LoggedOps.of(PLAN, later), 1) == 0.0


def test_without_multicast_there_is_nothing() -> None:
    plan = halving_doubling(4)
    count = len(plan.ops)
    zeros = np.zeros(count, np.int64)
    assert copies_apart_s(LoggedOps.of(plan, OpLog(zeros, np.arange(count), zeros, zeros, zeros + 1)), 0) == 0.0
