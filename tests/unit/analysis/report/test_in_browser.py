"""A report opened in a browser: it complains of nothing, loads nothing, sorts and filters its tables, and is whole without its script."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from gradwire.analysis.points import PointResult
from gradwire.analysis.report.pages import BY_SCENARIO, Setting
from gradwire.analysis.report.ranking import rank
from gradwire.analysis.report.report import Background, PointDetails, Presentation, Results, report
from tests.shared.browser import BROWSER, FLAGS

LOGGED = ("--enable-logging=stderr", "--virtual-time-budget=5000")
LIMIT_S = 120
ANSWER = "answer-of-the-test"
TIMES_S = {
    "ring": 0.9,
    "vanilla": 10.5,
    "p3": 9.0,
    "tictac": 1.25,
    "butterfly": 2.0,
    "csc": 0.95,
    "horovod": 1.5,
    "kvstore": 3.0,
}

# Where tests must be complete, as in CI, a missing browser is a failure.


@dataclass(frozen=True)
class Opened:
    """What a browser made of a page."""

    #: What the script that was put into it answered.
    answer: Any
    #: Lines of the console.
    console: list[str]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    rows = [
        PointResult(
            {"strategy": name, "seed": "1"}, t, None, None, 1 / t, 0.8 / t, 0, 1.0, 0.8, "compute", "00ff", "valid"
        )
        for name, t in TIMES_S.items()
    ]
    details = [PointDetails({"fabric.rate": Setting("10 Gbit/s", BY_SCENARIO)}, "points/a", ("log.txt",)) for _ in rows]
    ranking = rank(rows, {}, ("csc",), {"aggregation-ps": "no <switch>"})
    report(
        folder,
        Results(rows, [None] * len(rows), details),
        Presentation("A & B", ranking=ranking),
        Background("About.", [("gradwire", "1")], "title = 1\n"),
        dpi=40,
    )
    return folder / "report.html"


def opened(page: Path, script: str, folder: Path) -> Opened:
    """Opens a copy of a page in which a script runs at the end; `script` is the body of a function that returns its answer."""
    assert BROWSER is not None, "no Chromium"
    asked = (
        f"const answer = JSON.stringify((() => {{{script}}})());"
        f'document.body.append(Object.assign(document.createElement("p"), {{id: "{ANSWER}", textContent: answer}}));'
    )
    copy = folder / "copy.html"
    html = page.read_text(encoding="utf-8").replace("script-src ", f"script-src {hash_source(asked)} ", 1)
    copy.write_text(html.replace("</body>", f"<script>{asked}</script></body>"), encoding="utf-8")
    command = [BROWSER, *FLAGS, *LOGGED, f"--user-data-dir={folder / 'profile'}", "--dump-dom", copy.as_uri()]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT_S)
    found = re.search(rf'<p id="{ANSWER}">(.*?)</p>', ended.stdout, re.DOTALL)
    assert found, ended.stderr
    return Opened(json.loads(unescape(found[1])), [line for line in ended.stderr.splitlines() if "CONSOLE" in line])


def hash_source(text: str) -> str:
    """A script or a style as a policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


CLICK = """
const table = document.querySelector("table.sortable");
const header = (name) => [...table.tHead.rows[0].cells].find((cell) => cell.textContent === name);
const shown = () => [...table.tBodies[0].rows].filter((row) => !row.hidden).map((row) => row.cells[1].textContent);
const click = (name) => { header(name).querySelector("button").click(); return shown(); };
"""


def test_it_loads_nothing_and_complains_of_nothing(page: Path, tmp_path: Path) -> None:
    script = 'return [document.title, performance.getEntriesByType("resource").map((entry) => entry.name)];'
    found = opened(page, script, tmp_path)
    assert found.answer == ["A & B", []]
    assert found.console == []


