"""The prompt of `gradwire mn`, typed into as a person does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.programs.running import left_behind
from tests.end_to_end.programs.typist import END_OF_INPUT, INTERRUPT, Typist, terminal_with

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

PROMPT = "mininet> "
MN = ("mn", "--topo", "linear,2", "--switch", "ovsbr", "--controller", "none")
TYPED_AHEAD_S = 1.5
"""What is typed sooner after a line is taken for the next line (gradwire/programs/clock_pace.py)."""


@pytest.fixture
def typist(tmp_path: Path) -> Iterator[Typist]:
    with terminal_with(tmp_path, MN, f"\r{PROMPT}") as typist:
        yield typist


def interrupted_ping(typist: Typist) -> str:
    """What a ping without an end has written when it is interrupted."""
    typist.press(b"h1 ping h2\n")
    typist.until("icmp_seq=3 ", at_end=False)
    typist.press(INTERRUPT)
    return typist.until(f"\r{PROMPT}")


def test_a_person_is_heard_and_their_clock_does_not_run_away(typist: Typist) -> None:
    assert "0% dropped (2/2 received)" in typist.ask("pingpair")
    assert "no window" in typist.ask("xterm h1")
    assert "packets transmitted" in interrupted_ping(typist)
    seconds = int(interrupted_ping(typist).rsplit("time ")[-1].split("ms")[0]) / 1000  # a second one ends nothing else
    assert seconds < 300  # without a pace, hundreds of seconds pass in one

    typist.press(b"h1 sh\n")
    time.sleep(TYPED_AHEAD_S)
    typist.press(b"echo $((6 * 7))\n")
    typist.until("42", at_end=False)
    typist.press(END_OF_INPUT)
    typist.until(f"\r{PROMPT}")
    typist.ask("link s1 h1 down")
    assert "Network is unreachable" in typist.ask("h1 ping -c 1 h2")

    typist.press(b"ping\t\t")
    assert "pingpairfull" in typist.until("pingpairfull", at_end=False)
    typist.press(b"pair\n")
    assert "100% dropped (0/2 received)" in typist.until(f"\r{PROMPT}")
    typist.press(b"exit\n")
    assert typist.status() == 0
    assert left_behind(typist.folder) == []
