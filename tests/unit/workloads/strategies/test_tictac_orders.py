"""TIC and TAC against a reading of TicTac's definitions word by word, and the paper's own examples."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradwire.workloads.models import model
from gradwire.workloads.models.profile import Layer, LayerKind, Profile, Tensor
from gradwire.workloads.strategies.tictac import (
    INFINITE,
    ComputeOp,
    OperationGraph,
    Properties,
    model_graph,
    precedes,
    properties,
    tac,
    tic,
)
from tests.shared.examples import examples


@st.composite
def graphs(draw: st.DrawFn) -> OperationGraph:
    """Up to 8 recvs and 10 compute ops; times are small, so that many are equal."""
    recvs = draw(st.integers(1, 8))
    times = st.integers(0, 4)
    compute = []
    for number in range(draw(st.integers(0, 10))):
        reads = st.lists(st.integers(0, recvs - 1), max_size=2, unique=True)
        inputs = st.lists(st.integers(0, number - 1), max_size=3, unique=True) if number else st.just([])
        compute.append(ComputeOp(draw(times), tuple(draw(reads)), tuple(draw(inputs))))
    return OperationGraph(tuple(draw(st.lists(st.integers(1, 4), min_size=recvs, max_size=recvs))), tuple(compute))


def dep(graph: OperationGraph, op: int) -> set[int]:
    """Section 4.1: the recv ops that the op is directly or transitively dependent on."""
    needed = set(graph.compute[op].recvs)
    for earlier in graph.compute[op].inputs:
        needed |= dep(graph, earlier)
    return needed


def definition(
    graph: OperationGraph, outstanding: set[int], time: tuple[int, ...]
) -> dict[int, tuple[float, float, float]]:
    """M, P and M+ of each outstanding recv, as Algorithm 1 and the text say."""
    properties_of: dict[int, tuple[float, float, float]] = {}
    deps = [dep(graph, op) & outstanding for op in range(len(graph.compute))]
    for recv in outstanding:
        load = sum(op.time_ns for op, needs in zip(graph.compute, deps, strict=True) if needs == {recv})
        impending = min(
            (sum(time[r] for r in needs) for needs in deps if recv in needs and len(needs) > 1), default=math.inf
        )
        properties_of[recv] = (time[recv], load, impending)
    return properties_of


def comes_before(a: tuple[float, float, float], b: tuple[float, float, float]) -> bool:
    (m_a, p_a, plus_a), (m_b, p_b, plus_b) = a, b
    if min(p_b, m_a) == min(p_a, m_b):
        return plus_a < plus_b
    return min(p_b, m_a) < min(p_a, m_b)


@settings(max_examples=examples(300))
@given(graph=graphs())
def test_tic_is_the_definition(graph: OperationGraph) -> None:
    ones = (1,) * len(graph.recv_ns)
    properties_of = definition(graph, set(range(len(ones))), ones)
    assert tic(graph) == sorted(properties_of, key=lambda recv: (properties_of[recv][2], recv))


@settings(max_examples=examples(300))
@given(graph=graphs())
def test_tac_is_the_definition(graph: OperationGraph) -> None:
    outstanding = set(range(len(graph.recv_ns)))
    for chosen in tac(graph):
        properties_of = definition(graph, outstanding, graph.recv_ns)
        expected = min(outstanding)
        for candidate in sorted(outstanding):
            if comes_before(properties_of[candidate], properties_of[expected]):
                expected = candidate
        assert chosen == expected
        undominated = [
            a for a in outstanding if not any(comes_before(properties_of[b], properties_of[a]) for b in outstanding)
        ]
        strict = [
            a for a in undominated if all(comes_before(properties_of[a], properties_of[b]) for b in outstanding - {a})
        ]
        assert not strict or chosen == strict[0]
        outstanding.remove(chosen)
    assert not outstanding


@given(graph=graphs(), picks=st.sets(st.integers(0, 7)))
def test_properties_are_the_definition(graph: OperationGraph, picks: set[int]) -> None:
    outstanding = {recv for recv in picks if recv < len(graph.recv_ns)}
    mask = np.array([recv in outstanding for recv in range(len(graph.recv_ns))])
    computed = properties(graph, mask)
    for recv, (transfer, load, impending) in definition(graph, outstanding, graph.recv_ns).items():
        assert computed.transfer_ns[recv] == transfer
        assert computed.load_ns[recv] == load
        assert computed.impending_ns[recv] == (INFINITE if math.isinf(impending) else impending)
    assert not computed.load_ns[~mask].any()
    assert (computed.impending_ns[~mask] == INFINITE).all()


def test_figure_1_receives_first_what_the_first_op_needs() -> None:
    graph = OperationGraph((1, 1), (ComputeOp(1, (0,), ()), ComputeOp(1, (1,), (0,))))
    given_all = properties(graph, np.array([True, True]))
    assert given_all.load_ns.tolist() == [1, 0]
    assert given_all.impending_ns.tolist() == [2, 2]
    assert tic(graph) == tac(graph) == [0, 1]
    swapped = OperationGraph((1, 1), (ComputeOp(1, (1,), ()), ComputeOp(1, (0,), (0,))))
    assert tac(swapped) == [1, 0]


@pytest.mark.parametrize(("a", "b"), [((1, 3), (3, 1)), ((3, 1), (1, 3)), ((2, 5), (3, 4)), ((4, 2), (4, 3))])
def test_figure_4a_prefers_the_shorter_makespan(a: tuple[int, int], b: tuple[int, int]) -> None:
    """(M, P) of two branches, joined. Algorithm 3 as printed would choose the longer one wherever they differ."""

    def makespan(first: tuple[int, int], second: tuple[int, int]) -> int:
        return first[0] + max(first[1], second[0]) + second[1]

    graph = OperationGraph(
        (a[0], b[0]), (ComputeOp(a[1], (0,), ()), ComputeOp(b[1], (1,), ()), ComputeOp(1, (), (0, 1)))
    )
    expected = [0, 1] if makespan(a, b) <= makespan(b, a) else [1, 0]
    assert makespan(a, b) != makespan(b, a)
    assert tac(graph) == expected


@given(st.tuples(*[st.integers(1, 20)] * 4))
def test_equation_6_never_chooses_the_longer_makespan_of_two_branches(times: tuple[int, int, int, int]) -> None:
    m, p = times[:2], times[2:]
    graph = OperationGraph(m, (ComputeOp(p[0], (0,), ()), ComputeOp(p[1], (1,), ())))
    first, second = tac(graph)

    def makespan(a: int, b: int) -> int:
        return m[a] + max(p[a], m[b]) + p[b]

    assert makespan(first, second) <= makespan(second, first)


def test_figure_4b_goes_by_impending_communication() -> None:
    """One op needs A and B, a later one C as well, the last D: wherever they stand in creation order, A and B come
    first."""
    for names in itertools.permutations("ABCD"):
        at = {name: number for number, name in enumerate(names)}
        graph = OperationGraph(
            (1, 1, 1, 1),
            (ComputeOp(1, (at["A"], at["B"]), ()), ComputeOp(1, (at["C"],), (0,)), ComputeOp(1, (at["D"],), (1,))),
        )
        for order in (tic(graph), tac(graph)):
            text = "".join(names[recv] for recv in order)
            assert text in ("ABCD", "BACD")
            assert (text[0] == "A") == (at["A"] < at["B"])


def test_a_chain_ties_its_first_two_receives_and_the_tensors_of_a_layer() -> None:
    chain = OperationGraph((1,) * 4, tuple(ComputeOp(1, (n,), (n - 1,) if n else ()) for n in range(4)))
    assert properties(chain, np.ones(4, dtype=np.bool_)).impending_ns.tolist() == [2, 2, 3, 4]
    assert tic(chain) == [0, 1, 2, 3]
    layer = OperationGraph((1,) * 3, (ComputeOp(1, (1, 2), ()), ComputeOp(1, (0,), (0,))))
    assert properties(layer, np.ones(3, dtype=np.bool_)).impending_ns.tolist() == [3, 2, 2]
    assert tic(layer) == [1, 2, 0]


def test_what_only_one_op_needs_comes_last_in_tic() -> None:
    lonely = OperationGraph((1,) * 3, (ComputeOp(9, (0,), ()), ComputeOp(1, (1, 2), ())))
    assert properties(lonely, np.ones(3, dtype=np.bool_)).impending_ns.tolist() == [INFINITE, 2, 2]
    assert tic(lonely) == [1, 2, 0]
    assert tac(lonely) == [0, 1, 2]


def test_the_comparator_may_run_in_a_circle() -> None:
    """The paper calls it transitive; ties of Equation 6 that M+ breaks are not."""
    three = Properties(np.array([3, 2, 2]), np.array([2, 2, 3]), np.array([4, 5, 6]))
    assert precedes(three, 0, 1)
    assert precedes(three, 1, 2)
    assert precedes(three, 2, 0)


def branches() -> Profile:
    """Two branches on one stem, joined at the end; the first branch is deeper."""

    def layer(name: str, inputs: tuple[int, ...], tensors: int = 1) -> Layer:
        return Layer(name, LayerKind.CONV, tuple(Tensor(f"{name}/{i}", 10) for i in range(tensors)), 1.0, inputs)

    stem = layer("stem", (), 2)
    return Profile(
        "branches", (stem, layer("a1", (0,)), layer("a2", (1,)), layer("b", (0,)), layer("join", (2, 3))), 1, ""
    )


def test_a_models_graph_has_its_branches() -> None:
    graph = model_graph(branches(), [1] * 6, [1e-9] * 5, [2e-9] * 5)
    assert [op.recvs for op in graph.compute[:5]] == [(0, 1), (2,), (3,), (4,), (5,)]
    assert [op.inputs for op in graph.compute[:5]] == [(), (0,), (1,), (0,), (2, 3)]
    assert [op.inputs for op in graph.compute[5:]] == [(4,), (5,), (5,), (7,), (8, 6)]
    assert [op.time_ns for op in graph.compute] == [1] * 5 + [2] * 5
    # The shallow branch unblocks an op with one transfer less than the end of the deep one.
    assert tic(graph) == [0, 1, 2, 4, 3, 5]


def test_orders_of_real_models() -> None:
    """A chain is received in forward order; in Inception, branches interleave; the backward pass needs everything and
    changes nothing."""

    def order(name: str, training: bool) -> list[int]:
        profile = model(name)
        seconds = [1.0] * len(profile.layers)
        return tic(model_graph(profile, [1] * len(profile.tensors), seconds, seconds if training else ()))

    assert order("vgg16", True) == list(range(32))
    inception = order("inception-v1", True)
    assert sorted(inception) == list(range(116))
    assert inception != sorted(inception)
    assert inception == order("inception-v1", False)
