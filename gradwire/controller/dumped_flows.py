"""Parses the output of `ovs-ofctl dump-flows` and `dump-groups`: the flows that a user's controller installed.
Pure.

Both are called with --no-names and --no-stats, so a line is `table=1, priority=5,ip,nw_dst=10.0.0.1 actions=output:2`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Network, NetmaskValueError

from gradwire.faults import InputFault

MOST_BYTES = 16 << 20
"""Largest size of the printed flows of one switch, in bytes: some 150,000 flows."""
TCP = 6
KINDS: dict[str, dict[str, int]] = {
    "ip": {"type": 0x0800},
    "tcp": {"type": 0x0800, "protocol": TCP},
    "udp": {"type": 0x0800, "protocol": 17},
    "icmp": {"type": 0x0800, "protocol": 1},
    "sctp": {"type": 0x0800, "protocol": 132},
    "arp": {"type": 0x0806},
    "rarp": {"type": 0x8035},
    "mpls": {"type": 0x8847},
    "ipv6": {"type": 0x86DD},
    "tcp6": {"type": 0x86DD, "protocol": TCP},
    "udp6": {"type": 0x86DD, "protocol": 17},
    "icmp6": {"type": 0x86DD, "protocol": 58},
}
"""ovs-fields(7): words that stand for a type of frame, and a protocol of IP."""
IGNORED = frozenset({"cookie", "duration", "n_packets", "n_bytes", "idle_age", "hard_age", "send_flow_rem"})
"""Parts of a line that are neither match nor actions, and are ignored. Timeouts are not among them: see
`_TIMEOUTS`."""
_TIMEOUTS = ("idle_timeout", "hard_timeout")
ALL_BITS = 2**64 - 1


@dataclass(frozen=True)
class Masked:
    """Bits of a field that a flow matches, or writes."""

    value: int
    mask: int = ALL_BITS

    def takes(self, value: int) -> bool:
        """Returns whether a field with this value matches."""
        return value & self.mask == self.value & self.mask


@dataclass(frozen=True)
class Action:
    """One action: its word and its argument."""

    word: str
    argument: str = ""


@dataclass(frozen=True)
class DumpedFlow:
    """A flow as the switch has it."""

    table: int
    priority: int
    #: Values by field: "in_port", "type", "protocol", "dscp", "metadata" as numbers; the source's and the destination's
    #: MAC and IPv4 address as numbers at "dl_src", "dl_dst", "nw_src" and "nw_dst".
    match: tuple[tuple[str, Masked], ...]
    #: Fields that it matches, but that are not among these.
    others: tuple[str, ...]
    actions: tuple[Action, ...]
    #: The line.
    text: str


@dataclass(frozen=True)
class DumpedGroup:
    """A group as the switch has it."""

    kind: str
    buckets: tuple[tuple[Action, ...], ...]


def flows_in(text: str) -> list[DumpedFlow]:
    """The flows that dump-flows printed. Raises InputFault for a line that is not one, and for too many of them."""
    if len(text) > MOST_BYTES:
        raise InputFault(f"it has more than {MOST_BYTES >> 20} MiB of flows")
    return [_flow(line.strip()) for line in text.splitlines() if " actions=" in line or line.startswith("actions=")]


def groups_in(text: str) -> dict[int, DumpedGroup]:
    """The groups that dump-groups printed, by number. Raises InputFault as `flows_in` does."""
    if len(text) > MOST_BYTES:
        raise InputFault(f"it has more than {MOST_BYTES >> 20} MiB of groups")
    found: dict[int, DumpedGroup] = {}
    for line in map(str.strip, text.splitlines()):
        if match := re.match(r"group_id=(\d+),type=(\w+)", line):
            buckets = [part.partition("actions=")[2] for part in line.split(",bucket=")[1:]]
            found[int(match[1])] = DumpedGroup(match[2], tuple(actions_in(bucket) for bucket in buckets))
    return found


def _flow(line: str) -> DumpedFlow:
    head, _, actions = line.partition("actions=")
    table, priority, others = 0, 32768, list[str]()
    match: dict[str, Masked] = {}
    for word in re.split(r"[,\s]+", head.strip()):
        key, _, value = word.partition("=")
        try:
            if key == "table":
                table = int(value)
            elif key == "priority":
                priority = int(value)
            elif key in _TIMEOUTS:
                others.append(key)
            elif key in KINDS and not value:
                match |= {field: Masked(number) for field, number in KINDS[key].items()}
            elif key and key not in IGNORED:
                field = _field(key, value)
                match |= field
                others += [] if field else [key]
        except (ValueError, AddressValueError, NetmaskValueError) as error:
            raise InputFault(f"flow '{line}': {word}: cannot be read: {error}") from error
    return DumpedFlow(table, priority, tuple(match.items()), tuple(others), actions_in(actions), line)


def _field(key: str, value: str) -> dict[str, Masked]:
    """A field of a match; nothing for one that is not followed. Raises ValueError for a value that cannot be read."""
    plain, _, mask = value.partition("/")
    if key in ("dl_src", "dl_dst", "eth_src", "eth_dst"):
        name = key.replace("eth", "dl")
        return {name: Masked(mac_number(plain), mac_number(mask) if mask else ALL_BITS)}
    if key in ("nw_src", "nw_dst", "ip_src", "ip_dst"):
        network = IPv4Network(value, strict=False)
        return {key.replace("ip", "nw"): Masked(int(network.network_address), int(network.netmask))}
    if key in ("nw_tos", "ip_dscp"):
        return {"dscp": Masked(int(plain, 0) >> (2 if key == "nw_tos" else 0))}
    numbers = {"dl_type": "type", "eth_type": "type", "nw_proto": "protocol", "ip_proto": "protocol"}
    if key in ("in_port", "metadata", *numbers):
        return {numbers.get(key, key): Masked(int(plain, 0), int(mask, 0) if mask else ALL_BITS)}
    return {}


def mac_number(text: str) -> int:
    """A MAC address as a number. Raises ValueError for a text that is none."""
    parts = text.split(":")
    if len(parts) != 6:
        raise ValueError(f"'{text}' is not a MAC address")
    return int("".join(f"{int(part, 16):02x}" for part in parts), 16)


def actions_in(text: str) -> tuple[Action, ...]:
    """Actions as they are printed: `set_queue:1,output:2`, `group:3`, `write_actions(output:2)`."""
    return tuple(_action(word) for word in _at_top(text) if word)


def _at_top(text: str) -> list[str]:
    """The parts between commas that are in no brackets."""
    parts, depth = [""], 0
    for letter in text.strip():
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _action(word: str) -> Action:
    if word.isdigit():
        return Action("output", word)
    match = re.match(r"(\w+)(?::|\((.*)\)$)?", word)
    if match is None:
        return Action(word)
    return Action(match[1].lower(), match[2] if match[2] is not None else word[match.end() :])
