"""Commands that list what a scenario may say: `strategies`."""

from __future__ import annotations

from gradwire.commands import terminal
from gradwire.runner.terminal.listings import strategy_lines


def strategies() -> None:
    """`gradwire strategies`."""
    for line in strategy_lines():
        terminal.console.print(line, highlight=False)
