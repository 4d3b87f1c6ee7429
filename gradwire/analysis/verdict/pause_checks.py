"""Checks of priority flow control: that it lost nothing, and that every pause was heeded and ended."""

from __future__ import annotations

from collections.abc import Iterator

from gradwire.analysis.pause_report import far_ends_of, inputs_in_words
from gradwire.analysis.verdict.checks import Check
from gradwire.datatypes.pauses import PauseState
from gradwire.network.fabric import Fabric, band_of_class

HEADROOM_MEANING = (
    "More came after a pause than the headroom holds, so frames were dropped, or would have been with one more: the "
    "network was not lossless."
)
PAUSES_MEANING = (
    "Some pause never ended or was not heeded, so the run ended while ports stood still, or flow control does not work."
)
CONTROL_MEANING = "Flow control was not at work at all ports and classes that the scenario asks for."


def pause_checks(fabric: Fabric, state: PauseState | None) -> Iterator[Check]:
    """The checks of a network with flow control; none without."""
    if fabric.lossless is None:
        return
    counts = state.counts if state is not None else ()
    bands = [band_of_class(each) for each in fabric.lossless.paused_classes(fabric.classes)]
    wanted = {(port.interface, band) for port, _ in fabric.ports() for band in bands}
    found = {(count.port, count.band) for count in counts}
    yield Check(
        "flow control",
        f"at {len(found)} classes of ports",
        f"at all {len(wanted)}",
        found == wanted,
        CONTROL_MEANING,
    )
    if state is None or found != wanted:
        return
    inputs = [count for count in counts if count.headroom_bytes]
    most = max(inputs, key=lambda count: count.most_headroom_bytes / count.headroom_bytes)
    dropped = sum(count.dropped for count in counts)
    yield Check(
        "headroom",
        f"{dropped} dropped; {most.most_headroom_bytes:,} bytes at most, of {inputs_in_words(fabric)[most.port]}",
        f"0 dropped, of {most.headroom_bytes:,} bytes",
        not dropped and most.most_headroom_bytes <= most.headroom_bytes,
        HEADROOM_MEANING,
    )
    far_ends, obeyed = far_ends_of(fabric), {(count.port, count.band): count for count in counts}
    pauses, resumes = (sum(getattr(count, name) for count in inputs) for name in ("pauses", "resumes"))
    heeded = sum(obeyed[far_ends[count.port], count.band].stops for count in inputs)
    yield Check(
        "pauses",
        f"{pauses:,}, of which {resumes:,} ended and {heeded:,} were heeded at the far end; {state.lost} lost",
        "all ended and were heeded; 0 lost",
        pauses == resumes == heeded and not state.lost,
        PAUSES_MEANING,
    )
