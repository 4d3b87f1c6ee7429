"""What a run says of what was varied: choices, conditions, workers, batches, models, and jobs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradwire.analysis.fault_effects import FaultEffect
from gradwire.analysis.findings.axes import KeyRole, axes_of
from gradwire.analysis.findings.findings import BestChoice, Effects, FaultEffects, Finding, OfJob, RequestsServed, find
from gradwire.analysis.findings.observations import OtherResults, observations
from gradwire.analysis.points import PointResult
from gradwire.analysis.printed import compare
from gradwire.analysis.report.charts import Labels
from gradwire.analysis.report.conclusion import conclusion, trust, validity
from gradwire.analysis.report.finding_table import findings_frame
from gradwire.analysis.report.finding_words import sentences
from gradwire.analysis.report.ranking import rank, ranking_table
from gradwire.analysis.report.tables import points_table
from gradwire.analysis.request_times import RequestSpread, RequestTimes, mean_times
from gradwire.analysis.verdict.checks import Check
from gradwire.analysis.verdict.verdict import Verdict
from tests.shared.parts import in_order, tells

COMPUTE_S = 0.8


def row(time_s: float, verdict: str = "valid", **parameters: str) -> PointResult:
    return PointResult(
        {"strategy": "ring", "seed": "1", **parameters}, time_s, None, None, 1 / time_s, COMPUTE_S / time_s, 0, 1.0, 0.9,
        "bandwidth", "00ff", verdict,
    )  # fmt: skip


KEYS = {
    **{"rate": "fabric.rate", "delay": "fabric.delay", "congestion": "transport.congestion", "batch": "model.batch"},
    **{"connections": "transport.connections", "unsent": "transport.unsent", "device": "model.device"},
    **{"placement": "job.theirs.placement"},
}
PARTIAL = ("csc", "diloco")


def found(*rows: PointResult, random: tuple[str, ...] = ()) -> tuple[Finding, ...]:
    drawn = [row.parameters["strategy"] in random for row in rows]
    return find(observations(rows, PARTIAL, drawn), KEYS)


def faulted(lost_s: float | None, slowdown: float, **parameters: str) -> tuple[PointResult, FaultEffect]:
    return row(1.0, **parameters), FaultEffect(lost_s, slowdown)


def of_faults(*runs: tuple[PointResult, FaultEffect]) -> tuple[tuple[Finding, ...], str]:
    rows, effects = zip(*runs, strict=True)
    seen = observations(rows, PARTIAL, others=[OtherResults(each) for each in effects])
    said = find(seen, KEYS | {"duration": "fault.cut.duration"})
    return said, " ".join(sentences(said, Labels({})))


def concluded(*rows: PointResult, random: tuple[str, ...] = (), **labels: str) -> str:
    return str(conclusion(rows, found(*rows, random=random), Labels(labels)))


def swept(key: str, **times_s: tuple[float, ...]) -> list[PointResult]:
    """Strategies' times at the values of a key, which are the first names of VALUES."""
    values = VALUES[key]
    return [
        row(time_s, strategy=name, **{key: value})
        for name, times in times_s.items()
        for value, time_s in zip(values, times, strict=False)
    ]


VALUES = {
    "rate": ("10gbit", "25gbit", "40gbit", "100gbit"),
    "delay": ("0us", "100us", "2ms"),
    "congestion": ("cubic", "dctcp", "bbr"),
    "connections": ("1", "2", "4", "8"),
    "device": ("v100", "k40"),
}


def with_seeds(rows: list[PointResult], *factors: float) -> list[PointResult]:
    return [
        replace(r, iteration_time_s=r.iteration_time_s * factor, parameters={**r.parameters, "seed": str(seed)})
        for r in rows
        for seed, factor in enumerate(factors)
    ]


def test_one_point() -> None:
    assert tells(concluded(row(1.0)), "of ring", "1.000 s", "80 %", "point is valid")


def test_a_choice_has_a_best_value_whatever_it_is() -> None:
    assert tells(
        concluded(*swept("congestion", ring=(1.0, 0.5, 0.8))),
        "ongestion = dctcp is fastest",
        "0.5000 s",
        "1.60x",
        "bbr",
        "2.00x",
        "cubic",
    )
    names = concluded(row(1.0), row(2.0, strategy="vanilla"), ring="Ring of NCCL", vanilla="Vanilla")
    assert tells(names, "Ring of NCCL is", "1.000 s", "2.00x as fast as Vanilla", "All 2 points")
    assert tells(
        concluded(*swept("connections", ring=(1.0, 0.8, 0.803, 0.801))),
        "onnections = 2 to 8 are fastest",
        "level",
        "1.25x",
    )


