"""Warnings that follow from a point's plans and network alone, whether it is run or estimated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gradwire.analysis.pause_report import buffer_circles, circle_foreseen
from gradwire.datatypes.plan import Plan
from gradwire.network.fabric import Fabric
from gradwire.network.wire.flows import connections_of
from gradwire.runs.stored.spines import Spines
from gradwire.scenario.resolution.transport_fit import crowded_memory, path_bytes, small_windows
from gradwire.scenario.schema import PointSection


def plan_warnings(section: PointSection, fabric: Fabric, plans: Sequence[Plan]) -> tuple[str, ...]:
    """Returns warnings about sockets' windows, and about circles of buffers in which switches pause each other."""
    return tuple(dict.fromkeys((*_of_windows(section, fabric, plans), *_of_circles(fabric, plans))))


def _of_windows(section: PointSection, fabric: Fabric, plans: Sequence[Plan]) -> Iterator[str]:
    if not path_bytes(section, fabric):
        return
    connections = max(len(connections_of(plan)) for plan in plans)
    yield from filter(None, (small_windows(section, fabric), crowded_memory(section, fabric, connections)))


def _of_circles(fabric: Fabric, plans: Sequence[Plan]) -> Iterator[str]:
    spine_of = Spines(fabric).spine_of if fabric.lossless is not None else None
    circles = {key: each for plan in plans for key, each in buffer_circles(plan, fabric, spine_of).items()}
    for traffic_class, circle in circles.items():
        yield circle_foreseen(f"the ways of class {traffic_class}", circle)


def by_label(warnings: Iterable[tuple[str, Sequence[str]]]) -> list[str]:
    """Warnings, each once for all points that it concerns. warnings: of each point, after its label."""
    said: dict[str, list[str]] = {}
    for label, texts in warnings:
        for text in texts:
            said.setdefault(text, []).append(label)
    return list(_labelled(said))


def _labelled(said: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for text, labels in said.items():
        more = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
        yield f"{labels[0]}{more}: {text}"
