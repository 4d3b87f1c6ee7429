"""Networks that drop and mark, in virtual time: incast past finite buffers, with the kernel's own congestion controls."""

from __future__ import annotations

import pytest

from gradwire.analysis.congestion_report import queue_uses
from gradwire.runs.stored.stored_run import StoredRun
from tests.shared.commands import gradwire_command

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

FRAME_BYTES = 1514
BUFFER_BYTES, K_BYTES = 60_000, 30_000
INCAST = "s1-eth5"
TEXT = f"""
title = "Four workers push to one server"
[cluster]
workers = 4
servers = 1
colocated = false
[fabric]
rate = "10gbit"
[model]
name = "one-layer"
layers = [{{ name = "fc", size = ["500KB"], forward = "1ms", backward = "1ms" }}]
[strategy]
name = "kvstore"
[run]
warmup = 1
iterations = 2
queue_sample = "20us"
[[cases]]
"transport.congestion" = ["cubic"]
"fabric.buffer" = ["{BUFFER_BYTES}B"]
[[cases]]
"transport.congestion" = ["dctcp"]
"fabric.ecn" = ["{K_BYTES}B"]
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, StoredRun]:
    """Both runs, by their congestion control."""
    folder = tmp_path_factory.mktemp("congestion")
    (folder / "incast.toml").write_text(TEXT)
    done = gradwire_command("run", str(folder / "incast.toml"), "--out", str(folder / "run"))
    assert done.returncode == 0, done.stdout + done.stderr
    stored = [StoredRun(path) for path in sorted((folder / "run" / "points").iterdir())]
    return {each.task().sockets.congestion: each for each in stored}


def test_cubic_fills_a_finite_buffer_and_sends_again_what_it_drops(runs: dict[str, StoredRun]) -> None:
    stored = runs["cubic"]
    counts = stored.record().counts
    drops = {band.port: band.drops for band in counts.bands if band.drops}
    assert list(drops) == [INCAST]
    assert counts.tcp_retransmits >= drops[INCAST] > 0
    assert counts.marked_arrivals == 0
    queues = stored.queues()
    assert queues is not None
    longest = queue_uses(queues)[0]
    assert longest.port == INCAST
    assert BUFFER_BYTES - 2 * FRAME_BYTES < longest.most_bytes <= BUFFER_BYTES


def test_dctcp_keeps_a_deep_queue_near_the_threshold_of_its_marks(runs: dict[str, StoredRun]) -> None:
    stored = runs["dctcp"]
    record = stored.record()
    counts = record.counts
    marks = {band.port: band.marks for band in counts.bands if band.marks}
    assert counts.marked_arrivals == sum(marks.values()) > 0
    assert INCAST in marks
    assert sum(band.drops for band in counts.bands) == counts.tcp_retransmits == 0
    states = [state for agent in record.agents for state in agent.sockets]
    assert {state.congestion for state in states} == {"dctcp"}
    assert sum(state.delivered_marked for state in states) > 0
    queues = stored.queues()
    assert queues is not None
    column = queues.waiting_bytes[:, queues.ports.index(INCAST)]
    busy = column[column > FRAME_BYTES]
    assert 0.3 * K_BYTES < busy.mean() < 2 * K_BYTES
