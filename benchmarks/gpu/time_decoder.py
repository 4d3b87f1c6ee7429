"""Times one block of a Llama 3 on one GPU of a tensor-parallel group: forward and backward pass, with fused kernels.

    python3 -m benchmarks.gpu.time_decoder > decoder.csv     # with PyTorch 2.5 or later; a minute on an H100

Weights are divided among the group as by Megatron, and normalisations and residual additions among its ranks by tokens
(sequence parallelism). What would be gathered and scattered is already there, so that messages cost nothing. Attention is
PyTorch's flash attention with a causal mask. Normalisations with the addition before them, rotary positions and the gate
are compiled to one kernel each, as libraries for such models have them (`fused` = 1), or left as PyTorch has them (0).
"""

from __future__ import annotations

import csv
import statistics
import sys
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional

GPU = "cuda"
HALF = torch.bfloat16
COLUMNS = ("model", "tokens", "tensor", "fused", "forward_s", "iteration_s")
WARM_UP, TIMED = 5, 40
"""Iterations: enough that the card's clocks are those of a training."""
HEAD = 128


class Shape(NamedTuple):
    """A block of a model."""

    model: str
    width: int
    heads: int
    kv_heads: int
    inner: int


SHAPES = (
    Shape("llama3-8b", 4096, 32, 8, 14336),
    Shape("llama3-70b", 8192, 64, 8, 28672),
    Shape("llama3-405b", 16384, 128, 8, 53248),
)
TOKENS, TENSOR = 8192, 8


class Gathered(torch.autograd.Function):  # type: ignore[misc]
    """A rank's tokens put among those of the others, which are there already. In the backward pass, its own gradient."""

    @staticmethod
    def forward(ctx: Any, own: Any, whole: Any) -> Any:
        """Copies the rank's part."""
        ctx.rows = len(own)
        whole[: len(own)].copy_(own)
        return whole.detach()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, None]:
        """Takes the rank's part."""
        return gradient[: ctx.rows].contiguous(), None


class Scattered(torch.autograd.Function):  # type: ignore[misc]
    """A rank's part of a sum. In the backward pass, the gradients of all parts, of which the others are there already."""

    @staticmethod
    def forward(ctx: Any, whole: Any, gradients: Any, rows: int) -> Any:
        """Takes the rank's part."""
        ctx.gradients, ctx.rows = gradients, rows
        return whole[:rows].contiguous()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, None, None]:
        """Copies the rank's part."""
        ctx.gradients[: ctx.rows].copy_(gradient)
        return ctx.gradients, None, None


def normed(x: Any, more: Any, weight: Any) -> tuple[Any, Any]:
    """The sum of both, and its RMS normalisation."""
    total = x + more
    wide = total.float()
    scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
    return total, scaled.to(HALF) * weight


def gated(both: Any) -> Any:
    """SwiGLU of two products side by side."""
    gate, up = both.chunk(2, dim=-1)
    return functional.silu(gate) * up


def rotated(heads: Any, cosine: Any, sine: Any) -> Any:
    """Rotary positions of [heads, tokens, features]."""
    first, second = heads.float().chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1).to(HALF)


class Block(nn.Module):  # type: ignore[misc]
    """What one rank of the group computes of a block."""

    def __init__(self, shape: Shape, *, fused: bool) -> None:
        super().__init__()
        self.heads, self.kv_heads = shape.heads // TENSOR, max(1, shape.kv_heads // TENSOR)
        inner = shape.inner // TENSOR
        self.products = nn.ModuleList(
            nn.Linear(inputs, outputs, bias=False, device=GPU, dtype=HALF)
            for inputs, outputs in (
                (shape.width, (self.heads + 2 * self.kv_heads) * HEAD),
                (self.heads * HEAD, shape.width),
                (shape.width, 2 * inner),
                (inner, shape.width),
            )
        )
        self.weights = nn.ParameterList(torch.ones(shape.width, device=GPU, dtype=HALF) for _ in range(2))
        angles = torch.outer(torch.arange(TOKENS), 500000.0 ** -(torch.arange(0, HEAD, 2) / HEAD))
        self.cosine, self.sine = angles.cos().to(GPU), angles.sin().to(GPU)
        self.buffers_of_others = [torch.randn(TOKENS, shape.width, device=GPU, dtype=HALF) for _ in range(4)]
        parts: tuple[Any, ...] = normed, gated, rotated
        self.parts = [torch.compile(part, dynamic=False) if fused else part for part in parts]

    def forward(self, x: Any, more: Any) -> tuple[Any, Any]:
        """The rank's tokens behind the block, and what is still to be added to them."""
        normalise, gate, rotate = self.parts
        into, out_of, up, down = self.products
        rows = len(x)
        x, y = normalise(x, more, self.weights[0])
        mixed = into(Gathered.apply(y, self.buffers_of_others[0]))
        q, k, v = (
            part.unflatten(-1, (-1, HEAD)).transpose(0, 1)
            for part in mixed.split([self.heads * HEAD, self.kv_heads * HEAD, self.kv_heads * HEAD], dim=-1)
        )
        q, k = rotate(q, self.cosine, self.sine), rotate(k, self.cosine, self.sine)
        attended: Any = functional.scaled_dot_product_attention(
            q[None], k[None], v[None], is_causal=True, enable_gqa=True
        )
        attended = attended[0].transpose(0, 1).reshape(TOKENS, -1)
        more = Scattered.apply(out_of(attended), self.buffers_of_others[1], rows)
        x, y = normalise(x, more, self.weights[1])
        inner = gate(up(Gathered.apply(y, self.buffers_of_others[2])))
        return x, Scattered.apply(down(inner), self.buffers_of_others[3], rows)


def timed(shape: Shape, *, fused: bool) -> tuple[float, float]:
    """Seconds of the forward pass, and of both passes: medians of iterations that follow one another."""
    block = Block(shape, fused=fused)
    x, more = (torch.randn(TOKENS // TENSOR, shape.width, device=GPU, dtype=HALF, requires_grad=True) for _ in range(2))
    gradients = [torch.randn_like(x), torch.randn_like(x)]
    moments = [[torch.cuda.Event(enable_timing=True) for _ in range(3)] for _ in range(WARM_UP + TIMED)]
    for begin, between, end in moments:
        for parameter in (*block.parameters(), x, more):
            parameter.grad = None
        begin.record()
        outputs = block(x, more)
        between.record()
        torch.autograd.backward(outputs, gradients)
        end.record()
    torch.cuda.synchronize()
    measured = moments[WARM_UP:]
    return (
        statistics.median(begin.elapsed_time(between) for begin, between, _ in measured) / 1e3,
        statistics.median(begin.elapsed_time(end) for begin, _, end in measured) / 1e3,
    )


def main() -> None:
    """Writes a row for each model with and without fused kernels, and what they were timed with as a comment."""
    print(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}")
    written = csv.writer(sys.stdout, lineterminator="\n")
    written.writerow(COLUMNS)
    for shape in SHAPES:
        for fused in (False, True):
            forward_s, iteration_s = timed(shape, fused=fused)
            written.writerow([shape.model, TOKENS, TENSOR, int(fused), f"{forward_s:.6g}", f"{iteration_s:.6g}"])
            sys.stdout.flush()
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
