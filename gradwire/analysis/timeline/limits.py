"""Which line of the network a critical path waits for: the one on a message's way that is used most while the path waits for the message,
or for those in front of it. Also how that is said, in one place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from gradwire.analysis.quantities import quantity
from gradwire.analysis.report.text_table import TextTable
from gradwire.analysis.timeline.line_traffic import LineTraffic, LineUse, joined
from gradwire.analysis.timeline.walk import NETWORK, PathSegment
from gradwire.datatypes.plan import CONTROL_CLASS, Plan
from gradwire.network.fabric import Fabric

FULL = 0.85
"""A line that is used for this share of a time, or more, is what limits whoever waits for it: TCP and the gaps between messages leave the
rest. A judgement, as docs/reading-a-run.md says."""
MOST_PIECES = 300
"""Pieces of a path that are looked at, the longest ones: of a thousand, the others are a few per cent of the time."""
NAMED_SHARERS = 3
NAMED_BESIDE = 3
SHOWN_SHARERS = 8
"""Sharers, and lines beside, that are named in a sentence, and shown in a table."""


@dataclass(frozen=True)
class WaitedLine:
    """The line that is waited for longest."""

    use: LineUse
    #: Whether it is a line between switches, and not one of a host's link.
    is_trunk: bool
    #: For how long it was waited for.
    waited_ns: int
    #: How many other links between switches, or of hosts, were waited for, and for how long all of them together.
    others: int
    others_ns: int

    @property
    def is_full(self) -> bool:
        """Whether the line was the limit while it was waited for."""
        return self.use.busy >= FULL


def waited_line(traffic: LineTraffic, plan: Plan, fabric: Fabric, segments: Iterable[PathSegment]) -> WaitedLine | None:
    """The line for which these pieces of a path waited longest; None where they waited for none: for control messages, or for copies
    inside a machine."""
    remote, ops = plan.is_remote(), plan.ops
    spans: dict[int, list[tuple[int, int]]] = {}
    waits = sorted(_waits(plan, segments), key=lambda wait: wait[1] - wait[2])
    for send, begin_ns, end_ns in waits[:MOST_PIECES]:
        if not remote[send] or ops.traffic_class[send] == CONTROL_CLASS:
            continue
        line = traffic.fullest(traffic.lines_of(send), begin_ns, end_ns)
        if line is not None:
            spans.setdefault(line, []).append((begin_ns, end_ns))
    if not spans:
        return None
    waited_ns = {line: sum(end - begin for begin, end in of_line) for line, of_line in spans.items()}
    by_link: dict[bool, dict[int, int]] = {True: {}, False: {}}
    for line, line_ns in waited_ns.items():
        is_trunk = line >= 2 * fabric.hosts
        links = by_link[is_trunk]
        links[_link_of(line, fabric)] = links.get(_link_of(line, fabric), 0) + line_ns
    is_trunk = sum(by_link[True].values()) > sum(by_link[False].values())
    links = by_link[is_trunk]
    link = max(links, key=lambda each: links[each])
    line = max((line for line in waited_ns if _link_of(line, fabric) == link), key=lambda each: waited_ns[each])
    use = traffic.use(line, joined(spans[line]))
    return WaitedLine(use, is_trunk, waited_ns[line], len(links) - 1, sum(links.values()) - links[link])


def _waits(plan: Plan, segments: Iterable[PathSegment]) -> Iterator[tuple[int, int, int]]:
    """Yields each SEND that is waited for, with begin and end; pieces that follow one another and are about the same message are one."""
    of_network = (piece for piece in segments if piece.kind in NETWORK and plan.ops.message[piece.op] >= 0)
    for (_, send), pieces in groupby(of_network, key=lambda piece: (piece.iteration, int(plan.ops.message[piece.op]))):
        found = list(pieces)
        yield send, found[0].begin_ns, found[-1].end_ns


def _link_of(line: int, fabric: Fabric) -> int:
    """A number that both lines of a link have in common."""
    hosts, trunks = fabric.hosts, len(fabric.trunk_links())
    return line % hosts if line < 2 * hosts else hosts + (line - 2 * hosts) % trunks


def line_in_words(waited: WaitedLine) -> str:
    """The line that is waited for, how full it is, who shares it, and what room there is beside it: "leaf1-spine1 to spine1 (10 Gbit/s) is
    98% busy meanwhile, shared by rank 0 -> rank 4 (52%) and rank 1 -> rank 5 (48%); beside it, leaf1-spine2 to spine2 is 0% busy"."""
    use = waited.use
    rate = f"{use.name} ({quantity(use.rate_bps, 'bit/s')})"
    if not waited.is_full:
        return f"no line on the way is full: {rate}, the busiest, is {use.busy:.0%} busy meanwhile{_shared(use)}"
    return f"{rate} is {use.busy:.0%} busy meanwhile{_shared(use)}{_beside(use)}"


def _shared(use: LineUse) -> str:
    if len(use.sharers) < 2:
        return f", with {use.sharers[0].name} alone" if use.sharers else ""
    named = [f"{sharer.name} ({sharer.share:.0%})" for sharer in use.sharers[:NAMED_SHARERS]]
    more = len(use.sharers) - len(named)
    if more:
        named.append(f"{more} more")
    jobs = _jobs(use)
    return f", shared by {_listed(named)}{jobs}"


def _jobs(use: LineUse) -> str:
    """The shares of jobs, where several share the line."""
    shares: dict[str, float] = {}
    for sharer in use.sharers:
        if sharer.job:
            shares[sharer.job] = shares.get(sharer.job, 0.0) + sharer.share
    return f": {_listed([f'job {job} {share:.0%}' for job, share in shares.items()])}" if len(shares) > 1 else ""


def _beside(use: LineUse) -> str:
    if not use.beside:
        return ""
    least = sorted(use.beside, key=lambda each: each[1])
    named = [f"{name} is {busy:.0%} busy" for name, busy in least[:NAMED_BESIDE]]
    more = f", {len(least) - NAMED_BESIDE} more are busier" if len(least) > NAMED_BESIDE else ""
    return f"; beside it, {_listed(named)}{more}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def sharers_table(waited: WaitedLine) -> TextTable:
    """Who shares the line that is waited for, the largest first."""
    use = waited.use
    rows = tuple((sharer.name, sharer.tensor, f"{sharer.share:.1%}") for sharer in use.sharers[:SHOWN_SHARERS])
    left = use.sharers[SHOWN_SHARERS:]
    foot = f"and {len(left)} more with {sum(sharer.share for sharer in left):.1%}" if left else ""
    title = f"{use.name} while it is waited for, {waited.waited_ns / 1e6:.3f} ms"
    return TextTable(title, ("who sends", "most of it", "share"), rows, 2, ("",) * len(rows), foot)
