"""Times layers of each kind on one GPU: what `python -m benchmarks.layer_shares` makes a device's table of shares from.

    python3 time_layers.py > layers.csv     # on a machine with a GPU and PyTorch 2.5 or later; a minute on an H100

Everything is in bfloat16, images are channels-last, and no kernels are fused. Tensors are taken in turn from as many
copies as fill the caches several times, since a training finds its activations in memory, and not in a cache. A kernel
that only waits goes first, so that launches run ahead of the GPU and the host's time is not counted.
"""

# ruff: noqa: B023 (closures over a loop's variables run before the loop goes on)

from __future__ import annotations

import csv
import math
import statistics
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional

GPU = "cuda"
HALF = torch.bfloat16
CACHED_BYTES = 200e6
"""More than the level-2 cache of any GPU so far (H100: 50 MB)."""
COLUMNS = ("kind", "shape", "flops", "bytes", "elements", "forward_s", "backward_s")
IMAGES = 128
CONVOLUTIONS = (
    # channels in and out, window, side of the image, stride: those of ResNets, VGG, AlexNet and Inception
    *((64, 64, 1, 56, 1), (64, 256, 1, 56, 1), (256, 64, 1, 56, 1), (64, 64, 3, 56, 1), (128, 128, 3, 28, 1)),
    *((128, 512, 1, 28, 1), (512, 128, 1, 28, 1), (256, 256, 3, 14, 1), (256, 1024, 1, 14, 1), (1024, 256, 1, 14, 1)),
    *((512, 512, 3, 7, 1), (512, 2048, 1, 7, 1), (2048, 512, 1, 7, 1), (256, 512, 1, 56, 2), (128, 128, 3, 56, 2)),
    *((64, 64, 3, 224, 1), (128, 128, 3, 112, 1), (256, 256, 3, 56, 1), (512, 512, 3, 28, 1), (512, 512, 3, 14, 1)),
    *((64, 128, 3, 112, 1), (192, 192, 3, 28, 1), (96, 256, 5, 27, 1), (384, 384, 3, 13, 1), (32, 32, 3, 112, 1)),
    *((96, 96, 3, 35, 1), (768, 192, 1, 17, 1), (192, 192, 3, 17, 1), (1024, 1024, 3, 7, 1)),
)
ROWS = (512, 2048, 8192, 32768)
WIDTHS = (
    *((256, 256), (768, 768), (768, 3072), (1024, 1024), (1024, 4096)),
    *((2048, 2048), (4096, 4096), (4096, 14336), (8192, 8192), (4096, 1024)),
)
"""Features in and out of a matrix product."""
ATTENTION = (
    # samples, heads, heads of keys and values, tokens, features of a head, causal
    *((32, 12, 12, 128, 64, False), (64, 16, 16, 128, 64, False), (16, 16, 16, 512, 64, False)),
    *((8, 16, 16, 512, 64, True), (8, 12, 12, 1024, 64, True), (4, 32, 32, 2048, 128, False)),
    *((4, 32, 32, 2048, 128, True), (2, 64, 8, 4096, 128, True), (1, 32, 8, 8192, 128, True)),
)
IMAGE_ELEMENTS = ((64, 112), (256, 56), (512, 28))
"""Channels, and side of the image."""
POOLS = ((64, 224, 2, 2, 0), (128, 112, 2, 2, 0), (512, 28, 2, 2, 0), (64, 112, 3, 2, 1), (192, 35, 3, 1, 1))
"""Channels, side of the image, window, stride, padding."""
SEQUENCES = ((8192, 4096), (32768, 1024), (4096, 8192))
"""Tokens and features."""
VOCABULARIES = ((8192, 32000), (4096, 128256))
EMBEDDINGS = ((30522, 768, 8192), (128256, 4096, 8192))
"""Words, features, tokens."""

Row = tuple[str, str, float, float, float, float, float]


def seconds(call: Callable[[int], Any], copies: int) -> float:
    """Median of three means of a call's time on the GPU; `call` is given the number of a copy."""
    for copy in range(copies):
        call(copy)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    call(0)
    end.record()
    torch.cuda.synchronize()
    calls = max(copies, min(200, int(30 / max(1e-3, start.elapsed_time(end)))))
    means: list[float] = []
    for _ in range(3):
        torch.cuda._sleep(4_000_000)  # clocks; the host launches meanwhile
        start.record()
        for number in range(calls):
            call(number % copies)
        end.record()
        torch.cuda.synchronize()
        means.append(start.elapsed_time(end) / 1e3 / calls)
    return statistics.median(means)


