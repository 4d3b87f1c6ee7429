"""The shares that layers of each kind reach, of what was timed on a GPU, and what they predict of whole models.

    python -m benchmarks.layer_shares [LAYERS.csv] [--peak 989e12] [--memory 3.35e12] [--models MODELS.csv] [--blocks BLOCKS.csv]

LAYERS.csv is what `benchmarks/gpu/time_layers.py` writes; by default that of an H100, of which the table in
gradwire/workloads/models/measured_shares.py is made. MODELS.csv is what `benchmarks/gpu/time_models.py` writes, and
BLOCKS.csv what `benchmarks/gpu/time_decoder.py` does: one block of a Llama 3, divided by tensor parallelism. No time of a
whole model or block goes into the table.
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from gradwire.workloads.models import model
from gradwire.workloads.models.layer_times import (
    BACKWARD_PER_FORWARD,
    ELEMENT_BYTES,
    Roof,
    Share,
    Shares,
    WorkKind,
    layer_times,
)
from gradwire.workloads.models.profile import Profile
from gradwire.workloads.models.resized import shortened, with_tokens

MEASURED = Path(__file__).parent / "measured"
H100 = Roof(989e12, 3.35e12)
CALL_S = 4e-6
"""The shortest kernels of an H100 follow each other in this time."""
LEAST_CALLS = 5
"""A product that takes fewer of these times is left out of the table: it is mostly call."""


class Timed(NamedTuple):
    """A timed layer, as the file has it."""

    kind: str
    shape: str
    flops: float
    size_bytes: float
    elements: float
    forward_s: float
    backward_s: float


class TimedModel(NamedTuple):
    """A timed iteration of a whole model."""

    model: str
    batch: int
    #: Tokens of a sample, or 0 for the model's own.
    tokens: int
    #: Blocks of a transformer, or 0 for all.
    blocks: int
    #: Time of the kernels, and of an iteration with the host's share.
    kernels_s: float
    iteration_s: float

    def profile(self) -> Profile:
        """The model as gradwire knows it."""
        whole = model(self.model)
        cut = shortened(whole, self.blocks) if self.blocks else whole
        return with_tokens(cut, self.tokens) if self.tokens else cut


class TimedBlock(NamedTuple):
    """A timed block of a decoder, as one rank of a tensor-parallel group computes it."""

    model: str
    tokens: int
    #: Ranks of the group.
    tensor: int
    is_fused: bool
    forward_s: float
    iteration_s: float

    def profile(self) -> Profile:
        """The model as gradwire knows it."""
        return with_tokens(model(self.model), self.tokens)

    def layers(self) -> list[int]:
        """Numbers of the block's layers."""
        return [n for n, layer in enumerate(self.profile().layers) if layer.name.startswith("block1/")]

    def flops(self) -> float:
        """Of a rank's part of both passes."""
        profile = self.profile()
        forward_flops = sum(profile.layers[number].flops for number in self.layers())
        return (1 + BACKWARD_PER_FORWARD) * forward_flops / self.tensor


