"""A long run with random faults: whether a contribution is lost, and whether anything is held at the end that was not
at the beginning.

`python -m benchmarks.soak [--strategies ring,p3,multicast-ps] [--iterations 1000] [--faults 50] [--seed 1]` runs each
strategy for so many iterations of a small model on four workers, with faults of all kinds that do not end a run, drawn
by the seed. It prints the verdict, and how much grew, per iteration, from a third of the run to its end: descriptors
and memory of the processes inside the emulated machine (benchmarks/leak_probe.py), and the kernel's own; and
afterwards what is left outside: processes, descriptors, and files in the folder for temporary files and in the cache.
A strategy takes two minutes on one core.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import gradwire
from gradwire.api.run import InvalidPointWarning, Run
from gradwire.inside.program_protocol import output_file
from gradwire.runs.stored.stored_run import StoredRun
from gradwire.vm.kernel import cache_folder

STRATEGIES = ("ring", "p3", "multicast-ps")
WORKERS = 4
PROBE = Path(__file__).with_name("leak_probe.py")
PERIOD_S = 0.25
WATCHED = ("gradwire.agents", "gradwire.inside.point", "gradwire.contro", "ovs-vswitchd", "ovsdb-server")
FIRST = 5
"""The iteration in which the first fault may begin."""
SETTLED = 1 / 3
"""The share of a run after which nothing should grow: by then processes have met each kind of fault, and have their
caches."""


def faults(count: int, iterations: int, seed: int) -> dict[str, dict[str, Any]]:
    """Faults of random kinds, places, moments and durations, in the order of their iterations, equally far from each
    other."""
    drawn = random.Random(seed)
    step = (iterations - 2 * FIRST) // count
    return {f"f{number}": _fault(drawn, FIRST + number * step) for number in range(count)}


def _fault(drawn: random.Random, iteration: int) -> dict[str, Any]:
    link = {"link": f"h{drawn.randint(1, WORKERS)}"}
    source, destination = drawn.sample(range(1, WORKERS + 1), 2)
    kinds: dict[str, dict[str, Any]] = {
        "link-down": link,
        "flapping": {**link, "every": "10ms"},
        "loss": {**link, "loss": round(drawn.uniform(0.005, 0.05), 4)},
        "delay": {**link, "delay": f"{drawn.randint(100, 1000)}us"},
        "rate": {**link, "rate": f"{drawn.randint(1, 9)}gbit"},
        "slow-worker": {"worker": drawn.randrange(WORKERS), "factor": round(drawn.uniform(1.5, 4), 2)},
        "switch-restart": {"switch": "s1"},
        "controller-restart": {},
        "tenant": {"source": f"h{source}", "destination": f"h{destination}", "rate": f"{drawn.randint(1, 10)}gbit"},
    }
    kind = drawn.choice(sorted(kinds))
    when = {"iteration": iteration, "at": f"{drawn.randint(0, 5000)}us", "duration": f"{drawn.randint(5, 40)}ms"}
    return {"kind": kind, **when, **kinds[kind]}


def scenario(strategy: str, iterations: int, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Four workers that exchange 300 KB at 10 Gbit/s, and a program that watches what processes hold."""
    layers = [
        {"name": f"fc{number}", "size": ["100KB"], "forward": "300us", "backward": "600us"} for number in range(3)
    ]
    probe = f"exec {sys.executable} {PROBE} {PERIOD_S} {' '.join(WATCHED)}"
    return {
        "title": f"soak of {strategy}",
        "cluster": {"workers": WORKERS},
        "fabric": {"rate": "10gbit"},
        "model": {"name": "three-layers", "layers": layers},
        "strategy": {"name": strategy},
        "run": {"warmup": 1, "iterations": iterations - 1, "time_limit": "3600s"},
        "program": {"probe": {"command": probe, "hosts": ["h1"], "background": True}},
        "fault": dict(chosen),
    }


