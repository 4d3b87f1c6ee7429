"""The network that programs run on: that of a scenario's points, or one of a size given on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gradwire.datatypes.host_settings import RdmaDevice
from gradwire.datatypes.machine_size import DEFAULT_MEMORY_MB
from gradwire.documents import Document
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric, Topology
from gradwire.scenario.contenders import LEAVES, SPINES
from gradwire.scenario.loading import ScenarioOrigin, ScenarioPoint
from gradwire.scenario.scenario_files import read_scenario, resolved_scenario
from gradwire.workloads.fields import HIGHEST_RATE_BPS, LOWEST_RATE_BPS, MOST_WORKERS
from gradwire.workloads.stand_in import capacity_warning
from gradwire.workloads.units import DURATION, SIZE, rate_bps, rate_text

if TYPE_CHECKING:
    from gradwire.scenario.program_scenarios import AnyScenario

WALL_LIMIT_S = 1800.0
LEAST_MEMORY_MB = 512
MIB = 1 << 20
BY_SETTINGS = "--set"
"""Origin, for messages, of a network of --workers and --rate that settings change."""


@dataclass(frozen=True)
class NetworkOptions:
    """The network that a command line describes: a scenario, or workers and their rate."""

    scenario: Path | None = None
    settings: tuple[str, ...] = ()
    workers: int | None = None
    rate: str | None = None
    leaf_spine: bool = False
    oversubscription: float | None = None
    rdma: str = RdmaDevice.NONE.value


@dataclass(frozen=True)
class SizedNetwork:
    """A network, and the memory of a kernel that carries it."""

    fabric: Fabric
    #: Name of the network in the names of run folders.
    name: str
    memory_mb: int = DEFAULT_MEMORY_MB
    wall_limit_s: float = WALL_LIMIT_S

    def warnings(self) -> list[str]:
        """Warnings to read before the results are trusted."""
        warning = capacity_warning(self.fabric)
        return [warning] if warning else []


def bench_of(size: NetworkOptions) -> SizedNetwork:
    """The network that the command line asks for. Raises InputFault, with the right form."""
    if size.scenario is not None:
        return _of_scenario(size, size.scenario)
    if size.workers is None or size.rate is None:
        raise InputFault("which network? Give a scenario, or --workers and --rate, such as --workers 8 --rate 100gbit")
    described = _of_flags(size, size.workers, size.rate)
    return _with_settings(described, size.rate, size.settings) if size.settings else described


def _of_scenario(size: NetworkOptions, path: Path) -> SizedNetwork:
    if size.rdma != RdmaDevice.NONE:
        raise InputFault(f"{path}: give its hosts RDMA devices with --set fabric.rdma={size.rdma}")
    if size.workers is not None or size.rate is not None or size.leaf_spine or size.oversubscription is not None:
        raise InputFault(
            f"{path}: the scenario says how large the network is; change it with --set cluster.workers=8 or --set "
            "fabric.rate=10gbit"
        )
    return _of_points(read_scenario(path, size.settings), str(path))


def _with_settings(described: SizedNetwork, rate: str, settings: tuple[str, ...]) -> SizedNetwork:
    """The network of --workers and --rate, with keys of a scenario that has nothing else in it."""
    fabric = described.fabric
    shape: Document = {"topology": str(fabric.topology), "rate": rate, "rdma": str(fabric.rdma)}
    if fabric.topology == Topology.LEAF_SPINE:
        shape |= {"leaves": fabric.leaves, "spines": fabric.spines, "oversubscription": fabric.oversubscription}
    document: Document = {
        "title": described.name,
        "cluster": {"workers": fabric.hosts},
        "fabric": shape,
        "program": {"given": {"command": "true"}},
    }
    given = replace(ScenarioOrigin.given(document), words=BY_SETTINGS)
    changed = _of_points(resolved_scenario(document, given, settings), BY_SETTINGS)
    return replace(changed, name=f"{changed.fabric.hosts}-{rate_text(changed.fabric.rate_bps)}")


def _of_points(scenario: AnyScenario, source: str) -> SizedNetwork:
    points: Sequence[ScenarioPoint] = scenario.points
    fabric = _only({point.network for point in points}, source, len(points))
    memory_mb = max(point.memory_mb for point in points)
    return SizedNetwork(fabric, scenario.name, memory_mb, max(point.time_limit_s for point in points))


def _only(fabrics: set[Fabric], source: str, points: int) -> Fabric:
    """The network, if all points have the same one. Raises InputFault otherwise."""
    if len(fabrics) > 1:
        raise InputFault(
            f"{source}: its {points} points have {len(fabrics)} different networks ({_differences(fabrics)}); choose one "
            "with --set, such as --set fabric.rate=10gbit"
        )
    return next(iter(fabrics))


def _differences(fabrics: set[Fabric]) -> str:
    """In which of the common settings the networks differ."""
    seen = {
        "hosts": {str(fabric.hosts) for fabric in fabrics},
        "rates": {rate_text(fabric.rate_bps) for fabric in fabrics},
        "topologies": {str(fabric.topology) for fabric in fabrics},
        "losses": {f"{fabric.loss:g}" for fabric in fabrics},
        "seeds": {str(fabric.seed) for fabric in fabrics},
    }
    return "; ".join(f"{what} {', '.join(sorted(values))}" for what, values in seen.items() if len(values) > 1)


def _of_flags(size: NetworkOptions, workers: int, rate: str) -> SizedNetwork:
    try:
        line_rate_bps = rate_bps(rate)
    except ValueError as error:
        raise InputFault(f"--rate {rate}: {error}") from error
    if not LOWEST_RATE_BPS <= line_rate_bps <= HIGHEST_RATE_BPS:
        raise InputFault(f"--rate {rate}: must be {rate_text(LOWEST_RATE_BPS)} to {rate_text(HIGHEST_RATE_BPS)}")
    if not 1 <= workers <= MOST_WORKERS:
        raise InputFault(f"--workers {workers}: must be 1 to {MOST_WORKERS}")
    if size.rdma not in list(RdmaDevice):
        raise InputFault(f"--rdma {size.rdma}: must be one of {', '.join(RdmaDevice)}")
    fabric = Fabric(workers, line_rate_bps, classes=1, rdma=RdmaDevice(size.rdma))
    if size.leaf_spine or size.oversubscription is not None:
        if workers % LEAVES:
            raise InputFault(f"--workers {workers}: --leaf-spine has {LEAVES} leaves, which must divide the workers")
        ratio = 1.0 if size.oversubscription is None else size.oversubscription
        fabric = replace(fabric, topology=Topology.LEAF_SPINE, leaves=LEAVES, spines=SPINES, oversubscription=ratio)
    return SizedNetwork(fabric, f"{workers}-{rate.replace('/', '_').replace(' ', '')}")


def chosen_hosts(fabric: Fabric, wanted: str) -> list[int]:
    """Indices of the hosts of --hosts: "all", or names with commas between them, in their order. Raises InputFault."""
    names = fabric.host_names()
    if wanted == "all":
        return list(range(fabric.hosts))
    chosen = [name.strip() for name in wanted.split(",") if name.strip()]
    unknown = [name for name in chosen if name not in names]
    if unknown or not chosen or len(set(chosen)) < len(chosen):
        reason = f"no host is called {unknown[0]!r}" if unknown else "name each host once"
        raise InputFault(f"--hosts {wanted}: {reason}; hosts are {names[0]} to {names[-1]}, such as --hosts h1,h2")
    return [names.index(name) for name in chosen]


def output_limit_bytes(text: str) -> int:
    """Bytes of --output-limit, such as 4G, 4GiB or 4 GB. Raises InputFault."""
    size_bytes = _size_bytes("--output-limit", text)
    if size_bytes < 1:
        raise InputFault(f"--output-limit {text}: must be above 0")
    return size_bytes


def _size_bytes(option: str, text: str) -> int:
    """Bytes of an option, where G alone is GiB. Raises InputFault."""
    written = text.strip()
    try:
        return int(SIZE.parse(f"{written}iB" if written[-1:] in ("K", "M", "G") else written))
    except ValueError as error:
        raise InputFault(f"{option} {text}: {error}") from error


def memory_mb(text: str) -> int:
    """MiB of --memory, such as 8G, 8GiB or 8 GB. Raises InputFault."""
    size_bytes = _size_bytes("--memory", text)
    if size_bytes < LEAST_MEMORY_MB * MIB:
        raise InputFault(f"--memory {text}: the kernel and the network alone need {LEAST_MEMORY_MB} MiB")
    return int(size_bytes // MIB)


def seconds(option: str, text: str) -> float:
    """Seconds of an option, such as 30s or 5min. Raises InputFault."""
    try:
        value = DURATION.parse(text)
    except ValueError as error:
        raise InputFault(f"{option} {text}: {error}") from error
    if value <= 0:
        raise InputFault(f"{option} {text}: must be above 0")
    return value
