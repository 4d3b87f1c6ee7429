"""The virtual-time kernel, ready before points run."""

from __future__ import annotations

from rich.console import Console

from gradwire.runs.terminal.progress import kernel_progress
from gradwire.vm.kernel import cached_kernel, ensure_kernel, share_kernel


def make_kernel_ready(errors: Console) -> bool:
    """Builds the virtual-time kernel unless it is there, with progress on `errors`; returns whether it was built. Raises MachineFault."""
    if kernel := cached_kernel():
        share_kernel(kernel)
        return False
    if not errors.is_terminal:  # where no bar can be drawn, minutes of silence would look like a failure
        errors.print("building the virtual-time kernel, once: this takes 4 to 8 minutes")
    with kernel_progress(errors) as show_step:
        ensure_kernel(show_step)
    return True
