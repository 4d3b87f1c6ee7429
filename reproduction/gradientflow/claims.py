"""GradientFlow's claims: how each is measured. Why some differ: explanations.py, mpi.py.

A claim whose `where` names a strategy without options means the paper's "proper" threshold: the best of those that
were tried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from gradwire.analysis.points import PointResult
from gradwire.analysis.printed import MeasuredOrder
from gradwire.datatypes.plan import Int64, OpKind, Plan, Role
from reproduction.gradientflow.points import (
    FP32_BYTES,
    FUSED,
    IMAGES,
    OPENMPI,
    SMALL,
    STEPS,
    best_row,
    by_size,
    columns,
    comm_s,
    top_layers,
    top_share,
    workers_of,
)
from reproduction.pages.curves import draws
from reproduction.scoring.evidence import Measured, NoEvidence, PointEvidence, Points, measures, ranked
from reproduction.scoring.reference import Claim, Where, load_paper, printed_fact, printed_number
from reproduction.scoring.shapes import SLACK, Series, close, increasing

FP16_BYTES = 2
OTHERS = {"vs-jia": ("gradientflow-table3", "jia-1024"), "vs-akiba": ("gradientflow-table4", "akiba")}
"""Claims with the minutes that others took."""
_CELLS = [
    f"{cluster}-{step}-{what}" for cluster in "pv" for step in STEPS for what in ("throughput", "iter", "speedup")
]
HARDLY = 1.15
"""Gain up to which one library hardly beats another: a little above
what the printed throughputs of Sec. 2.4 come to."""
ALMOST_NOTHING = 1.02
"""Gain up to which it is almost nothing: a little above the larger one of the two that the paper prints."""
LIBRARIES = {"nccl": "NCCL", "nccl-h": "NCCL-H", "openmpi": "OpenMPI"}
COLUMNS = ", ".join(
    f"{number} {name}" for number, name in enumerate(("MPI", "NCCL", "MP", "overlap", "LA", "CSC"), start=1)
)


def _speedup_ratio(points: Points, claim: Claim) -> float:
    row = best_row(points, claim.where)
    return row.scaling_efficiency * workers_of(row)


def _speedup(points: Points, claim: Claim) -> float:
    ahead, behind = best_row(points, claim.where), best_row(points, {**claim.where, **claim.baseline})
    return ahead.throughput_per_s / behind.throughput_per_s


def _time_min(points: Points, claim: Claim) -> float:
    epochs = printed_fact("gradientflow", f"{claim.where['model']}-epochs")
    return epochs * IMAGES / best_row(points, claim.where).throughput_per_s / 60


METRICS: dict[str, Callable[[Points, Claim], float]] = {
    "throughput_per_s": lambda points, claim: best_row(points, claim.where).throughput_per_s,
    "iteration_time_s": lambda points, claim: best_row(points, claim.where).iteration_time_s,
    "utilisation": lambda points, claim: best_row(points, claim.where).scaling_efficiency,
    "speedup_ratio": _speedup_ratio,
    "speedup": _speedup,
    "time_min": _time_min,
}


@measures(
    "gradientflow-abstract", "alexnet-512", "resnet50-512", "opensource-64", "alexnet-minutes", "resnet50-minutes"
)
@measures("gradientflow-fig6", "gloo-alexnet-64", "gloo-alexnet-64-ratio", "gloo-resnet50-64-ratio")
@measures("gradientflow-fig6", "mpi-alexnet-128", "mpi-alexnet-128-ratio", "mpi-resnet50-128-ratio")
@measures("gradientflow-fig9", "pytorch-nccl-alexnet", "pytorch-nccl-resnet50", "systemi-nccl-alexnet")
@measures("gradientflow-fig9", "systemi-nccl-resnet50", "horovod-alexnet", "horovod-resnet50")
@measures("gradientflow-fig9", "pytorch-nccl-alexnet-ratio", "systemi-nccl-alexnet-ratio")
@measures("gradientflow-fig9", "pytorch-nccl-resnet50-ratio", "systemi-nccl-resnet50-ratio")
@measures("gradientflow-fig9", "nccl-vs-mpi-alexnet", "nccl-vs-mpi-resnet50")
@measures("gradientflow-fig11", "alexnet-p128", "resnet50-p128", "alexnet-v512", "resnet50-v512")
@measures("gradientflow-fig14", "alexnet-v512", "alexnet-p128-ratio", "resnet50-p128-ratio", "alexnet-v512-ratio")
@measures("gradientflow-fig14", "resnet50-v512-ratio", "alexnet-v512-util", "resnet50-v512-util")
@measures("gradientflow-fig16", "alexnet-p-noov", "alexnet-p-noov-gain", "alexnet-v-noov", "alexnet-v-noov-gain")
@measures("gradientflow-fig16", "alexnet-v-ratio", "resnet50-p-noov", "resnet50-p-noov-ratio", "resnet50-v-noov")
@measures("gradientflow-fig16", "resnet50-v-noov-ratio", "resnet50-p-ov", "resnet50-p-ov-ratio", "resnet50-v-ov")
@measures("gradientflow-fig16", "resnet50-v-ov-ratio")
@measures("gradientflow-fig19", "alexnet-p", "alexnet-p-ratio", "alexnet-v", "alexnet-v-ratio")
@measures("gradientflow-fig19", "alexnet-p-vs-la", "alexnet-v-vs-la")
@measures("gradientflow-table1", *(cell for cell in _CELLS if not cell.endswith("mpi-speedup")))
@measures("gradientflow-table2", *(cell for cell in _CELLS if not cell.endswith("mpi-speedup")))
@measures("gradientflow-table3", "dense", "sparse")
@measures("gradientflow-table4", "dense")
def _number(points: Points, claim: Claim) -> Measured:
    row = best_row(points, claim.where)
    return Measured(METRICS[claim.metric](points, claim), detail=_threshold(row, claim))


def _threshold(row: PointResult, claim: Claim) -> str:
    options = row.parameters.get("options", "")
    open_choice = "options" not in claim.where and "threshold_bytes=" in options
    return f"with the best threshold, {options}" if open_choice else ""


@measures("gradientflow-abstract", "vs-jia", "vs-akiba")
def _versus(points: Points, claim: Claim) -> Measured:
    others_min = printed_number("gradientflow", *OTHERS[claim.id])
    return Measured(others_min / _time_min(points, claim), detail=f"over the other paper's {others_min:g} minutes")


@measures("gradientflow-table1", "p-order", "v-order")
@measures("gradientflow-table2", "p-order", "v-order")
def _columns(points: Points, claim: Claim) -> Measured:
    rows = columns(points, claim.id[0], str(claim.where["model"]))
    return ranked(MeasuredOrder({name: row.throughput_per_s for name, row in rows.items()}))


@measures("gradientflow-sec1-traffic", "bytes-per-gpu", "ideal-time", "gloo-comm", "gloo-util")
def _gloo(points: Points, claim: Claim) -> Measured:
    """Closed form: a ring moves 2 (N - 1) / N K bytes through each GPU; the paper counts 2 K."""
    row = best_row(points, claim.where)
    workers = workers_of(row)
    traffic_bytes = 2 * (workers - 1) / workers * points.model(**claim.where).parameters * FP32_BYTES
    ideal_s = traffic_bytes * 8 / printed_fact("gradientflow", "link-rate")
    values = {
        "bytes-per-gpu": traffic_bytes / 1e6,
        "ideal-time": ideal_s * 1e3,
        "gloo-comm": comm_s(row) * 1e3,
        "gloo-util": ideal_s / comm_s(row),
    }
    detail = (
        "" if claim.id == "gloo-comm" else f"2 (N - 1) / N K at N = {workers}, computed from the model's parameters"
    )
    return Measured(values[claim.id], detail=detail)


@measures("gradientflow-fig5", "alexnet-layers", "resnet50-layers")
def _layers(points: Points, claim: Claim) -> Measured:
    """The paper counts as its framework does, which has layers that take no part in communication."""
    kinds = points.model(**claim.where).layer_kinds
    hidden = kinds.count("fc") - 1
    activations = kinds.count("norm") + hidden
    count = len(kinds) + activations + hidden + kinds.count("other") + 2
    detail = (
        f"{len(kinds)} layers of the profile, {activations} activations, {hidden} dropouts, a split at each of "
        f"{kinds.count('other')} shortcuts, data and loss"
    )
    return Measured(float(count), detail=detail)


@measures("gradientflow-fig5", "alexnet-params", "alexnet-tensors", "resnet50-params", "resnet50-tensors")
def _counts(points: Points, claim: Claim) -> Measured:
    facts = points.model(**claim.where)
    count = facts.parameters if claim.id.endswith("params") else len(facts.tensor_names)
    return Measured(float(count), detail="computed from the model's profile")


@measures("gradientflow-fig13", "alexnet-grads", "alexnet-time", "resnet50-grads", "resnet50-time")
def _skew(points: Points, claim: Claim) -> Measured:
    facts = points.model(**claim.where)
    top = top_layers(facts)
    weights: Sequence[float] = facts.layer_parameters() if claim.id.endswith("grads") else facts.backward_s
    return Measured(
        top_share(weights, facts), detail=f"of {len(top)} layers of the profile, from {facts.layer_names[top[0]]} on"
    )


@measures("gradientflow-fig6", "resnet-less")
def _resnet_less(points: Points, _: Claim) -> Measured:
    rows = {
        model: points.row(run="gradientflow-tables-p-mpi", model=model, strategy="halving-doubling")
        for model in ("alexnet-bn", "resnet50-gf")
    }
    over = {model: 1 / row.scaling_efficiency - 1 for model, row in rows.items()}
    text = f"OpenMPI costs {over['alexnet-bn']:.2f} times the computation for AlexNet, {over['resnet50-gf']:.2f} times for ResNet-50"
    return Measured(text, holds=over["resnet50-gf"] < over["alexnet-bn"] / 2)


def _sent(plan: Plan) -> tuple[Int64, Int64]:
    """Bytes and messages of gradients that each rank sends in an iteration."""
    ops = plan.ops
    sends = (ops.kind == OpKind.SEND) & (ops.chunk >= 0)
    ranks, count = ops.rank[sends], len(plan.rank_role)
    sizes = np.bincount(ranks, weights=ops.size_bytes[sends], minlength=count).astype(np.int64)
    return sizes, np.bincount(ranks, minlength=count).astype(np.int64)


@measures("gradientflow-fig7", "ring-volume", "ring-steps")
def _ring(points: Points, claim: Claim) -> Measured:
    right, seen = True, []
    for point in points.stored(**claim.where):
        plan, workers, size_bytes = point.plan(), int(point.parameters["workers"]), point.model.parameters * FP32_BYTES
        sent_bytes, messages = _sent(plan)
        right &= bool((sent_bytes * workers == 2 * (workers - 1) * size_bytes).all())
        right &= bool((messages == 2 * (workers - 1)).all())
        seen.append(f"N = {workers}: {messages[0]} messages, {sent_bytes[0] / size_bytes:.4f} K bytes per GPU")
    return Measured("; ".join(seen), holds=right, detail="counted in the compiled plans")


@measures("gradientflow-fig7", "hier-message")
def _hierarchical(points: Points, claim: Claim) -> Measured:
    right, seen = True, []
    for point in points.stored(**claim.where):
        plan, size_bytes = point.plan(), point.model.parameters * FP32_BYTES
        workers, groups = int(point.parameters["workers"]), plan.hosts
        between = int(plan.ops.size_bytes[plan.is_remote() & (plan.ops.chunk >= 0)].max())
        right &= between * workers == size_bytes * groups
        seen.append(f"N = {workers}, M = {groups}: K/{size_bytes / between:g} (printed: K/{workers / groups:g})")
    return Measured("; ".join(seen), holds=right, detail="counted in the compiled plans")


@measures("gradientflow-fig8", "order-gt-1mb", "both-beat-mpi")
def _libraries(points: Points, claim: Claim) -> Measured:
    """NCCL and NCCL-H from 1 MiB on, as the paper has it; both against OpenMPI for all sizes."""
    sizes = by_size(points, str(claim.where["run"]), OPENMPI)
    if claim.id == "both-beat-mpi":
        sizes = {**by_size(points, SMALL, OPENMPI), **sizes}
    orders = [
        MeasuredOrder({name: row.throughput_per_s for name, row in rows.items()}, row=f"{mib:g} MiB")
        for mib, rows in sorted(sizes.items())
    ]
    return ranked(*orders)


@measures("gradientflow-fig8", "small-tensors")
def _small_tensors(points: Points, claim: Claim) -> Measured:
    sizes = {**by_size(points, SMALL), **by_size(points, str(claim.where["run"]))}
    rates = [(mib, mib * 2**20 / rows["nccl"].iteration_time_s / 1e9) for mib, rows in sorted(sizes.items())]
    text = ", ".join(f"{mib:g} MiB: {rate:.2f} GB/s" for mib, rate in rates)
    return Measured(text, holds=increasing(rates) and rates[0][1] < rates[-1][1] / 4)


@measures("gradientflow-fig8", "nvlink")
def _nvlink(points: Points, claim: Claim) -> Measured:
    gains = {mib: _gain(rows) for mib, rows in by_size(points, str(claim.where["run"])).items()}
    without = {mib: _gain(rows) for mib, rows in by_size(points, "gradientflow-fig8").items() if mib in gains}
    text = ", ".join(f"{mib:g} MiB: {gains[mib]:.2f} times NCCL's speed (PCIe: {without[mib]:.2f})" for mib in gains)
    return Measured(text, holds=max(gains.values()) > 1.01 and max(without.values()) < 1)


def _gain(rows: dict[str, PointResult], other: str = "nccl-h") -> float:
    """How many times as fast as NCCL another library is."""
    return rows["nccl"].iteration_time_s / rows[other].iteration_time_s


@measures("gradientflow-fig16", "la-wins-small-tensors")
def _fusion(points: Points, _: Claim) -> Measured:
    gains, efficiencies = {}, {}
    for cluster in "pv":
        for model in ("alexnet-bn", "resnet50-gf"):
            where: Where = {"run": f"gradientflow-tables-{cluster}-mixed", "model": model}
            single = points.row(**where, strategy="layer-allreduce", options="wire=fp16, overlap=False")
            fused = points.row(**where, strategy="lazy-allreduce", options=FUSED)
            gains[cluster, model] = fused.throughput_per_s / single.throughput_per_s
            efficiencies[cluster, model] = fused.scaling_efficiency
    right = all(gains["v", model] > gains["p", model] for model in ("alexnet-bn", "resnet50-gf"))
    right &= all(gains[cluster, "resnet50-gf"] > gains[cluster, "alexnet-bn"] for cluster in "pv")
    right &= all(efficiencies[cluster, "resnet50-gf"] > efficiencies[cluster, "alexnet-bn"] for cluster in "pv")
    text = "; ".join(
        f"{'ResNet-50' if model == 'resnet50-gf' else 'AlexNet'} on "
        f"{'128 Pascal' if cluster == 'p' else '512 Volta'}: {gain:.2f}x, then {efficiencies[cluster, model]:.0%} "
        "efficient"
        for (cluster, model), gain in gains.items()
    )
    return Measured(text, holds=right)


@measures("gradientflow-fig16", "horovod-copy")
def _horovod(points: Points, claim: Claim) -> Measured:
    gains = {
        model: points.row(**claim.where, model=model, strategy="horovod").throughput_per_s
        / points.row(**claim.where, model=model, strategy="layer-allreduce").throughput_per_s
        for model in ("alexnet-bn", "resnet50-gf")
    }
    text = f"Horovod over NCCL: {gains['alexnet-bn']:.2f}x for AlexNet, {gains['resnet50-gf']:.2f}x for ResNet-50"
    return Measured(text, holds=max(gains.values()) <= HARDLY * (1 + SLACK))


@measures("gradientflow-fig19", "resnet50-no-gain")
def _no_gain(points: Points, _: Claim) -> Measured:
    gains = []
    for cluster in "pv":
        where: Where = {"run": f"gradientflow-tables-{cluster}-mixed", "model": "resnet50-gf"}
        sparse, lazy = (best_row(points, {**where, "strategy": name}) for name in ("csc", "lazy-allreduce"))
        gains.append(sparse.throughput_per_s / lazy.throughput_per_s)
    text = f"CSC over lazy allreduce: {gains[0]:.3f} on Cluster-P, {gains[1]:.3f} on Cluster-V"
    return Measured(text, holds=max(gains) <= ALMOST_NOTHING)


@measures("gradientflow-fig17-18", "alexnet-chunks", "resnet50-chunks", "sparsity")
def _chunks(points: Points, claim: Claim) -> Measured:
    point = points.stored(**claim.where)[0]
    plan = point.plan()
    norms = plan.chunk_tensor == plan.tensors.index("L1 norms")
    if claim.id == "sparsity":
        selected = float(plan.chunk_bytes[~norms].sum()) / FP16_BYTES
        return Measured(selected / point.model.parameters, detail="counted in the compiled plan")
    return Measured(
        float(plan.chunk_bytes[norms].sum()) / FP16_BYTES, detail="norms that are reduced, counted in the plan"
    )


@measures("gradientflow-sec5-byteps", "half-of-ring")
def _half_of_ring(points: Points, _: Claim) -> Measured:
    server = _one(points, strategy="partition-slicing", servers=32).plan()
    ring = _one(points, strategy="layer-allreduce", servers=32).plan()
    workers = len(ring.workers)
    ratio = float(_sent(server)[0][server.workers].max() / _sent(ring)[0].max())
    return Measured(
        ratio,
        holds=close(ratio, workers / (2 * (workers - 1)), 0.01),
        detail=f"counted in the compiled plans at N = {workers}: N / (2 (N - 1)), which tends to a half",
    )


@measures("gradientflow-sec5-byteps", "server-load")
def _server_load(points: Points, _: Claim) -> Measured:
    right, seen = True, []
    for servers in (8, 32):
        point = _one(points, strategy="partition-slicing", servers=servers)
        plan, size_bytes = point.plan(), point.model.parameters * FP32_BYTES
        sent_bytes = _sent(plan)[0][plan.rank_role == Role.SERVER]
        wanted = size_bytes * len(plan.workers) / servers
        right &= all(close(float(sent), wanted, 0.01) for sent in sent_bytes)
        seen.append(f"M = {servers}: {float(sent_bytes.mean()) / size_bytes:g} K bytes sent by each server")
    return Measured("; ".join(seen), holds=right, detail="counted in the compiled plans")


def _one(points: Points, **where: str | int) -> PointEvidence:
    matching = points.stored(**where)
    if len(matching) != 1:
        raise NoEvidence(f"{len(matching)} points fit {where}")
    return matching[0]


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
