"""Makes the virtual-time kernel ready before points run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from gradwire.agents.compiled import border
from gradwire.faults import InternalFault, MachineFault
from gradwire.vm.kernel import cached_kernel, ensure_kernel, renewal, share_kernel
from gradwire.vm.kernel_source import agent_in

LINES_OF_COMPILING = 10
"""Number of lines about compiled files that are printed if no bar can be drawn."""


def make_kernel_ready(errors: Console) -> bool:
    """Builds the virtual-time kernel unless it is there, with progress on `errors`; returns whether it was built.

    Raises MachineFault for what a build lacks and for an agent that was built with another border than Python's, and
    InternalFault where the border's header is not what Python says.
    """
    _refuse_stale_header()
    if kernel := cached_kernel():
        refuse_other_border(kernel)
        share_kernel(kernel)
        return False
    with kernel_progress(errors) as show_step:
        ensure_kernel(show_step)
    return True


def refuse_other_border(kernel: Path) -> None:
    """Raises MachineFault for a kernel's file whose agent no point could use, before the first point finds that out."""
    agent = agent_in(kernel)
    if agent is not None and not border.is_in(agent):
        raise MachineFault(
            f"{kernel}: its compiled agent was built with another {border.HEADER.name} than this version's; "
            f"{renewal(kernel)}"
        )


def _refuse_stale_header() -> None:
    """An agent that is compiled with such a header would be refused by every point."""
    if border.HEADER.read_text(encoding="utf-8") != border.header():
        raise InternalFault(
            f"{border.HEADER}: does not have the numbers and structures that Python has; write it anew with "
            f"`{border.REMEDY}`, and build the agent with `gradwire kernel`"
        )


class _Lines:
    """Says on lines how a build is getting on: minutes of silence would look like a failure."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._parts = 0
        console.print("building the virtual-time kernel, once: this takes 4 to 8 minutes")

    def take(self, done: int, total: int, text: str) -> None:
        """Hears of a step: one without files to compile is named, and the others are counted."""
        parts = done * LINES_OF_COMPILING // total
        if not done or parts > self._parts:
            self._console.print(f"  compiled {100 * parts // LINES_OF_COMPILING} %" if done else f"  {text}")
        self._parts = parts


@contextmanager
def kernel_progress(console: Console) -> Iterator[Callable[[int, int, str], None]]:
    """A bar for building the virtual-time kernel, or a few lines if none can be drawn. Yields the function to call with
    the steps done, all steps, and the present one in words."""
    if not console.is_terminal:
        yield _Lines(console).take
        return
    columns = (
        TextColumn("building the virtual-time kernel, once"),
        BarColumn(),
        TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("kernel", total=1, text="")
        yield lambda done, total, text: progress.update(task, completed=done, total=total, text=text[-40:])
