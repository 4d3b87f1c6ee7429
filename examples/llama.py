"""Training of a Llama-like model, with DDP or FSDP2, as it runs under torchrun on GPUs or, with Gloo, on CPUs.

    gradwire record --world-size 1024 --device h100 -- python examples/llama.py --parallel fsdp --size 8b

records what it would communicate on 1,024 GPUs, on one CPU (docs/recording.md).
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

SIZES = {  # layers, width, heads, heads of keys and values, width of the feed-forward layer, vocabulary
    "tiny": (4, 256, 8, 4, 688, 2048),
    "1b": (16, 2048, 32, 8, 8192, 128256),
    "8b": (32, 4096, 32, 8, 14336, 128256),
}

arguments = argparse.ArgumentParser()
arguments.add_argument("--parallel", choices=["ddp", "fsdp"], default="ddp")
arguments.add_argument("--size", choices=SIZES, default="tiny")
arguments.add_argument("--batch", type=int, default=1, help="sequences of a rank")
arguments.add_argument("--tokens", type=int, default=128, help="of a sequence")
arguments.add_argument("--iterations", type=int, default=1000)
arguments.add_argument("--bf16", action="store_true", help="FSDP: parameters and gradients travel as bfloat16")
chosen = arguments.parse_args()
layers, width, heads, key_heads, inner, vocabulary = SIZES[chosen.size]
head = width // heads


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(width, heads * head, bias=False)
        self.key = nn.Linear(width, key_heads * head, bias=False)
        self.value = nn.Linear(width, key_heads * head, bias=False)
        self.out = nn.Linear(heads * head, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, _ = x.shape
        query = self.query(x).view(batch, tokens, heads, head).transpose(1, 2)
        key = self.key(x).view(batch, tokens, key_heads, head).transpose(1, 2)
        value = self.value(x).view(batch, tokens, key_heads, head).transpose(1, 2)
        key, value = (part.repeat_interleave(heads // key_heads, dim=1) for part in (key, value))
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, heads * head))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.norm1, self.norm2 = Attention(), nn.RMSNorm(width), nn.RMSNorm(width)
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


gpu = torch.cuda.is_available()
dist.init_process_group("nccl" if gpu else "gloo")
device = f"cuda:{os.environ['LOCAL_RANK']}" if gpu else "cpu"
torch.manual_seed(0)
with torch.device(device):
    model: nn.Module = Llama()
if dist.get_rank() == 0:
    print(f"{sum(parameter.numel() for parameter in model.parameters()):,} parameters", flush=True)
if chosen.parallel == "ddp":
    model = DistributedDataParallel(model)
else:
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16) if chosen.bf16 else MixedPrecisionPolicy()
    mesh = dist.init_device_mesh("cuda" if gpu else "cpu", (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

for iteration in range(chosen.iterations):
    tokens = torch.randint(vocabulary, (chosen.batch, chosen.tokens + 1), device=device)
    logits = model(tokens[:, :-1])
    loss = functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if dist.get_rank() == 0 and iteration % 10 == 0:
        print(f"iteration {iteration}: loss {loss.item():.3f}", flush=True)
dist.destroy_process_group()
