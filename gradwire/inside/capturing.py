"""Captures the ports that a point or programs name, into a folder of pcapng files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from gradwire.topo.network import Network

if TYPE_CHECKING:
    from gradwire.agents.capture.capture_process import CaptureProcess


def capturing(
    network: Network, names: Sequence[str], folder: Path, *, snaplen_bytes: int, workers: int
) -> AbstractContextManager[CaptureProcess | None]:
    """Captures ports in a separate process, each into a file of the subfolder CAPTURE_FOLDER; nothing if no port is
    named.

    names: as `Fabric.ports_named` takes them. snaplen_bytes: kept of each packet. workers: how many a message's header
    has room for.
    """
    ports = network.fabric.ports_named(names)
    if not ports:
        return nullcontext()
    from gradwire.agents.capture.capture_process import CaptureProcess  # noqa: PLC0415 (numpy: half a second without need)
    from gradwire.agents.capture.recorder import CaptureSettings, PortEntry  # noqa: PLC0415
    from gradwire.datatypes.records import CAPTURE_FOLDER  # noqa: PLC0415

    (folder / CAPTURE_FOLDER).mkdir(exist_ok=True)
    entries = tuple(
        PortEntry(
            port.interface,
            network.interface(port),
            network.namespace_of_port(port),
            network.fabric.rate_of(port),
            str(folder / CAPTURE_FOLDER / f"{port.interface}.pcapng"),
        )
        for port in ports
    )
    return CaptureProcess(CaptureSettings(entries, snaplen_bytes, workers), folder)
