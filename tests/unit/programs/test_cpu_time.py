"""How much virtual time computation takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradwire.faults import InputFault, MachineFault
from gradwire.inside.computation import charge_computation
from gradwire.programs.cpu_time import charged_cpu_time


@pytest.mark.parametrize("factor", [-0.5, 0.0004, 1000.5, float("nan")])
def test_factors_that_cannot_be_are_refused(factor: float) -> None:
    with pytest.raises(InputFault, match=r"--cpu-time .*must be 0"):
        charged_cpu_time(factor)


def test_this_machine_counts_cpu_time() -> None:
    assert charged_cpu_time(1.5) == 1.5


def test_the_kernel_is_told_thousandths(tmp_path: Path) -> None:
    setting = tmp_path / "setting"
    charge_computation(0.0, setting)
    assert not setting.exists()
    charge_computation(1.5, setting)
    assert setting.read_text() == "1500\n"


def test_a_kernel_without_the_setting_is_named(tmp_path: Path) -> None:
    with pytest.raises(MachineFault, match="cannot charge programs for CPU time"):
        charge_computation(1.0, tmp_path / "nowhere" / "setting")
