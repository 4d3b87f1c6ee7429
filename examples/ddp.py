"""Data-parallel training with PyTorch's DistributedDataParallel, as it runs anywhere, and two lines that make it take
a device's time.

    gradwire exec --workers 8 --rate 25gbit --memory 8G --launch torch -- python3 examples/ddp.py

Prints the time of each iteration on the virtual clock. Each worker is given one image, so that the real computation is
quick, and takes the time of 32 on the device.
"""

import argparse
import json
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from gradwire.devices import takes_time_of  # the first of the two lines

arguments = argparse.ArgumentParser()
arguments.add_argument("--device", default="v100", help="one of `gradwire devices`")
arguments.add_argument("--iteration-s", type=float, help="seconds of an iteration's computation, in place of a device")
arguments.add_argument("--layers", type=int, default=10, help="convolutions with 3.7 MB of parameters each")
arguments.add_argument("--image", type=int, default=14, help="height and width of the images")
arguments.add_argument("--bucket-mb", type=float, default=25, help="MiB of gradients that are reduced together")
arguments.add_argument("--iterations", type=int, default=6)
chosen = arguments.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)
dist.init_process_group("gloo")

layers = [nn.Sequential(nn.Conv2d(320, 320, 3, padding=1, bias=False), nn.ReLU()) for _ in range(chosen.layers)]
model = nn.Sequential(*layers)
device = None if chosen.iteration_s else chosen.device
takes_time_of(model, device, batch=32, iteration_s=chosen.iteration_s)  # and the second

parallel = DistributedDataParallel(model, bucket_cap_mb=chosen.bucket_mb)
optimizer = torch.optim.SGD(parallel.parameters(), lr=1e-3)
images = torch.randn(1, 320, chosen.image, chosen.image)

dist.barrier()
begin_s = time.perf_counter()
for iteration in range(chosen.iterations):
    optimizer.zero_grad()
    parallel(images).square().mean().backward()
    optimizer.step()
    end_s = time.perf_counter()
    if dist.get_rank() == 0:
        print(f"iteration {iteration}: {end_s - begin_s:.9f} s", flush=True)
        if "GRADWIRE_FIGURES" in os.environ:  # for a scenario's figures.csv
            with open(os.environ["GRADWIRE_FIGURES"], "a") as figures:
                print(json.dumps({"iteration": iteration, "iteration_s": end_s - begin_s}), file=figures)
    begin_s = end_s
dist.barrier()
dist.destroy_process_group()
