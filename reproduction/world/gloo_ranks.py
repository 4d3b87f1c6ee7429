"""One call of a torch.distributed collective over Gloo, over and over, as the ranks of a torch launch.

`gloo_ranks.py COLLECTIVE MIB CALLS NETEM PAUSE`: COLLECTIVE is p2p, all-reduce, broadcast or reduce, MIB the size of the
tensor of float32, and NETEM the words of a tc netem, such as "delay 10ms rate 1gbit limit 1250", which this host's port
gets first; "none" for none. PAUSE is for how many seconds a rank does something else before each call, after which comes
a barrier. The first rank reports the time of the slowest rank, call by call.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

BAND = "1:1"
"""Where programs' packets wait in a host's port. netem takes the place of the queue there, above the shaper of the line."""


def call(collective: str, values: torch.Tensor) -> None:
    """Calls a collective once."""
    if collective == "p2p":
        dist.send(values, 1) if dist.get_rank() == 0 else dist.recv(values, 0)
    elif collective == "all-reduce":
        dist.all_reduce(values)
    elif collective == "broadcast":
        dist.broadcast(values, 0)
    elif collective == "reduce":
        dist.reduce(values, 0)
    else:
        sys.exit(f"{collective}: must be p2p, all-reduce, broadcast or reduce")


def change_port(netem: str) -> None:
    """Gives this host's port a netem."""
    interface = f"{socket.gethostname()}-eth0"
    subprocess.run(["tc", "qdisc", "replace", "dev", interface, "parent", BAND, "netem", *netem.split()], check=True)


def main() -> None:
    """Calls and reports."""
    collective, mebibytes, calls, netem, pause_s = (
        sys.argv[1],
        int(sys.argv[2]),
        int(sys.argv[3]),
        sys.argv[4],
        float(sys.argv[5]),
    )
    torch.set_num_threads(1)
    if netem != "none":
        change_port(netem)
    dist.init_process_group("gloo")
    values = torch.ones(mebibytes * (1 << 20) // 4)
    with Path(os.environ["GRADWIRE_FIGURES"]).open("a") as figures:
        for number in range(calls):
            values.fill_(1)
            time.sleep(pause_s)
            dist.barrier()
            begin_s = time.perf_counter()
            call(collective, values)
            slowest_s = torch.tensor([time.perf_counter() - begin_s], dtype=torch.float64)
            dist.all_reduce(slowest_s, op=dist.ReduceOp.MAX)
            if dist.get_rank() == 0:
                print(json.dumps({"call": number, "time_s": slowest_s.item()}), file=figures)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
