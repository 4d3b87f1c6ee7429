"""Why GradientFlow's cells with OpenMPI and Gloo differ, and the speed-ups over them: what is printed against what the
links allow.

Neither has a fitted constant here. Both reduce by halving and doubling, at the full rate of the link, and add on the
processor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from reproduction.gradientflow.points import (
    ALEXNET,
    FP32_BYTES,
    OPENMPI,
    RESNET,
    SMALL,
    STEPS,
    account,
    best_row,
    by_size,
    columns,
    comm_s,
    ring_steps,
    workers_of,
)
from reproduction.scoring.evidence import Points
from reproduction.scoring.explanations import Explanation, explains, premise
from reproduction.scoring.reference import Claim, printed_fact, printed_number

NAMES = {"p": "Cluster-P", "v": "Cluster-V"}
TABLES = {ALEXNET: "gradientflow-table1", RESNET: "gradientflow-table2"}
GPUS = {"p": 128, "v": 512, "gloo": 64}

_printed = partial(printed_number, "gradientflow")
_fact = partial(printed_fact, "gradientflow")


@dataclass(frozen=True)
class Asked:
    """What two printed iterations, AlexNet's and ResNet-50's, leave beyond
    computation, as a cost of each allreduce and of each MB."""

    call_ms: float
    mb_ms: float

    def __str__(self) -> str:
        """As text."""
        return f"{self.call_ms:.1f} ms for each allreduce and {self.mb_ms:.1f} ms for each MB"


def printed_beyond_ms(where: str, model: str) -> float:
    """What a printed iteration takes beyond computation, on a cluster with OpenMPI ("p", "v"), or with "gloo"."""
    name = "alexnet" if model == ALEXNET else "resnet50"
    if where == "gloo":
        batch = _fact("alexnet-batch" if model == ALEXNET else "resnet50-p-batch")
        alone_per_s = _printed("gradientflow-fig6", f"pytorch-{name}-1")
        if model == ALEXNET:
            rate_per_s = _printed("gradientflow-fig6", "gloo-alexnet-64")
        else:
            rate_per_s = _printed("gradientflow-fig6", "gloo-resnet50-64-ratio") * alone_per_s
    else:
        batch = _fact("alexnet-batch" if model == ALEXNET else f"resnet50-{where}-batch")
        one_gpu = {
            "p": ("gradientflow-fig6", f"systemi-{name}-1"),
            "v": ("gradientflow-fig11", f"{name}-v-fp32-1gpu"),
        }
        alone_per_s = _printed(*one_gpu[where])
        rate_per_s = _printed(TABLES[model], f"{where}-mpi-throughput")
    return (GPUS[where] * batch / rate_per_s - batch / alone_per_s) * 1e3


def asked(where: str) -> Asked:
    """Solves for the cost of a call and of a MB that leave both models what they take beyond computation."""
    costs = [
        [
            _printed("gradientflow-fig5", f"{name}-tensors"),
            _printed("gradientflow-fig5", f"{name}-params") * FP32_BYTES / 1e6,
        ]
        for name in ("alexnet", "resnet50")
    ]
    call_ms, mb_ms = np.linalg.solve(costs, [printed_beyond_ms(where, model) for model in (ALEXNET, RESNET)])
    return Asked(float(call_ms), float(mb_ms))


@explains("gradientflow-fig6", "mpi-alexnet-128", "mpi-alexnet-128-ratio", "mpi-resnet50-128-ratio")
@explains("gradientflow-table1", "p-mpi-throughput", "p-mpi-iter", "v-mpi-throughput", "v-mpi-iter")
@explains("gradientflow-table2", "p-mpi-throughput", "p-mpi-iter", "v-mpi-throughput", "v-mpi-iter")
def _openmpi(points: Points, claim: Claim) -> Explanation:
    return _of_openmpi(points, _cluster(claim), str(claim.where["model"]))


def _cluster(claim: Claim) -> str:
    """Cells of the tables begin with their cluster; figures without one are of Cluster-P."""
    return claim.id[0] if claim.id[1] == "-" else "p"


def _of_openmpi(points: Points, cluster: str, model: str) -> Explanation:
    row = points.row(run=f"gradientflow-tables-{cluster}-mpi", model=model)
    return _cost_of_openmpi(f"OpenMPI: {account(points, row)}")


def _cost_of_openmpi(seen: str) -> Explanation:
    argument = no_cost_of_messages_and_bytes({cluster: asked(cluster) for cluster in "pv"})
    return Explanation("No cost of messages and bytes explains the printed OpenMPI", argument, seen)


def no_cost_of_messages_and_bytes(asks: Mapping[str, Asked]) -> str:
    """What the printed times ask of a cost model differs between clusters in a way that no such model has."""
    premise(
        asks["p"].call_ms < 0.5 and asks["v"].call_ms > 5,
        "calls that cost nothing on Cluster-P and many milliseconds on Cluster-V",
        f"{asks['p'].call_ms:.1f} and {asks['v'].call_ms:.1f} ms",
    )
    return (
        "No constant of it is printed, and none is fitted. The printed times of AlexNet and ResNet-50 on "
        f"{NAMES['v']} ask for {asks['v']}; on {NAMES['p']} for {asks['p']}. A call that costs "
        f"{asks['v'].call_ms:.0f} ms among {GPUS['v']} processes and nothing among {GPUS['p']} is explained by no "
        "cost of messages and bytes; the paper does not say what held OpenMPI up."
    )


@explains("gradientflow-table2", "v-order")
def _order_on_volta(points: Points, claim: Claim) -> Explanation:
    model = str(claim.where["model"])
    rows = columns(points, "v", model)
    throughputs = {step: row.throughput_per_s for step, row in rows.items()}
    workers, tensors = workers_of(rows["mpi"]), len(points.model(**rows["mpi"].parameters).tensor_names)
    return _cost_of_openmpi(only_openmpi_is_out_of_place(throughputs, workers, tensors))


def only_openmpi_is_out_of_place(throughputs: Mapping[str, float], workers: int, tensors: int) -> str:
    """Throughput of each column of Table 2 on Cluster-V."""
    others = [throughputs[step] for step in STEPS if step != "mpi"]
    premise(
        others == sorted(others) and throughputs["mpi"] > min(others),
        "every column in its place but OpenMPI's, which is too fast",
        " < ".join(sorted(throughputs, key=throughputs.__getitem__)),
    )
    halvings = 2 * int(np.log2(workers))
    return (
        f"Only OpenMPI is out of place. Halving and doubling among {workers} takes {halvings} messages one after the "
        f"other, NCCL's ring {ring_steps(workers)}: tensor by tensor, ResNet-50's {tensors} small ones should favour "
        "OpenMPI."
    )


_STEPS = ("nccl", "nccl+mp", "nccl+mp+overlap", "nccl+mp+la+overlap", "nccl+mp+la+csc+overlap")


@explains("gradientflow-table1", *(f"v-{step}-speedup" for step in _STEPS))
@explains("gradientflow-table2", *(f"v-{step}-speedup" for step in _STEPS))
@explains("gradientflow-table1", "p-nccl-speedup", "p-nccl+mp+la+csc+overlap-speedup")
@explains("gradientflow-table2", "p-nccl-speedup", "p-nccl+mp-speedup")
@explains("gradientflow-table2", "p-nccl+mp+la+overlap-speedup", "p-nccl+mp+la+csc+overlap-speedup")
@explains("gradientflow-fig9", "nccl-vs-mpi-alexnet", "nccl-vs-mpi-resnet50")
def _over_openmpi(points: Points, claim: Claim) -> Explanation:
    cluster, model = _cluster(claim), str(claim.where["model"])
    ahead, mpi = best_row(points, claim.where), best_row(points, {**claim.where, **claim.baseline})
    assert isinstance(claim.printed, float)
    seen = baseline_makes_the_difference(
        ahead_per_s=ahead.throughput_per_s,
        mpi_per_s=mpi.throughput_per_s,
        printed_mpi_per_s=_printed(TABLES[model], f"{cluster}-mpi-throughput"),
        printed=claim.printed,
    )
    return _cost_of_openmpi(seen)


def baseline_makes_the_difference(
    ahead_per_s: float, mpi_per_s: float, printed_mpi_per_s: float, printed: float
) -> str:
    """Over the printed OpenMPI, the speed-up comes closer to the printed one than over the measured OpenMPI."""
    over_printed, over_measured = ahead_per_s / printed_mpi_per_s, ahead_per_s / mpi_per_s
    premise(
        abs(over_printed - printed) < abs(over_measured - printed),
        f"a speed-up over the printed OpenMPI that is closer to the printed {printed:g}x",
        f"{over_printed:.2f}x over the printed one, {over_measured:.2f}x over the measured one",
    )
    return (
        f"{ahead_per_s / 1e3:.1f}K images/s are {over_printed:.2f} times the {printed_mpi_per_s / 1e3:.1f}K that are "
        f"printed for OpenMPI, which reaches {mpi_per_s / 1e3:.1f}K here."
    )


@explains("gradientflow-abstract", "opensource-64")
@explains("gradientflow-sec1-traffic", "gloo-comm", "gloo-util")
@explains("gradientflow-fig6", "gloo-alexnet-64", "gloo-alexnet-64-ratio", "gloo-resnet50-64-ratio")
def _gloo(points: Points, claim: Claim) -> Explanation:
    row, model = best_row(points, claim.where), str(claim.where["model"])
    comm_ms, printed_ms = comm_s(row) * 1e3, printed_beyond_ms("gloo", model)
    argument = gloo_asks_for_a_slower_link(comm_ms, printed_ms, asked("gloo"), link_gbps=_fact("link-rate") / 1e9)
    seen = f"{comm_ms:.0f} of the printed {printed_ms:.0f} ms beyond computation. {account(points, row)}"
    return Explanation("The printed Gloo uses a quarter of the link", argument, seen)


def gloo_asks_for_a_slower_link(comm_ms: float, printed_ms: float, asks: Asked, link_gbps: float) -> str:
    """Communication as measured and as printed, and the rate through a
    machine's port that the printed times ask for."""
    gpus = _fact("machine-gpus")
    port_share = gpus * 2 * (1 - 1 / gpus)  # bytes through a machine's port, in sizes of the model
    asked_gbps = port_share * 8 / asks.mb_ms
    premise(
        comm_ms < printed_ms,
        "less than the printed communication",
        f"{comm_ms:.0f} and {printed_ms:.0f} ms",
    )
    premise(
        asked_gbps < link_gbps / 2,
        "printed times that ask for less than half of the link's rate",
        f"{asked_gbps:.0f} of {link_gbps:g} Gbit/s",
    )
    return (
        "Nothing is fitted: messages go by RDMA at the link's full rate, and one core adds. The printed times of "
        f"AlexNet and ResNet-50 ask for {asks}, which is {asked_gbps:.0f} Gbit/s through a machine's port, "
        f"{asked_gbps / link_gbps:.0%} of the link. A likely reason is TCP, which Gloo uses unless PyTorch is built "
        "for InfiniBand; the paper does not say how it was."
    )


