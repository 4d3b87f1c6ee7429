"""Network files from others: each attack ends in one message, in bounded time and memory, and touches nothing else."""

from __future__ import annotations

import json
import os
import resource
import time
from pathlib import Path

import pytest

from gradwire.faults import LONGEST_LINE, InputFault
from gradwire.scenario.definitions import topo_process
from gradwire.scenario.definitions.network_files import network_in
from gradwire.scenario.loading import load_scenario
from tests.hostile.limits import MOST_MEMORY_BYTES
from tests.shared.parts import tells
from tests.unit.scenario.definitions.test_network_files import SCENARIO

TOPO = """
import ctypes, os, signal, subprocess, sys, threading
from mininet.topo import Topo


class Campus(Topo):
    def build(self):
        self.addLink(self.addHost("h1"), self.addSwitch("s1"))
        self.addLink(self.addHost("h2"), "s1")
        {attack}
"""


def refusal(path: Path, text: str) -> str:
    """The message with which a file is refused, which is short enough to be read."""
    with pytest.raises(InputFault) as raised:
        network_in(text, path)
    message = str(raised.value)
    assert str(path) in message
    assert max(map(len, message.splitlines())) <= LONGEST_LINE
    return message


@pytest.mark.parametrize(
    ("attack", "said"),
    [
        ("os.fork()", "Campus() raised PermissionError"),
        ("subprocess.run(['true'])", "a Topo may start no other process"),
        ("os.execv('/bin/true', ['true'])", "a Topo may start no other process"),
        ("assert ctypes.CDLL(None).system(b'true') == 0", "Campus() raised AssertionError"),
        ("assert ctypes.CDLL(None).fork() >= 0", "Campus() raised AssertionError"),
        ("assert ctypes.CDLL(None).syscall(435, b'\\0' * 88, 88) >= 0", "Campus() raised AssertionError"),
        ("os.write(int(sys.argv[4]), b'{\"said\":5}'); os._exit(0)", "status 0 before it had said"),
        ("os.write(int(sys.argv[4]), b'{\"fault\":null}'); os._exit(0)", "said nothing of its network"),
        ("os._exit(3)", "ended the process with status 3 before it had said what the network is"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "was killed by SIGSEGV before it had said what the network is"),
        ("os.closerange(3, 100)", "before it had said what the network is"),
        ("bytearray(100 << 30)", "Campus() raised MemoryError"),
        ("self.build()", "Campus() raised RecursionError"),
        ("raise RuntimeError('x y ' * 100_000)", "Campus() raised RuntimeError: x y x y"),
        ("raise type('Mute', (Exception,), {'__str__': lambda self: 1 / 0})", "Campus() raised Mute"),
        ("self.hosts = lambda: 3", "is not a Topo of Mininet: TypeError"),
        ("self.addSwitch('s' * 10_000)", "fabric.file"),
        ("[self.addSwitch('s' * 100_000 + str(n)) for n in range(200)]", "says more than the 16,777,216 bytes"),
        ("self.addSwitch('\\x1b[31m')", r"node '\x1b[31m': names have printable characters alone"),
    ],
)  # fmt: skip
def test_what_a_topo_does_stays_in_its_process(tmp_path: Path, attack: str, said: str) -> None:
    path = tmp_path / "lab.py"
    path.write_text(TOPO.format(attack=attack))
    scenario = tmp_path / "own.toml"
    scenario.write_text(SCENARIO.format(workers=2, fabric='file = "lab.py:Campus"'))
    with pytest.raises(InputFault) as raised:
        load_scenario(scenario)
    assert said in str(raised.value)
    assert f"{scenario}: fabric.file: {path}" in str(raised.value)
    assert max(map(len, str(raised.value).splitlines())) <= LONGEST_LINE


@pytest.mark.parametrize("attack", ["while True: pass", "threading.Event().wait()"])
def test_a_topo_that_never_ends_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attack: str) -> None:
    monkeypatch.setattr(topo_process, "LONGEST_WAIT_S", 0.1)
    path = tmp_path / "lab.py"
    path.write_text(TOPO.format(attack=attack))
    assert "within 0.1 s" in refusal(path, "lab.py:Campus")


@pytest.mark.parametrize(
    "harmless",
    [
        "print('x' * 50_000_000); sys.stderr.write('y' * 50_000_000)",
        "threading.Thread(target=threading.Event().wait).start()",
        "os.environ.clear(); os.chdir('/'); sys.modules.clear()",
    ],
)
def test_what_a_topo_does_beside_has_no_effect(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], harmless: str
) -> None:
    path = tmp_path / "lab.py"
    path.write_text(TOPO.format(attack=harmless))
    before = dict(os.environ), Path.cwd()
    assert network_in("lab.py:Campus", path)["hosts"] == ["h1", "h2"]
    assert (dict(os.environ), Path.cwd()) == before
    assert capfd.readouterr() == ("", "")


