"""Use of a line by hand-made packets: nothing is lost or moved between bins, and idle, overlap and computation are what they say."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradwire.analysis.packets.capture_files import CapturedPackets
from gradwire.analysis.packets.line_use import (
    by_iteration,
    compute_share,
    received_while_idle,
    summary,
    utilisation,
)
from gradwire.analysis.report.charts import save_chart
from gradwire.analysis.report.utilisation import utilisation_chart, write_utilisation
from gradwire.datatypes.plan import Plan, Role
from gradwire.datatypes.records import OpLog
from gradwire.faults import InputFault
from gradwire.workloads.builder import PlanBuilder
from tests.shared.examples import examples
from tests.shared.parts import in_order

RATE_BPS = 1e9
MS = 1_000_000


def packets(rows: list[tuple[int, int, bool]]) -> CapturedPackets:
    """From (time in ns, bytes on the line, outbound); a packet is one frame."""
    time_ns, line_bytes, outbound = (np.array(column) for column in zip(*rows, strict=True))
    count = len(rows)
    return CapturedPackets(
        time_ns.astype(np.int64),
        outbound.astype(np.bool_),
        np.ones(count, np.int64),
        np.ones(count, np.int64),
        line_bytes.astype(np.int64) - 24,
        np.zeros(count, np.int64),
    )


def test_a_burst_is_spread_over_the_time_that_its_line_takes() -> None:
    """25,000 bytes take 0.2 ms of a 1 Gbit/s line: half before 1 ms and half after."""
    used = utilisation(packets([(900_000, 25_000, True), (2 * MS, 12_500, False)]), RATE_BPS, 0, 0.004, 0.001)
    np.testing.assert_allclose(used.outbound_bps, [1e8, 1e8, 0, 0], rtol=1e-6, atol=1)
    np.testing.assert_allclose(used.inbound_bps, [0, 0, 1e8, 0], rtol=1e-6, atol=1)
    np.testing.assert_allclose(used.edges_s, [0, 0.001, 0.002, 0.003, 0.004])


def test_without_a_rate_bytes_count_when_they_pass() -> None:
    used = utilisation(packets([(900_000, 25_000, True)]), math.inf, 0, 0.002, 0.001)
    np.testing.assert_allclose(used.outbound_bps, [2e8, 0])


rows = st.lists(st.tuples(st.integers(0, 50 * MS), st.integers(64, 70_000), st.booleans()), min_size=1, max_size=60)


@settings(max_examples=examples(100))
@given(rows, st.sampled_from([0.001, 0.0037, 0.01]))
def test_no_bit_is_lost_between_bins(taken: list[tuple[int, int, bool]], bin_s: float) -> None:
    some = packets(taken)
    used = utilisation(some, RATE_BPS, 0, 0.1, bin_s)
    for way, values in ((some.outbound, used.outbound_bps), (~some.outbound, used.inbound_bps)):
        assert (values > -1e-3 * RATE_BPS).all()
        within = 8 * int(some.line_bytes[way].sum())
        if used.edges_s[-1] > 0.051:
            assert float(values.sum()) * bin_s == pytest.approx(within, rel=1e-6, abs=10)
    whole = utilisation(some, RATE_BPS, 0, 0.1, 0.1)
    assert whole.inbound_bps[0] * 0.1 == pytest.approx(8 * int(some.line_bytes[~some.outbound].sum()), abs=10)
    assert whole.outbound_bps[0] * 0.1 == pytest.approx(8 * int(some.line_bytes[some.outbound].sum()), abs=10)


def trains(*busy: tuple[int, int, bool]) -> CapturedPackets:
    """Lines that are full from one millisecond to another, 12,500 bytes every 0.1 ms."""
    return packets([(at * MS // 10, 12_500, way) for first, after, way in busy for at in range(10 * first, 10 * after)])


def test_directions_that_take_turns_do_not_overlap() -> None:
    whole = summary(utilisation(trains((0, 20, True), (20, 40, False)), RATE_BPS, 0, 0.08))
    assert whole.overlap == pytest.approx(0, abs=1e-6)
    assert whole.outbound.mean == pytest.approx(0.25)
    assert whole.outbound.idle == pytest.approx(0.75)
    assert whole.both_idle == pytest.approx(0.5)
    assert whole.inbound.busiest == pytest.approx(1.0)


def test_directions_that_go_together_overlap() -> None:
    whole = summary(utilisation(trains((0, 20, True), (0, 20, False)), RATE_BPS, 0, 0.04))
    assert whole.overlap == pytest.approx(1.0)
    assert whole.both_idle == 0.5
    only = summary(utilisation(trains((0, 20, True)), RATE_BPS, 0, 0.04))
    assert (only.overlap, only.inbound.idle) == (0.0, 1.0)


def test_a_bin_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InputFault, match=in_order("no bin", "0.01 s")):
        utilisation(trains((0, 1, True)), RATE_BPS, 0, 0.009)


def test_iterations_are_summed_up_each_from_its_own_begin() -> None:
    some = trains((0, 10, True), (25, 45, True))
    first, second = by_iteration(some, RATE_BPS, np.array([0, 25 * MS, 50 * MS]), 0.005)
    assert first.outbound.mean == pytest.approx(0.4)
    assert second.outbound.mean == pytest.approx(0.8)
    assert second.outbound.idle == pytest.approx(0.2)


def computing() -> tuple[Plan, OpLog]:
    """Two workers: rank 0 computes from 0 to 20 ms, rank 1 from 10 to 20 ms; each then adds up for 10 ms."""
    builder = PlanBuilder("computing")
    ops = []
    for host in (0, 1):
        worker = builder.rank(Role.WORKER, host)
        compute = builder.compute(worker, 0.02)
        added = builder.reduce(worker, 1000, 1e5)
        builder.depend(added, compute)
        builder.iteration(worker, compute, added)
        ops += [compute, added]
    plan = builder.build(compute_s=0.02, samples=1)
    start, end = np.array([0, 20, 10, 20]) * MS, np.array([20, 30, 20, 30]) * MS
    return plan, OpLog(np.zeros(4, np.int64), np.array(ops), start, start, end)


def test_computation_is_the_mean_over_ranks() -> None:
    plan, log = computing()
    edges_s = np.array([0, 0.01, 0.02, 0.03])
    np.testing.assert_allclose(compute_share(plan, log, [0], edges_s), [1, 1, 0], atol=1e-9)
    np.testing.assert_allclose(compute_share(plan, log, [0, 1], edges_s), [0.5, 1, 0], atol=1e-9)


def test_traffic_that_comes_while_the_gpu_idles() -> None:
    """30 ms of inbound traffic, of which rank 0 computes 20."""
    plan, log = computing()
    used = utilisation(trains((0, 30, False)), RATE_BPS, 0, 0.04)
    assert received_while_idle(used, compute_share(plan, log, [0], used.edges_s)) == pytest.approx(1 / 3)
    nothing = utilisation(trains((0, 30, True)), RATE_BPS, 0, 0.04)
    assert received_while_idle(nothing, compute_share(plan, log, [0], nothing.edges_s)) == 0


def test_chart_and_bins_are_written(tmp_path: Path) -> None:
    plan, log = computing()
    used = utilisation(trains((0, 20, True), (10, 30, False)), RATE_BPS, 0, 0.04)
    compute = compute_share(plan, log, [0], used.edges_s)
    edges_ns = np.array([0, 20 * MS, 40 * MS])
    figure = utilisation_chart(used, compute, edges_ns, "P3: h1-eth0")
    assert [axes.get_ylabel() for axes in figure.axes] == ["Outbound\n(Gbit/s)", "Inbound\n(Gbit/s)", "GPU (%)"]
    assert len(utilisation_chart(used, None, edges_ns, "x").axes) == 2
    save_chart(figure, tmp_path, "use", dpi=50)
    assert {path.name for path in tmp_path.iterdir()} == {"use.png", "use.svg"}
    write_utilisation(tmp_path / "use.csv", used, compute)
    with (tmp_path / "use.csv").open() as file:
        found = list(csv.DictReader(file))
    assert [float(row["outbound_bps"]) for row in found] == pytest.approx(list(used.outbound_bps), abs=1)
    assert [float(row["gpu_share"]) for row in found] == pytest.approx([1, 1, 0, 0])
