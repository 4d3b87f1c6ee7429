"""`gradwire shell` in a terminal, typed into as a person does."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.programs.running import left_behind
from tests.end_to_end.programs.typist import END_OF_INPUT, INTERRUPT, Typist, terminal_with

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

PROMPT = "gradwire> "
SHELL = ("shell", "--workers", "3", "--rate", "10gbit")
THINKING_S = 2.0
TYPED_AHEAD_S = 1.5
"""What is typed sooner after a line is taken for the next line (gradwire/programs/clock_pace.py)."""


@pytest.fixture
def typist(tmp_path: Path) -> Iterator[Typist]:
    with terminal_with(tmp_path, SHELL, f"\r{PROMPT}") as typist:
        yield typist


def test_mininets_commands_work_and_the_clock_stands_still_while_a_person_thinks(typist: Typist) -> None:
    assert "c0 h1 h2 h3 s1" in typist.ask("nodes")
    assert "0% dropped (6/6 received)" in typist.ask("pingall")
    before_s = typist.virtual_s()
    time.sleep(THINKING_S)  # the clock of the test is the one that has to pass here
    assert typist.virtual_s() == pytest.approx(before_s, abs=0.01)
    typist.ask("h1 sleep 10")
    assert typist.virtual_s() == pytest.approx(before_s + 10, abs=0.1)
    assert "Bridge s1" in typist.ask("s1 ovs-vsctl show")
    assert "10.0.0.2 h2" in typist.ask("h1 cat /etc/hosts")
    assert "output:" in typist.ask("dpctl dump-flows -O OpenFlow13")
    assert "h2" in typist.ask("py h2.cmd('grep 10.0.0.2 /etc/hosts')")


def test_links_and_switches_come_back_as_they_were(typist: Typist) -> None:
    def qdiscs() -> str:
        """Without their counters and handles, which tell how often they were made."""
        return re.sub(r"\(.*|[0-9a-f]+: ", "", typist.ask("s1 tc qdisc show dev s1-eth1"))

    before = qdiscs()
    assert "no link between" in typist.ask("link h1 h2 down")
    typist.ask("link s1 h1 down")
    assert "(2/6 received)" in typist.ask("pingall")
    typist.ask("switch s1 stop")
    assert "(0/2 received)" in typist.ask("pingpair")
    typist.ask("switch s1 start")
    typist.ask("link h1 s1 up")
    assert "0% dropped" in typist.ask("pingall")
    assert qdiscs() == before
    typist.ask("h1 iperf3 -s -D >/dev/null")
    assert re.search(r"9\.[34]\d* Gbits/sec +receiver", typist.ask("h2 iperf3 -c h1 -n 50M"))


def test_ctrl_c_ends_the_program_and_not_the_shell(typist: Typist) -> None:
    typist.press(b"h1 ping h2\n")
    typist.until("icmp_seq=1 ", at_end=False)  # the program has to run when the key is pressed
    typist.press(INTERRUPT)
    assert re.search(r"\d+ packets transmitted, \d+ received, 0% packet loss", typist.until(f"\r{PROMPT}"))
    assert "0% dropped (2/2 received)" in typist.ask("pingpair")  # the controller has heard nothing of it
    typist.press(b"h1 cat\n")
    time.sleep(TYPED_AHEAD_S)
    typist.press(b"hello\n")
    typist.until("hello\r\nhello", at_end=False)
    typist.press(END_OF_INPUT)
    typist.until(f"\r{PROMPT}")
    typist.press(END_OF_INPUT)
    assert typist.status() == 0


def test_a_terminal_that_is_closed_leaves_nothing_behind(typist: Typist) -> None:
    typist.ask("h1 sleep 100000000 &")
    typist.hang_up()
    os.waitpid(typist.pid, 0)
    assert left_behind(typist.folder) == []
    assert [path.name for path in typist.folder.iterdir() if path.name.startswith("gradwire-")] == []
