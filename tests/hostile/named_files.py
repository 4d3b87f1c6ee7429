"""Hostile files that a scenario names: networks, tables of routes, models and devices, and scenarios with many links."""

from __future__ import annotations

import copy
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
from tests.hostile import json_text
from tests.hostile.damage import damaged
from tests.hostile.json_values import otherwise
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
NUMBERS = (0, 1, 2, 3, 64, 1000, 16_384, 16_385, 40_000, 10**6, 10**9, 10**12, -1)
MOST_ITEMS = 200_000
"""Of a file that is made longer."""
TIMES = (2, 10, 100, 1000, 5000, 30_000)


@dataclass(frozen=True)
class Kind:
    """A file, and the scenario that names it."""

    name: str
    content: Callable[[Random], bytes]
    scenario: Mapping[str, Any]


def _more(value: Any, random: Random) -> Any:
    """The value with one of its lists many times as long, or one of its numbers larger: what costs readers most."""
    document = copy.deepcopy(value)
    places = [
        (holder, key)
        for holder in _holders(document)
        for key in (holder if isinstance(holder, dict) else range(len(holder)))
        if isinstance(holder[key], list | int)
    ]
    if not places:
        return document
    holder, key = random.choice(places)
    if isinstance(holder[key], list):
        times = min(random.choice(TIMES), MOST_ITEMS // max(1, _count(holder[key])))
        holder[key] = [_renamed(each, turn) for turn in range(times) for each in holder[key]]
    else:
        holder[key] = random.choice(NUMBERS)
    return document


def _holders(value: Any) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [*([value] if isinstance(value, dict | list) else []), *(each for one in inner for each in _holders(one))]


def _count(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_count, inner))


def _renamed(value: Any, turn: int) -> Any:
    """The value, called otherwise in every second copy."""
    if turn % 2 and isinstance(value, dict):
        return {key: f"{each}{turn}" if key in ("id", "name", "switch") else each for key, each in value.items()}
    return value


def _spoiled(document: Document, random: Random) -> Document:
    for _ in range(random.choice((1, 1, 2, 4))):
        longer = random.random() < 0.5 and _count(document) < 1000
        document = _more(document, random) if longer else otherwise(document, random)
        if not isinstance(document, dict):
            return {}
    return document


def _json(*documents: Document) -> Callable[[Random], bytes]:
    def content(random: Random) -> bytes:
        document = random.choice(documents)
        if random.random() < 0.3:
            return json_text.spoiled(document, random).encode(errors="surrogatepass")
        return json.dumps(_spoiled(document, random)).encode(errors="surrogatepass")

    return content


def _toml(document: Document) -> Callable[[Random], bytes]:
    def content(random: Random) -> bytes:
        try:
            return tomli_w.dumps(_spoiled(document, random)).encode(errors="surrogatepass")
        except (TypeError, ValueError, AttributeError):  # what TOML cannot say
            return b"title = 3\n"

    return content


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
    Kind("net.json", _json(NODE_LINK, INFRAGRAPH), _with("fabric", file="net.json")),
    Kind("net.yaml", _json(INFRAGRAPH), _with("fabric", file="net.yaml")),
    Kind("net.graphml", lambda _: GRAPHML, _with("fabric", file="net.graphml")),
    Kind("config.json", _json(*CONFIGS), _with("model", name="config.json", device="v100")),
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
    if random.random() < (1.0 if kind.name == "net.graphml" else 0.1):
        content = damaged(content, random)
    if kind.scenario:
        (folder / "scenario.toml").write_text(tomli_w.dumps(dict(kind.scenario)))
    (folder / kind.name).write_bytes(content)

    def read() -> None:
        scenario = read_scenario(folder / "scenario.toml", ())
        for point in scenario.points:
            if isinstance(point, Point):
                _ = point.resolved.fabric, point.resolved.job

    return outcome(read, (InputFault,), MOST_S + CPU_S_PER_MB * len(content) / 1e6)
