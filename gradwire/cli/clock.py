"""The clock that a command is given."""

from __future__ import annotations

from gradwire.faults import InputFault
from gradwire.vm.machines import MEASURED, Clock


def chosen_clock(name: str, scale: int | None) -> Clock:
    """The clock of `--clock` and `--scale`; without a scale, the wall clock's is to be measured. Raises InputFault if they name none."""
    if name not in ("virtual", "wall"):
        raise InputFault(f"--clock {name}: must be virtual or wall")
    if name == "virtual":
        if scale is not None:
            raise InputFault("--scale belongs to --clock wall: the virtual clock chooses its own")
        return Clock()
    return Clock(name, MEASURED if scale is None else scale)
