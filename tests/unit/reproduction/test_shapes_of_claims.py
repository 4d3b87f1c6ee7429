"""Claims judged by a predicate of their own: what they accept, and that a little more or less is refused."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from reproduction.scoring.evidence import PointEvidence, Points, measure_of
from reproduction.scoring.reference import load_paper
from reproduction.scoring.score import load_bindings
from tests.shared.stored_points import stored


def judged(paper: str, scenario: str, claim: str, points: list[PointEvidence]) -> bool | None:
    """What the claim's function says of the points."""
    load_bindings()
    measure = measure_of(scenario, claim)
    assert measure is not None
    found = next(s for s in load_paper(paper).scenario if s.id == scenario)
    return measure(Points(points), next(c for c in found.claim if c.id == claim)).holds


def sliced(throughputs: Mapping[int, float]) -> list[PointEvidence]:
    """By slicing threshold."""
    return [
        stored(1 / y, run="geryon-fig7", strategy="partition-slicing", options=f"slice_parameters={size}")
        for size, y in throughputs.items()
    ]


@pytest.mark.parametrize(
    ("throughputs", "answer"),
    [
        ({65536: 0.90, 1048576: 1.00, 16777216: 0.995}, True),
        ({65536: 0.90, 1048576: 0.995, 16777216: 1.00}, True),  # the chosen threshold ties with the best
        ({65536: 0.90, 1048576: 0.98, 16777216: 1.00}, False),
        ({65536: 0.99, 1048576: 1.00, 16777216: 0.995}, False),  # small slices cost nothing that is seen
    ],
)
def test_small_slices_lose_and_the_chosen_threshold_is_as_good_as_any(
    throughputs: dict[int, float], answer: bool
) -> None:
    assert judged("geryon", "geryon-fig7", "threshold-shape", sliced(throughputs)) is answer


@pytest.mark.parametrize(
    ("geryon", "tictac", "answer"),
    [
        ((1.00, 0.99, 0.97), (0.975, 0.96, 0.90), True),
        ((1.00, 0.99, 0.97), (0.975, 0.98, 0.90), False),  # the gap is smaller at 512K
        ((1.00, 0.99, 0.97), (0.975, 0.995, 0.90), False),  # behind at 512K
        ((1.00, 0.99, 0.97), (0.975, 0.965, 0.946), False),  # no growth
        ((1.00, 0.99, 1.02), (0.975, 0.98, 0.90), False),  # Geryon gains with smaller slices
    ],
)
def test_geryons_lead_over_tictac_grows_with_smaller_slices(
    geryon: tuple[float, ...], tictac: tuple[float, ...], answer: bool
) -> None:
    points = [
        stored(1 / y, run="geryon-table4", strategy=strategy, options=f"slice_parameters={size}")
        for strategy, throughputs in (("geryon", geryon), ("tictac-slicing", tictac))
        for size, y in zip((1048576, 524288, 262144), throughputs, strict=True)
    ]
    assert judged("geryon", "geryon-table4", "gap-grows", points) is answer


@pytest.mark.parametrize(("resnet", "answer"), [(1.13, True), (1.16, True), (1.17, False)])
def test_copying_fusion_hardly_beats_nccl_in_any_model(resnet: float, answer: bool) -> None:
    points = []
    for model, gain in (("alexnet-bn", 1.05), ("resnet50-gf", resnet)):
        for strategy, throughput in (("layer-allreduce", 1.0), ("horovod", gain)):
            points.append(stored(1 / throughput, run="gradientflow-fig9-pytorch", model=model, strategy=strategy))
    assert judged("gradientflow", "gradientflow-fig16", "horovod-copy", points) is answer


@pytest.mark.parametrize(
    ("multicast", "both", "answer"),
    [
        ((1.7, 1.65, 1.6), (3.3, 2.1, 1.6), True),
        ((1.7, 1.75, 1.6), (3.3, 2.1, 1.6), False),
        ((1.7, 1.7, 1.7), (3.3, 2.1, 1.6), False),
        ((1.7, 1.65, 1.6), (3.3, 3.4, 1.6), False),
    ],
)
def test_gains_fade_with_modules_that_compute(
    multicast: tuple[float, ...], both: tuple[float, ...], answer: bool
) -> None:
    falling = (1.4, 1.2, 1.0)
    gains = {
        "multicast-ps": multicast,
        "multicast-aggregation-ps": both,
        "ring": falling,
        "aggregation-ps": falling,
        "butterfly-mixing": falling,
    }
    base = "inception-v3-netops"
    points = []
    for number, (model, run) in enumerate(
        ((base, "netops-mechanisms"), (f"{base}+25compute", "netops-fig10"), (f"{base}+125compute", "netops-fig10"))
    ):
        for strategy, gain in {"netops-ps": (1.0, 1.0, 1.0), **gains}.items():
            time_s = 10.0 / gain[number]
            points.append(stored(time_s, run=run, model=model, rate="25gbit", workers=32, strategy=strategy))
    assert judged("netops", "netops-fig10", "decrease", points) is answer


