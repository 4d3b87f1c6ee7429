"""Which op a stream or a send queue serves next."""

from __future__ import annotations

import pytest

from gradwire.agents.op_state import SendQueue, Stream
from gradwire.datatypes.plan import Discipline

URGENT, LESS, LEAST = 1, 2, 3


def served(lane: Stream | SendQueue) -> list[tuple[int, int]]:
    """Iteration and op of all that waits, in the order in which it is served."""
    order = []
    while (waiting := lane.pop()) is not None:
        order.append((waiting.iteration, waiting.op))
        if isinstance(lane, Stream):
            lane.is_running = False
        else:
            lane.is_busy = False
    return order


def test_computation_is_served_as_it_became_ready_and_then_in_the_plans_order() -> None:
    stream = Stream()
    for ready_ns, order, iteration, op in (
        (20, URGENT, 0, 4),
        (10, LESS, 0, 5),
        (10, URGENT, 1, 6),
        (30, URGENT, 0, 7),
    ):
        stream.push_compute(ready_ns, order, iteration, op)
    assert served(stream) == [(1, 6), (0, 5), (0, 4), (0, 7)]


def test_reductions_are_served_in_the_plans_order_and_then_as_they_became_ready() -> None:
    """P3, section 4.2: a server that falls behind adds the most urgent gradients first."""
    stream = Stream()
    for ready_ns, order, iteration, op in ((10, LESS, 0, 4), (30, URGENT, 0, 5), (20, URGENT, 1, 6), (5, LEAST, 0, 7)):
        stream.push_reduce(ready_ns, order, iteration, op)
    assert served(stream) == [(1, 6), (0, 5), (0, 4), (0, 7)]


@pytest.mark.parametrize(
    ("discipline", "expected"),
    [
        (Discipline.FIFO, [(1, 6), (0, 5), (0, 4)]),
        (Discipline.PRIORITY, [(0, 4), (0, 5), (1, 6)]),
    ],
)
def test_a_queue_serves_as_it_came_or_by_iteration_and_then_by_priority(
    discipline: Discipline, expected: list[tuple[int, int]]
) -> None:
    queue = SendQueue(discipline, [URGENT, LESS])
    for ready_ns, order, iteration, op in ((30, URGENT, 0, 4), (20, LESS, 0, 5), (10, URGENT, 1, 6)):
        queue.push(ready_ns, order, iteration, op)
    assert served(queue) == expected


def test_a_queue_that_counts_waits_for_whatever_is_next_in_this_iteration() -> None:
    """Messages 1 and 2 of each of two iterations: what is ready before its turn waits, be it of the same iteration or
    of the next."""
    queue = SendQueue(Discipline.COUNTER, [LESS, URGENT])
    queue.push(10, URGENT, 1, 4)
    assert queue.pop() is None, "of the next iteration"
    queue.push(20, LESS, 0, 5)
    assert queue.pop() is None, "the second of this iteration"
    queue.push(30, URGENT, 0, 4)
    assert served(queue) == [(0, 4), (0, 5), (1, 4)]
    queue.push(40, URGENT, 2, 4)
    assert queue.pop() is None, "the second of the iteration before has not come"
    queue.push(50, LESS, 1, 5)
    assert served(queue) == [(1, 5), (2, 4)]


def test_a_lane_serves_one_at_a_time() -> None:
    stream, queue = Stream(), SendQueue(Discipline.FIFO, [URGENT])
    for number in range(2):
        stream.push_compute(0, URGENT, number, 4)
        queue.push(0, URGENT, number, 4)
    assert stream.pop() is not None
    assert queue.pop() is not None
    assert stream.pop() is None
    assert queue.pop() is None
