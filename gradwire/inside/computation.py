"""Decides whether the computation of programs takes virtual time: a setting of the kernel
(vm/patches/6.12/work-takes-time.patch), which programs cannot change, for they see it read-only."""

from __future__ import annotations

from pathlib import Path

from gradwire.faults import MachineFault

SETTING = Path("/proc/sys/kernel/cpu_time_thousandths")


def charge_computation(factor: float, setting: Path = SETTING) -> None:
    """Lets computation take `factor` times the CPU time that the machine outside counts for it, from now on; 0: none.

    Raises MachineFault for a kernel that cannot do that.
    """
    if not factor:
        return
    try:
        setting.write_text(f"{round(factor * 1000)}\n")
    except OSError as error:
        raise MachineFault(
            "this kernel cannot charge programs for CPU time (--cpu-time, cpu_time of a lab or run.cpu_time); build it from "
            "a linux-source of 6.12: `gradwire kernel`"
        ) from error