def test_what_makes_no_difference_is_said() -> None:
    assert tells(
        concluded(*swept("congestion", ring=(1.0, 1.005))), "no difference", "congestion = cubic or dctcp", "1.000 s"
    )
    assert tells(concluded(*swept("rate", ring=(1.0, 1.0, 1.005))), "Rate from 10gbit to 40gbit makes no difference")


def test_a_condition_changes_the_time_and_has_an_end() -> None:
    falls = concluded(*swept("rate", ring=(2.0, 1.0, 0.82, 0.82)))
    assert tells(
        falls, "From 10gbit to 100gbit", "2.000 s to 0.8200 s", "2.44x as fast", "from 40gbit on", "40 %", "98 %"
    )
    rises = concluded(*swept("delay", ring=(1.0, 1.001, 2.0)))
    assert tells(rises, "delay = 0us to 2ms", "2.00x as long", "up to delay = 100us")
    assert tells(concluded(*swept("rate", ring=(2.0, 1.0, 1.5))), "shortest with 25gbit", "longest with 10gbit")
    assert tells(concluded(*swept("device", ring=(1.0, 2.0))), "1.000 s with v100", "2.000 s with k40", "2.00x as long")
    assert "fastest" not in falls + rises


def test_where_the_best_choice_turns() -> None:
    (best, *_) = found(
        *swept("rate", ring=(1.2, 1.0, 0.9, 0.82), p3=(1.0, 1.1, 0.95, 0.82), vanilla=(2.0, 1.5, 1.0, 0.82))
    )
    assert isinstance(best, BestChoice)
    assert [dict(standing.best.value)["strategy"] for standing in best.standings[:3]] == ["p3", "ring", "ring"]
    text = concluded(*swept("rate", ring=(1.2, 1.0, 0.9, 0.82), p3=(1.0, 1.1, 0.95, 0.82)))
    assert tells(
        text,
        "P3 is fastest at 10gbit",
        "1.20x as fast as ring",
        "ring at 25gbit and 40gbit",
        "no difference at 100gbit",
    )
    always = concluded(*swept("rate", ring=(1.0, 0.9, 0.82), vanilla=(2.0, 1.5, 0.9)))
    assert tells(always, "Ring is fastest at all 3 rates", "1.10x to 2.00x as fast as vanilla", "most at 10gbit")
    assert tells(concluded(*swept("rate", ring=(1.0, 1.0), p3=(1.0, 1.0))), "trategy makes no difference at both rates")


def test_of_several_choices_it_is_said_which_matters() -> None:
    rows = [
        row(time_s, strategy=name, congestion=congestion)
        for name, times in {"ring": (1.0, 1.002), "p3": (1.5, 1.503)}.items()
        for congestion, time_s in zip(("cubic", "dctcp"), times, strict=True)
    ]
    effects = next(each for each in found(*rows) if isinstance(each, Effects))
    assert [(each.choice.names, round(each.most, 2)) for each in effects.of] == [
        (("strategy",), 1.5),
        (("congestion",), 1.0),
    ]
    assert tells(
        concluded(*rows),
        "Ring is fastest",
        "Strategy changes the time by up to 1.50x",
        "congestion makes no difference",
    )


def test_other_work_is_compared_by_throughput_and_share() -> None:
    workers = [
        replace(row(time_s, workers=n), throughput_per_s=int(n) / time_s) for n, time_s in (("2", 1.0), ("8", 1.6))
    ]
    assert tells(concluded(*workers), "8 workers process 2.50x as many samples per second as 2", "4.00x")
    batches = [
        replace(row(time_s, batch=n), throughput_per_s=int(n) / time_s) for n, time_s in (("32", 1.0), ("64", 1.2))
    ]
    assert tells(concluded(*batches), "Batch = 64 processes most samples per second", "1.67x", "1.000 s", "1.200 s")
    models = concluded(row(1.0, model="a"), row(2.0, model="b"))
    assert tells(models, "80 %", "with a", "40 % with b")
    assert "as fast" not in models
    assert "as long" not in models


def test_jobs_are_not_ranked_against_each_other() -> None:
    rows = [
        replace(row(time_s, job=job, model=job, placement=placement), alone_time_s=1.0 if job == "ours" else 0.1)
        for placement, times in (("packed", (1.0, 0.2)), ("spread", (1.5, 0.1)))
        for job, time_s in zip(("ours", "theirs"), times, strict=True)
    ]
    ours, theirs = found(*rows)
    assert isinstance(ours, OfJob)
    assert isinstance(theirs, OfJob)
    assert (ours.alone_ratios, theirs.alone_ratios) == ((1.0, 1.0), (1.0, 1.0))
    text = concluded(*rows)
    assert tells(
        text,
        "Job ours: placement = packed is fastest",
        "1.50x",
        "cost it nothing",
        "Job theirs: placement = spread",
        "2.00x",
    )


