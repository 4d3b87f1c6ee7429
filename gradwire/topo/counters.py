"""The counters, flow tables and queue lengths of a network as frozen data, and how they are read from tc, Open vSwitch,
netlink and /proc.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from gradwire.faults import MachineFault
from gradwire.netlink_messages import Kernel, attributes, known_index
from gradwire.network.fabric import BANDS_MAJOR, MAX_BANDS, Port
from gradwire.network.group_addresses import IGMP_REPORTS_IP, KEPT_BY_BRIDGES, LISTENER_REPORTS
from gradwire.topo.command import run
from gradwire.topo.netlink.qdiscs import (
    QUEUE,
    RED,
    RED_MARKED,
    RTM_GETQDISC,
    TC_MESSAGE,
    TCA_KIND,
    TCA_STATS2,
    TCA_STATS_APP,
    TCA_STATS_QUEUE,
)
from gradwire.topo.tc import class_below_netem, class_of_band
from gradwire.topo.wiring import asked_of_switches

OPENFLOW = ("-O", "OpenFlow13")
HOOKS = ("clsact", "ingress")
"""Kinds of qdiscs that hold filters and no packets: gradwire makes one where programs have traffic classes."""
REPORTED_TO = (
    rf"nw_dst={re.escape(IGMP_REPORTS_IP)}",
    rf"ipv6_dst={re.escape(LISTENER_REPORTS)}",
    f"dl_dst={KEPT_BY_BRIDGES}",
)
"""Destinations of reports of group membership (IGMP and MLD), and of what no bridge passes on, in the syntax of
ovs-ofctl."""


def dumped_tables(bridge: str) -> tuple[str, str]:
    """Output of `ovs-ofctl dump-flows` and `dump-groups` for a bridge. Raises MachineFault if the bridge does not
    answer."""
    flows = run(asked_of_switches("ovs-ofctl", *OPENFLOW, "--no-names", "--no-stats", "dump-flows", bridge))
    return flows, run(asked_of_switches("ovs-ofctl", *OPENFLOW, "--no-names", "dump-groups", bridge))


def dropped_by_rules(bridge: str, *, has_own_rules: bool) -> tuple[int, int]:
    """Packets that no rule of a bridge was meant for, and reports of groups that rules drop. Raises MachineFault if the
    bridge does not answer.

    has_own_rules: whether its rules are those of a user's controller, which need have none for what matches
    nothing else. Then those count that matched nothing, and those that a flow without any field to match took.
    """
    flows = run(asked_of_switches("ovs-ofctl", *OPENFLOW, "--no-names", "dump-flows", bridge))
    if not has_own_rules:
        return parse_table_misses(flows), parse_dropped_reports(flows)
    return unmatched(flows, run(asked_of_switches("ovs-ofctl", *OPENFLOW, "dump-tables", bridge))), 0


def parse_dropped_reports(text: str) -> int:
    """Packets in the output of `ovs-ofctl dump-flows` by which hosts' kernels report their groups (IGMP, MLD), and
    frames to bridges alone (LLDP): rules drop them, for no switch needs them."""
    counts = re.findall(rf"\bn_packets=(\d+),[^\n]*\b(?:{'|'.join(REPORTED_TO)})[^\n]* actions=drop", text)
    return sum(map(int, counts))


def unmatched(flows: str, tables: str) -> int:
    """Counts the packets that met no rule, from the output of dump-flows and dump-tables."""
    looked_up = sum(
        int(lookup) - int(matched) for lookup, matched in re.findall(r"lookup=(\d+), matched=(\d+)", tables)
    )
    to_nothing = re.findall(r"n_packets=(\d+)[^\n]*priority=0 actions=(?:drop|CONTROLLER)", flows)
    return looked_up + sum(map(int, to_nothing))


@dataclass(frozen=True, kw_only=True)
class BandCounters:
    """One band of a port. Bytes are those of frames as tc sees them: with the headers of every frame, without
    preamble, FCS and gap."""

    bytes_sent: int
    packets_sent: int
    drops: int
    #: Packets that were marked (ECN), and those that arrived where the queue was longer than the threshold.
    marks: int = 0
    above_threshold: int = 0
    #: Bounds of a switch's queue that drops or marks (topo/tc.py), according to the kernel: the most that it holds, the
    #: length from which it marks some packets, and the length from which it marks all. 0 for a bound that it lacks.
    limit_bytes: int = 0
    threshold_bytes: int = 0
    all_marked_bytes: int = 0


@dataclass(frozen=True)
class PortCounters:
    """One port's output since the network was built."""

    port: Port
    #: Counters of each band, by its number.
    bands: tuple[BandCounters, ...]

    @property
    def sent_bytes(self) -> int:
        """Bytes of all bands."""
        return sum(band.bytes_sent for band in self.bands)

    @property
    def drops(self) -> int:
        """Packets dropped in all bands."""
        return sum(band.drops for band in self.bands)

    def since(self, earlier: PortCounters) -> PortCounters:
        """Counts since `earlier`, another reading of the same port."""
        pairs = zip(self.bands, earlier.bands, strict=True)
        return PortCounters(
            self.port,
            tuple(
                BandCounters(
                    bytes_sent=now.bytes_sent - then.bytes_sent,
                    packets_sent=now.packets_sent - then.packets_sent,
                    drops=now.drops - then.drops,
                    marks=now.marks - then.marks,
                    above_threshold=now.above_threshold - then.above_threshold,
                    limit_bytes=now.limit_bytes,
                    threshold_bytes=now.threshold_bytes,
                    all_marked_bytes=now.all_marked_bytes,
                )
                for now, then in pairs
            ),
        )


