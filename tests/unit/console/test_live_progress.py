"""The widths of what progress bars show."""

from __future__ import annotations

import pytest

from gradwire.console.live_progress import (
    BAR_COLUMNS,
    CLOCK_COLUMNS,
    COUNT_COLUMNS,
    MOST_LABEL_COLUMNS,
    STAGE_COLUMNS,
    label_and_bar_columns,
)


@pytest.mark.parametrize("terminal_columns", [60, 72, 80, 100, 160])
def test_a_line_of_progress_fits_the_terminal(terminal_columns: int) -> None:
    label, bar = label_and_bar_columns(terminal_columns)
    assert label + bar + COUNT_COLUMNS + STAGE_COLUMNS + CLOCK_COLUMNS + 4 <= terminal_columns
    assert label >= 16
    assert bar >= 4


def test_a_wide_terminal_has_the_whole_name_and_bar() -> None:
    assert label_and_bar_columns(160) == (MOST_LABEL_COLUMNS, BAR_COLUMNS)