def test_seeds_are_averaged_over_and_a_doubt_is_one_statement() -> None:
    alone = concluded(*with_seeds([row(1.0, strategy="vanilla")], 0.9, 1.0, 1.1))
    assert tells(alone, "of vanilla takes 1.000 s", "3 seeds", "0.9000 s to 1.100 s")
    close = [*with_seeds([row(1.0, strategy="vanilla")], 0.8, 1.0, 1.3), row(1.0), row(3.0, strategy="p3")]
    text = concluded(*close, random=("vanilla",))
    assert tells(text, "do not show which of vanilla and ring", "would", "p3 took at least")
    assert "is fastest:" not in text
    single = concluded(*swept("rate", vanilla=(2.0, 1.5), ring=(1.0, 0.9)), random=("vanilla",))
    assert tells(single, "Ring took least time at both rates", "one seed", "run.seed")
    told = concluded(*with_seeds([row(2.0, strategy="vanilla")], 0.9, 1.0, 1.1), row(1.0))
    assert tells(told, "Ring is fastest", "2.00x (1.50 to 2.50) as fast as vanilla")


def test_strategies_that_train_something_else_are_named_and_not_compared() -> None:
    rows = [row(1.0), row(2.0, strategy="vanilla"), row(0.5, strategy="csc"), row(0.4, strategy="diloco")]
    assert tells(
        concluded(*rows, diloco="DiLoCo"), "Ring is fastest", "1.000 s", ". Csc and DiLoCo are not compared", "All 4"
    )
    assert "fastest" not in concluded(*rows[2:])
    assert tells(concluded(*swept("rate", diloco=(0.5, 0.4))), "0.5000 s to 0.4000 s")
    options = [row(0.5, strategy="csc", options="share=0.1"), row(0.6, strategy="csc", options="share=0.2")]
    assert "Share=0.1 is fastest" in concluded(*options)


def test_a_parameter_of_some_strategies_alone_makes_no_setting_of_its_own() -> None:
    rows = [row(1.5, strategy="p3", unsent="256KB"), row(1.0)]
    assert tells(concluded(*rows), "Ring is fastest", "1.000 s", "1.50x as fast as p3.")


def test_parameters_that_vary_together_are_one() -> None:
    settings = [{"rate": "10gbit", "workers": "2"}, {"rate": "25gbit", "workers": "4"}]
    (axis,) = axes_of(settings, KEYS)
    assert (axis.names, axis.role) == (("rate", "workers"), KeyRole.WORKERS)
    (table,) = axes_of(
        [{"cluster": "workers=2, servers=1", "workers": "2"}, {"cluster": "workers=4, servers=2", "workers": "4"}], {}
    )
    assert (table.names, table.role) == (("cluster",), KeyRole.WORKERS)


@pytest.mark.parametrize("rows", [[], [row(1.0, "invalid: drops")]])
def test_without_a_result_there_is_none(rows: list[PointResult]) -> None:
    assert "no result. " in concluded(*rows)


def test_invalid_points_are_never_fastest_and_are_missed() -> None:
    rows = [row(0.1, "invalid: drops", strategy="p3"), row(1.0), row(2.0, strategy="vanilla")]
    assert tells(concluded(*rows), "P3 has no result", "of the others, ring is fastest", "2 of 3 points")


def test_windows_are_named_and_not_the_network() -> None:
    both = [row(1.0, delay="0us"), replace(row(2.0, delay="2ms"), fluid_cause="windows")]
    assert tells(concluded(*both), "With delay = 2ms it waits for sockets' windows", "transport.buffer")


def test_the_table_of_findings_has_the_numbers_and_the_sentences() -> None:
    rows = swept("rate", ring=(1.0, 0.9), p3=(1.5, 1.0))
    frame = findings_frame(found(*rows), Labels({}))
    best = frame[frame["finding"] == "best"]
    assert list(best["value"]) == ["strategy=ring", "strategy=p3"] * 2
    assert list(best["ratio"].round(3)) == [1.0, 1.5, 1.0, 1.111]
    assert set(frame["sentence"]) == set(sentences(found(*rows), Labels({})))


def test_what_a_report_warns_of_is_not_called_valid() -> None:
    unexplained = replace(row(1.0, strategy="butterfly"), fluid_cause="unexplained")
    pooled = replace(row(1.0, strategy="p3"), fluid_cause="sockets, unexplained")
    known, invalid = replace(row(2.0), fluid_cause="sockets"), row(0.1, "invalid: drops", strategy="kvstore")
    assert [each.state for each in (unexplained, pooled, known, invalid)] == ["unexplained"] * 2 + ["valid", "invalid"]
    all_four = concluded(unexplained, known, pooled, invalid)
    assert tells(concluded(unexplained, known), "1 of 2 points", "valid", "1 is unexplained.")
    assert tells(all_four, "1 of 4 points", "valid", "2 are unexplained", "1 is not")
    assert concluded(unexplained).endswith("is unexplained.")
    assert tells(concluded(unexplained, pooled), "None of 2 points", "2 are unexplained.")
    for table in (
        points_table([unexplained, known], compare([], ()), {}),
        ranking_table(rank([unexplained, known], {}, (), {})),
    ):
        assert [cells[-1] for cells in table.rows] == ["unexplained", "valid"]
        assert table.tone == ("doubtful", "good")


