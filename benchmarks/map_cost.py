"""What a map costs: 7 strategies of ResNet-50 on V100 servers over 20 rates and 10 numbers of workers, 4 to 64.

    .venv/bin/python benchmarks/map_cost.py [--out FOLDER] [--workers N,N,...] [--strategies NAME,...] [MORE OF gradwire map]

Prints what `gradwire map` prints, and its CPU seconds with those of its processes, which is what counts where other
programs run as well. What follows the options of this benchmark is given to `gradwire map`, such as `--measure 20`.

The ring reduces one tensor after the other, as the other all-reduces do. NetOps' ring has all tensors under way at once
and ends with a barrier, halving and doubling has parts that differ by a value, and P3 has messages overtake others: of
all three, every message of every rank is followed. They are left out here, and `--strategies ddp,p3` says what one costs.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

SCENARIO = """title = "ResNet-50 on V100 servers: which strategy on which network?"
[cluster]
workers = 4
[fabric]
rate = "10gbit"
[model]
name = "resnet50"
device = "v100"
[strategy]
name = "kvstore"
[sweep]
strategy = [
    {name = "kvstore"},
    {name = "tictac"},
    {name = "ring", options = {concurrent = false, forward_waits = "all"}},
    {name = "layer-allreduce"},
    {name = "double-tree"},
    {name = "ddp"},
    {name = "horovod"},
]
"""
RATES = "1gbit..800gbit:20"
WORKERS = "4,6,8,12,16,24,32,40,48,64"


def main() -> None:
    """Draws the map, and says what it cost."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/map-cost"))
    parser.add_argument("--rates", default=RATES, help="as --over takes them")
    parser.add_argument("--workers", default=WORKERS, help="as --over takes them")
    asked, more = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        scenario = Path(folder, "which.toml")
        scenario.write_text(SCENARIO)
        command = [sys.executable, "-m", "gradwire", "map", str(scenario), "--out", str(asked.out), *more]
        command += ["--over", f"fabric.rate={asked.rates}", "--over", f"cluster.workers={asked.workers}"]
        status = subprocess.run(command, env=os.environ, check=False).returncode
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"CPU: {used.ru_utime + used.ru_stime:.0f} s in all processes together")
    sys.exit(status)


if __name__ == "__main__":
    main()
