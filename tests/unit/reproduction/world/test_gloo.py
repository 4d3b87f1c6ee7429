"""Rows of real Gloo as scenarios of programs."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from gradwire.datatypes.host_tcp import HostTcp
from gradwire.scenario.loading import Origin
from gradwire.scenario.program_scenarios import ProgramPoint, resolved_scenario
from reproduction.world.gloo import GIVEN, PAUSE_S, Predicted, Row, predicted, rows_of, scenario, table

FAR = Row("all-reduce", 128, 4, "delay 10 ms, rate 1 Gbit/s", 2000.0)


def given() -> list[Row]:
    with GIVEN.open(newline="") as lines:
        return rows_of(csv.DictReader(lines))


def test_every_printed_row_of_gloo_is_a_scenario_with_the_sources_netem() -> None:
    rows = given()
    assert len(rows) == 16
    assert [row.hosts for row in rows] == sorted(row.hosts for row in rows)
    netems = {(row.setting, row.netem) for row in rows}
    assert netems == {
        ("default", "none"),
        ("delay 10 ms", "delay 10ms limit 1000"),
        ("rate 5 Gbit/s", "rate 5gbit limit 1000"),
        ("delay 1 ms, rate 5 Gbit/s", "delay 1ms rate 5gbit limit 625"),
        ("delay 5 ms, rate 2 Gbit/s", "delay 5ms rate 2gbit limit 1250"),
        ("delay 10 ms, rate 1 Gbit/s", "delay 10ms rate 1gbit limit 1250"),
    }
    assert len({row.name for row in rows}) == len(rows)


def test_a_row_is_stock_hosts_with_the_clouds_limits() -> None:
    document = scenario(FAR, "python3", 6, "stock-before-6.6")
    (point,) = resolved_scenario(document, Origin("test.toml", "test", None)).points
    assert isinstance(point, ProgramPoint)
    fabric = point.fabric
    assert (fabric.hosts, fabric.host_tcp, fabric.mtu_bytes) == (4, HostTcp.STOCK_BEFORE_6_6, 9001)
    assert 4 * fabric.delay_s == pytest.approx(1e-4)
    assert fabric.flow_rate_bps == pytest.approx(5.05e9)


def test_one_row_is_fitted_and_marked() -> None:
    rows = given()
    (fitted,) = [row for row in rows if row.is_fitted]
    marked = [line for line in table([Predicted(row, (1.0, 1.0), "valid") for row in rows]) if " *" in line]
    assert len(marked) == 1
    assert marked[0].startswith("p2p, 64 MiB, 2 hosts, delay 10 ms *")
    assert fitted.netem == "delay 10ms limit 1000"
    document = scenario(fitted, "python3", 6, "stock")
    assert document["program"]["gloo"]["arguments"]["pause_s"] == PAUSE_S  # type: ignore[index]


def test_words_that_nobody_knows_are_refused() -> None:
    with pytest.raises(ValueError, match="must be a delay, a rate, or both"):
        _ = Row("p2p", 64, 2, "loss 1 %", 1.0).netem


def test_the_first_call_is_shown_alone(tmp_path: Path) -> None:
    (tmp_path / "figures.csv").write_text("call,time_s\n1,2.0\n0,3.0\n2,2.2\n")
    (tmp_path / "points.csv").write_text("verdict\nvalid\n")
    found = predicted(FAR, tmp_path)
    assert found.calls_s == (3.0, 2.0, 2.2)
    assert found.ratio == pytest.approx(1.05)
    assert "3000    2100  1.050  valid" in list(table([found]))[1]
