"""Follows packets of all pairs of hosts through flows that a user's controller installed. Pure.

The packets are those of agents: TCP over IPv4, of each class by its DSCP. A flow may match the port, Ethernet
addresses, type, IPv4 addresses, protocol, DSCP and metadata, and may set a queue, write metadata, continue in another
table, and output to one port, also by a group with one bucket (of `ff`, the first). Anything else that a packet meets
is a defect, because one could no longer tell which line carries its bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address

from gradwire.controller.dumped_flows import TCP, Action, DumpedFlow, DumpedGroup, Masked, actions_in, mac_number
from gradwire.network.fabric import Fabric, dscp_of_band
from gradwire.network.read_ways import way_of_steps

IPV4 = 0x0800
HARMLESS = frozenset({"dec_ttl", "clear_actions"})
"""Actions that change neither a packet's way nor what its receiver takes."""
TO_CONTROLLER = "controller"
DROP = "drop"
Packet = dict[str, int]


@dataclass(frozen=True)
class SwitchFlows:
    """The flows and groups of a switch."""

    flows: tuple[DumpedFlow, ...]
    groups: Mapping[int, DumpedGroup]


@dataclass(frozen=True)
class Followed:
    """The ways that flows lead to, in the form of Fabric.ways, and their defects, a line each."""

    ways: tuple[tuple[int, ...], ...]
    defects: tuple[str, ...]


class _Lost(Exception):
    """A packet cannot be followed further: why, and where."""