BOMB = "".join(f'<!ENTITY a{n + 1} "' + f"&a{n};" * 10 + '">' for n in range(9))
GRAPHML = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{}</graphml>'
NODES = '<node id="a"/><node id="b"/>'
TWIN = '<edge id="1" source="a" target="b"/>'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f'<!DOCTYPE g [<!ENTITY a0 "x">{BOMB}]>{GRAPHML.format("&a9;")}', "has a DOCTYPE"),
        (f'<!DOCTYPE g [<!ENTITY a SYSTEM "file:///etc/passwd">]>{GRAPHML.format("&a;")}', "has a DOCTYPE"),
        (f'<!DOCTYPE g SYSTEM "http://localhost/a.dtd">{GRAPHML.format("")}', "has a DOCTYPE"),
        (GRAPHML.format("&amp; &a;"), "cannot be read as GraphML"),
        (GRAPHML.format(""), "has 0 graphs; must have one"),
        (GRAPHML.format("<graph/>" * 2), "has 2 graphs; must have one"),
        (GRAPHML.format(f"<graph>{NODES}<node id='a'/></graph>"), "two nodes have the id 'a'"),
        (GRAPHML.format(f"<graph>{NODES}<edge source='a' target='c'/></graph>"), "'a' to 'c': there is no node 'c'"),
        (
            GRAPHML.format(f"<graph>{NODES}{TWIN}{TWIN}</graph>"),
            "link 'a' to 'b': two of these links have the id '1'",
        ),
        (GRAPHML.format(f"<graph>{NODES}<node id='c'><graph/></node></graph>"), "has a graph in a node"),
        (GRAPHML.format("<graph>" + "".join(f"<node id='{n}'/>" for n in range(10_000)) + "</graph>"), "10,000 nodes"),
        (
            GRAPHML.format(f"<graph>{NODES}" + '<edge source="a" target="b"/>' * 20_000 + "</graph>"),
            "more than 16,384 links",
        ),
        (GRAPHML.format("<x>" * 500_000), "cannot be read as GraphML"),
        ("\x00", "cannot be read as GraphML"),
    ],
)
def test_graphml_declares_nothing_and_loses_nothing(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "net.graphml"
    path.write_text(text)
    begun_bytes, begun_s = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10, time.process_time()
    assert said in refusal(path, "net.graphml")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10 < begun_bytes + MOST_MEMORY_BYTES
    assert time.process_time() - begun_s < 30.0


TWO = [{"id": "a"}, {"id": "b"}]
EDGE = {"source": "a", "target": "b"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"nodes": [{"id": []}], "edges": []}, "nodes.0.id: must be a text or a number"),
        ({"nodes": [3], "edges": []}, "nodes.0 has no id"),
        ({"nodes": TWO, "edges": [{"source": "a"}]}, "edges.0 has no target"),
        ({"nodes": [*TWO, TWO[0]], "edges": []}, "two nodes have the id 'a'"),
        ({"nodes": [{"id": "a", "type": ["host"]}], "edges": []}, "node 'a': type = ['host']: must be a text"),
        ({"nodes": [{"id": str(n)} for n in range(10_000)], "edges": []}, "has 10,000 nodes"),
        ({"nodes": TWO, "edges": [EDGE] * 20_000}, "has 20,000 links; must be at most 16,384"),
        ({"nodes": TWO, "edges": [{**EDGE, "delay": True}]}, "link 'a' to 'b': delay = True: is not a number"),
        ({"nodes": TWO, "edges": [{**EDGE, "rate": "x" * 10_000}]}, "link 'a' to 'b'.rate = '"),
    ],
)
def test_json_is_refused_with_its_place(tmp_path: Path, content: object, said: str) -> None:
    path = tmp_path / "net.json"
    path.write_text(json.dumps(content))
    scenario = tmp_path / "own.toml"
    scenario.write_text(SCENARIO.format(workers=2, fabric='file = "net.json"'))
    with pytest.raises(InputFault) as raised:
        load_scenario(scenario)
    assert said in str(raised.value)
    assert max(map(len, str(raised.value).splitlines())) <= LONGEST_LINE


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("rate", 0, "must be a rate of 9.6kbit"),
        ("rate", -1e9, "must be a rate: a number and a unit"),
        ("bw", -100, "must be a rate: a number and a unit"),
        ("rate", float("nan"), "must be a rate: a number and a unit"),
        ("rate", float("inf"), "must be a rate: a number and a unit"),
        ("rate", "0gbit", "must be a rate of 9.6kbit"),
        ("delay", -0.001, "must be a duration: a number and a unit"),
        ("delay", "2s", "must be a duration of 0s to 1s"),
        ("delay", 1e300, "must be a duration of 0s to 1s"),
        ("loss", 2.0, "must be a number of 0 to 0.1"),
        ("loss", "5%", "loss = '5%': is not a number"),
        ("buffer", -1, "must be a size"),
    ],
)
def test_values_of_links_are_refused_with_the_link_and_the_key(
    tmp_path: Path, key: str, value: object, said: str
) -> None:
    (tmp_path / "net.json").write_text(json.dumps({"nodes": TWO, "edges": [{**EDGE, key: value}]}))
    scenario = tmp_path / "own.toml"
    scenario.write_text(SCENARIO.format(workers=2, fabric='file = "net.json"'))
    with pytest.raises(InputFault) as raised:
        load_scenario(scenario)
    message = str(raised.value)
    assert "'a' to 'b'" in message
    assert said in message


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    with path.open("wb") as file:
        file.truncate(100_000_000)
    assert tells(refusal(path, "net.json"), "100,000,000 bytes", "16,777,216")


@pytest.mark.parametrize("name", ["net.json", "net.graphml", "lab.py:Campus"])
def test_a_pipe_is_not_waited_for(tmp_path: Path, name: str) -> None:
    path = tmp_path / name.partition(":")[0]
    os.mkfifo(path)
    assert "is a pipe" in refusal(path, name)