def copies_of(size_bytes: float) -> int:
    """Copies that no cache holds at once."""
    return max(1, min(16, math.ceil(CACHED_BYTES / size_bytes)))


def numbers(*shape: int) -> Any:
    """Random numbers, because a GPU runs faster on zeros."""
    return torch.randn(*shape, device=GPU, dtype=HALF)


def image(channels: int, side: int) -> Any:
    """A batch of random images."""
    return numbers(IMAGES, channels, side, side).to(memory_format=torch.channels_last)


def convolutions() -> Iterator[Row]:
    """Convolutions without biases."""
    backward = torch.ops.aten.convolution_backward
    for inputs, outputs, window, side, stride in CONVOLUTIONS:
        padding = window // 2
        x, weights = image(inputs, side), numbers(outputs, inputs, window, window).to(memory_format=torch.channels_last)
        y = functional.conv2d(x, weights, stride=stride, padding=padding)
        size_bytes = 2.0 * (x.numel() + y.numel() + weights.numel())
        copies = copies_of(size_bytes)
        xs, gradients = ([torch.randn_like(t) for _ in range(copies)] for t in (x, y))

        def forward_of(copy: int) -> Any:
            return functional.conv2d(xs[copy], weights, stride=stride, padding=padding)

        def backward_of(copy: int) -> Any:
            sides = (stride, stride), (padding, padding), (1, 1)
            return backward(gradients[copy], xs[copy], weights, None, *sides, False, (0, 0), 1, (True, True, False))

        flops = 2.0 * weights.numel() * y.numel() / outputs
        shape = f"{inputs}-{outputs} {window}x{window}/{stride} on {side}"
        yield "conv", shape, flops, size_bytes, y.numel(), seconds(forward_of, copies), seconds(backward_of, copies)


def products() -> Iterator[Row]:
    """Matrix products, and those of their two gradients."""
    for rows in ROWS:
        for inputs, outputs in WIDTHS:
            size_bytes = 2.0 * (rows * inputs + rows * outputs + inputs * outputs)
            copies = copies_of(size_bytes)
            xs = [numbers(rows, inputs) for _ in range(copies)]
            weights = [numbers(outputs, inputs) for _ in range(copies)]
            gradients = [numbers(rows, outputs) for _ in range(copies)]
            forward_s = seconds(lambda c: xs[c] @ weights[c].t(), copies)
            backward_s = seconds(lambda c: gradients[c] @ weights[c], copies)
            backward_s += seconds(lambda c: gradients[c].t() @ xs[c], copies)
            flops = 2.0 * rows * inputs * outputs
            yield "product", f"{rows}x{inputs}x{outputs}", flops, size_bytes, rows * outputs, forward_s, backward_s


def scores() -> Iterator[Row]:
    """Attention's scores and weighted sums, all pairs counted."""
    for samples, heads, key_heads, tokens, features, causal in ATTENTION:
        query = numbers(samples, heads, tokens, features).requires_grad_()
        key, value = (numbers(samples, key_heads, tokens, features).requires_grad_() for _ in range(2))

        def attend(_: int) -> Any:
            return functional.scaled_dot_product_attention(
                query,
                key,
                value,
                is_causal=causal,
                enable_gqa=key_heads != heads,
            )

        summed = attend(0)
        gradient = torch.randn_like(summed)
        backward_s = seconds(
            lambda _: torch.autograd.grad(summed, (query, key, value), gradient, retain_graph=True),
            1,
        )
        flops = 4.0 * samples * heads * tokens * tokens * features
        size_bytes = 2.0 * samples * tokens * features * (2 * heads + 2 * key_heads)
        shape = f"{samples}x{tokens} tokens, {heads}/{key_heads} heads of {features}{', causal' if causal else ''}"
        yield "scores", shape, flops, size_bytes, summed.numel(), seconds(attend, 1), backward_s


