"""Times iterations of whole models on one GPU: what `python -m benchmarks.layer_shares` compares its predictions with.

    python3 time_models.py > models.csv     # with PyTorch 2.5 or later, torchvision and transformers; minutes on an H100

Models are those of torchvision and transformers as they come, not compiled, with random weights; an iteration is a forward
and a backward pass without an optimiser. Image models run in autocast to bfloat16 with channels last, all others have
weights in bfloat16. The time of an iteration includes the host's, which launches kernels one by one; the time of the
kernels is the sum of what PyTorch's profiler reports.
"""

from __future__ import annotations

import csv
import statistics
import sys
from collections.abc import Callable
from typing import Any

import torch
import torchvision.models as images
from torch import nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

GPU = "cuda"
HALF = torch.bfloat16
COLUMNS = ("model", "batch", "tokens", "blocks", "kernels_s", "iteration_s")
WARM_UP, TIMED = 3, 8
"""Iterations."""
AUXILIARY_WEIGHT = 0.4
"""Of Inception's auxiliary loss (Szegedy et al. 2015)."""
BERT_WORDS = 30522
LLAMA3 = {"vocab_size": 128256, "num_key_value_heads": 8, "use_cache": False}
Loss = Callable[[], Any]


def timed(loss: Loss, parameters: list[Any]) -> tuple[float, float]:
    """Seconds of an iteration's kernels, and of the whole iteration (the median)."""

    def iterate() -> None:
        for parameter in parameters:
            parameter.grad = None
        loss().backward()

    for _ in range(WARM_UP):
        iterate()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    iterations_s = []
    for _ in range(TIMED):
        start.record()
        iterate()
        end.record()
        torch.cuda.synchronize()
        iterations_s.append(start.elapsed_time(end) / 1e3)
    with profile(activities=[ProfilerActivity.CUDA]) as watched:
        iterate()
        torch.cuda.synchronize()
    kernels_s = sum(event.self_device_time_total for event in watched.key_averages()) / 1e6
    return kernels_s, statistics.median(iterations_s)


def image_model(make: Callable[[], Any], batch: int, side: int = 224) -> tuple[float, float]:
    """An image model; a second output of Inception's counts as its auxiliary loss."""
    made = make().to(GPU).to(memory_format=torch.channels_last)
    x = torch.randn(batch, 3, side, side, device=GPU).to(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (batch,), device=GPU)

    def loss() -> Any:
        with torch.autocast("cuda", dtype=HALF):
            y = made(x)
            if isinstance(y, torch.Tensor):
                return functional.cross_entropy(y.float(), labels)
            main = functional.cross_entropy(y.logits.float(), labels)
            return main + AUXILIARY_WEIGHT * functional.cross_entropy(y.aux_logits.float(), labels)

    return timed(loss, list(made.parameters()))


def vision_transformer(batch: int) -> tuple[float, float]:
    """ViT-L/16."""
    made = images.vit_l_16().to(GPU).to(HALF)
    x = torch.randn(batch, 3, 224, 224, device=GPU, dtype=HALF)
    labels = torch.randint(0, 1000, (batch,), device=GPU)
    return timed(lambda: functional.cross_entropy(made(x).float(), labels), list(made.parameters()))


