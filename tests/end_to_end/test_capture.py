"""A user's captured run: every message is in the packets, by gradwire's reader and in Wireshark, and capturing changes no time."""

from __future__ import annotations

import csv
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scapy.layers.inet import TCP, UDP
from scapy.utils import PcapNgReader

from gradwire.analysis.bounds import transfers
from gradwire.analysis.iterations import worker_periods_s, worker_times_s
from gradwire.analysis.packets.capture_files import read_capture
from gradwire.analysis.packets.captures import slices_of
from gradwire.analysis.points import PointResult
from gradwire.datatypes.plan import Combine, OpKind, Plan
from gradwire.datatypes.records import OpLog, PointRecord
from gradwire.inside.point_protocol import read_json
from tests.shared.commands import gradwire_command
from tests.shared.dissected import dissected, is_outbound, messages
from tests.shared.parts import tells
from tests.shared.points_csv import read_points_csv

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

SCENARIO = """
title = "captured"

[cluster]
workers = 4

[fabric]
rate = "10gbit"

[model]
name = "inception-v1"
device = "k80"
iteration_time = "80ms"

[strategy]
name = "p3"

[run]
iterations = 2
"""
P3, MULTICAST = "p3", "multicast-ps"
PORTS = ("h1-eth0", "s1-eth2")


@dataclass(frozen=True)
class Run:
    """A run folder, with one point a strategy."""

    out: Path
    rows: dict[str, PointResult]

    def folder(self, strategy: str) -> Path:
        (found,) = (path for path in (self.out / "points").iterdir() if f"_{strategy}_" in f"_{path.name}")
        return found

    def plan(self, strategy: str) -> Plan:
        return Plan.load(self.folder(strategy) / "plan-0.npz")


