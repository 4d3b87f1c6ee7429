"""Chakra traces: the graph as it is, and sizes in bytes or in elements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gradwire.faults import InputFault
from gradwire.workloads.traces.formats import chakra_messages as chakra
from gradwire.workloads.traces.formats import json_objects
from gradwire.workloads.traces.record import Reading
from gradwire.workloads.traces.workload import Kind
from tests.shared.parts import in_order, tells
from tests.unit.workloads.traces.formats.test_kineto import chain
from tests.unit.workloads.traces.small_traces import chakra_file, chakra_json_file, chakra_node, finds, imported, words

ALL_REDUCE: dict[str, Any] = {"comm_type": 0, "comm_size": 4096, "is_cpu_op": False}


def small_graph() -> list[Any]:
    return [
        chakra_node(5, chakra.COMP, duration_us=70),
        chakra_node(6, chakra.COLL, [5], duration_us=9, **ALL_REDUCE),
        chakra_node(7, chakra.COMP, [5, 6], duration_us=30),
    ]


def both(folder: Path, nodes: list[Any], **metadata: Any) -> list[Path]:
    return [chakra_file(folder / f"job.{rank}.et", nodes, **metadata) for rank in (0, 1)]


def test_a_graph(tmp_path: Path) -> None:
    outcome = imported(*both(tmp_path, small_graph()))
    assert outcome.workload is not None, words(outcome)
    assert chain(outcome.workload, 1) == [("compute", 70, []), ("all-reduce", 4096, [0]), ("compute", 30, [0, 1])]
    assert finds(outcome, "comm_size", "bytes")
    assert finds(outcome, "job.1.et:", "rank", "name")


@pytest.mark.parametrize(
    "kind", [f"{sign}{bits}" for sign in ("int", "uint", "sint", "fixed", "sfixed") for bits in (32, 64)]
)
def test_a_number_may_be_of_any_kind_that_the_schema_has(tmp_path: Path, kind: str) -> None:
    nodes = small_graph()
    nodes[1].ClearField("attr")
    nodes[1].attr.extend(
        chakra.Attribute(name=name, **{f"{kind}_val": int(value)}) for name, value in ALL_REDUCE.items()
    )
    outcome = imported(*both(tmp_path, nodes))
    assert outcome.workload is not None, words(outcome)
    assert chain(outcome.workload, 1)[1] == ("all-reduce", 4096, [0])


@pytest.mark.parametrize("graph", [False, True], ids=["jsonizer", "workload_graph"])
@pytest.mark.parametrize("block_bytes", [1 << 20, 7])
def test_json_is_read_as_the_nodes_that_it_stands_for(
    tmp_path: Path, graph: bool, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [chakra_json_file(tmp_path / f"job.{rank}.json", small_graph(), graph=graph) for rank in (0, 1)]
    texts = [path.read_text() for path in paths]
    outcome = imported(*paths)
    assert outcome.workload is not None, words(outcome)
    assert chain(outcome.workload, 1) == [("compute", 70, []), ("all-reduce", 4096, [0]), ("compute", 30, [0, 1])]
    assert all(tells(source.format, "Chakra", "JSON") for source in outcome.sources)
    monkeypatch.setattr(json_objects, "BLOCK_BYTES", block_bytes)
    assert imported(*paths).workload is not None
    paths[0].write_text(texts[0][:-5])
    with pytest.raises(InputFault, match=r"job\.0\.json: .*(ends|middle)"):
        imported(*paths)


def test_one_name_may_be_another_group_on_other_ranks(tmp_path: Path) -> None:
    nodes = [chakra_node(6, chakra.COLL, **ALL_REDUCE, pg_name="tp")]
    paths = [chakra_file(tmp_path / f"job.{rank}.et", nodes) for rank in range(4)]
    outcome = imported(*paths, reading=Reading(several_groups={"tp": ((0, 1), (3, 2))}))
    assert outcome.workload is not None, words(outcome)
    assert outcome.workload.groups == ((0, 1), (3, 2))
    tasks = outcome.workload.tasks
    assert tasks.group[tasks.kind == Kind.ALL_REDUCE].tolist() == [0, 0, 1, 1]
    left_out = imported(*paths, reading=Reading(ranks=4, several_groups={"tp": ((0, 1), (2,))}))
    assert finds(left_out, "rank 3", "[0, 1]")


def test_the_file_of_groups_that_stage_writes_next_to_its_traces_is_read(tmp_path: Path) -> None:
    nodes = [chakra_node(1, chakra.COLL, **ALL_REDUCE, pg_name="7")]
    paths = [chakra_file(tmp_path / f"job.{rank}.et", nodes) for rank in range(4)]
    groups = tmp_path / "groups.json"
    groups.write_text('{"7": [[0, 2], [1, 3]]}')
    outcome = imported(*paths, groups)
    assert outcome.workload is not None, words(outcome)
    assert outcome.workload.groups == ((0, 2), (1, 3))
    assert finds(outcome, "groups.json", "process groups")
    given = imported(*paths, groups, reading=Reading(groups={"7": (0, 1, 2, 3)}))
    assert given.workload is not None
    assert given.workload.groups == ((0, 1, 2, 3),)
    for others in ([groups], [*paths, groups, groups]):
        with pytest.raises(InputFault, match="process groups"):
            imported(*others)


def test_sizes_of_stage_are_elements_of_a_type_that_has_to_be_given(tmp_path: Path) -> None:
    paths = both(tmp_path, small_graph(), schema="symbolic_tensor_network")
    assert "--element-bytes" in imported(*paths).refusals[0].what
    outcome = imported(*paths, reading=Reading(element_bytes=2))
    assert outcome.workload is not None
    assert chain(outcome.workload)[1] == ("all-reduce", 8192, [0])


@pytest.mark.parametrize(("elements", "finding"), [(1024, "comm_size counts bytes"), (4096, "equals the elements")])
def test_tensors_decide_in_what_sizes_are_counted(tmp_path: Path, elements: int, finding: str) -> None:
    nodes = small_graph()
    nodes[1].inputs.values = f"[[3, 4, 0, {elements}, 4, 'cuda:0']]"
    outcome = imported(*both(tmp_path, nodes))
    assert finding in words(outcome)
    assert (outcome.workload is None) == (elements == 4096)


def test_attributes_without_a_value_are_zero(tmp_path: Path) -> None:
    nodes = small_graph()
    nodes[1] = chakra_node(6, chakra.COLL, [5], comm_type=None, comm_size=8, is_cpu_op=None)
    outcome = imported(*both(tmp_path, nodes))
    assert outcome.workload is not None
    assert chain(outcome.workload)[1][0] == "all-reduce"
    assert finds(outcome, "attributes", "count as 0")


def test_a_collective_of_the_host_computes(tmp_path: Path) -> None:
    nodes = [*small_graph(), chakra_node(8, chakra.COLL, [7], duration_us=4, is_cpu_op=True)]
    outcome = imported(*both(tmp_path, nodes))
    assert outcome.workload is not None
    assert chain(outcome.workload)[3] == ("compute", 4, [2])


def test_callers_are_no_order_in_what_the_converter_from_pytorch_writes(tmp_path: Path) -> None:
    nodes = small_graph()
    nodes[0].ctrl_deps.append(7)
    assert imported(*both(tmp_path, nodes, schema="1.1.0-chakra.0.0.4")).workload is not None
    circle = imported(*both(tmp_path, nodes))
    assert tells(circle.refusals[0].words, "job.0.et: node 5:", "for itself")


def test_operations_take_their_time_on_a_device_that_has_to_be_given(tmp_path: Path) -> None:
    nodes = small_graph()
    nodes[0] = chakra_node(5, chakra.COMP, num_ops=10**9)
    paths = both(tmp_path, nodes)
    assert "--flop-rate" in imported(*paths).refusals[0].what
    outcome = imported(*paths, reading=Reading(flops_per_s=1e13))
    assert outcome.workload is not None
    assert chain(outcome.workload)[0] == ("compute", 100, [])


@pytest.mark.parametrize(
    ("attributes", "complaint"),
    [
        ({"comm_size": 0}, "an all-reduce without its size"),
        ({"pg_name": "3"}, "the process group '3' is not known"),
        ({"comm_type": 77}, "comm_type 77 is not known"),
        ({"comm_type": 3}, "whose bytes its comm_size counts"),
    ],
)
def test_what_would_be_a_guess_is_refused_with_its_node(
    tmp_path: Path, attributes: dict[str, Any], complaint: str
) -> None:
    nodes = small_graph()
    nodes[1] = chakra_node(6, chakra.COLL, [5], **{**ALL_REDUCE, **attributes})
    outcome = imported(*both(tmp_path, nodes))
    assert outcome.workload is None
    assert any("node 6: " in finding.words and complaint in finding.words for finding in outcome.refusals), words(
        outcome
    )


def test_groups_that_are_given(tmp_path: Path) -> None:
    nodes = small_graph()
    nodes[1] = chakra_node(6, chakra.COLL, [5], **ALL_REDUCE, pg_name="3")
    outcome = imported(*both(tmp_path, nodes), reading=Reading(groups={"3": (1, 0)}))
    assert outcome.workload is not None
    assert outcome.workload.groups == ((1, 0),)


def test_a_negative_size_is_told(tmp_path: Path) -> None:
    nodes = small_graph()
    nodes[1] = chakra_node(6, chakra.COLL, [5], **{**ALL_REDUCE, "comm_size": -8})
    with pytest.raises(InputFault, match=in_order("job.0.et: node 6:", "all-reduce of -8")):
        imported(*both(tmp_path, nodes))
