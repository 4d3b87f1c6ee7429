"""Why GradientFlow's cells with OpenMPI and Gloo differ, and the speed-ups over them: what is printed against what the links allow.

Neither has a fitted constant here. Both reduce by halving and doubling, at the full rate of the link, and add on the processor.
"""

from __future__ import annotations

from dataclasses import dataclass

from gradwire.analysis.papers.evidence import Points, explains
from gradwire.analysis.papers.gradientflow.points import account, chosen, comm_s
from gradwire.analysis.papers.reference import Claim

ALEXNET, RESNET = "alexnet-bn", "resnet50-gf"
NAMES = {ALEXNET: "AlexNet", RESNET: "ResNet-50", "p": "Cluster-P", "v": "Cluster-V"}
MPI_PRINTED = {("p", ALEXNET): 22.3, ("p", RESNET): 13.9, ("v", ALEXNET): 56.2, ("v", RESNET): 30.2}
"""1000 images/s with OpenMPI: Tables 1 and 2."""
GLOO_PRINTED_MS = {ALEXNET: 2189.0, RESNET: 1199.0}
"""Beyond computation, on 64 GPUs: of 3.6K images/s, and of a speed-up ratio of 15.5 over 167 images/s (section 2.3.3)."""
GLOO_PORT_SHARE = 14.0
"""Bytes through the port of a machine of 8 of these 64 GPUs, in sizes of the model: 8 x 2 (1 - 1/8)."""


@dataclass(frozen=True)
class Asked:
    """What two printed iterations, AlexNet's and ResNet-50's, leave beyond computation, as a cost of each allreduce and of each MB."""

    call_ms: float
    mb_ms: float

    def __str__(self) -> str:
        """As text."""
        return f"{self.call_ms:.1f} ms for each allreduce and {self.mb_ms:.1f} ms for each MB"


ASKED = {"p": Asked(-0.41, 2.74), "v": Asked(8.97, 3.64), "gloo": Asked(1.98, 8.76)}
"""26 and 153 allreduces of 243.9 and 102.2 MB in all, on both sides of two equations (tests/unit/analysis/papers/test_gradientflow.py)."""


@explains("gradientflow-fig6", "mpi-alexnet-128", "mpi-alexnet-128-ratio", "mpi-resnet50-128-ratio")
@explains("gradientflow-table1", "p-mpi-throughput", "p-mpi-iter", "v-mpi-throughput", "v-mpi-iter")
@explains("gradientflow-table2", "p-mpi-throughput", "p-mpi-iter", "v-mpi-throughput", "v-mpi-iter")
def _openmpi(points: Points, claim: Claim) -> str:
    cluster = claim.id[0] if claim.id[1] == "-" else "p"
    return _told(points, cluster, str(claim.where["model"]))


def _told(points: Points, cluster: str, model: str) -> str:
    row = points.row(run=f"gradientflow-tables-{cluster}-mpi", model=model)
    other = "p" if cluster == "v" else "v"
    return (
        f"OpenMPI: {account(points, row)} No constant of it is printed, and none is fitted. The printed times of AlexNet and ResNet-50 on "
        f"{NAMES[cluster]} ask for {ASKED[cluster]}; on {NAMES[other]} for {ASKED[other]}. A call that costs 9 ms among 512 processes and "
        "nothing among 128 is explained by no cost of messages and bytes; the paper does not say what held OpenMPI up."
    )


@explains("gradientflow-table2", "v-order")
def _order_on_volta(points: Points, claim: Claim) -> str:
    return (
        "Only OpenMPI is out of place. Halving and doubling among 512 takes 18 messages one after the other, NCCL's ring 1022: tensor by "
        f"tensor, ResNet-50's 153 small ones should favour OpenMPI. {_told(points, 'v', str(claim.where['model']))}"
    )


_STEPS = ("nccl", "nccl+mp", "nccl+mp+overlap", "nccl+mp+la+overlap", "nccl+mp+la+csc+overlap")


@explains("gradientflow-table1", *(f"v-{step}-speedup" for step in _STEPS))
@explains("gradientflow-table2", *(f"v-{step}-speedup" for step in _STEPS))
@explains("gradientflow-table1", "p-nccl-speedup", "p-nccl+mp+la+csc+overlap-speedup")
@explains("gradientflow-table2", "p-nccl-speedup", "p-nccl+mp-speedup")
@explains("gradientflow-table2", "p-nccl+mp+la+overlap-speedup", "p-nccl+mp+la+csc+overlap-speedup")
@explains("gradientflow-fig9", "nccl-vs-mpi-alexnet", "nccl-vs-mpi-resnet50")
def _over_openmpi(points: Points, claim: Claim) -> str:
    cluster, model = claim.id[0] if claim.id[1] == "-" else "p", str(claim.where["model"])
    ahead, mpi = chosen(points, claim.where), chosen(points, {**claim.where, **claim.baseline})
    printed = MPI_PRINTED[cluster, model]
    return (
        f"{ahead.throughput_per_s / 1e3:.1f}K images/s are {ahead.throughput_per_s / 1e3 / printed:.2f} times the {printed}K that are "
        f"printed for OpenMPI, which reaches {mpi.throughput_per_s / 1e3:.1f}K here. {_told(points, cluster, model)}"
    )


@explains("gradientflow-abstract", "opensource-64")
@explains("gradientflow-sec1-traffic", "gloo-comm", "gloo-util")
@explains("gradientflow-fig6", "gloo-alexnet-64", "gloo-alexnet-64-ratio", "gloo-resnet50-64-ratio")
def _gloo(points: Points, claim: Claim) -> str:
    row, model = chosen(points, claim.where), str(claim.where["model"])
    printed_ms = GLOO_PRINTED_MS[model]
    rate_gbit = GLOO_PORT_SHARE * 8 / ASKED["gloo"].mb_ms
    return (
        f"{account(points, row)} Nothing is fitted: RDMA at the link's full rate and additions of one core take {comm_s(row) * 1e3:.0f} of "
        f"the printed {printed_ms:.0f} ms beyond computation. The printed times of AlexNet and ResNet-50 ask for {ASKED['gloo']}, which is "
        f"{rate_gbit:.0f} Gbit/s through a machine's port, a quarter of the link. A likely reason is TCP, which Gloo uses unless "
        "PyTorch is built for InfiniBand; the paper does not say how it was."
    )