@dataclass
class _Tables:
    """The flows of one switch, in the order in which they are tried, by table and by the destination that they name."""

    switch: SwitchFlows
    _by_destination: dict[tuple[int, str, int], list[DumpedFlow]] = field(default_factory=dict)
    _of_any: dict[int, list[DumpedFlow]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for flow in self.switch.flows:
            exact = next(
                (
                    (name, wanted.value)
                    for name, wanted in flow.match
                    if name in ("nw_dst", "dl_dst") and _is_whole(name, wanted)
                ),
                None,
            )
            if exact is None:
                self._of_any.setdefault(flow.table, []).append(flow)
            else:
                self._by_destination.setdefault((flow.table, *exact), []).append(flow)

    def lookup(self, table: int, packet: Packet) -> DumpedFlow | None:
        """The flow that a packet meets in a table. Raises _Lost if that is not known."""
        candidates = list(self._of_any.get(table, ()))
        for name in ("nw_dst", "dl_dst"):
            candidates += self._by_destination.get((table, name, packet[name]), ())
        matching = [flow for flow in candidates if all(wanted.takes(packet[name]) for name, wanted in flow.match)]
        best = max((flow.priority for flow in matching), default=-1)
        highest = [flow for flow in matching if flow.priority == best]
        for flow in highest:
            if flow.others:
                raise _Lost(f"the flow '{flow.text}' depends on {flow.others[0]}, which is not followed")
        if len(highest) > 1:
            raise _Lost(f"two flows of one priority match: '{highest[0].text}' and '{highest[1].text}'")
        return highest[0] if highest else None


def _is_whole(name: str, wanted: Masked) -> bool:
    bits = (1 << (32 if name == "nw_dst" else 48)) - 1
    return wanted.mask & bits == bits


def follow(fabric: Fabric, switches: Mapping[str, SwitchFlows]) -> Followed:
    """Follows a packet of every pair of hosts and every band through the flows of all switches, by their names."""
    walker = _Walker(fabric, switches)
    ways: list[tuple[int, ...]] = []
    defects: dict[str, None] = {}
    for source in range(fabric.hosts):
        for target in range(fabric.hosts):
            ways.append(())
            if source == target:
                continue
            try:
                ways[-1] = walker.way(source, target)
            except _Lost as lost:
                names = fabric.host_names()
                defects[f"packets from {names[source]} to {names[target]} {lost}"] = None
    return Followed(tuple(ways), tuple(defects))


class _Walker:
    def __init__(self, fabric: Fabric, switches: Mapping[str, SwitchFlows]) -> None:
        self._fabric = fabric
        self._names = fabric.switch_names()
        self._tables = {name: _Tables(switches[name]) for name in self._names}
        #: The other end of each switch's port: a link between switches, or a host.
        self._trunk_at: dict[tuple[str, int], tuple[int, bool, str, int]] = {}
        for number, link in enumerate(fabric.trunk_links()):
            self._trunk_at[link.a.device, link.a.number] = (number, True, link.b.device, link.b.number)
            self._trunk_at[link.b.device, link.b.number] = (number, False, link.a.device, link.a.number)
        self._host_at = {
            (self._names[fabric.switch_of(host)], fabric.leaf_port(host)): host for host in range(fabric.hosts)
        }
        self._address = [int(IPv4Address(fabric.host_ip(host))) for host in range(fabric.hosts)]
        self._mac = [mac_number(fabric.host_mac(host)) for host in range(fabric.hosts)]
        by_class = any(name == "dscp" for each in switches.values() for flow in each.flows for name, _ in flow.match)
        by_class = by_class or any("set_queue" in flow.text for each in switches.values() for flow in each.flows)
        self._bands: Sequence[int] = range(fabric.bands) if by_class else [fabric.bands - 1]

    def way(self, source: int, target: int) -> tuple[int, ...]:
        """The way that packets of all classes take. Raises _Lost."""
        found = {self._way(source, target, band): band for band in self._bands}
        if len(found) > 1:
            raise _Lost("take other ways in one traffic class than in another, which is not followed")
        return next(iter(found))

    def _way(self, source: int, target: int, band: int) -> tuple[int, ...]:
        here, port = self._names[self._fabric.switch_of(source)], self._fabric.leaf_port(source)
        steps: list[tuple[int, bool]] = []
        passed = [here]
        while True:
            packet = self._packet(source, target, band, port)
            out = self._output(here, packet, band, target)
            if (here, out) in self._host_at:
                if self._host_at[here, out] != target:
                    other = self._fabric.host_names()[self._host_at[here, out]]
                    raise _Lost(f"come to {other} instead: {here} sends them out of port {out}")
                return way_of_steps(steps)
            if (here, out) not in self._trunk_at:
                raise _Lost(f"are dropped at {here}, which has no port {out}")
            trunk, is_up, here, port = self._trunk_at[here, out]
            steps.append((trunk, is_up))
            if here in passed:
                circle = " -> ".join([*passed[passed.index(here) :], here])
                raise _Lost(f"go in a circle, {circle}")
            passed.append(here)

    def _packet(self, source: int, target: int, band: int, port: int) -> Packet:
        return {
            "in_port": port,
            "type": IPV4,
            "protocol": TCP,
            "dscp": dscp_of_band(band),
            "metadata": 0,
            "nw_src": self._address[source],
            "nw_dst": self._address[target],
            "dl_src": self._mac[source],
            "dl_dst": self._mac[target],
        }

    def _output(self, here: str, packet: Packet, band: int, target: int) -> int:
        """The port by which a packet leaves a switch. Raises _Lost."""
        tables, table = self._tables[here], 0
        outputs: list[str] = []
        written: tuple[Action, ...] = ()
        names = self._fabric.host_names()
        while True:
            flow = tables.lookup(table, packet)
            if flow is None:
                where = f" in table {table}" if table else ""
                raise _Lost(
                    f"are dropped at {here}: it has no flow{where} for what goes to {names[target]} ({self._fabric.host_ip(target)})"
                )
            following = None
            for action in _with_groups(flow.actions, tables.switch.groups, here):
                match action.word:
                    case "output":
                        outputs.append(action.argument)
                    case "controller":
                        outputs.append(TO_CONTROLLER)
                    case "set_queue":
                        _same_band(action, band, flow, here)
                    case "goto_table":
                        following = int(action.argument)
                    case "write_metadata":
                        value, _, mask = action.argument.partition("/")
                        bits = int(mask, 0) if mask else 2**64 - 1
                        packet["metadata"] = packet["metadata"] & ~bits | int(value, 0) & bits
                    case "write_actions":
                        written = actions_in(action.argument)
                    case word if word not in HARMLESS and word != DROP:
                        raise _Lost(f"meet at {here} the flow '{flow.text}', whose {word} is not followed")
            if following is not None and following > table:
                table = following
                continue
            outputs += [
                each.argument for each in _with_groups(written, tables.switch.groups, here) if each.word == "output"
            ]
            return _only(outputs, flow, here)


def _with_groups(actions: Sequence[Action], groups: Mapping[int, DumpedGroup], here: str) -> list[Action]:
    """The actions with those of a group's one bucket in place of the group. Raises _Lost where a switch would choose."""
    found: list[Action] = []
    for action in actions:
        if action.word != "group":
            found.append(action)
            continue
        group = groups.get(int(action.argument)) if action.argument.isdigit() else None
        if group is None or not group.buckets:
            raise _Lost(f"are dropped at {here}: it has no group {action.argument}")
        if len(group.buckets) > 1 and group.kind != "ff":
            what = "chooses among" if group.kind == "select" else "copies packets to"
            raise _Lost(
                f"meet at {here} group {action.argument}, which {what} {len(group.buckets)} buckets: which is not followed"
            )
        found += group.buckets[0]
    return found


def _same_band(action: Action, band: int, flow: DumpedFlow, here: str) -> None:
    if action.argument != str(band):
        raise _Lost(
            f"with DSCP {dscp_of_band(band)} are put by {here} into queue {action.argument} instead of {band}, that of their class, by "
            f"'{flow.text}'. Set no queue, and ports go by the DSCP"
        )


def _only(outputs: Sequence[str], flow: DumpedFlow, here: str) -> int:
    """The one port among outputs. Raises _Lost."""
    away = [each for each in outputs if each != TO_CONTROLLER and not each.lower().startswith(TO_CONTROLLER)]
    if not away:
        to = "only to the controller" if outputs else "nowhere"
        raise _Lost(f"are dropped at {here}: its flow '{flow.text}' sends them {to}")
    if len(away) > 1:
        raise _Lost(f"are copied by {here}: '{flow.text}'")
    if not away[0].isdigit():
        raise _Lost(f"meet at {here} the flow '{flow.text}', whose output to {away[0]} is not followed: name a port")
    return int(away[0])
