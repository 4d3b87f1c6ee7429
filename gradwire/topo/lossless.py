"""Priority flow control: the lines to write to /proc/lossless of the virtual-time kernel, and a parser of its output.
Pure.

The kernel's patch (vm/patches/6.12/priority-flow-control.patch) has the theory. Ports are numbered in the order of
`Fabric.ports`, so that those of link k are 2k and 2k + 1. A port has to have its queues (topo/tc.py) before it is
named, in the network namespace where its interface is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gradwire.datatypes.pauses import HeldBandBytes, PauseCount, PauseState
from gradwire.network.fabric import Fabric, Port, band_of_class
from gradwire.network.lossless import Lossless, pause_frame_s

CONTROL_FILE, EVENTS_FILE = "/proc/lossless", "/proc/lossless_events"
NO_POOL = -1
"""Number in place of a switch's pool, for a port of a host."""


def opening_lines(fabric: Fabric, wanted: Lossless) -> list[str]:
    """The first lines to write: the bands that are paused, the number of ports, and the memory of each switch."""
    mask = sum(1 << band for band in paused_bands(fabric, wanted))
    pools = [
        f"pool {number} {wanted.pool_bytes(name, fabric)} {round(wanted.alpha * 1000)} {wanted.xoff_bytes} {wanted.xon_bytes} "
        f"{wanted.gap_bytes(fabric)}"
        for number, name in enumerate(fabric.switch_names())
    ]
    return [f"classes {mask:x}", f"ports {len(fabric.ports())}", *pools]


def paused_bands(fabric: Fabric, wanted: Lossless) -> tuple[int, ...]:
    """The bands of the classes that are paused. That of control never is, because it carries ACKs."""
    return tuple(band_of_class(each) for each in wanted.paused_classes(fabric.classes))


def port_lines(fabric: Fabric, wanted: Lossless, interfaces: Mapping[Port, str]) -> dict[str, list[str]]:
    """Lines to write for the ports of each device. interfaces: names of the ports on the machine."""
    pools = {name: number for number, name in enumerate(fabric.switch_names())}
    lines: dict[str, list[str]] = {}
    for number, link in enumerate(fabric.links()):
        for at, port in ((2 * number, link.a), (2 * number + 1, link.b)):
            pool = pools.get(port.device, NO_POOL)
            line = f"port {at} {interfaces[port]} {pool} {wanted.headroom_of(link, fabric)}"
            lines.setdefault(port.device, []).append(line)
    return lines


def link_lines(fabric: Fabric) -> list[str]:
    """A line for each link: how long a pause of either end is under way."""
    return [
        f"link {2 * number} {2 * number + 1} {delay_ns} {delay_ns}"
        for number, link in enumerate(fabric.links())
        for delay_ns in [round((link.delay_s + pause_frame_s(link)) * 1e9)]
    ]


def parse_pauses(text: str, ports: Sequence[Port], headroom_bytes: Sequence[int]) -> PauseState:
    """Reads /proc/lossless. ports, headroom_bytes: by their numbers."""
    told: dict[tuple[int, int], list[int]] = {}
    obeyed: dict[tuple[int, int], list[int]] = {}
    held: list[HeldBandBytes] = []
    now_ns = lost = events = 0
    for word, *rest in map(str.split, text.splitlines()):
        values = [int(each) for each in rest]
        if word == "now":
            (now_ns,) = values
        elif word == "lost":
            lost, events = values
        elif word == "in":
            told[values[0], values[1]] = values[2:]
        elif word == "out":
            obeyed[values[0], values[1]] = values[2:]
        elif word == "held":
            out, band, into, size_bytes = values
            held.append(HeldBandBytes(ports[out].interface, band, ports[into].interface, size_bytes))
    counts = []
    for (number, band), (queued, stopped, stops, stopped_ns, _) in sorted(obeyed.items()):
        shared, beyond, most_shared, most_beyond, paused, pauses, resumes, paused_ns, since_ns, dropped = told.get(
            (number, band), [0] * 10
        )
        counts.append(
            PauseCount(
                port=ports[number].interface,
                band=band,
                pauses=pauses,
                resumes=resumes,
                paused_ns=paused_ns,
                paused_since_ns=since_ns if paused else -1,
                most_bytes=most_shared,
                most_headroom_bytes=most_beyond,
                headroom_bytes=headroom_bytes[number] if (number, band) in told else 0,
                dropped=dropped,
                stops=stops,
                stopped_ns=stopped_ns,
                is_stopped=bool(stopped),
                waiting_bytes=queued,
                charged_bytes=shared + beyond,
            )
        )
    return PauseState(now_ns, lost, tuple(counts), tuple(held), events)
