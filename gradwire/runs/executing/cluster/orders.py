"""What travels: an order to a worker, in which plans are digests and the kernel is a name, and the worker's answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gradwire.runs.executing.cluster.identity import Identity
from gradwire.runs.executing.machine import Ended, Limits
from gradwire.vm.machines import Clock


@dataclass(frozen=True)
class Terms:
    """What a worker must have before it may run points of a command."""

    identity: Identity
    #: Name of the virtual-time kernel.
    kernel: str
    #: Memory of the largest point, with which the kernel is tried once.
    memory_mb: int


@dataclass(frozen=True)
class Order:
    """One point, to be run by whichever worker gets it."""

    #: What its events begin with.
    name: str
    #: Topic of the cluster's events under which the command hears of it.
    topic: str
    terms: Terms
    #: Content of its task.json.
    task: bytes
    #: Digests of its plans by the names of their files.
    plans: Mapping[str, str]
    clock: Clock
    limits: Limits

    @property
    def full_name(self) -> str:
        """A name that no order of another command has."""
        return f"{self.topic}/{self.name}"


@dataclass(frozen=True)
class Lacking:
    """The worker needs the kernel, or the plans of these digests, before it can begin."""

    worker: str
    kernel: bool
    plans: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unfit:
    """The worker may run no point of this command, for a reason that says what would mend it."""

    worker: str
    reason: str


@dataclass(frozen=True)
class Unable:
    """The worker could not run this point, which another may: it is full, or its machine failed."""

    worker: str
    reason: str


@dataclass(frozen=True)
class Failed:
    """The point failed in a way that it would elsewhere too."""

    worker: str
    reason: str
    #: What the machine left, by path in the point's folder.
    files: Mapping[str, bytes]


@dataclass(frozen=True)
class Done:
    """The point's machine ended by itself."""

    worker: str
    ended: Ended
    #: What it ran with.
    identity: Identity
    kernel: str
    #: What the machine left, by path in the point's folder.
    files: Mapping[str, bytes]


Answer = Lacking | Unfit | Unable | Failed | Done
