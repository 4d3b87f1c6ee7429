"""How far the clock of a script may run ahead of the person who types to it."""

from __future__ import annotations

import readline

import pytest

from gradwire.inside.typed_protocol import LineAsked
from gradwire.programs.clock_pace import AHEAD_S, TIMES_WALL, ClockPace, complete_with


@pytest.mark.parametrize(
    ("virtual_s", "wall_s", "ahead_s"),
    [
        (100.0, 50.0, -AHEAD_S / TIMES_WALL),
        (100.0 + AHEAD_S, 50.0, 0.0),
        (100.0 + AHEAD_S + 2 * TIMES_WALL, 50.0, 2.0),
        (100.0 + AHEAD_S + 2 * TIMES_WALL, 53.0, -1.0),
    ],
)
def test_a_clock_waits_for_the_wall_clock(virtual_s: float, wall_s: float, ahead_s: float) -> None:
    assert ClockPace(100.0, 50.0).ahead_s(virtual_s, wall_s) == pytest.approx(ahead_s)


def test_words_of_the_script_are_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = readline.get_completer()
    complete_with(LineAsked(("pingall", "pingpair", "h1"), ("h1", "h2")))
    complete = readline.get_completer()
    readline.set_completer(before)
    assert complete is not None
    found = {}
    for begin, text in ((0, "ping"), (5, "h")):
        monkeypatch.setattr(readline, "get_begidx", lambda begin=begin: begin)
        found[text] = [complete(text, number) for number in range(3)]
    assert found == {"ping": ["pingall ", "pingpair ", None], "h": ["h1 ", "h2 ", None]}
