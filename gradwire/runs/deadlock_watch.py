"""Notices that priority flow control has deadlocked, and ends the replay with a message that names who waits for whom.

A thread looks at the pauses of all ports at equal intervals. A circle of paused ports that is the same twice, and in
which nothing was paused anew or has moved in between, will stay: each waits for the next.
"""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gradwire.agents.agent_processes import AgentDied, AgentGroup
from gradwire.agents.timer import Timer
from gradwire.datatypes.pauses import PauseState, Waiting, deadlock_in
from gradwire.faults import MachineFault
from gradwire.topo.flow_control import FlowControl
from gradwire.topo.network import Network

STANDS_NS = 200_000_000
"""How long a circle has to stand still: after which SONiC's watchdog for pause storms acts by default (detection time of
200 ms)."""
END_S = 60.0
"""How long the thread may take to end, on a busy machine."""


class Deadlock(MachineFault):
    """Ports of a network wait for each other, for ever."""


class _Watch(threading.Thread):
    def __init__(self, control: FlowControl, agents: AgentGroup) -> None:
        super().__init__(name="pauses", daemon=True)
        self._control, self._agents = control, agents
        self._ending = threading.Event()
        self._begun_ns = time.monotonic_ns()
        #: What was found; "" if nothing was.
        self.found = ""
        self._trouble: BaseException | None = None

    def run(self) -> None:
        """Looks until it is asked to end, or has found a deadlock."""
        timer, poll = Timer(), select.poll()
        poll.register(timer.descriptor, select.POLLIN)
        far_ends = self._control.far_ends()
        before: tuple[object, ...] = ()
        try:
            while not self._ending.is_set():
                timer.set(time.monotonic_ns() + STANDS_NS)
                poll.poll()
                state = self._control.state()
                circle = deadlock_in(state, far_ends)
                now = (circle, _stands(state, circle))
                if circle and now == before:
                    self.found = in_words(circle, (_closed_ns(state, circle) - self._begun_ns) / 1e9)
                    self._agents.kill()
                    return
                before = now
        except BaseException as trouble:  # noqa: BLE001 (the thread that waits for the agents tells it)
            self._trouble = trouble
        finally:
            timer.close()

    def end(self) -> None:
        """Ends the thread. Raises MachineFault if it could not look."""
        self._ending.set()
        self.join(END_S)
        if self._trouble is not None:
            raise MachineFault(f"pauses could not be watched: {self._trouble}") from self._trouble


def _stands(state: PauseState, circle: tuple[Waiting, ...]) -> tuple[object, ...]:
    """What has to be the same twice: how often ports of the circle were paused, and what waits in them."""
    inside = {(each.port, each.band) for each in circle}
    return tuple((count.stops, count.waiting_bytes) for count in state.counts if (count.port, count.band) in inside)


def _closed_ns(state: PauseState, circle: tuple[Waiting, ...]) -> int:
    """When the last pause of the circle began, by the monotonic clock."""
    by = {(each.by, each.band) for each in circle}
    return max(count.paused_since_ns for count in state.counts if (count.port, count.band) in by)


def in_words(circle: tuple[Waiting, ...], after_s: float) -> str:
    """The circle of a deadlock. after_s: from when it was complete on, since the replay, or the rate probe, began."""
    links = "; ".join(
        f"{each.port} is paused by {each.by}, behind which its frames wait for {following.port}"
        for each, following in zip(circle, (*circle[1:], circle[0]), strict=True)
    )
    return (
        f"priority flow control has deadlocked in class {circle[0].band - 1}, after {after_s:.6f} s: {links}. None of them "
        f"moved for {STANDS_NS / 1e9:g} s. Routes without a circle (trees, up and then down) cannot do this"
    )


@contextmanager
def watching(network: Network, agents: AgentGroup) -> Iterator[None]:
    """Raises Deadlock if flow control deadlocks within the block; does nothing in a network without it."""
    if network.flow_control is None:
        yield
        return
    watch = _Watch(network.flow_control, agents)
    watch.start()
    try:
        yield
    except AgentDied as died:
        if watch.found:
            raise Deadlock(watch.found) from died
        raise
    finally:
        watch.end()