class Bert(nn.Module):  # type: ignore[misc]
    """BERT with the heads of pre-training, which predict the masked tokens only."""

    def __init__(self, blocks: int, width: int) -> None:
        super().__init__()
        shape = {"hidden_size": width, "num_hidden_layers": blocks, "num_attention_heads": width // 64}
        self.encoder = BertModel(BertConfig(**shape, intermediate_size=4 * width))
        self.dense, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.bias = nn.Parameter(torch.zeros(BERT_WORDS))
        self.next_sentence = nn.Linear(width, 2)

    def forward(self, tokens: Any, masked: Any) -> tuple[Any, Any]:
        """Logits of the masked tokens' words, and of the next sentence."""
        encoded = self.encoder(input_ids=tokens)
        hidden = encoded.last_hidden_state
        chosen = hidden.gather(1, masked[..., None].expand(-1, -1, hidden.shape[-1]))
        words = self.encoder.embeddings.word_embeddings.weight
        predicted = functional.linear(self.norm(functional.gelu(self.dense(chosen))), words, self.bias)
        return predicted, self.next_sentence(encoded.pooler_output)


def bert(blocks: int, width: int, batch: int, tokens: int, masked: int) -> tuple[float, float]:
    """BERT's pre-training on sequences of `tokens`, of which `masked` are predicted."""
    made = Bert(blocks, width).to(GPU).to(HALF)
    read = torch.randint(0, BERT_WORDS, (batch, tokens), device=GPU)
    where = torch.randint(0, tokens, (batch, masked), device=GPU)
    words = torch.randint(0, BERT_WORDS, (batch * masked,), device=GPU)
    follows = torch.randint(0, 2, (batch,), device=GPU)

    def loss() -> Any:
        predicted, following = made(read, where)
        return functional.cross_entropy(predicted.flatten(0, 1).float(), words) + functional.cross_entropy(
            following.float(), follows
        )

    return timed(loss, list(made.parameters()))


def language_model(make: Callable[[], Any], words: int, batch: int, tokens: int) -> tuple[float, float]:
    """A model that predicts each next token."""
    with torch.device(GPU):  # random weights are made there quickly
        made = make().to(HALF)
    read = torch.randint(0, words, (batch, tokens), device=GPU)
    return timed(lambda: made(input_ids=read, labels=read).loss, list(made.parameters()))


def gpt2_xl(batch: int) -> tuple[float, float]:
    """GPT-2 with 48 blocks."""
    shape = GPT2Config(n_layer=48, n_embd=1600, n_head=25, n_positions=1024)
    return language_model(lambda: GPT2LMHeadModel(shape), 50000, batch, 1024)


def llama3(width: int, blocks: int, batch: int, tokens: int) -> tuple[float, float]:
    """The first blocks of Llama 3 8B (4,096 wide) or 70B (8,192 wide)."""
    shape = LlamaConfig(
        hidden_size=width,
        num_hidden_layers=blocks,
        num_attention_heads=width // 128,
        intermediate_size=width * 7 // 2,
        max_position_embeddings=tokens,
        **LLAMA3,
    )
    return language_model(lambda: LlamaForCausalLM(shape), LLAMA3["vocab_size"], batch, tokens)


MODELS: tuple[tuple[str, int, int, int, Callable[[], tuple[float, float]]], ...] = (
    ("resnet50-torchvision", 256, 0, 0, lambda: image_model(images.resnet50, 256)),
    ("resnet50-torchvision", 64, 0, 0, lambda: image_model(images.resnet50, 64)),
    ("resnet101-torchvision", 128, 0, 0, lambda: image_model(images.resnet101, 128)),
    ("resnet101-torchvision", 64, 0, 0, lambda: image_model(images.resnet101, 64)),
    ("resnext50", 128, 0, 0, lambda: image_model(images.resnext50_32x4d, 128)),
    ("resnext101", 64, 0, 0, lambda: image_model(images.resnext101_32x8d, 64)),
    ("vgg16", 128, 0, 0, lambda: image_model(images.vgg16, 128)),
    ("vgg16", 32, 0, 0, lambda: image_model(images.vgg16, 32)),
    ("vgg19", 64, 0, 0, lambda: image_model(images.vgg19, 64)),
    (
        "inception-v3-with-head",
        128,
        0,
        0,
        lambda: image_model(lambda: images.inception_v3(init_weights=False), 128, 299),
    ),
    ("vit-l16", 64, 0, 0, lambda: vision_transformer(64)),
    ("bert-base", 64, 0, 0, lambda: bert(12, 768, 64, 128, 20)),
    ("bert-large", 16, 0, 0, lambda: bert(24, 1024, 16, 512, 77)),
    ("gpt2-xl", 4, 0, 0, lambda: gpt2_xl(4)),
    ("llama3-8b", 1, 8192, 8, lambda: llama3(4096, 8, 1, 8192)),
    ("llama3-8b", 1, 8192, 4, lambda: llama3(4096, 4, 1, 8192)),
    ("llama3-8b", 4, 2048, 8, lambda: llama3(4096, 8, 4, 2048)),
    ("llama3-70b", 1, 8192, 2, lambda: llama3(8192, 2, 1, 8192)),
)
"""Name, batch, tokens of a sample and blocks as gradwire says them, 0 for the model's own; and what times it."""


def main() -> None:
    """Writes a row for each model, and what it was timed with as a comment."""
    torch.backends.cudnn.benchmark = True
    print(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}")
    written = csv.writer(sys.stdout, lineterminator="\n")
    written.writerow(COLUMNS)
    for name, batch, tokens, blocks, measure in MODELS:
        kernels_s, iteration_s = measure()
        written.writerow([name, batch, tokens, blocks, f"{kernels_s:.6g}", f"{iteration_s:.6g}"])
        sys.stdout.flush()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
