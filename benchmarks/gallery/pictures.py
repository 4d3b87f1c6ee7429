"""Pictures of reports, as a browser shows them."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from tests.shared.browser import BROWSER, FLAGS

WIDTH = 1240
DARK = ("--force-dark-mode", "--blink-settings=preferredColorScheme=0")
"""What a browser says of a reader who prefers dark pages."""
FEWEST_COLOURS = 20
"""A picture with fewer shows an empty page."""
COLOURS = 128
"""Kept of each picture: a third of the bytes, and no difference to be seen."""
LIMIT_S = 120


@dataclass(frozen=True)
class Picture:
    """A part of a report, from its top or from the element `begins_at` on, as wide as a page and `height` pixels high.

    begins_at: a CSS selector; its element is opened if it can be, and moved to the top.
    """

    name: str
    run: str
    height: int
    dark: bool = False
    begins_at: str = ""


def taken(picture: Picture, report: Path, out: Path) -> None:
    """Writes the picture. Raises CalledProcessError or TimeoutExpired, and ValueError for an empty page."""
    html = report.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        if picture.begins_at:  # nothing is scrolled: what comes before it is left out
            html = html.replace("</body>", _only_from(picture.begins_at) + "</body>")
        page.write_text(_without_policy(html), encoding="utf-8")
        subprocess.run(
            [
                BROWSER or "chromium",
                *FLAGS,
                *(DARK if picture.dark else ()),
                "--hide-scrollbars",
                "--virtual-time-budget=20000",
                f"--user-data-dir={folder}/profile",
                f"--window-size={WIDTH},{picture.height}",
                f"--screenshot={out}",
                page.as_uri(),
            ],
            check=True,
            capture_output=True,
            timeout=LIMIT_S,
        )
    with Image.open(out) as whole:
        small = whole.convert("RGB").quantize(COLOURS)
    if len(small.getcolors() or ()) < FEWEST_COLOURS:
        raise ValueError(f"{out.name}: the page is empty")
    small.save(out, optimize=True)


def _only_from(selector: str) -> str:
    """A script that opens an element of the page and leaves out all that comes before it."""
    return f"""<script>
let kept = document.querySelector({selector!r});
kept.open = true;
for (let node = kept; node !== document.body; node = node.parentElement)
  for (let before = node.previousElementSibling; before; before = before.previousElementSibling) before.style.display = "none";
</script>"""


def _without_policy(html: str) -> str:
    """Reports forbid scripts of others, this one's among them."""
    start = html.find('<meta http-equiv="Content-Security-Policy"')
    return html if start < 0 else html[:start] + html[html.index(">", start) + 1 :]
