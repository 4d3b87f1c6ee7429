"""Runs gradwire's command line in the process of a test."""

from __future__ import annotations

import sys

import pytest
from rich.console import Console

from gradwire import command_line
from gradwire.commands import terminal

Answer = tuple[int, str, str]


def gradwire_says(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> Answer:
    """What `gradwire WORDS` gives: exit status, standard output and standard error."""
    monkeypatch.setattr(sys, "argv", ["gradwire", *words])
    monkeypatch.setattr(terminal, "console", Console(soft_wrap=True))
    monkeypatch.setattr(terminal, "errors", Console(stderr=True, soft_wrap=True))
    with pytest.raises(SystemExit) as ended:
        command_line.main()
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err