def gradwire(*arguments: str) -> str:
    done = gradwire_command(*arguments, limit_s=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run(folder: Path, *settings: str) -> Run:
    scenario, out = folder / "captured.toml", folder / "run"
    scenario.write_text(SCENARIO)
    gradwire("run", str(scenario), "--out", str(out), "--jobs", "1", *(word for s in settings for word in ("--set", s)))
    return Run(out, {row.parameters["strategy"]: row for row in read_points_csv(out / "points.csv")})


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("captured")
    return run(folder, f"run.capture={','.join(PORTS)}", f'strategy.name=["{P3}", "{MULTICAST}"]')


@pytest.mark.parametrize("strategy", [P3, MULTICAST])
def test_packets_plan_logs_and_counters_agree(captured: Run, strategy: str) -> None:
    assert captured.rows[strategy].valid, captured.rows[strategy].verdict
    checks = {
        check["name"]: check for check in json.loads((captured.folder(strategy) / "verdict.json").read_text())["checks"]
    }
    for name in ("capture", "captured bytes", "captured messages", "captured payload", "iterations from packets"):
        assert checks[name]["ok"], checks[name]
    record = read_json(captured.folder(strategy) / "record.json", PointRecord)
    assert [(about.port, about.dropped) for about in record.captures] == [(port, 0) for port in PORTS]
    assert all(about.packets == about.seen > 1000 for about in record.captures)


@pytest.mark.parametrize("strategy", [P3, MULTICAST])
def test_iteration_times_by_packets_alone_are_the_agents(captured: Run, strategy: str) -> None:
    """The worker on h1, whose port was captured, in every iteration that has one before it."""
    plan, folder = captured.plan(strategy), captured.folder(strategy)
    record, log = read_json(folder / "record.json", PointRecord), OpLog.load(folder / "ops.npz")
    messages = read_capture(folder / "capture" / "h1-eth0.pcapng", 1500, start_ns=record.capture_start_ns).messages
    worker = plan.workers[plan.rank_host[plan.workers] == 0]
    by_packets_s = worker_periods_s(messages, worker, record.iterations)
    by_agent_s = worker_times_s(plan, log, record.iterations)[1:, np.searchsorted(plan.workers, worker)]
    assert by_packets_s.shape == (2, 1)
    np.testing.assert_allclose(by_packets_s, by_agent_s, rtol=0.01)


def expected(plan: Plan, endpoint: int, iterations: int, *, outbound: bool) -> Counter[tuple[bool, int, int]]:
    """(way, iteration, message) of everything that leaves a host, or reaches it."""
    moved = transfers(plan)
    ops = np.unique(moved.op[(moved.src if outbound else moved.dst) == endpoint]).tolist()
    return Counter((outbound, iteration, op) for iteration in range(iterations) for op in ops)


@pytest.mark.parametrize("strategy", [P3, MULTICAST])
@pytest.mark.parametrize(("port", "endpoint", "is_near"), [("h1-eth0", 0, True), ("s1-eth2", 1, False)])
def test_wireshark_names_every_message_once(
    captured: Run, strategy: str, port: str, endpoint: int, is_near: bool
) -> None:
    plan, folder = captured.plan(strategy), captured.folder(strategy) / "capture"
    found = messages(dissected(folder / f"{port}.pcapng", folder / "gradwire.lua"))
    seen = Counter((is_outbound(f) == is_near, int(f["iteration"]), int(f["message"])) for f in found)
    assert seen == sum((expected(plan, endpoint, 3, outbound=way) for way in (True, False)), Counter())
    ops, slices = plan.ops, slices_of(plan)
    combines = {int(ops.message[op]): int(ops.combine[op]) for op in np.flatnonzero(ops.kind == OpKind.RECV)}
    for fields in found:
        op, chunk = int(fields["message"]), int(fields["chunk"])
        assert chunk == ops.chunk[op]
        assert int(fields["payload_bytes"]) == ops.size_bytes[op]
        assert int(fields["src_rank"]) == ops.rank[op]
        assert int(fields["dst_rank"]) == ops.peer[op]
        assert int(fields["class"]) == ops.traffic_class[op]
        assert int(fields["combine"]) == combines[op]
        if chunk >= 0:
            assert fields["tensor_name"] == plan.tensors[plan.chunk_tensor[chunk]]
            assert (int(fields["slice"]), int(fields["slices"])) == slices[chunk]
            whole = combines[op] == Combine.COPY
            assert int(fields["workers"]) == (4 if whole else 1)


def test_scapy_reads_what_is_written(captured: Run) -> None:
    """As a user would: packet by packet, with scapy's own dissection."""
    kinds = Counter[type]()
    with PcapNgReader(str(captured.folder(MULTICAST) / "capture" / "h1-eth0.pcapng")) as packets:
        for packet in packets:
            kinds.update(kind for kind in (TCP, UDP) if kind in packet)
            assert packet.sniffed_on == "h1-eth0"
            assert packet.direction in (1, 2)
    assert min(kinds.values()) > 100


def test_the_use_of_the_port_is_charted(captured: Run) -> None:
    said = gradwire("utilisation", str(captured.out), P3, "--bin-ms", "1")
    assert tells(said, "out 1.0000", "in 1.0000")  # line bytes by packets over those by counters
    folder = captured.folder(P3)
    for end in ("png", "svg", "csv"):
        assert (folder / f"utilisation-h1-eth0.{end}").stat().st_size > 0
    with (folder / "utilisation-h1-eth0.csv").open() as file:
        rows = list(csv.DictReader(file))
    outbound_bps = np.array([float(row["outbound_bps"]) for row in rows])
    assert 0.15e9 * 10 < outbound_bps.mean() < 10e9
    assert outbound_bps.max() < 10.1e9
    assert {row["gpu_share"] for row in rows} >= {"1.0000"}  # computation is longer than the network needs


def test_capturing_changes_no_time(captured: Run, tmp_path: Path) -> None:
    plain = run(tmp_path)
    assert not (plain.folder(P3) / "capture").exists()
    assert captured.rows[P3].iteration_time_s == pytest.approx(plain.rows[P3].iteration_time_s, rel=0.001)
