"""Routes deliver what their kinds promise: every part where it belongs, with everybody's contribution exactly once, and no byte more."""

from __future__ import annotations

from collections import Counter

import pytest

from gradwire.faults import InputFault
from gradwire.workloads.traces.replay.routes import Route, part_sizes, route_of
from gradwire.workloads.traces.workload import Kind

SIZES = (2, 3, 4, 5, 8)
POWERS = (2, 4, 8)
Holdings = list[dict[int, Counter[int]]]
"""By member and part: whose contributions it holds, and how often."""


def carried_out(route: Route, holdings: Holdings) -> Holdings:
    """What everybody holds in the end; all messages of a step leave before any of them arrives."""
    for step in sorted(set(route.step.tolist())):
        now = [row for row in route.rows.tolist() if row[4] == step]
        messages = [
            (dst, part, Counter(holdings[src][part]), adds)
            for src, dst, first, count, _, adds in now
            for part in range(first, first + count)
        ]
        for dst, part, contributions, adds in messages:
            assert contributions, "sends what it does not have"
            holdings[dst][part] = holdings[dst].get(part, Counter()) + contributions if adds else contributions
    return holdings


def own_of_all_parts(members: int, parts: int) -> Holdings:
    return [{part: Counter([member]) for part in range(parts)} for member in range(members)]


def everybody(members: int) -> Counter[int]:
    return Counter(range(members))


@pytest.mark.parametrize(
    ("algorithm", "members"),
    [(name, size) for name in ("ring", "direct") for size in SIZES]
    + [(name, size) for name in ("halving-doubling", "butterfly") for size in POWERS],
)  # fmt: skip
def test_all_reduce(algorithm: str, members: int) -> None:
    route = route_of(Kind.ALL_REDUCE, algorithm, members, 0)
    ends = carried_out(route, own_of_all_parts(members, route.parts))
    assert all(held[part] == everybody(members) for held in ends for part in range(route.parts))
    sent = int(route.sizes(part_sizes(Kind.ALL_REDUCE, 840, 1, route.parts)).sum())
    doublings = members.bit_length() - 1
    assert sent == (members * doublings * 840 if algorithm == "butterfly" else 2 * (members - 1) * 840)


@pytest.mark.parametrize("members", SIZES)
@pytest.mark.parametrize("algorithm", ["ring", "direct"])
def test_all_gather_and_reduce_scatter(algorithm: str, members: int) -> None:
    gather = route_of(Kind.ALL_GATHER, algorithm, members, 0)
    ends = carried_out(gather, [{member: Counter([member])} for member in range(members)])
    assert all(held == {part: Counter([part]) for part in range(members)} for held in ends)
    assert gather.sizes(part_sizes(Kind.ALL_GATHER, 7, 7, members)).sum() == members * (members - 1) * 7
    scatter = route_of(Kind.REDUCE_SCATTER, algorithm, members, 0)
    ends = carried_out(scatter, own_of_all_parts(members, members))
    assert all(held[member] == everybody(members) for member, held in enumerate(ends))
    assert scatter.sizes(part_sizes(Kind.REDUCE_SCATTER, 840, 4, members)).sum() == (members - 1) * 840


@pytest.mark.parametrize("root", [0, 1])
@pytest.mark.parametrize("members", SIZES)
@pytest.mark.parametrize("algorithm", ["tree", "direct"])
def test_broadcast_and_reduce(algorithm: str, members: int, root: int) -> None:
    spread = route_of(Kind.BROADCAST, algorithm, members, root)
    ends = carried_out(spread, [{0: Counter([root])} if member == root else {} for member in range(members)])
    assert all(held == {0: Counter([root])} for held in ends)
    reduction = route_of(Kind.REDUCE, algorithm, members, root)
    assert carried_out(reduction, own_of_all_parts(members, 1))[root][0] == everybody(members)
    assert len(spread.rows) == len(reduction.rows) == members - 1


@pytest.mark.parametrize("members", SIZES)
def test_parts_go_where_they_belong(members: int) -> None:
    """A part is named after the one member of the pair that is not the root; in an all-to-all, after its receiver."""
    rows = route_of(Kind.ALL_TO_ALL, "direct", members, 0).rows.tolist()
    assert sorted((src, dst, part) for src, dst, part, *_ in rows) == [
        (i, j, j) for i in range(members) for j in range(members) if i != j
    ]
    gathering, scattering = (route_of(kind, "direct", members, 1).rows.tolist() for kind in (Kind.GATHER, Kind.SCATTER))
    others = [member for member in range(members) if member != 1]
    assert sorted((src, dst, part) for src, dst, part, *_ in gathering) == [(i, 1, i) for i in others]
    assert sorted((src, dst, part) for src, dst, part, *_ in scattering) == [(1, i, i) for i in others]


@pytest.mark.parametrize("members", SIZES)
def test_nobody_leaves_a_barrier_before_everybody_is_there(members: int) -> None:
    knows = [{member} for member in range(members)]
    route = route_of(Kind.BARRIER, "direct", members, 0)
    for step in sorted(set(route.step.tolist())):
        told = [(row[1], set(knows[row[0]])) for row in route.rows.tolist() if row[4] == step]
        for member, what in told:
            knows[member] |= what
    assert all(known == set(range(members)) for known in knows)


@pytest.mark.parametrize(("size", "width", "parts"), [(12, 4, 2), (10, 4, 4), (3, 1, 5), (0, 4, 3)])
def test_parts_add_up(size: int, width: int, parts: int) -> None:
    assert part_sizes(Kind.ALL_REDUCE, size, width, parts).sum() == size


def test_algorithms_that_pair_members_want_a_power_of_two() -> None:
    with pytest.raises(InputFault, match="power of two"):
        route_of(Kind.ALL_REDUCE, "halving-doubling", 6, 0)
