"""Why some of Geryon's claims differ, from plans and logs.

Each bound function reads the numbers that the function named after its argument argues from
(reproduction/scoring/explanations.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from gradwire.datatypes.plan import Combine, OpKind, Plan, Role
from reproduction.geryon.points import (
    FC,
    SERVERS,
    SLICES,
    forward_s,
    has_slices,
    scheduling_ms,
    share_of_kind,
    wait_ms,
)
from reproduction.measuring import begin_ns, received_spans, sentence
from reproduction.scoring.evidence import PointEvidence, Points
from reproduction.scoring.explanations import Explanation, explains, premise
from reproduction.scoring.reference import Claim, printed_number
from reproduction.scoring.shapes import SLACK, close

_printed = partial(printed_number, "geryon")


@explains("geryon-fig7", "slicing")
def _slicing(points: Points, _: Claim) -> Explanation:
    where = {"strategy": "partition-slicing", "options": "slice_parameters=0"}
    stored = points.stored(**where)
    model = stored[0].model
    return Explanation(
        "The backward pass hides aggregation without slices",
        slices_gain_little(
            exposed_s=float(np.mean([_exposed_s(point) for point in stored])),
            iteration_s=points.row(**where).iteration_time_s,
            orders=len(stored),
            fc_share=share_of_kind(model, model.layer_parameters(), FC),
        ),
    )


def slices_gain_little(exposed_s: float, iteration_s: float, orders: int, fc_share: float) -> str:
    """Slices overlap aggregation with pushes, and here there is next to nothing left to overlap."""
    premise(
        exposed_s <= SLACK * iteration_s,
        "aggregation hidden behind the pushes without any slices",
        f"it outlasts the last push by {exposed_s * 1e3:.0f} ms of {iteration_s:.2f} s",
    )
    premise(
        fc_share > 0.5,
        "the last layers, which the backward pass reaches first, to hold most of the parameters",
        f"fully connected layers hold {fc_share:.0%}",
    )
    return (
        f"Without slices, aggregation outlasts the last push by {exposed_s * 1e3:.0f} ms of an iteration of "
        f"{iteration_s:.2f} s (op logs, mean over {orders} orders): the large shards come first in the backward pass, "
        "and the rest of it hides them."
    )


def _exposed_s(point: PointEvidence) -> float:
    """How long after the last gradient has arrived a server still adds, in iteration 1."""
    plan, log = point.plan(), point.log()
    now = log.iteration == 1
    added = now & (plan.ops.kind[log.op] == OpKind.REDUCE)
    arrived = now & (plan.ops.combine[log.op] == Combine.ADD)
    return float(log.end_ns[added].max() - log.end_ns[arrived].max()) / 1e9


@explains("geryon-table4", "slices-1024K", "slices-512K", "slices-256K")
def _slices(points: Points, claim: Claim) -> Explanation:
    counts = np.bincount(points.plan(**claim.where).chunk_tensor)
    printed = [_printed("geryon-table4", f"slices-{size // 1024}K") for size in SLICES]
    small, large = (int(counts[kind].sum()) for kind in (counts <= SERVERS, counts > SERVERS))
    argument = slices_of_two_kinds(
        tensors=len(counts),
        small=small,
        large=large,
        halvings=[f"slices-{size // 1024}K" for size in SLICES].index(claim.id),
        printed=printed,
    )
    return Explanation(
        "Tensors are cut along another grid", argument, f"{small} shards and {large} slices of larger tensors."
    )


COUNT_SHARE = 0.05
"""How far the two kinds of slices may be from those that the paper's counts imply and still be the same two kinds."""


def slices_of_two_kinds(tensors: int, small: int, large: int, halvings: int, printed: list[float]) -> str:
    """The paper's counts are a constant and a part that doubles, and so are the plan's, cut along another grid."""
    doubling = printed[1] - printed[0]
    constant = printed[0] - doubling
    fitted = constant + doubling * 2**halvings
    premise(
        printed[2] == constant + 4 * doubling,
        "the printed counts to be a constant and a part that doubles with every halving of the threshold",
        ", ".join(f"{count:g}" for count in printed),
    )
    premise(
        close(small, constant, COUNT_SHARE) and close(large, fitted - constant, COUNT_SHARE),
        f"about {constant:g} shards and {fitted - constant:g} slices in the plan, as the printed counts imply",
        f"{small} and {large}",
    )
    return (
        f"The plan cuts {tensors} tensors along their first axis, into shards of those that become {SERVERS} at most "
        f"and slices of the larger ones. The paper's three counts fit {constant:g} + {doubling:g} x (1024K / "
        "threshold); it does not list them."
    )