def report_lines(found: Run, iterations: int) -> Iterator[str]:
    """What became of a run, and what grew inside the machine."""
    (verdict,) = found.points["verdict"]
    yield f"  verdict: {verdict}"
    stored = StoredRun(found.folder / "points" / str(found.points.index[0]))
    lines = output_file(stored.folder, "probe/h1", 1).read_text().splitlines()
    samples = [json.loads(line) for line in lines if line.endswith("}")]
    first, last = samples[round(len(samples) * SETTLED)], samples[-1]
    yield f"  {len(samples)} readings over {samples[-1]['uptime_s'] - samples[0]['uptime_s']:.1f} s of virtual time"
    seen = [each["processes"] for each in samples]
    yield f"  programs: {first['processes']}, at the end {last['processes']} (at most {max(seen)})"
    yield f"  sockets: {first['sockets']}, at the end {last['sockets']}"
    for pid, held in first["of"].items():
        after = last["of"].get(pid)
        grown = "ended" if after is None else _growth(held, after, iterations * (1 - SETTLED))
        yield f"  {held['name']} (process {pid}): {grown}"
    for name, kib in first["kib"].items():
        yield f"  {name}: {kib} KiB, at the end {last['kib'][name]} KiB"


def _growth(before: Mapping[str, int], after: Mapping[str, int], iterations: float) -> str:
    grown_kib = after["resident_kib"] - before["resident_kib"]
    return (
        f"{before['descriptors']} descriptors, at the end {after['descriptors']}; {before['resident_kib']} KiB, at "
        f"the end {after['resident_kib']} ({grown_kib * 1024 / iterations:.0f} bytes per iteration)"
    )


class Outside:
    """What is there outside the machine: processes of this one's, its descriptors, and files."""

    def __init__(self, temporary: Path) -> None:
        self.children = sorted(_descendants(os.getpid()))
        self.descriptors = len(list(Path("/proc/self/fd").iterdir()))
        self.temporary = sorted(path.name for path in temporary.iterdir())
        self.cached = {path for path in cache_folder().rglob("*") if path.is_file()}

    def told_since(self, before: Outside) -> str:
        """What has come since, in a line."""
        added = self.cached - before.cached
        cached_kib = sum(path.stat().st_size for path in added if path.exists()) / 1024
        return (
            f"outside: processes {before.children} then {self.children}, descriptors {before.descriptors} then "
            f"{self.descriptors}, temporary files {before.temporary} then {self.temporary}, {len(added)} more files "
            f"in the cache ({cached_kib:.0f} KiB)"
        )


def _descendants(pid: int) -> Iterator[int]:
    """Living processes below one."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield int(child)
            yield from _descendants(int(child))


def soak(strategies: Sequence[str], iterations: int, count: int, seed: int, out: Path) -> Iterator[str]:
    """Runs the strategies one after the other, each with the same faults, and tells what was seen."""
    chosen = faults(count, iterations, seed)
    kinds = [fault["kind"] for fault in chosen.values()]
    yield ", ".join(f"{kinds.count(kind)} x {kind}" for kind in sorted(set(kinds)))
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        temporary = Path(name)
        tempfile.tempdir = os.environ["TMPDIR"] = name
        for strategy in strategies:
            before, start_s = Outside(temporary), time.monotonic()
            found = gradwire.run(scenario(strategy, iterations, chosen), out=out / f"{strategy}-{seed}", progress=False)
            yield (
                f"{strategy}, {iterations} iterations with {count} faults, {time.monotonic() - start_s:.0f} s of wall "
                "time"
            )
            yield from report_lines(found, iterations)
            yield f"  {Outside(temporary).told_since(before)}"


def main() -> None:
    """Prints what was seen as it comes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--faults", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/soak"))
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", InvalidPointWarning)
    for line in soak(chosen.strategies.split(","), chosen.iterations, chosen.faults, chosen.seed, chosen.out):
        print(line, flush=True)


if __name__ == "__main__":
    main()
