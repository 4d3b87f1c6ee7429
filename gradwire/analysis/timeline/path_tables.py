"""A critical path as tables: the parts of its time, the largest contributions, and the path in order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from gradwire.analysis.report.text_table import TextTable
from gradwire.analysis.timeline.critical_path import PARTS, CriticalPath, PathContribution
from gradwire.analysis.timeline.walk import TimeKind

MOST_CONTRIBUTIONS = 10
MOST_LINES = 40
ALWAYS = ("compute", "network", "straggler", "aggregation")
"""Parts that are shown even if they took no time."""
MEANING = {
    TimeKind.COMPUTE: "GPUs compute",
    TimeKind.TRANSFER: "messages are on their way",
    TimeKind.SERIALISATION: "as long as messages take on an empty network",
    TimeKind.SHARING: "what they take longer: others have the links",
    TimeKind.QUEUEING: "behind other messages of the same send queue",
    TimeKind.STRAGGLER: "a worker computes while at least half of the others wait for it",
    TimeKind.AGGREGATION: "gradients are added",
    TimeKind.LATENCY: "latency of messages, copies, waiting for a fusion cycle",
    TimeKind.LOCAL: "messages between ranks of one host",
    TimeKind.ARRIVALS: "all requests that were there have been served",
    TimeKind.LATENESS: "agents act later than they should have",
    TimeKind.UNEXPLAINED: "nothing in the plan held the next op back",
}


def parts_table(path: CriticalPath) -> TextTable:
    """One row per kind of time, several for the network. Parts outside ALWAYS are left out if they took no time."""
    rows = []
    for part, kinds in PARTS.items():
        for kind in kinds:
            if path.kinds_ns[kind] or (part in ALWAYS and kind is not TimeKind.TRANSFER):
                name = f"network: {kind}" if part == "network" else str(kind)
                rows.append((name, _ms(path.kinds_ns[kind]), _share(path.kinds_ns[kind], path), MEANING[kind]))
    rows.append(("iteration", _ms(path.duration_ns), _share(path.duration_ns, path), ""))
    headers = ("part", "ms", "share", "meaning")
    return TextTable("Where the time went", headers, tuple(rows), 1, ("",) * len(rows))


def contributions_table(path: CriticalPath, most: int = MOST_CONTRIBUTIONS) -> TextTable:
    """The contributions, largest first; those of the network with the causes of delays."""
    rows = tuple(
        (*_row(path, contribution), _in_the_way(path, contribution)) for contribution in path.contributions()[:most]
    )
    headers = ("what", "kind", "ms", "share", "in its way")
    return TextTable("Largest contributions", headers, rows, 2, ("",) * len(rows))


def path_table(path: CriticalPath, most: int | None = MOST_LINES) -> TextTable:
    """The path in order; consecutive segments of the same kind and about the same thing share a line.

    `most` limits the lines: if there are more segments, only the longest have their own line, and those between them
    are summed up. None shows all.
    """
    merged = path.merged()
    kept = _longest(merged, len(merged) if most is None else most)
    begin_ns = path.segments[0].begin_ns if path.segments else 0
    rows: list[tuple[str, ...]] = []
    for has_line, group in groupby(range(len(merged)), key=lambda index: index in kept):
        pieces = [merged[index] for index in group]
        if has_line:
            rows += [(piece.what, *_times(path, [piece], begin_ns), _kind(path, piece)) for piece in pieces]
        else:
            what = f"{len(pieces)} shorter segment{'s' if len(pieces) > 1 else ''}"
            rows.append((what, *_times(path, pieces, begin_ns), ""))
    headers = ("what", "at ms", "ms", "share", "kind")
    foot = "" if len(kept) == len(merged) else f"{len(merged)} segments; --all lists each."
    return TextTable("The path in order", headers, tuple(rows), 1, ("",) * len(rows), foot)


def _times(path: CriticalPath, pieces: Sequence[PathContribution], begin_ns: int) -> tuple[str, str, str]:
    """Begin and total duration of consecutive pieces, and their share of the iteration."""
    spent_ns = sum(piece.duration_ns for piece in pieces)
    return _ms(pieces[0].segments[0].begin_ns - begin_ns), _ms(spent_ns), _share(spent_ns, path)


def _longest(merged: Sequence[PathContribution], most: int) -> set[int]:
    """Indices of the segments that get one line each. A gap between two of them takes a line too, so as many are kept
    as fit with their gaps."""
    if len(merged) <= most:
        return set(range(len(merged)))
    by_length = sorted(range(len(merged)), key=lambda index: -merged[index].duration_ns)
    kept: set[int] = set()
    for index in by_length:
        if len(kept) + 1 + _gaps(kept | {index}, len(merged)) > most:
            break
        kept.add(index)
    return kept


def _gaps(kept: set[int], count: int) -> int:
    return sum(index not in kept and (index == 0 or index - 1 in kept) for index in range(count))


def _row(path: CriticalPath, contribution: PathContribution) -> tuple[str, str, str, str]:
    return (
        contribution.what,
        str(contribution.kind),
        _ms(contribution.duration_ns),
        _share(contribution.duration_ns, path),
    )


def _kind(path: CriticalPath, contribution: PathContribution) -> str:
    """The kind of a piece, with the faults that were there meanwhile."""
    names = [f"fault.{fault.fault.name}" for fault in path.faults_during(contribution.segments)]
    return ", ".join([str(contribution.kind), *names])


def _in_the_way(path: CriticalPath, contribution: PathContribution) -> str:
    faults = [fault.fault.what for fault in path.faults_during(contribution.segments)]
    return "; ".join(filter(None, (*faults, _others_in_the_way(path, contribution))))


def _others_in_the_way(path: CriticalPath, contribution: PathContribution) -> str:
    waited = path.waited_line(contribution.segments)
    if waited is None:
        return ""
    use = waited.use
    flows = "" if use.flows < 2 else f", {use.flows} flows"
    return f"{use.name} {use.busy:.0%} busy{flows}"


def _ms(spent_ns: int) -> str:
    return f"{spent_ns / 1e6:.3f}"


def _share(spent_ns: int, path: CriticalPath) -> str:
    return f"{spent_ns / max(path.duration_ns, 1):.1%}"
