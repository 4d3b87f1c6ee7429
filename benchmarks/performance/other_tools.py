"""The same all-to-all elsewhere: in ns-3, packet by packet, and in SimGrid and gradwire's own fluid engine, flow by
flow."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.performance.cost import Cost, Spread
from gradwire.analysis.fluid.estimate import estimate
from gradwire.analysis.transfers import ideal_s
from gradwire.datatypes.plan import Plan
from gradwire.network.fabric import Fabric
from gradwire.runs.stored.spines import Spines

HERE = Path(__file__).parent
SYSTEM_PYTHON = "/usr/bin/python3"
NS3_MODULES = ("core", "network", "internet", "applications", "point-to-point", "traffic-control")
NS3_FRAME_BYTES, NS3_PAYLOAD_BYTES = 1502, 1448
"""ns-3's point-to-point links add two bytes to a packet, and no preamble, checksum or gap."""


def _timed(name: str, rounds: int, run: Callable[[], float], ideal: float, size_bytes: int) -> Cost:
    walls_s, cpus_s, took_s = [], [], 0.0
    for _ in range(rounds):
        began_s, cpu_s = time.perf_counter(), _cpu_s()
        took_s = run()
        walls_s.append(time.perf_counter() - began_s)
        cpus_s.append(_cpu_s() - cpu_s)
    return Cost(name, Spread.of(walls_s), Spread.of(cpus_s), took_s / ideal, size_bytes)


def _cpu_s() -> float:
    """Of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _printed_s(command: list[str]) -> float:
    """Seconds that a program prints on its last line; ends this one with what the program said where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command[0]}: {done.stderr or done.stdout}")
    return float(done.stdout.split()[-1])


def ns3(hosts: int, flow_bytes: int, rate_bps: float, rounds: int) -> Cost:
    """Built with `libns3-dev`, `libgsl-dev`, `g++` and `pkg-config`."""
    modules = [f"ns3-{module}" for module in NS3_MODULES]
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", *modules], capture_output=True, text=True, check=False)
    if flags.returncode:
        sys.exit(f"ns-3 is not installed: make bench-packages ({flags.stderr.strip()})")
    with TemporaryDirectory(prefix="gradwire-") as folder:
        program = f"{folder}/all_to_all"
        subprocess.run(["g++", "-O2", "-o", program, HERE / "ns3_all_to_all.cc", *flags.stdout.split()], check=True)
        arguments = [program, str(hosts), str(flow_bytes), str(int(rate_bps))]
        ideal = (hosts - 1) * flow_bytes * 8 / rate_bps * NS3_FRAME_BYTES / NS3_PAYLOAD_BYTES
        return _timed("ns-3", rounds, lambda: _printed_s(arguments), ideal, hosts * (hosts - 1) * flow_bytes)


def simgrid(hosts: int, flow_bytes: int, rate_bps: float, rounds: int, fabric: Fabric) -> Cost:
    """With `python3-simgrid`, which the system's Python imports, and its default model of TCP."""
    ideal = (hosts - 1) * flow_bytes * 8 / rate_bps / fabric.goodput_share()
    program = str(HERE / "simgrid_all_to_all.py")
    arguments = [SYSTEM_PYTHON, program, str(hosts), str(flow_bytes), str(int(rate_bps))]
    return _timed("SimGrid", rounds, lambda: _printed_s(arguments), ideal, hosts * (hosts - 1) * flow_bytes)


def fluid(plan: Plan, fabric: Fabric, rounds: int) -> Cost:
    """gradwire's own second engine, whose loops have been compiled before."""
    estimate(plan, fabric, Spines(fabric).spine_of, most_iterations=1)
    data = plan.is_remote() & (plan.ops.traffic_class >= 0)
    size_bytes = int(plan.ops.size_bytes[data].sum())
    return _timed(
        "`gradwire estimate`",
        rounds,
        lambda: float(estimate(plan, fabric, Spines(fabric).spine_of, most_iterations=1).iterations_s[0]),
        ideal_s(plan, fabric),
        size_bytes,
    )
