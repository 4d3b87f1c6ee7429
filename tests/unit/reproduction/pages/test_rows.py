"""Claims as rows: what the CSV file says, and that it scores as the claims do."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from gradwire.faults import InputFault
from reproduction.pages.rows import COLUMNS, read_rows, row_of, write_rows
from reproduction.scoring.score import score
from tests.shared.parts import in_order
from tests.unit.reproduction.small_paper import because, small_results


def test_a_row_has_everything(tmp_path: Path) -> None:
    results = small_results(because)
    write_rows(tmp_path / "claims.csv", map(row_of, results))
    with (tmp_path / "claims.csv").open(newline="") as file:
        right, wrong, hidden, odd, faster = csv.DictReader(file)
    assert (right["printed"], right["measured"], right["holds"], right["verdict"]) == ("1.02", "1", "yes", "holds")
    assert (right["where"], right["source"], right["evidence"]) == ("strategy=p3; rate=10gbit", "Fig. <9>", "direct")
    assert float(wrong["relative_error"]) == pytest.approx(-5 / 6, rel=1e-5)
    why = results[1].explanation
    assert why is not None
    assert (wrong["holds"], wrong["cause"], wrong["seen"]) == ("no", why.cause, why.seen)
    assert (hidden["printed"], hidden["holds"], hidden["verdict"]) == ("", "", "predicted")
    assert (odd["reason"], odd["measured"]) == ("Sec. 2 says 4", "")
    assert faster["metric"] == "speedup"


@pytest.mark.parametrize("explain", [None, because])
def test_rows_score_as_their_claims_do(tmp_path: Path, explain: object) -> None:
    results = small_results(because if explain else None)
    write_rows(tmp_path / "claims.csv", map(row_of, results))
    rows = read_rows(tmp_path / "claims.csv")
    assert [row.outcome.unexplained for row in rows] == [result.unexplained for result in results]
    assert score(rows).tallies == score(results).tallies
    assert (score(rows).unexplained, score(rows).scaled) == (score(results).unexplained, score(results).scaled)
    assert score(rows).median_error == pytest.approx(score(results).median_error, rel=1e-5)


@pytest.mark.parametrize(
    "text", ["scenario,claim\np3,a\n", ",".join(COLUMNS) + "\n" + ",".join(["x"] * len(COLUMNS)) + "\n"]
)
def test_another_table_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "p3.csv").write_text(text)
    with pytest.raises(InputFault, match=in_order("p3.csv:", "no table")):
        read_rows(tmp_path / "p3.csv")