def timed_layers(path: Path) -> list[Timed]:
    """Reads a file of time_layers.py."""
    rows = csv.reader(line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    next(rows)
    return [Timed(row[0], row[1], *map(float, row[2:])) for row in rows]


def timed_models(path: Path) -> list[TimedModel]:
    """Reads a file of time_models.py."""
    rows = csv.reader(line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    next(rows)
    return [TimedModel(row[0], *map(int, row[1:4]), *map(float, row[4:])) for row in rows]


def timed_blocks(path: Path) -> list[TimedBlock]:
    """Reads a file of time_decoder.py."""
    rows = csv.reader(line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    next(rows)
    return [TimedBlock(row[0], int(row[1]), int(row[2]), row[3] == "1", float(row[4]), float(row[5])) for row in rows]


def shares_of(layers: Sequence[Timed], roof: Roof, source: str) -> Shares:
    """The table: products by intensity in steps of a factor of two, all else in passes, as geometric means."""
    by_kind: dict[str, list[Timed]] = {}
    for layer in layers:
        by_kind.setdefault(layer.kind, []).append(layer)

    def passes(*kinds: str) -> tuple[float, float]:
        return _passes([layer for kind in kinds for layer in by_kind[kind]], roof)

    add_forward, _ = passes("add")
    activation, bias = passes("gelu", "dropout"), passes("bias")
    return Shares(
        {work: _by_intensity(by_kind[work], roof) for work in (WorkKind.CONV, WorkKind.PRODUCT, WorkKind.SCORES)},
        {
            WorkKind.BATCH_NORM: _rounded(_sum(passes("batch-norm"), passes("relu"))),
            WorkKind.LAYER_NORM: _rounded(passes("layer-norm", "rms-norm")),
            # The gradients of both branches are added where they meet again, which costs as much.
            WorkKind.ADD: _rounded((add_forward, add_forward)),
            WorkKind.POOL: _rounded(passes("pool")),
            WorkKind.EMBEDDING: _rounded(passes("embedding")),
            WorkKind.AFTER_CONV: _rounded(_passes(_beyond(by_kind["conv-bias-relu"], by_kind["conv-plain"]), roof)),
            # A matrix product adds its biases as it writes; their gradient is a pass of its own.
            WorkKind.AFTER_PRODUCT: _rounded((activation[0], activation[1] + bias[1])),
            WorkKind.LOSS: _rounded(passes("loss")),
        },
        CALL_S,
        source,
    )


def _by_intensity(layers: Iterable[Timed], roof: Roof) -> tuple[Share, ...]:
    bins: dict[int, list[Share]] = {}
    for layer in layers:
        if (
            min(layer.forward_s, layer.backward_s / BACKWARD_PER_FORWARD) < LEAST_CALLS * CALL_S
            and layer.kind == WorkKind.PRODUCT
        ):
            continue
        intensity = layer.flops / layer.size_bytes * roof.memory_bytes_per_s / roof.flops_per_s
        backward_s = layer.backward_s - BACKWARD_PER_FORWARD * CALL_S
        share = Share(
            intensity,
            layer.flops / (layer.forward_s - CALL_S) / roof.flops_per_s,
            BACKWARD_PER_FORWARD * layer.flops / backward_s / roof.flops_per_s,
        )
        bins.setdefault(round(math.log2(intensity)), []).append(share)
    return tuple(
        Share(*(round(statistics.geometric_mean(values), 3) for values in zip(*_as_tuples(bins[number]), strict=True)))
        for number in sorted(bins)
    )


def _as_tuples(shares: Iterable[Share]) -> list[tuple[float, float, float]]:
    return [(share.intensity, share.forward, share.backward) for share in shares]


def _passes(layers: Sequence[Timed], roof: Roof) -> tuple[float, float]:
    pass_s = [ELEMENT_BYTES * layer.elements / roof.memory_bytes_per_s for layer in layers]
    return (
        statistics.geometric_mean((layer.forward_s - CALL_S) / one for layer, one in zip(layers, pass_s, strict=True)),
        statistics.geometric_mean((layer.backward_s - CALL_S) / one for layer, one in zip(layers, pass_s, strict=True)),
    )


def _beyond(layers: Sequence[Timed], plain: Sequence[Timed]) -> list[Timed]:
    return [
        more._replace(forward_s=more.forward_s - less.forward_s, backward_s=more.backward_s - less.backward_s)
        for more, less in zip(layers, plain, strict=True)
    ]


def _sum(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    return one[0] + other[0], one[1] + other[1]


def _rounded(passes: tuple[float, float]) -> tuple[float, float]:
    return round(passes[0], 1), round(passes[1], 1)


def predicted_s(timed: TimedModel, roof: Roof, shares: Shares) -> float:
    """Seconds of the model's kernels in an iteration, by the table."""
    forward, backward = layer_times(timed.profile(), timed.batch, roof, shares)
    return sum(forward) + sum(backward)


def predicted_block_s(timed: TimedBlock, roof: Roof, shares: Shares) -> float:
    """Seconds of a rank's part of the block's kernels, by the table."""
    forward, backward = layer_times(timed.profile(), 1, roof, shares)
    return sum(forward[number] + backward[number] for number in timed.layers()) / timed.tensor


def _print_table(shares: Shares, console: Console) -> None:
    for work, table in shares.products.items():
        console.print(f"{work}: intensity in ridges, share forward, share backward")
        for share in table:
            console.print(f"    {share.intensity:7.3f}  {share.forward:.3f}  {share.backward:.3f}")
    console.print("passes, forward and backward")
    for work, (forward, backward) in shares.passes.items():
        console.print(f"    {work:14} {forward:5.1f} {backward:5.1f}")


def _print_models(rows: Sequence[TimedModel], roof: Roof, shares: Shares, console: Console) -> None:
    table = Table(
        "model", "batch", "tokens", "blocks", "kernels (ms)", "predicted (ms)", "predicted / kernels", "iteration (ms)"
    )
    ratios = []
    for row in rows:
        time_s = predicted_s(row, roof, shares)
        ratios.append(time_s / row.kernels_s)
        shape = (row.model, str(row.batch), str(row.tokens or ""), str(row.blocks or ""))
        table.add_row(
            *shape,
            f"{row.kernels_s * 1e3:.1f}",
            f"{time_s * 1e3:.1f}",
            f"{ratios[-1]:.3f}",
            f"{row.iteration_s * 1e3:.1f}",
        )
    console.print(table)
    errors = sorted(abs(math.log(ratio)) for ratio in ratios)
    within = sum(error < math.log(1.1) for error in errors)
    console.print(f"median error {math.expm1(statistics.median(errors)):.1%}; {within} of {len(errors)} within 10 %")


def _print_blocks(rows: Sequence[TimedBlock], roof: Roof, shares: Shares, console: Console) -> None:
    table = Table("block of", "tokens", "tensor", "fused", "timed (ms)", "predicted (ms)", "share of the peak, timed")
    for row in rows:
        table.add_row(
            row.model,
            str(row.tokens),
            str(row.tensor),
            "yes" if row.is_fused else "no",
            f"{row.iteration_s * 1e3:.2f}",
            f"{predicted_block_s(row, roof, shares) * 1e3:.2f}",
            f"{row.flops() / row.iteration_s / roof.flops_per_s:.1%}",
        )
    console.print(table)


def main() -> None:
    """Prints all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layers", type=Path, nargs="?", default=MEASURED / "h100_layers.csv")
    parser.add_argument("--models", type=Path, default=MEASURED / "h100_models.csv")
    parser.add_argument("--blocks", type=Path, default=MEASURED / "h100_decoder.csv")
    parser.add_argument("--peak", type=float, default=H100.flops_per_s, metavar="FLOP/s")
    parser.add_argument("--memory", type=float, default=H100.memory_bytes_per_s, metavar="BYTES/s")
    asked = parser.parse_args()
    roof, console = Roof(asked.peak, asked.memory), Console(highlight=False, width=120)
    shares = shares_of(timed_layers(asked.layers), roof, str(asked.layers))
    _print_table(shares, console)
    _print_models(timed_models(asked.models), roof, shares, console)
    _print_blocks(timed_blocks(asked.blocks), roof, shares, console)


if __name__ == "__main__":
    main()
