"""Accessibility of the site's pages and of reports: axe-core in headless Chromium, on light and on dark pages.

`python -m benchmarks.accessibility [PAGE.html ...]` builds the site, looks at its main pages and at the files that are
named, such as a run's report.html, and ends with status 1 if axe-core finds a violation. It needs Chromium and npm,
which brings axe-core (MPL 2.0) into a temporary folder.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path

from tests.shared.browser import BROWSER, FLAGS

ROOT = Path(__file__).parents[1]
AXE = "axe-core@4.14.1"
MAIN_PAGES = (
    "index.html",
    "first-run.html",
    "tutorial.html",
    "how-do-i-say.html",
    "networks.html",
    "architecture.html",
    "trust.html",
    "commands.html",
    "scenario-reference.html",
    "python-reference.html",
    "reproduction/world.html",
    "gallery.html",
)
"""One of each kind of page, the long ones among them."""
SCHEMES = {"light": (), "dark": ("--force-dark-mode", "--blink-settings=preferredColorScheme=0")}
"""What a reader prefers, with the browser's options for it."""
WINDOW = ("--virtual-time-budget=60000", "--window-size=1300,1000")
LIMIT_S = 240
ANSWER = "answer-of-axe"
POLICY = re.compile(r"<meta http-equiv=\"Content-Security-Policy\"[^>]*>")
SCRIPT = """
axe.run(document, {resultTypes: ["violations"]}).then((found) => {
  const said = found.violations.map((v) => [v.id, v.help, v.nodes.map((node) => [node.target.join(" "), node.failureSummary])]);
  document.body.append(Object.assign(document.createElement("p"), {id: "ANSWER", textContent: JSON.stringify(said)}));
});
"""


@dataclass(frozen=True)
class Violation:
    """A rule that a page breaks."""

    rule: str
    meaning: str
    #: Selectors of the elements that break it, with what axe says of each.
    elements: tuple[tuple[str, str], ...]


def axe_script(folder: Path) -> str:
    """The text of axe-core, which npm brings. Raises CalledProcessError if it cannot."""
    command = ["npm", "pack", "--silent", "--pack-destination", str(folder), AXE]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    (archive,) = folder.glob("axe-core-*.tgz")
    shutil.unpack_archive(archive, folder, filter="data")
    return (folder / "package" / "axe.min.js").read_text(encoding="utf-8")


def violations(page: Path, axe: str, scheme: str, profile: Path) -> list[Violation]:
    """What axe-core finds in a page, of which a copy with axe in it is opened. profile: a folder for the browser."""
    html = POLICY.sub("", page.read_text(encoding="utf-8"))
    if scheme == "dark":  # the theme's script chooses it late
        html = html.replace(
            '<body dir="ltr" data-md-color-scheme="default"', '<body dir="ltr" data-md-color-scheme="slate"'
        )
    asked = f"<script>{axe}</script><script>{SCRIPT.replace('ANSWER', ANSWER)}</script></body>"
    head, _, tail = html.rpartition("</body>")
    copy = page.with_name(f"{page.stem}.axe.html")
    copy.write_text(head + asked + tail, encoding="utf-8")
    command = [
        BROWSER or "chromium",
        *FLAGS,
        *WINDOW,
        *SCHEMES[scheme],
        f"--user-data-dir={profile}",
        "--dump-dom",
        copy.as_uri(),
    ]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT_S)
    finally:
        copy.unlink()
    found = re.search(rf'<p id="{ANSWER}">(.*?)</p>', ended.stdout, re.DOTALL)
    if found is None:
        raise RuntimeError(f"{page}: axe-core gave no answer: {ended.stderr[-500:]}")
    return [
        Violation(rule, meaning, tuple(map(tuple, nodes))) for rule, meaning, nodes in json.loads(unescape(found[1]))
    ]


def build_site(folder: Path) -> None:
    """Builds the site. Raises CalledProcessError where `make docs` would fail."""
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, check=True, cwd=ROOT, env={"NO_MKDOCS_2_WARNING": "1", "PATH": "/usr/bin:/bin"})


def main(named: Sequence[str]) -> int:
    """Prints what is found; returns how many violations there are."""
    count = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        axe = axe_script(folder)
        print("building the site", flush=True)
        build_site(folder / "site")
        pages = [*(folder / "site" / page for page in MAIN_PAGES), *(Path(page).absolute() for page in named)]
        for page in pages:
            for scheme in SCHEMES:
                found = violations(page, axe, scheme, folder / "profile")
                count += len(found)
                print(f"{page.parent.name}/{page.name}, {scheme}: {len(found)} violations", flush=True)
                for each in found:
                    print(f"  {each.rule}: {each.meaning} ({len(each.elements)} elements)")
                    for selector, said in each.elements[:3]:
                        print(f"    {selector}: {' '.join(said.split())[:220]}")
    return count


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
