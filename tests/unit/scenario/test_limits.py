"""How much a file may say: what would take minutes or all memory is refused in one line, with its key."""

from __future__ import annotations

import copy
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from gradwire.faults import InputFault
from gradwire.network.shape import NetworkShape
from gradwire.network.structures.leaf_spine import MOST_TRUNKS
from gradwire.network.topology import Topology
from gradwire.scenario.limits import MOST_PARTS, refuse_long_keys, refuse_too_much
from gradwire.scenario.loading import load_scenario, scenario_of
from gradwire.scenario.resolution.networks import graph_of
from gradwire.scenario.sections.fabric import FabricSection
from tests.shared.parts import in_order, tells

SOUND: dict[str, Any] = {
    "title": "small",
    "cluster": {"workers": 2},
    "fabric": {"rate": "1gbit"},
    "model": {"name": "toy", "layers": [{"name": "a", "size": ["1kB"], "forward": "1us", "backward": "1us"}]},
    "strategy": {"name": "ring"},
}


def layers(count: int) -> list[dict[str, Any]]:
    return [{"name": f"a{number}", "size": ["1kB"], "forward": "1us", "backward": "1us"} for number in range(count)]


def with_value(key: str, value: Any) -> dict[str, Any]:
    document = copy.deepcopy(SOUND)
    *tables, last = key.split(".")
    table = document
    for name in tables:
        table = table.setdefault(name, {})
    table[last] = value
    return document


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("model.layers", layers(20_001), "model.layers: has 20,001 entries; must be at most 20,000"),
        ("title", "x" * 1_001, "title: has 1,001 characters; must be at most 1,000"),
        ("about", "x" * 100_001, "about: has 100,001 characters"),
        ("notes", ["n"] * 1_001, "notes: has 1,001 entries"),
        ("labels", {f"k{n}": "v" for n in range(10_001)}, "labels: has 10,001 entries"),
        ("fault", {f"f{n}": {} for n in range(1_001)}, "fault: has 1,001 entries"),
        ("program", {f"p{n}": {} for n in range(1_001)}, "program: has 1,001 entries"),
        ("printed", [{}] * 2_001, "printed: has 2,001 entries"),
        ("sweep", {f"run.k{n}": [1] for n in range(101)}, "sweep: has 101 entries"),
        ("strategy.options", {f"o{n}": 1 for n in range(1_001)}, "strategy.options: has 1,001 entries"),
        ("model.layers", [{"name": "a", "inputs": ["b"] * 1_001}], "model.layers.0.inputs: has 1,001 entries"),
        ("run.capture", ["h1"] * 20_001, "run.capture: has 20,001 entries"),
        ("x" * 100_001, 1, "has a key of 100,001 characters"),
        ("cases", [{"run.seed": list(range(200))}] * 51, "sweep: makes 10,200 points; must be at most 10,000"),
        ("strategy.options.segments", 10**15, "segments = 1000000000000000: must be a whole number of 1 to 4096"),
        ("fabric.rate", "1" + " " * 4_000 + "x\nx", "fabric.rate = '1 .*: must be a rate: a number and a unit"),
        ("model.name", "inception-v3-netops+99999999compute", "must be at most 1,000 modules"),
    ],
)
def test_more_than_a_file_may_say_is_refused_with_its_key(key: str, value: Any, complaint: str) -> None:
    document = with_value(key, value)
    if key == "model.name":
        document["model"] = {"name": value, "device": "k40"}
    with pytest.raises(InputFault, match=complaint) as refused:
        scenario_of(document)
    assert len(str(refused.value).splitlines()) == 1


def test_as_many_layers_as_may_be_are_taken() -> None:
    assert len(scenario_of(with_value("model.layers", layers(20_000))).points[0].section.model.layers) == 20_000


def test_points_are_not_made_where_they_have_too_many_values_together() -> None:
    document = with_value("model.layers", layers(1_000))
    document["sweep"] = {"run.seed": list(range(2_000))}
    with pytest.raises(InputFault, match=r"2,000 points, .* 1[0-9],[0-9]{3},[0-9]{3} values"):
        scenario_of(document)


def test_a_key_of_many_parts_is_refused_before_it_is_read(tmp_path: Path) -> None:
    for key in (".".join(["a"] * 100_000), " . ".join(['"a b"'] * 100), f"[{'.'.join(['a'] * 100)}]"):
        (tmp_path / "a.toml").write_text(f"title = 'x'\n{key} = 1\n")
        with pytest.raises(InputFault, match=in_order("line 2", f"more than {MOST_PARTS} parts")):
            load_scenario(tmp_path / "a.toml")
    refuse_long_keys(
        "about = 'A sentence. Another. " + "And one more, with words. " * 1_000 + "'\nversion = '1.2.3.4'\n"
    )


def test_tables_in_tables_are_refused(tmp_path: Path) -> None:
    value: Any = 1
    for _ in range(MOST_PARTS + 2):
        value = [value]
    (tmp_path / "a.toml").write_text(tomli_w.dumps({"title": value}))
    with pytest.raises(InputFault, match="nested deeper than"):
        load_scenario(tmp_path / "a.toml")


def test_a_long_key_of_many_values_is_not_copied_for_each() -> None:
    tracemalloc.start()
    try:
        refuse_too_much({"labels": {"k" * 100_000: [0] * 20_000}})
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_links_of_a_dragonfly_are_counted_before_they_are_made() -> None:
    shape = {"rate": "1gbit", "topology": "dragonfly", "groups": 256, "routers": 1, "global_links": 1024}
    with pytest.raises(InputFault, match=in_order("fabric.topology = 'dragonfly':", "33,423,360 links")):
        graph_of(FabricSection.model_validate(shape), 4, {})


def test_a_tensor_has_few_axes_and_no_more_parameters_than_any() -> None:
    for shape in ([10**6] * 3, [1] * 33):
        layer = {"name": "a", "flops": "1 FLOP", "tensors": {"w": shape}}
        document = with_value("defined.models.m", {"batch": 1, "source": "s", "layers": [layer]})
        with pytest.raises(InputFault, match=r"defined.models.m.layers.0.tensors.w = \["):
            scenario_of(document)


def test_a_network_has_no_more_links_between_switches_than_can_be_built() -> None:
    shape = NetworkShape(1024, 1e9, Topology.LEAF_SPINE, leaves=1024, spines=1024)
    (defect,) = shape.shape_defects()
    assert tells(defect, "fabric.spines = 1024:", "1,048,576 links", f"at most {MOST_TRUNKS:,}")
    largest = NetworkShape(1024, 1e9, Topology.FAT_TREE, leaves=8, spines=8, pods=16, cores=64)
    assert list(largest.shape_defects()) == []
