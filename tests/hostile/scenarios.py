"""Hostile scenarios: keys and values that do not belong, and files that are not TOML."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import tomli_w

from gradwire.faults import InputFault
from gradwire.runs.planned import virtual_clock
from gradwire.scenario.loading import load_scenario
from tests.hostile.damage import damaged
from tests.hostile.limits import Outcome, outcome

SOUND: tuple[dict[str, Any], ...] = (
    {
        "title": "a sweep",
        "cluster": {"workers": 4, "servers": 2, "colocated": False},
        "fabric": {"rate": "10gbit", "topology": "leaf-spine", "leaves": 2, "spines": 2, "oversubscription": 2.0},
        "model": {"name": "alexnet", "device": "k40", "batch": 32, "speedup": {"conv": 2.0}},
        "strategy": {"name": "geryon", "options": {"rule": "search"}},
        "costs": {"message_latency": {"value": "10us", "source": "made up"}},
        "transport": {"send_ends": "buffered", "unsent": "64KiB"},
        "run": {"iterations": 2, "seed": 3, "capture": ["h1"]},
        "sweep": {"fabric.rate": ["10gbit", "25gbit"], "strategy.name": ["vanilla", "ring"]},
        "printed": [{"where": {"workers": 4}, "metric": "speedup", "value": 2.0, "source": "nowhere"}],
    },
    {
        "title": "layers",
        "cluster": {"workers": 2},
        "fabric": {"rate": "1gbit"},
        "model": {
            "name": "toy",
            "batch": 1,
            "layers": [
                {"name": "a", "kind": "conv", "size": ["1MB"], "forward": "1ms", "backward": "2ms"},
                {"name": "b", "size": ["6MB", "1kB"], "forward": "1ms", "backward": "2ms", "inputs": ["a"]},
            ],
        },
        "strategy": {"name": "ring"},
        "cases": [{"cluster.workers": [2, 4]}, {"run.seed": [1, 2]}],
    },
    {
        "title": "programs",
        "cluster": {"workers": 2},
        "fabric": {"rate": "10gbit"},
        "model": {"name": "llama3-8b", "device": "h100", "blocks": 2},
        "strategy": {"name": "megatron", "options": {"tensor": 2, "microbatches": 2}},
        "run": {"fidelity": "1%"},
        "program": {"load": {"command": "true", "hosts": ["h1"], "background": True}},
    },
)
VALUES: tuple[Any, ...] = (
    *(0, -1, 1, 7, 2**31, 2**63 - 1, -(2**63), 1e-300, 1e300, float("inf"), float("nan"), True, False),
    *(
        "",
        " ",
        "x" * 5000,
        "\x00",
        "10gbit",
        "-5ms",
        "1e400gbit",
        "9" * 400,
        "../../etc/passwd",
        "ring",
        "vanilla",
        "h1",
    ),
    *("\N{ARABIC-INDIC DIGIT THREE}gbit", "\N{LATIN SMALL LETTER E WITH ACUTE}\N{GRINNING FACE}"),
    *([], [[]], [0], ["a", 1], {}, {"a": 1}, {"value": "1GB/s", "source": ""}, {"name": "ring"}),
    [{"name": "ring"}, {"name": 3}],
)
KEYS = (
    "frobnicate",
    "sweep.sweep",
    "model.name",
    "strategy.options.rule",
    "cluster.workers",
    "fabric.rate",
    "run.seed",
    "",
)


def text_of(number: int) -> bytes:
    """The scenario of this number."""
    random = Random(f"scenario/{number}")
    document = copy.deepcopy(random.choice(SOUND))
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        _spoil(document, random)
    try:
        text = tomli_w.dumps(document).encode(errors="surrogatepass")
    except (TypeError, ValueError):  # a value that TOML cannot have
        text = b"title = 3\n"
    return damaged(text, random) if random.random() < 0.15 else text


def _spoil(document: dict[str, Any], random: Random) -> None:
    """Puts a value where it does not belong, or a key that is not known; or leaves one out."""
    table, key = random.choice(list(_places(document)))
    how = random.random()
    if how < 0.15:
        del table[key]
    elif how < 0.3 and isinstance(table, dict):
        table[random.choice(KEYS)] = copy.deepcopy(random.choice(VALUES))
    else:
        table[key] = copy.deepcopy(random.choice(VALUES))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list) and value[key]:
            yield from _places(value[key])


def tried(number: int, folder: Path) -> Outcome:
    """Reads the scenario of this number, and resolves all of its points."""
    path = folder / "scenario.toml"
    path.write_bytes(text_of(number))

    def read() -> None:
        virtual_clock(load_scenario(path).points)

    return outcome(read, (InputFault,))
