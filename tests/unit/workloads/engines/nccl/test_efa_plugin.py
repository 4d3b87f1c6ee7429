"""The plugin of EFA: what its tuner takes, and what it tells NCCL."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from gradwire.faults import InputFault
from gradwire.workloads.engines.collectives.schedule import Collective
from gradwire.workloads.engines.nccl.chooser import choose, latency_us
from gradwire.workloads.engines.nccl.efa_plugin import Plugin, Region, plugin_of
from gradwire.workloads.engines.nccl.pieces import divide
from gradwire.workloads.engines.nccl.tables import Gpu, NcclAlgorithm, Protocol
from tests.shared.parts import in_order
from tests.unit.workloads.engines.nccl.test_chooser import B200, GIB, communicator

ALL_REDUCE = Collective.ALL_REDUCE
MIB = 1 << 20
CASES = list(csv.DictReader((Path(__file__).parent / "choices_of_plugin.csv").open()))
"""Of the plugin's own nccl_ofi_regions.cpp, compiled, at v1.15.0, v1.16.3 and v1.17.0, with all that NCCL has allowed."""
GPUS = {"h100": Gpu.HOPPER, "b200": Gpu.BLACKWELL}


@pytest.mark.parametrize("release", ["1.15", "1.16", "1.17"])
def test_choices_are_those_of_the_plugins_own_code(release: str) -> None:
    cases = [case for case in CASES if case["release"] == release]
    assert len(cases) == 50
    for case in cases:
        plugin = Plugin(release, GPUS[case["gpu"]], tunes=True)
        what = (Collective(case["collective"]), int(case["machines"]), int(case["gpus"]), int(case["size_bytes"]))
        pair = plugin.tuned(*what, lambda _: True)
        assert tuple(pair or "--") == (case["algorithm"], case["protocol"]), case
        channels = plugin.channels(*what) if pair == (NcclAlgorithm.TREE, Protocol.LL128) else None
        assert (channels or 0) == int(case["channels"]), case


def test_a_corner_is_part_of_a_region() -> None:
    region = Region(NcclAlgorithm.TREE, Protocol.LL, ((0, 2), (100, 2), (100, 8), (0, 8)))
    assert region.has((100, 8))
    assert region.has((0, 5))
    assert region.has((50, 5))
    assert not region.has((101, 5))
    assert not region.has((50, 9))


def test_the_release_is_that_of_the_version_of_nccl() -> None:
    assert plugin_of(None, (2, 27), Gpu.BLACKWELL, None) == Plugin("1.16", Gpu.BLACKWELL, tunes=True)
    assert plugin_of(None, (2, 26), Gpu.BLACKWELL, None) == Plugin("1.15", Gpu.BLACKWELL, tunes=False)
    assert plugin_of(None, (2, 26), Gpu.BLACKWELL, "ofi").tunes
    assert plugin_of(None, (2, 22), Gpu.HOPPER, None) == Plugin("1.13", Gpu.HOPPER, tunes=False)
    assert not plugin_of("1.17", (2, 22), Gpu.HOPPER, "none").tunes
    with pytest.raises(InputFault, match=in_order("1.13", "1.15", "1.16", "1.17")):
        plugin_of("1.14", (2, 27), Gpu.HOPPER, None)
    with pytest.raises(InputFault, match="not known here"):
        plugin_of("1.13", (2, 27), Gpu.HOPPER, "ofi")


def test_64_mib_on_32_b200_by_release() -> None:
    comm = communicator("2.27", B200, 4)
    assert choose(comm, ALL_REDUCE, 64 * MIB).algorithm == "NVLSTree"
    chosen = {
        release: choose(replace(comm, plugin=plugin_of(release, (2, 27), Gpu.BLACKWELL, None)), ALL_REDUCE, 64 * MIB)
        for release in ("1.15", "1.16", "1.17")
    }
    # 1.15 leaves it to NCCL, which then counts the plugin's latency. In 1.16, 64 MiB and 32 ranks are a corner.
    assert {release: (one.algorithm, one.protocol) for release, one in chosen.items()} == {
        "1.15": ("Tree", "LL128"),
        "1.16": ("Tree", "LL128"),
        "1.17": ("Ring", "LL128"),
    }


def test_nccl_counts_the_latency_of_the_plugin_with_simple_twice() -> None:
    comm = communicator("2.27", B200, 4)
    told = replace(comm, plugin=plugin_of("1.15", (2, 27), Gpu.BLACKWELL, None))
    for algorithm, protocol, crossings in (
        (NcclAlgorithm.TREE, Protocol.LL128, 4),
        (NcclAlgorithm.RING, Protocol.LL, 6),
        (NcclAlgorithm.RING, Protocol.SIMPLE, 12),
        (NcclAlgorithm.NVLS_TREE, Protocol.SIMPLE, 8),
    ):
        more = latency_us(told, ALL_REDUCE, algorithm, protocol) - latency_us(comm, ALL_REDUCE, algorithm, protocol)
        assert more == pytest.approx(crossings * 35)


def test_the_environment_narrows_what_the_tuner_may_take() -> None:
    plugin = plugin_of("1.16", (2, 27), Gpu.BLACKWELL, None)
    ring = replace(communicator("2.27", B200, 4, NCCL_ALGO="Ring"), plugin=plugin)
    # By NCCL's formulas alone: no region of a ring has 1 MiB.
    assert choose(ring, ALL_REDUCE, MIB).algorithm == "Ring"
    simple = replace(communicator("2.27", B200, 4, NCCL_PROTO="Simple"), plugin=plugin)
    assert choose(simple, ALL_REDUCE, 64 * MIB).protocol == "Simple"


def test_the_plugin_sets_channels_buffers_and_chunks() -> None:
    comm = communicator("2.27", B200, 4)
    told = replace(comm, plugin=plugin_of("1.16", (2, 27), Gpu.BLACKWELL, None))
    tree = (NcclAlgorithm.TREE, Protocol.LL128)
    assert (divide(comm, ALL_REDUCE, *tree, 16 * MIB).channels, divide(told, ALL_REDUCE, *tree, 16 * MIB).channels) == (
        32,
        24,
    )
    assert divide(told, ALL_REDUCE, *tree, 64 * MIB).channels == 32
    ring = (NcclAlgorithm.RING, Protocol.SIMPLE)
    assert [divide(one, ALL_REDUCE, *ring, 16 * GIB).chunk_bytes for one in (comm, told)] == [2 * MIB, 4 * MIB]
    nvls_tree = (NcclAlgorithm.NVLS_TREE, Protocol.SIMPLE)
    assert [divide(one, ALL_REDUCE, *nvls_tree, 16 * GIB).chunk_bytes for one in (comm, told)] == [65536, 524288]
