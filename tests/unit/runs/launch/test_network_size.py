"""The network of a scenario, or of a size on the command line, and what both refuse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric, Topology
from gradwire.runs.launch.network_size import NetworkOptions, bench_of, chosen_hosts, memory_mb, seconds
from tests.shared.parts import in_order

SCENARIO = """
title = "A test"
[cluster]
workers = 4
[fabric]
rate = "25gbit"
[model]
name = "alexnet"
device = "k40"
[strategy]
name = "ring"
[run]
memory_mb = 4096
time_limit = "1min"
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SCENARIO)
    return path


def test_a_size_on_the_command_line_is_a_switch_or_two_leaves_and_two_spines() -> None:
    plain = bench_of(NetworkOptions(workers=8, rate="100gbit")).fabric
    assert (plain.hosts, plain.rate_bps, plain.topology) == (8, 100e9, Topology.SINGLE_SWITCH)
    nested = bench_of(NetworkOptions(workers=8, rate="100gbit", oversubscription=2.0)).fabric
    assert (nested.leaves, nested.spines, nested.uplink_rate_bps) == (2, 2, 100e9)


@pytest.mark.parametrize("more", [{}, {"leaf_spine": True}, {"oversubscription": 4.0}, {"rdma": "rxe"}], ids=str)
def test_keys_of_a_scenario_change_the_network_of_a_size_and_nothing_else(more: Mapping[str, Any]) -> None:
    plain = bench_of(NetworkOptions(workers=8, rate="100gbit", **more))
    far = bench_of(NetworkOptions(workers=8, rate="100gbit", settings=("fabric.delay=1ms",), **more))
    assert far.fabric == replace(plain.fabric, delay_s=1e-3)
    assert (far.name, far.memory_mb, far.wall_limit_s) == (plain.name, plain.memory_mb, plain.wall_limit_s)


def test_a_size_that_keys_change_has_the_name_of_what_it_became() -> None:
    changed = bench_of(NetworkOptions(workers=8, rate="100gbit", settings=("fabric.rate=25gbit", "cluster.workers=4")))
    assert (changed.name, changed.fabric.hosts, changed.fabric.rate_bps) == ("4-25gbit", 4, 25e9)


def test_a_scenario_gives_its_network_and_its_limits(scenario: Path) -> None:
    bench = bench_of(NetworkOptions(scenario))
    assert (bench.fabric.hosts, bench.fabric.rate_bps) == (4, 25e9)
    assert (bench.memory_mb, bench.wall_limit_s) == (4096, 60)
    assert bench_of(NetworkOptions(scenario, ("fabric.rate=10gbit",))).fabric.rate_bps == 10e9


def test_strategies_make_no_difference_to_the_network(scenario: Path) -> None:
    assert bench_of(NetworkOptions(scenario, ('strategy.name=["ring","geryon","aggregation-ps"]',))).fabric.hosts == 4


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (NetworkOptions(), "Give a scenario, or --workers and --rate"),
        (NetworkOptions(workers=2), "Give a scenario, or --workers and --rate"),
        (NetworkOptions(workers=2, rate="fast"), "--rate fast: must be a rate"),
        (NetworkOptions(workers=2, rate="1bit"), "--rate 1bit: must be"),
        (NetworkOptions(workers=3, rate="10gbit", leaf_spine=True), "must divide the workers"),
        (NetworkOptions(workers=2, rate="10gbit", settings=("fabric.rat=1gbit",)), "^--set: fabric.rat: unknown"),
        (NetworkOptions(workers=5000, rate="10gbit"), "--workers 5000: must be 1 to 1024"),
        (NetworkOptions(workers=2, rate="10gbit", settings=('fabric.delay=["1us","1ms"]',)), "2 different networks"),
        (NetworkOptions(Path("no-such-scenario")), "no such file"),
    ],
)
def test_a_size_that_says_too_little_or_what_cannot_be_is_refused(size: NetworkOptions, said: str) -> None:
    with pytest.raises(InputFault, match=said):
        bench_of(size)


def test_a_scenario_with_several_networks_or_beside_a_size_is_refused(scenario: Path) -> None:
    with pytest.raises(InputFault, match=in_order("2 different networks", "10gbit, 25gbit", "--set")):
        bench_of(NetworkOptions(scenario, ('fabric.rate=["10gbit","25gbit"]',)))
    with pytest.raises(InputFault, match="the scenario says"):
        bench_of(NetworkOptions(scenario, workers=2))


def test_more_than_the_clock_carries_is_warned_of() -> None:
    assert bench_of(NetworkOptions(workers=33, rate="100gbit")).warnings() == []
    (warning,) = bench_of(NetworkOptions(workers=34, rate="100gbit")).warnings()
    assert "3400gbit" in warning


def test_hosts_are_chosen_by_name_in_the_order_given() -> None:
    fabric = Fabric(4, 10e9)
    assert chosen_hosts(fabric, "all") == [0, 1, 2, 3]
    assert chosen_hosts(fabric, "h4, h1") == [3, 0]
    for wrong, said in (("h0", "no host is called 'h0'"), ("", "once"), ("h1,h1", "once"), ("s1", "'s1'")):
        with pytest.raises(InputFault, match=said):
            chosen_hosts(fabric, wrong)


def test_memory_and_times_have_units() -> None:
    assert [memory_mb(text) for text in ("8G", "8GiB", "1024MiB", "600M")] == [8192, 8192, 1024, 600]
    assert seconds("--time-limit", "5min") == 300
    for wrong in ("8", "8 bits", "100M"):
        with pytest.raises(InputFault, match="--memory"):
            memory_mb(wrong)
    for wrong in ("5", "0s", "soon"):
        with pytest.raises(InputFault, match="--time-limit"):
            seconds("--time-limit", wrong)
