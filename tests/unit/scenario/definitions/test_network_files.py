"""Networks in files: what they become, and what is refused, with the node and the key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from gradwire.datatypes.plan import OpKind
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.scenario.loading import load_scenario
from gradwire.scenario.resolution.compilation import compile_point
from tests.shared.parts import tells

SCENARIO = """
title = "A network of the user's own"
[cluster]
workers = {workers}
[fabric]
rate = "10gbit"
{fabric}
[model]
name = "alexnet"
device = "k40"
[strategy]
name = "ring"
"""
CAMPUS = """
from mininet.link import TCLink
from mininet.topo import Topo


class Campus(Topo):
    def build(self):
        core, lab = self.addSwitch("s1"), self.addSwitch("s2")
        self.addLink(core, lab, cls=TCLink, bw=500, delay="2ms", loss=1, max_queue_size=100)
        for number in range(1, 5):
            self.addLink(self.addHost(f"h{number}"), core if number < 3 else lab, cls=TCLink, bw=1000)


class Raises(Topo):
    def build(self):
        raise RuntimeError("the lab is closed")


class Exits(Topo):
    def build(self):
        raise SystemExit


class Crowd(Topo):
    def build(self):
        for number in range(10_000):
            self.addSwitch(f"s{number}")


class Odd(Topo):
    def build(self):
        self.addLink(self.addHost("h1", cpu=0.5), self.addSwitch("s1"), bw="fast", speed=3)


class Nothing(Topo):
    def build(self):
        self.addLink(self.addHost("h1"), self.addSwitch("s1"), bw=0)
