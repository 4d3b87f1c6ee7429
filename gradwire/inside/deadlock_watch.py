"""Ends the replay of a plan with a message if priority flow control has deadlocked: a thread looks at equal intervals."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gradwire.agents.agent_processes import AgentDied, AgentGroup
from gradwire.agents.timer import Timer
from gradwire.faults import MachineFault
from gradwire.topo.deadlocks import STANDS_NS, Deadlocks
from gradwire.topo.flow_control import FlowControl
from gradwire.topo.network import Network

END_S = 60.0
"""How long the thread may take to end, on a busy machine."""


class Deadlock(MachineFault):
    """Ports of a network wait for each other, for ever."""


class _Watch(threading.Thread):
    def __init__(self, control: FlowControl, agents: AgentGroup) -> None:
        super().__init__(name="pauses", daemon=True)
        # Times count from here on: from when the replay, or the rate probe, began.
        self._deadlocks, self._agents = Deadlocks(control, time.monotonic_ns()), agents
        self._ending = threading.Event()
        #: What was found; "" if nothing was.
        self.found = ""
        self._trouble: BaseException | None = None

    def run(self) -> None:
        """Looks until it is asked to end, or has found a deadlock."""
        timer, poll = Timer(), select.poll()
        poll.register(timer.descriptor, select.POLLIN)
        try:
            while not self._ending.is_set():
                timer.set(time.monotonic_ns() + STANDS_NS)
                poll.poll()
                if found := self._deadlocks.look():
                    self.found = found
                    self._agents.kill()
                    return
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
