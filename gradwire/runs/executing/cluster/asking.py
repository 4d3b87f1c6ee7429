"""Asks the workers of a cluster questions, waits for their answers while workers come and go, and finds the workers
that may run points."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from distributed import Client, Future, KilledWorker

from gradwire.faults import MachineFault

POLL_S = 0.2
LOOK_S = 5.0
"""Seconds between two looks whether the workers that may do something are still there."""
PATIENCE_S = 15.0
"""After which a message says that no worker is there."""


Argument = TypeVar("Argument")
Answer = TypeVar("Answer")


class Gone(Exception):
    """The workers that might have answered are no longer there."""


class Asking:
    """Asks workers through a client of their scheduler."""

    def __init__(self, client: Client, warn: Callable[[str], None]) -> None:
        self._client = client
        self._warn = warn
        self._lock = threading.Lock()
        self._seen_s = time.monotonic()

    def present(self) -> list[str]:
        """Addresses of the workers that are there. Raises MachineFault if the scheduler is gone."""
        try:
            workers = sorted(self._client.nthreads())
        except Exception as error:
            raise self._lost() from error
        with self._lock:
            if workers:
                self._seen_s = time.monotonic()
            elif time.monotonic() - self._seen_s > PATIENCE_S:
                self._seen_s = float("inf")
                self._warn("the cluster has no worker yet: points wait until one joins")
        return workers

    def directly(self, function: Callable[..., object], *arguments: object, workers: Sequence[str]) -> dict[str, Any]:
        """Calls a function in the event loop of each worker. Returns the answers by worker, or the exceptions that were
        raised instead.

        For what takes a moment, and has to reach workers that cannot run points. A worker that is gone gives no answer.
        """
        if not workers:
            return {}
        try:
            answers: dict[str, Any] = self._client.run(function, *arguments, workers=list(workers), on_error="return")
        except Exception:
            remaining = [worker for worker in workers if worker in self.present()]
            if len(remaining) == len(workers):
                raise
            return self.directly(function, *arguments, workers=remaining)
        return answers

    def each(
        self, function: Callable[[Argument], Answer], argument: Argument, workers: Sequence[str]
    ) -> Iterator[tuple[str, Answer]]:
        """Calls a function in a thread of each worker, side by side. Yields workers and answers, without workers that
        are gone."""
        futures = {worker: self._submitted(function, argument, [worker], others=False) for worker in workers}
        never = threading.Event()
        try:
            for worker, future in futures.items():
                try:
                    yield worker, self._answer(future, [worker], never)
                except Gone:
                    continue
        finally:
            for future in futures.values():
                future.cancel()

    def one(
        self,
        function: Callable[[Argument], Answer],
        argument: Argument,
        allowed: Sequence[str] | None,
        first: str | None,
        stop: threading.Event,
    ) -> Answer:
        """The answer of one worker, of those allowed or of any; of `first`, if it is free.

        Raises Gone if all allowed ones left, what the function raises, and MachineFault where the scheduler is gone,
        workers die of the question, or `stop` is set, which withdraws it.
        """
        # A worker that was sent what it lacked is asked again, and another in its place only where any will do.
        only = allowed if first is None else None if allowed is None else [first]
        future = self._submitted(function, argument, [first] if first else allowed, others=only is None)
        try:
            answer: Answer = self._answer(future, only, stop)
            return answer
        except KilledWorker as killed:
            raise MachineFault(
                f"{killed.allowed_failures + 1} workers died while they ran this point, the last one "
                f"{killed.last_worker.address}: see their logs; if memory ran out, give each worker fewer threads"
            ) from killed
        finally:
            future.cancel()

    def _submitted(
        self, function: Callable[[Argument], object], argument: Argument, workers: Sequence[str] | None, *, others: bool
    ) -> Future:
        """The question under way. others: whether workers other than these may answer it."""
        return self._client.submit(
            function,
            argument,
            key=f"gradwire-{getattr(argument, 'name', function.__name__)}-{uuid.uuid4().hex[:8]}",
            pure=False,
            workers=workers,
            allow_other_workers=others and workers is not None,
        )

    def _answer(self, future: Future, allowed: Sequence[str] | None, stop: threading.Event) -> Any:
        over = threading.Event()
        future.add_done_callback(lambda _: over.set())
        looked_s = time.monotonic()
        while not over.wait(POLL_S):
            if stop.is_set():
                raise MachineFault("the run was stopped before its job had ended")
            if time.monotonic() - looked_s > LOOK_S:
                looked_s = time.monotonic()
                present = self.present()
                if allowed is not None and not set(allowed) & set(present):
                    raise Gone
        if future.cancelled():
            raise self._lost()
        return future.result()

    def _lost(self) -> MachineFault:
        where = self._client.scheduler.address if self._client.scheduler else "its address"
        return MachineFault(
            f"the Dask scheduler at {where} is gone, or has withdrawn this point; the same command continues from what "
            "is complete"
        )


class Roster:
    """The workers that a command refuses, each named once with its reason."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._lock = threading.Lock()
        self._refused: dict[str, str] = {}

    @property
    def refused(self) -> Mapping[str, str]:
        """Reasons by worker."""
        with self._lock:
            return dict(self._refused)

    def refuse(self, worker: str, reason: str) -> None:
        """Gives a worker no more points."""
        with self._lock:
            known = worker in self._refused
            self._refused[worker] = reason
        if not known:
            self._warn(f"worker {worker} runs no points: {reason}")

    def allowed(self, present: Collection[str], unable: Collection[str]) -> list[str] | None:
        """The present workers that may run a point; None: any, also one that joins later.

        unable: those that could not run this point. An empty list: nobody is left.
        """
        barred = {*self.refused, *unable}
        if not barred & set(present):
            return None
        return sorted(set(present) - barred)


def listed(reasons: Mapping[str, str]) -> str:
    """Workers and why each runs nothing, in lines."""
    return "\n".join(f"worker {worker}: {reason}" for worker, reason in reasons.items())
