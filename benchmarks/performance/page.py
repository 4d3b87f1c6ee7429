"""docs/performance.md: the words of page.md, with tables of what was measured where it has markers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.performance.cost import Cost, Figures

WORDS = Path(__file__).with_name("page.md")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "performance.md"
MEGA, GIGA = 1e6, 1e9


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """As Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def side_by_side(figures: Figures) -> str:
    """Each tool's time, how often it is that of the first, and what it says of the network."""
    costs = figures.side_by_side
    rows = [
        [
            cost.name,
            cost.wall_s.text(),
            cost.cpu_s.text(),
            f"{cost.cpu_s.median / costs[0].cpu_s.median:.2g}",
            f"{cost.over_ideal:.3f}",
        ]
        for cost in costs
    ]
    return table(["", "wall (s)", "CPU (s)", "CPU, first row = 1", "time / ideal"], rows)


def growth(figures: Figures) -> str:
    """Rows for the ends of each sweep, whose traffic stands in the first; the chart has the points between."""
    rows = []
    sweeps = {
        "ring, 64 MB per host": figures.hosts,
        "all-to-all of 8, 32 MB per flow": figures.rates,
        "all-to-all of 8, 10 Gbit/s": figures.sizes,
        "ring of 8, 100 MB per host": figures.messages,
    }
    for name, costs in sweeps.items():
        rows += [
            [
                name if cost is costs[0] else "",
                cost.name,
                cost.wall_s.text(),
                cost.cpu_s.text(),
                f"{cost.size_bytes / GIGA / cost.cpu_s.median:.2g}",
                f"{MEGA * cost.cpu_s.median / cost.messages:,.0f}",
                f"{cost.over_ideal:.3f}",
            ]
            for cost in (*costs[:1], *costs[1:][-1:])
        ]
    return table(["traffic", "", "wall (s)", "CPU (s)", "GB per CPU-s", "CPU per message (us)", "time / ideal"], rows)


def plain(costs: Sequence[Cost]) -> str:
    """Wall and CPU time."""
    return table(["", "wall (s)", "CPU (s)"], [[c.name, c.wall_s.text(), c.cpu_s.text()] for c in costs])


def agents(figures: Figures) -> str:
    """What a message costs, with each kind of agents."""
    rows = [
        [
            each.name,
            each.code,
            f"{each.kernel_us + each.processes_us:.0f}",
            f"{each.kernel_us:.0f}",
            f"{each.processes_us:.0f}",
            f"{each.stops:.1f}",
            f"{each.iteration_s:.4f}",
        ]
        for each in figures.agents
    ]
    heads = ["messages", "agents", "CPU (us)", "kernel's", "processes'", "stops", "iteration (s)"]
    return table(heads, rows)


PARTS: dict[str, Callable[[Figures], str]] = {
    "machine": lambda figures: figures.machine,
    "side-by-side": side_by_side,
    "growth": growth,
    "agents": agents,
    "start-up": lambda figures: plain(figures.start_up),
    "commands": lambda figures: plain(figures.commands),
}


def _told(part: str, figures: Figures) -> str:
    """What a marker's part says of the figures; where it has none yet, how to get them."""
    if part == "commands" and not figures.commands:
        return "Not measured on this machine yet: `python -m benchmarks.performance commands --write`."
    return PARTS[part](figures)


def written(text: str, figures: Figures) -> str:
    """The words with these figures at their markers. Raises KeyError for a marker of no part."""
    return re.sub(
        r"(<!-- (?P<part>(?!end)[\w-]+) -->\n).*?(?=<!-- end -->)",
        lambda match: f"{match[1]}{_told(match['part'], figures)}\n",
        text,
        flags=re.DOTALL,
    )
