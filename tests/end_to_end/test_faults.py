"""Faults on a real network in virtual time: nothing is lost or added twice, and times are those of closed forms or of TCP's timers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradwire.csv_files import read_csv
from gradwire.datatypes.records import FaultRecord
from gradwire.runs.stored.stored_run import StoredRun
from tests.shared.commands import gradwire_command
from tests.shared.parts import tells

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

TEXT = """
title = "Four workers and a fault"
[cluster]
workers = 4
[fabric]
rate = "10gbit"
[model]
name = "one-layer"
layers = [{ name = "fc", size = ["40MB"], forward = "10ms", backward = "10ms" }]
[strategy]
name = "ring"
[run]
warmup = 1
iterations = 3
[fault.x]
"""
RING_S = 2 * 3 / 4 * 40e6 * 8 / (10e9 * 1448 / 1538)
"""What the ring's slowest link carries, at the line's payload rate."""
COMPUTE_S = 0.02
RTO_MIN_S = 0.2
"""TCP's shortest retransmission timeout in Linux (TCP_RTO_MIN, include/net/tcp.h); it doubles with each expiry (RFC 6298, section 5.5)."""


@dataclass(frozen=True)
class Ran:
    """A run with a fault."""

    verdict: str
    times_s: tuple[float, ...]
    stored: StoredRun
    shown: str

    @property
    def fault(self) -> FaultRecord:
        (record,) = self.stored.record().faults
        return record


def run(folder: Path, fault: dict[str, Any], *settings: str, more: str = "") -> Ran:
    (folder / "fault.toml").write_text(
        TEXT + "".join(f"{key} = {value!r}\n" for key, value in {"iteration": 2, **fault}.items()) + more
    )
    options = [word for setting in settings for word in ("--set", setting)]
    done = gradwire_command("run", str(folder / "fault.toml"), "--out", str(folder / "run"), *options)
    (row,) = read_csv(folder / "run" / "points.csv")
    (point,) = (folder / "run" / "points").iterdir()
    assert done.returncode == (row["verdict"] != "valid"), done.stdout + done.stderr
    times = read_csv(point / "iterations.csv") if row["verdict"] == "valid" else []
    return Ran(row["verdict"], tuple(float(each["iteration_time_s"]) for each in times), StoredRun(point), done.stdout)


def test_a_ring_waits_for_tcps_timers_after_a_link_was_down(tmp_path: Path) -> None:
    """The first expiry finds the link down, the second one up. Where F-RTO (RFC 5682) then has nothing new to send, a third is needed."""
    ran = run(tmp_path, {"kind": "link-down", "link": "h2", "at": "30ms", "duration": "300ms"})
    assert ran.verdict == "valid"
    assert ran.fault.ended_ns - ran.fault.begun_ns == pytest.approx(300e6, abs=1e6)
    late_s = ran.times_s[2] - ran.times_s[1]
    assert RTO_MIN_S * (1 + 2) < late_s < 1.2 * RTO_MIN_S * (1 + 2 + 4) + 0.1
    assert ran.times_s[3] == pytest.approx(COMPUTE_S + RING_S, rel=0.005)
    assert tells(" ".join(ran.shown.split()), "fault.x:", "h2 is down")


def test_a_lower_rate_makes_the_ring_as_slow_as_its_slowest_link(tmp_path: Path) -> None:
    ran = run(tmp_path, {"kind": "rate", "link": "h2", "rate": "5gbit"})
    assert ran.verdict == "valid"
    assert ran.times_s[1] == pytest.approx(COMPUTE_S + RING_S, rel=0.005)
    assert ran.times_s[2:] == pytest.approx([COMPUTE_S + 2 * RING_S] * 2, rel=0.005)


def test_a_slow_worker_makes_all_of_them_as_slow(tmp_path: Path) -> None:
    """Of the first 5 ms of its iteration nothing is slowed, and of the 15 ms of work that follow all."""
    ran = run(tmp_path, {"kind": "slow-worker", "worker": 1, "factor": 2, "at": "5ms"})
    assert ran.verdict == "valid"
    assert np.diff(ran.times_s[1:]) == pytest.approx([COMPUTE_S - 0.005, 0.005], rel=0.005)


def test_a_tenant_slows_a_ring_as_max_min_fairness_says(tmp_path: Path) -> None:
    """The ring has what a tenant of a fifth of the line leaves, and half beside one of half. One that wants four fifths gets half as well.

    Each tenant outlasts the iteration in which it begins, and is gone before the next one does.
    """
    more = "".join(
        f'[fault.{name}]\nkind = "tenant"\nsource = "h1"\ndestination = "{destination}"\nrate = "{rate}"\niteration = {iteration}\n'
        'duration = "130ms"\n'
        for name, destination, rate, iteration in (("half", "h3", "5gbit", 3), ("more", "h2", "8gbit", 5))
    )
    fifth = {"kind": "tenant", "source": "h1", "destination": "h2", "rate": "2gbit", "iteration": 1, "duration": "90ms"}
    ran = run(tmp_path, fifth, "run.iterations=6", more=more)
    assert ran.verdict == "valid"
    wanted_s = [COMPUTE_S + RING_S / 0.8, COMPUTE_S + 2 * RING_S, COMPUTE_S + 2 * RING_S]
    assert ran.times_s[1::2] == pytest.approx(wanted_s, rel=0.005)
    sent_bytes = [fault.sent_bytes for fault in ran.stored.record().faults]
    assert sent_bytes[0] == pytest.approx(2e9 / 8 * 1448 / 1538 * 0.09, rel=0.02)


