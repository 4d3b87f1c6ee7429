"""Programs on a network with faults: a ping through a link that is down, and a transfer through one that is slower for a while."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import gradwire

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

PAYLOAD_SHARE = 1448 / 1538
"""TCP's, of frames of 1,500 bytes with preamble, FCS and gap."""


def network(rate: str) -> dict[str, Any]:
    return {"title": "Faults", "cluster": {"workers": 2}, "fabric": {"rate": rate}}


def test_a_ping_has_no_answer_while_its_link_is_down(tmp_path: Path) -> None:
    """One request each 0.1 s as long as answers come, and a little later without: the first is sent at once."""
    ping = {"command": "ping -i 0.1 -c 30 -W 0.05 h2; true", "hosts": ["h1"]}
    cut = {"kind": "link-down", "link": "h2", "at": "1s", "duration": "1s"}
    content = {**network("1gbit"), "program": {"ping": ping}, "fault": {"cut": cut}}
    run = gradwire.run(content, out=tmp_path / "run", progress=False)
    assert run.valid, run.conclusion
    (output,) = (tmp_path / "run").glob("points/*/output/ping/h1.out")
    answered = {int(number) for number in re.findall(r"icmp_seq=(\d+)", output.read_text())}
    missing = sorted(set(range(1, 31)) - answered)
    assert 8 <= len(missing) <= 10
    assert missing == list(range(missing[0], missing[-1] + 1))
    assert 10 <= missing[0] <= 12
    report = (tmp_path / "run" / "report.html").read_text()
    assert re.search(r"cut: .*\bh2 .*1\.000\d+ s .*2\.000\d+ s \(not checked: drops, TCP", report)


def test_a_transfer_has_half_of_its_rate_for_as_long_as_the_link_has(tmp_path: Path) -> None:
    """Of two seconds, one at the whole rate and one at half of it."""
    server = {"command": "iperf3 -s", "hosts": ["h2"], "background": True}
    client = {
        "command": "iperf3 --json -c h2 -t 2",
        "hosts": ["h1"],
        "start": "100ms",
        "figures": "iperf3",
    }
    half = {"kind": "rate", "link": "h1", "rate": "0.5gbit", "at": "600ms", "duration": "1s"}
    content = {**network("1gbit"), "program": {"server": server, "client": client}, "fault": {"half": half}}
    run = gradwire.run(content, out=tmp_path / "run", progress=False)
    assert run.valid, run.conclusion
    (goodput_bps,) = run.figures["goodput_bps"]
    assert float(goodput_bps) == pytest.approx(0.75 * 1e9 * PAYLOAD_SHARE, rel=0.005)


def test_a_fault_after_the_end_makes_a_point_invalid(tmp_path: Path) -> None:
    boot = {"kind": "controller-restart", "at": "3s", "duration": "1s"}
    content = {**network("1gbit"), "program": {"short": {"command": "sleep 1"}}, "fault": {"boot": boot}}
    run = gradwire.run(content, out=tmp_path / "run", progress=False)
    assert not run.valid
    assert "boot: all programs" in (tmp_path / "run" / "report.html").read_text()
