"""A binary heap of dated events, whose dates may change."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gradwire.analysis.fluid.compiled import compiled
from gradwire.analysis.fluid.graph import Records
from gradwire.datatypes.plan import Int64

THING = np.dtype(
    [
        ("at_ns", "f8"),  # time of its next event
        ("place", "i8"),  # where it is in the heap; -1 without an event
    ]
)


class Agenda(NamedTuple):
    """The next event of each of a fixed number of things. The earliest is that of heap[0]."""

    #: THINGs.
    things: Records
    heap: Int64
    #: Length of the heap, one element.
    size: Int64


def agenda_for(count: int) -> Agenda:
    """An empty agenda for so many things."""
    things = np.zeros(count, THING)
    things["place"] = -1
    return Agenda(things, np.zeros(count, np.int64), np.zeros(1, np.int64))


@compiled
def schedule(agenda: Agenda, thing: int, at_ns: float) -> None:
    """Sets or moves a thing's event."""
    agenda.things[thing].at_ns = at_ns
    if agenda.things[thing].place < 0:
        _put(agenda, agenda.size[0], thing)
        agenda.size[0] += 1
    _move(agenda, agenda.things[thing].place)


@compiled
def cancel(agenda: Agenda, thing: int) -> None:
    """Removes a thing's event, if it has one."""
    position = agenda.things[thing].place
    if position < 0:
        return
    agenda.things[thing].place = -1
    agenda.size[0] -= 1
    last = agenda.heap[agenda.size[0]]
    if last != thing:
        _put(agenda, position, last)
        _move(agenda, position)


@compiled
def _put(agenda: Agenda, position: int, thing: int) -> None:
    agenda.heap[position] = thing
    agenda.things[thing].place = position


@compiled
def _move(agenda: Agenda, position: int) -> None:
    """Moves the thing at a place up or down to where it belongs."""
    things, heap, size = agenda.things, agenda.heap, agenda.size[0]
    thing = heap[position]
    at_ns = things[thing].at_ns
    while position > 0 and things[heap[(position - 1) // 2]].at_ns > at_ns:
        _put(agenda, position, heap[(position - 1) // 2])
        position = (position - 1) // 2
    while 2 * position + 1 < size:
        below = 2 * position + 1
        if below + 1 < size and things[heap[below + 1]].at_ns < things[heap[below]].at_ns:
            below += 1
        if things[heap[below]].at_ns >= at_ns:
            break
        _put(agenda, position, heap[below])
        position = below
    _put(agenda, position, thing)
