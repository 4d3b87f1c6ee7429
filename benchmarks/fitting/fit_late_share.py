"""How many orders the baselines of `tictac` have, and the share of late tensors that meets the printed count.

    .venv/bin/python -m benchmarks.fitting.fit_late_share

TicTac counts 493 different orders in 1000 iterations of VGG-16, and 1000 in as many of ResNet-50 v2 and Inception v3
(section 2.2). One parameter is fitted to the first count: how likely a tensor is late (`LATE_SHARE`). The other two
counts are predictions. The last line has the same for orders in which only neighbours change places, which the counts
alone would allow as well: each tensor comes at its rank plus normal noise.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from statistics import mean, stdev

from gradwire.workloads.models import model
from gradwire.workloads.strategies.tictac import LATE_SHARE, almost_ordered
from reproduction.scoring.reference import printed_fact, printed_number

FITTED_ON = "vgg16"
PREDICTED = {"resnet50-v2": "resnet50v2", "inception-v3": "inception3"}
"""Models, and the claims that have their counts."""
REPEATS = 20
STEPS = 12
"""Halvings of the range in which the parameter is."""
Draw = Callable[[int, float, str], list[int]]
"""An order of so many tensors, with a parameter and a seed."""


def neighbours(count: int, spread: float, seed: str) -> list[int]:
    """Numbers from 0 to count - 1 by rank plus normal noise of `spread` ranks."""
    draw = random.Random(seed)
    place = [number + draw.gauss(0, spread) for number in range(count)]
    return sorted(range(count), key=place.__getitem__)


def counts(draw: Draw, parameter: float, tensors: int, repeats: int = REPEATS) -> list[int]:
    """Different orders in as many draws as the paper has iterations, for each repeat."""
    draws = int(printed_fact("tictac", "counted-iterations"))
    return [
        len({tuple(draw(tensors, parameter, f"{repeat * draws + number}/pull/0")) for number in range(1, draws + 1)})
        for repeat in range(repeats)
    ]


def fit(draw: Draw, least: float, most: float) -> float:
    """The parameter at which the mean count of FITTED_ON is the printed one."""
    printed, tensors = printed_number("tictac", "tictac-sec22-order", FITTED_ON), len(model(FITTED_ON).tensors)
    for _ in range(STEPS):
        middle = (least + most) / 2
        if mean(counts(draw, middle, tensors)) < printed:
            least = middle
        else:
            most = middle
    return (least + most) / 2


def line(name: str, draw: Draw, parameter: float) -> str:
    """Counts of all three models with this parameter, and the printed ones."""
    parts = []
    for model_name, claim in {FITTED_ON: FITTED_ON, **PREDICTED}.items():
        found = counts(draw, parameter, len(model(model_name).tensors))
        printed = printed_number("tictac", "tictac-sec22-order", claim)
        parts.append(f"{model_name} {mean(found):.0f} +- {stdev(found):.0f} (printed {printed:.0f})")
    return f"{name} {parameter:.4g}: {', '.join(parts)}"


def main() -> None:
    """Prints the fitted share, that of gradwire, and the fitted noise of neighbours."""
    print(line("late share, fitted", almost_ordered, fit(almost_ordered, 0.01, 0.1)), flush=True)
    print(line("late share, as in gradwire", almost_ordered, LATE_SHARE), flush=True)
    print(line("neighbours, fitted noise", neighbours, fit(neighbours, 0.1, 1.0)), flush=True)


if __name__ == "__main__":
    main()
