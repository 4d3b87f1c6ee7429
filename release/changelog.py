"""Puts the news fragments of changelog.d/ into the section of a version in CHANGELOG.md: `make changelog VERSION=0.2.0`.

    python release/changelog.py VERSION [DATE]

towncrier renders them. Where the section is there already, they are added to it, kind by kind, so that the command may
be given again for what came later. The section and CITATION.cff get the date, by default today's. Fragments that are in
the changelog are removed.
"""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
START = "<!-- towncrier release notes start -->\n"
WIDTH = 120
VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
KIND = re.compile(r"^### (\w+)\n", re.MULTILINE)


def by_kind(text: str) -> dict[str, list[str]]:
    """The entries under each heading `### KIND`, a line each."""
    parts = KIND.split(text)
    return {kind: entries(body) for kind, body in zip(parts[1::2], parts[2::2], strict=True)}


def entries(body: str) -> list[str]:
    """What stands behind each `- `, with its lines put together."""
    return [" ".join(entry.split()) for entry in re.split(r"^- ", body, flags=re.MULTILINE)[1:]]


def with_news(changelog: str, version: str, date: str, news: Mapping[str, Sequence[str]], kinds: Sequence[str]) -> str:
    """The changelog with these entries in the section of this version, which is made where there is none."""
    head, start, rest = changelog.partition(START)
    if not start:
        raise ValueError(f"CHANGELOG.md has no line {START.strip()}")
    heading = re.match(rf"\s*## \[{re.escape(version)}\] - .*\n", rest)
    section, older = "", rest.lstrip("\n")
    if heading is not None:
        following = re.search(r"^## \[", rest[heading.end() :], re.MULTILINE)
        end = heading.end() + following.start() if following else len(rest)
        section, older = rest[heading.end() : end], rest[end:]
    there = by_kind(section)
    preface = KIND.split(section)[0].strip("\n")
    parts = [f"## [{version}] - {date}", *([preface] if preface else [])]
    for kind in dict.fromkeys([*kinds, *there]):
        listed = [*there.get(kind, ()), *(entry for entry in news.get(kind, ()) if entry not in there.get(kind, ()))]
        if listed:
            parts.append(f"### {kind}\n\n" + "\n".join(map(_entry, listed)))
    whole = "\n\n".join(parts)
    return f"{head}{start}\n{whole}\n" + (f"\n{older}" if older.strip() else "")


def _entry(text: str) -> str:
    return textwrap.fill(
        text, WIDTH, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def main(version: str, date: str) -> None:
    """Changes CHANGELOG.md and CITATION.cff, and removes the fragments."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", version, "--date", date]
    rendered = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    path, citation = ROOT / settings["filename"], ROOT / "CITATION.cff"
    kinds = [kind["name"] for kind in settings["type"]]
    path.write_text(with_news(path.read_text(), version, date, by_kind(rendered), kinds))
    cited = re.sub(r"^date-released: .*\n", "", citation.read_text(), flags=re.MULTILINE)
    cited = re.sub(r"^version: .*$", f"version: {version}\ndate-released: {date}", cited, flags=re.MULTILINE)
    citation.write_text(cited)
    fragments = [each for each in (ROOT / settings["directory"]).iterdir() if each.name not in settings["ignore"]]
    for fragment in fragments:
        fragment.unlink()
    print(f"CHANGELOG.md: {len(fragments)} fragments are in the section {version} now")


if __name__ == "__main__":
    if len(sys.argv) not in {2, 3} or not VERSION.fullmatch(sys.argv[1]):
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2] if len(sys.argv) == 3 else datetime.datetime.now(datetime.UTC).date().isoformat())
