"""Every algorithm of every kind delivers what its kind promises: everybody's contribution exactly once, and no byte
more."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pytest

from gradwire.datatypes.plan import Combine, Plan
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.workloads.checker import PlanError, check
from gradwire.workloads.engines import collective_routes
from gradwire.workloads.engines.collective_routes import ONLY, option_of
from gradwire.workloads.engines.collectives import Schedule, choice
from gradwire.workloads.engines.collectives.allreduces import NONE, parents, second_parents
from gradwire.workloads.engines.collectives.choice import (
    ALGORITHMS,
    TABLE,
    Layout,
    compared_bytes,
    pick,
    schedule_for,
)
from gradwire.workloads.engines.collectives.schedule import PER_MEMBER, Collective, part_bytes, promise
from gradwire.workloads.job import Cluster, Job
from gradwire.workloads.trace_replay.recorded_job import recorded_profile, recorded_times
from gradwire.workloads.trace_replay.replay_strategy import REPLAY, ReplayOptions, compile_replay
from gradwire.workloads.traces.workload import Kind, Tasks, Workload

MEMBERS = range(2, 18)
DATA = [kind for kind in Collective if kind is not Collective.BARRIER]
NAMED = [(kind, name) for kind in Collective for name in ALGORITHMS[kind]]
ROOTED = (Collective.BROADCAST, Collective.REDUCE, Collective.GATHER, Collective.SCATTER)
SIZE, PIECE = 5040, 512
Holdings = list[dict[int, Counter[int]]]
"""By member and part: whose contributions it holds, and how often."""


def fitting(kind: Collective, name: str, per_machine: int) -> list[Layout]:
    layouts = [Layout(tuple(i // per_machine for i in range(count))) for count in MEMBERS]
    return [layout for layout in layouts if ALGORITHMS[kind][name].fits(layout) and layout.members > per_machine]


def built(kind: Collective, name: str, layout: Layout, *, root: int = 0, channels: int = 1) -> Schedule:
    members = range(layout.members)
    return schedule_for(kind, name, members, layout.machines, SIZE, root=root, piece_bytes=PIECE, channels=channels)


def carried_out(schedule: Schedule, kind: Collective, members: int, root: int) -> Holdings:
    """What members, and switches, hold in the end; all messages of a step leave before any of them arrives."""
    promised = promise(kind, members, root)
    of_part = [part % promised.blocks for part in range(schedule.parts)]
    holdings: Holdings = [
        {part: Counter([member]) for part, block in enumerate(of_part) if member in promised.contributors[block]}
        for member in range(schedule.ranks)
    ]
    for step in sorted(set(schedule.step.tolist())):
        rows = schedule.rows[schedule.step == step].tolist()
        sent = [Counter(holdings[row[0]][row[2]]) for row in rows]
        for (_, dst, part, _, combine, _, _), contributions in zip(rows, sent, strict=True):
            before = holdings[dst].get(part, Counter()) if combine == Combine.ADD else Counter()
            holdings[dst][part] = before + contributions
    return holdings


@pytest.mark.parametrize("per_machine", [1, 2, 3])
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, name in NAMED if kind in DATA])
def test_what_is_promised_is_delivered(kind: Collective, name: str, per_machine: int) -> None:
    layouts = fitting(kind, name, per_machine)
    assert layouts
    for layout in layouts:
        root = layout.members // 2 if kind in ROOTED else 0
        for channels in (1, 2) if name == "ring" and kind not in ROOTED else (1,):
            schedule = built(kind, name, layout, root=root, channels=channels)
            promised = promise(kind, layout.members, root)
            held = carried_out(schedule, kind, layout.members, root)
            for part in range(schedule.parts):
                block = part % promised.blocks
                for member in promised.receivers[block]:
                    assert held[member][part] == Counter(promised.contributors[block]), (layout, part, member)


@pytest.mark.parametrize("members", MEMBERS)
def test_nobody_leaves_a_barrier_before_everybody_is_there(members: int) -> None:
    knows = [{member} for member in range(members)]
    schedule = built(Collective.BARRIER, "dissemination", Layout((0,) * members))
    for step in range(schedule.steps):
        told = [(row[1], set(knows[row[0]])) for row in schedule.rows.tolist() if row[3] == step]
        for member, what in told:
            knows[member] |= what
    assert all(known == set(range(members)) for known in knows)


@pytest.mark.parametrize("members", MEMBERS)
def test_a_barrier_has_no_more_steps_than_it_needs_and_each_member_one_token_in_each(members: int) -> None:
    """Whoever knows of n members after a step can know of 2 n after the next: the logarithm of the members, rounded
    up."""
    schedule = built(Collective.BARRIER, "dissemination", Layout((0,) * members))
    steps = next(count for count in range(members) if 2**count >= members)
    assert (schedule.ranks, schedule.parts, schedule.steps) == (members, 1, steps)
    assert schedule.rows.tolist() == [
        [src, (src + 2**step) % members, 0, step, Combine.CONTROL, 0, 1]
        for step in range(steps)
        for src in range(members)
    ]


@pytest.mark.parametrize("kind", [Collective.BROADCAST, Collective.REDUCE])
@pytest.mark.parametrize("members", MEMBERS)
def test_whoever_has_the_data_in_a_binomial_tree_passes_it_to_one_other_in_each_step(
    kind: Collective, members: int
) -> None:
    schedule = built(kind, "tree", Layout(tuple(range(members))), root=1)
    assert schedule.steps == (members - 1).bit_length()
    for end in (schedule.src, schedule.dst):
        in_step = Counter(zip(schedule.step.tolist(), schedule.part.tolist(), end.tolist(), strict=True))
        assert set(in_step.values()) == {1}


def sent_bytes(kind: Collective, name: str, layout: Layout) -> list[int]:
    """Bytes that each member sends."""
    schedule = built(kind, name, layout)
    size = part_bytes(kind, layout.members, schedule.parts, SIZE)[schedule.part]
    return [int(sent) for sent in np.bincount(schedule.src, size.astype(np.float64), layout.members)[: layout.members]]


@pytest.mark.parametrize("members", [2, 3, 4, 5, 6, 8, 15, 16])
def test_bytes_and_steps_are_those_of_the_closed_forms(members: int) -> None:
    layout = Layout(tuple(range(members)))
    share, once = SIZE * (members - 1) // members, SIZE * (members - 1)
    levels = (members - 1).bit_length()
    flat = [("ring", 2 * (members - 1)), ("direct", 2)]
    pairs = [("halving-doubling", 2 * levels)] if layout.is_power_of_two else []
    for name, steps in flat + pairs:
        assert sum(sent_bytes(Collective.ALL_REDUCE, name, layout)) == 2 * once
        assert built(Collective.ALL_REDUCE, name, layout).steps == steps
    if SIZE % members == 0:
        assert sent_bytes(Collective.ALL_REDUCE, "ring", layout) == [2 * share] * members
    if pairs:
        assert sent_bytes(Collective.ALL_REDUCE, "butterfly", layout) == [levels * SIZE] * members
    for name in ("direct", "pairwise", "ring"):
        assert sum(sent_bytes(Collective.REDUCE_SCATTER, name, layout)) == once
    for name in ("direct", "ring"):
        assert sum(sent_bytes(Collective.ALL_GATHER, name, layout)) == members * once
    for name, steps in (("direct", 1), ("pairwise", members - 1)):
        schedule = built(Collective.ALL_TO_ALL, name, layout)
        assert (schedule.steps, len(schedule.rows)) == (steps, members * (members - 1))


@pytest.mark.parametrize("members", MEMBERS)
def test_two_trees_carry_what_a_ring_carries_in_logarithmically_many_hops(members: int) -> None:
    """Each tree's edges carry half of the data up and down: as many bytes as a ring's. No member sends more than twice
    the data."""
    layout = Layout(tuple(range(members)))
    sent = sent_bytes(Collective.ALL_REDUCE, "double-tree", layout)
    assert sum(sent) == 2 * SIZE * (members - 1)
    assert max(sent) <= 2 * SIZE
    one_piece = schedule_for(
        Collective.ALL_REDUCE, "double-tree", range(members), layout.machines, 2 * PIECE, piece_bytes=PIECE
    )
    assert one_piece.steps <= 2 * members.bit_length()
    first, second = parents(members), second_parents(members)
    inner = [set(tree) - {NONE, tree.index(NONE)} for tree in (first, second)]
    assert not inner[0] & inner[1] - {first.index(NONE), second.index(NONE)}, "passes on in both trees"


@pytest.mark.parametrize(
    "kind", [Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER, Collective.ALL_TO_ALL]
)
def test_two_levels_cross_the_network_as_rarely_as_can_be(kind: Collective) -> None:
    """Of an all-to-all, as many bytes but as few messages: to each other machine one from each member."""
    machines, beside = 3, 4
    layout = Layout(tuple(i // beside for i in range(machines * beside)))
    schedule = built(kind, "two-level", layout)
    size = part_bytes(kind, layout.members, schedule.parts, SIZE)[schedule.part]
    machine = np.array(layout.machines)
    across = machine[schedule.src] != machine[schedule.dst]
    assert set((schedule.src[across] % beside).tolist()) == set(range(beside)), "not all rails are used"
    assert (schedule.src[across] % beside == schedule.dst[across] % beside).all(), "leaves its rail"
    needed = {
        Collective.ALL_REDUCE: 2 * (machines - 1) * SIZE,
        Collective.REDUCE_SCATTER: (machines - 1) * SIZE,
        Collective.ALL_GATHER: (machines - 1) * layout.members * SIZE,
        Collective.ALL_TO_ALL: SIZE * (machines - 1) * beside,
    }
    assert size[across].sum() == needed[kind]
    once_each = machines - 1 + beside - 1
    steps = {Collective.ALL_REDUCE: 2 * once_each, Collective.ALL_TO_ALL: 2}
    assert {*schedule.step.tolist()} == {*range(steps.get(kind, once_each))}
    if kind is Collective.ALL_TO_ALL:
        assert schedule.step.tolist() == across.tolist(), "first inside machines, and then among them"
        opened = np.unique(schedule.rows[across & (schedule.opens == 1)][:, :2], axis=0)
        assert len(opened) == schedule.opens[across].sum() == layout.members * (machines - 1)


@pytest.mark.parametrize(
    ("kind", "size", "width", "parts"),
    [
        (Collective.ALL_REDUCE, 12, 4, [8, 4]),
        (Collective.ALL_REDUCE, 10, 4, [3, 3, 2, 2]),
        (Collective.BROADCAST, 3, 1, [1, 1, 1, 0, 0]),
        (Collective.REDUCE, 0, 4, [0, 0, 0]),
    ],
)
def test_parts_are_of_whole_elements_and_add_up(kind: Collective, size: int, width: int, parts: list[int]) -> None:
    """Bytes, where the size is not of whole elements."""
    assert part_bytes(kind, 2, len(parts), size, width).tolist() == parts
    assert sum(parts) == size


def replayed(
    kind: Collective, name: str, members: int, *, per_machine: int = 1, fabric: Fabric | None = None, size: int = SIZE
) -> Plan:
    """The plan of one call, on one switch or on another fabric."""
    zeros = np.zeros(members, np.int64)
    root = 1 if kind in ROOTED else -1
    tasks = Tasks(
        np.arange(members), zeros + int(Kind[kind.name]), zeros - 1, zeros + size, zeros + 4, zeros, zeros + root,
        zeros, zeros - 1,
    )  # fmt: skip
    nothing = np.zeros(0, np.int64)
    call = Workload("one call", members, (tuple(range(members)),), tasks, np.zeros(members + 1, np.int64), nothing)
    options = {} if kind in ONLY else {option_of(kind): name}
    chosen = ReplayOptions.model_validate({"piece": f"{max(PIECE, size // 64)}B", **options})
    return compile_replay(job_of(call, Cluster(members, workers_per_host=per_machine), fabric), chosen)[REPLAY.name]


def job_of(call: Workload, cluster: Cluster, fabric: Fabric | None) -> Job:
    profile, times = recorded_profile("one call", call), recorded_times(call, "made up for a test")
    return Job(profile, times, cluster, 1, fabric=fabric, trace=call)


@pytest.mark.parametrize(("kind", "name"), NAMED)
def test_the_checker_follows_each_and_refuses_one_that_lost_a_row(
    kind: Collective, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for members, per_machine in ((4, 2), (8, 1)):
        check(replayed(kind, name, members, per_machine=per_machine))
    if kind is Collective.BARRIER:
        return

    def crippled(*arguments: Any) -> Schedule:
        whole = choice.member_schedule(*arguments)
        channel, copies = (None if column is None else column[1:] for column in (whole.channel, whole.copies))
        return Schedule(whole.ranks, whole.parts, whole.rows[1:], channel, copies)

    monkeypatch.setattr(collective_routes, "member_schedule", crippled)
    with pytest.raises(PlanError):
        check(replayed(kind, name, 8))


@pytest.mark.parametrize(
    ("kind", "name", "machines", "match"),
    [
        (Collective.ALL_REDUCE, "butterfly", range(6), "power of two, like 4 or 8; ring takes any number"),
        (Collective.ALL_GATHER, "recursive-doubling", range(6), "power of two"),
        (Collective.ALL_TO_ALL, "two-level", (0, 0, 1), "as many on every machine, and they are 2, 1; direct takes "
        "any"),
        (Collective.ALL_REDUCE, "pairwise", range(4), "no such algorithm; there are ring, double-tree"),
    ],
)  # fmt: skip
def test_what_does_not_suit_members_is_refused(kind: Collective, name: str, machines: range, match: str) -> None:
    with pytest.raises(InputFault, match=match):
        schedule_for(kind, name, range(len(machines)), tuple(machines), SIZE)


@pytest.mark.parametrize("kind", Collective)
def test_switches_add_for_what_is_summed_if_an_algorithm_asks_them_to(kind: Collective) -> None:
    summed = kind in (Collective.ALL_REDUCE, Collective.REDUCE, Collective.REDUCE_SCATTER)
    assert choice.adds_in_network(kind, ["ring", "in-network"]) is summed
    assert not choice.adds_in_network(kind, ["ring", "direct"])


@pytest.mark.parametrize("kind", Collective)
def test_auto_takes_what_suits(kind: Collective) -> None:
    for members, per_machine in product(MEMBERS, (1, 2, 3)):
        layout = Layout(tuple(i // per_machine for i in range(members)))
        for size in (0, 1000, 100_000, 10_000_000):
            assert ALGORITHMS[kind][pick(kind, layout, size)].fits(layout), (layout, size)


@pytest.mark.parametrize(
    ("kind", "machines", "size", "name"),
    [
        (Collective.ALL_REDUCE, range(8), 2048, "butterfly"),
        (Collective.ALL_REDUCE, range(6), 2048, "double-tree"),
        (Collective.ALL_REDUCE, range(8), 2049, "halving-doubling"),
        (Collective.ALL_REDUCE, range(6), 2049, "ring"),
        (Collective.ALL_REDUCE, (0, 0, 1, 1), 2049, "two-level"),
        (Collective.ALL_GATHER, range(8), 65535, "recursive-doubling"),
        (Collective.ALL_GATHER, range(8), 65536, "ring"),
        (Collective.REDUCE_SCATTER, range(8), (512 << 10) - 1, "recursive-halving"),
        (Collective.REDUCE_SCATTER, range(8), 512 << 10, "pairwise"),
        (Collective.ALL_TO_ALL, range(8), 8 * 32 << 10, "direct"),
        (Collective.ALL_TO_ALL, range(8), (8 * 32 << 10) + 8, "pairwise"),
        (Collective.BROADCAST, range(8), (12 << 10) - 1, "tree"),
        (Collective.BROADCAST, range(8), 12 << 10, "scatter-gather"),
        (Collective.BROADCAST, range(7), 1 << 30, "tree"),
    ],
)  # fmt: skip
def test_auto_goes_by_size_members_and_machines(kind: Collective, machines: range, size: int, name: str) -> None:
    assert pick(kind, Layout(tuple(machines)), size) == name


def test_every_row_of_the_table_is_taken_for_something() -> None:
    layouts = [Layout(tuple(i // per for i in range(count))) for count in MEMBERS for per in (1, 2)]
    sizes = (100, 20_000, 10_000_000)
    taken = {
        next(row for row in TABLE if row.kind is kind and row.fits(layout, compared_bytes(kind, layout.members, size)))
        for kind in Collective
        for layout in layouts
        for size in sizes
    }
    assert taken == set(TABLE)


def test_one_block_is_the_size_of_kinds_that_count_so() -> None:
    for kind in PER_MEMBER:
        assert part_bytes(kind, 3, 3, 7).tolist() == [7, 7, 7]
