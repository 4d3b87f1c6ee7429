"""An ordinary DDP script for GPUs, which `gradwire exec --gpus` runs without one (docs/gpus.md, "Your GPU script").

    gradwire exec --workers 2 --rate 25gbit --gpus 1 --launch torch -- python3 examples/ddp_on_gpus.py

It names nothing of gradwire. Times are those of CUDA events: of iterations, and of ones in which ranks do not talk (`no_sync`).
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def iteration_ms(model, optimizer, inputs, targets):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end), loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--iterations", type=int, default=4)
    parser.add_argument("--bucket-mb", type=int, default=25)
    given = parser.parse_args()

    dist.init_process_group(backend="nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(given.width, given.width, bias=False) for _ in range(given.layers))).cuda()
    model = DistributedDataParallel(model, device_ids=[torch.cuda.current_device()], bucket_cap_mb=given.bucket_mb)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    torch.manual_seed(1 + dist.get_rank())
    inputs = torch.randn(given.batch, given.width, device="cuda")
    targets = torch.randn(given.batch, given.width, device="cuda")

    dist.barrier()
    with model.no_sync():
        alone_ms, _ = iteration_ms(model, optimizer, inputs, targets)
    dist.barrier()
    times = [iteration_ms(model, optimizer, inputs, targets) for _ in range(given.iterations)]
    if dist.get_rank() == 0:
        megabytes = sum(each.numel() * each.element_size() for each in model.parameters()) / 1e6
        print(f"{megabytes:.1f} MB of gradients; computing alone {alone_ms:.3f} ms")
        for number, (time_ms, loss) in enumerate(times):
            print(f"iteration {number}: {time_ms:.3f} ms, loss {loss:.6f}")
        print(f"memory {torch.cuda.max_memory_allocated() / 2**20:.1f} MiB")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
