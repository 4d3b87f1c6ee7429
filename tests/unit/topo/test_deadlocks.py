"""A circle of paused ports is a deadlock once it has stood still."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from gradwire.datatypes.pauses import PauseState
from gradwire.topo.deadlocks import Deadlocks
from gradwire.topo.flow_control import FlowControl
from tests.shared.parts import tells
from tests.unit.datatypes.test_pauses import AROUND, FAR_ENDS, STOPPED, state

BEGUN_NS = 1_000_000_000


class Control:
    """Flow control that is in one state after the other."""

    def __init__(self, *states: PauseState) -> None:
        self._states = list(states)

    def state(self) -> PauseState:
        return self._states.pop(0)

    def far_ends(self) -> dict[str, str]:
        return FAR_ENDS


def circle(waiting_bytes: int = 9) -> PauseState:
    """The triangle, of whose pauses the last began 2 ms after the beginning."""
    stood = state(STOPPED, AROUND)
    since = {"s2-eth2": 1, "s3-eth2": 2, "s1-eth2": 1}
    counts = (
        replace(count, waiting_bytes=waiting_bytes, paused_since_ns=BEGUN_NS + since.get(count.port, -1) * 1_000_000)
        for count in stood.counts
    )
    return replace(stood, counts=tuple(counts))


def watch(*states: PauseState) -> Deadlocks:
    return Deadlocks(cast(FlowControl, Control(*states)), BEGUN_NS)


def test_what_stands_in_a_circle_twice_is_named() -> None:
    deadlocks = watch(circle(), circle())
    assert deadlocks.look() == ""
    assert deadlocks.has_circle
    found = deadlocks.look()
    assert tells(found, "class 0", "0.002000 s", "s1-eth3", "s2-eth2", "s2-eth3")


def test_a_circle_that_has_moved_is_not_a_deadlock() -> None:
    deadlocks = watch(circle(), circle(waiting_bytes=8), state((), ()), circle())
    assert [deadlocks.look() for _ in range(4)] == [""] * 4


def test_a_network_that_stands_open_is_not_one() -> None:
    deadlocks = watch(state((), ()), state((), ()))
    assert [deadlocks.look() for _ in range(2)] == ["", ""]
    assert not deadlocks.has_circle
