"""Examines what a network is said to have counted: queues, lines, pauses. Files that others wrote may say anything."""

from __future__ import annotations

from gradwire.datatypes.network_counts import NetworkCounts
from gradwire.datatypes.pauses import PauseEvents, PauseState
from gradwire.datatypes.records import QueueLengths
from gradwire.network.fabric import Fabric
from gradwire.runs.stored.value_limits import (
    LARGEST,
    refuse_negative,
    refuse_negative_numbers,
    refuse_outside,
    refuse_values_outside,
    shown,
)


def refuse_unsound_counts(counts: NetworkCounts, fabric: Fabric) -> None:
    """Raises ValueError for counts that no network has, and for those of ports that this one has not."""
    refuse_negative_numbers(counts)
    ports = {port.interface for port, _ in fabric.ports()}
    for line in counts.lines:
        if line.port not in ports:
            raise ValueError(f"counts.lines: the network has no port {shown(line.port)}")
        refuse_negative_numbers(line)
    seen: set[tuple[str, int]] = set()
    for band in counts.bands:
        if band.port not in ports:
            raise ValueError(f"counts.bands: the network has no port {shown(band.port)}")
        refuse_outside("a port's band", band.band, 0, fabric.bands - 1)
        refuse_negative_numbers(band)
        if (band.port, band.band) in seen:
            raise ValueError(f"counts.bands: port {band.port} has band {band.band} twice")
        seen.add((band.port, band.band))
    if unknown := [port for port in counts.changed_ports or () if port not in ports]:
        raise ValueError(f"counts.changed_ports: the network has no port {shown(unknown[0])}")
    for other in counts.replaced:
        if other.port not in ports:
            raise ValueError(f"counts.replaced: the network has no port {shown(other.port)}")
        refuse_negative_numbers(other)


def refuse_unsound_pauses(events: PauseEvents, fabric: Fabric) -> None:
    """Raises ValueError for pauses by ports or of bands that the network does not have."""
    if events.ports != tuple(port.interface for port, _ in fabric.ports()):
        raise ValueError("its ports are not those of the network")
    refuse_values_outside("time_ns", events.time_ns, -LARGEST)
    refuse_values_outside("band", events.band, 0, fabric.bands - 1)
    refuse_values_outside("pauses", events.pauses, 0, 1)


def refuse_unsound_state(state: PauseState, fabric: Fabric) -> None:
    """Raises ValueError for counts of flow control that no network has, and for ports and bands that this one does not have."""
    ports = {port.interface for port, _ in fabric.ports()}
    refuse_outside("pauses.lost", state.lost, 0)
    for count in state.counts:
        refuse_negative(count, "pauses", "resumes", "paused_ns", "most_bytes", "most_headroom_bytes", "headroom_bytes")
        refuse_negative(count, "dropped", "stops", "stopped_ns", "waiting_bytes", "charged_bytes")
    for band in (*(count.band for count in state.counts), *(held.band for held in state.held)):
        refuse_outside("a paused band", band, 0, fabric.bands - 1)
    named = [
        *(count.port for count in state.counts),
        *(name for held in state.held for name in (held.port, held.came_by)),
    ]
    if unknown := [name for name in named if name not in ports]:
        raise ValueError(f"pauses: the network has no port {shown(unknown[0])}")


def refuse_unsound_queues(queues: QueueLengths, fabric: Fabric) -> None:
    """Raises ValueError for lengths of queues that no port of the network has."""
    ports = {port.interface for port, _ in fabric.ports()}
    unknown = [port for port in queues.ports if port not in ports]
    if unknown or len(set(queues.ports)) < len(queues.ports):
        raise ValueError(f"the network has no port {shown(unknown[0])}" if unknown else "a port is there twice")
    refuse_values_outside("time_ns", queues.time_ns, -LARGEST)  # those before the replay are negative
    if queues.waiting_bytes.size:
        refuse_values_outside("waiting_bytes", queues.waiting_bytes.reshape(-1), 0)
        refuse_values_outside("marks", queues.marks.reshape(-1), 0)
