"""README.md: short enough to be read, and its numbers are those of the guides, of the papers' page and of the plans."""

from __future__ import annotations

import re
import tomllib
from functools import cache

import pytest

from gradwire.analysis.fluid.estimate import estimate
from gradwire.analysis.printed import EFFICIENCY_POINTS, NUMBER_SHARE
from gradwire.runs.stored.spines import Spines
from gradwire.scenario.loading import Scenario, resolve
from gradwire.scenario.resolution.compilation import compile_point
from gradwire.workloads.strategy_registry import BUILT_IN
from gradwire.workloads.units import rate_text
from tests.shared.parts import tells
from tests.shared.snippets import QUESTION, ROOT, Answer, answers, shown_file

MOST_LINES, MOST_WORDS = 120, 800
TEXT = (ROOT / "README.md").read_text()
STRATEGIES = (ROOT / "docs" / "strategies.md").read_text()
FLAT = " ".join(TEXT.split())
"""The text in one line, so that a sentence may be wrapped anywhere."""
REPRODUCTION = (ROOT / "docs" / "reproduction.md").read_text()
GERYON = (ROOT / "docs" / "reproduction" / "geryon.md").read_text()


@cache
def question() -> Scenario:
    """The scenario of "A question of your own"."""
    return resolve(tomllib.loads(shown_file(QUESTION).text), QUESTION, "question")


def test_it_is_short_enough_to_be_read() -> None:
    assert len(TEXT.splitlines()) <= MOST_LINES
    assert len(TEXT.split()) < MOST_WORDS


def test_its_two_commands_set_everything_up_first() -> None:
    text = (ROOT / "Makefile").read_text()
    for target in ("demo", "test"):
        assert f"make {target} " in TEXT
        assert re.search(rf"^{target}: setup( test-packages)?$", text, re.MULTILINE)
    assert re.search(r"^setup: packages python-packages kernel stand-ins$", text, re.MULTILINE)
    assert "make setup" in (ROOT / "Vagrantfile").read_text()


def test_settings_of_the_virtual_machine_are_in_the_guide() -> None:
    settings = re.findall(r'ENV(?:\.fetch\(|\[)"(\w+)"', (ROOT / "Vagrantfile").read_text())
    assert "GRADWIRE_VM_KERNEL" in settings
    guide = (ROOT / "docs" / "installing.md").read_text()
    assert [name for name in settings if f"`{name}`" not in guide] == []


def test_its_new_strategy_has_as_many_lines_as_it_says() -> None:
    lines = len(shown_file("~/two-tree/two_tree.py").text.splitlines())
    assert f"(docs/adding-a-strategy.md) in {lines} lines" in TEXT
    assert f"in {lines} lines](adding-a-strategy.md)" in STRATEGIES


def test_every_strategy_is_named() -> None:
    table = STRATEGIES.split("| from | strategies |")[1].split("\n\n")[0]
    assert set(re.findall(r"`([\w-]+)`", table)) == set(BUILT_IN)
    assert f"[{len(BUILT_IN)} strategies](docs/strategies.md)" in TEXT


def test_every_point_of_the_question_has_a_row() -> None:
    wanted = {(p.section.strategy.name, rate_text(p.section.fabric.rate)) for p in question().points}
    assert {(row.strategy, row.rate) for row in answers()} == wanted


@pytest.mark.parametrize(
    "row", [row for row in answers() if row.strategy != "p3"], ids=lambda row: f"{row.strategy}-{row.rate}"
)
def test_times_of_the_question_are_those_of_its_plans(row: Answer) -> None:
    """On an ideal network. Where a queue serves several hosts (P3), what sockets hold decides: the end-to-end test runs all of them."""
    (point,) = (
        p
        for p in question().points
        if (p.section.strategy.name, rate_text(p.section.fabric.rate)) == (row.strategy, row.rate)
    )
    compiled = compile_point(point.section)
    (plan,) = compiled.plans.values()
    ideal = estimate(plan, compiled.fabric, Spines(compiled.fabric).spine_of)
    assert row.time_s == pytest.approx(ideal.iteration_s, rel=0.003)


def test_what_the_answer_says_follows_from_its_rows() -> None:
    time_s = {(row.strategy, row.rate): row.time_s for row in answers()}
    for other in ("ring", "kvstore"):
        gains = [time_s[other, rate] / time_s["p3", rate] for rate in ("10gbit", "25gbit")]
        assert f"{min(gains):.2f}x to {max(gains):.2f}x as fast as {other}" in FLAT
    assert f"({time_s['p3', '10gbit'] / time_s['p3', '25gbit']:.2f}x as fast)" in FLAT


def scoreboard(name: str) -> list[str]:
    """The cells of a paper's row on the overview that `gradwire reproduce --pages` writes, "all" for all of them."""
    (row,) = re.findall(rf"^\| {name} \| (.*) \|$", REPRODUCTION, re.MULTILINE)
    return [cell.strip() for cell in row.split("|")]


def tally(cells: list[str]) -> tuple[int, int]:
    """What holds and what counts, of all these cells together."""
    pairs = [cell.split(" / ") for cell in cells if cell != "–"]
    return sum(int(holds) for holds, _ in pairs), sum(int(counts) for _, counts in pairs)


@pytest.mark.parametrize("paper", ["Geryon", "P3", "GradientFlow", "TicTac", "NetOps"])
def test_a_papers_row_is_that_of_the_reproduction(paper: str) -> None:
    numeric, bound, rank, shape, _, _, median, *_ = scoreboard(paper.lower())
    (row,) = re.findall(rf"^\| \*\*{paper}\*\*: .*$", STRATEGIES, re.MULTILINE)
    *_, numbers, error, sentences = [cell.strip() for cell in row.strip("|").split("|")]
    assert numbers == "{} of {}".format(*tally([numeric]))
    assert error.split(" (")[0] == median.replace("%", " %")
    assert sentences == "{} of {}".format(*tally([bound, rank, shape]))


def test_what_comes_out_over_all_papers_is_that_of_the_reproduction() -> None:
    numeric, bound, rank, shape, _, every, median, *_ = scoreboard("all")
    points = re.findall(r"points: (\d+) measured", REPRODUCTION)
    error, sentences = median.replace("%", " %"), "{} of {} sentences".format(*tally([bound, rank, shape]))
    numbers, share = "{} of {} numbers".format(*tally([numeric])), f"within {NUMBER_SHARE:.0%}".replace("%", " %")
    flat = " ".join(STRATEGIES.split())
    assert tells(flat, f"{points[0]} points", f"{tally([every])[1]} *claims*")
    assert tells(flat, numbers, error, sentences)
    assert share in flat
    assert f"within {EFFICIENCY_POINTS * 100:.0f} points" in flat
    assert tells(FLAT, f"{points[0]} points", numbers, share, error, sentences)


def test_table_2_comes_out_as_it_says() -> None:
    rows = re.findall(r"^\| geryon-table2 \| .* \| ([\d.]+) % \| ([\d.]+) % ", GERYON, re.MULTILINE)
    differences = [float(measured) - float(printed) for printed, measured in rows]
    assert differences
    assert max(map(abs, differences)) <= 2.6, "2.5, but for the rounding of both"
    (headline,) = re.findall(r"^\| geryon-fig8 \| yolo-geryon \| .* \| ([\d.]+)x \| ([\d.]+)x ", GERYON, re.MULTILINE)
    assert tells(FLAT, f"{headline[0]}x for YOLO", f"{float(headline[1]):.2f}x")
