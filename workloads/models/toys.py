"""The three-layer networks with which P3 explains itself (Figs. 4 and 6): sizes and times in units of one transfer.

A unit is what a 10 Gbit/s link carries in the time named below, in frames of 1500 bytes: 1448 of 1538 bytes on the line are parameters.
"""

from __future__ import annotations

from workloads.profile import Layer, LayerKind, Profile, Tensor

PARAMETERS_PER_MS = 10e9 / 8 * (1448 / 1538) / 4 / 1000
FIG_4_UNIT_MS = 50
"""Long against the millisecond of data that TCP keeps in a host's own port, which no priority reaches."""
FIG_6_UNIT_MS = 10


def _chain(name: str, units: tuple[int, int, int], unit_ms: int, source: str) -> Profile:
    """Three layers in a row, each with one tensor of so many units; all take equally long."""
    layers = tuple(
        Layer(
            f"layer{number + 1}",
            LayerKind.FC,
            (Tensor(f"layer{number + 1}/weights", round(count * unit_ms * PARAMETERS_PER_MS)),),
            1.0,
            (number - 1,) if number else (),
        )
        for number, count in enumerate(units)
    )
    return Profile(name, layers, 1, source)


def p3_fig4() -> Profile:
    """Synchronising a layer takes two units; its forward and its backward op take one each (device `toy`)."""
    return _chain("p3-fig4", (2, 2, 2), FIG_4_UNIT_MS, "P3 Fig. 4")


def p3_fig6() -> Profile:
    """The second layer takes thrice as long as the others; computing takes no time."""
    return _chain("p3-fig6", (1, 3, 1), FIG_6_UNIT_MS, "P3 Fig. 6")
