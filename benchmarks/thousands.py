"""What estimates of thousands of ranks cost: CPU seconds and memory of `gradwire estimate`, by strategy, network and workers.

    .venv/bin/python benchmarks/thousands.py [--workers N,N,...] [--only WORDS]

Each point is estimated by a separate process, whose start (2 CPU seconds) counts. Prints a table in Markdown: iteration time,
CPU seconds and the most memory that the process had. Wall time depends on whatever else the machine does; CPU time much less.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gradwire.runs.compiling.by_class import LEAST_WORKERS

NVLINK = '{value = "450GB/s", source = "NVLink 4 of an H100, one direction"}'
MACHINES = {"cluster.workers_per_host": 8, "cluster.nics_per_host": 8, "costs.local_rate": NVLINK}
LEAVES = {"fabric.topology": '"leaf-spine"', "fabric.spines": 32}
FAT_TREE = {"fabric.topology": '"fat-tree"', "fabric.spines": 8, "fabric.cores": 8}
SHARED = {"fabric.spines": 1, "fabric.oversubscription": 2}
SHARED_CORES = SHARED | {"fabric.cores": 1}
HOSTS_OF_LEAF, HOSTS_OF_POD = 32, 256


@dataclass(frozen=True)
class Case:
    """A strategy on a network."""

    strategy: str
    network: str
    model: str = "llama3-8b"
    settings: dict[str, Any] = field(default_factory=dict)
    #: Workers that the settings divide; None: any of those asked for.
    workers: int | None = None
    #: By which a strategy with several algorithms reduces.
    algorithm: str = ""


DIVIDED = {
    **MACHINES,
    "strategy.options": "{tensor = 8, stages = 4, microbatches = 8, sequence_parallel = true}",
}
WHOLE = "sequence_parallel = true, sharded_optimizer = true, overlap_gradients = true"
PLAIN = ("layer-allreduce", "ddp", "zero2", "fsdp", "halving-doubling", "butterfly")
CASES = (
    *(Case(strategy, "one switch") for strategy in PLAIN),
    Case("ring", "one switch", settings={"strategy.options": '{concurrent = false, forward_waits = "all"}'}),
    *(Case(strategy, "leaf/spine, 32 hosts for each leaf", settings=LEAVES) for strategy in ("ddp", "fsdp")),
    *(Case(strategy, "fat tree, pods of 8 leaves with 32 hosts", settings=FAT_TREE) for strategy in ("ddp", "fsdp")),
    *(
        Case("ddp", network, "resnet50", settings, algorithm="double-tree")
        for network, settings in (
            ("one switch", {}),
            ("leaf/spine of 2:1, 32 hosts for each leaf", LEAVES | SHARED),
            ("fat tree of 2:1, pods of 8 leaves with 32 hosts", FAT_TREE | SHARED_CORES),
        )
    ),
    Case("megatron", "machines of 8 GPUs and NICs, one switch", settings=DIVIDED),
    Case(
        "megatron", "the same machines, leaf/spine of 2:1, 32 hosts for each leaf", settings=DIVIDED | LEAVES | SHARED
    ),
    Case(
        "megatron",
        "the same machines, fat tree of 2:1, pods of 8 leaves with 32 hosts",
        settings=DIVIDED | FAT_TREE | SHARED_CORES,
    ),
    Case(
        "megatron",
        "machines of 8 GPUs and NICs, one switch",
        "llama3-405b",
        {
            **MACHINES,
            "strategy.options": f"{{tensor = 8, stages = 14, microbatches = 16, replica_batch = 16, {WHOLE}}}",
        },
        16_128,
    ),
    Case(
        "megatron",
        "machines of 8 GPUs and NICs, one switch",
        "llama3-405b",
        {
            **MACHINES,
            "strategy.options": "{tensor = 8, stages = 16, first_blocks = 7, last_blocks = 7, microbatches = 16, "
            f"replica_batch = 16, {WHOLE}}}",
        },
        16_384,
    ),
    *(
        Case(
            "megatron",
            "machines of 8 GPUs and NICs, one switch",
            "deepseek-v3",
            {
                **MACHINES,
                "strategy.options": "{tensor = 1, stages = 16, last_blocks = 1, microbatches = 32, replica_batch = 32, "
                "experts = 64, sharded_optimizer = true, overlap_gradients = true}",
            },
            workers,
        )
        for workers in (2048, 16_384)
    ),
)


def main() -> None:
    """Prints a row for each case and number of workers."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", default="64,1024,4096,16384", help="numbers of workers, separated by commas")
    parser.add_argument("--only", default="", help="cases whose row has these words")
    asked = parser.parse_args()
    print("| strategy | model | network | workers | iteration (s) | CPU (s) | memory (GB) |")
    print("|---|---|---|---|---|---|---|")
    for case, workers in _points([int(number) for number in asked.workers.split(",")]):
        by = f" by {case.algorithm}" if case.algorithm else ""
        words = f"`{case.strategy}`{by} | {case.model} | {case.network} | {workers:,}"
        if asked.only in words:
            time_s, cpu_s, memory_bytes = _estimated(case, workers)
            print(f"| {words} | {time_s:.4g} | {cpu_s:.1f} | {memory_bytes / 1e9:.2f} |", flush=True)


def _points(numbers: list[int]) -> Iterator[tuple[Case, int]]:
    for case in CASES:
        for workers in numbers if case.workers is None else [case.workers]:
            if workers >= LEAST_WORKERS:
                yield case, workers


def _switches(topology: str | None, hosts: int) -> dict[str, int]:
    """How many switches so many hosts need."""
    if topology == FAT_TREE["fabric.topology"]:
        pods = max(2, hosts // HOSTS_OF_POD)
        return {"fabric.pods": pods, "fabric.leaves": max(1, hosts // pods // HOSTS_OF_LEAF)}
    return {"fabric.leaves": max(1, hosts // HOSTS_OF_LEAF)} if topology else {}


def _estimated(case: Case, workers: int) -> tuple[float, float, int]:
    """Iteration time; CPU seconds and the most memory of the process that estimated it."""
    settings = {"cluster.workers": workers, **case.settings}
    if case.algorithm:
        settings["strategy.options"] = f'{{algorithm = "{case.algorithm}"}}'
    settings |= _switches(case.settings.get("fabric.topology"), workers)
    with tempfile.TemporaryDirectory() as folder:
        scenario, result = Path(folder, "point.toml"), Path(folder, "result.json")
        scenario.write_text(
            'title = "thousands"\n[cluster]\nworkers = 64\n[fabric]\nrate = "400gbit"\n'
            f'[model]\nname = "{case.model}"\ndevice = "h100"\n[strategy]\nname = "{case.strategy}"\n'
        )
        command = [sys.executable, "-m", "gradwire", "estimate", str(scenario), "--json", "--jobs", "1"]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        process = os.posix_spawn(
            sys.executable,
            command,
            os.environ,
            file_actions=[(os.POSIX_SPAWN_OPEN, 1, str(result), os.O_WRONLY | os.O_CREAT, 0o600)],
        )
        _, status, used = os.wait4(process, 0)
        if status:
            raise SystemExit(
                f"{case.strategy} with {workers} workers ended with status {os.waitstatus_to_exitcode(status)}"
            )
        (point,) = json.loads(result.read_text())["points"]
    return point["iteration_time_s"], used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


if __name__ == "__main__":
    main()
