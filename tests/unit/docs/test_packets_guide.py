"""docs/packets.md: its Python reads a capture file, its scenario names ports, and checks and fields are told as they are."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from gradwire.agents.capture.recorder import PortFile
from gradwire.analysis.packets.captures import DISSECTOR
from gradwire.scenario.schema import RunSection
from tests.shared.captured_streams import Line, header
from tests.shared.parts import tells

ROOT = Path(__file__).resolve().parents[3]
GUIDE = (ROOT / "docs" / "packets.md").read_text()
CHECKS = (ROOT / "docs" / "trust" / "checks.md").read_text()
"""Which the guide leads to for what the verdict compares."""
START_NS = 1_795_266_932_000_000_000


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)


def test_the_python_reads_the_captures_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "runs" / "captured" / "points" / "p3" / "capture"
    folder.mkdir(parents=True)
    file = PortFile((folder / "h1-eth0.pcapng").open("wb"), "h1-eth0", 4e9, 160)
    packets = Line().packets([header(op, 100_000) for op in range(12)], START_NS, [60_000], step_ns=200_000)
    for packet in packets:
        file.write(packet)
    file.end(len(packets), 0)
    monkeypatch.chdir(tmp_path)
    assert len(blocks("python")) == 2
    for text in blocks("python"):
        exec(compile(text, "docs/packets.md", "exec"), {"__name__": "snippet"})
    said = capsys.readouterr().out
    size_bytes = sum(packet.size_bytes for packet in packets)
    assert tells(said, "h1-eth0.pcapng:", f"{len(packets)} packets", f"{size_bytes} bytes")
    assert tells(said, "12 messages", "0.400 ms")
    assert "0.0%" in said


def test_the_scenario_names_ports() -> None:
    (text,) = blocks("toml")
    section = RunSection(**tomllib.loads(text)["run"])
    assert section.capture == ("h1", "s1-eth2")
    assert section.capture_snaplen == RunSection().capture_snaplen


def test_every_check_of_packets_is_explained() -> None:
    in_code = set(
        re.findall(
            r'Check\(\s*"([^"]+)"', (ROOT / "gradwire" / "analysis" / "verdict" / "packet_checks.py").read_text()
        )
    )
    explained = re.findall(r"^\| ([a-z ]+) \|", CHECKS.split("### Packets agree")[1].split("\n#")[0], re.MULTILINE)
    assert set(explained) - {"check"} == in_code
    assert len(in_code) == 5


def test_every_field_that_is_named_exists() -> None:
    known = set(re.findall(r'"(gradwire\.[a-z_]+)"', DISSECTOR.read_text()))
    named = set(re.findall(r"`(gradwire\.[a-z_]+)`", GUIDE))
    assert named - {"gradwire.lua"} <= known
    assert len(named) > 15
