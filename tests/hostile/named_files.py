"""Hostile files that a scenario names: networks, tables of routes, models and devices, and scenarios with many links."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import tomli_w

from gradwire.faults import InputFault
from gradwire.reading_budget import CPU_S_PER_MB
from gradwire.scenario.loading import Point
from gradwire.scenario.scenario_files import read_scenario
from tests.hostile.changes import TIMES, changed
from tests.hostile.limits import MOST_S, Outcome, outcome

Document = dict[str, Any]
BASE: Document = {
    "title": "files",
    "cluster": {"workers": 2},
    "fabric": {"rate": "10gbit"},
    "model": {"name": "alexnet", "device": "k40"},
    "strategy": {"name": "ring"},
}
NODE_LINK: Document = {
    "nodes": [{"id": "h1"}, {"id": "h2"}, {"id": "s1"}, {"id": "s2", "type": "switch"}],
    "edges": [
        {"source": "h1", "target": "s1", "bw": 10, "delay": "1ms"},
        {"source": "h2", "target": "s2"},
        {"source": "s1", "target": "s2", "loss": 1},
    ],
}
INFRAGRAPH: Document = {
    "name": "n",
    "devices": [
        {"name": "srv", "components": [{"name": "nic", "count": 2, "choice": "nic"}]},
        {"name": "sw", "components": [{"name": "port", "count": 8, "choice": "port"}]},
    ],
    "links": [{"name": "l", "physical": {"bandwidth": {"choice": "gigabits_per_second", "gigabits_per_second": 10}}}],
    "instances": [{"name": "server", "device": "srv", "count": 2}, {"name": "switch", "device": "sw", "count": 1}],
    "edges": [
        {
            "ep1": {"instance": "server", "component": "nic[0]"},
            "ep2": {"instance": "switch", "component": "port[0:2]"},
            "scheme": "one2one",
            "link": "l",
        }
    ],
}
GRAPHML = (
    b'<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><key id="d0" for="edge" attr.name="bw" attr.type="double"/>'
    b'<graph edgedefault="undirected"><node id="h1"/><node id="h2"/><node id="s1"/>'
    b'<edge source="h1" target="s1"><data key="d0">10</data></edge><edge source="h2" target="s1"/></graph></graphml>'
)
CONTAINERLAB: Document = {
    "name": "lab",
    "topology": {
        "kinds": {"linux": {"image": "alpine"}},
        "nodes": {"s1": {"kind": "nokia_srlinux"}, "h1": {"kind": "linux"}, "h2": {"kind": "linux"}},
        "links": [{"endpoints": ["h1:eth1", "s1:e1-1"]}, {"endpoints": [{"node": "h2"}, "s1:e1-2"], "mtu": 1500}],
    },
}
NETLAB: Document = {
    "defaults": {"device": "frr"},
    "nodes": {"h1": {"role": "host"}, "h2": {"device": "linux"}, "s1": None},
    "links": [
        "h1-s1",
        {"h2": None, "s1": None, "bandwidth": 100000, "tc": {"delay": "1ms", "loss": 1}},
        ["h1", "h2", "s1"],
    ],
}
GML = b'graph [ node [ id 0 label "a" ] node [ id 1 lat 1.5 ] edge [ source 0 target 1 LinkSpeed "10" LinkSpeedUnits "G" ] ]'
SIMULATED = (
    b"3 1 2\n2\n0 2 100Gbps 0.001ms 0\n1 2 25Gbps 1us 0.01\n",
    b"6 2 1 1 6 A100\n4 5\n0 4 2400Gbps 25ns 0\n1 4 2400Gbps 25ns 0\n0 5 1Gbps 1us 0\n1 5 1Gbps 1us 0\n2 5 1Gbps 1us 0\n3 5 1Gbps 1us 0\n",
)
HTSIM = b"""# two tiers
Nodes 4
Tiers 2
Podsize 4

Tier 0
Downlink_speed_Gbps 10
Radix_Down 2
Radix_Up 2
Downlink_Latency_ns 500

