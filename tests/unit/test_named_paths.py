"""Paths of the project that comments and docstrings name lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
NAMED = re.compile(r"(?<![\w/.\-<{])((?:[a-zA-Z_][\w\-.]*/)+[a-z_][\w\-]*\.(?:py|c|h|sh|toml|patch|lua|md))(?![\w/])")
SOURCES = [
    path
    for folder in ("gradwire", "reproduction", "benchmarks", "release")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in {".py", ".c", ".h", ".sh", ".lua", ".toml"} and path.is_file()
]
OURS = {
    path.name
    for folder in ("gradwire", "reproduction", "tests")
    for path in (ROOT / folder).rglob("*")
    if path.is_dir()
}
OURS |= {path.name for path in ROOT.iterdir() if path.is_dir()}
"""Paths that begin otherwise are those of the kernel, of PyTorch and the like."""


def lost(path: Path, text: str) -> list[str]:
    """Paths in the text of a source that are neither below the repository, nor the package, nor a folder around the source."""
    around = [ROOT, ROOT / "gradwire", *(folder for folder in path.parents if ROOT in folder.parents)]
    named = [name for name in NAMED.findall(text) if name.partition("/")[0] in OURS]
    return [name for name in named if not any((folder / name).exists() for folder in around)]


def test_paths_in_sources_exist() -> None:
    assert {str(path): names for path in SOURCES if (names := lost(path, path.read_text()))} == {}


def test_what_leads_nowhere_is_found() -> None:
    path = ROOT / "gradwire" / "agents" / "loop.py"
    assert lost(path, "as agents/replay.py and agents/interpreter.py say (linux/tcp.h)") == ["agents/replay.py"]