@explains("geryon-table4", "geryon-1024K", "geryon-512K", "geryon-256K", "tictac-1024K", "tictac-512K", "tictac-256K")
def _throughput(points: Points, claim: Claim) -> Explanation:
    point = points.point(**claim.where)
    assert isinstance(claim.printed, float)
    rate = _printed("geryon-table4", "geryon-1024K") / SERVERS / _printed("geryon-table2", "vgg-19-geryon")
    argument = table_4_rests_on_slower_gpus(
        single_gpu_s=point.model.batch / rate,
        compute_s=sum(point.model.forward_s) + sum(point.model.backward_s),
        over_printed=points.row(**claim.where).throughput_per_s / claim.printed,
    )
    seen = sentence(point)
    if claim.where["strategy"] == "tictac-slicing":
        seen += f" {turns_run_beside(wait_ms(point), scheduling_ms(point.plan()))}"
    return Explanation("Table IV rests on slower computation than Table II", argument, seen)


def table_4_rests_on_slower_gpus(single_gpu_s: float, compute_s: float, over_printed: float) -> str:
    """Tables II and IV of the paper imply different compute times of one GPU."""
    premise(
        single_gpu_s > compute_s and over_printed > 1,
        "Table IV to rest on slower computation than the emulation, and so to print less than was measured",
        f"{single_gpu_s:.3f} s against {compute_s:.3f} s, with {over_printed:.2f} times the printed throughput",
    )
    return (
        f"Table IV rests on {single_gpu_s:.3f} s of computation (its throughput at Table II's efficiency), and the "
        f"emulation on the {compute_s:.3f} s that Table II's vanilla cell implies: {single_gpu_s / compute_s - 1:.0%} "
        "of every cell."
    )


def turns_run_beside(waited_ms: float, scheduled_ms: float) -> str:
    """Most of the scheduler's time does not show."""
    premise(
        waited_ms < scheduled_ms / 2,
        "most of the slices' turns to run during the forward pass",
        f"it waits {waited_ms:.0f} ms, and the turns take {scheduled_ms:.0f} ms",
    )
    return (
        f"In the log the forward pass waits for parameters {waited_ms:.0f} ms, for the slices' turns run at the same "
        "time."
    )


@explains("geryon-table4", "ratio-1024K", "ratio-512K", "ratio-256K", "gap-grows", "bigger-nets")
def _ratios(points: Points, _: Claim) -> Explanation:
    of = {
        (name, size): next(p for p in points.stored(run="geryon-table4", strategy=name) if has_slices(p, size))
        for name in ("geryon", "tictac-slicing")
        for size in SLICES
    }
    return Explanation(
        "Only its scheduler puts TicTac behind, and the forward pass hides most of its turns",
        end_hosts_do_well(
            geryon_ms={size: wait_ms(of["geryon", size]) for size in SLICES},
            tictac_ms={size: wait_ms(of["tictac-slicing", size]) for size in SLICES},
            scheduled_ms={size: scheduling_ms(of["tictac-slicing", size].plan()) for size in SLICES},
            turn=of["tictac-slicing", SLICES[0]].parameters["options"].rpartition("=")[2],
            imbalance=_imbalance(of["tictac-slicing", SLICES[0]].plan()),
        ),
    )


def end_hosts_do_well(
    geryon_ms: Mapping[int, float],
    tictac_ms: Mapping[int, float],
    scheduled_ms: Mapping[int, float],
    turn: str,
    imbalance: float,
) -> str:
    """By slicing threshold: how long the forward pass waits with either, and how long TicTac's scheduler takes."""
    shown = "; ".join(
        f"at {size // 1024}K {geryon_ms[size]:.0f} ms with Geryon and {tictac_ms[size]:.0f} ms with TicTac"
        for size in geryon_ms
    )
    premise(
        imbalance <= 1.05,
        "every server to send about as many bytes as the others",
        f"the busiest one sends {imbalance:.2f} times the mean",
    )
    premise(
        all(tictac_ms[size] < scheduled_ms[size] / 2 for size in tictac_ms),
        "less than half of the scheduler's turns to show as waiting",
        f"{shown}; turns of {', '.join(f'{ms:.0f} ms' for ms in scheduled_ms.values())}",
    )
    smallest = min(tictac_ms)
    premise(
        tictac_ms[smallest] > geryon_ms[smallest] and tictac_ms[smallest] == max(tictac_ms.values()),
        "TicTac to wait longest with the smallest slices, of which its scheduler has the most",
        shown,
    )
    return (
        f"In the logs of Table IV the forward pass waits for parameters {shown}, whose scheduler takes {turn} a "
        "slice. Every server holds about as much of every part of the model, so servers that each keep the layers' "
        "order stay in step: the order at the end hosts alone hides the pull, while Geryon's two classes leave the "
        "order among convolutions to chance. So only its scheduler puts TicTac behind, and its turns run during the "
        "forward pass."
    )