@dataclass(frozen=True)
class PortQueues:
    """The queues of a port, with the sums of their counts, no matter who made them."""

    port: Port
    #: Each queue's place and kind, in the words of tc: "root htb", "1:1 fq"; without what only holds filters.
    layout: tuple[str, ...]
    #: Frames that left, as `BandCounters` counts them.
    sent_bytes: int
    packets_sent: int
    drops: int
    #: Counters by band, for a port that has all its bands.
    bands: PortCounters | None = None

    def put_in_place_of(self, original: PortQueues) -> tuple[str, ...]:
        """Returns the queues that are here but not in `original`, an earlier reading of the same port, or are there
        again; or "nothing" if queues only went away."""
        new = tuple(sorted({*self.layout} - {*original.layout}))
        if self.layout == original.layout and self.counts_anew(original):
            return ("the same, made anew",)
        return new or ("nothing",) * (self.layout != original.layout)

    def counts_anew(self, earlier: PortQueues) -> bool:
        """Returns whether any counter is lower than in `earlier`: counters only rise, so somebody made the queue anew, with
        another in its place or without."""
        pairs = [(self.sent_bytes, earlier.sent_bytes), (self.packets_sent, earlier.packets_sent)]
        pairs.append((self.drops, earlier.drops))
        if self.bands is not None and earlier.bands is not None:
            for now, then in zip(self.bands.bands, earlier.bands.bands, strict=True):
                pairs += [(now.bytes_sent, then.bytes_sent), (now.packets_sent, then.packets_sent)]
                pairs += [(now.drops, then.drops), (now.marks, then.marks)]
        return any(now < then for now, then in pairs)


@dataclass(frozen=True)
class DatapathCounters:
    """Open vSwitch's counters since the datapath was made. Other bridges on the same machine count as well."""

    #: Packets that matched a datapath flow.
    hits: int
    #: Packets for which the switch process had to be asked.
    upcalls: int
    #: Packets that were dropped because asking was not possible.
    lost: int
    #: Packets that matched no rule of the controller and were dropped, summed over the switches.
    table_misses: int
    #: Reports of groups, and frames to bridges alone, which rules drop, summed over the switches.
    dropped_reports: int = 0

    def since(self, earlier: DatapathCounters) -> DatapathCounters:
        """Counts since `earlier`."""
        return DatapathCounters(
            self.hits - earlier.hits,
            self.upcalls - earlier.upcalls,
            self.lost - earlier.lost,
            self.table_misses - earlier.table_misses,
            self.dropped_reports - earlier.dropped_reports,
        )


@dataclass(frozen=True)
class TcpCounters:
    """One host's TCP since its network namespace was made."""

    segments_sent: int
    segments_retransmitted: int
    timeouts: int
    #: Packets of any protocol that arrived with a mark (ECN).
    marked_packets: int = 0

    def since(self, earlier: TcpCounters) -> TcpCounters:
        """Counts since `earlier`."""
        return TcpCounters(*(getattr(self, each.name) - getattr(earlier, each.name) for each in fields(self)))


