"""What a collective's caller gets: something to wait for."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch
import torch.distributed as dist

from gradwire.gpu_scripts.rccl import Recording


class RcclWork(dist.Work):
    """A collective in a stream. Its numbers are there when it has been waited for.

    On a GPU the script's stream waits for it, and not the script. Here the script waits, for the next operation reads the numbers at once.
    What a script does takes no time, so nothing begins later for that.
    """

    def __init__(
        self, recording: Recording, results: Sequence[Any], after: Callable[[], None] | None, completions: Completions
    ) -> None:
        super().__init__()
        self._recording, self._results, self._after = recording, list(results), after
        self._completions = completions
        self._lock = threading.Lock()
        self._is_done = False

    def wait(self, timeout: Any = None) -> bool:
        """Returns when it has ended."""
        del timeout  # a network that is down is found by RCCL, or by exec's limits
        with self._lock:
            if not self._is_done:
                self._recording.wait()
                if self._after is not None:
                    self._after()
                self._is_done, self._after = True, None
        return True

    def synchronize(self) -> None:
        """See wait."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether it has ended."""
        return self._is_done or self._recording.is_reached()

    @property
    def is_waited_for(self) -> bool:
        """Whether somebody has waited for it."""
        return self._is_done

    def is_success(self) -> bool:
        """Whether it has ended."""
        return self.is_completed()

    def exception(self) -> None:
        """There is none: RCCL ends the script with an error when a peer is lost."""

    def result(self) -> list[Any]:
        """The tensors that it is about."""
        return self._results

    def get_future(self) -> Any:
        """A future, which another thread completes."""
        future: Any = torch.futures.Future()
        self._completions.put(self, future)
        return future


class Completions:
    """A thread that completes futures, in the order of a stream. modes: what is entered in it."""

    def __init__(self, modes: Callable[[], Sequence[Any]]) -> None:
        self._modes = modes
        self._queue: queue.SimpleQueue[tuple[RcclWork, Any]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, work: RcclWork, future: Any) -> None:
        """Completes a future when the work has ended."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._complete, name="gradwire collectives", daemon=True)
            self._thread.start()
        self._queue.put((work, future))

    def _complete(self) -> None:
        with ExitStack() as entered:
            for mode in self._modes():
                entered.enter_context(mode)
            while True:
                work, future = self._queue.get()
                try:
                    work.wait()
                    future.set_result(work.result())
                except Exception as error:  # noqa: BLE001 (whoever waits for it gets it)
                    future.set_exception(error)
                del work, future
