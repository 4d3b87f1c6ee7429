"""Networks and jobs that cannot be, typed as a user types them: each is one message that names file and key, and status 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.shared.command_line import gradwire_says

TOPO = """
from mininet.topo import Topo


class Raises(Topo):
    def build(self):
        raise RuntimeError("the lab is closed")


class Crowd(Topo):
    def build(self):
        for number in range(10_000):
            self.addSwitch(f"s{number}")
"""
JOB = """
[job.NAME.cluster]
workers = 2
[job.NAME.model]
name = "toy"
layers = [{ name = "fc", size = ["1MB"], forward = "1ms", backward = "1ms" }]
[job.NAME.strategy]
name = "ring"
"""
ONE = JOB.replace("job.NAME.", "")
"""The tables of a single job."""
RIGHT = f'title = "t"\n[fabric]\nrate = "10gbit"\nFABRIC\n{ONE}'
TWO = 'title = "t"\n[fabric]\nrate = "10gbit"\n' + "".join(JOB.replace("NAME", name) for name in ("a", "b"))


def graph(links: list[tuple[str, str]], **attributes: object) -> str:
    """In node-link form. attributes: of the first link."""
    nodes = sorted({end for link in links for end in link})
    edges = [{"source": a, "target": b, **(attributes if not number else {})} for number, (a, b) in enumerate(links)]
    return json.dumps({"nodes": [{"id": node} for node in nodes], "edges": edges})


ISLANDS = graph([("h1", "s1"), ("h2", "s2")])
PAIR = [("h1", "s1"), ("h2", "s1")]
THOUSANDS = json.dumps({"nodes": [{"id": f"s{number}"} for number in range(10_000)], "edges": []})
FILE = 'file = "net.json"'
CASES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "a graph in two parts": (RIGHT.replace("FABRIC", FILE), ISLANDS, ("net.json", "no way leads from 's1' to '")),
    "a host that is joined to nothing": (
        RIGHT.replace("FABRIC", FILE),
        json.dumps({"nodes": [{"id": "h1"}, {"id": "h2"}, {"id": "s1"}], "edges": [{"source": "h1", "target": "s1"}]}),
        ("net.json", "host 'h2' has no link"),
    ),
    "a rate of nothing": (RIGHT.replace("10gbit", "0gbit").replace("FABRIC", ""), "", ("fabric.rate",)),
    "a rate of nothing in a file": (RIGHT.replace("FABRIC", FILE), graph(PAIR, rate="0gbit"), ("net.json", "rate")),
    "a rate of nothing of a link": (
        RIGHT.replace("FABRIC", '[fabric.link.h1]\nrate = "0bit"'),
        "",
        ("fabric.link.h1.rate",),
    ),
    "a delay beyond the limit": (RIGHT.replace("FABRIC", 'delay = "2s"'), "", ("fabric.delay",)),
    "a delay beyond the limit of a link": (
        RIGHT.replace("FABRIC", '[fabric.link.h1]\ndelay = "1h"'),
        "",
        ("fabric.link.h1.delay",),
    ),
    "a delay beyond the limit in a file": (
        RIGHT.replace("FABRIC", FILE),
        graph(PAIR, delay="2s"),
        ("net.json", "delay"),
    ),
    "a Topo that raises": (RIGHT.replace("FABRIC", 'file = "lab.py:Raises"'), "", ("lab.py", "the lab is closed")),
    "a Topo with 10,000 nodes": (RIGHT.replace("FABRIC", 'file = "lab.py:Crowd"'), "", ("lab.py", "10,000 nodes")),
    "a graph with 10,000 nodes": (RIGHT.replace("FABRIC", FILE), THOUSANDS, ("net.json", "10,000 nodes")),
    "10,000 switches in a ring": (
        RIGHT.replace("FABRIC", 'topology = "ring"\nswitches = 10000'),
        "",
        ("fabric.switches", "10"),
    ),
    "two jobs on the same host": (
        TWO.replace("[job.a.cluster]", '[job.a]\nhosts = ["h1", "h2"]\n[job.a.cluster]').replace(
            "[job.b.cluster]", '[job.b]\nhosts = ["h2", "h3"]\n[job.b.cluster]'
        ),
        "",
        ("job.b.hosts", "h2"),
    ),
    "a file that is not there": (
        RIGHT.replace("FABRIC", 'file = "none.json"'),
        "",
        ("none.json", "no such network file"),
    ),
    "a host that is not there": (
        RIGHT.replace("FABRIC", '[fabric.host.h9]\nsysctl = { "net.ipv4.ip_forward" = 1 }'),
        "",
        ("fabric.host.'h9'",),
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("command", ["plan", "estimate", "run"])
def test_it_is_one_message_with_file_and_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, command: str
) -> None:
    scenario, network, words = CASES[name]
    (tmp_path / "own.toml").write_text(scenario)
    (tmp_path / "net.json").write_text(network)
    (tmp_path / "lab.py").write_text(TOPO)
    monkeypatch.chdir(tmp_path)
    status, out, err = gradwire_says(monkeypatch, capsys, command, "own.toml")
    assert (status, out) == (2, "")
    (said,) = err.strip().splitlines()
    assert said.startswith("error (input): own.toml: ")
    for word in words:
        assert word in said
    assert not (tmp_path / "runs").exists()