def parse_qdiscs(entries: Iterable[Mapping[str, Any]], ports: Mapping[str, Port], bands: int) -> list[PortCounters]:
    """Reads the queues of a network namespace, as entries of `tc -s -j qdisc show`; the one below a band's class
    (topo/tc.py) counts it.

    ports: the fabric's port of each interface to read. Raises MachineFault if a band has no qdisc, because something
    replaced it.
    """
    leaves = {(entry["dev"], entry["parent"]): entry for entry in entries if "parent" in entry}
    counters = []
    for interface, port in ports.items():
        band_qdiscs = [leaves.get((interface, class_of_band(band))) for band in range(bands)]
        if None in band_qdiscs:
            raise MachineFault(
                f"{interface} has no qdisc for band {band_qdiscs.index(None)}: another program changed it; "
                f"see `tc qdisc show dev {interface}`"
            )
        marking = [leaves.get((interface, class_below_netem(band))) for band in range(bands)]
        pairs = zip(band_qdiscs, marking, strict=True)
        counters.append(PortCounters(port, tuple(_band(entry, below or entry) for entry, below in pairs if entry)))
    return counters


def read_port_queues(entries: Iterable[Mapping[str, Any]], ports: Mapping[str, Port], bands: int) -> list[PortQueues]:
    """Reads the queues of ports as `parse_qdiscs` does, but accepts queues that programs have put in place of the
    network's own.

    A port's root counts what it let through; one without any sends at once and counts nothing.
    """
    by_interface: dict[str, list[Mapping[str, Any]]] = {interface: [] for interface in ports}
    for entry in entries:
        by_interface.get(entry["dev"], []).append(entry)
    return [_port_queues(by_interface[interface], interface, port, bands) for interface, port in ports.items()]


def _port_queues(entries: list[Mapping[str, Any]], interface: str, port: Port, bands: int) -> PortQueues:
    root = next((entry for entry in entries if "root" in entry), {"bytes": 0, "packets": 0, "drops": 0})
    layout = sorted(f"{entry.get('parent', 'root')} {entry['kind']}" for entry in entries if entry["kind"] not in HOOKS)
    whole = {class_of_band(band) for band in range(bands)} <= {entry.get("parent") for entry in entries}
    by_band = parse_qdiscs(entries, {interface: port}, bands)[0] if whole else None
    return PortQueues(port, tuple(layout), root["bytes"], root["packets"], root["drops"], by_band)


def _band(entry: Mapping[str, Any], marking: Mapping[str, Any]) -> BandCounters:
    """The counters of a band. marking: its queue, which is below that of faults if they have one."""
    is_red = marking["kind"] == "red"
    bounds = marking["options"] if is_red or marking["kind"] == "bfifo" else {}
    return BandCounters(
        bytes_sent=entry["bytes"],
        packets_sent=entry["packets"],
        drops=entry["drops"],
        marks=marking["marked"] if is_red else 0,
        above_threshold=marking["overlimits"] if is_red else 0,
        limit_bytes=bounds.get("limit", 0),
        threshold_bytes=bounds.get("min", 0),
        all_marked_bytes=bounds.get("max", 0),
    )


def parse_lookups(text: str) -> tuple[int, int, int]:
    """Reads hits, misses and lost from `ovs-appctl dpctl/show`, summed over datapaths. Raises MachineFault if there
    are none."""
    lines = re.findall(r"lookups: hit:(\d+) missed:(\d+) lost:(\d+)", text)
    if not lines:
        raise MachineFault(f"`ovs-appctl dpctl/show` shows no datapath: {text.strip()!r}")
    hits, misses, lost = (sum(int(line[column]) for line in lines) for column in range(3))
    return hits, misses, lost


def parse_table_misses(text: str) -> int:
    """Packets of the rule with priority 0 in the output of `ovs-ofctl dump-flows`. Raises MachineFault if there is no
    such rule."""
    counts = re.findall(r"\bn_packets=(\d+),.*\bpriority=0\b", text)
    if not counts:
        raise MachineFault("a switch has no table-miss rule: its rules are not installed, or something removed them")
    return sum(int(count) for count in counts)


