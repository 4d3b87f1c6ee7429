"""A critical path as tables: what its time divides into, the largest contributions, and the path in order."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.critical_path import PARTS, Contribution, CriticalPath
from analysis.path_walk import Kind
from analysis.tables import TextTable

MOST_CONTRIBUTIONS = 10
MOST_LINES = 40
OF_NO_NOTE = 1e-3
"""Share of the iteration below which a kind without a place in every table is left out."""


def parts_table(path: CriticalPath) -> TextTable:
    """One row a kind of time; network is divided further."""
    rows = []
    for part, kinds in PARTS.items():
        for kind in kinds:
            spent = path.kinds_ns[kind]
            if spent or part in ("compute", "network", "straggler", "aggregation"):
                name = f"network: {kind}" if part == "network" else str(kind)
                rows.append((name, _ms(spent), _share(spent, path)))
    rows = [row for row in rows if row[0] != f"network: {Kind.TRANSFER}" or path.kinds_ns[Kind.TRANSFER]]
    rows.append(("iteration", _ms(path.duration_ns), _share(path.duration_ns, path)))
    return TextTable("Where the time went", ("part", "ms", "share"), tuple(rows), 1, ("",) * len(rows))


def contributions_table(path: CriticalPath, most: int = MOST_CONTRIBUTIONS) -> TextTable:
    """The largest contributions, first the largest; network ones with what was in their way."""
    rows = []
    for found in path.contributions()[:most]:
        rows.append((*_row(path, found), f"{_in_the_way(path, found)}"))
    headers = ("what", "kind", "ms", "share", "in its way")
    return TextTable("Largest contributions", headers, tuple(rows), 2, ("",) * len(rows))


def path_table(path: CriticalPath, most: int | None = MOST_LINES) -> TextTable:
    """The path in order, segments of one kind and about the same thing as one line.

    most: lines; beyond it only the longest segments have their own, and those between them are summed up. None: all.
    """
    merged = path.merged()
    kept = _longest(merged, len(merged) if most is None else most)
    rows: list[tuple[str, ...]] = []
    begin = path.segments[0].begin_ns if path.segments else 0
    skipped: list[Contribution] = []
    for index, found in enumerate(merged):
        if index not in kept:
            skipped.append(found)
            continue
        rows += _skipped_row(path, skipped, begin)
        skipped = []
        rows.append((_ms(found.segments[0].begin_ns - begin), *_row(path, found)))
    rows += _skipped_row(path, skipped, begin)
    headers = ("at ms", "what", "kind", "ms", "share")
    turned = tuple((what, kind, at, spent, share) for at, what, kind, spent, share in rows)
    foot = "" if len(kept) == len(merged) else f"{len(merged)} segments; --all lists each."
    return TextTable(
        "The path in order",
        (headers[1], headers[2], headers[0], headers[3], headers[4]),
        turned,
        2,
        ("",) * len(turned),
        foot,
    )


def _longest(merged: Sequence[Contribution], most: int) -> set[int]:
    """Which segments get a line. A gap between two of them takes a line as well, so as many are kept as fit with their gaps."""
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


def _skipped_row(path: CriticalPath, skipped: Sequence[Contribution], begin: int) -> list[tuple[str, ...]]:
    if not skipped:
        return []
    spent = sum(found.duration_ns for found in skipped)
    what = f"{len(skipped)} shorter segment{'s' if len(skipped) > 1 else ''}"
    return [(_ms(skipped[0].segments[0].begin_ns - begin), what, "", _ms(spent), _share(spent, path))]


def _row(path: CriticalPath, found: Contribution) -> tuple[str, str, str, str]:
    return found.what, str(found.kind), _ms(found.duration_ns), _share(found.duration_ns, path)


def _in_the_way(path: CriticalPath, found: Contribution) -> str:
    contention = path.traffic.contention(max(found.segments, key=lambda segment: segment.duration_ns))
    if contention is None:
        return ""
    if contention.flows < 2:
        return f"nothing at {contention.place}"
    largest = f", most for {contention.others[0][0]}" if contention.others else ""
    return f"{contention.flows} flows at {contention.place}{largest}"


def _ms(spent_ns: int) -> str:
    return f"{spent_ns / 1e6:.3f}"


def _share(spent_ns: int, path: CriticalPath) -> str:
    return f"{spent_ns / max(path.duration_ns, 1):.1%}"
