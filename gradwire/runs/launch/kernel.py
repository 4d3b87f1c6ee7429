"""Makes the virtual-time kernel ready before points run."""

from __future__ import annotations

from pathlib import Path

from gradwire.agents.compiled import border
from gradwire.faults import InternalFault, MachineFault
from gradwire.runs.screen import Screen
from gradwire.vm.kernel import cached_kernel, ensure_kernel, renewal, share_kernel
from gradwire.vm.kernel_source import agent_in


def make_kernel_ready(screen: Screen) -> bool:
    """Builds the virtual-time kernel unless it is there, and tells how far it is; returns whether it was built.

    Raises MachineFault for what a build lacks and for an agent that was built with another border than Python's, and
    InternalFault where the border's header is not what Python says.
    """
    _refuse_stale_header()
    if kernel := cached_kernel():
        refuse_other_border(kernel)
        share_kernel(kernel)
        return False
    with screen.building_kernel() as tell_step:
        ensure_kernel(tell_step)
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
