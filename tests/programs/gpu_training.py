"""Run by tests as a rank: trains a small model by the way that is named, and prints its losses over the whole batch."""

# mypy: ignore-errors

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

way = sys.argv[1]
torch.cuda.set_device(0)
dist.init_process_group("nccl")
rank, ranks = dist.get_rank(), dist.get_world_size()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(32, 128), nn.LayerNorm(32), nn.Linear(128, 32)

    def forward(self, x):
        return checkpoint(lambda: self.norm(x + self.second(torch.relu(self.first(x)))), use_reentrant=False)


torch.manual_seed(0)
model = Net().cuda()
if way == "ddp":
    model = DistributedDataParallel(model, device_ids=[0])
elif way == "fsdp":
    fully_shard(model)
elif way == "tensor":
    mesh = init_device_mesh("cuda", (ranks,))
    parallelize_module(model, mesh, {"first": ColwiseParallel(), "second": RowwiseParallel()})
optimizer = torch.optim.AdamW(
    model.parameters(), lr=1e-2, foreach=way != "tensor"
)  # PyTorch does not mix DTensor and Tensor
inputs, targets = torch.randn(2, 64, 32)
share = slice(None) if way in ("alone", "tensor") else slice(rank * 64 // ranks, (rank + 1) * 64 // ranks)
inputs, targets = inputs[share].to("cuda", non_blocking=True), targets[share].cuda()
scaler = torch.amp.GradScaler("cuda", enabled=way in ("alone", "ddp"))
for _ in range(4):
    with torch.autocast("cuda", enabled=False):
        loss = nn.functional.mse_loss(model(inputs), targets)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    if way != "tensor":
        nn.utils.clip_grad_norm_(model.parameters(), 1e3)  # which is more than there is
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    shown = loss.detach()
    if way in ("ddp", "fsdp"):
        dist.all_reduce(shown, op=dist.ReduceOp.AVG)
    print(f"{shown.item():.7f}")
dist.destroy_process_group()
