"""What a message costs with compiled agents, and with agents in Python."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.message_cost import POINTS, measure
from benchmarks.performance.cost import MessageFigure

TRAFFIC = {
    "p3": "P3, VGG-19: 200 KB each",
    "slicing": "slices, ResNet-50: 100 KB each, and requests",
    "ring": "ring, ResNet-50: 80 KB each",
}
CODES = ("python", "compiled")


def compared(_: int) -> Iterator[MessageFigure]:
    """Each traffic with each code."""
    for name, traffic in TRAFFIC.items():
        for code in CODES:
            cost = measure([*POINTS[name], f"transport.agent_code={code}"], 1)
            spent, message_us = cost.spent, 1e6 / cost.messages
            yield MessageFigure(
                name=traffic,
                code=code,
                stops=spent.stops / cost.messages,
                kernel_us=(spent.kernel_user_s + spent.kernel_system_s) * message_us,
                processes_us=(spent.processes_user_s + spent.processes_system_s) * message_us,
                iteration_s=cost.times_s[0],
            )
