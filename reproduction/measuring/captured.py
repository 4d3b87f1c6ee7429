"""What passed a machine's port by its captured packets, for figures of utilisation: never by what the agents' logs say of it.

A capture file is read as a stream, once, and kept as columns in the cache (analysis/packets/captures.py). Only points whose
verdict is valid are read: it has compared the packets with the port's counters and the plan's messages, and the times of
iterations by packets alone with those of the logs (analysis/verdict/packet_checks.py).
"""

from __future__ import annotations

from gradwire.analysis.iterations import iteration_ends_ns
from gradwire.analysis.packets.capture_files import Bool, Capture
from gradwire.analysis.packets.captures import CACHED_CAPTURES, read_captures
from gradwire.analysis.packets.line_use import Utilisation, utilisation
from gradwire.analysis.parameters import describe
from gradwire.datatypes.plan import Plan
from gradwire.vm.kernel import cache_folder
from reproduction.scoring.evidence import NoEvidence, PointEvidence

FROM_PACKETS = "from captured packets"
"""A claim's detail says so where its value comes from here."""


def capture_of(point: PointEvidence, host: str = "h1") -> Capture:
    """What was captured at a host's port. Raises NoEvidence where nothing was, and where the point's verdict is not valid."""
    name = describe(dict(point.parameters))
    if point.result is None or point.folder is None:
        raise NoEvidence(f"{name}: was only compiled, so it has no packets")
    if not point.result.valid:
        raise NoEvidence(f"{name}: {point.result.verdict}")
    record = point.record()
    ports = [about.port for about in record.captures]
    (wanted,) = (port.interface for port in point.fabric.ports_named((host,)))
    if wanted not in ports:
        raise NoEvidence(f"{name}: port {wanted} was not captured (run.capture of its scenario)")
    return read_captures(point.folder, point.fabric, record, cache_folder() / CACHED_CAPTURES)[ports.index(wanted)]


def use_of_port(point: PointEvidence, bin_s: float, host: str = "h1") -> Utilisation:
    """Both directions of a host's port, in bins over all measured iterations. Raises NoEvidence as `capture_of` does."""
    capture, record = capture_of(point, host), point.record()
    edges_ns = iteration_ends_ns(point.plan(), point.log(), record.iterations)[record.warmup :]
    return utilisation(capture.packets, point.fabric.rate_bps, edges_ns[0] / 1e9, edges_ns[-1] / 1e9, bin_s)


def carries_data(plan: Plan, capture: Capture) -> Bool:
    """Which of the captured messages carry parameters or gradients: requests and tokens do not."""
    data: Bool = plan.ops.chunk[capture.messages.message] >= 0
    return data
