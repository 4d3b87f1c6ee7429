"""A point that is ready to run, as everything sees it that has points carried out: whether it is a strategy's plan
(runs/planned.py) or programs that users bring (runs/planned_programs.py)."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Self

from typing_extensions import TypeVar

from gradwire.analysis.fluid.steady import MeasuredIterations
from gradwire.inside.point_protocol import Event
from gradwire.network.fabric import Fabric
from gradwire.runs.point_machine import MachineEnd
from gradwire.runs.stored.stored_run import StoredRun
from gradwire.scenario.loading import ScenarioPoint

P_co = TypeVar("P_co", bound=ScenarioPoint, default=Any, covariant=True)


@dataclass(frozen=True)
class PlannedPoint(ABC, Generic[P_co]):
    """A point ready to run."""

    point: P_co
    #: Its network, as the machine builds it, without multicast groups.
    fabric: Fabric
    #: Folder of the point's run.
    folder: Path
    #: Hash of everything that decides the result, as far as gradwire can see it.
    key: str
    #: Number of iterations that are dropped, and number of those that are measured; none without a plan.
    window: MeasuredIterations = field(default=MeasuredIterations(0, 0), kw_only=True)

    @property
    def stored(self) -> StoredRun[P_co]:
        """The files that the run leaves, or has left."""
        return StoredRun(self.folder, self.point)

    @property
    def label(self) -> str:
        """The point in a few words."""
        return self.stored.label

    @property
    def memory_mb(self) -> int:
        """Memory that its machine may use, in MB."""
        return self.point.memory_mb

    @property
    def cost_bytes(self) -> int:
        """Bytes to which its wall time is about proportional; 0 where only programs know what they will send."""
        return 0

    @property
    def iterations(self) -> int:
        """All iterations, warm-up included."""
        return self.window.end

    @property
    def iteration_bytes(self) -> int:
        """Payload that crosses the network in an iteration; 0 where it is not known."""
        return 0

    @property
    def iteration_messages(self) -> int:
        """Messages of an iteration; 0 where it is not known."""
        return 0

    @abstractmethod
    def keyed_anew(self) -> Self:
        """Returns this run with its present key: the kernel is a part of it, and may have been built since."""

    @abstractmethod
    def on_machine(self, cpu: int, hear: Callable[[Event], None], stop: threading.Event) -> MachineEnd:
        """Boots a machine of this computer, with one CPU for itself, for the task in the point's folder, and returns when
        what it leaves is there. hear: gets each event at once. Raises Fault; MachineFault too when `stop` was set."""
