"""A program that repeats calls which succeed, say nothing new and take no time lets time pass (vm/patches/6.12/unchanging.patch)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.programs.running import execute

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

LOOPS = {
    "recv at the end of a connection": "ours.recv(4)",
    "a wait for a child that does not wait": "os.waitpid(-1, os.WNOHANG)",
    "a poll and a recv": "ready.poll(); ours.recv(4)",
}
PROGRAM = """
import os, select, socket, threading, time
if (child := os.fork()) == 0:
    time.sleep(0.02)
    os._exit(0)
def later():
    time.sleep(0.01)
    os._exit(0)
threading.Thread(target=later).start()
ours, theirs = socket.socketpair()
theirs.close()
ready = select.poll()
ready.register(ours, select.POLLIN)
while True:
    $loop
"""


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS.keys())
def test_a_loop_of_such_calls_lets_time_pass(tmp_path: Path, loop: str) -> None:
    (tmp_path / "loop.py").write_text(PROGRAM.replace("$loop", loop))
    done = execute(tmp_path, "--workers", "2", "--rate", "10gbit", "--hosts", "h1", "--", "python3", "loop.py")
    assert done.status == 0, done.err
    assert done.summary()["report"]["duration_s"] < 0.05
