"""What the benchmarks ask of scenarios, without running anything."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import benchmarks
from benchmarks import deepep, htsim_cases, lossless, soak, start_up, transports
from benchmarks.fitting import fit_compute_time, fit_late_share
from benchmarks.performance import page
from benchmarks.performance.cost import Cost, Figures, Spread
from gradwire.network.fabric import Fabric
from gradwire.scenario.loading import load_scenario, scenario_of
from gradwire.scenario.resolution.compilation import compile_point
from gradwire.scenario.sections.fault import NEEDS
from tests.shared.parts import tells

BENCHMARKS = Path(benchmarks.__file__).parent


def test_the_table_names_every_script_and_nothing_else() -> None:
    cells = re.findall(r"^\| (.*?) \|", (BENCHMARKS / "README.md").read_text(), re.MULTILINE)[1:]
    named = {name for cell in cells for name in re.findall(r"`([\w./]+)`", cell)}
    sources = {path: path.read_text() for path in BENCHMARKS.rglob("*.py")}
    scripts = [path.relative_to(BENCHMARKS) for path, text in sources.items() if "__main__" in text or "argv" in text]
    assert [name for name in named if not (BENCHMARKS / name).exists()] == []
    assert [str(path) for path in scripts if not {str(path), f"{path.parts[0]}/"} & named] == []


@pytest.mark.parametrize("seconds", [0.846, 0.846 * 1.01, 1e-5, 2.65])
def test_a_fitted_time_is_the_points_time(seconds: float) -> None:
    settings = ["model.name=alexnet", "strategy.name=vanilla", "costs.aggregation_rate.value=4GB/s"]
    time = fit_compute_time.iteration_time(seconds)
    (point,) = load_scenario(BENCHMARKS.parent / "scenarios" / "geryon-table2.toml", [*settings, time]).points
    assert compile_point(point.section).job.compute.iteration_s == pytest.approx(seconds)


def test_orders_of_neighbours_have_more_outcomes_with_more_noise() -> None:
    none, little, much = (
        fit_late_share.counts(fit_late_share.neighbours, spread, 8, 1)[0] for spread in (0.0, 0.4, 9.0)
    )
    assert none == 1 < little < much
    line = fit_late_share.line("x", lambda tensors, _, seed: list(range(tensors)), 0.5)
    assert tells(line, "x 0.5:", "vgg16 1 +-", "493)", "resnet50-v2 1 +-", "1000)")


def test_a_soak_has_every_kind_of_fault_that_does_not_end_a_run() -> None:
    drawn = soak.faults(50, 1000, 1)
    assert drawn == soak.faults(50, 1000, 1)
    assert {fault["kind"] for fault in drawn.values()} == set(NEEDS) - {"dead-worker"}
    (point,) = scenario_of(soak.scenario("ring", 1000, drawn)).points
    assert not compile_point(point.section).fabric.is_lossless


def test_the_page_of_costs_says_what_was_measured_and_keeps_its_words() -> None:
    spread = Spread.of([2.0, 1.0, 4.0])
    figures = Figures("a machine", start_up=[Cost("8 hosts", spread, Spread.of([0.5]), 0.0, 0)])
    table = "|  | wall (s) | CPU (s) |\n| --- | --- | --- |\n| 8 hosts | 2 (1–4) | 0.5 |"
    text = "Before.\n<!-- start-up -->\nold\n<!-- end -->\nAfter.\n"
    once = page.written(text, figures)
    assert once == f"Before.\n<!-- start-up -->\n{table}\n<!-- end -->\nAfter.\n"
    assert page.written(once, figures) == once


def test_the_words_of_the_page_of_costs_have_a_place_for_every_part() -> None:
    words = page.WORDS.read_text(encoding="utf-8")
    assert all(f"<!-- {part} -->" in words for part in page.PARTS)
    assert "a machine" in page.written(words, Figures("a machine"))


@pytest.mark.parametrize(("hosts", "leaves"), [(8, 1), (64, 2), (512, 16)])
def test_start_up_is_measured_on_as_many_hosts_as_asked(hosts: int, leaves: int) -> None:
    (point,) = scenario_of(start_up.scenario(hosts)).points
    assert (point.section.cluster.workers, point.section.fabric.leaves) == (hosts, leaves)


def test_start_up_takes_the_fastest_round_of_each_stage() -> None:
    rounds = [dict.fromkeys(start_up.STAGES.values(), (2.0, 1.0)) for _ in range(2)]
    rounds[1]["boot"] = (1.0, 0.5)
    assert tells(start_up.line(8, rounds), "8 hosts:", "2.50 s", "5.00 s", "(boot 0.50")


@pytest.mark.parametrize(
    ("text", "ports", "bandwidth_gbps", "failed"),
    [
        ("incast=94gbit:1%", 8, 93.1, False),
        ("incast=94gbit:1%", 8, 93.0, True),
        ("incast=94gbit:1%", 16, 93.0, True),
        ("16/incast=94gbit", 16, 93.9, True),
        ("16/incast=94gbit", 8, 93.9, False),
        ("ring=94gbit", 8, 1.0, False),
    ],
)
def test_an_expected_bandwidth_is_that_of_its_case_and_network(
    text: str, ports: int, bandwidth_gbps: float, failed: bool
) -> None:
    row = lossless.Row("incast", 1e-3, 1e-3, bandwidth_gbps * 1e9, 0, 0.0, 0, 0.0, 0, 0, all_ended=True, ports=ports)
    assert lossless.expectation_of(text).failed(row) == failed


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("incast", "must be [PORTS/]CASE=RATE"),
        ("outcast=1gbit", "cases are incast, all-to-all, ring"),
        ("4/ring=1gbit", "those of 8 and 16"),
        ("ring=fast", "fast"),
    ],
)
def test_what_is_expected_of_nothing_is_refused(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        lossless.expectation_of(text)


def test_theories_of_windows_by_round_trips() -> None:
    assert transports.swift_target_s(4e-6, 100) == pytest.approx(29e-6)
    assert transports.swift_target_s(4e-6, 0.05) == pytest.approx(129e-6)
    fabric = Fabric(9, 100e9, delay_s=1e-6, ecn_bytes=25_000, mtu_bytes=transports.MTU_BYTES, gso_bytes=4162)
    assert 25e-6 < transports.swift_queue_s(fabric, 2) < transports.swift_queue_s(fabric, 32) < 125e-6
    assert transports.nscc_queue_s(fabric, 1) == pytest.approx(2e-6)
    assert transports.nscc_queue_s(fabric, 8) == pytest.approx(4e-6)
    assert transports.nscc_queue_s(fabric, 64) == pytest.approx(64 * 4186 * 8 / 100e9 - 4e-6)


def test_connection_matrices_are_read_where_all_flows_begin_at_once(tmp_path: Path) -> None:
    path = tmp_path / "two.cm"
    path.write_text("Nodes 16\nConnections 2\n0->15 start 0 size 2000000\n7->5 id 1 start 0 size 10\n")
    assert [(each.src, each.dst, each.size_bytes) for each in htsim_cases.transfers_of(path)] == [
        (0, 15, 2000000),
        (7, 5, 10),
    ]
    path.write_text("0->15 trigger 1 size 2000000\n")
    with pytest.raises(ValueError, match="do not begin at 0"):
        htsim_cases.transfers_of(path)


def test_what_deepep_sends_over_the_network() -> None:
    straight = deepep.Exchange("low-latency", 16, deepep.FP8_BYTES).transfers()
    assert sum(each.size_bytes for each in straight if each.src == 3) == 128 * 8 // 2 * deepep.FP8_BYTES
    by_server = deepep.Exchange("normal", 64, deepep.FP8_BYTES).transfers()
    assert {each.dst % deepep.GPUS for each in by_server if each.src == 3} == {3}
    assert len(by_server) == 64 * 7
