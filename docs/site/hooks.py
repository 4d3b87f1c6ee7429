"""What MkDocs does beyond its own: pages that stand at the top of the repository, and links to files that are no pages."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
AT_THE_TOP = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "roadmap.md": "ROADMAP.md",
    "security.md": "SECURITY.md",
}
"""Pages of the site, by the file of which each has the text."""
FENCE_OF_A_FILE = re.compile(r"^```(?P<language>\w+) +(?P<file>\S+)$", re.MULTILINE)
"""The start of a block that shows a file, which the repository's tests write there."""
LESS_SOUGHT = re.compile(r"reproduction/(?!world)|reproduction\.md|python-reference|mutations|changelog|architecture")
"""Pages that have many words and answer few questions: a search shows them behind others."""
LESS = 0.003
"""Their weight in a search. With 0.2, titles of the Python interface still came before guides with the same words, and
with 0.01 those of the papers' figures."""
MORE_SOUGHT = re.compile(r"trust/limits|your-own-program")
"""Pages about what sections of other pages have in their titles too: "Limits", "Programs of your own"."""
MORE = 2.0
SCROLLED = re.compile(r"(<pre[^>]*><span></span>)<code>")
"""Code of a block, which may be wider than the page: it is scrolled with keys too."""
NAMELESS_HEADER = re.compile(r"<th([^>]*)></th>")
"""A header without words heads nothing: it is a cell."""
TABLE = re.compile(r"<table>(?=\s*<thead>\s*<tr>(?P<head>.*?)</tr>)", re.DOTALL)
MANY_COLUMNS = 6
"""A table with so many may be wider than the page, and is scrolled with keys too."""
LANDMARK = re.compile(r'(<nav class="md-nav" aria-label=")([^"]*)"')
"""A part of a menu, which screen readers list by its name."""
LINK = re.compile(r"(?P<text>!?\[[^\]]*\])\((?P<target>[^)\s]+)\)")


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that stand at the top of the repository."""
    for page, source in AT_THE_TOP.items():
        files.append(File.generated(config, page, content=_moved(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Leads links to files outside the site to the repository, or leaves their text alone where its address is not known;
    blocks that show a file have its name above them."""
    folder = posixpath.dirname(page.file.src_uri)
    if LESS_SOUGHT.match(page.file.src_uri):
        page.meta["search"] = {"boost": LESS}
    elif MORE_SOUGHT.match(page.file.src_uri):
        page.meta["search"] = {"boost": MORE}

    def led(match: re.Match[str]) -> str:
        path, _, anchor = match["target"].partition("#")
        if ":" in path or not path:
            return match[0]
        there = posixpath.normpath(posixpath.join(folder, path))
        if files.get_file_from_path(there) is not None:
            return match[0]
        named = posixpath.normpath(posixpath.join("docs", there))
        pages = {source: name for name, source in AT_THE_TOP.items()}
        if named in pages:
            back = posixpath.relpath(pages[named], folder or ".")
            return f"{match['text']}({back}{'#' + anchor if anchor else ''})"
        if not (ROOT / named).exists():
            return match[0]  # MkDocs refuses it
        if config.repo_url:
            return f"{match['text']}({config.repo_url.rstrip('/')}/blob/main/{named})"
        return f"{match['text'].strip('![]')} (`{named}`)"

    return FENCE_OF_A_FILE.sub(r'```\g<language> title="\g<file>"', LINK.sub(led, markdown))


def on_page_content(html: str, **_: Any) -> str:
    """Makes code and wide tables reachable with keys, and headers without words cells."""

    def reachable(match: re.Match[str]) -> str:
        return '<table tabindex="0">' if match["head"].count("<th") >= MANY_COLUMNS else match[0]

    html = TABLE.sub(reachable, SCROLLED.sub(r'\1<code tabindex="0">', html))
    return NAMELESS_HEADER.sub(r"<td\1></td>", html)


def on_post_page(output: str, **_: Any) -> str:
    """Numbers parts of menus that have the same name on one page."""
    seen: Counter[str] = Counter()

    def numbered(match: re.Match[str]) -> str:
        seen[match[2]] += 1
        return f'{match[1]}{match[2]}{f" ({seen[match[2]]})" if seen[match[2]] > 1 else ""}"'

    return LANDMARK.sub(numbered, output)


def _moved(source: Path) -> str:
    """The text of a file at the top, with its links as they are from the folder of pages."""

    def moved(match: re.Match[str]) -> str:
        target = match["target"]
        if ":" in target or target.startswith("#"):
            return match[0]
        inside = target.removeprefix("docs/")
        return f"{match['text']}({inside if inside != target else '../' + target})"

    return LINK.sub(moved, source.read_text())