def test_its_policy_lets_nothing_be_loaded_and_the_test_would_see_it(page: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.html"
    other.write_text(page.read_text().replace("</h1>", '</h1><img src="http://127.0.0.1:9/x.png">', 1))
    (complaint,) = opened(other, "return 0;", tmp_path).console
    assert "Content Security Policy" in complaint


@pytest.mark.parametrize(
    "markup",
    ["<script>document.title = 1</script>", "<style>h1{color:red}</style>", '<b onclick="1" style="color:red">x</b>'],
)
def test_its_policy_takes_no_script_and_no_style_but_its_own(page: Path, tmp_path: Path, markup: str) -> None:
    other = tmp_path / "other.html"
    other.write_text(page.read_text().replace("</h1>", f"</h1>{markup}", 1))
    found = opened(other, "document.querySelector('b')?.click(); return document.title;", tmp_path)
    assert found.answer == "A & B"
    assert found.console
    assert all("Content Security Policy" in complaint for complaint in found.console)


def test_texts_of_scenarios_stay_texts_in_drawings_as_well(tmp_path: Path) -> None:
    hostile = "--><script>document.title = 1</script> $\\frac{$ & <b style='x'>"
    row = PointResult(
        {"strategy": hostile, "seed": "1"}, 1.0, None, None, 1.0, 0.8, 0, 1.0, 0.8, "compute", "00ff", "valid"
    )
    report(tmp_path, Results([row], [None]), Presentation(hostile), dpi=40)
    found = opened(tmp_path / "report.html", "return document.title;", tmp_path)
    assert (found.answer, found.console) == (" ".join(hostile.split()), [])


def test_a_click_on_a_header_sorts(page: Path, tmp_path: Path) -> None:
    script = f'{CLICK} return [shown(), click("time (s)"), click("time (s)"), click("strategy"), header("strategy").ariaSort];'
    first, up, down, by_name, direction = opened(page, script, tmp_path).answer
    by_time = sorted(TIMES_S, key=TIMES_S.__getitem__)
    assert [name.rstrip("*") for name in first] == [*by_time, "aggregation-ps"]
    assert up == first
    assert [name.rstrip("*") for name in down] == [*reversed(by_time), "aggregation-ps"], (
        "what has no number comes last"
    )
    assert by_name == sorted(first)
    assert direction == "ascending"


def test_words_filter_rows(page: Path, tmp_path: Path) -> None:
    script = f"""{CLICK}
        const field = document.querySelector("input.filter");
        const type = (text) => {{ field.value = text; field.dispatchEvent(new Event("input")); return shown(); }};
        return [type("VALID tic"), type(""), type("nothing like it")];"""
    some, every, none = opened(page, script, tmp_path).answer
    assert some == ["tictac"]
    assert len(every) == len(TIMES_S) + 1
    assert none == []


def test_rates_sort_as_rates(page: Path, tmp_path: Path) -> None:
    script = f"""{CLICK}
        ["10gbit", "900mbit", "2.5gbit"].forEach((rate, i) => table.tBodies[0].rows[i].cells[1].textContent = rate);
        [...table.tBodies[0].rows].slice(3).forEach((row) => row.remove());
        return click("strategy");"""
    assert opened(page, script, tmp_path).answer == ["900mbit", "2.5gbit", "10gbit"]


def test_without_its_script_every_table_is_there(page: Path) -> None:
    text = re.sub(r"<script>.*?</script>", "", page.read_text(), flags=re.DOTALL)
    for name in (*TIMES_S, "10 Gbit/s", "title = 1"):
        assert name in text
    assert "<input" not in text
    assert "<button" not in text


def test_the_dark_is_readable(page: Path, tmp_path: Path) -> None:
    """Text and lines of the drawing follow the page's colours: no black on black."""
    dark = tmp_path / "dark.html"
    html = page.read_text().replace("(prefers-color-scheme:dark)", "all")
    style = html[html.index("<style>") + len("<style>") : html.index("</style>")]
    dark.write_text(re.sub(r"style-src '[^']*'", lambda _: f"style-src {hash_source(style)}", html, count=1))
    script = """
        const color = (name) => getComputedStyle(document.body)[name];
        const texts = [...document.querySelectorAll("figure svg [id^=text_] g")].map((text) => getComputedStyle(text).fill);
        const lines = [...document.querySelectorAll("figure svg path")].map((line) => getComputedStyle(line).stroke);
        return [color("color"), color("backgroundColor"), [...new Set(texts)], [...new Set(lines)]];"""
    ink, paper, texts, lines = opened(dark, script, tmp_path).answer
    assert ink != paper
    assert ink in lines
    assert "rgb(0, 0, 0)" not in lines
    assert ink in texts
    assert paper not in texts
    assert "rgb(0, 0, 0)" not in texts
