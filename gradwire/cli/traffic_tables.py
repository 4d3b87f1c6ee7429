"""Tables of what ports carried while programs ran, and of the ports that paused others."""

from __future__ import annotations

from collections.abc import Sequence

from gradwire.analysis.pause_report import far_ends_of, paused_longest
from gradwire.analysis.port_traffic import PortTraffic, busiest
from gradwire.analysis.report.text_table import TextTable
from gradwire.datatypes.pauses import PauseState
from gradwire.network.fabric import Fabric
from gradwire.network.routes import port_lines
from gradwire.workloads.units import rate_text

BUSIEST_SHOWN = 8
"""Ports in a table; summary.json has all."""


def ports_table(
    fabric: Fabric, ports: Sequence[PortTraffic], duration_s: float, most: int | None = BUSIEST_SHOWN
) -> TextTable:
    """The ports that carried most in so much time, or all, by the lines that they send on."""
    shown = busiest(ports, most or len(ports))
    lines = port_lines(fabric)
    rows = tuple(
        (
            lines.get(port.interface, port.interface),
            port.interface,
            rate_text(port.rate_bps),
            f"{port.line_bytes / 1e6:.3f}",
            f"{port.line_use(duration_s):.1%}",
            str(port.drops),
        )
        for port in shown
    )
    left = len(ports) - len(shown)
    foot = f"and {left} ports that carried less" if left > 0 else ""
    headers = ("line", "port", "line rate", "on the line (MB)", "mean use", "drops")
    return TextTable("", headers, rows, 2, ("",) * len(rows), foot)


def pauses_table(fabric: Fabric, state: PauseState) -> TextTable:
    """Each class of each line that was paused, with the port that paused it, the longest first."""
    far_ends, lines = far_ends_of(fabric), port_lines(fabric)
    rows = tuple(
        (
            lines[far_ends[count.port]],
            count.port,
            str(count.band - 1),
            f"{count.pauses:,}",
            f"{count.paused_ns / 1e6:,.3f}",
            f"{count.most_bytes / 1e3:,.1f}",
            f"{count.most_headroom_bytes / count.headroom_bytes:.0%}" if count.headroom_bytes else "none",
        )
        for count in paused_longest(state)
    )
    headers = ("paused", "by", "class", "pauses", "for (ms)", "most waiting (KB)", "headroom")
    return TextTable("", headers, rows, 2, ("",) * len(rows))
