"""Runs of commands and of `gradwire.run` without the virtual-time kernel."""

from __future__ import annotations

import pytest

from gradwire.commands import machine as machine_commands
from gradwire.commands import running
from gradwire.runner.campaign import Trial, no_trial
from gradwire.runner.launch import execution


def needs_no_kernel(monkeypatch: pytest.MonkeyPatch, trial: Trial = no_trial) -> None:
    """Points need no kernel, and `trial` is what the machine is tried with before the first."""
    for module in (running, machine_commands, execution):
        monkeypatch.setattr(module, "make_kernel_ready", lambda _: False)
        monkeypatch.setattr(module, "trial_on", lambda _: trial)
