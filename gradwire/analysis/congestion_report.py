"""Effects of finite buffers, marks and congestion control in a run: the lengths of queues, and the lines of its
report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gradwire.analysis.iterations import Float64
from gradwire.analysis.pause_report import pause_lines
from gradwire.datatypes.network_counts import BandCount
from gradwire.datatypes.records import PointRecord, QueueLengths
from gradwire.network.fabric import Fabric
from gradwire.network.routes import ports_in_words

MOST_PORTS = 3
"""Number of ports that are named, those with most first."""


@dataclass(frozen=True)
class QueueUse:
    """The queue of a switch's port over some time, all of its bands
    together. Bytes are those of frames, as tc counts them."""

    port: str
    mean_bytes: float
    #: 99 % of the readings were not above it.
    p99_bytes: float
    most_bytes: int
    readings: int


def queue_uses(queues: QueueLengths, spans_s: Float64 | None = None) -> list[QueueUse]:
    """The queues of all ports, the longest mean first.

    spans_s: rows of a begin and an end; readings outside of all of them do not count, and without it those before the
    replay. Empty if no reading is left.
    """
    kept = queues.time_ns >= 0 if spans_s is None else _inside(queues.time_ns / 1e9, spans_s)
    rows = queues.waiting_bytes[kept]
    if not len(rows):
        return []
    uses = [
        QueueUse(port, float(column.mean()), float(np.percentile(column, 99)), int(column.max()), len(column))
        for port, column in zip(queues.ports, rows.T, strict=True)
    ]
    return sorted(uses, key=lambda use: -use.mean_bytes)


def _inside(times_s: Float64, spans_s: Float64) -> np.typing.NDArray[np.bool_]:
    inside = np.zeros(len(times_s), dtype=np.bool_)
    for begin_s, end_s in spans_s:
        inside |= (times_s >= begin_s) & (times_s <= end_s)
    return inside


def congestion_lines(fabric: Fabric, record: PointRecord, queues: QueueLengths | None = None) -> Iterator[str]:
    """Drops and marks by port, keys that had no effect, windows, and queues
    where they were read. Nothing for a lossless network."""
    bands, words = record.counts.bands, ports_in_words(fabric)
    if fabric.buffer_bytes:
        dropped = _by_port(bands, [band.drops for band in bands])
        yield (
            f"dropped, of buffers of {fabric.buffer_bytes:,} bytes: {_list_ports(dropped, words)}"
            if dropped
            else f"no buffer of {fabric.buffer_bytes:,} bytes was ever full: fabric.buffer had no effect"
        )
    if fabric.ecn_bytes:
        marked = _by_port(bands, [band.marks for band in bands])
        yield (
            f"marked, behind more than {fabric.ecn_bytes:,} bytes: {_list_ports(marked, words)}"
            if marked
            else f"no packet that can be marked found more than {fabric.ecn_bytes:,} bytes waiting: fabric.ecn had no "
            "effect"
        )
    yield from pause_lines(fabric, record.pauses)
    yield from _windows(record)
    if queues is not None:
        yield from _queues(queues, words)


def _by_port(bands: Sequence[BandCount], counts: Sequence[int]) -> dict[str, tuple[int, int]]:
    """Ports where something was counted, with the count and all packets, most first."""
    counted: dict[str, tuple[int, int]] = {}
    for band, count in zip(bands, counts, strict=True):
        before, packets = counted.get(band.port, (0, 0))
        counted[band.port] = before + count, packets + band.packets_sent
    chosen = {port: totals for port, totals in counted.items() if totals[0]}
    return dict(sorted(chosen.items(), key=lambda entry: -entry[1][0]))


def _list_ports(ports: dict[str, tuple[int, int]], words: Mapping[str, str]) -> str:
    chosen = list(ports.items())[:MOST_PORTS]
    named = [f"{count:,} at {words[port]}, which sent {sent:,}" for port, (count, sent) in chosen]
    others = len(ports) - len(named)
    return "; ".join(named) + (f"; and at {others} more ports" if others else "")


def _windows(record: PointRecord) -> Iterator[str]:
    sockets = [state for agent in record.agents for state in agent.sockets]
    if not sockets:
        return
    names = ", ".join(sorted({state.congestion for state in sockets}))
    least, most = min(state.least_window for state in sockets), max(state.most_window for state in sockets)
    again, arrived = sum(state.retransmits for state in sockets), sum(state.delivered for state in sockets)
    marked = sum(state.delivered_marked for state in sockets)
    timers = record.counts.tcp_timeouts
    yield (
        f"{names}: windows of {least:,} to {most:,} segments at the ends of iterations; {again:,} segments sent "
        f"again, {arrived:,} arrived, {marked:,} of them reported as marked; retransmission timers expired {timers:,} "
        "times"
    )


def _queues(queues: QueueLengths, words: Mapping[str, str]) -> Iterator[str]:
    for use in queue_uses(queues)[:MOST_PORTS]:
        if use.most_bytes:
            yield (
                f"queue of {words[use.port]} over the whole replay: {use.mean_bytes:,.0f} bytes on average, up to "
                f"{use.p99_bytes:,.0f} for 99 % of the time, {use.most_bytes:,} at most ({use.readings:,} readings)"
            )
