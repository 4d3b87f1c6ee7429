"""What a worker keeps from point to point: the kernel, in its machine's cache, and plans by their digests, in the worker's own folder."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from gradwire.datatypes.plan import Plan
from gradwire.faults import InternalFault
from gradwire.vm.kernel import keep_kernel

PLANS_FOLDER = "gradwire-plans"
"""In the folder of the worker, which Dask removes with the worker."""


def plan_file(local: Path, digest: str) -> Path:
    """Where the plan of this digest lies on a worker, if it does. local: the worker's own folder."""
    return local / PLANS_FOLDER / f"{digest}.npz"


def take_kernel(name: str, content: bytes) -> None:
    """Keeps a kernel that the worker's machine lacks, in the cache that all of its workers share. Raises MachineFault."""
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
