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
"""What is typed sooner after a line is taken for the next line (gradwire/programs/pace.py)."""
ANSWER_S = 20.0


@pytest.fixture
def typist(tmp_path: Path) -> Iterator[Typist]:
    with terminal_with(tmp_path, SHELL, PROMPT) as typist:
        yield typist


def test_programs_run_and_the_clock_stands_still_while_a_person_thinks(typist: Typist) -> None:
    assert typist.ask("nodes") == "available nodes are:\nc0 h1 h2 h3 s1\n"
    assert "h1 -> h2 h3\n" in (reached := typist.ask("pingall"))
    assert "0% dropped (6/6 received)" in reached
    before_s = typist.virtual_s()
    time.sleep(THINKING_S)  # the clock of the test is the one that has to pass here
    assert typist.virtual_s() == before_s
    assert typist.ask("h2 hostname; echo $GRADWIRE_HOST in $TMPDIR") == "h2\nh2 in /run/tmp/h2\n"
    typist.ask("h1 sleep 10")
    assert typist.virtual_s() == pytest.approx(before_s + 10, abs=0.01)
    assert typist.ask("h1 (sleep 3; echo late) &") == ""
    assert typist.ask("h2 sleep 5") == "late\n"
    assert typist.ask("s1 hostname") != "h1\n"
    assert "Bridge s1" in typist.ask("s1 ovs-vsctl show")
    assert "no-such" in typist.ask("h1 no-such")
    assert "hosts are h1 to h3" in typist.ask("h4 hostname")
    assert typist.ask("h1") == "h1: which command? Such as: h1 ip address\n"
    assert "*** Results: ['9.4" in typist.ask("iperf h1 h2")
    assert typist.ask("link s1 h1 down") == ""
    assert "67% dropped" in typist.ask("pingall")
    assert typist.ask("switch s1 stop") == ""
    assert "100% dropped" in typist.ask("pingpair")
    assert typist.ask("switch s1 start") == typist.ask("link h1 s1 up") == ""
    assert "0% dropped" in typist.ask("pingall")
    assert typist.ask("py h2.cmd('hostname').strip()") == "h2\n"
    assert re.search(r" h2->h1: 1/1 received, rtt 0\.000\d+ ms", typist.ask("pingpairfull"))
    assert "output:" in typist.ask("dpctl dump-flows")
    typist.press(b"exit\n")
    assert typist.status() == 0
    assert "h1 no-such" in (typist.state / "gradwire" / "shell-history").read_text()


def test_programs_read_what_is_typed(typist: Typist) -> None:
    typist.press(b"h1 cat\n")
    time.sleep(TYPED_AHEAD_S)
    typist.press(b"hellx\x7fo\n")  # a line is edited before the program reads it
    assert typist.until("\nhello\n".replace("\n", "\r\n"), at_end=False).count("hello") == 1
    typist.press(END_OF_INPUT)
    typist.until(PROMPT)
    typist.press(b"h2 bash --norc -i\n")
    typist.until("# ")
    time.sleep(TYPED_AHEAD_S)
    typist.press(b"half a line")
    typist.until("half a line")
    for _ in range(2):  # neither ends an interactive shell
        typist.press(INTERRUPT)
        typist.until("# ")
    typist.press(b"echo $((6 * 7)); sleep 1000\n")
    typist.until("\r\n42\r\n")
    typist.press(INTERRUPT)
    typist.until("# ")
    typist.press(b"exit\n")
    typist.until(PROMPT)
    typist.press(b"h1 hostname\nh2 hostname\n")  # what is typed ahead is the next line
    assert re.findall(r"^h[12]$", typist.until(f"h2\r\n{PROMPT}"), re.MULTILINE) == ["h1", "h2"]
    typist.press(b"h1 stty size; tty; test -t 0 -a -t 1 && echo both\n")
    assert re.search(r"^\d+ \d+\n/dev/pts/\d+\nboth\n", typist.until(PROMPT), re.MULTILINE)
    typist.press(END_OF_INPUT)
    assert typist.status() == 0


def test_ctrl_c_ends_the_program_and_not_the_shell(typist: Typist) -> None:
    typist.press(b"h1 ping h2\n")
    typist.until("icmp_seq=1 ", at_end=False)  # the program has to run when the key is pressed
    typist.press(INTERRUPT)
    assert re.search(r"\d+ packets transmitted, \d+ received, 0% packet loss", typist.until(PROMPT))
    typist.press(b"h1 trap '' INT; echo deaf; sleep 10000000\n")
    typist.until("deaf\r\n")
    typist.press(INTERRUPT)
    time.sleep(0.5)
    typist.press(INTERRUPT)
    typist.until(PROMPT)
    typist.press(b"h1 echo gone; exec </dev/null >/dev/null 2>&1; sleep 10000000\n")
    typist.until("gone\r\n")
    time.sleep(0.5)  # by now it has left its terminal
    typist.press(INTERRUPT)
    typist.until(PROMPT)
    typist.press(b"half a line")
    typist.until("half a line")  # the prompt edits it now, and an interrupt is no more one of the program before
    typist.press(INTERRUPT)
    if not typist.answers(ANSWER_S):
        typist.press(
            INTERRUPT
        )  # Python's input() overlooks a signal that comes between two of its waits, until the next one
    typist.until(PROMPT)
    assert typist.ask("h3 hostname") == "h3\n"
    typist.press(END_OF_INPUT)
    assert typist.status() == 0


def test_a_terminal_that_is_closed_leaves_nothing_behind(typist: Typist) -> None:
    typist.press(b"h1 sleep 100000000 &\n")
    typist.until(PROMPT)
    typist.hang_up()
    os.waitpid(typist.pid, 0)
    assert left_behind(typist.folder) == []
    assert [path.name for path in typist.folder.iterdir() if path.name.startswith("gradwire-")] == []
