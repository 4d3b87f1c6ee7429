"""The timetable of requests, by hand: who prefills and decodes what, and who is in which step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from gradwire.workloads.engines.serving.batching import CacheWay, ServingPace, Timetable, shared_ends_s, timetable
from gradwire.workloads.engines.serving.model_work import Batch
from gradwire.workloads.engines.serving.requests import Request


def way(tokens: int, instance: int, replica: int) -> CacheWay:
    """Half a second for each token, from the port of the instance to that of the replica."""
    return CacheWay(tokens * 0.5, tokens * 0.5, (("out", instance), ("in", replica)))


PACE = ServingPace(prompt_s=lambda tokens: tokens * 1.0, cache=way, by_layer=False, step_s=lambda _: 10.0)


def table(
    requests: Sequence[Request], prefills: int = 1, decodes: int = 1, replicas: int = 1, most: int = 9
) -> Timetable:
    return timetable(requests, prefills, decodes, replicas, most, PACE)


def test_prefills_follow_one_another() -> None:
    found = table([Request(0.0, 4, 2), Request(1.0, 1, 2), Request(9.0, 2, 2)]).prefills
    assert [(each.begun_s, each.ended_s) for each in found] == [(0.0, 4.0), (4.0, 5.0), (9.0, 11.0)]


def test_transfers_share_ports_evenly() -> None:
    """The second shares one port with the first and the other one with the third, which is alone from 4 on."""
    ways = [CacheWay(3.0, 3.0, ("a", "x")), CacheWay(1.0, 1.0, ("a", "y")), CacheWay(2.0, 2.0, ("b", "y"))]
    assert shared_ends_s([0.0, 2.0, 2.0], ways) == pytest.approx([4.0, 4.0, 5.0])
    assert shared_ends_s([5.0, 5.0], [CacheWay(1.0, 1.0, ())] * 2) == pytest.approx([6.0, 6.0])
    assert shared_ends_s([5.0], [CacheWay(0.0, 0.0, ())]) == [5.0]


def test_a_cache_that_is_sent_while_it_is_computed_is_there_with_its_last_part() -> None:
    """The second step begins at 13.5 or 14, when a whole cache that is sent behind its prefill is not there."""
    requests = [Request(0.0, 2, 3), Request(0.0, 10, 2)]
    by_layer = replace(PACE, by_layer=True, cache=lambda tokens, *_: CacheWay(tokens * 0.5, 0.5, ()))
    found = timetable(requests, 2, 1, 1, 9, replace(by_layer, step_s=lambda _: 11.0))
    assert [step.batches for step in found.steps] == [((0,),), ((0, 1),)]
    found = timetable(requests, 2, 1, 1, 9, replace(by_layer, by_layer=False, step_s=lambda _: 11.0))
    assert [step.batches for step in found.steps] == [((0,),), ((0,),), ((1,),)]


def test_the_instance_that_is_free_first_is_next() -> None:
    found = table([Request(0.0, 4, 2), Request(0.0, 1, 2), Request(0.0, 1, 2)], prefills=2).prefills
    assert [each.instance for each in found] == [0, 1, 1]


def test_requests_join_the_first_step_that_begins_when_their_caches_are_there() -> None:
    """Caches are there at 3, 4.5 and 6; the second step begins at 13."""
    steps = table([Request(0.0, 2, 3), Request(0.0, 1, 2), Request(0.0, 1, 4)]).steps
    assert [step.batches for step in steps] == [((0,),), ((0, 1, 2),), ((2,),), ((2,),)]
    assert [sorted(step.joined) for step in steps] == [[0], [1, 2], [], []]
    assert steps[0].work == (Batch(1, 3),)
    assert steps[1].work == (Batch(3, 4 + 2 + 2),)


def test_a_full_batch_lets_others_wait() -> None:
    steps = table([Request(0.0, 1, 3), Request(0.0, 1, 2)], prefills=2, most=1).steps
    assert [step.batches for step in steps] == [((0,),), ((0,),), ((1,),)]


def test_replicas_take_requests_in_turn_and_those_of_an_instance_go_together() -> None:
    steps = table([Request(0.0, 1, 1)] * 3, prefills=0, decodes=2, replicas=1).steps
    assert [(step.instance, step.batches) for step in steps] == [(0, ((0, 2),)), (1, ((1,),))]
    steps = table([Request(0.0, 1, 1), Request(0.0, 1, 2), Request(0.0, 1, 1)], prefills=0, replicas=2).steps
    assert [(step.instance, step.batches) for step in steps] == [(0, ((0, 2), (1,))), (0, ((), (1,)))]


def test_transfers_that_begin_late_end() -> None:
    """After a year, moments are rounded to more than what is left of a transfer by rounding."""
    late_s = 3e7
    ends_s = shared_ends_s([late_s, late_s, late_s + 1e-6], [CacheWay(1e-3, 0.0, ("out",))] * 3)
    assert all(late_s < end_s < late_s + 4e-3 for end_s in ends_s)
