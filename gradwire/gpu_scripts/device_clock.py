"""The time of a device: streams, each with the time at which all that is in it has ended.

Numbers are computed when a script asks for them, at once, so that a stream needs no thread. What it is given begins when
what was before has ended, and not before it was given; the script goes on meanwhile. Whoever wants a result sleeps until
its time.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable

NS_PER_S = 1_000_000_000


class StreamClock:
    """The time of one stream, in nanoseconds of CLOCK_MONOTONIC."""

    def __init__(self) -> None:
        self.end_ns = 0

    def wait(self, until_ns: int) -> None:
        """Has what follows begin at a time or later."""
        self.end_ns = max(self.end_ns, until_ns)


class DeviceClock:
    """The time of one device with all its streams, each of which is as fast as if it were alone."""

    def __init__(
        self, now_ns: Callable[[], int] = time.monotonic_ns, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.now_ns = now_ns
        self._sleep = sleep
        self._streams: weakref.WeakSet[StreamClock] = weakref.WeakSet()
        self.default = self.new_stream()
        self.current = self.default
        self.busy_ns = 0
        #: Waits for what else is under way on the device, such as collectives.
        self.drains: list[Callable[[], None]] = []

    def new_stream(self) -> StreamClock:
        """A further stream, in which nothing is."""
        stream = StreamClock()
        self._streams.add(stream)
        return stream

    def run(self, duration_ns: int) -> None:
        """Puts a kernel into the current stream."""
        self.current.end_ns = self.reached(self.current) + duration_ns
        self.busy_ns += duration_ns

    def reached(self, stream: StreamClock) -> int:
        """When what is now put into a stream begins."""
        return max(self.now_ns(), stream.end_ns)

    def sleep_until(self, until_ns: int) -> None:
        """Returns at a time, or at once if it is over."""
        while (left_ns := until_ns - self.now_ns()) > 0:
            self._sleep(left_ns / NS_PER_S)

    def synchronize(self) -> None:
        """Returns when all that is in all streams has ended."""
        for drain in self.drains:
            drain()
        self.sleep_until(max(stream.end_ns for stream in self._streams))