def layer(kind: str, shape: str, elements: float, made: Callable[[Any], Any], x: Any, parameters: Any = ()) -> Row:
    """A layer's forward and backward pass on `x`; elements: those by which its passes are counted."""
    copies = copies_of(4.0 * x.numel())
    xs = [x.detach().clone().requires_grad_() for _ in range(copies)]
    forward_s = seconds(lambda c: made(xs[c]), copies)
    ys = [made(each) for each in xs]
    gradients = [torch.randn_like(y) for y in ys]
    backward_s = seconds(
        lambda c: torch.autograd.grad(ys[c], [xs[c], *parameters], gradients[c], retain_graph=True), copies
    )
    return kind, shape, 0.0, 0.0, elements, forward_s, backward_s


def image_layers() -> Iterator[Row]:
    """Normalisations, ReLUs and additions of images; poolings, by how often their windows read a number."""
    for channels, side in IMAGE_ELEMENTS:
        x, shape = image(channels, side), f"{channels} channels, {side}"
        norm = nn.BatchNorm2d(channels).to(GPU)
        other = torch.randn_like(x)
        yield layer("batch-norm", shape, x.numel(), norm, x, tuple(norm.parameters()))
        yield layer("relu", shape, x.numel(), functional.relu, x)
        yield layer("add", shape, x.numel(), lambda t: t + other, x)
    for channels, side, window, stride, padding in POOLS:
        x = image(channels, side)
        reads = x.numel() * (window / stride) ** 2
        shape = f"{channels} channels, {side}, {window}x{window}/{stride}"
        yield layer("pool", shape, reads, nn.MaxPool2d(window, stride, padding), x)
    for channels, side in ((128, 112), (256, 56), (512, 28)):
        x = image(channels, side)
        plain = nn.Conv2d(channels, channels, 3, padding=1, bias=False).to(GPU, HALF)
        biased = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1).to(GPU, HALF), nn.ReLU())
        for kind, made in (("conv-plain", plain), ("conv-bias-relu", biased)):
            made.to(memory_format=torch.channels_last)
            yield layer(kind, f"{channels} channels, {side}", x.numel(), made, x, tuple(made.parameters()))


def sequence_layers() -> Iterator[Row]:
    """Normalisations and element-wise functions of sequences, embeddings, and the loss."""
    for tokens, width in SEQUENCES:
        x, shape = numbers(tokens, width), f"{tokens}x{width}"
        for kind, norm in (("layer-norm", nn.LayerNorm(width)), ("rms-norm", nn.RMSNorm(width))):
            norm.to(GPU, HALF)
            yield layer(kind, shape, x.numel(), norm, x, tuple(norm.parameters()))
        bias = numbers(width).requires_grad_()
        yield layer("gelu", shape, x.numel(), functional.gelu, x)
        yield layer("dropout", shape, x.numel(), lambda t: functional.dropout(t, 0.1), x)
        yield layer("bias", shape, x.numel(), lambda t: t + bias, x, (bias,))
    for tokens, words in VOCABULARIES:
        x, labels = numbers(tokens, words), torch.randint(0, words, (tokens,), device=GPU)
        yield layer("loss", f"{tokens}x{words}", x.numel(), lambda t: functional.cross_entropy(t.float(), labels), x)
    for words, width, tokens in EMBEDDINGS:
        table, chosen = nn.Embedding(words, width).to(GPU, HALF), torch.randint(0, words, (tokens,), device=GPU)
        looked_up = table(chosen)
        gradient = torch.randn_like(looked_up)
        forward_s = seconds(lambda _: table(chosen), 1)
        backward_s = seconds(
            lambda _: torch.autograd.grad(looked_up, [table.weight], gradient, retain_graph=True),
            1,
        )
        yield "embedding", f"{words}x{width}, {tokens} tokens", 0.0, 0.0, looked_up.numel(), forward_s, backward_s


def main() -> None:
    """Writes a row for each layer, and what it was timed with as a comment."""
    torch.backends.cudnn.benchmark = True
    name, cudnn = torch.cuda.get_device_name(), torch.backends.cudnn.version()
    print(f"# {name}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {cudnn}")
    written = csv.writer(sys.stdout, lineterminator="\n")
    written.writerow(COLUMNS)
    for rows in (convolutions, products, scores, image_layers, sequence_layers):
        for row in rows():
            written.writerow([f"{value:.6g}" if isinstance(value, float | int) else value for value in row])
            sys.stdout.flush()


if __name__ == "__main__":
    main()
