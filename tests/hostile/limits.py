"""How something ends that is given hostile input: soundly, with one message, or not as it should."""

from __future__ import annotations

import resource
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gradwire.faults import LONGEST_LINE, MOST_LINES
from gradwire.reading_budget import CPU_S

MOST_S = CPU_S + 1.0
"""Of the processor's time, for inputs of a few kilobytes: what gradwire/reading_budget.py allows them, and its last tick
with the message."""
MOST_WALL_S = 300.0
"""For what waits and does not compute, on a machine that others use as well."""
MOST_MEMORY_BYTES = 512 << 20
"""That an input of a few kilobytes may take more than those before it."""


@dataclass(frozen=True)
class Outcome:
    """How it ended."""

    #: "taken" (of a trace: "workload"), "refused", or what went wrong.
    ended: str
    took_s: float
    #: Of what went wrong.
    details: str = ""

    @property
    def sound(self) -> bool:
        """Whether it ended as it should."""
        return self.ended in ("taken", "workload", "refused")


class TookTooLongError(KeyboardInterrupt):
    """As Ctrl-C does, it passes all that takes an error for a fault of the input."""


@contextmanager
def limited_time(most_s: float = MOST_S) -> Iterator[None]:
    """Raises TookTooLongError when `most_s` of the processor's time are over, or MOST_WALL_S of the wall's.

    By another timer than the budget of readers, which is what is tried.
    """

    begun_s = time.process_time()

    def stop(number: int, _: Any) -> None:
        left_s = most_s - (time.process_time() - begun_s)
        if number == signal.SIGVTALRM and left_s > 0:  # this timer counts samples, which a busy machine distorts
            signal.setitimer(signal.ITIMER_VIRTUAL, max(left_s, 0.01))
            return
        raise TookTooLongError

    before = signal.signal(signal.SIGVTALRM, stop), signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, most_s)
    signal.setitimer(signal.ITIMER_REAL, MOST_WALL_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGVTALRM, before[0])
        signal.signal(signal.SIGALRM, before[1])


def outcome(action: Callable[[], object], refusals: tuple[type[Exception], ...], most_s: float = MOST_S) -> Outcome:
    """How an action ends, which may refuse its input with one of these exceptions and a message that can be read."""
    begun_s, begun_bytes = time.process_time(), _most_memory_bytes()
    details = ""
    try:
        with limited_time(most_s):
            action()
        ended = "taken"
    except refusals as refusal:
        ended, details = "refused", str(refusal)
        lines = details.splitlines()
        longest = max(lines, key=len, default="")
        if not details.strip() or len(longest) > LONGEST_LINE or len(lines) > MOST_LINES + 1:
            ended = "a message that cannot be read"
    except TookTooLongError:
        ended, details = f"took more than {most_s:g} s, or waited for {MOST_WALL_S:g} s", traceback.format_exc()
    except (Exception, SystemExit, GeneratorExit) as error:  # noqa: BLE001 (whatever it is, it is what is looked for)
        ended, details = type(error).__name__, traceback.format_exc()
    if _most_memory_bytes() > begun_bytes + MOST_MEMORY_BYTES:
        ended = f"took more than {MOST_MEMORY_BYTES >> 20} MiB"
    return Outcome(ended, time.process_time() - begun_s, details)


def _most_memory_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
