"""Plans that amplify jitter, and plans that do not."""

from __future__ import annotations

import pytest

from gradwire.analysis.agreement.trials import AMPLIFIES, Amplification, amplification
from gradwire.analysis.fluid.estimate import Buffered
from gradwire.workloads.patterns import Transfer, compile_transfers
from tests.shared.small_allreduces import one_tensor, plan_of
from tests.unit.analysis.agreement.made_up_runs import halving_doubling, ideal_run

DELAY_S = 55e-6
"""A burst of 64 KiB at 10 Gbit/s."""


def test_the_factor_is_what_random_delays_add_over_what_equal_ones_add() -> None:
    found = Amplification(1e-5, undelayed_s=1.0, equal_s=1.02, random_s=1.05)
    assert found.factor == pytest.approx(2.5)
    assert found.increase == pytest.approx(0.05)
    assert found.is_amplified
    assert not Amplification(1e-5, 1.0, 1.02, 1.03).is_amplified


def test_nothing_is_divided_by_delays_that_are_hidden() -> None:
    found = Amplification(1e-5, undelayed_s=1.0, equal_s=1.0005, random_s=1.05)
    assert found.factor is None
    assert found.is_amplified


def test_halving_doubling_amplifies_jitter_the_more_the_more_hosts_it_has() -> None:
    factors = [amplification(ideal_run(halving_doubling(workers)), DELAY_S).factor for workers in (4, 8, 16)]
    assert factors == pytest.approx([1.1, 1.7, 2.7], abs=0.2)


def test_it_does_so_far_more_where_queues_go_on_while_messages_wait() -> None:
    ideal = ideal_run(halving_doubling(16), iterations=10)
    alone, holding = amplification(ideal, DELAY_S), amplification(ideal.of(Buffered(512_000)), DELAY_S)
    assert alone.undelayed_s == pytest.approx(holding.undelayed_s), "without jitter it makes no difference"
    assert 0.02 < alone.increase < 0.05
    assert 0.08 < holding.increase < 0.2
    assert (holding.factor or 0) > 2 * (alone.factor or 0)


@pytest.mark.parametrize("name", ["ring", "butterfly"])
def test_others_add_delays_up(name: str) -> None:
    found = amplification(ideal_run(plan_of(one_tensor(2_500_000, 8), name)), DELAY_S)
    assert 0.5 < (found.factor or 0) < AMPLIFIES
    assert not found.is_amplified


def test_a_single_message_loses_the_mean_delay() -> None:
    plan = compile_transfers("one", 2, [Transfer(0, 1, 10**7)])
    found = amplification(ideal_run(plan, iterations=40), 1e-3)
    assert found.factor == pytest.approx(1.0, abs=0.35)
    assert amplification(ideal_run(plan, iterations=40), 1e-3) == found, "draws are seeded"


def test_what_is_known_is_not_estimated_again() -> None:
    run = ideal_run(halving_doubling(4))
    assert amplification(run, DELAY_S, undelayed_s=1.0).undelayed_s == 1.0
