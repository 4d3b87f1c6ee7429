"""A map's page in a browser: it loads nothing, complains of nothing, and shows a cell's times; its chart and its texts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gradwire.analysis.report.charts import svg_text
from gradwire.analysis.winners.chart import map_chart
from gradwire.analysis.winners.measured import AT_BORDER, AT_RANDOM, ChosenCell, MeasuredCell
from gradwire.analysis.winners.page import map_page
from gradwire.analysis.winners.winner_map import Axis, Time, WinnerMap
from tests.shared.parts import tells
from tests.unit.analysis.report.test_in_browser import opened

HOSTILE = "</script><script>document.title = 1</script> & <b style='x'>"
X = Axis("fabric.rate", ("1gbit", "10gbit", "100gbit"), (1e9, 1e10, 1e11))
Y = Axis("cluster.workers", ("2", "4"), (2.0, 4.0))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    times = {(i, j): {"ring": Time(1.0), HOSTILE: Time(0.5 * 2.0**i)} for i in range(3) for j in range(2)}
    times[2, 1] = {}
    found = WinnerMap(HOSTILE, (X, Y), ("ring", HOSTILE), times, {(2, 1): {"ring": HOSTILE}}, {"csc": "is <other>"})
    cells = [
        MeasuredCell(ChosenCell((0, 0), AT_BORDER, (HOSTILE, "ring")), {HOSTILE: 0.6, "ring": 0.5}),
        MeasuredCell(ChosenCell((2, 0), AT_RANDOM, ("ring", HOSTILE)), {"ring": 1.0, HOSTILE: 2.0}),
        MeasuredCell(ChosenCell((1, 1), AT_RANDOM, ("ring", HOSTILE)), {}, {"ring": HOSTILE}),
    ]
    path = tmp_path_factory.mktemp("map") / "map.html"
    path.write_text(map_page(found, cells, "runs/x"), encoding="utf-8")
    svg = svg_text(map_chart(found, cells))
    assert "<script" not in svg
    return path


def test_it_names_no_other_place(page: Path) -> None:
    assert not re.search(r"""(?:src|href)\s*=|url\((?!#)|https?://""", page.read_text(encoding="utf-8"))


def test_it_loads_nothing_and_texts_stay_texts(page: Path, tmp_path: Path) -> None:
    script = 'return [document.title, performance.getEntriesByType("resource").map((entry) => entry.name)];'
    found = opened(page, script, tmp_path)
    assert found.answer == [HOSTILE, []]
    assert found.console == []


POINT = """
const cell = (place) => document.querySelector(`[data-place="${place}"]`);
const at = (place, event) => { cell(place).dispatchEvent(event); return document.getElementById("details").textContent; };
const enter = (place) => at(place, new PointerEvent("pointerenter"));
const click = (place) => at(place, new MouseEvent("click", { bubbles: true }));
const press = (place, key) => at(place, new KeyboardEvent("keydown", { key, bubbles: true }));
"""


def test_pointing_shows_a_cell_and_a_click_keeps_it(page: Path, tmp_path: Path) -> None:
    script = f"""{POINT} return [enter("0,0"), enter("1,0"), click("2,0"), enter("0,0"), press("2,0", "Escape"), enter("0,0")];"""
    first, tie, kept, still, _, free = opened(page, script, tmp_path).answer
    assert tells(first, "Line rate of each host = 1gbit", "Workers = 2")
    assert "500 ms" in first
    assert "ring is fastest" in first  # as measured
    assert "level with" in tie
    assert "Line rate of each host = 100gbit" in kept
    assert still == kept
    assert "Line rate of each host = 1gbit" in free


def test_keys_move_and_cells_say_why_nothing_runs(page: Path, tmp_path: Path) -> None:
    script = f"""{POINT} cell("2,0").focus(); press("2,0", "ArrowUp");
        return [document.activeElement.dataset.place, document.getElementById("details").textContent];"""
    place, text = opened(page, script, tmp_path).answer
    assert place == "2,1"
    assert "nothing can" in text
    assert tells(text, "ring cannot", HOSTILE)


def test_measured_cells_are_marked_by_whether_they_agree(page: Path, tmp_path: Path) -> None:
    script = f"""{POINT} const kinds = ["circle", "path.cross", "rect:nth-of-type(2)"];
        const marks = (place) => kinds.map((kind) => cell(place).querySelector(kind) !== null);
        return [marks("0,0"), marks("2,0"), marks("1,1"), marks("1,0")];"""
    assert opened(page, script, tmp_path).answer == [
        [False, True, False],
        [True, False, False],
        [False, False, True],
        [False, False, False],
    ]
