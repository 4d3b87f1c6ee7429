"""Laws of a network that hold for every program that acts on it, checked by counters that no program reaches: no line
carries more than its rate in any window of a burst or longer, nor longer frames than its MTU, and every line stays.

They stand in for a list of what programs might do to their hosts' queues. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gradwire.analysis.verdict.checks import Check
from gradwire.datatypes.network_counts import LineCount
from gradwire.network.fabric import ETHERNET_HEADER_BYTES, Fabric
from gradwire.network.routes import ports_in_words

RATE_MEANING = (
    "More was given to a line than it carries, so times are those of another network. On a host, a program changed what "
    "shapes its port (`tc qdisc`, `tc class`) or passed it by (PACKET_QDISC_BYPASS); rates, delays and losses of a link "
    'can be described in the scenario ([fabric.link."h1"]). Without such a program, this is our fault: please report it.'
)
LINES_MEANING = (
    "A port lost its line, so a host was not reached by the network that was described: a program deleted it."
)


LENGTH_MEANING = (
    "Frames were longer than the network's MTU, so that it carried more payload than it can: a program raised the MTU of its "
    "host's port (`ip link`) or sent such frames itself. Another MTU can be described in the scenario (fabric.mtu)."
)
TAGS_BYTES = 8
"""Of two VLANs, which a program may put around its frames."""


def law_checks(fabric: Fabric, lines: Sequence[LineCount]) -> Iterator[Check]:
    """The laws of every line; nothing for a run without counters of lines."""
    if not lines:
        return
    wanted, found = {port.interface for port, _ in fabric.ports()}, {line.port for line in lines if line.is_there}
    yield Check("lines", f"{len(wanted & found)} of {len(wanted)}", "all", wanted <= found, LINES_MEANING)
    words = ports_in_words(fabric)
    if shaped := [line for line in lines if line.limit_ns]:
        yield _rate_check(shaped, words)
    yield _length_check(fabric.mtu_bytes, lines, words)


def _rate_check(lines: Sequence[LineCount], words: Mapping[str, str]) -> Check:
    worst = max(lines, key=lambda line: (line.beyond_bytes > 0, line.ahead_ns / line.limit_ns))
    said = f"{words[worst.port]} at most {worst.ahead_ns / 1e3:,.1f} us ahead"
    if worst.beyond_bytes:
        said += (
            f", too far from {worst.beyond_first_ns / 1e9:.6f} to {worst.beyond_last_ns / 1e9:.6f} s, "
            f"in which it was given {worst.beyond_bytes:,} bytes"
        )
    is_kept = not any(line.beyond_bytes or line.ahead_ns > line.limit_ns for line in lines)
    return Check("line rate", said, f"{worst.limit_ns / 1e3:,.1f} us, a burst", is_kept, RATE_MEANING)


def _length_check(mtu_bytes: int, lines: Sequence[LineCount], words: Mapping[str, str]) -> Check:
    """Frames have at most the MTU on average at each port. That is a law of each frame, of which none is seen alone, and
    it still holds where a program sends small ones beside: what these take, headers of full frames take as well.

    Of a network whose hosts have 1,448 of 1,514 bytes for payload, long frames with as many of 42 bytes as hide them have
    1.6 % more.
    """
    most = mtu_bytes + ETHERNET_HEADER_BYTES
    carrying = [line for line in lines if line.frames]
    worst = max(carrying, key=lambda line: line.size_bytes / line.frames, default=None)
    mean = worst.size_bytes / worst.frames if worst else 0.0
    said = f"{words[worst.port]} {mean:,.1f} bytes on average" if worst else "no frames"
    return Check(
        "frame lengths", said, f"{most:,} bytes, {TAGS_BYTES} more with tags", mean <= most + TAGS_BYTES, LENGTH_MEANING
    )
