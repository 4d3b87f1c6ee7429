"""Captured packets as events of a timeline, and the names of its tracks."""

from __future__ import annotations

from collections.abc import Iterator

from gradwire.analysis.packets.capture_files import CapturedPackets
from gradwire.analysis.timeline.trace import Event

NETWORK = 1
"""The process of a timeline of programs that stands for the network."""


def packet_events(port: str, packets: CapturedPackets, rate_bps: float, begin_ns: int, track: int) -> Iterator[Event]:
    """Yields a slice for each packet, on two tracks: packets that the port's device sends, and packets that it
    receives. A slice ends at the next one at the latest."""
    for is_sent, name in ((True, "sends"), (False, "receives")):
        yield name_event("thread_name", track + (not is_sent), f"{port} {name}")
        chosen = packets.outbound == is_sent
        times_ns, sizes = packets.time_ns[chosen].tolist(), packets.line_bytes[chosen].tolist()
        frame_bytes = packets.frame_bytes[chosen].tolist()
        nexts_ns = [*times_ns[1:], None][: len(times_ns)]
        for at_ns, next_ns, line_bytes, shown in zip(times_ns, nexts_ns, sizes, frame_bytes, strict=True):
            busy_ns = line_bytes * 8 / rate_bps * 1e9
            if next_ns is not None:
                busy_ns = max(0, min(busy_ns, next_ns - at_ns))
            yield {
                "ph": "X",
                "name": f"{shown:,} bytes",
                "cat": "packet",
                "pid": NETWORK,
                "tid": track + (not is_sent),
                "ts": round((at_ns - begin_ns) / 1e3, 3),
                "dur": round(busy_ns / 1e3, 3),
            }


def name_event(what: str, track: int, name: str) -> Event:
    """The event that names the network's process, or a track of it. what: "process_name" or "thread_name"."""
    return {"ph": "M", "name": what, "pid": NETWORK, "tid": track, "args": {"name": name}}
