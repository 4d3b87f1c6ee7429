"""Carries out an order on a worker: checks that it may, boots the point's machine in a separate folder, and sends back
the files that the machine left."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from distributed import get_worker

from gradwire.faults import Fault, MachineFault
from gradwire.inside.point_protocol import TASK_FILE, Event
from gradwire.runs.executing.cluster.orders import (
    Answer,
    Done,
    Failed,
    Identity,
    Lacking,
    PointOrder,
    Terms,
    Unable,
    Unfit,
    plan_file,
    take_kernel,
    take_plan,
)
from gradwire.runs.point_machine import MachineEnd, run_machine
from gradwire.vm.byte_code import byte_code_folder
from gradwire.vm.code_digest import machine_modules
from gradwire.vm.kernel import kernel_named
from gradwire.vm.kernel_death import KernelFault
from gradwire.vm.trial import try_kernel

if TYPE_CHECKING:
    from distributed import Worker

FULL = (errno.ENOSPC, errno.EDQUOT)
CAUSES_OF_THE_MACHINE = ("memory: folder full", "memory: limit", "killed")
"""Deaths of a kernel that come from what else runs on its machine, or from the machine's limits (vm/kernel_death.py)."""
ROOM_BYTES = 1 << 20
"""A disk with less room is full."""
UNDER_WAY = ("executing", "long-running")
"""States of a task whose thread is running and waited for; in others it was cancelled, or its result is of another
worker."""
POLL_S = 0.3
"""Seconds between two looks whether a point is still wanted, or a CPU has become free."""


def examine(terms: Terms) -> Lacking | Unfit | None:
    """Reason why this worker may not run points of a command; None if it may. The kernel is tried once in each process
    of a worker."""
    address = get_worker().address
    if difference := Identity.here().unlike(terms.identity):
        return Unfit(address, difference)
    kernel = kernel_named(terms.kernel)
    if kernel is None:
        return Lacking(address, kernel=True)
    try:
        _try_once(kernel, terms.memory_mb)
    except Fault as fault:
        return Unfit(address, str(fault))
    return None


@cache
def _try_once(kernel: Path, memory_mb: int) -> None:
    try_kernel(kernel, memory_mb)
    byte_code_folder(machine_modules())


def keep_kernel(name: str, content: bytes) -> None:
    """Takes the kernel that the worker's machine lacks. Raises MachineFault."""
    take_kernel(name, content)


def keep_plan(digest: str, content: bytes, dask_worker: Worker) -> None:
    """Takes a plan that the worker lacks; `dask_worker` is filled in by Dask. Raises InternalFault and OSError."""
    take_plan(digest, content, Path(dask_worker.local_directory))


def carry_out(order: PointOrder) -> Answer:
    """Runs the point of an order, or says why it does not."""
    worker = get_worker()
    if (objection := examine(order.terms)) is not None:
        return objection
    local = Path(worker.local_directory)
    lacking = tuple(digest for digest in order.plans.values() if not plan_file(local, digest).exists())
    if lacking:
        return Lacking(worker.address, kernel=False, plans=lacking)
    try:
        with tempfile.TemporaryDirectory(prefix="gradwire-", dir=local) as name, _stop_of(worker, order) as stop:
            return _run(order, worker, Path(name), stop)
    except OSError as error:
        return Unable(worker.address, f"its disk {'is full' if error.errno in FULL else 'failed'}: {error}")
    except MemoryError:
        return Unable(worker.address, "its memory is full")


def _run(order: PointOrder, worker: Worker, folder: Path, stop: threading.Event) -> Answer:
    """Runs the point in an empty folder. Raises OSError."""
    (folder / TASK_FILE).write_bytes(order.task)
    for file, digest in order.plans.items():
        (folder / file).hardlink_to(plan_file(Path(worker.local_directory), digest))

    def tell(event: Event) -> None:
        worker.log_event(order.topic, (order.name, msgspec.json.encode(event).decode()))

    kernel = kernel_named(order.terms.kernel)
    assert kernel is not None, "it was examined"
    try:
        with _own_cpu(stop) as cpu:
            worker.log_event(order.topic, (order.name, ""))
            ended = run_machine(folder, order.clock, order.limits, cpu=cpu, hear=tell, stop=stop, kernel=kernel)
    except KernelFault as fault:
        if fault.cause.name in CAUSES_OF_THE_MACHINE:
            return Unable(worker.address, str(fault))
        return Failed(worker.address, str(fault), _left_in(folder, order))
    except MachineFault as fault:
        return Unable(worker.address, str(fault))
    if ended.status and shutil.disk_usage(folder).free < ROOM_BYTES:
        return Unable(worker.address, f"its disk is full: {folder.parent} has no room left")
    return _done(order, worker, ended, folder)


def _done(order: PointOrder, worker: Worker, ended: MachineEnd, folder: Path) -> Done:
    where = f"{worker.address} on {socket.gethostname()}"
    files = _left_in(folder, order)
    return Done(worker.address, replace(ended, worker=where), Identity.here(), order.terms.kernel, files)


def _left_in(folder: Path, order: PointOrder) -> dict[str, bytes]:
    """All files that a machine made, by path in its folder."""
    brought = {TASK_FILE, *order.plans}
    paths = (path for path in folder.rglob("*") if path.is_file())
    names = {str(path.relative_to(folder)): path for path in paths}
    return {name: path.read_bytes() for name, path in names.items() if name not in brought}


_withdrawn: set[str] = set()
"""Orders that the command has said it no longer wants. Their names hold the topic, which no other command has."""


def withdraw(order: str) -> None:
    """Ends the machine of an order (`PointOrder.full_name`) that runs here, and keeps one from booting that arrives
    later."""
    _withdrawn.add(order)


@contextmanager
def _stop_of(worker: Worker, order: PointOrder) -> Iterator[threading.Event]:
    """An event that is set once the result of this task is not wanted any more: the command was interrupted, or is
    gone.

    Dask's states tell of a command that is gone. An interrupted one says so itself, because Dask promises nothing about
    a task that executes.
    """
    key, stop, over = worker.get_current_task(), threading.Event(), threading.Event()

    def watch() -> None:
        while True:
            task = worker.state.tasks.get(key)
            if order.full_name in _withdrawn or task is None or task.state not in UNDER_WAY:
                stop.set()
                return
            if over.wait(POLL_S):
                return

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield stop
    finally:
        over.set()
        watching.join()


@contextmanager
def _own_cpu(stop: threading.Event) -> Iterator[int]:
    """A CPU that no other point of this machine's workers has, once one is free; the highest first.

    A socket's name is the claim: it is the machine's, and ends with the process however that ends. Raises MachineFault
    if `stop` is set.
    """
    while True:
        for cpu in sorted(os.sched_getaffinity(0), reverse=True):
            with socket.socket(socket.AF_UNIX) as claim:
                try:
                    claim.bind(f"\0gradwire-cpu-{cpu}")
                except OSError as error:
                    if error.errno != errno.EADDRINUSE:
                        raise
                    continue
                yield cpu
                return
        if stop.wait(POLL_S):
            raise MachineFault("stopped while waiting for a CPU")
