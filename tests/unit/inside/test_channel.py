"""The job's end of the conversation with the command outside."""

import os
import pty
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradwire.inside import channel as channel_module
from gradwire.inside.channel import LINE_OVERHEAD_BYTES, WINDOW_BYTES, Channel
from gradwire.inside.program_protocol import ClockHeld, Event, Full, Proceed, Taken, line_of
from gradwire.inside.signatures import KEY_BYTES, SignedEvents
from gradwire.vm.answers import Answering


class Outside:
    """The other side of a terminal."""

    def __init__(self, box: Path, descriptor: int) -> None:
        self._descriptor = descriptor
        self._events, self._rest = SignedEvents(bytes(KEY_BYTES)), b""
        self.answering = Answering(box)

    def heard(self) -> list[Event]:
        """All that has come."""
        while True:
            try:
                self._rest += os.read(self._descriptor, 1 << 16)
            except BlockingIOError:
                break
        *lines, self._rest = self._rest.split(b"\n")
        events = [self._events.event_of(line.decode()) for line in lines]
        return [event for event in events if event is not None]


@pytest.fixture
def ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Channel, Outside]]:
    master, slave = pty.openpty()
    tty.setraw(slave)
    os.set_blocking(master, False)
    monkeypatch.setattr(channel_module, "TERMINAL", os.ttyname(slave))
    (tmp_path / "key").write_bytes(bytes(KEY_BYTES))
    outside = Outside(tmp_path, master)
    channel = Channel(tmp_path / "key")
    yield channel, outside
    for descriptor in (channel.fileno(), master, slave):
        os.close(descriptor)


def test_what_the_other_side_waits_for_is_never_followed_by_a_question(ends: tuple[Channel, Outside]) -> None:
    channel, outside = ends
    questions = 0
    for number in range(2 * WINDOW_BYTES // LINE_OVERHEAD_BYTES):
        outside.answering.give(line_of(Taken()).encode())  # taken by the question, if there is one
        channel.say(ClockHeld(number))
        *before, last = outside.heard()
        assert last == ClockHeld(number)
        assert before in ([], [Full()])
        questions += len(before)
        if not before:
            assert channel.answer() == Taken()
        outside.answering.give(line_of(Proceed((), number)).encode())
        assert channel.answer() == Proceed((), number)
    assert questions >= 1
