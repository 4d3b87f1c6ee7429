"""Tables on a terminal: as wide as it is, and without a broken word.

What is too wide is made narrower in steps. Headers, and cells of words, continue on a next line where they have a space.
Then columns are left out in the order that the table declares, and a line below says which. Where even the others do not
fit, each row becomes lines of "header: value". A pipe and a file have no width and get everything: see
gradwire.console.plain_console.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from gradwire.analysis.report.text_table import TextTable
from gradwire.terminal_text import visible

GAP_COLUMNS = 2
"""Characters between two columns."""
TONE_STYLE = {"good": "green", "doubtful": "bold yellow", "bad": "bold red", "quiet": "dim", "": ""}
READABLE_COLUMNS = 24
"""Cells of words are not made narrower than this while there are columns to leave out: in less, a sentence is a tower of words."""


@dataclass(frozen=True)
class Column:
    """The widths that a column needs, in characters."""

    index: int
    #: Without a line break.
    whole: int
    #: With those that cost nothing: at the header's spaces, and in cells of words where enough of a line is left.
    readable: int
    #: With all that break no word.
    least: int
    #: Its cells continue on a next line, and its header does not do so alone.
    folds: bool


@dataclass(frozen=True)
class TableLayout:
    """The columns that are shown, by index, and how wide they are; none where rows become lines of "header: value"."""

    widths: dict[int, int]
    left_out: tuple[str, ...] = ()


def layout(table: TextTable, width: int) -> TableLayout:
    """Layout of a table on a terminal that is `width` characters wide."""
    columns = [_column(table, index) for index in range(len(table.headers))]
    gone = [header for header in table.gives_way if header in table.headers]
    for count in range(len(gone) + 1):
        left = [column for column in columns if table.headers[column.index] not in gone[:count]]
        if _wide([column.readable for column in left]) <= width:
            return TableLayout(
                _grown(left, {column.index: column.readable for column in left}, width), tuple(gone[:count])
            )
    if _wide([column.least for column in left]) <= width:
        return TableLayout(_grown(left, {column.index: column.least for column in left}, width), tuple(gone))
    return TableLayout({})


def _column(table: TextTable, index: int) -> Column:
    cells = [row[index] for row in table.rows]
    is_last = index == len(table.headers) - 1
    folds = index < table.left or is_last
    cells_whole = max((_columns(cell) for cell in cells), default=0)
    cells_least = max((_longest_word(cell) for cell in cells), default=0) if folds else cells_whole
    header = _longest_word(table.headers[index])
    return Column(
        index,
        whole=max(cells_whole, _columns(table.headers[index])),
        readable=max(cells_least, header, min(cells_whole, READABLE_COLUMNS) if folds else 0),
        least=max(cells_least, header),
        folds=folds and cells_whole > header,
    )


def _wide(widths: Sequence[int]) -> int:
    return sum(width + GAP_COLUMNS for width in widths)


def _grown(columns: Sequence[Column], widths: dict[int, int], width: int) -> dict[int, int]:
    """Distributes the rest of the width: to headers that it makes whole, and then evenly to cells of words."""
    spare = width - _wide(list(widths.values()))
    by_need = sorted(columns, key=lambda column: (column.folds, column.whole - widths[column.index]))
    for place, column in enumerate(by_need):
        need = column.whole - widths[column.index]
        more = min(need, spare // (len(by_need) - place)) if column.folds else need
        if more <= spare:
            widths[column.index] += more
            spare -= more
    return widths


@dataclass(frozen=True)
class TerminalTable:
    """A table that a console of rich prints."""

    table: TextTable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Renders the table, for rich. Everything is Text, so that nothing in it is markup: titles and headers come
        from scenarios."""
        table, width = self.table, options.max_width
        if table.title:
            yield Text(table.title, style="table.title")
        chosen = layout(table, width)
        yield from _drawn(table, chosen) if chosen.widths else _blocks(table, width)
        if chosen.left_out:
            yield Text(f"left out for {width} columns: {', '.join(chosen.left_out)}; `| cat` shows all", style="dim")
        if table.foot:
            yield Text(table.foot, style="table.caption")


def _drawn(table: TextTable, chosen: TableLayout) -> Iterator[Text]:
    heads = [_folded(table.headers[index], width) for index, width in chosen.widths.items()]
    high = max(map(len, heads))
    yield from _lines(table, chosen, [[""] * (high - len(head)) + head for head in heads], "table.header")
    yield _line("─" * _wide(list(chosen.widths.values())))
    for row, tone in zip(table.rows, table.tone, strict=True):
        yield from _lines(
            table, chosen, [_folded(row[index], width) for index, width in chosen.widths.items()], "", tone
        )


def _lines(
    table: TextTable, chosen: TableLayout, cells: Sequence[Sequence[str]], style: str, tone: str = ""
) -> Iterator[Text]:
    last = len(table.headers) - 1
    for parts in zip_longest(*cells, fillvalue=""):
        line = Text(" ", style=style)
        for part, (index, width) in zip(parts, chosen.widths.items(), strict=True):
            room = " " * (width - cell_len(part))
            is_left = index < table.left or index == last
            toned = Text(part, style=TONE_STYLE[tone] if index == table.toned % len(table.headers) else "")
            line += Text.assemble(toned, room) if is_left else Text.assemble(room, toned)
            line.append(" " * GAP_COLUMNS)
        line.rstrip()
        yield _line(line)


def _blocks(table: TextTable, width: int) -> Iterator[Text]:
    """A line for each value, and an empty one between rows. A word that is longer than the line is not broken either."""
    for row, tone in zip(table.rows, table.tone, strict=True):
        for index, (header, cell) in enumerate(zip(table.headers, row, strict=True)):
            style = TONE_STYLE[tone] if index == table.toned % len(table.headers) else ""
            first, *others = _folded(f"{header}: {cell}" if header else cell, width - 1) if cell else [""]
            if first:
                yield _line(Text(f" {first}", style=style))
            yield from (_line(Text(f" {line}", style=style)) for line in others)
        yield Text("")


def _line(line: str | Text) -> Text:
    text = Text(line) if isinstance(line, str) else line
    text.no_wrap, text.overflow = True, "ignore"
    return text


def _shown(text: str) -> list[str]:
    """The lines of a text, with as many letters as the console sends."""
    return [visible(line.replace("\t", " ")) for line in text.split("\n")]


def _columns(text: str) -> int:
    return max(map(cell_len, _shown(text)))


def _longest_word(text: str) -> int:
    return max((cell_len(word) for line in _shown(text) for word in line.split(" ")), default=0)


def _folded(text: str, width: int) -> list[str]:
    """The lines of a text in so many columns, broken at spaces alone."""
    lines = []
    for whole in _shown(text):
        line = ""
        for number, word in enumerate(whole.split(" ")):
            if number and cell_len(line) + 1 + cell_len(word) > width:
                lines.append(line)
                line = word
            else:
                line = f"{line} {word}" if number else word
        lines.append(line)
    return lines
