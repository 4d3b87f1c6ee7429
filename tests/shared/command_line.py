"""Runs gradwire's command line in the process of a test, with or without the virtual-time kernel."""

from __future__ import annotations

import sys

import pytest

from gradwire.cli import command_line, terminal, upkeep
from gradwire.console.plain_console import UNBOUNDED_COLUMNS, PlainConsole
from gradwire.runs.executing.executor import Trial, no_trial
from gradwire.runs.launch import scenario_run
from reproduction import command as reproducing

Answer = tuple[int, str, str]


def gradwire_says(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> Answer:
    """What `gradwire WORDS` gives: exit status, standard output and standard error."""
    monkeypatch.setattr(sys, "argv", ["gradwire", *words])
    # Click calls the program by the package of `__main__`, if it has one, as under `python -m pytest`: a longer name.
    monkeypatch.setattr(sys.modules["__main__"], "__package__", None)
    monkeypatch.setattr(terminal, "console", PlainConsole(width=UNBOUNDED_COLUMNS, soft_wrap=True))
    monkeypatch.setattr(terminal, "errors", PlainConsole(stderr=True, soft_wrap=True))
    with pytest.raises(SystemExit) as ended:
        command_line.main()
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def needs_no_kernel(monkeypatch: pytest.MonkeyPatch, trial: Trial = no_trial) -> None:
    """Points of commands and of `gradwire.run` need no kernel, and `trial` is what the machine is tried with before the first."""
    for module in (reproducing, upkeep, scenario_run):
        monkeypatch.setattr(module, "make_kernel_ready", lambda _: False)
        monkeypatch.setattr(module, "trial_on", lambda _: trial)
