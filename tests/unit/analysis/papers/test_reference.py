"""Reference data is checked whole, and every binding of evidence names a claim that exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradwire.analysis.papers.reference import chosen, load_paper, load_papers
from gradwire.faults import InputFault

GOOD = """
paper = "p3"
title = "A paper"
[[scenario]]
id = "p3-fig1"
title = "A figure"
runs = ["p3-fig1"]
[[scenario.claim]]
id = "faster"
kind = "cell"
metric = "speedup"
printed = 2
source = "Fig. 1"
where = { strategy = "p3" }
baseline = { strategy = "fifo" }
[[scenario.claim]]
id = "left-out"
kind = "cell"
metric = "speedup"
source = "Fig. 1"
"""


def test_reads_a_paper(tmp_path: Path) -> None:
    (tmp_path / "p3").mkdir()
    (tmp_path / "p3" / "reference.toml").write_text(GOOD)
    paper = load_paper("p3", tmp_path)
    first, second = paper.scenario[0].claim
    assert first.printed == 2.0
    assert second.predicted
    assert load_papers(tmp_path) == [paper]
    assert (
        chosen([paper], ["p3-fig1"]) == chosen([paper], ["p3"]) == chosen([paper], []) == [(paper, paper.scenario[0])]
    )
    with pytest.raises(
        InputFault, match=r"p3-fig2: no such paper or scenario; did you mean 'p3-fig1'\? There are p3, p3-fig1"
    ):
        chosen([paper], ["p3-fig2"])


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('kind = "cell"', 'kind = "rank"', "printed must be a list"),
        ('kind = "cell"', 'kind = "shape"', "printed must be a text"),
        ("printed = 2", 'printed = "two"', "printed must be a number"),
        ("printed = 2", "printed = 2\nemulable = false", "needs its reason"),
        ('id = "left-out"', 'id = "faster"', "two claims are called 'faster'"),
        ("runs =", "direct = false\nruns =", "needs a note"),
        ("runs =", 'not_emulable = "accuracy"\nruns =', "has no runs"),
        ('id = "p3-fig1"', 'id = "tictac-fig1"', "must begin with 'p3-'"),
        ("runs =", "ruins =", "Extra inputs"),
        ('paper = "p3"', 'paper = "geryon"', "must begin with 'geryon-'"),
        ("[[scenario]]", "[[scenario", "not valid TOML"),
    ],
)
def test_refuses_what_is_wrong(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    (tmp_path / "p3").mkdir()
    (tmp_path / "p3" / "reference.toml").write_text(GOOD.replace(old, new))
    with pytest.raises(InputFault, match=complaint):
        load_paper("p3", tmp_path)
