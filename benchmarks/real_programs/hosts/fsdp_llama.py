"""Trains a small transformer of Llama's kind by FSDP2 over Gloo; the first rank prints what an iteration takes."""

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy, scaled_dot_product_attention, silu

WIDTH, HIDDEN, HEADS, BLOCKS, WORDS, LENGTH = 512, 1408, 8, 4, 4096, 16
WARMUP, ITERATIONS = 1, 3


class Block(nn.Module):  # type: ignore[misc]
    """Attention, and a gated layer behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.RMSNorm(WIDTH) for _ in range(2)])
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate, self.up = (nn.Linear(WIDTH, HIDDEN, bias=False) for _ in range(2))
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block's output, of the same shape."""
        parts = self.qkv(self.norms[0](x)).unflatten(-1, (3 * HEADS, -1)).transpose(1, 2).chunk(3, dim=1)
        attention = scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(attention.transpose(1, 2).flatten(2))
        y = self.norms[1](x)
        return x + self.down(silu(self.gate(y)) * self.up(y))


def main() -> None:
    """Trains, and prints."""
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    blocks = [Block() for _ in range(BLOCKS)]
    model = nn.Sequential(nn.Embedding(WORDS, WIDTH), *blocks, nn.RMSNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False))
    size_bytes = sum(each.numel() * each.element_size() for each in model.parameters())
    for each in (*blocks, model):
        fully_shard(each)
    optimizer = torch.optim.AdamW(model.parameters())
    words = torch.randint(WORDS, (1, LENGTH + 1))
    for iteration in range(WARMUP + ITERATIONS):
        if iteration == WARMUP:
            dist.barrier()
            begin_s = time.monotonic()
        loss = cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.barrier()
    if dist.get_rank() == 0:
        print(f"{size_bytes} bytes of parameters, loss {loss.item():.4f}")
        print("RESULT iteration", (time.monotonic() - begin_s) / ITERATIONS)
    dist.destroy_process_group()


main()
