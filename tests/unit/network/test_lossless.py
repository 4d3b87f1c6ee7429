"""Sizes of flow control: headroom by link, the shared pool, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric, Topology
from gradwire.network.links import LinkSetting
from gradwire.network.lossless import BUFFER_BYTES, Lossless

ONE_SWITCH = Fabric(8, 100e9, classes=1, gso_bytes=16384, lossless=Lossless())


def test_headroom_holds_what_a_link_may_still_send() -> None:
    lossless, link = ONE_SWITCH.lossless, ONE_SWITCH.links()[0]
    assert lossless is not None
    # 2 us until the port stops, 84 bytes of pause frame, the shaper's 2 us, and two bursts.
    assert lossless.headroom_of(link, ONE_SWITCH) == 25_000 + 84 + 25_000 + 2 * 16384


def test_a_delay_counts_both_ways() -> None:
    far = replace(ONE_SWITCH, link_settings=(LinkSetting("h1", delay_s=5e-6),))
    lossless = far.lossless
    assert lossless is not None
    near_bytes, far_bytes = (lossless.headroom_of(link, far) for link in (far.links()[1], far.links()[0]))
    assert far_bytes - near_bytes == pytest.approx(2 * 5e-6 * 100e9 / 8, abs=1)


def test_ports_share_what_headroom_leaves() -> None:
    lossless = ONE_SWITCH.lossless
    assert lossless is not None
    of_port = lossless.headroom_of(ONE_SWITCH.links()[0], ONE_SWITCH)
    assert lossless.pool_bytes("s1", ONE_SWITCH) == BUFFER_BYTES - 8 * of_port
    two = replace(ONE_SWITCH, classes=2)
    assert lossless.pool_bytes("s1", two) == BUFFER_BYTES - 16 * of_port
    only_one = replace(lossless, classes=(1,))
    assert only_one.pool_bytes("s1", two) == BUFFER_BYTES - 8 * of_port


def test_a_fabric_comes_back_from_its_text() -> None:
    fabric = replace(ONE_SWITCH, lossless=Lossless(10**6, 0.0, 200_000, 100_000, 80_000, (0,)))
    assert Fabric.from_json(fabric.to_json()) == fabric


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lossless": Lossless(classes=(1,))}, r"classes = \[1\]: there is no class 1; classes are 0 to 0"),
        ({"lossless": Lossless(buffer_bytes=700_000)}, "of s1, 662816 bytes are headroom"),
        ({"lossless": Lossless(xoff_bytes=30_000)}, "must be at least 4 bursts"),
        ({"lossless": Lossless(xoff_bytes=90_000, xon_bytes=90_000)}, "must be below fabric.lossless.xoff"),
        ({"buffer_bytes": 10**6}, "leave out fabric.buffer"),
        ({"link_settings": (LinkSetting("h1", loss=0.01),)}, "leave out fabric.buffer"),
        ({"topology": Topology.LEAF_SPINE, "leaves": 2, "spines": 1, "aggregators": True}, "without a rate"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputFault, match=message):
        replace(ONE_SWITCH, **changes)  # type: ignore[arg-type] # each value has its field's type


def test_pauses_have_as_long_to_end_as_the_memory_of_switches_takes() -> None:
    lossless = Lossless()
    assert lossless.settling_s(Fabric(8, 10e9, classes=1, lossless=lossless)) == pytest.approx(9.6e-3, rel=1e-3)
    one_slow = replace(ONE_SWITCH, link_settings=(LinkSetting("h1", rate_bps=100e6, delay_s=1e-3),))
    assert lossless.settling_s(one_slow) == pytest.approx(0.96 + 2e-3, rel=1e-4)
    three = replace(ONE_SWITCH, topology=Topology.LEAF_SPINE, leaves=2, spines=1)
    assert lossless.settling_s(three) == pytest.approx(3 * 0.96e-3, rel=1e-3)
