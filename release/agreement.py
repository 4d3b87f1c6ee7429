"""Whether all that names the version of a release agrees: `release/run verify [TAG]`.

pyproject.toml, the first section of CHANGELOG.md, which needs a date, CITATION.cff, and the tag (`v` and the version).
No news fragment may be left in changelog.d/. Prints what disagrees, and ends with status 1.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECTION = re.compile(r"^## \[(?P<version>[^\]]+)\] - (?P<date>.+)$", re.MULTILINE)
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def disagreements(root: Path, tag: str | None = None) -> list[str]:
    """What disagrees in the repository at `root`, a line each."""
    project = tomllib.loads((root / "pyproject.toml").read_text())
    version = project["project"]["version"]
    said = []
    if tag is not None and tag != f"v{version}":
        said.append(f"tag: {tag}, and pyproject.toml has version {version}: the tag should be v{version}")
    newest = SECTION.search((root / "CHANGELOG.md").read_text())
    if newest is None or newest["version"] != version:
        said.append(f"CHANGELOG.md: its first section is not {version}: make changelog VERSION={version}")
    elif not DATE.fullmatch(newest["date"]):
        said.append(f"CHANGELOG.md: {version} has no date but {newest['date']!r}: make changelog VERSION={version}")
    cited = re.search(r"^version: (\S+)$", (root / "CITATION.cff").read_text(), re.MULTILINE)
    if cited is None or cited[1] != version:
        said.append(f"CITATION.cff: its version is not {version}")
    kept = project["tool"]["towncrier"]["ignore"]
    left = sorted(path.name for path in (root / "changelog.d").iterdir() if path.name not in kept)
    if left:
        said.append(f"changelog.d: {len(left)} fragments are not in CHANGELOG.md yet, the first {left[0]}")
    return said


def main() -> None:
    """Says what disagrees, and ends with status 1 where anything does."""
    said = disagreements(ROOT, *sys.argv[1:2])
    print("\n".join(said) or "version, changelog, citation and tag agree")
    sys.exit(bool(said))


if __name__ == "__main__":
    main()
