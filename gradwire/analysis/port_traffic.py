"""The traffic that ports sent, from the counters of a network. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gradwire.datatypes.network_counts import BandCount, NetworkCounts
from gradwire.network.fabric import PREAMBLE_FCS_GAP_BYTES, Fabric


@dataclass(frozen=True)
class PortTraffic:
    """The traffic that a port sent. Bytes are those of whole frames as tc counts them, without preamble, FCS and gap."""

    interface: str
    rate_bps: float
    sent_bytes: int
    packets: int
    drops: int
    #: The same bytes by band; empty where programs replaced queues, which count in sum and from then on.
    band_bytes: tuple[int, ...] = ()
    #: The queues that programs put in the place of the port's own, in the words of tc: "1:1 netem".
    replaced_by: tuple[str, ...] = ()

    @property
    def line_bytes(self) -> int:
        """Bytes that the port's line carried, with preamble, FCS and gap of every frame."""
        return self.sent_bytes + self.packets * PREAMBLE_FCS_GAP_BYTES

    def line_use(self, duration_s: float) -> float:
        """Returns the mean share of the line that was used; 0 for a run that took no time."""
        return self.line_bytes * 8 / (self.rate_bps * duration_s) if duration_s > 0 else 0.0


def ports_traffic(fabric: Fabric, counts: NetworkCounts) -> tuple[PortTraffic, ...]:
    """Returns what each port sent, in the order of `Fabric.ports`: by its line, or by its queues in a kernel without
    counters of lines. A port that was not counted is left out."""
    bands: dict[str, list[BandCount]] = {}
    for band in counts.bands:
        bands.setdefault(band.port, []).append(band)
    lines = {line.port: line for line in counts.lines}
    replaced = {each.port: each for each in counts.replaced}
    found = []
    for port, rate_bps in fabric.ports():
        queues, other = bands.get(port.interface, []), replaced.get(port.interface)
        line = lines.get(port.interface)
        if not queues and other is None and line is None:
            continue
        sent_bytes, packets, drops = (other.bytes_sent, other.packets_sent, other.drops) if other else _sum(queues)
        if line is not None:
            sent_bytes, packets = line.size_bytes, line.frames
        by_band = tuple(band.bytes_sent for band in sorted(queues, key=lambda band: band.band))
        replaced_by = other.queues if other else ()
        found.append(PortTraffic(port.interface, rate_bps, sent_bytes, packets, drops, by_band, replaced_by))
    return tuple(found)


def _sum(bands: Iterable[BandCount]) -> tuple[int, int, int]:
    """Bytes, packets and drops of all bands of a port."""
    sums = [(band.bytes_sent, band.packets_sent, band.drops) for band in bands]
    sent_bytes, packets, drops = (sum(column) for column in zip(*sums, strict=True)) if sums else (0, 0, 0)
    return sent_bytes, packets, drops


def busiest(ports: Sequence[PortTraffic], count: int) -> list[PortTraffic]:
    """Returns the ports that carried most, most first."""
    return sorted(ports, key=lambda port: port.line_bytes, reverse=True)[:count]
