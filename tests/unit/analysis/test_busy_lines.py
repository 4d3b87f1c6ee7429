"""What counters say of the line that was used most, where programs ran."""

from __future__ import annotations

from gradwire.analysis.busy_lines import CarriedLine, busiest_line, line_in_words, line_uses
from gradwire.analysis.port_traffic import PortTraffic
from gradwire.network.fabric import Fabric, Topology
from gradwire.network.routes import line_interfaces, line_titles
from tests.shared.parts import tells

RACKS = Fabric(4, 1e9, topology=Topology.LEAF_SPINE, leaves=2, spines=2, classes=1)


def ports(**megabytes: int) -> list[PortTraffic]:
    """What each line's port sent, by the line's name with underscores; 0 for all others."""
    names = {
        name.replace(" ", "_").replace("-", "_"): port
        for name, port in zip(line_titles(RACKS), line_interfaces(RACKS), strict=True)
    }
    rates = {port.interface: rate for port, rate in RACKS.ports()}
    sent = {names[name]: value * 10**6 for name, value in megabytes.items()}
    return [PortTraffic(port, rates[port], sent.get(port, 0), 0, 0) for port in names.values()]


def busiest(duration_s: float = 1.0, **megabytes: int) -> CarriedLine:
    found = busiest_line(RACKS, ports(**megabytes), duration_s)
    assert found is not None
    return found


def test_the_busiest_uplink_and_the_one_beside_it() -> None:
    found = busiest(leaf1_spine1_to_spine1=100, leaf1_spine2_to_spine2=10, leaf2_spine2_to_spine2=90, h1_out=60)
    assert (found.name, found.busy, found.is_trunk) == ("leaf1-spine1 to spine1", 0.8, True)
    assert found.beside == (("leaf1-spine2 to spine2", 0.08),)
    assert found.is_free
    assert found.is_often_full
    assert tells(
        " ".join(line_in_words(found, 7, 3, "ecmp")),
        "leaf1-spine1 to spine1 (1 Gbit/s)",
        "80%",
        "3 frames",
        "7 TCP",
        'routing="balanced"',
    )


def test_the_way_down_has_other_lines_beside_it() -> None:
    found = busiest(leaf2_spine1_to_leaf2=100, leaf2_spine2_to_leaf2=90, leaf1_spine2_to_spine2=1)
    assert (found.name, found.beside) == ("leaf2-spine1 to leaf2", (("leaf2-spine2 to leaf2", 0.72),))
    assert not found.is_free
    assert not tells(" ".join(line_in_words(found, 0, 0, "ecmp")), "fabric.routing")
    assert tells(" ".join(line_in_words(found, 0, 0, "ecmp")), "fabric.oversubscription")


def test_a_hosts_link_and_lines_with_little_to_do() -> None:
    found = busiest(h3_in=100)
    assert (found.name, found.is_trunk, found.beside) == ("h3 in", False, ())
    assert tells(" ".join(line_in_words(found, 0, 0, "ecmp")), "fabric.rate")
    idle = " ".join(line_in_words(busiest(10.0, h3_in=100), 0, 0, "ecmp"))
    assert tells(idle, "8%", "No line was busy")
    assert not tells(idle, "--set")


def test_nothing_is_said_where_nothing_was_counted() -> None:
    assert busiest_line(RACKS, [], 1.0) is None
    assert busiest_line(RACKS, ports(h1_out=1), 0.0) is None


def test_the_lines_of_a_report_are_those_that_carried_most() -> None:
    counted = ports(h3_in=100, h1_out=50, leaf1_spine2_to_spine2=25)
    assert line_uses(RACKS, counted, 1.0) == [("h3 in", 0.8), ("h1 out", 0.4), ("leaf1-spine2 to spine2", 0.2)]
    assert line_uses(RACKS, counted, 1.0, most=1) == [("h3 in", 0.8)]
