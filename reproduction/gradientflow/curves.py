"""GradientFlow's figures that do not sweep one parameter: the columns of Tables 1 and 2, and Fig. 8's rates by size."""

from __future__ import annotations

from collections.abc import Mapping

from reproduction.gradientflow.points import OPENMPI, SMALL, STEPS, by_size, columns
from reproduction.pages.curves import draws
from reproduction.scoring.evidence import Points
from reproduction.scoring.reference import load_paper
from reproduction.scoring.shapes import Series

LIBRARIES = {"nccl": "NCCL", "nccl-h": "NCCL-H", "openmpi": "OpenMPI"}
COLUMNS = ", ".join(
    f"{number} {name}" for number, name in enumerate(("MPI", "NCCL", "MP", "overlap", "LA", "CSC"), start=1)
)


@draws("gradientflow-fig8", "Rate of one allreduce on 32 GPUs", "tensor size (MiB)", "GB/s", log_x=True)
def _rates(points: Points) -> Mapping[str, Series]:
    curves: dict[str, list[tuple[float, float]]] = {}
    sizes = {**by_size(points, SMALL, OPENMPI), **by_size(points, "gradientflow-fig8", OPENMPI)}
    for size_mib, rows in sorted(sizes.items()):
        for name, row in rows.items():
            curves.setdefault(LIBRARIES[name], []).append((size_mib, size_mib * 2**20 / row.iteration_time_s / 1e9))
    return curves


@draws("gradientflow-table1", "AlexNet: throughput with one optimisation after the other", COLUMNS, "1000 images/s")
def _alexnet(points: Points) -> Mapping[str, Series]:
    return _table(points, "gradientflow-table1", "alexnet-bn")


@draws("gradientflow-table2", "ResNet-50: throughput with one optimisation after the other", COLUMNS, "1000 images/s")
def _resnet(points: Points) -> Mapping[str, Series]:
    return _table(points, "gradientflow-table2", "resnet50-gf")


def _table(points: Points, table: str, model: str) -> Mapping[str, Series]:
    claims = next(scenario.claim for scenario in load_paper("gradientflow").scenario if scenario.id == table)
    printed = {claim.id: claim.printed for claim in claims}
    curves: dict[str, Series] = {}
    for cluster, name in (("p", "Cluster-P"), ("v", "Cluster-V")):
        rows = columns(points, cluster, model)
        curves[f"{name}, measured"] = [
            (at, row.throughput_per_s / 1e3) for at, row in enumerate(rows.values(), start=1)
        ]
        throughputs = [printed[f"{cluster}-{step}-throughput"] for step in STEPS]
        curves[f"{name}, printed"] = [
            (at, value / 1e3) for at, value in enumerate(throughputs, start=1) if isinstance(value, float)
        ]
    return curves
