"""Effects in estimates of their own: how late and how early messages may be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradwire.analysis.agreement.causes import Cause, Deviation, Trial, first_cause
from gradwire.analysis.agreement.held_bytes import HeldBytes
from gradwire.analysis.agreement.trials import SeenEffects, trials
from gradwire.analysis.fluid.estimate import Buffered, FluidTimes, Jitter, estimate
from gradwire.analysis.fluid.ideal import IdealRun
from gradwire.topo.tc import QUANTUM_BYTES
from gradwire.workloads.divided_messages import divided
from gradwire.workloads.job import Costs
from tests.shared.parts import tells
from tests.shared.small_allreduces import one_tensor, plan_of
from tests.unit.analysis.agreement.made_up_runs import RATE_BPS, halving_doubling, ideal_run

TURN_S = QUANTUM_BYTES * 8 / RATE_BPS
FORGIVEN_S = 2e-6
LATENCY_S = 5e-6


def found(run: IdealRun, measured_s: float, held: HeldBytes | None = None) -> Trial | None:
    """The cause of a run that held this and whose iterations took equally long."""
    forgiven_bytes = int(FORGIVEN_S * RATE_BPS / 8)
    seen = SeenEffects(
        iterations_s=(measured_s,) * run.window.iterations,
        held=held or HeldBytes(),
        copies_apart_s=0.0,
        grain_bytes=forgiven_bytes + QUANTUM_BYTES,
        forgiven_bytes=forgiven_bytes,
        turn_bytes=QUANTUM_BYTES,
    )
    deviation = Deviation(measured_s, run.time_s())
    assert deviation.matters
    return first_cause(deviation, trials(run, deviation, seen))


def test_parts_of_a_message_take_turns_with_those_of_the_next_one_where_queues_are_fair() -> None:
    whole = ideal_run(halving_doubling(8), iterations=4)
    run = replace(whole, plan=divided(whole.plan, 4, QUANTUM_BYTES // 64))
    late_s = run.time_s(latency_s=3 * TURN_S / run.fabric.goodput_share())
    cause = found(run, late_s)
    assert cause is not None
    assert cause.cause is Cause.BURSTS
    assert cause.with_effect_s == pytest.approx(late_s)
    assert "4 parts" in cause.effect
    first_come = run.on(replace(run.fabric, fair_queues=False))
    other = found(first_come, late_s)
    assert other is None or "parts" not in other.effect


@pytest.mark.parametrize(
    ("ports", "said"), [(1, "behind 64 KiB of others, make"), (2, "of others at each of 2 ports, make")]
)
def test_a_message_waits_for_a_turn_at_one_port_or_at_each(ports: int, said: str) -> None:
    run = ideal_run(halving_doubling(16), iterations=10)
    cause = found(run, run.time_s(jitter=Jitter(ports * TURN_S, 7), whole_bytes=QUANTUM_BYTES))
    assert cause is not None
    assert cause.cause is Cause.SKEW
    assert said in cause.effect


def test_late_messages_met_what_was_held_most_of_the_time_or_nearly_always() -> None:
    run = ideal_run(halving_doubling(16), iterations=10)
    held = HeldBytes(typical_bytes=100_000, most_bytes=4_000_000)
    typical, most = (run.of(Buffered(size_bytes)) for size_bytes in (held.typical_bytes, held.most_bytes))
    late = Jitter(TURN_S, 7)
    typical_s, most_s = (of.time_s(jitter=late, whole_bytes=QUANTUM_BYTES) for of in (typical, most))
    assert most_s > 1.05 * typical_s
    for measured_s, said in ((typical_s, "up to 100 kB per connection"), (most_s, "up to 4 MB per connection")):
        cause = found(run, measured_s, held)
        assert cause is not None
        assert cause.cause is Cause.SKEW
        assert said in cause.effect


def test_workers_who_began_apart_stay_so_where_the_network_holds_what_it_held() -> None:
    run = ideal_run(halving_doubling(8), iterations=8)
    apart_s = (0.0,) * 7 + (3e-3,)
    held = HeldBytes(typical_bytes=0, most_bytes=500_000)
    seen = SeenEffects(
        iterations_s=(run.time_s(),) * 8,
        held=held,
        copies_apart_s=0.0,
        grain_bytes=QUANTUM_BYTES,
        forgiven_bytes=0,
        turn_bytes=QUANTUM_BYTES,
        apart_s=apart_s,
    )
    deviation = Deviation(1.1 * run.time_s(), run.time_s())
    holding, ideal = (trial for trial in trials(run, deviation, seen) if trial.effect.startswith("Workers began"))
    assert ideal.with_effect_s == pytest.approx(run.time_s())  # an ideal network brings them back in step
    assert holding.with_effect_s > 1.05 * run.time_s()
    assert tells(holding.effect, "3 ms apart", "500 kB per connection")


def test_no_estimate_is_made_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    run = ideal_run(halving_doubling(8), iterations=8)
    asked = []

    def counted(*arguments: Any, **effects: Any) -> FluidTimes:
        asked.append(repr(sorted(effects.items())))
        return estimate(*arguments, **effects)

    seen = SeenEffects(
        iterations_s=(run.time_s(),) * 8,
        held=HeldBytes(typical_bytes=100_000, most_bytes=500_000),
        copies_apart_s=1e-6,
        grain_bytes=QUANTUM_BYTES,
        forgiven_bytes=0,
        turn_bytes=QUANTUM_BYTES,
        apart_s=(0.0,) * 7 + (3e-3,),
    )
    held_s = run.of(Buffered(500_000)).time_s(jitter=Jitter(TURN_S, 7), whole_bytes=QUANTUM_BYTES)
    deviation = Deviation(held_s, run.time_s())
    monkeypatch.setattr("gradwire.analysis.fluid.ideal.estimate", counted)
    causes = {trial.cause for trial in trials(run, deviation, seen)}
    assert {Cause.SWITCHES, Cause.SKEW, Cause.BURSTS} <= causes
    assert sorted(asked) == sorted(set(asked))


def test_turns_of_others_at_one_port_are_the_last_thing_that_makes_a_run_slow() -> None:
    run = ideal_run(halving_doubling(8), iterations=4)
    seen = SeenEffects((run.time_s(),) * 4, HeldBytes(), 0.0, QUANTUM_BYTES, 0, QUANTUM_BYTES)
    *_, last = trials(run, Deviation(1.1 * run.time_s(), run.time_s()), seen)
    late_s = TURN_S / run.fabric.goodput_share()
    assert last.is_bound
    assert last.with_effect_s == pytest.approx(run.time_s(latency_s=late_s, whole_bytes=QUANTUM_BYTES))
    assert tells(last.effect, "64 KiB", "one port")


def latent(latency_s: float) -> IdealRun:
    """A ring whose queues pause before each message."""
    return ideal_run(
        plan_of(one_tensor(160_000, 16, costs=Costs(message_latency_s=latency_s)), "ring", {"segments": 4})
    )


def test_what_shapers_forgive_after_a_pause_makes_a_run_fast() -> None:
    run, forgiving = latent(LATENCY_S), latent(LATENCY_S - FORGIVEN_S)
    cause = found(run, forgiving.time_s())
    assert cause is not None
    assert cause.cause is Cause.BURSTS
    assert tells(cause.effect, "software latency", "2.1 us early")


def test_latencies_are_shortened_no_further_than_to_nothing_and_only_between_hosts() -> None:
    without = latent(0.0)
    assert without.with_shorter_latencies(FORGIVEN_S) is without
    run = latent(LATENCY_S)
    ops, shorter = run.plan.ops, run.with_shorter_latencies(1.0).plan.ops
    remote = run.plan.is_remote()
    assert (shorter.duration_ns[remote] == 0).all()
    assert np.array_equal(shorter.duration_ns[~remote], ops.duration_ns[~remote])
    inside = replace(run.plan, rank_host=np.zeros_like(run.plan.rank_host))
    assert replace(run, plan=inside).with_shorter_latencies(1.0).plan is inside, "a single host"
