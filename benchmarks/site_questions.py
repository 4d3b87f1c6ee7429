"""Whether a reader of the site finds what he asks for: `python -m benchmarks.site_questions [SITE]`.

Searches the index of the built site as its pages do, by lunr, for the words of docs/site/questions.toml, and prints at
which place of the results the page with the answer comes. SITE: a built one (`make docs`: build/site); by default it is
built. Ends with status 1 where a page is not among the first that a reader looks at.
"""

from __future__ import annotations

import json
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lunr import lunr

from benchmarks.accessibility import ROOT, build_site

QUESTIONS = ROOT / "docs" / "site" / "questions.toml"
MOST_RESULTS = 3
"""Pages of a search's results that a reader looks at."""
TITLE_BOOST = 1000
"""As the theme's search has it."""


@dataclass(frozen=True)
class Question:
    """A question, the words that a reader types, and the page that answers it."""

    text: str
    words: str
    page: str


def questions() -> list[Question]:
    """All of the file, in its order."""
    tables = tomllib.loads(QUESTIONS.read_text())
    return [Question(text, *answer) for table in tables.values() for text, answer in table.items()]


def index_of(site: Path) -> Any:
    """The index that the pages of a built site search in."""
    docs: list[Mapping[str, Any]] = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    fields = ({"field_name": "title", "boost": TITLE_BOOST}, {"field_name": "text", "boost": 1})
    weighed = [(doc, {"boost": doc.get("boost", 1)}) for doc in docs]
    return lunr(ref="location", fields=fields, documents=weighed)


def found(index: Any, words: str) -> list[str]:
    """The pages that a search finds, the best first: of several places on a page the best one counts."""
    places = [result["ref"] for result in index.search(words)]
    return list(dict.fromkeys(place.partition("#")[0] for place in places))


def main(site: Path) -> int:
    """Prints a line for each question; returns how many are not answered by the first results."""
    index, missed = index_of(site), 0
    for question in questions():
        pages = found(index, question.words)
        place = pages.index(question.page) + 1 if question.page in pages else None
        missed += place is None or place > MOST_RESULTS
        print(f"{place or '-':>3}  {question.page:28} {question.words:34} {question.text}")
    print(f"{len(questions()) - missed} of {len(questions())} among the first {MOST_RESULTS}")
    return missed


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(1 if main(Path(sys.argv[1])) else 0)
    with tempfile.TemporaryDirectory() as name:
        build_site(Path(name))
        sys.exit(1 if main(Path(name)) else 0)
