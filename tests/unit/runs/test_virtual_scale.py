"""Networks whose hosts together send more than the virtual clock carries are scaled down, and users are told."""

from __future__ import annotations

import pytest

from gradwire.documents import Document
from gradwire.network.fabric import Fabric
from gradwire.runs.planned import scale_warning, virtual_clock
from gradwire.scenario.loading import Point, resolve
from gradwire.workloads.stand_in import scaled_fabric, virtual_scale
from tests.shared.parts import tells

DOCUMENT: Document = {
    "title": "all hosts send at once",
    "model": {"name": "alexnet", "device": "k40"},
    "strategy": {"name": "ring"},
    "fabric": {"rate": "200gbit"},
}


def points(*workers: int) -> tuple[Point, ...]:
    document: Document = {**DOCUMENT, "cluster": {"workers": workers[0]}, "sweep": {"cluster.workers": list(workers)}}
    return resolve(document, "test", "test").points


@pytest.mark.parametrize(
    ("hosts", "rate_bps", "scale"), [(33, 100e9, 1), (34, 100e9, 2), (64, 100e9, 2), (17, 400e9, 4)]
)
def test_what_all_hosts_send_together_decides(hosts: int, rate_bps: float, scale: int) -> None:
    assert virtual_scale(Fabric(hosts=hosts, rate_bps=rate_bps)) == scale


def test_all_points_of_a_scenario_share_one_scale() -> None:
    assert virtual_clock(points(4, 8)).scale == 1
    both = points(8, 32)
    clock = virtual_clock(both)
    assert clock.scale == 2
    assert tells(scale_warning(both, clock), "32 hosts", "200 Gbit/s", "divided by 2", "bursts")


def test_bursts_stay_as_large_on_the_virtual_clock() -> None:
    fabric = Fabric(hosts=33, rate_bps=100e9)
    assert scaled_fabric(fabric, 8, keep_burst=True).gso_bytes == fabric.gso_bytes
    assert scaled_fabric(fabric, 8).gso_bytes == fabric.gso_bytes // 8
