"""Networks as the Topology Zoo, labs and simulators write them: what is read, what is noted, and what is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import yaml

from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.runs.network_notes import network_notes
from gradwire.scenario.definitions.network_files import network_in
from gradwire.scenario.definitions.networks.attributed_graph import distance_km
from gradwire.scenario.explanations import validated
from gradwire.scenario.loading import load_scenario
from gradwire.scenario.resolution.compilation import compile_point
from gradwire.scenario.sections.network import NetworkDefinition
from tests.hostile.named_files import CONTAINERLAB, GML, HTSIM, NETLAB, SIMULATED
from tests.unit.scenario.definitions.test_network_files import CAMPUS, SCENARIO, fabric_of, refusal


def network(folder: Path, name: str, content: object) -> NetworkDefinition:
    """The network of a file with this content."""
    path = folder / name
    written = content if isinstance(content, bytes) else json.dumps(content).encode()
    path.write_bytes(written)
    return NetworkDefinition.model_validate(network_in(name, path))


def zoo() -> nx.MultiGraph[str]:
    """A network with all that files of the Topology Zoo have."""
    graph: nx.MultiGraph[str] = nx.MultiGraph(Network="small", Creator="Topology Zoo Toolset", hierarchic=1)
    place = {"Bern": (46.95, 7.45), "Zurich": (47.38, 8.54), "Geneva": (46.2, 6.15)}
    for number, (label, (latitude, longitude)) in enumerate(place.items()):
        graph.add_node(str(number), label=label, type="PoP", Latitude=latitude, Longitude=longitude, Internal=1)
    graph.add_node(
        "3", label="Bern", Internal=0, geocode_id="5"
    )  # another network's, with a label that is there already
    graph.add_node("4", label="", hyperedge=1, type="Core Node")
    graph.add_node("5", label="alone", Internal=1)
    graph.add_edge("0", "1", LinkSpeed="10", LinkSpeedUnits="G", LinkSpeedRaw=10e9, LinkType="Fibre", LinkNote="< dark")
    graph.add_edge("0", "1", LinkSpeed="155", LinkSpeedUnits="M", LinkLabel="155 Mbps", id="e1")
    graph.add_edge("0", "2", LinkSpeedRaw=64000.0, LinkStatus="Planned")
    graph.add_edge("2", "2", LinkSpeedRaw=1e9)
    graph.add_edge("1", "4", bandwidth="2.5 Gbps", capacity_mbps=100)
    graph.add_edge("3", "4")
    return graph


def test_a_network_of_the_topology_zoo(tmp_path: Path) -> None:
    nx.write_graphml(zoo(), tmp_path / "zoo.graphml")
    found = network(tmp_path, "zoo.graphml", (tmp_path / "zoo.graphml").read_bytes())
    assert found.hosts == ()
    assert found.switches == ("0", "1", "2", "3", "4")
    assert sorted((link.a, link.b, link.rate) for link in found.links if link.rate) == [
        ("0", "1", 155e6),
        ("0", "1", 10e9),
        ("0", "2", 64e3),
        ("1", "4", 2.5e9),
    ]
    notes = {note.kind.value: (note.names, note.nodes, note.links) for note in found.notes}
    assert notes == {
        "switches": (("PoP", "Core Node"), 4, 0),
        "outside": ((), 1, 0),
        "loops": (("2",), 0, 1),
        "overruled": (("capacity_mbps",), 0, 1),
        "alone": (("5",), 1, 0),
        "unused": (("geocode_id", "LinkStatus"), 1, 1),
    }


def test_gml_says_the_same(tmp_path: Path) -> None:
    (tmp_path / "zoo.gml").write_text("\n".join(nx.generate_gml(zoo())).replace("  multigraph 1\n", ""))
    nx.write_graphml(zoo(), tmp_path / "zoo.graphml")
    ours, theirs = (
        validated(NetworkDefinition, network_in(name, tmp_path / name)).links for name in ("zoo.gml", "zoo.graphml")
    )
    assert len(ours) == len(theirs) == 5
    assert {link.rate for link in ours} == {link.rate for link in theirs}


def test_delays_by_coordinates_where_asked(tmp_path: Path) -> None:
    """Bern and Zurich are 95 km apart, and Bern and Geneva 129. A delay in the file counts before that."""
    graph = zoo()
    graph.remove_edge("2", "2")
    graph.edges["0", "2", 0]["delay"] = "7ms"
    graph.edges["0", "2", 0]["LinkSpeedRaw"] = 64e6
    nx.write_graphml(graph, tmp_path / "zoo.graphml")
    apart_km = distance_km((46.95, 7.45), (47.38, 8.54))
    assert apart_km == pytest.approx(95.4, abs=0.5)

    def delays(more: str) -> set[float]:
        fabric = fabric_of(tmp_path, f'file = "zoo.graphml"\ndelay = "3ms"{more}')
        return {link.delay_s for link in fabric.trunk_links()}

    assert delays("") == {3e-3, 7e-3}
    assert delays("\ndelay_from_coordinates = true") == {apart_km * 5e-6, 3e-3, 7e-3}
    assert "delay_from_coordinates = true: needs" in refusal(tmp_path, "delay_from_coordinates = true")


def test_hosts_send_shorter_bursts_where_links_are_slow(tmp_path: Path) -> None:
    nx.write_graphml(zoo(), tmp_path / "zoo.graphml")
    assert fabric_of(tmp_path, 'file = "zoo.graphml"').gso_bytes == 16384


def test_what_a_file_has_besides_is_said_once_per_network(tmp_path: Path) -> None:
    nx.write_graphml(zoo(), tmp_path / "zoo.graphml")
    (tmp_path / "own.toml").write_text(SCENARIO.format(workers=2, fabric='file = "zoo.graphml"'))
    sections = [point.section for point in load_scenario(tmp_path / "own.toml", ["cluster.workers=[2,3]"]).points]
    (note,) = network_notes(sections)
    assert all(words in note for words in ("'zoo'", "PoP", "LinkStatus", "1 of 5 links has no rate"))


def without_rate(folder: Path, file: str) -> Fabric:
    (folder / "own.toml").write_text(
        SCENARIO.format(workers=2, fabric=f'file = "{file}"').replace('rate = "10gbit"', "")
    )
    (point,) = load_scenario(folder / "own.toml").points
    return compile_point(point.section).fabric


def test_a_topo_with_all_rates_needs_none(tmp_path: Path) -> None:
    (tmp_path / "lab.py").write_text(CAMPUS)
    assert without_rate(tmp_path, "lab.py:Campus").rate_bps == 1e9
    (tmp_path / "lab.py").write_text(CAMPUS.replace("bw=500, ", ""))
    with pytest.raises(InputFault, match=r"fabric\.rate: missing"):
        without_rate(tmp_path, "lab.py:Campus")


@pytest.mark.parametrize(
    ("attributes", "key", "value"),
    [
        ({"Bandwidth": "40G"}, "rate", 40e9),
        ({"capacity": 40, "capacity_unit": "Gbps"}, "rate", 40e9),
        ({"speed_gbps": 25}, "rate", 25e9),
        ({"bw": 100}, "rate", 100e6),
        ({"latency_ms": 2.5}, "delay", 2.5e-3),
        ({"latency": "10us"}, "delay", 10e-6),
        ({"LinkDelay": 3, "link_delay_units": "ms"}, "delay", 3e-3),
        ({"error_rate": 0.01}, "loss", 0.01),
    ],
)
def test_usual_names_of_rates_and_delays(tmp_path: Path, attributes: dict[str, Any], key: str, value: float) -> None:
    edge = {"source": "a", "target": "b", **attributes}
    found = network(tmp_path, "net.json", {"nodes": [{"id": "a"}, {"id": "b"}], "edges": [edge]})
    assert getattr(found.links[0], key) == pytest.approx(value)
    assert not found.notes


@pytest.mark.parametrize("name", ["net.json", "net.clab.yml"])
def test_containerlab(tmp_path: Path, name: str) -> None:
    content = json.loads(json.dumps(CONTAINERLAB))
    content["topology"]["nodes"]["r1"] = {"kind": "linux", "image": "quay.io/frrouting/frr:9.1"}
    content["topology"]["links"] += [
        {"endpoints": ["s1:e1-3", "r1:eth1"]},
        {"endpoints": ["s1:e1-9", "host:veth0"]},
        {"type": "mgmt-net", "endpoint": {"node": "h1", "interface": "eth9"}, "host-interface": "x"},
    ]
    found = network(
        tmp_path, name, yaml.safe_dump(content, sort_keys=False).encode() if name.endswith("yml") else content
    )
    assert (found.hosts, found.switches) == (("h1", "h2"), ("s1", "r1"))
    assert [(link.a, link.b, link.rate) for link in found.links] == [
        ("h1", "s1", None),
        ("h2", "s1", None),
        ("s1", "r1", None),
    ]
    assert {note.kind.value: note.names for note in found.notes} == {"unused": ("mtu",), "stubs": ("s1", "h1")}


def test_netlab(tmp_path: Path) -> None:
    content = {
        **NETLAB,
        "links": [*NETLAB["links"], "s1", {"s1": {}, "r2": {"tc": {}}, "tc.rate": 5000, "tc.reorder": 2}],
    }
    content["nodes"] = [*({name: given} for name, given in NETLAB["nodes"].items()), "r2"]
    found = network(tmp_path, "topology.yml", yaml.safe_dump(content, sort_keys=False).encode())
    assert (found.hosts, found.switches) == (("h1", "h2"), ("s1", "r2", "lan3"))
    shaped = {(link.a, link.b): (link.rate, link.delay, link.loss) for link in found.links}
    assert shaped["h2", "s1"] == (100e6, 1e-3, 0.01)
    assert shaped["s1", "r2"] == (5e6, None, 0)
    assert {("h1", "lan3"), ("h2", "lan3"), ("s1", "lan3")} <= set(shaped)
    notes = {note.kind.value: note.names for note in found.notes}
    assert notes == {"unused": ("tc.reorder", "tc of an interface"), "stubs": ("s1",), "lans": ("lan3",)}


def test_topologies_of_hpcc_and_simai(tmp_path: Path) -> None:
    hpcc, simai = (network(tmp_path, "topology.txt", content) for content in SIMULATED)
    assert (hpcc.hosts, hpcc.switches) == (("h0", "h1"), ("s2",))
    assert [(link.a, link.b, link.rate, link.delay, link.loss) for link in hpcc.links] == [
        ("h0", "s2", 100e9, 1e-6, 0.0),
        ("h1", "s2", 25e9, 1e-6, 0.01),
    ]
    assert simai.hosts == ("server.0.gpu.0", "server.0.gpu.1", "server.1.gpu.0", "server.1.gpu.1")
    assert len(simai.links) == 4
    assert [(note.kind.value, note.nodes, note.links) for note in simai.notes] == [("inside", 1, 2)]
    fabric = fabric_of(tmp_path, 'file = "topology.txt"', workers="4\nworkers_per_host = 2\nnics_per_host = 2")
    assert fabric.hosts == 4


def test_a_fat_tree_of_htsim(tmp_path: Path) -> None:
    found = network(tmp_path, "tree.topo", HTSIM)
    assert (len(found.hosts), found.switches) == (4, ("tor0", "tor1", "agg0", "agg1"))
    assert [(link.a, link.b) for link in found.links[4:]] == [
        ("tor0", "agg0"),
        ("tor0", "agg1"),
        ("tor1", "agg0"),
        ("tor1", "agg1"),
    ]
    assert {link.rate for link in found.links} == {10e9}
    assert [found.links[place].delay for place in (0, 4)] == pytest.approx([500e-9, 1e-6])
    three = b"Nodes 8\nTiers 3\nPodsize 4\nTier 0\nDownlink_speed_Gbps 200\nRadix_Down 2\nRadix_Up 2\nDownlink_Latency_ns 1000\n"
    three += (
        b"Switch_Latency_ns 300\nTier 1\nDownlink_speed_Gbps 200\nRadix_Down 2\nRadix_Up 4\nDownlink_Latency_ns 1000\n"
    )
    three += b"Tier 2\nDownlink_speed_Gbps 100\nRadix_Down 4\nDownlink_Latency_ns 1000\nBundle 2\n"
    found = network(tmp_path, "tree.topo", three)
    assert len(found.switches) == 4 + 4 + 4
    assert len(found.links) == 8 + 8 + 16
    assert [found.links[place].delay for place in (0, 8, 16)] == pytest.approx([1.15e-6, 1.15e-6, 1e-6])


HWLOC_XML = (
    b'<?xml version="1.0"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n<topology version="2.0"><object type="Machine">'
)
HWLOC_XML += (
    b'<object type="PCIDev" pci_type="0302 [10de:1db8]"/>' * 2 + b'<object type="PCIDev" pci_type="0207 [15b3:1013]"/>'
)
HWLOC_XML += b"</object></topology>"
TOPOLOGY_XML = b'<system version="1"><cpu numaid="0"><pci busid="0"><gpu dev="0"/></pci></cpu></system>'


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("topo.xml", TOPOLOGY_XML, "GPUs (1) as cluster.workers_per_host, its NICs (0) as cluster.nics_per_host"),
        ("lstopo.xml", HWLOC_XML, "hwloc's lstopo writes it, and no network: give its GPUs (2) as cluster.workers_per_host, its NICs (1)"),
        ("topo.xml", b"<html/>", "XML of no known form"),
        ("t.txt", b"hello", "must begin with the numbers of nodes, switches and links"),
        ("t.txt", b"3 1 2\n2\n0 2 1Gbps 1us 0\n", "has 1 lines of links; its first line says 2"),
        ("t.txt", b"3 1 1\n2\n0 9 1Gbps 1us 0\n", "line 3: '9': must be a whole number of 0 to 2"),
        ("t.txt", b"3 1 1\n2\n0 2 1Gbps 1us\n", "line 3: must be source, destination, rate, delay and error rate"),
        ("t.topo", HTSIM.replace(b"Radix_Up 2", b"Radius 3"), "unknown key 'Radius' here"),
        ("t.topo", HTSIM.replace(b"Podsize 4", b"Podsize 2"), "Radix_Down 2: must be 1, for 1 switches below"),
        ("t.topo", HTSIM.replace(b"Nodes 4", b"Nodes 999999999"), "Nodes 999999999: must be a multiple of Podsize, 4"),
        ("n.gml", b"graph [ node [ id 0 ] node [ id 0 ] ]", "cannot be read as GML"),
        ("n.gml", b"graph [ " * 5000, "cannot be read as GML"),
        ("n.gml", GML.replace(b"LinkSpeedUnits", b"LinkSpeedNote"), "LinkSpeed = '10': has no unit"),
        ("n.json", {"topology": {"nodes": {"a": {}}, "links": [{"endpoints": ["a:1", "b:1"]}]}}, "no node is called 'b'"),
        ("n.json", {"topology": {"nodes": {"a": {}}, "links": [{"endpoints": ["a:1"]}]}}, "has 1; must be two"),
        ("n.json", {"defaults": {}, "nodes": ["a"], "links": ["a-b"]}, "links.0: no node is called 'b'"),
        ("n.json", {"defaults": {}, "nodes": ["a", "b"], "links": [{"a": {}, "b": {}, "bandwidth": "x"}]}, "must be a number"),
        ("n.json", {"nodes": [{"id": str(n)} for n in range(300)], "edges": []}, "has 300 switches; must be at most 256"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_in_one_line(tmp_path: Path, name: str, content: object, said: str) -> None:
    with pytest.raises(InputFault) as raised:
        network(tmp_path, name, content)
    message = str(raised.value)
    assert len(message.splitlines()) == 1
    assert said in message
