"""PyTorch's all-reduce of BYTES over Gloo, over and over: `allreduce.py BYTES REPETITIONS`, in the ranks of a torch
launch.

The first rank reports, for each repetition, the slowest rank's time, and that time over a ring's ideal (Patarasuk and
Yuan, JPDC 2009): every host sends 2(n-1)/n of the bytes, at what TCP can carry of its line.
"""

from __future__ import annotations

import json
import os
import sys
import time

import torch
import torch.distributed as dist


def main() -> None:
    """Reduces and reports."""
    size_bytes, repetitions = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    ranks = dist.get_world_size()
    ideal_s = 2 * (ranks - 1) / ranks * size_bytes * 8 / float(os.environ["GRADWIRE_PAYLOAD_BPS"])
    gradients = torch.ones(size_bytes // 4)
    with open(os.environ["GRADWIRE_FIGURES"], "a") as figures:
        for _ in range(repetitions):
            gradients.fill_(1)
            dist.barrier()
            begin_s = time.perf_counter()
            dist.all_reduce(gradients)
            slowest_s = torch.tensor([time.perf_counter() - begin_s], dtype=torch.float64)
            dist.all_reduce(slowest_s, op=dist.ReduceOp.MAX)
            if not bool((gradients == ranks).all()):
                sys.exit("the sums are wrong")
            if dist.get_rank() == 0:
                row = {"size_bytes": size_bytes, "time_s": slowest_s.item(), "ratio": slowest_s.item() / ideal_s}
                print(json.dumps(row), file=figures)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
