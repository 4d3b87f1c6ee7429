"""The parts of OpenFlow rules as frozen data, and a look-up of the rule that a packet meets. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from gradwire.network.fabric import CONTROL_BAND, Fabric, dscp_of_band

ANY_DSCP = None
IGMP_DSCP = 48
"""Linux marks IGMP reports with CS6, "internetwork control"."""
MULTICAST_PRIORITY = 300
FLOOD_PRIORITY = 250
"""Rules for frames to groups and to all, whatever their IP addresses say."""
PAIR_PRIORITY = 200
"""Rules of the second table, which match a source's turn and the destination."""
DESTINATION_PRIORITY = 100
SOURCE_PRIORITY = 50
"""Rules for what no rule by destination is meant for, which leave the rest to the second table."""
TREE_PRIORITY = 10
"""Rules for what no other is meant for, which leave it to the table by MAC address."""
MISS_PRIORITY = 0
DEFAULT_STEP = 1
"""Difference of priority by which a rule for any DSCP comes after those that are alike but name a DSCP."""
FIRST_TABLE, PAIR_TABLE, WAY_TABLE, TREE_TABLE = 0, 1, 2, 3
ALL_BITS = 2**64 - 1
"""Mask of metadata that is written, or matched, as a whole."""
ALL_MAC_BITS = "ff:ff:ff:ff:ff:ff"


@dataclass(frozen=True)
class Match:
    """IPv4 packets, IPv6 packets or any frames with these fields; None matches anything."""

    source_ip: str | None
    destination_ip: str | None
    dscp: int | None
    #: Metadata that earlier tables wrote, and the bits of it that count.
    turn: int | None = None
    turn_mask: int = ALL_BITS
    #: Version of IP; None for frames of any kind.
    version: int | None = 4
    #: Source address of Ethernet.
    source_mac: str | None = None
    #: Destination address of Ethernet, and the bits of it that count.
    destination_mac: str | None = None
    destination_mac_mask: str = ALL_MAC_BITS

    def takes(self, source_ip: str, destination_ip: str, dscp: int, turn: int | None) -> bool:
        """Returns whether a packet with these fields matches. A rule that matches a MAC address never does, because
        MAC addresses, and the way that a host's port writes there, are not among the fields."""
        if self.source_mac is not None or self.destination_mac is not None:
            return False
        if self.version not in (None, 6 if ":" in destination_ip else 4):
            return False
        packet = (source_ip, destination_ip, dscp, None if turn is None else turn & self.turn_mask)
        wanted = (self.source_ip, self.destination_ip, self.dscp, self.turn)
        return all(field in (None, value) for field, value in zip(wanted, packet, strict=True))


@dataclass(frozen=True)
class FlowRule:
    """Sends matching packets through a band of a switch port, to a group, or on to another table; drops them if it has
    none of these."""

    priority: int
    #: None for the table-miss rule.
    match: Match | None
    #: The tc band of the port; None for the one that the first table chose.
    band: int | None = None
    output_port: int | None = None
    group_id: int | None = None
    table: int = FIRST_TABLE
    #: Metadata to write before another table decides, and the bits of it to write.
    turn: int | None = None
    turn_mask: int = ALL_BITS
    next_table: int = PAIR_TABLE


@dataclass(frozen=True)
class GroupBucket:
    """Sends a packet through a band of a port."""

    #: None for the band that the flow chose.
    band: int | None
    output_port: int


@dataclass(frozen=True)
class GroupRule:
    """An OpenFlow group of type `all`, in which every bucket gets a copy; or of type `select`, in which a hash chooses
    one."""

    group_id: int
    buckets: tuple[GroupBucket, ...]
    #: Parameter of a switch's hash of connections; None for type `all`.
    hash_parameter: int | None = None


@dataclass(frozen=True)
class SwitchRules:
    """All rules of one switch."""

    #: Its position in Fabric.switch_names(), counted from 1.
    dpid: int
    name: str
    flows: tuple[FlowRule, ...]
    groups: tuple[GroupRule, ...] = field(default=())


@dataclass(frozen=True)
class Hop:
    """A switch on a packet's path, and the port and band through which the packet leaves it."""

    switch: str
    band: int
    output_port: int


def band_of_dscp(fabric: Fabric) -> dict[int | None, int]:
    """The band that each DSCP stands for. ANY_DSCP stands for all others: packets that no agent sends travel with
    control, as they do at a host's port."""
    return {**{dscp_of_band(band): band for band in range(fabric.bands)}, ANY_DSCP: CONTROL_BAND}


def priority_for(priority: int, dscp: int | None) -> int:
    """Priority of a rule for packets with this DSCP, among rules that are alike but for the DSCP."""
    return priority - DEFAULT_STEP if dscp is ANY_DSCP else priority


def table_misses(flows: list[FlowRule]) -> list[FlowRule]:
    """Rules that drop and count packets that match nothing else, one for each table that has rules. The first table's
    is the last of all."""
    tables = {FIRST_TABLE, *(rule.table for rule in flows)}
    return [FlowRule(MISS_PRIORITY, None, table=table) for table in sorted(tables, reverse=True)]


def lookup(switch: SwitchRules, source_ip: str, destination_ip: str, dscp: int) -> list[FlowRule]:
    """The rules that OpenFlow tables would pick, one of each table that the packet comes to."""
    picked: list[FlowRule] = []
    table = FIRST_TABLE
    turn: int | None = None
    while True:
        rules = [
            rule
            for rule in switch.flows
            if rule.table == table and (rule.match is None or rule.match.takes(source_ip, destination_ip, dscp, turn))
        ]
        if not rules:
            return picked
        picked.append(max(rules, key=lambda rule: rule.priority))
        written = picked[-1].turn
        if written is None:
            return picked
        table, turn = picked[-1].next_table, (turn or 0) & ~picked[-1].turn_mask | written


def rules_to(fabric: Fabric, destination: int, output_port: int) -> list[FlowRule]:
    """One rule per band, and one for packets with any other DSCP."""
    address = fabric.host_ip(destination)
    return [
        FlowRule(priority_for(DESTINATION_PRIORITY, dscp), Match(None, address, dscp), band, output_port)
        for dscp, band in band_of_dscp(fabric).items()
    ]
