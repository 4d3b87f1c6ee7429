"""The kept quick score: what is lost, and what is gained."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradwire.faults import InputFault
from reproduction.scoring import quick_score
from tests.shared.parts import tells
from tests.unit.reproduction.small_paper import LINE, small_paper


def test_the_kept_score_finds_what_is_lost_and_what_is_gained(tmp_path: Path) -> None:
    path, results = tmp_path / "score.toml", small_paper(LINE).results
    with pytest.raises(InputFault, match="--accept"):
        quick_score.compare(results, path)
    quick_score.keep(results, path)
    assert quick_score.compare(results, path) == quick_score.Change((), ())
    path.write_text('held = ["p3-test9/wrong", "p3-test9/right", "p3-fig1/gone"]\n')
    change = quick_score.compare(results, path)
    assert change.gained == ("p3-test9/faster",)
    assert change.lost[0].startswith("p3-fig1/gone: ")
    assert tells(change.lost[1], "p3-test9/wrong: differs", "printed 2.0", "measured 0.33")
