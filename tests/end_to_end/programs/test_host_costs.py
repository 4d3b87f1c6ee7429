"""What a host's kernel takes for real programs in the reproduction of what others measured."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from reproduction.world.host_costs import build, path_of_library
from tests.end_to_end.programs.running import execute

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.usefixtures("virtual_kernel"),
]

WAKES = 400
COPIED_BYTES = 1 << 17
PROGRAM = f"""
import os, select, socket, struct, time
one, other = socket.socketpair()
times = [time.monotonic()]
one.sendall(bytes({COPIED_BYTES}))
times.append(time.monotonic())
got = other.recv({COPIED_BYTES}, socket.MSG_WAITALL)
times.append(time.monotonic())
print("copied", len(got), times[1] - times[0], times[2] - times[1], flush=True)
reads, writes = os.pipe()
if os.fork():
    for wake in range({WAKES}):
        time.sleep(1e-3)
        os.write(writes, struct.pack("d", time.monotonic()))
    os.wait()
else:
    poll = select.epoll()
    poll.register(reads, select.EPOLLIN)
    for wake in range({WAKES}):
        poll.poll()
        late_s = time.monotonic() - struct.unpack("d", os.read(reads, 8))[0]
        print("late", late_s)
"""


def test_copies_take_their_bytes_and_wakes_take_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    build()
    (tmp_path / "program.py").write_text(PROGRAM)
    command = ["env", f"LD_PRELOAD={path_of_library().absolute()}", "python3", str(tmp_path / "program.py")]
    done = execute(tmp_path, "--workers", "2", "--rate", "10gbit", "--hosts", "h1", "--", *command)
    assert done.status == 0, done.err
    lines = [line.split() for line in done.output("h1").splitlines()]
    ((size, sent_s, received_s),) = [line[1:] for line in lines if line[0] == "copied"]
    assert int(size) == COPIED_BYTES
    # 42 Gbit/s.
    assert [float(sent_s), float(received_s)] == pytest.approx([COPIED_BYTES * 8 / 42e9] * 2, rel=0.1)
    late_us = sorted(float(line[1]) * 1e6 for line in lines if line[0] == "late")
    assert len(late_us) == WAKES
    assert statistics.median(late_us) == pytest.approx(20.2, rel=0.15)
    assert late_us[WAKES * 9 // 10] == pytest.approx(35.0, rel=0.15)