def conditions(times_s: Mapping[tuple[str, str], float]) -> list[PointEvidence]:
    """By rate and strategy: one model, 32 workers."""
    return [
        stored(time_s, run="netops-bandwidth", model="vgg16-299", workers=32, rate=rate, strategy=strategy)
        for (rate, strategy), time_s in times_s.items()
    ]


@pytest.mark.parametrize(("at_100", "answer"), [(1.00, True), (0.991, True), (0.975, False)])
def test_a_ring_must_be_at_least_as_good_as_the_network_under_every_condition(at_100: float, answer: bool) -> None:
    both = "multicast-aggregation-ps"
    times_s = {("10gbit", "ring"): 1.0, ("10gbit", both): 1.3, ("100gbit", "ring"): 1.0, ("100gbit", both): at_100}
    assert judged("netops", "netops-sec87-ranking", "endhost-ge-network", conditions(times_s)) is answer


@pytest.mark.parametrize(
    ("ring", "multicast", "answer"),
    [
        ((3.0, 3.2, 4.0), (1.7, 1.8, 2.0), True),
        ((3.0, 3.5, 4.0), (1.7, 1.8, 2.0), False),  # half of the rise in a fifth of the modules
        ((3.0, 3.2, 4.0), (1.7, 3.5, 4.5), False),  # multicast overtakes
    ],
)
def test_gains_grow_in_a_line_with_modules_that_communicate(
    ring: tuple[float, ...], multicast: tuple[float, ...], answer: bool
) -> None:
    base, points = "inception-v3-netops", []
    gains = {"ring": ring, "multicast-aggregation-ps": ring, "butterfly-mixing": ring, "multicast-ps": multicast}
    gains["aggregation-ps"] = (1.4, 1.5, 1.6)
    for number, count in enumerate((0, 25, 125)):
        model = f"{base}+{count}network" if count else base
        run = "netops-fig9" if count else "netops-mechanisms"
        for strategy, gain in {"netops-ps": (1.0, 1.0, 1.0), **gains}.items():
            points.append(stored(10 / gain[number], run=run, model=model, rate="25gbit", workers=32, strategy=strategy))
    assert judged("netops", "netops-fig9", "grow", points) is answer


@pytest.mark.parametrize(
    ("two_s", "four_s", "answer"), [(0.94, 0.93, True), (0.90, 0.85, True), (0.96, 0.93, False), (0.90, 0.92, False)]
)
def test_two_priorities_give_what_is_reported_and_more_cost_nothing(two_s: float, four_s: float, answer: bool) -> None:
    points = [stored(1.0, run="geryon-table2", model="resnet50", strategy="partition-slicing")]
    points += [
        stored(time_s, run="geryon-sec3c", model="resnet50", strategy="geryon", thresholds=thresholds)
        for thresholds, time_s in (("[0.25]", 0.99), ("[0.75]", two_s), ("[0.25, 0.5, 0.75]", four_s))
    ]
    assert judged("geryon", "geryon-sec3c-threshold", "two-priorities-enough", points) is answer


@pytest.mark.parametrize(
    ("gaps", "answer"),
    [((1.01, 1.05, 1.08), True), ((0.90, 0.95, 0.98), False), ((1.05, 1.05, 1.08), False), ((1.05, 1.09, 1.05), False)],
)
def test_a_gain_that_grows_with_the_network_is_a_gain(gaps: tuple[float, float, float], answer: bool) -> None:
    places = (("10gbit", 4), ("10gbit", 16), ("leaf-spine", 16))
    points = [
        stored(1 / throughput, run="geryon-larger", strategy=strategy, fabric=fabric, workers=workers)
        for (fabric, workers), gap in zip(places, gaps, strict=True)
        for strategy, throughput in (("geryon", gap), ("tictac-slicing", 1.0))
    ]
    assert judged("geryon", "geryon-table4", "bigger-nets", points) is answer