def test_a_report_begins_with_the_answer_and_ends_its_summary_with_trust() -> None:
    rows = [replace(row(1.0), fluid_time_s=0.99), replace(row(2.0, strategy="kvstore"), fluid_time_s=2.0)]
    said = conclusion(rows, found(*rows), Labels({}))
    answer, share = said.lines
    assert "Ring is fastest:" in answer
    assert share.startswith("Computation takes")
    verdict = Verdict(True, (Check("drops", "0", "0", True, "bytes were lost"),) * 3, "valid")
    assert tells(trust(said.validity, rows, [verdict, verdict]), "All 2 points", "all 6 checks", "1.000 to 1.010 times")
    doubtful = [rows[0], replace(rows[1], verdict="invalid: drops 3")]
    assert trust(validity(doubtful), doubtful, [verdict, verdict]) == validity(doubtful)
    (line,) = conclusion([doubtful[1]], found(doubtful[1]), Labels({})).lines
    assert "no result" in line


def test_a_fault_is_told_by_what_it_costs_and_not_by_a_mean_over_iterations_with_and_without_it() -> None:
    said, text = of_faults(faulted(0.25, 3.0, duration="10ms"), faulted(1.5, 9.0, duration="100ms"))
    assert [type(each) for each in said] == [FaultEffects]
    assert tells(text, "0.2500 s", "duration = 10ms", "1.500 s", "duration = 100ms")
    frame = findings_frame(said, Labels({}))
    assert frame[["finding", "setting", "ratio"]].values.tolist() == [
        ["fault", "duration=10ms", 3.0],
        ["fault", "duration=100ms", 9.0],
    ]


def test_a_fault_that_lasts_is_told_by_how_much_slower_iterations_are() -> None:
    _, text = of_faults(faulted(None, 3.0))
    assert "3.00x as long" in text
    _, text = of_faults(*(faulted(None, float(n), duration=f"{n}ms") for n in range(2, 9)))
    assert tells(text, "2.00x as long", "duration = 2ms", "8.00x as long", "duration = 8ms")


def test_the_model_that_a_faster_network_helps_the_most_is_named() -> None:
    text = concluded(row(1.0, model="resnet50"), row(4.0, model="vgg16"))
    assert "helps vgg16 the most" in text
    assert "helps" not in concluded(*swept("rate", ring=(1.0, 0.9)))


def test_one_seed_is_said_of_a_single_point_as_well() -> None:
    assert "run.seed = [1, 2, 3]" in concluded(row(1.0), random=("ring",))
    assert "run.seed" not in concluded(row(1.0))


def served(first_s: float, later_s: float) -> OtherResults:
    first, later = (RequestSpread(time_s, 2 * time_s) for time_s in (first_s, later_s))
    return OtherResults(requests=RequestTimes(5, first, later, None, None))


def test_requests_are_told_by_how_long_they_wait_and_not_by_iterations_that_arrivals_decide() -> None:
    rows = [row(1.0, rate=rate) for rate in ("10gbit", "25gbit")]
    said = find(observations(rows, others=[served(0.5, 0.02), served(0.25, 0.01)]), KEYS)
    assert [type(each) for each in said] == [RequestsServed]
    (text,) = sentences(said, Labels({}))
    assert in_order(text, "10gbit", "500 ms (1 s)", "20 ms (40 ms)", "25gbit", "250 ms (500 ms)", "10 ms (20 ms)")
    assert findings_frame(said, Labels({}))["setting"].tolist() == ["rate=10gbit", "rate=25gbit"]


def test_of_many_settings_those_are_named_between_which_requests_wait() -> None:
    rows = [row(1.0, rate=f"{rate}gbit") for rate in range(1, 7)]
    said = find(observations(rows, others=[served(1 / rate, 0.01) for rate in range(1, 7)]), KEYS)
    (text,) = sentences(said, Labels({}))
    assert in_order(text, "6gbit", "166.7 ms", "1gbit", "1 s (2 s)")


def test_times_of_requests_are_means_over_seeds_if_all_have_them() -> None:
    both = [served(0.5, 0.02).requests, served(0.25, 0.01).requests]
    assert mean_times(both) == RequestTimes(5, RequestSpread(0.375, 0.75), RequestSpread(0.015, 0.03), None, None)
    assert mean_times([*both, None]) is None