def parse_input_drops(softnet: str) -> int:
    """Packets that did not fit the kernel's queues of what interfaces received (net.core.netdev_max_backlog), out of
    /proc/net/softnet_stat: a line for each processor. Of the whole kernel, whoever sent them. Raises MachineFault if
    it has no such column."""
    try:
        return sum(int(line.split()[1], 16) for line in softnet.splitlines())
    except (IndexError, ValueError) as problem:
        raise MachineFault(f"/proc/net/softnet_stat does not count drops: {softnet[:80]!r}") from problem


def parse_tcp(snmp: str, netstat: str) -> TcpCounters:
    """Reads /proc/<pid>/net/snmp and /proc/<pid>/net/netstat. Raises MachineFault if a counter is missing."""
    tcp, extended, ip = _proc_table(snmp, "Tcp:"), _proc_table(netstat, "TcpExt:"), _proc_table(netstat, "IpExt:")
    try:
        return TcpCounters(tcp["OutSegs"], tcp["RetransSegs"], extended["TCPTimeouts"], ip["InCEPkts"])
    except KeyError as missing:
        raise MachineFault(f"the kernel does not count {missing} for TCP") from missing


def _proc_table(text: str, prefix: str) -> dict[str, int]:
    """Reads a line of names and a line of values that both start with `prefix`."""
    rows = [line.split()[1:] for line in text.splitlines() if line.startswith(prefix)]
    if len(rows) != 2:
        raise MachineFault(f"the kernel's counters have no {prefix} table")
    return {name: int(value) for name, value in zip(rows[0], rows[1], strict=True)}


class QueueReader:
    """A socket that asks the kernel for the queues of the ports of the network namespace that it was made in.

    interfaces: whose queues are reported, in this order.
    """

    def __init__(self, interfaces: Sequence[str]) -> None:
        self._place = {known_index(name): place for place, name in enumerate(interfaces)}
        self._kernel = Kernel()

    def read(self) -> tuple[list[int], list[int]]:
        """Reads the bytes that wait at each interface, in all bands together, and the packets that have been marked
        there so far. Raises MachineFault if the kernel does not answer."""
        waiting, marks = [0] * len(self._place), [0] * len(self._place)
        for message in self._kernel.dump(RTM_GETQDISC, TC_MESSAGE.pack(0, 0, 0, 0, 0)):
            add_waiting(message, self._place, waiting)
            add_marks(message, self._place, marks)
        return waiting, marks

    def close(self) -> None:
        """Closes the socket."""
        self._kernel.close()


def add_waiting(message: bytes, place: Mapping[int, int], waiting: list[int]) -> None:
    """Adds the backlog of a qdisc to that of its port, if the qdisc is the queue of a band at one of the ports.

    message: a struct tcmsg with its attributes. place: where a port stands in `waiting`, by its interface's index.
    """
    _, index, _, parent, _ = TC_MESSAGE.unpack_from(message)
    if index not in place or parent >> 16 != BANDS_MAJOR or not 1 <= parent & 0xFFFF <= MAX_BANDS:
        return
    try:
        stats = attributes(attributes(message[TC_MESSAGE.size :])[TCA_STATS2])
        _, backlog_bytes, *_ = QUEUE.unpack_from(stats[TCA_STATS_QUEUE])
    except KeyError as error:
        raise MachineFault("the kernel tells of a queue without its length") from error
    waiting[place[index]] += backlog_bytes


def add_marks(message: bytes, place: Mapping[int, int], marks: list[int]) -> None:
    """Adds what a queue that marks has marked to its port, wherever below the port it is. Arguments are those of
    `add_waiting`."""
    _, index, _, _, _ = TC_MESSAGE.unpack_from(message)
    found = attributes(message[TC_MESSAGE.size :]) if index in place else {}
    if found.get(TCA_KIND) != RED:
        return
    try:
        (marked,) = struct.unpack_from("=I", attributes(found[TCA_STATS2])[TCA_STATS_APP], RED_MARKED)
    except (KeyError, struct.error) as error:
        raise MachineFault("the kernel tells of a queue without its marks") from error
    marks[place[index]] += marked