PASSING: dict[str, tuple[dict[str, Any], float]] = {
    "x": ({"kind": "loss", "link": "h2", "loss": 0.01, "duration": "50ms"}, 1.0),
    "flapping": ({"kind": "flapping", "link": "h2", "every": "20ms", "duration": "100ms"}, 3.0),
    "switch": ({"kind": "switch-restart", "switch": "s1", "at": "30ms", "duration": "50ms"}, 3.0),
    "controller": ({"kind": "controller-restart", "at": "30ms", "duration": "20ms"}, 0.001),
}
"""Faults that pass, and by how many seconds each makes its iteration longer at the most."""


def test_nothing_is_lost_and_the_next_iteration_is_as_before(tmp_path: Path) -> None:
    """One after the other, with an iteration without a fault behind each."""
    begins = {name: 2 + 2 * number for number, name in enumerate(PASSING)}
    tables = [
        f"[fault.{name}]\niteration = {begins[name]}\n"
        + "".join(f"{key} = {value!r}\n" for key, value in fault.items())
        for name, (fault, _) in PASSING.items()
    ]
    ran = run(tmp_path, PASSING["x"][0], f"run.iterations={max(begins.values()) + 1}", more="".join(tables[1:]))
    assert ran.verdict == "valid"
    assert [record.fault.name for record in ran.stored.record().faults] == list(PASSING)
    for name, (_, most_s) in PASSING.items():
        begin = begins[name]
        assert -1e-4 < ran.times_s[begin] - ran.times_s[1] < most_s, name
        assert ran.times_s[begin + 1] == pytest.approx(COMPUTE_S + RING_S, rel=0.005), name


def test_a_delay_is_on_every_round_trip_over_the_link(tmp_path: Path) -> None:
    """TCP's window covers it, so each of the ring's six steps is later by one delay in and one out at most."""
    ran = run(tmp_path, {"kind": "delay", "link": "h2", "delay": "100us"})
    assert ran.verdict == "valid"
    late_s = np.array(ran.times_s[2:]) - ran.times_s[1]
    assert (late_s > 1e-4).all()
    assert (late_s < 6 * 2e-4 + 1e-3).all()


FAR = "".join(f'[fault.far{host}]\nkind = "delay"\nlink = "h{host}"\ndelay = "1ms"\n' for host in (2, 3, 4))
"""With the first one, 4 ms for a round trip, in which the line of 25 Gbit/s carries 12.5 MB."""


@pytest.mark.parametrize(
    ("settings", "window_bytes", "cause"),
    [((), 12.5e6, "delays"), (("transport.buffer=4MiB",), 2 / 3 * (4 << 20), "windows")],
    ids=["default", "4 MiB"],
)
def test_windows_follow_delays_unless_the_scenario_chooses_them(
    settings: tuple[str, ...], window_bytes: float, cause: str, tmp_path: Path
) -> None:
    """Of each message a window leaves at the line's rate, and the rest a window per round trip; and who is to blame is told."""
    far = {"kind": "delay", "link": "h1", "delay": "1ms", "iteration": 0}
    ran = run(tmp_path, far, "fabric.rate=25gbit", *settings, more=FAR)
    assert ran.verdict == "valid"
    line_bytes_per_s = 25e9 / 8 * 1448 / 1538
    at_once_bytes = min(window_bytes, 10e6)
    message_s = at_once_bytes / line_bytes_per_s + (10e6 - at_once_bytes) / (window_bytes / 4e-3) + 2e-3
    barrier_s = 2 * 2e-3
    assert np.mean(ran.times_s[1:]) == pytest.approx(COMPUTE_S + 6 * message_s + barrier_s, rel=0.1)
    (row,) = read_csv(tmp_path / "run" / "points.csv")
    assert row["fluid_cause"] == cause
    assert ("a larger transport.buffer" in " ".join(ran.shown.split())) == bool(settings)
    (check,) = [each for each in ran.stored.last_verdict().checks if each.name == "windows"]
    assert ("transport.buffer" in check.value) == bool(settings)


@pytest.mark.parametrize("strategy", ["kvstore", "p3", "multicast-ps", "aggregation-ps"])
def test_strategies_of_every_kind_get_over_a_link_that_was_down(strategy: str, tmp_path: Path) -> None:
    fault = {"kind": "link-down", "link": "h2", "at": "30ms", "duration": "50ms"}
    ran = run(tmp_path, fault, f"strategy.name={strategy}")
    assert ran.verdict == "valid"
    assert 0.01 < ran.times_s[2] + ran.times_s[3] - 2 * ran.times_s[1] < 3.0


@pytest.mark.parametrize("agents", ["one", "per-host"])
def test_a_worker_that_dies_ends_the_run_by_name(agents: str, tmp_path: Path) -> None:
    ran = run(tmp_path, {"kind": "dead-worker", "worker": 1, "at": "30ms"}, f"transport.agents={agents}")
    assert ran.verdict.startswith("invalid: EndedByFault: ")
    assert "waits for fc/0" in ran.verdict
    assert tells(ran.verdict, "faults: fault.x", "worker 1 dies")
    assert tells(ran.verdict, "rank 1 died", "0.17", "iteration 2", "(fault.x); rank")


def test_a_link_that_stays_down_ends_the_run_when_nothing_moves(tmp_path: Path) -> None:
    ran = run(tmp_path, {"kind": "link-down", "link": "h2", "at": "30ms"}, "run.stall_limit=10s")
    assert tells(ran.verdict, "invalid: EndedByFault:", "10 s (run.stall_limit)", "since 0.1")
    assert tells(ran.verdict, "rank 2 waits", "fc/0", "rank 1", "iteration 2")
    assert tells(ran.verdict, "fault.x", "h2 is down", "0.1")
