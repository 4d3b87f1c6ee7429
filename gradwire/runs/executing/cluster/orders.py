"""The messages between a command and its workers: an order, in which plans are digests and the kernel is a name, and
the worker's answer.

Versions and code must be the same on all workers, or results of one run folder would be mixed. A worker keeps the
kernel in its machine's cache, and plans by their digests in its own folder.
"""

from __future__ import annotations

import hashlib
import os
import platform
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from gradwire.datatypes.plan import Plan
from gradwire.faults import InternalFault
from gradwire.runs.point_machine import MachineEnd, MachineLimits
from gradwire.vm.code_digest import run_digest, sources_digest
from gradwire.vm.kernel import keep_kernel
from gradwire.vm.machines import Clock

TELL = "__import__('gradwire.runs.executing.cluster.orders', fromlist=['software']).software()"
"""An expression that any Python evaluates, with gradwire of whatever version or with none: what `software` returns, or
why it cannot be called."""
WORKER_MODULES = ("gradwire.runs.executing.cluster.worker",)


@dataclass(frozen=True)
class Identity:
    """The software that decides a result, in addition to the kernel."""

    #: Version of gradwire.
    version: str
    #: Digest of the code that carries out points, and of what it is told and answers.
    code: str
    #: Python's version, without its last number: it decides the byte code, and with it a few microseconds.
    python: str

    @staticmethod
    @cache
    def here() -> Identity:
        """Identity of this process."""
        code = hashlib.sha256(f"{run_digest()} {sources_digest(WORKER_MODULES)}".encode()).hexdigest()[:12]
        return Identity(metadata.version("gradwire"), code, ".".join(platform.python_version_tuple()[:2]))

    def __str__(self) -> str:
        """In a few words."""
        return f"gradwire {self.version}, code {self.code}, on Python {self.python}"

    def unlike(self, wanted: Identity) -> str:
        """Why a worker with this identity may not run points of a command with the `wanted` one; "" if it may."""
        if self == wanted:
            return ""
        return f"it has {self}, and this command {wanted}: install the same there and start the worker again"


def software() -> dict[str, str]:
    """This process's identity, as text that every version can read."""
    return asdict(Identity.here())


def why_not(answer: Mapping[str, str] | BaseException, wanted: Identity) -> str:
    """Why a worker that gave this answer to TELL may not run points; "" if it may."""
    if isinstance(answer, BaseException):
        remedy = (
            f"install gradwire {wanted.version} in the worker's Python, as on this machine, and start the worker again"
        )
        return f"it cannot import this version of gradwire ({type(answer).__name__}: {answer}): {remedy}"
    return Identity(**answer).unlike(wanted)


PLANS_FOLDER = "gradwire-plans"
"""Folder of plans in the worker's own folder, which Dask removes with the worker."""


def plan_file(local: Path, digest: str) -> Path:
    """Path at which a worker keeps the plan of this digest. local: the worker's own folder."""
    return local / PLANS_FOLDER / f"{digest}.npz"


def take_kernel(name: str, content: bytes) -> None:
    """Keeps a kernel that the worker's machine lacks, in the cache that all of its workers share. Raises
    MachineFault."""
    keep_kernel(name, content)


def take_plan(digest: str, content: bytes, local: Path) -> None:
    """Keeps a plan that the worker lacks. Raises InternalFault if it is not the plan of this digest, and OSError."""
    path = plan_file(local, digest)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    arrived = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        if (found := Plan.load(arrived).digest()) != digest:
            raise InternalFault(f"a plan arrived as {found}, where {digest} was sent")
        arrived.replace(path)
    finally:
        arrived.unlink(missing_ok=True)


@dataclass(frozen=True)
class Terms:
    """The conditions that a worker must meet before it may run points of a command."""

    identity: Identity
    #: Name of the virtual-time kernel.
    kernel: str
    #: Memory of the largest point, with which the kernel is tried once.
    memory_mb: int


@dataclass(frozen=True)
class PointOrder:
    """One point, to be run by whichever worker gets it."""

    #: Beginning of the names of its events.
    name: str
    #: Topic of the cluster's events under which the command hears of it.
    topic: str
    terms: Terms
    #: Content of its task.json.
    task: bytes
    #: Digests of its plans by the names of their files.
    plans: Mapping[str, str]
    clock: Clock
    limits: MachineLimits

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
    """Answer of a worker that may run no point of this command. The reason says how to change that."""

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
    #: Files that the machine left, by path in the point's folder.
    files: Mapping[str, bytes]


@dataclass(frozen=True)
class Done:
    """The point's machine ended by itself."""

    worker: str
    ended: MachineEnd
    #: Versions that it ran with.
    identity: Identity
    kernel: str
    #: Files that the machine left, by path in the point's folder.
    files: Mapping[str, bytes]


Answer = Lacking | Unfit | Unable | Failed | Done
