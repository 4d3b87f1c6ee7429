"""Recordings of terminals: one SVG file each, which plays without a script and loads nothing."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.gallery.__main__ import OUT, PICTURES, RECORDINGS
from benchmarks.gallery.recording import COLUMNS, Shown, drawn
from tests.shared.snippets import ROOT

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[tuple[str, float]]:
    """What each line of a recording says, and when it appears."""
    lines: dict[str, tuple[str, float]] = {}
    for text in ElementTree.fromstring(svg).iter(f"{SVG}text"):
        delay = re.search(r"animation-delay: ([\d.]+)s", text.get("style", ""))
        if delay is not None:
            row = text.get("y", "")
            lines[row] = (lines.get(row, ("", 0.0))[0] + (text.text or "").replace("\xa0", " "), float(delay[1]))
    return [(text.rstrip(), at_s) for text, at_s in lines.values()]


def test_each_line_appears_when_it_came() -> None:
    shown = [
        Shown(0.5, "$ gradwire run <x> & y", typed=True),
        Shown(1.25, "│ ✓ valid"),
        Shown(3.0, "x" * (COLUMNS + 3)),
    ]
    assert texts(drawn(shown, "a title")) == [
        ("$ gradwire run <x> & y", 0.5),
        ("│ ✓ valid", 1.25),
        ("x" * COLUMNS, 3.0),
        ("xxx", 3.0),
    ]


def test_all_pictures_and_recordings_are_on_the_page() -> None:
    page = (ROOT / "docs" / "gallery.md").read_text()
    made = {f"{name}.svg" for name in RECORDINGS} | {f"{picture.name}.png" for picture in PICTURES}
    assert set(re.findall(r"\(gallery/([^)]+)\)", page)) == made == {path.name for path in OUT.iterdir()}


@pytest.mark.parametrize("path", sorted(OUT.glob("*.svg")), ids=lambda path: path.stem)
def test_a_recording_plays_by_itself_and_loads_nothing(path: Path) -> None:
    svg = path.read_text()
    assert re.findall(r"https?://[^\"' )]+", svg) == ["http://www.w3.org/2000/svg"]
    assert "<script" not in svg
    assert "prefers-reduced-motion" in svg
    lines = texts(svg)
    commands = [text for text, _ in lines if text.startswith("$ ")]
    (wanted,) = (commands_of for name, (_, commands_of) in RECORDINGS.items() if name == path.stem)
    assert commands == [f"$ {command}" for command in wanted]
    times_s = [at_s for _, at_s in lines]
    assert times_s == sorted(times_s)
    assert times_s[-1] > times_s[0]
