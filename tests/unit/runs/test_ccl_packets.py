"""What `gradwire ccl --packets` runs, and what it says of the rest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gradwire.faults import InternalFault
from gradwire.runs.ccl import Row, kind_of, rows
from gradwire.runs.ccl_machines import CclOptions, set_up
from gradwire.runs.ccl_packets import read_points, scenario_of, why_not
from gradwire.runs.estimation import estimate_points
from gradwire.scenario.loading import scenario_of as loaded
from gradwire.workloads.engines.nccl.chooser import KINDS
from gradwire.workloads.engines.nccl.grouped import GroupedCall
from gradwire.workloads.units import RATE
from tests.shared.ccl_given import USUAL
from tests.shared.parts import in_order, tells

GIVEN = replace(USUAL, machines=2, gpus=2, gpu="a100", nic="100gbit", nics=1, transport="tcp", delay="10us")


def table(given: CclOptions, kind: str, *sizes: int) -> list[Row]:
    comm, wires, _ = set_up(given)
    return list(rows(comm, wires, kind_of(kind), sizes, 4))


@pytest.mark.parametrize("kind", [kind.value for kind in KINDS])
def test_plans_of_packets_take_what_the_table_says(kind: str) -> None:
    _, wires, _ = set_up(GIVEN)
    found = table(GIVEN, kind, 4096, 16 << 20)
    points = loaded(scenario_of(GIVEN, wires, found)).points
    for row, estimated in zip(found, estimate_points(points, 1), strict=True):
        # Calls follow one another without a barrier, so that a rank that has its part early begins the next one.
        assert row.time_s * 0.8 < estimated.iteration_time_s < row.time_s * 1.02


def test_packets_have_the_rate_that_hosts_have() -> None:
    """Sockets hand a NIC of 200 Gbit/s 64 KiB every 5.18 us; one of 100 Gbit/s is slower than that."""
    for nic, line_gbps in (("100gbit", 100.0), ("200gbit", 65536 * 8 / 5.18e3 / ((9000 - 52) / (9000 + 38)))):
        given = replace(GIVEN, nic=nic)
        _, wires, _ = set_up(given)
        rate_bps = RATE.parse(scenario_of(given, wires, table(given, "all-reduce", 8))["fabric"]["rate"])
        assert rate_bps / 1e9 == pytest.approx(line_gbps, rel=1e-3)


def test_what_is_too_large_is_not_run() -> None:
    small, large = table(GIVEN, "all-reduce", 8, 1 << 34)
    assert why_not(GIVEN, small) == ""
    for given, row, parts in (
        (GIVEN, large, ["206 GB", "4"]),
        (replace(GIVEN, machines=1), small, ["one machine"]),
        (replace(GIVEN, nics=3), small, ["3 NICs", "2 GPUs"]),
        (replace(GIVEN, burst_cost="5us"), small, ["--burst-cost"]),
        (GIVEN, replace(small, ranks=128), ["128 GPUs", "64"]),
        (GIVEN, replace(small, kind=GroupedCall.ALL_TO_ALL), ["sends and receives"]),
    ):
        assert tells(why_not(given, row), *parts)


def test_what_the_plugin_of_efa_chooses_is_not_run_as_something_else() -> None:
    efa = replace(USUAL, machines=4, gpu="b200", version="2.27", transport="efa", nic="400gbit")
    small, large = table(efa, "all-reduce", 8, 64 << 20)
    assert why_not(efa, small) == ""
    assert "without the plugin" in why_not(efa, large)


def test_runs_that_are_not_valid_have_no_time(tmp_path: Path) -> None:
    found = table(GIVEN, "all-reduce", 8, 1024)
    (tmp_path / "points.csv").write_text("iteration_time_s,verdict\n0.001,valid\n0.002,invalid: drops\n")
    sent = read_points(tmp_path, found)
    assert (sent[8].time_s, sent[8].verdict) == (0.001, "valid")
    assert (sent[1024].time_s, sent[1024].verdict) == (None, "invalid: drops")
    with pytest.raises(InternalFault, match=in_order("2 points", "1 calls")):
        read_points(tmp_path, found[:1])
