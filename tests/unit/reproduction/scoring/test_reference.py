"""Reference data is checked whole, and every binding of evidence names a claim that exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradwire.analysis.printed_cells import cells_of_claims
from gradwire.faults import InputFault
from reproduction.scoring.reference import choose_scenarios, load_paper, load_papers
from tests.shared.parts import in_order

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
        choose_scenarios([paper], ["p3-fig1"])
        == choose_scenarios([paper], ["p3"])
        == choose_scenarios([paper], [])
        == [(paper, paper.scenario[0])]
    )
    with pytest.raises(InputFault, match=in_order("p3-fig2:", "p3-fig1", "`gradwire reproduce --list`")):
        choose_scenarios([paper], ["p3-fig2"])


SHIPPED = """
paper = "geryon"
title = "A paper"
[[scenario]]
id = "geryon-table2"
title = "A table"
[[scenario.claim]]
id = "yolo-vanilla"
kind = "cell"
shipped = true
"""


def test_a_claim_takes_the_value_that_gradwire_shows(tmp_path: Path) -> None:
    (tmp_path / "geryon").mkdir()
    path = tmp_path / "geryon" / "reference.toml"
    path.write_text(SHIPPED)
    ((claim,),) = (scenario.claim for scenario in load_paper("geryon", tmp_path).scenario)
    (cell,) = cells_of_claims(["geryon-table2/yolo-vanilla"])
    assert (claim.printed, claim.metric, claim.where, claim.fitted) == (cell.value, cell.metric, cell.where, True)
    assert cell.source == f"Geryon, {claim.source}"
    path.write_text(SHIPPED + "printed = 0.3")
    with pytest.raises(InputFault, match="yolo-vanilla: printed"):
        load_paper("geryon", tmp_path)
    path.write_text(SHIPPED.replace("yolo-vanilla", "yolo"))
    with pytest.raises(InputFault, match="yolo: shipped = true"):
        load_paper("geryon", tmp_path)


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
