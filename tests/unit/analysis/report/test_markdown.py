"""Whatever a text has in it, Markdown shows just this text: a parser of Markdown says so."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from gradwire.analysis.report.tables import escaped, markdown_table, paragraph
from gradwire.analysis.report.text_table import TextTable

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
MARKS = st.text(alphabet="\\`*_{}[]()<>#+-=.!|~&$:/ab1 \n\t\x1b\x00é", max_size=30)
ATTACKS = (
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<!-- ", "</td>", "![x](http://h/x.png)", "[x](javascript:1)",
    "[x]: http://h", "<http://h>", "&lt;b&gt;", "a|b", "*x*", "_x_", "__x__", "~~x~~", "`x`", "# x", "- x", "+ x", "1. x", "1) x", "> x",
    "---", "===", "```", "\\", "\\*x*", "$\\frac{$", "    code", "\x1b[31mred",
)  # fmt: skip


def shown(text: str) -> str:
    """What is left of a text in one line."""
    return re.sub(r"[\s\x00-\x1f\x7f-\x9f]+", " ", text).strip()


@pytest.mark.parametrize("text", ATTACKS)
def test_a_paragraph_is_nothing_but_its_text(text: str) -> None:
    assert unescape(PARSER.render(paragraph(text))) == f"<p>{shown(text)}</p>\n"


@given(MARKS)
@example("- - -")
@example("a\n---")
def test_whatever_it_is(text: str) -> None:
    html = PARSER.render(f"x {escaped(text)} x")
    assert html.count("<") == 2
    assert unescape(html) == f"<p>{f'x {shown(text)}'.strip()} x</p>\n" or not shown(text)
    if shown(text):
        assert unescape(PARSER.render(paragraph(text))) == f"<p>{shown(text)}</p>\n"


@given(MARKS, MARKS)
def test_a_cell_is_one_cell(first: str, second: str) -> None:
    table = TextTable("T", ("a", "b"), ((first, second),), 2, ("",), "foot")
    html = PARSER.render(markdown_table(table))
    assert [unescape(cell) for cell in re.findall(r"<td>(.*?)</td>", html)] == [shown(first), shown(second)]
    assert set(re.findall(r"<(\w+)", html)) == {"table", "thead", "tbody", "tr", "th", "td", "p"}


def test_a_plain_text_stays_as_it_is() -> None:
    text = "< 5 % of run.stall_limit (A & B): 1.5 -> 3, x > 2; -3.2"
    assert escaped(text) == text