def _imbalance(plan: Plan) -> float:
    """Bytes that the busiest server sends over the mean of all."""
    ops = plan.ops
    pulls = (ops.kind == OpKind.SEND) & (ops.chunk >= 0) & (plan.rank_role[ops.rank] == Role.SERVER)
    sent = np.bincount(ops.rank[pulls], ops.size_bytes[pulls], len(plan.rank_role))[plan.rank_role == Role.SERVER]
    return float(sent.max() / sent.mean())


@explains("geryon-fig10", "iteration-increase-256k")
def _increase(points: Points, claim: Claim) -> Explanation:
    point = points.point(run="geryon-fig10", scheduling_cost_per_slice=TURN)
    assert isinstance(claim.printed, float)
    return Explanation(
        "The forward pass hides most of the scheduler's turns",
        forward_pass_hides_turns(
            forward_ms=forward_s(point) * 1e3,
            waited_ms=wait_ms(point),
            scheduled_ms=_printed("geryon-fig10", "tictac-256k-max"),
            pull_ms=_printed("geryon-fig10", "pull-time"),
            increase_ms=claim.printed,
        ),
    )


TURN = "9.52ms"
"""What the scenario charges for a slice, so that all slices of a channel take what Fig. 10 prints for them."""


def forward_pass_hides_turns(
    forward_ms: float, waited_ms: float, scheduled_ms: float, pull_ms: float, increase_ms: float
) -> str:
    """What of the scheduling outlasts the forward pass is what the iteration grows by."""
    premise(
        abs(waited_ms - (scheduled_ms - forward_ms)) <= 0.1 * scheduled_ms,
        "the forward pass to wait for what of the scheduling outlasts it, within a tenth of the scheduling",
        f"{waited_ms:.0f} ms of waiting, {scheduled_ms:.0f} ms of scheduling, a forward pass of {forward_ms:.0f} ms",
    )
    premise(
        close(scheduled_ms - pull_ms, increase_ms, 0.2),
        "the printed increase to be the scheduling time beyond the pull's, as if neither ran during the forward pass",
        f"{increase_ms:.0f} ms for {scheduled_ms:.0f} - {pull_ms:.0f} ms",
    )
    return (
        f"In the log the slices' turns come during the forward pass, which takes {forward_ms:.0f} ms and hides that "
        f"much of the {scheduled_ms:.0f} ms of scheduling: the pass waits {waited_ms:.0f} ms. The printed increase is "
        f"what {scheduled_ms:.0f} ms exceed the pull's {pull_ms:.0f} ms by, as if scheduling ran during the pull "
        "alone; the paper does not say why it would."
    )


@explains("geryon-fig4b", "unscheduled-needs-100g")
def _rate_to_catch_up(points: Points, _: Claim) -> Explanation:
    point = points.point(device="k40", order="layer", rate="8gbit")
    plan, log = point.plan(), point.log()
    worker = int(plan.workers[0])
    pulled_ns = int(received_spans(plan, log, worker, 1, Combine.COPY).end_ns.max())
    return Explanation(
        "A small difference decides the rate",
        small_difference_sets_the_rate(
            pull_s=(pulled_ns - begin_ns(plan, log, worker, 1)) / 1e9,
            forward_s=sum(point.model.forward_s),
            model_gbit=point.model.parameters * 32 / 1e9,
            rate_gbps=point.fabric.rate_bps / 1e9,
        ),
    )


def small_difference_sets_the_rate(pull_s: float, forward_s: float, model_gbit: float, rate_gbps: float) -> str:
    """The rate that the worst order needs is a quotient by a small difference of two measured times."""
    payload_s = model_gbit / rate_gbps
    spare_s, bare_spare_s = pull_s - forward_s, payload_s - forward_s
    premise(
        0 < bare_spare_s < spare_s <= pull_s / 4,
        "the pull in the best order to outlast the forward pass by a small part of itself, headers or not",
        f"a pull of {pull_s:.3f} s ({payload_s:.3f} s without headers) and a forward pass of {forward_s:.3f} s",
    )
    return (
        f"The rate follows from a small difference: at {rate_gbps:g} Gbit/s the pull in the best order ({pull_s:.3f} "
        f"s in the log) outlasts the forward pass ({forward_s:.3f} s) by {spare_s:.3f} s, and so long may a pull in "
        f"the worst order take. Eq. 6 counts no frame headers: then the pull takes {payload_s:.3f} s, which leaves "
        f"{bare_spare_s:.3f} s, or {model_gbit / bare_spare_s:.0f} Gbit/s."
    )
