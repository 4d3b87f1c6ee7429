"""What waits for what, from the data that is read and written: without torch."""

from __future__ import annotations

from typing import Any

from gradwire.recorder.timeline import Timeline, excerpt, steady

PARAMETERS, ACTIVATIONS, GRADIENTS, BUCKET, WHOLE, NEXT_WHOLE = range(6)


def call(kind: str, group: str = "0") -> dict[str, Any]:
    return {"kind": kind, "bytes": 8, "element_bytes": 4, "group": group}


def waits(timeline: Timeline) -> list[tuple[str, list[int]]]:
    said = excerpt(timeline, 0, len(timeline.tasks))
    return [(task["kind"], task["after"]) for task in said]


def test_a_collective_waits_for_its_input_and_computation_goes_on_meanwhile() -> None:
    timeline = Timeline()
    timeline.compute([PARAMETERS], [GRADIENTS], 10)
    timeline.pass_on([GRADIENTS], [BUCKET])
    timeline.call(call("all-reduce"), [BUCKET], [BUCKET])
    timeline.compute([ACTIVATIONS], [ACTIVATIONS], 20)
    timeline.compute([BUCKET], [PARAMETERS], 30)
    assert waits(timeline) == [("compute", []), ("all-reduce", [0]), ("compute", [0]), ("compute", [1, 2])]


def test_a_gathering_begins_when_the_one_before_is_waited_for_and_not_earlier() -> None:
    timeline = Timeline()
    timeline.call(call("all-gather"), [PARAMETERS], [WHOLE])
    timeline.wait([WHOLE])
    timeline.compute([WHOLE], [ACTIVATIONS], 10)
    timeline.call(call("all-gather"), [PARAMETERS], [NEXT_WHOLE])
    timeline.compute([WHOLE], [ACTIVATIONS], 10)
    timeline.wait([NEXT_WHOLE])
    timeline.compute([NEXT_WHOLE, ACTIVATIONS], [ACTIVATIONS], 10)
    kinds = ["all-gather", "compute", "all-gather", "compute"]
    assert waits(timeline) == list(zip(kinds, [[], [0], [0], [1, 2]], strict=True))
    said = excerpt(timeline, 0, len(timeline.tasks))
    assert [task["flops"] for task in said if task["kind"] == "compute"] == [20, 10]


def test_calls_of_a_group_are_in_order_and_those_of_others_are_not() -> None:
    timeline = Timeline()
    for group, memory in (("0", 10), ("1", 11), ("0", 12)):
        timeline.call(call("all-reduce", group), [memory], [memory])
    assert [after for _, after in waits(timeline)] == [[], [], [0]]


def test_the_host_does_nothing_before_it_has_a_value_that_it_reads() -> None:
    timeline = Timeline()
    timeline.compute([PARAMETERS], [ACTIVATIONS], 10)
    timeline.call(call("all-reduce"), [ACTIVATIONS], [ACTIVATIONS])
    timeline.see([ACTIVATIONS])
    timeline.call(call("all-gather", "1"), [PARAMETERS], [WHOLE])
    assert waits(timeline)[-1] == ("all-gather", [1])


def test_an_iteration_has_what_it_does_itself_and_nothing_of_the_one_before() -> None:
    timeline = Timeline()
    for _ in range(3):
        timeline.compute([PARAMETERS], [GRADIENTS], 10)
        timeline.call(call("all-reduce"), [GRADIENTS], [GRADIENTS])
        timeline.pass_on([GRADIENTS], [PARAMETERS])
        timeline.mark()
    first, end = steady(timeline, 8)
    assert (first, end) == (4, 6)
    assert [task["after"] for task in excerpt(timeline, first, end)] == [[], [0]]


def test_calls_that_repeat_fall_into_as_many_parts_as_are_asked_for() -> None:
    timeline = Timeline()
    for memory in range(6):
        timeline.call(call("all-reduce" if memory % 2 else "all-gather"), [memory], [memory])
    assert steady(timeline, 3) == (4, 6)
    assert steady(timeline, 2) == (0, 6)  # three calls each, which differ
    assert steady(timeline, 1) == (0, 6)


def test_memory_that_is_gone_says_nothing_of_what_takes_its_place() -> None:
    timeline = Timeline()
    timeline.call(call("all-reduce"), [BUCKET], [BUCKET])
    timeline.forget([BUCKET])
    timeline.compute([BUCKET], [ACTIVATIONS], 10)
    assert waits(timeline)[-1] == ("compute", [])
