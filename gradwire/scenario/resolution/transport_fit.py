"""Checks that a point's transport fits its network: congestion control with ports that drop or mark, sockets' buffers
with paths. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gradwire.datatypes.host_settings import CONGESTION_KEY, STOCK_SEND_BYTES, is_of_tcp
from gradwire.datatypes.plan import Plan
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.network.lossless import WINDOW_BUFFERS
from gradwire.network.path_delays import LARGEST_WINDOW_BYTES, enough_buffer_bytes, round_trip_bytes
from gradwire.scenario.resolution.planned_faults import planned_faults
from gradwire.scenario.schema import PointSection
from gradwire.workloads.units import SIZE

BURST_MEMORY_BYTES = 1280
"""Bytes of the machine's memory that a burst under way takes besides its payload, of which there is one copy for all:
the kernel's structures and the room for headers (SKB_TRUESIZE(MAX_TCP_HEADER) of include/linux/skbuff.h)."""
SOCKETS_SHARE = 0.5
"""Share of the machine's memory for sockets; the rest is for the network, the plan and the logs."""


REACTS_TO_MARKS: Mapping[str, str] = {
    "dctcp": '"100KB" at 10 Gbit/s',
    "dcqcn": "{}, for marks as in its paper",
    "nscc": '"100KB" at 100 Gbit/s',
}
"""Congestion controls that do nothing without marks, with what to write for `fabric.ecn`."""
SET_BY_AGENTS: Mapping[str, str] = {
    "net.ipv4.tcp_wmem": "transport.buffer",
    "net.ipv4.tcp_rmem": "transport.buffer",
    CONGESTION_KEY: "transport.congestion",
}
"""Parameters that agents set for each socket, and the key that decides them."""


def path_bytes(section: PointSection, fabric: Fabric) -> int:
    """Bytes that the longest round trip holds at the line's rate; 0 if no link has a delay.

    Raises InputFault for a link that does not exist.
    """
    of_links = {name: fault for name, fault in section.fault.items() if fault.link is not None}
    return round_trip_bytes(fabric, planned_faults(of_links, fabric))


def buffer_bytes(section: PointSection, fabric: Fabric) -> int:
    """Size of the buffer of each socket, or the largest that it grows to: the one that the point asks for, the largest
    of its hosts' kernel, or the one that fills its paths. Raises InputFault as `path_bytes` does."""
    if section.transport.buffer:
        return section.transport.buffer
    if fabric.host_tcp.is_stock:
        return STOCK_SEND_BYTES
    enough_bytes = enough_buffer_bytes(path_bytes(section, fabric))
    # Of senders that pauses hold back, no window is the limit before.
    return enough_bytes if fabric.lossless is None else enough_bytes + WINDOW_BUFFERS * fabric.lossless.buffer_bytes


def is_grown(section: PointSection, fabric: Fabric) -> bool:
    """Returns whether the kernel grows sockets' buffers: on stock hosts, unless the point sets their size."""
    return fabric.host_tcp.is_stock and not section.transport.buffer


def small_windows(section: PointSection, fabric: Fabric) -> str:
    """Warning before the run about windows that do not fill the longest path; "" if all do."""
    held_bytes = path_bytes(section, fabric)
    has_bytes, enough_bytes = buffer_bytes(section, fabric), enough_buffer_bytes(held_bytes)
    longest = f"the longest round trip holds {held_bytes / 1e6:,.4g} MB at the line's rate (rate x round trip)"
    if held_bytes > LARGEST_WINDOW_BYTES:
        return (
            f"{longest}, and no window of TCP is larger than {_size(LARGEST_WINDOW_BYTES)}: one connection cannot fill that path, whatever "
            "transport.buffer is; use a lower rate or shorter delays"
        )
    if is_grown(section, fabric):
        most_bytes = fabric.host_tcp.window_bytes
        if held_bytes <= most_bytes:
            return ""
        return (
            f"fabric.hosts = '{fabric.host_tcp}': windows of such hosts grow to about {most_bytes / 1e6:.1f} MB, and {longest}, so "
            "windows limit connections, as they do on such hosts"
        )
    if section.transport.buffer is None or has_bytes >= enough_bytes or not held_bytes:
        return ""
    return (
        f"transport.buffer = {_size(has_bytes)} is too little for the links' delays: {longest}, so sockets' windows may limit "
        f"connections, and not links. {_size(enough_bytes)} would do, which is what it is when left out"
    )