"""


def fabric_of(folder: Path, fabric: str, workers: int | str = 2) -> Fabric:
    path = folder / "own.toml"
    path.write_text(SCENARIO.format(workers=workers, fabric=fabric))
    (point,) = load_scenario(path).points
    return compile_point(point.section).fabric


def refusal(folder: Path, fabric: str, workers: int | str = 2) -> str:
    with pytest.raises(InputFault) as raised:
        fabric_of(folder, fabric, workers)
    return str(raised.value)


def test_a_topo_of_mininet(tmp_path: Path) -> None:
    (tmp_path / "lab.py").write_text(CAMPUS)
    fabric = fabric_of(tmp_path, 'file = "lab.py:Campus"')
    assert fabric.hosts == 4  # two of them without a rank
    assert fabric.host_bps == (1e9,) * 4
    (between,) = fabric.trunk_links()
    assert (between.rate_bps, between.delay_s, between.loss) == (500e6, 2e-3, 0.01)
    assert between.buffer_bytes == 100 * 1514
    assert fabric.gso_bytes == 1514  # frame by frame, since a queue drops
    assert [fabric.leaf_of(host) for host in range(4)] == [0, 0, 1, 1]


def graph() -> nx.Graph[Any]:
    """Two hosts on switches that have names of their own, with two links between two of them."""
    network: nx.MultiGraph[str] = nx.MultiGraph()
    network.add_node("Paris", label="the first", latitude=48.9)
    network.add_node("Lyon", type="switch")
    network.add_node("north", type="host")
    network.add_edge("h1", "Lyon")
    network.add_edge("north", "Paris", rate="1gbit")
    network.add_edge("Paris", "Lyon", rate="5gbit", delay="1ms")
    network.add_edge("Paris", "Lyon", bw=2000, delay=0.002)
    return network


@pytest.mark.parametrize("ending", ["graphml", "json"])
def test_graphml_and_node_link(tmp_path: Path, ending: str) -> None:
    if ending == "graphml":
        nx.write_graphml(graph(), tmp_path / "net.graphml")
    else:
        (tmp_path / "net.json").write_text(json.dumps(nx.node_link_data(graph(), edges="links")))
    fabric = fabric_of(tmp_path, f'file = "net.{ending}"\nlink."Lyon-*".jitter = "1us"')
    assert fabric.graph is not None
    assert (fabric.graph.host_labels, fabric.graph.switch_labels) == (("north", "h1"), ("Paris", "Lyon"))
    assert [(link.rate_bps, link.delay_s) for link in fabric.trunk_links()] == [(5e9, 1e-3), (2e9, 2e-3)]
    assert [link.jitter_s for link in fabric.links()] == [0, 1e-6, 1e-6, 1e-6]


def servers(*links: tuple[str, str]) -> str:
    """A node-link file of two switches, with these links of hosts."""
    network: nx.MultiGraph[str] = nx.MultiGraph([("a", "b"), *links])
    for host, _ in links:
        network.nodes[host]["type"] = "host"
    return json.dumps(nx.node_link_data(network, edges="links"))


TWO_EACH = [("x", "a"), ("x", "b"), ("y", "a"), ("y", "b")]


def test_a_host_with_several_links_has_as_many_nics(tmp_path: Path) -> None:
    (tmp_path / "net.json").write_text(servers(*TWO_EACH))
    (tmp_path / "lab.toml").write_text(
        SCENARIO.format(workers="4\nworkers_per_host = 2\nnics_per_host = 2", fabric='file = "net.json"')
    )
    (point,) = load_scenario(tmp_path / "lab.toml").points
    compiled = compile_point(point.section)
    graph = compiled.fabric.graph
    assert graph is not None
    assert graph.host_labels == ("x.nic1", "x.nic2", "y.nic1", "y.nic2")
    assert [compiled.fabric.leaf_of(host) for host in range(4)] == [0, 1, 0, 1]
    (plan,) = compiled.plans.values()
    assert plan.rank_host.tolist() == [0, 1, 2, 3]
    sends = plan.ops.kind == OpKind.SEND
    machines = plan.rank_host // 2
    inside = machines[plan.ops.rank[sends]] == machines[plan.ops.peer[sends]]
    assert inside.any()
    assert not plan.is_remote()[sends][inside].any()


@pytest.mark.parametrize(
    ("links", "nics", "said"),
    [
        (TWO_EACH, 1, "host 'x' (and 1 more hosts) has 2 links, each of which is a NIC: set cluster.nics_per_host = 2"),
        (TWO_EACH[:3], 2, "host 'y' has 1 link, each of which is a NIC: cluster.nics_per_host = 2 wants as many links of every"),
        ([("x", "a"), ("y", "a"), ("z", "b")], 2, "has 3 hosts with one link each, which are NICs: must be a multiple of"),
        ([("d.0.nic.0", "a"), ("d.0.nic.1", "a"), ("d.1", "b"), ("d.2", "b")], 2, "'d.1' and 'd.2' are NICs of different devices"),
        ([("x", "x.nic1"), ("x", "b")], 2, "'x.nic1' is the name of a node, and of a NIC"),
    ],
)  # fmt: skip
def test_machines_that_do_not_have_as_many_nics_are_refused(
    tmp_path: Path, links: list[tuple[str, str]], nics: int, said: str
) -> None:
    (tmp_path / "net.json").write_text(servers(*links))
    cluster = f"{nics}\nworkers_per_host = {nics}\nnics_per_host = {nics}"
    refused = refusal(tmp_path, 'file = "net.json"', cluster)
    assert said in refused
    assert len(refused.splitlines()) == 1


def test_nics_of_a_machine_are_at_one_switch_of_a_shape(tmp_path: Path) -> None:
    fabric = fabric_of(
        tmp_path, 'topology = "ring"\nswitches = 3', workers="8\nworkers_per_host = 2\nnics_per_host = 2"
    )
    assert [fabric.leaf_of(host) for host in range(8)] == [0, 0, 0, 0, 1, 1, 2, 2]


def test_hosts_are_spread_where_a_file_has_none(tmp_path: Path) -> None:
    nx.write_graphml(nx.cycle_graph(["a", "b", "c"]), tmp_path / "cycle.graphml")
    fabric = fabric_of(tmp_path, 'file = "cycle.graphml"', workers=6)
    assert [fabric.leaf_of(host) for host in range(6)] == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("fabric", "said"),
    [
        ('file = "lab.py:Raises"', ["fabric.file", "Raises() raised RuntimeError: the lab is closed"]),
        ('file = "lab.py:Exits"', ["Exits() raised SystemExit"]),
        ('file = "lab.py:Crowd"', ["has 10,000 nodes; must be at most 256 switches and 1,024 hosts"]),
        ('file = "lab.py:Odd"', ["link 'h1' to 's1': bw = 'fast': is not a number"]),
        ('file = "lab.py:Nothing"', ["link 'h1' to 's1'.rate = '0bit': must be a rate of 9.6kbit"]),
        ('file = "lab.py:Missing"', ["has no class 'Missing' of Mininet's Topo; it has: Campus, Raises"]),
        ('file = "lab.py"', ["say which, like lab.py:Campus"]),
        ('file = "none.graphml"', ["no such network file"]),
        ('file = "broken.graphml"', ["cannot be read as GraphML"]),
        ('file = "broken.json"', ["cannot be read as JSON"]),
        ('file = "list.json"', ["has no lists nodes and edges"]),
        ('file = "apart.json"', ["no way leads from 'a' to 'b': the network must be connected"]),
        ('file = "odd.json"', ["link 'a' to 'b': capacity = 2: has no unit"]),
        ('file = "two.json"', ["host 'h1' has 2 links, each of which is a NIC: set cluster.nics_per_host = 2"]),
        ('file = "directed.json"', ["is directed"]),
        ('file = "campus"', ["fabric.file = 'campus': no such network"]),
        ('topology = "custom"', ["fabric.file: missing; fabric.topology = 'custom' needs it"]),
        ('topology = "ring"', ["fabric.switches: missing; fabric.topology = 'ring' needs it"]),
        ('topology = "torus"\ndimensions = [100, 100]', ["has 10,000 switches; must be at most 256"]),
        ('topology = "ring"\nswitches = 3\nleaves = 2', ["fabric.leaves = 2: needs fabric.topology = 'leaf-spine'"]),
        ('groups = 3', ["fabric.groups: needs fabric.topology = 'dragonfly'"]),
        ('topology = "ring"\nswitches = 3\nlink.s9.rate = "1gbit"', ["fabric.link.'s9': no link is called that"]),
        ('link.h1.delay = "2s"', ["fabric.link.h1.delay = '2s': must be a duration of 0s to 1s"]),
        ('link.h1.rate = "0gbit"', ["fabric.link.h1.rate = '0gbit': must be a rate of 10mbit"]),
        ('[fabric.link.h1]', ["fabric.link.h1", "says nothing"]),
    ],
)  # fmt: skip
def test_what_cannot_be_built_is_refused_in_one_message(tmp_path: Path, fabric: str, said: list[str]) -> None:
    (tmp_path / "lab.py").write_text(CAMPUS)
    (tmp_path / "broken.graphml").write_text("<graphml>")
    (tmp_path / "broken.json").write_text("{")
    nodes = [{"id": "a"}, {"id": "b"}]
    edge = {"source": "a", "target": "b"}
    for name, content in {
        "list": {"nodes": 3},
        "apart": {"nodes": nodes, "edges": []},
        "odd": {"nodes": [nodes[0], {"id": "b", "type": "modem"}], "edges": [{**edge, "capacity": 2}]},
        "two": {
            "nodes": [*nodes, {"id": "h1"}],
            "edges": [edge, {"source": "h1", "target": "a"}, {"source": "h1", "target": "b"}],
        },
        "directed": {"directed": True, "nodes": nodes, "edges": [edge]},
    }.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    message = refusal(tmp_path, fabric)
    assert all(words in message for words in said), message


def test_fewer_hosts_than_the_point_needs_are_refused(tmp_path: Path) -> None:
    (tmp_path / "lab.py").write_text(CAMPUS)
    assert tells(refusal(tmp_path, 'file = "lab.py:Campus"', workers=5), "4 hosts", "needs 5")


def test_a_delay_of_nothing_in_a_file_is_one(tmp_path: Path) -> None:
    """`fabric.delay` is for the links that say none, and for those of hosts that a file does not have."""
    edges = [{"source": "a", "target": "b", "delay": 0}, {"source": "b", "target": "c"}]
    nodes = [{"id": name} for name in ("a", "b", "c")]
    (tmp_path / "net.json").write_text(json.dumps({"nodes": nodes, "edges": edges}))
    fabric = fabric_of(tmp_path, 'file = "net.json"\ndelay = "3ms"')
    assert [link.delay_s for link in fabric.links()] == [3e-3, 3e-3, 0.0, 3e-3]


def test_names_of_a_file_name_ports_as_well(tmp_path: Path) -> None:
    """Whatever the switches are called among themselves: here the first is the file's s2."""
    nodes = [{"id": name} for name in ("s2", "s1", "h1", "h2")]
    edges = [{"source": "s2", "target": "h1"}, {"source": "s1", "target": "h2"}, {"source": "s1", "target": "s2"}]
    (tmp_path / "net.json").write_text(json.dumps({"nodes": nodes, "edges": edges}))

    def with_delay(name: str) -> list[float]:
        fabric = fabric_of(tmp_path, f'file = "net.json"\nlink."{name}".delay = "1ms"')
        return [link.delay_s * 1e3 for link in fabric.links()]

    assert with_delay("s1-h*") == [0.0, 1.0, 0.0]
    assert with_delay("s2-eth1") == [1.0, 0.0, 0.0]
    assert with_delay("s1-*") == [0.0, 1.0, 1.0]
