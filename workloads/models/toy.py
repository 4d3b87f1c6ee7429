"""Toy models that papers draw by hand: equal layers of one tensor."""

from __future__ import annotations

from workloads.profile import Layer, LayerKind, Profile, Tensor


def netops_toy() -> Profile:
    """NetOps, Fig. 2: three operations, each of which computes for 3 s and sends for 3 s: 375 MB at 1 Gbit/s."""
    names = ("op1", "op2", "op3")
    layers = tuple(
        Layer(name, LayerKind.OTHER, (Tensor(f"{name}/weights", 93_750_000),), 1.0, (number - 1,) if number else ())
        for number, name in enumerate(names)
    )
    return Profile("netops-toy", layers, 1, "NetOps Fig. 2")
