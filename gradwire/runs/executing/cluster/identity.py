"""What a worker runs points with: it has to be the same on all of them, or results of one run folder would be mixed."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata

from gradwire.vm.code_digest import run_digest, sources_digest

TELL = "__import__('gradwire.runs.executing.cluster.identity', fromlist=['told']).told()"
"""An expression that any Python evaluates, with gradwire of whatever version or with none: what `told` gives, or why it gives nothing."""
WORKER_MODULES = ("gradwire.runs.executing.cluster.worker",)


@dataclass(frozen=True)
class Identity:
    """The software that decides a result, beside the kernel."""

    #: Version of gradwire.
    version: str
    #: Digest of the code that carries out points, and of what it is told and answers.
    code: str
    #: Python's version, without its last number: it decides the byte code, and with it a few microseconds.
    python: str

    @staticmethod
    @cache
    def here() -> Identity:
        """That of this process."""
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


def told() -> dict[str, str]:
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
