"""Reads all counters of a network inside the machine, and takes the difference of two readings. What is counted is the same
for plans, for programs and for labs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from gradwire.datatypes.network_counts import BandCount, NetworkCounts, ReplacedQueues
from gradwire.topo.counters import DatapathCounters, PortQueues, parse_input_drops
from gradwire.topo.network import Network

NOT_ASKED = DatapathCounters(0, 0, 0, 0)


def forget_counts(network: Network) -> None:
    """Sets those counters to zero that know no earlier reading: those of lines and of flow control."""
    if network.flow_control is not None:
        network.flow_control.forget()
    if network.line_counters is not None:
        network.line_counters.forget()


class CounterReading:
    """The network's counters at one moment, except those of flow control.

    settles: whether to wait first until nothing is under way, so that what was sent has arrived. asks_switches: whether
    to read the counters of switches' rules. They come last, because Open vSwitch collects them every half a second, and
    ports would carry on meanwhile. Raises MachineFault for counters that cannot be read.
    """

    def __init__(self, network: Network, *, settles: bool = False, asks_switches: bool = True) -> None:
        lines = network.line_counters
        self.lines = () if lines is None else lines.settled() if settles else lines.counts()
        self.tcp = network.tcp_counters()
        self.input_drops = parse_input_drops(Path("/proc/net/softnet_stat").read_text())
        self.ports = network.port_queues()
        self.changed_ports = network.queue_watch.changed() if network.queue_watch is not None else None
        self.datapath = network.datapath_counters() if asks_switches else NOT_ASKED

    def since(self, earlier: CounterReading) -> NetworkCounts:
        """Returns the counts after the reading `earlier`, which was taken in the same way. Lines count from
        `forget_counts` on."""
        pairs = list(zip(self.ports, earlier.ports, strict=True))
        tcp = [now.since(then) for now, then in zip(self.tcp, earlier.tcp, strict=True)]
        datapath = self.datapath.since(earlier.datapath)
        return NetworkCounts(
            bands=tuple(band for now, then in pairs for band in _bands(now, then)),
            tcp_segments_sent=sum(host.segments_sent for host in tcp),
            tcp_retransmits=sum(host.segments_retransmitted for host in tcp),
            upcalls=datapath.upcalls,
            table_miss_packets=datapath.table_misses,
            dropped_reports=datapath.dropped_reports,
            marked_arrivals=sum(host.marked_packets for host in tcp),
            tcp_timeouts=sum(host.timeouts for host in tcp),
            input_drops=self.input_drops - earlier.input_drops,
            lines=self.lines,
            replaced=tuple(replaced for now, then in pairs for replaced in _replaced(now, then)),
            changed_ports=self.changed_ports,
        )


def _has_its_queues(now: PortQueues, then: PortQueues) -> bool:
    return now.bands is not None and then.bands is not None and now.layout == then.layout and not now.counts_anew(then)


def _bands(now: PortQueues, then: PortQueues) -> Iterator[BandCount]:
    """The counts of each band of a port that still has its queues."""
    if now.bands is None or then.bands is None or not _has_its_queues(now, then):
        return
    for number, band in enumerate(now.bands.since(then.bands).bands):
        yield BandCount(
            port=now.port.interface,
            band=number,
            bytes_sent=band.bytes_sent,
            packets_sent=band.packets_sent,
            drops=band.drops,
            marks=band.marks,
            above_threshold=band.above_threshold,
            limit_bytes=band.limit_bytes,
            threshold_bytes=band.threshold_bytes,
            all_marked_bytes=band.all_marked_bytes,
        )


def _replaced(now: PortQueues, then: PortQueues) -> Iterator[ReplacedQueues]:
    """The sums of a port whose queues are others than before; if they were made anew, since then."""
    if not _has_its_queues(now, then):
        in_place = now.put_in_place_of(then)
        if now.counts_anew(then):
            then = replace(then, sent_bytes=0, packets_sent=0, drops=0)
        yield ReplacedQueues(
            now.port.interface,
            in_place,
            now.sent_bytes - then.sent_bytes,
            now.packets_sent - then.packets_sent,
            now.drops - then.drops,
        )
