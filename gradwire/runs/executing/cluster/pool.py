"""The side that hands points to a Dask cluster: an Executor whose machines are booted by workers, and the connection
to a scheduler, which is there already or is made for one command."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any

from distributed import Client
from distributed.security import Security

from gradwire.faults import InputFault, InternalFault, MachineFault
from gradwire.inside.point_protocol import TASK_FILE, PointTask, heard, read_json
from gradwire.reading_budget import reading_budget
from gradwire.regular_files import MESSAGE_BYTES, read_text
from gradwire.runs.executing.cluster import worker as at_worker
from gradwire.runs.executing.cluster.asking import Asking, Gone, Roster, listed
from gradwire.runs.executing.cluster.orders import (
    TELL,
    Done,
    Failed,
    Identity,
    Lacking,
    PointOrder,
    Terms,
    Unable,
    Unfit,
    why_not,
)
from gradwire.runs.executing.cluster.this_process import cluster_in_this_process
from gradwire.runs.executing.executor import ElsewhereFault, MachineWatcher, N
from gradwire.runs.planned import PlannedRun
from gradwire.runs.point_machine import MachineEnd, MachineLimits
from gradwire.strict_json import parse_json
from gradwire.vm.machines import Clock

LOG = logging.getLogger(__name__)
WITHDRAWAL_S = 5.0
"""Seconds that an interrupted command may take to tell workers which points it no longer wants."""
PATIENCE_S = 20.0
"""Seconds that a scheduler may take to answer."""


class DaskPool:
    """An Executor: the workers of a cluster, whichever are there, a point to each of their threads.

    A point whose worker dies is run again by Dask, and one whose worker is full or refused goes to another.
    """

    def __init__(self, client: Client, kernel: Path, jobs: int, warn: Callable[[str], None]) -> None:
        self.jobs = jobs
        self._client = client
        self._kernel = kernel
        self._terms = Terms(Identity.here(), kernel.name, memory_mb=0)
        self._asking = Asking(client, warn)
        self._roster = Roster(warn)
        self._examined: set[str] = set()
        self._topic = f"gradwire-{uuid.uuid4().hex}"
        self._numbers = count()
        self._watched: dict[str, tuple[PlannedRun, MachineWatcher[Any]]] = {}
        client.subscribe_topic(self._topic, self._take)

    def close(self) -> None:
        """Stops listening; the cluster stays as it is."""
        if self._client.status == "running":  # and the scheduler is not gone
            self._client.unsubscribe_topic(self._topic)

    def try_machines(self, memory_mb: int) -> None:
        """Examines every worker that is there, and refuses those that may not run points. Raises MachineFault if all
        were refused."""
        self._terms = Terms(self._terms.identity, self._terms.kernel, memory_mb)
        present = self._asking.present()
        self._examine_software(present)
        fit = [worker for worker in present if worker not in self._roster.refused]
        for _, answer in self._asking.each(at_worker.examine, self._terms, fit):
            if isinstance(answer, Lacking):
                self._supply(answer, {})
        lately = [worker for worker in fit if worker not in self._roster.refused]
        for worker, answer in self._asking.each(at_worker.examine, self._terms, lately):
            if isinstance(answer, Unfit):
                self._roster.refuse(worker, answer.reason)
        if present and set(present) <= set(self._roster.refused):
            raise MachineFault(f"no worker of the cluster may run points\n{listed(self._roster.refused)}")

    def _examine_software(self, workers: Iterable[str]) -> None:
        """Asks new workers for their installed versions, and refuses those with other ones. Workers without gradwire
        answer as well."""
        new = [worker for worker in workers if worker not in self._examined]
        for worker, answer in self._asking.directly(eval, TELL, workers=new).items():
            self._examined.add(worker)
            if reason := why_not(answer, self._terms.identity):
                self._roster.refuse(worker, reason)

    def carry_out(self, planned: N, watcher: MachineWatcher[N], stop: threading.Event) -> MachineEnd:
        """Has a worker run the point, and puts the files that its machine left into the point's folder."""
        assert isinstance(planned, PlannedRun), "Where.refuse_what_cannot_be lets no others have workers"
        order, files = self._order(planned)
        self._watched[order.name] = (planned, watcher)
        try:
            done = self._done(order, files, stop)
        finally:
            del self._watched[order.name]
            if stop.is_set():
                self._withdraw(order)
        _write(planned.folder, done.files)
        if isinstance(done, Failed):
            raise MachineFault(done.reason)
        return done.ended

    def _withdraw(self, order: PointOrder) -> None:
        """Tells every worker that the point is not wanted, because it is not known which has it.

        Not for longer than WITHDRAWAL_S: a worker that is suspended, or out of reach, hears of it from the scheduler
        later.
        """
        telling = threading.Thread(target=self._tell_all, args=(order.full_name,), daemon=True)
        telling.start()
        telling.join(WITHDRAWAL_S)

    def _tell_all(self, name: str) -> None:
        try:
            self._asking.directly(at_worker.withdraw, name, workers=self._asking.present())
        except Exception as error:  # noqa: BLE001 (the cluster may be ending, and its machines with it)
            LOG.info("%s is not wanted, and workers do not know that: %s", name, error)

    def _order(self, planned: PlannedRun) -> tuple[PointOrder, dict[str, Path]]:
        """The order for a point, and the files of its plans by their digests."""
        task = read_json(planned.folder / TASK_FILE, PointTask)
        digests = {plan.file: planned.plans[plan.label].digest() for plan in task.plans}
        run = planned.point.section.run
        order = PointOrder(
            name=f"{planned.folder.name}-{next(self._numbers)}",
            topic=self._topic,
            terms=self._terms,
            task=(planned.folder / TASK_FILE).read_bytes(),
            plans=digests,
            clock=Clock(planned.clock.name, planned.clock.scale),
            limits=MachineLimits(run.memory_mb, run.time_limit),
        )
        return order, {digest: planned.folder / file for file, digest in digests.items()}

    def _done(self, order: PointOrder, files: dict[str, Path], stop: threading.Event) -> Done | Failed:
        """Asks one worker after the other until the point is done. Raises ElsewhereFault if no worker is left,
        MachineFault if `stop` is set."""
        unable: dict[str, str] = {}
        first: str | None = None
        while True:
            allowed = self._roster.allowed(self._asking.present(), unable)
            if allowed == []:
                raise ElsewhereFault(f"no worker could run the point\n{listed({**self._roster.refused, **unable})}")
            try:
                answer = self._asking.one(at_worker.carry_out, order, allowed, first, stop)
            except Gone:
                continue
            except MachineFault:
                raise
            except Exception as error:  # noqa: BLE001 (whatever a worker with other software raises)
                self._refuse_strangers(error)
                continue
            first = None
            match answer:
                case Lacking(worker=worker):
                    self._supply(answer, files)
                    first = worker
                case Unfit(worker=worker, reason=reason):
                    self._roster.refuse(worker, reason)
                case Unable(worker=worker, reason=reason):
                    unable[worker] = reason
                case Done(worker=worker) if reason := self._mixed(answer):
                    self._roster.refuse(worker, reason)
                case Done() | Failed():
                    return answer

    def _mixed(self, done: Done) -> str:
        """Why a result must not be stored with the others; "" if it may."""
        if done.kernel != self._terms.kernel:
            return f"its result is of kernel {done.kernel}, and the others of {self._terms.kernel}: it is not used"
        return done.identity.unlike(self._terms.identity)

    def _refuse_strangers(self, error: Exception) -> None:
        """Refuses workers that joined since with other software, of which one failed. Raises InternalFault if there is
        none."""
        before = set(self._roster.refused)
        self._examine_software(self._asking.present())
        if before == set(self._roster.refused):
            raise InternalFault(f"a worker failed at a point: {type(error).__name__}: {error}") from error

    def _supply(self, lacking: Lacking, files: dict[str, Path]) -> None:
        """Sends a worker the plans and the kernel that it lacks, or refuses it if it cannot keep them."""
        sent: list[tuple[Any, str, Path]] = [(at_worker.keep_plan, digest, files[digest]) for digest in lacking.plans]
        if lacking.kernel:
            sent.append((at_worker.keep_kernel, self._kernel.name, self._kernel))
        for keep, name, file in sent:
            answers = self._asking.directly(keep, name, file.read_bytes(), workers=[lacking.worker])
            for answer in answers.values():
                if isinstance(answer, BaseException):
                    self._roster.refuse(lacking.worker, f"it lacks {name}, and cannot keep what is sent: {answer}")

    def _take(self, event: tuple[float, tuple[str, str]]) -> None:
        """Takes an event of a point: its first says nothing but that its machine boots."""
        name, text = event[1]
        planned, watcher = self._watched.get(name, (None, None))
        if planned is None or watcher is None:  # it has ended since
            return
        if not text:
            watcher.started(planned)
        elif (said := heard(text)) is not None:
            watcher.heard(planned, said)


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes the files that a worker sent into the point's folder. Raises OSError, and InternalFault for a path that
    leads out of it."""
    for name, content in files.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise InternalFault(f"a worker sent a file {name}, which does not lie in a point's folder")
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


@contextmanager
def connected(scheduler: str | Client | None, cores: int) -> Iterator[Client]:
    """A client of a scheduler, given by its address, by the file that it wrote, or by a client, which stays open.

    None: of a cluster of `cores` threads in this process, which ends with the block. Raises InputFault for what is
    not a scheduler's address, and MachineFault where none answers.
    """
    if isinstance(scheduler, Client):
        yield scheduler
        return
    if scheduler is None:
        with cluster_in_this_process(cores) as client:
            yield client
        return
    with _client(scheduler) as client:
        yield client


def _client(scheduler: str) -> Client:
    """A client of the scheduler at an address, or of the one that wrote a file."""
    address = _address_in(Path(scheduler)) if Path(scheduler).is_file() else scheduler
    if address.startswith("tls://"):
        _refuse_missing_certificates(scheduler)
    try:
        return Client(address, timeout=PATIENCE_S, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise MachineFault(
            f"--scheduler {scheduler}: no Dask scheduler answers there ({error}); `dask scheduler` prints its address "
            "when it starts"
        ) from error
    except (ValueError, KeyError) as error:
        raise InputFault(
            f"--scheduler {scheduler}: is not an address of a Dask scheduler, like tcp://10.0.0.1:8786, and no file "
            f"that one wrote: {error}"
        ) from error


def _address_in(file: Path) -> str:
    """The address in the file that a scheduler wrote; Dask waits for other files, and fails at last. Raises InputFault."""
    try:
        with reading_budget(file):
            content = parse_json(read_text(file, MESSAGE_BYTES, follow=True))
    except (OSError, ValueError) as error:
        raise InputFault(f"--scheduler {file}: is not a file that a Dask scheduler wrote: {error}") from error
    address = content.get("address") if isinstance(content, dict) else None
    if not isinstance(address, str):
        raise InputFault(f"--scheduler {file}: is not a file that a Dask scheduler wrote: it names no address")
    return address


def _refuse_missing_certificates(scheduler: str) -> None:
    """Raises InputFault if Dask's configuration names no certificate for the command, or one that cannot be read."""
    where = "Dask's configuration (distributed.comm.tls)"
    named = Security().get_tls_config_for_role("client")
    if not named.get("cert"):
        raise InputFault(
            f"--scheduler {scheduler}: needs a certificate, and {where} names none; docs/many-machines.md shows the "
            "lines"
        )
    try:
        Security().get_connection_args("client")
    except OSError as error:  # ssl.SSLError is one
        files = ", ".join(str(value) for key, value in named.items() if value and key in ("ca_file", "cert", "key"))
        raise InputFault(
            f"--scheduler {scheduler}: cannot use the certificates that {where} names ({files}): "
            f"{error.strerror or error}; names that do not begin with / count from the current folder"
        ) from error
