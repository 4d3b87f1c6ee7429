"""Drawings of networks: every part has its name, and of many equal parts the first and the last are there."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gradwire.analysis.report.network_drawing import (
    FAINT,
    MOST_SLOTS,
    RAIL_COLORS,
    THIN,
    different_networks,
    network_drawing,
    networks_by_rate,
    rate_lines,
)
from gradwire.network.fabric import Fabric, Topology
from gradwire.network.graph_shapes import Linear
from gradwire.network.links import LinkSetting
from gradwire.network.network_graph import spread
from tests.shared.parts import tells

SINGLE = Fabric(2, 10e9)
FAT_TREE = Fabric(16, 100e9, Topology.FAT_TREE, leaves=2, spines=2, pods=4, cores=4, core_oversubscription=2.0)
HUGE = Fabric(1024, 400e9, Topology.FAT_TREE, leaves=8, spines=8, pods=16, cores=64)
RAILS = Fabric(32, 400e9, Topology.LEAF_SPINE, leaves=8, spines=4, nics_per_host=8, rails=True)


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def links(figure: Figure) -> list[Line2D]:
    """The lines with two ends; brackets have more."""
    return [line for line in figure.axes[0].lines if np.size(line.get_xdata()) == 2]


@pytest.mark.parametrize("fabric", [SINGLE, FAT_TREE, RAILS], ids=["one switch", "fat tree", "rails"])
def test_everything_is_there_with_its_name_if_it_fits(fabric: Fabric) -> None:
    shown = texts(network_drawing(fabric))
    switches = {"\n".join(dict.fromkeys((fabric.title_of(name), name))) for name in fabric.switch_names()}
    assert set(fabric.host_names()) | switches <= set(shown)
    assert not any("···" in text for text in shown)
    assert len(links(network_drawing(fabric))) == len(fabric.links())


@pytest.mark.parametrize("fabric", [Fabric(64, 10e9), Fabric(1024, 1e9), HUGE], ids=["64", "1024", "fat tree"])
def test_of_many_the_first_and_the_last_are_drawn_and_the_others_counted(fabric: Fabric) -> None:
    shown = texts(network_drawing(fabric))
    hosts = [name for name in fabric.host_names() if name in shown]
    assert (hosts[0], hosts[-1]) == ("h1", f"h{fabric.hosts}")
    assert len(hosts) <= MOST_SLOTS
    assert any("···" in text for text in shown)


def test_what_is_left_out_is_counted_in_words() -> None:
    counted = {text.splitlines()[1] for text in texts(network_drawing(HUGE)) if "···" in text}
    assert counted == {"16 pods", "8 leaves", "8 hosts", "8 spines", "64 cores"}


def test_rates_and_oversubscription_of_each_tier_are_told() -> None:
    hosts, leaves, pods = rate_lines(FAT_TREE)
    assert tells(hosts, "16 hosts", "100 Gbit/s")
    assert tells(leaves, "leaf:", "2 x", "100 Gbit/s", "oversubscription 1:1")
    assert tells(pods, "pod:", "4 x", "50 Gbit/s", "oversubscription 2:1")
    assert tells(rate_lines(RAILS)[0], "4 machines", "8 NICs", "400 Gbit/s")


def test_rails_have_colours_of_their_own() -> None:
    below = [line for line in links(network_drawing(RAILS)) if np.min(line.get_ydata()) < 1]
    assert len({line.get_color() for line in below}) == 8


def test_a_network_is_drawn_once_whatever_its_seed_and_classes() -> None:
    same = replace(FAT_TREE, seed=7, classes=3)
    assert different_networks([FAT_TREE, same, SINGLE]) == [FAT_TREE, SINGLE]
    faster = replace(SINGLE, rate_bps=2 * SINGLE.rate_bps)
    assert networks_by_rate([SINGLE, FAT_TREE, faster]) == [[SINGLE, faster], [FAT_TREE]]


def test_slower_links_are_thin_and_named_and_long_ones_dashed() -> None:
    settings = (LinkSetting("leaf1-spine*", delay_s=2e-3), LinkSetting("leaf1-spine2", rate_bps=5e9))
    fabric = Fabric(4, 10e9, Topology.LEAF_SPINE, leaves=2, spines=2, link_settings=settings)
    assert any(tells(line, "slower", "leaf1-spine2", "5 Gbit/s") for line in rate_lines(fabric))
    assert any(tells(line, "delay", "0 s to", "2 ms") for line in rate_lines(fabric))
    drawn = links(network_drawing(fabric))
    assert [line.get_linestyle() for line in drawn] == [*"----", "--", "--", "-", "-"]
    assert [line.get_linewidth() == THIN for line in drawn] == [*[False] * 5, True, False, False]


def test_names_from_a_file_are_written_as_they_are() -> None:
    """And are no formulas of matplotlib, which "$" begins."""
    label = r"$\frac$ <b>"
    graph = replace(
        spread(2, 2, Linear(2).pairs(), 10e9, "a line"), switch_labels=(label, "b"), host_labels=("$", "$$")
    )
    figure = network_drawing(Fabric(2, 10e9, Topology.CUSTOM, graph=graph))
    figure.savefig(io.BytesIO(), format="svg")
    assert f"s1\n{label}" in texts(figure)


def test_beside_rails_spines_have_the_colour_of_no_rail() -> None:
    colors = [to_hex(patch.get_edgecolor()) for patch in network_drawing(RAILS).axes[0].patches]
    assert set(colors) == {to_hex(RAIL_COLORS[rail]) for rail in range(RAILS.nics_per_host)} | {FAINT}
    assert colors.count(FAINT) == RAILS.spines
