"""What a network counted between two readings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from gradwire.datatypes.network_counts import LineCount, ReplacedQueues
from gradwire.inside.readings import CounterReading, forget_counts
from gradwire.network.fabric import Port
from gradwire.topo.counters import BandCounters, DatapathCounters, PortCounters, PortQueues, TcpCounters
from gradwire.topo.network import Network

PORT = Port("h1", 0)
LINE = LineCount("h1-eth0", True, 9, 9000, 0, 1, 1, 2)


def band(count: int) -> BandCounters:
    return BandCounters(bytes_sent=100 * count, packets_sent=count, drops=count // 2)


def queues(count: int) -> PortQueues:
    bands = PortCounters(PORT, (band(count), band(2 * count)))
    return PortQueues(PORT, ("1:1 fq", "root htb"), 300 * count, 3 * count, count, bands)


class Counting:
    """A network that has counted so much of everything."""

    def __init__(self, count: int, ports: PortQueues | None = None) -> None:
        self.count, self.ports = count, ports or queues(count)
        self.flow_control = None
        self.asked: list[str] = []
        self.line_counters = self
        self.queue_watch = None

    def counts(self) -> tuple[LineCount, ...]:
        self.asked.append("lines")
        return (LINE,)

    def settled(self) -> tuple[LineCount, ...]:
        self.asked.append("settled lines")
        return (LINE,)

    def forget(self) -> None:
        self.asked.append("forget")

    def port_queues(self) -> list[PortQueues]:
        self.asked.append("ports")
        return [self.ports]

    def tcp_counters(self) -> list[TcpCounters]:
        return [TcpCounters(10 * self.count, self.count, self.count, self.count)] * 2

    def datapath_counters(self) -> DatapathCounters:
        self.asked.append("switches")
        return DatapathCounters(self.count, self.count, 0, self.count, self.count)


def reading(network: Counting, **how: Any) -> CounterReading:
    return CounterReading(cast(Network, network), **how)


def test_counts_are_the_differences_of_two_readings() -> None:
    found = reading(Counting(5)).since(reading(Counting(3)))
    assert [(each.port, each.band, each.bytes_sent, each.packets_sent) for each in found.bands] == [
        ("h1-eth0", 0, 200, 2),
        ("h1-eth0", 1, 400, 4),
    ]
    assert (found.tcp_segments_sent, found.tcp_retransmits, found.tcp_timeouts, found.marked_arrivals) == (40, 4, 4, 4)
    assert (found.upcalls, found.table_miss_packets, found.dropped_reports) == (2, 2, 2)
    assert found.lines == (LINE,)
    assert found.replaced == ()


@pytest.mark.parametrize("layout", [("1:1 netem", "root htb"), ("root netem",)])
def test_a_port_with_other_queues_than_before_counts_in_sum(layout: tuple[str, ...]) -> None:
    whole = queues(5)
    now = replace(whole, layout=layout, bands=whole.bands if len(layout) > 1 else None)
    found = reading(Counting(5, now)).since(reading(Counting(3)))
    assert found.bands == ()
    assert found.replaced == (ReplacedQueues("h1-eth0", (layout[0],), 600, 6, 2),)


MADE_ANEW = replace(queues(5), sent_bytes=100, packets_sent=1, drops=0)
"""Queues of the same kinds at the same places, of which the first counts from zero."""
TAKEN_AWAY = PortQueues(PORT, (), 0, 0, 0)


@pytest.mark.parametrize(
    ("now", "named", "counts"),
    [(MADE_ANEW, "the same, made anew", (100, 1, 0)), (TAKEN_AWAY, "nothing", (0, 0, 0))],
    ids=["made anew", "taken away"],
)
def test_no_difference_is_negative_where_queues_count_anew(
    now: PortQueues, named: str, counts: tuple[int, int, int]
) -> None:
    found = reading(Counting(5, now)).since(reading(Counting(3)))
    assert found.bands == ()
    assert found.replaced == (ReplacedQueues("h1-eth0", (named,), *counts),)


def test_lines_settle_first_and_switches_are_asked_last_if_at_all() -> None:
    network = Counting(1)
    reading(network, settles=True)
    assert network.asked == ["settled lines", "ports", "switches"]
    network.asked.clear()
    found = reading(network, asks_switches=False).since(reading(network, asks_switches=False))
    assert (found.upcalls, found.table_miss_packets) == (0, 0)
    assert "switches" not in network.asked


def test_what_knows_no_earlier_reading_begins_anew() -> None:
    network = Counting(1)
    forget_counts(cast(Network, network))
    assert network.asked == ["forget"]