def crowded_memory(section: PointSection, fabric: Fabric, connections: int) -> str:
    """Warning before the run if all sockets together may hold more than the machine's memory; "" otherwise."""
    each_bytes, memory_bytes = buffer_bytes(section, fabric), section.run.memory_mb << 20
    burst_bytes = max(fabric.mss_bytes(), fabric.gso_bytes * fabric.mss_bytes() // fabric.mtu_bytes)
    needed_bytes = connections * each_bytes / burst_bytes * BURST_MEMORY_BYTES
    if needed_bytes <= SOCKETS_SHARE * memory_bytes:
        return ""
    return (
        f"{connections:,} connections whose buffers have {_size(each_bytes)} each (transport.buffer) may together hold bursts that take "
        f"{needed_bytes / 2**20:,.0f} MiB of the machine's memory, which is more than half of run.memory_mb = {section.run.memory_mb:,}: "
        f"set more memory, or a smaller buffer"
    )


def _size(value_bytes: int) -> str:
    return SIZE.text(value_bytes)


def congestion_defects(section: PointSection) -> list[str]:
    """Describes keys that do not fit together, one line each."""
    lines = host_defects(section)
    fabric, congestion = section.fabric, section.transport.congestion
    if congestion is not None and congestion in REACTS_TO_MARKS and not fabric.ecn_bytes:
        lines.append(
            f"transport.congestion = '{congestion}': reacts to marks, and no port makes any: set fabric.ecn, such as "
            f"{REACTS_TO_MARKS[congestion]}"
        )
    lines.extend(
        f"fabric.link.'{pattern}'.ecn: fabric.ecn is a table, which is for all links; leave out one of them"
        for pattern, link in fabric.link.items()
        if link.ecn is not None and fabric.ecn_most_bytes
    )
    return lines


def host_defects(section: PointSection) -> list[str]:
    """Describes parameters of hosts that would have no effect, because agents set the same ones for each of their
    sockets; one line each."""
    by_agents = dict(SET_BY_AGENTS)
    if not section.transport.congestion:
        del by_agents[CONGESTION_KEY]
    if section.program:  # whose sockets they are for
        return []
    return [
        f"fabric.host.'{pattern}'.sysctl.'{key}': has no effect on the sockets of a strategy, for which {by_agents[key]} decides; "
        "use that, or leave out one of them"
        for pattern, host in section.fabric.host.items()
        for key in host.sysctl
        if key in by_agents
    ]


def congestion_keys(section: PointSection) -> list[str]:
    """Keys with which a point sets drops, marks and windows, with their values; empty for a lossless network."""
    fabric, transport = section.fabric, section.transport
    said = {
        "fabric.buffer": f"{fabric.buffer_bytes}B" if fabric.buffer_bytes else "",
        "fabric.ecn": f"{fabric.ecn_bytes}B" if fabric.ecn_bytes else "",
        "fabric.lossless": "{}" if fabric.lossless is not None else "",
        "transport.congestion": f"'{transport.congestion}'" if transport.congestion else "",
    }
    of_hosts = [
        f"fabric.host.'{pattern}'.sysctl.'{key}' = '{value}'"
        for pattern, host in fabric.host.items()
        for key, value in host.sysctl.items()
        if is_of_tcp(key)
    ]
    return [*(f"{key} = {value}" for key, value in said.items() if value), *of_hosts]


def refuse_scaled(section: PointSection, scale: int) -> None:
    """Raises InputFault where bytes and rates are divided, for windows count packets, which stay as large as they are."""
    if section.fabric.hosts.is_stock and scale != 1:
        raise InputFault(
            f"fabric.hosts = '{section.fabric.hosts}': bytes and rates would be divided by {scale}, and such hosts' windows would "
            "not. Run undivided: without run.fidelity, with --scale 1 on the wall clock, or with fewer workers or a lower rate"
        )
    keys = congestion_keys(section)
    if keys and scale != 1:
        raise InputFault(
            f"{', '.join(keys)}: bytes and rates would be divided by {scale}, and windows would not, for they count packets, which stay "
            "as large as they are. Run undivided: without run.fidelity, with --scale 1 on the wall clock, or with fewer workers or a lower "
            "rate"
        )


def refuse_multicast(section: PointSection, plans: Collection[Plan]) -> None:
    """Raises InputFault for multicast past a user's controller, which does not know its groups, and past finite buffers: its
    senders have no congestion control that would slow them down."""
    if section.fabric.controller is not None and any(plan.multicasts() for plan in plans):
        raise InputFault(
            f"fabric.controller: strategy '{section.strategy.name}' sends multicast, whose groups gradwire's own controller installs: "
            "leave out one of them"
        )
    if section.fabric.buffer_bytes and any(plan.multicasts() for plan in plans):
        raise InputFault(
            f"fabric.buffer = {section.fabric.buffer_bytes}B: strategy '{section.strategy.name}' sends multicast, which is UDP without "
            'congestion control: its senders would overflow buffers again and again. Use fabric.buffer = "deep", or fabric.loss'
        )
