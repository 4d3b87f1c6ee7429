"""The comparisons that the guides print: every one compiles as it stands, and the longest gives the ranking that its page promises."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from gradwire import PACKAGE
from gradwire.cli.division_search import asked_of
from gradwire.runs.comparing.division_search import candidates
from gradwire.runs.comparing.planning import plan_comparison
from gradwire.runs.comparing.questions import AskedNetwork, QuestionOptions, question_of
from gradwire.runs.compiling.many_points import cores
from tests.shared.documented_commands import parsed
from tests.shared.snippets import ROOT, all_snippets
from tests.unit.docs.test_documentation import SHELL, commands
from tests.unit.docs.test_documentation import home as home  # noqa: PLC0414 (a fixture)

pytestmark = pytest.mark.long

LONGEST = "docs/large-models.md"
FEWEST_SEEDS = 2
"""Of those that the command takes. Further ones have other orders and as many ops."""
TIME_LIMIT_S = 1800.0
"""Of the longest one, on a machine that has something else to do as well; its page says how long it takes on two idle cores."""


def comparisons() -> Iterator[tuple[str, list[str]]]:
    """The words of each comparison in README and docs, once, with the place where it stands; recorded jobs aside, which are a reader's."""
    seen: set[tuple[str, ...]] = set()
    for snippet in all_snippets():
        for words in commands(snippet) if snippet.language in SHELL else ():
            if words[1:2] == ["compare"] and "--trace" not in words and tuple(words) not in seen:
                seen.add(tuple(words))
                yield f"{snippet.place} {' '.join(words[2:])}", words[1:]


others = [pytest.param(words, id=place) for place, words in comparisons() if not place.startswith(LONGEST)]


@pytest.mark.parametrize("words", others)
def test_every_comparison_of_the_guides_is_ready_to_run(home: Path, words: list[str]) -> None:
    _, asked = parsed(words)
    if asked["gpus"] is not None:
        has_divisions(words, asked)
        return
    given = QuestionOptions(**{field.name: asked[field.name] for field in fields(QuestionOptions)})
    network = AskedNetwork(asked["rate"], asked["leaf_spine"], asked["oversubscription"])
    model = str(Path(asked["model"]).expanduser())
    question = question_of(model, None, network, given, tuple(asked["settings"] or ()))
    chosen = question.contenders(asked["strategies"] or [])
    scenario, planned = plan_comparison(
        question, chosen, FEWEST_SEEDS, home / "runs", cores(), estimate_first=asked["estimate_first"]
    )
    assert len(planned) == len(scenario.points) > 1


def has_divisions(words: list[str], asked: dict[str, Any]) -> None:
    """Of a comparison of divisions: there are some that fit into memory. Estimating them is what takes long."""
    values = {"--machine-gpus": "machine_gpus", "--seq": "seq", "--global-batch": "global_batch", "--memory": "memory"}
    given = {option: asked[name] for option, name in values.items()}
    settings = tuple(asked["settings"] or ())
    question = asked_of(asked["model"], asked["gpus"], asked["rate"], asked["device"], given, settings)
    found, _ = candidates(question)
    assert found, words


@pytest.mark.kernel
@pytest.mark.usefixtures("virtual_kernel")
def test_the_longest_comparison_ranks_as_its_page_says(tmp_path: Path) -> None:
    (words,) = (words for place, words in comparisons() if place.startswith(LONGEST))
    command = [sys.executable, "-m", "gradwire", *words, "--out", str(tmp_path / "run")]
    done = subprocess.run(
        command, cwd=PACKAGE.parent, capture_output=True, text=True, check=False, timeout=TIME_LIMIT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    for promised in re.findall(r"(?:^> .+\n)+", (ROOT / LONGEST).read_text(), re.MULTILINE):
        assert " ".join(promised.replace("\n> ", " ").removeprefix("> ").split()) in said
