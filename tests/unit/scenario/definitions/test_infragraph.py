"""InfraGraph: hosts by their interfaces, switches, links with rates and delays; and what is refused, by its key."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gradwire.faults import InputFault
from gradwire.scenario.definitions.network_files import network_in
from gradwire.scenario.loading import load_scenario
from gradwire.scenario.resolution.compilation import compile_point

SCENARIO = """
title = "A network of InfraGraph"
[cluster]
workers = 4
[fabric]
rate = "10gbit"
file = "dc.yaml"
[model]
name = "toy"
layers = [{ name = "fc", size = ["1MB"], forward = "1ms", backward = "1ms" }]
[strategy]
name = "ring"
"""


def edge(near: tuple[str, str], far: tuple[str, str], link: str, scheme: str = "one2one") -> dict[str, Any]:
    ends = [{"instance": instance, "component": component} for instance, component in (near, far)]
    return {"ep1": ends[0], "ep2": ends[1], "link": link, "scheme": scheme}


def part(name: str, count: int, choice: str) -> dict[str, Any]:
    return {"name": name, "count": count, "choice": choice}


RIGHT: dict[str, Any] = {
    "name": "two racks",
    "devices": [
        {
            "name": "server",
            "components": [part("xpu", 2, "xpu"), part("nic", 2, "nic"), part("pcie", 1, "switch")],
            "links": [{"name": "bus"}],
            "edges": [
                {"ep1": {"component": "nic"}, "ep2": {"component": "pcie"}, "link": "bus", "scheme": "many2many"}
            ],
        },
        {"name": "leaf", "components": [part("asic", 1, "cpu"), part("port", 4, "port")]},
    ],
    "links": [
        {
            "name": "access",
            "physical": {
                "bandwidth": {"choice": "gigabits_per_second", "gigabits_per_second": 25},
                "latency": {"ns": 500},
            },
        },
        {
            "name": "trunk",
            "physical": {"bandwidth": {"gigabytes_per_second": 12.5}, "latency": {"choice": "us", "us": 2}},
        },
    ],
    "instances": [
        {"name": "server", "device": "server", "count": 3},
        {"name": "leaf", "device": "leaf", "count": 2},
    ],
    "edges": [
        edge(("server[0]", "nic[0:2]"), ("leaf[0]", "port[:2]"), "access"),
        edge(("server[1:]", "nic[0]"), ("leaf[1]", "port[0:2]"), "access"),
        edge(("leaf[0]", "port[2:4]"), ("leaf[-1]", "port[2:4]"), "trunk"),
    ],
}


def read(path: Path, content: Any) -> dict[str, Any]:
    path.write_text(json.dumps(content) if path.suffix == ".json" else yaml.safe_dump(content))
    return network_in(str(path), path)


@pytest.mark.parametrize("ending", ["json", "yaml", "yml"])
def test_each_interface_with_a_link_is_a_host(tmp_path: Path, ending: str) -> None:
    found = read(tmp_path / f"dc.{ending}", RIGHT)
    assert found["hosts"] == ["server.0.nic.0", "server.0.nic.1", "server.1", "server.2"]
    assert found["switches"] == ["leaf.0", "leaf.1"]
    access = {"rate": "25gbit", "delay": "500ns"}
    trunk = {"rate": "100.0gbit", "delay": "2us"}
    assert found["links"] == [
        {"a": "server.0.nic.0", "b": "leaf.0", **access},
        {"a": "server.0.nic.1", "b": "leaf.0", **access},
        {"a": "server.1", "b": "leaf.1", **access},
        {"a": "server.2", "b": "leaf.1", **access},
        {"a": "leaf.0", "b": "leaf.1", **trunk},
        {"a": "leaf.0", "b": "leaf.1", **trunk},
    ]


def test_what_the_service_answers_is_taken_as_well(tmp_path: Path) -> None:
    assert read(tmp_path / "dc.json", {"infrastructure": RIGHT, "annotations": {}}) == read(tmp_path / "b.json", RIGHT)


def test_a_scenario_takes_it_for_its_network(tmp_path: Path) -> None:
    (tmp_path / "dc.yaml").write_text(yaml.safe_dump(RIGHT))
    (tmp_path / "own.toml").write_text(SCENARIO)
    (point,) = load_scenario(tmp_path / "own.toml").points
    fabric = compile_point(point.section).fabric
    assert [link.rate_bps for link in fabric.links()] == [25e9] * 4 + [100e9] * 2
    assert [link.delay_s for link in fabric.links()] == pytest.approx([5e-7] * 4 + [2e-6] * 2)
    assert fabric.graph is not None
    assert fabric.graph.host_labels == ("server.0.nic.0", "server.0.nic.1", "server.1", "server.2")


def test_the_longer_end_of_one2one_is_not_joined_beyond_the_shorter(tmp_path: Path) -> None:
    content = copy.deepcopy(RIGHT)
    content["edges"][0]["ep2"]["component"] = "port"
    assert read(tmp_path / "dc.json", content) == read(tmp_path / "b.json", RIGHT)


def test_a_device_in_a_device_is_found_by_its_path(tmp_path: Path) -> None:
    content = copy.deepcopy(RIGHT)
    content["devices"][0]["components"][1] = part("cx7", 2, "device")
    content["devices"].append({"name": "cx7", "components": [part("port", 1, "port"), part("asic", 1, "nic")]})
    content["edges"][0]["ep1"]["component"] = "cx7[0:2].port[0]"
    content["edges"][1]["ep1"]["component"] = "cx7[1].port"
    found = read(tmp_path / "dc.json", content)
    assert found["hosts"] == ["server.0.cx7.0.port.0", "server.0.cx7.1.port.0", "server.1", "server.2"]


def changed(*where: Any, value: Any) -> dict[str, Any]:
    content = copy.deepcopy(RIGHT)
    at: Any = content
    for step in where[:-1]:
        at = at[step]
    at[where[-1]] = value
    return content


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (changed("edges", 0, "link", value="x"), "edges.0.link = 'x': no link is called that"),
        (changed("edges", 0, "scheme", value="ring"), "edges.0.scheme = 'ring': must be one2one or many2many"),
        (changed("edges", 0, "ep1", "instance", value="rack[0]"), "edges.0.ep1.instance: no instance is called 'rack'"),
        (changed("edges", 0, "ep1", "instance", value="server[3]"), "[3] names none of 3, which begin with [0]"),
        (changed("edges", 0, "ep1", "component", value="gpu[0]"), "device 'server' has no component 'gpu'"),
        (changed("edges", 0, "ep1", "component", value="nic[0:x]"), "must be a name with an index or a slice"),
        (changed("edges", 0, "ep1", "component", value="nic[::0]"), "[::0] is not a slice of Python's"),
        (changed("instances", 0, "device", value="x"), "instances.server.device = 'x': no device is called that"),
        (changed("instances", 0, "count", value=2**40), "instances.server.count: must be a number from 1 to 1,048,576"),
        (changed("instances", 1, "name", value="server"), "instances.1.name = 'server': another one"),
        (changed("devices", 1, "components", value=[]), "has no component 'port'"),
        (changed("devices", 1, "speed", value=3), "devices.1: unknown key 'speed'"),
        (
            changed("links", 0, "physical", value={"bandwidth": {"gigatransfers_per_second": 8}}),
            "must have one of giga",
        ),
        (
            changed("links", 0, "physical", value={"latency": {"ns": "1"}}),
            "links.access.physical.latency.ns: must be a number",
        ),
        (changed("links", 0, "physical", value={"loss": 1}), "links.access.physical: unknown key 'loss'"),
        (changed("edges", value=7), "edges: must be a list"),
        ({"instances": [], "devices": 3}, "has no switches"),
        ([1], "the file: must be a table"),
    ],
)
def test_what_is_wrong_is_refused_by_its_key(tmp_path: Path, content: Any, words: str) -> None:
    with pytest.raises(InputFault) as caught:
        read(tmp_path / "dc.yaml", content)
    assert words in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / 'dc.yaml'}: ")


def test_many_links_and_many_hosts_are_refused_before_they_are_made(tmp_path: Path) -> None:
    crowd = changed("instances", 0, "count", value=2**20)
    crowd["edges"] = [edge(("server", "nic"), ("leaf", "port"), "access", "many2many")]
    with pytest.raises(InputFault, match="16,384 components"):
        read(tmp_path / "dc.json", crowd)
    crowd = changed("instances", 0, "count", value=10_000)
    crowd["edges"] = [edge(("server", "nic[0]"), ("leaf[0]", "port[0]"), "access", "many2many")]
    with pytest.raises(InputFault, match="has 10,000 hosts; must be at most 1,024"):
        read(tmp_path / "dc.json", crowd)
