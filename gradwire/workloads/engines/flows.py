"""Send queues by connection: which messages wait for each other before they reach the network."""

from __future__ import annotations

from gradwire.datatypes.plan import Discipline
from gradwire.workloads.builder import PlanBuilder


class Flows:
    """One send queue, and so one flow, for each (source, destination, traffic class).

    shared: one queue per source instead, which feeds all its connections: a single thread with blocking sends.
    """

    def __init__(self, builder: PlanBuilder, discipline: Discipline = Discipline.FIFO, *, shared: bool = False) -> None:
        self._builder = builder
        self._discipline = discipline
        self._shared = shared
        self._queues: dict[tuple[int, ...], int] = {}

    def queue(self, src: int, dst: int, traffic_class: int) -> int:
        """The queue of rank `src` towards rank `dst`, added on first use."""
        key = (src,) if self._shared else (src, dst, traffic_class)
        if key not in self._queues:
            self._queues[key] = self._builder.queue(src, self._discipline)
        return self._queues[key]