@explains("gradientflow-fig8", "both-beat-mpi")
def _few_messages(points: Points, _: Claim) -> Explanation:
    below = by_size(points, SMALL, OPENMPI)
    names = ("openmpi", "nccl")
    return Explanation(
        "A message is assumed to cost the same in OpenMPI and NCCL",
        few_messages_win_where_tensors_are_small(
            times_ms={
                mib * 1024: (rows["openmpi"].iteration_time_s * 1e3, rows["nccl"].iteration_time_s * 1e3)
                for mib, rows in below.items()
            },
            workers={workers_of(rows[name]) for rows in below.values() for name in names}.pop(),
        ),
    )


def few_messages_win_where_tensors_are_small(times_ms: Mapping[float, tuple[float, float]], workers: int) -> str:
    """Times of OpenMPI and of NCCL by KiB, rising."""
    shown = "; ".join(
        f"{kib:.0f} KiB: {mpi:.2f} ms with OpenMPI, {nccl:.2f} with NCCL" for kib, (mpi, nccl) in times_ms.items()
    )
    (mpi_ms, nccl_ms), *_ = times_ms.values()
    last_mpi_ms, last_nccl_ms = list(times_ms.values())[-1]
    premise(
        mpi_ms < nccl_ms and mpi_ms / nccl_ms < last_mpi_ms / last_nccl_ms,
        "OpenMPI to be ahead with the smallest tensor, and less so with larger ones",
        shown,
    )
    halvings = 2 * int(np.log2(workers))
    return (
        f"{shown}. Among {workers}, halving and doubling sends {halvings} messages one after the other and a ring "
        f"{ring_steps(workers)}, and each is assumed to cost the same in both libraries. The paper prints no time of "
        "a small tensor, nor what a message of OpenMPI costs, which passes through the processor's memory."
    )
