"""Texts from others in pages."""

from __future__ import annotations

from pathlib import Path

from gradwire.analysis.report.pages import page


def test_control_characters_and_markup_are_shown_and_not_carried_out(tmp_path: Path) -> None:
    (tmp_path / "own.html").write_text("<style></style><script></script><p title='{{ title }}'>{{ title }}</p>")
    html = page("own.html", templates=tmp_path, title="\x1b]0;P\x07 <b>\u202e\n")
    assert html.count(r"\x1b]0;P\x07 &lt;b&gt;\u202e" + "\n") == 2
    assert not {"\x1b", "\x07", "\u202e"} & {*html}
