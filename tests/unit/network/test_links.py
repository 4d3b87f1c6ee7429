"""Links by their names, and what settings make of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric, Topology
from gradwire.network.links import LinkSetting
from gradwire.network.path_delays import longest_round_trip_s, round_trip_bytes

LEAF_SPINE = Fabric(8, 10e9, Topology.LEAF_SPINE, leaves=2, spines=2)


def set_by(pattern: str, **values: float) -> dict[str, float]:
    """Rates of the links that are not as before, by their names, in Gbit/s."""
    fabric = replace(LEAF_SPINE, link_settings=(LinkSetting(pattern, rate_bps=1e9),))
    return {link.name: link.rate_bps / 1e9 for link in fabric.links() if link.rate_bps < 10e9}


@pytest.mark.parametrize(
    ("pattern", "links"),
    [
        ("h1", ["h1-s1"]),
        ("h1-s1", ["h1-s1"]),
        ("s1-h1", ["h1-s1"]),
        ("h1-eth0", ["h1-s1"]),
        ("s1-s3", ["s1-s3"]),
        ("s3-s1", ["s1-s3"]),
        ("leaf1-spine2", ["s1-s4"]),
        ("spine2-leaf1", ["s1-s4"]),
        ("s1-eth6", ["s1-s4"]),
        ("spine2-*", ["s1-s4", "s2-s4"]),
        ("leaf2-h*", ["h5-s2", "h6-s2", "h7-s2", "h8-s2"]),
        ("h[12]", ["h1-s1", "h2-s1"]),
    ],
)
def test_a_link_has_several_names(pattern: str, links: list[str]) -> None:
    assert list(set_by(pattern)) == links


def test_a_later_setting_counts_key_by_key() -> None:
    settings = (LinkSetting("h*", rate_bps=5e9, delay_s=1e-3), LinkSetting("h2", delay_s=2e-3))
    first, second = replace(LEAF_SPINE, link_settings=settings, delay_s=1e-6).links()[:2]
    assert (first.rate_bps, first.delay_s) == (5e9, 1e-3)
    assert (second.rate_bps, second.delay_s) == (5e9, 2e-3)


def test_a_name_of_no_link_is_refused() -> None:
    with pytest.raises(InputFault, match=r"fabric\.link\.'h9': no link is called that; links are h1, "):
        replace(LEAF_SPINE, link_settings=(LinkSetting("h9", delay_s=1e-3),))


def test_a_fabric_with_settings_comes_back_from_json() -> None:
    changed = replace(LEAF_SPINE, link_settings=(LinkSetting("s1-*", loss=0.01, ecn_bytes=1_000_000),), delay_s=1e-3)
    assert Fabric.from_json(changed.to_json()) == changed


def test_rates_of_trunks_reach_the_tiers() -> None:
    tier = replace(LEAF_SPINE, link_settings=(LinkSetting("leaf1-spine2", rate_bps=5e9),)).tree.tiers[0]
    assert tier.part_bps == (25e9, 40e9)
    assert (tier.slowest_bps, tier.fastest_bps) == (5e9, 20e9)


def test_all_rates_are_multiplied_together() -> None:
    fabric = replace(LEAF_SPINE, link_settings=(LinkSetting("h1", rate_bps=5e9),), flow_rate_bps=4e9)
    slower = fabric.with_rates_times(0.5)
    assert (slower.rate_bps, slower.host_bps[0], slower.flow_rate_bps) == (5e9, 2.5e9, 2e9)


def test_windows_follow_the_longest_round_trip() -> None:
    fabric = replace(LEAF_SPINE, link_settings=(LinkSetting("h1", delay_s=1e-3), LinkSetting("s1-s3", delay_s=2e-3)))
    assert longest_round_trip_s(fabric, ()) == pytest.approx(6e-3)
    assert round_trip_bytes(fabric, ()) == pytest.approx(10e9 * 6e-3 / 8, abs=1)


def test_losses_are_by_port() -> None:
    fabric = replace(LEAF_SPINE, loss=0.1, link_settings=(LinkSetting("h1", loss=0.5),))
    assert fabric.losses["h1-eth0"] == 0.5
    assert fabric.losses["s1-eth1"] == pytest.approx(0.55)
    assert fabric.losses["s1-eth2"] == 0.1
    assert "h2-eth0" not in fabric.losses
    assert not fabric.is_lossless
