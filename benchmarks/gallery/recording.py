"""A terminal session as one SVG file that plays by itself: commands, their output as it came, and the waits between.

Rich draws the text; here each line gets the moment at which it appears, as a CSS animation. The file has no script and
loads nothing. Who prefers less motion sees the end at once. Commands are given no terminal, so that they print whole
lines and no bars that move: each line is final when it comes.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from gradwire import PACKAGE

COLUMNS = 121
"""One more than gradwire prints where there is no terminal."""
LONGEST_WAIT_S = 2.0
"""Longer waits are shortened to this, as asciinema's idle limit does; the output itself says how long things took."""
READING_S = 1.5
"""After a command's last line, before the next is typed."""
FORMAT = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<style>
.{unique_id}-matrix {{ font-family: "DejaVu Sans Mono", Menlo, monospace; font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""Rich's own format without its fonts, which a page would load from elsewhere."""
LINE_OF = re.compile(r'clip-path="url\(#[^"]*-line-(\d+)\)"')


@dataclass(frozen=True)
class Shown:
    """A line of the session: at_s after its start."""

    at_s: float
    text: str
    typed: bool = False


def recorded(commands: Sequence[str], folder: Path) -> list[Shown]:
    """Runs commands of gradwire in `folder` and returns what a reader sees, with long waits shortened.

    Raises CalledProcessError for a command that fails.
    """
    lines, now_s = [], 0.5
    for command in commands:
        lines.append(Shown(now_s, f"$ {command}", typed=True))
        for waited_s, text in _output(command, folder):
            now_s += min(waited_s, LONGEST_WAIT_S)
            lines.append(Shown(now_s, text))
        now_s += READING_S
        lines.append(Shown(now_s, ""))
    return lines[:-1]


def _output(command: str, folder: Path) -> Iterator[tuple[float, str]]:
    """Each line that a command prints, with the wait before it. The waits are the recording, and decide nothing."""
    words = [sys.executable, "-m", *shlex.split(command)]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "COLUMNS": str(COLUMNS), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        words,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        before_s = time.monotonic()
        for line in process.stdout:
            now_s = time.monotonic()
            yield now_s - before_s, line.rstrip()
            before_s = now_s
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


def drawn(lines: Sequence[Shown], title: str) -> str:
    """The session as an SVG file, whose lines appear when they came."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True, color_system="truecolor")
    appears_s: list[float] = []
    for line in lines:
        text = Text(line.text, style="bold green" if line.typed else "")
        for part in text.wrap(console, COLUMNS):
            console.print(part, soft_wrap=True, highlight=False, markup=False)
            appears_s.append(line.at_s)
    svg = console.export_svg(title=title, theme=MONOKAI, code_format=FORMAT, unique_id="terminal")
    return timed(svg, appears_s)


def timed(svg: str, appears_s: Sequence[float]) -> str:
    """An SVG file of Rich whose lines appear at these times."""

    def at(match: re.Match[str]) -> str:
        number = int(match[1])
        return (
            f'{match[0]} class="at" style="animation-delay: {appears_s[number]:.2f}s"'
            if number < len(appears_s)
            else match[0]
        )

    def with_style(match: re.Match[str]) -> str:
        """One attribute `class`, not two."""
        return match[0].replace('class="at" ', "").replace('class="', 'class="at ', 1)

    svg = LINE_OF.sub(at, svg)
    svg = re.sub(r"<text [^>]*animation-delay[^>]*>", with_style, svg)
    motion = """
@keyframes appear { from { visibility: hidden; } to { visibility: visible; } }
.at { animation: appear 1ms both; }
@media (prefers-reduced-motion: reduce) { .at { animation: none; } }
</style>"""
    return svg.replace("\n</style>", motion, 1)
