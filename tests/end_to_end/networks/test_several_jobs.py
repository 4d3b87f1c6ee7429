"""Jobs that share a link, measured, beside what follows by hand from who gets how much of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import gradwire
from gradwire.runs.stored.stored_run import StoredRun
from tests.shared.parts import tells

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

RATE_BPS = 2.5e9
PAYLOAD_BPS = RATE_BPS * 1448 / 1538
"""TCP's payload in frames of 1,500 bytes, with preamble, FCS and gap."""
NEAR = 0.02
FABRIC = {"rate": "2.5gbit", "topology": "leaf-spine", "leaves": 2, "spines": 1, "oversubscription": 2}
"""Two racks of two hosts with one link of 2.5 Gbit/s to the spine each."""


def send_s(size_bytes: float) -> float:
    """A ring of two sends as many bytes each way as the gradients have."""
    return size_bytes * 8 / PAYLOAD_BPS


def job(hosts: list[str], size_bytes: float, compute_s: float, **more: Any) -> dict[str, Any]:
    """A job between the racks that computes and then sends."""
    layer = {
        "name": "only",
        "size": [f"{size_bytes / 1e6:g}MB"],
        "forward": f"{compute_s * 500:g}ms",
        "backward": f"{compute_s * 500:g}ms",
    }
    return {
        "model": {"name": "toy", "batch": 1, "layers": [layer]},
        "strategy": {"name": "ring"},
        "cluster": {"workers": 2},
        "hosts": hosts,
        **more,
    }


def times_s(folder: Path, first: dict[str, Any], second: dict[str, Any], **more: Any) -> list[float]:
    """What an iteration of each job takes."""
    content = {
        "title": "Two jobs",
        "fabric": FABRIC,
        "job": {"first": first, "second": second},
        "run": {"iterations": 4},
        **more,
    }
    run = gradwire.run(content, out=folder / "run", progress=False)
    assert run.valid, run.conclusion
    return [float(time_s) for time_s in run.points["iteration_time_s"]]


def test_two_that_only_send_have_half_the_link_each(tmp_path: Path) -> None:
    compute_s = 1e-4
    first = job(["h1", "h3"], 10e6, compute_s)
    second = job(["h2", "h4"], 5e6, compute_s)
    by_hand = [2 * send_s(10e6) + compute_s, 2 * send_s(5e6) + compute_s]
    assert times_s(tmp_path, first, second) == pytest.approx(by_hand, rel=NEAR)


def test_the_urgent_one_takes_its_time_alone_and_the_other_what_is_left(tmp_path: Path) -> None:
    """The second one sends as much as the link carries while the first one computes, and so once in each of its iterations."""
    compute_s = 0.03
    alone_s = compute_s + send_s(10e6)
    first = job(["h1", "h3"], 10e6, compute_s, priority=0)
    second = job(["h2", "h4"], round(compute_s * PAYLOAD_BPS / 8, -4), 1e-5, priority=1)
    assert times_s(tmp_path, first, second) == pytest.approx([alone_s, alone_s], rel=NEAR)


@pytest.mark.parametrize(("start", "factor"), [("0s", 1.5), ("34ms", 1.0)])
def test_phases_that_interleave_take_the_time_alone(tmp_path: Path, start: str, factor: float) -> None:
    """Each computes for as long as it sends: begun together, they send at half the rate; shifted, one after the other."""
    compute_s = send_s(10e6)
    first = job(["h1", "h3"], 10e6, compute_s)
    second = job(["h2", "h4"], 10e6, compute_s, start=start)
    assert times_s(tmp_path, first, second) == pytest.approx([2 * compute_s * factor] * 2, rel=NEAR)


def test_a_backup_beside_two_jobs_takes_a_third_of_their_link(tmp_path: Path) -> None:
    compute_s = 1e-4
    first = job(["h1", "h4"], 10e6, compute_s)
    second = job(["h2", "h5"], 5e6, compute_s)
    backup = {
        "command": "case $GRADWIRE_HOST in h6) exec iperf3 -s;; h3) exec iperf3 -t 1000 -c h6;; esac",
        "hosts": ["h6", "h3"],
        "background": True,
    }
    by_hand = [3 * send_s(10e6) + compute_s, 3 * send_s(5e6) + compute_s]
    more = {"fabric": {**FABRIC, "oversubscription": 3}, "program": {"backup": backup}}
    assert times_s(tmp_path, first, second, **more) == pytest.approx(by_hand, rel=NEAR)


def test_a_link_that_is_down_for_a_while_is_the_fault_of_one_job(tmp_path: Path) -> None:
    """The other one has the link between the racks for itself meanwhile, and the record says which worker was slow."""
    compute_s = 1e-4
    first = job(["h1", "h3"], 10e6, compute_s)
    second = job(["h2", "h4"], 5e6, compute_s)
    faults = {
        "cut": {"kind": "link-down", "link": "h1", "at": "100ms", "duration": "50ms"},
        "slow": {"kind": "slow-worker", "job": "second", "worker": 1, "factor": 2, "duration": "100ms"},
    }
    times_s(tmp_path, first, second, fault=faults, run={"warmup": 1, "iterations": 12})
    (folder,) = (tmp_path / "run" / "points").iterdir()
    happened = {each.fault.name: each for each in StoredRun(folder).record().faults}
    assert (happened["cut"].begun_ns, happened["cut"].ended_ns) == pytest.approx((100e6, 150e6), abs=1e6)
    assert tells(happened["slow"].fault.what, "worker 1", "job second", "2 times")
    notes = (tmp_path / "run" / "report.html").read_text()
    (before_s,) = re.findall(r"fault\.cut: [^;]*; [^;]*first took ([0-9.]+) s before", notes)
    assert float(before_s) == pytest.approx(2 * send_s(10e6) + compute_s, rel=NEAR)
    assert "job second took" in notes
