"""The trial before the first point runs: whether this machine can carry any."""

from __future__ import annotations

from gradwire.runs.executing.executor import Trial
from gradwire.vm.byte_code import byte_code_folder
from gradwire.vm.code_digest import machine_modules
from gradwire.vm.host import require_root
from gradwire.vm.kernel import cached_kernel
from gradwire.vm.machines import Clock
from gradwire.vm.trial import try_kernel


def trial_on(clock: Clock) -> Trial:
    """Returns the trial to make before the first point on a clock: whether its kernel, which must be there, runs here
    at all, or who the user is."""
    return _try_cached_kernel if clock.name == "virtual" else _try_host


def _try_host(_: int) -> None:
    require_root()


def _try_cached_kernel(memory_mb: int) -> None:
    kernel = cached_kernel()
    assert kernel is not None, "it is built before"
    try_kernel(kernel, memory_mb)
    byte_code_folder(machine_modules())  # in the cache, which every point needs