Tier 1
Downlink_speed_Gbps 10
Radix_Down 2
Downlink_Latency_ns 1000
Queue_Down 100000
"""
CONFIGS: tuple[Document, ...] = (
    {
        "model_type": "llama",
        "vocab_size": 100,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    },
    {
        "model_type": "mixtral",
        "vocab_size": 100,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_local_experts": 4,
    },
    {"model_type": "gpt2", "vocab_size": 100, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64},
)
ROUTES: Document = {
    "route": [
        {"switch": "s*", "destination": "h1", "next": "s1"},
        {"switch": "s*", "destination": "h2", "next": "s2"},
    ]
}
MODEL: Document = {
    "name": "mine",
    "batch": 2,
    "source": "nobody",
    "layers": [{"name": "a", "kind": "fc", "tensors": {"w": [4, 4]}, "flops": "1 MFLOP"}],
}
DEVICE: Document = {
    "name": "chip",
    "description": "a chip",
    "peak": {"rate": "10 TFLOP/s", "efficiency": 0.5, "source": "nobody"},
}
LINKS: Document = {"s1-s2": {"delay": "1ms"}, "h*": {"rate": "1gbit"}}
TWO_SWITCHES = {"topology": "linear", "switches": 2}


@dataclass(frozen=True)
class Kind:
    """A file, and the scenario that names it."""

    name: str
    #: A sound one, or one that is hostile already.
    content: Callable[[Random], bytes]
    scenario: Mapping[str, Any]


def _sound(*documents: Document) -> Callable[[Random], bytes]:
    return lambda random: json.dumps(random.choice(documents)).encode()


def _toml(document: Document) -> Callable[[Random], bytes]:
    return lambda _: tomli_w.dumps(document).encode()


def _csv(random: Random) -> bytes:
    names = ["s1", "s2", "s*", "h1", "h2", "h*", "*", "", "s[0-9]*", "[", "x" * 100, '"', "s1 s2"]
    rows = [",".join(random.choice(names) for _ in range(3)) for _ in range(random.choice((0, 1, 3, 1000, 11_000)))]
    return "\n".join(["switch,destination,next", *rows]).encode()


def _links(random: Random) -> bytes:
    links = {
        f"{random.choice(('s*', 'h?*', '*', 's[12]-', ''))}{number}": {"delay": "1ms"}
        for number in range(random.choice(TIMES))
    }
    return tomli_w.dumps({**BASE, "fabric": {**BASE["fabric"], **TWO_SWITCHES, "link": {**LINKS, **links}}}).encode()


def _with(table: str, **values: Any) -> Document:
    return {**BASE, table: {**BASE[table], **values}}


KINDS = (
    Kind("net.json", _sound(NODE_LINK, INFRAGRAPH), _with("fabric", file="net.json")),
    Kind("net.yaml", _sound(INFRAGRAPH, CONTAINERLAB, NETLAB), _with("fabric", file="net.yaml")),
    Kind("net.gml", lambda _: GML, _with("fabric", file="net.gml", delay_from_coordinates=True)),
    Kind("topology.txt", lambda random: random.choice(SIMULATED), _with("fabric", file="topology.txt")),
    Kind("tree.topo", lambda _: HTSIM, _with("fabric", file="tree.topo")),
    Kind("net.graphml", lambda _: GRAPHML, _with("fabric", file="net.graphml")),
    Kind("config.json", _sound(*CONFIGS), _with("model", name="config.json", device="v100")),
    Kind("model.toml", _toml(MODEL), _with("model", name="model.toml", device="v100")),
    Kind("device.toml", _toml(DEVICE), _with("model", name="alexnet", device="device.toml")),
    Kind("routes.toml", _toml(ROUTES), _with("fabric", **TWO_SWITCHES, routing="static", routes="routes.toml")),
    Kind("routes.csv", _csv, _with("fabric", **TWO_SWITCHES, routing="static", routes="routes.csv")),
    Kind("scenario.toml", _links, {}),
)


def tried(number: int, folder: Path) -> Outcome:
    """Reads the scenario of this number, and makes its networks and jobs."""
    random = Random(f"file/{number}")
    kind = KINDS[number % len(KINDS)]
    content = kind.content(random)
    for _ in range(random.choice((0, 1)) if kind.content in (_csv, _links) else random.choice((1, 1, 1, 2))):
        content = changed(kind.name, content, random)
    if kind.scenario:
        (folder / "scenario.toml").write_text(tomli_w.dumps(dict(kind.scenario)))
    (folder / kind.name).write_bytes(content)

    def read() -> None:
        scenario = read_scenario(folder / "scenario.toml", ())
        for point in scenario.points:
            if isinstance(point, Point):
                _ = point.resolved.fabric, point.resolved.job

    return outcome(read, (InputFault,), MOST_S + CPU_S_PER_MB * len(content) / 1e6)
