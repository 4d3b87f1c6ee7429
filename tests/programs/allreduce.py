"""PyTorch's all-reduce of BYTES, `allreduce.py BYTES REPETITIONS`: the first rank prints the slowest rank's seconds of each as JSON."""

from __future__ import annotations

import json
import sys
import time

import torch
import torch.distributed as dist


def main() -> None:
    """Reduces over and over."""
    size_bytes, repetitions = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    gradients, took_s = torch.ones(size_bytes // 4), []
    for _ in range(repetitions):
        gradients.fill_(1)
        dist.barrier()
        begin_s = time.perf_counter()
        dist.all_reduce(gradients)
        slowest_s = torch.tensor([time.perf_counter() - begin_s], dtype=torch.float64)
        dist.all_reduce(slowest_s, op=dist.ReduceOp.MAX)
        took_s.append(slowest_s.item())
        if not bool((gradients == dist.get_world_size()).all()):
            sys.exit("the sums are wrong")
    if dist.get_rank() == 0:
        print(json.dumps(took_s))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
