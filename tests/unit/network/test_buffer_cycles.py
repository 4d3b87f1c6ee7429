"""Circles of buffers that wait for each other, found in ways."""

from __future__ import annotations

from itertools import pairwise

from gradwire.network.buffer_cycles import circle_of_ways


def test_ways_up_and_down_a_tree_have_no_circle() -> None:
    # Lines 0 and 1 go up from two leaves to a spine, 2 and 3 down again.
    assert circle_of_ways([(0, 2), (0, 3), (1, 2), (1, 3)]) == ()


def test_ways_of_two_steps_around_a_triangle_have_one() -> None:
    assert circle_of_ways([(0, 1), (1, 2), (2, 0)]) == (0, 1, 2)


def test_a_way_less_breaks_it() -> None:
    assert circle_of_ways([(0, 1), (1, 2)]) == ()


def test_what_only_leads_to_or_from_a_circle_is_not_named() -> None:
    assert circle_of_ways([(9, 4, 5), (5, 6), (6, 4), (6, 8, 7)]) == (4, 5, 6)


def test_each_line_of_a_circle_depends_on_the_next_one() -> None:
    ways = [(3, 1), (1, 7), (7, 2), (2, 3), (7, 8)]
    circle = circle_of_ways(ways)
    assert set(zip(circle, (*circle[1:], circle[0]), strict=True)) <= {pair for way in ways for pair in pairwise(way)}
    assert circle[0] == min(circle)


def test_hosts_that_send_straight_to_each_other_have_none() -> None:
    assert circle_of_ways([(0, 8), (1, 9), ()]) == ()
