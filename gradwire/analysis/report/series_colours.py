"""The colours of strategies, the same in every figure: in charts of points, in rankings and in maps of winners.

There are more strategies than colours that can be told apart, so each has one that it takes unless another strategy of the same figure,
named before it, has taken it; then it takes the first that nobody has. Where a figure names each bar, strategies keep their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
"""Okabe and Ito's colours (2008), which differ with any colour vision; the strongest contrasts come first."""
BLUE, ORANGE, GREEN, PINK, SKY, RED, YELLOW, _BLACK = PALETTE
OTHER = "#777777"
"""Colour of a strategy of a user's own in such figures."""
STRATEGIES: Mapping[str, str] = {
    "vanilla": SKY,
    "partition-slicing": GREEN,
    "geryon": RED,
    "kvstore": YELLOW,
    "p3-slicing": SKY,
    "p3": BLUE,
    "tictac": PINK,
    "tictac-slicing": GREEN,
    "netops-ps": YELLOW,
    "ring": ORANGE,
    "hierarchical-ring": RED,
    "butterfly": YELLOW,
    "halving-doubling": GREEN,
    "double-tree": PINK,
    "butterfly-mixing": BLUE,
    "layer-allreduce": SKY,
    "horovod": GREEN,
    "lazy-allreduce": BLUE,
    "ddp": SKY,
    "megatron": RED,
    "fsdp": BLUE,
    "zero1": PINK,
    "zero2": YELLOW,
    "csc": YELLOW,
    "diloco": RED,
    "multicast-ps": GREEN,
    "aggregation-ps": SKY,
    "multicast-aggregation-ps": PINK,
    "ring-multicast": RED,
    "replay": ORANGE,
}
"""The colour of each strategy that comes with gradwire. None is black, which is for letters and borders."""


def colour_of_strategy(name: str) -> str:
    """The colour of a strategy where its name stands beside it, so that others may have the same."""
    return STRATEGIES.get(name, OTHER)


def colours_of_series(names: Sequence[str]) -> dict[str, str]:
    """The colour of each series of a figure, by its name: that of a strategy; or else the first that no other has, as long as there is
    one."""
    found: dict[str, str] = {}
    for name in names:
        wanted = STRATEGIES.get(name)
        if wanted is not None and wanted not in found.values():
            found[name] = wanted
    for number, name in enumerate(name for name in names if name not in found):
        free = [colour for colour in PALETTE if colour not in found.values()]
        again = STRATEGIES.get(name, PALETTE[number % (len(PALETTE) - 1)])
        found[name] = free[0] if free else again
    return {name: found[name] for name in names}
