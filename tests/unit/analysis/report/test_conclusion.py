"""What a run says in two sentences: for one point, several strategies, a sweep, and both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gradwire.analysis.points import PointResult
from gradwire.analysis.printed import compare
from gradwire.analysis.report import conclusion as module
from gradwire.analysis.report.charts import Labels
from gradwire.analysis.report.conclusion import trust, validity
from gradwire.analysis.report.ranking import rank, ranking_table
from gradwire.analysis.report.tables import points_table
from gradwire.analysis.verdict.checks import Check
from gradwire.analysis.verdict.verdict import Verdict
from tests.shared.parts import tells

COMPUTE_S = 0.8


def row(time_s: float, verdict: str = "valid", **parameters: str) -> PointResult:
    return PointResult(
        {"strategy": "ring", "seed": "1", **parameters}, time_s, None, None, 1 / time_s, COMPUTE_S / time_s, 0, 1.0, 0.9,
        "bandwidth", "00ff", verdict,
    )  # fmt: skip


def conclusion(*arguments: Any, **options: Any) -> str:
    return str(module.conclusion(*arguments, **options))


def concluded(*rows: PointResult, **labels: str) -> str:
    return conclusion(rows, Labels(labels))


def test_one_point() -> None:
    assert tells(concluded(row(1.0)), "Ring", "1.000 s", "network is", "80%", "1.11", "(bandwidth)", "point is valid")


def test_several_strategies_at_one_setting_with_labels() -> None:
    text = concluded(row(1.0), row(2.0, strategy="vanilla"), ring="Ring of NCCL", vanilla="Vanilla")
    assert tells(text, "Ring of NCCL is", "1.000 s", "2.00x Vanilla", "All 2 points")


def test_strategies_that_train_something_else_are_named_and_not_compared() -> None:
    rows = [row(1.0), row(2.0, strategy="vanilla"), row(0.5, strategy="csc"), row(0.4, strategy="diloco")]
    text = conclusion(rows, Labels({"diloco": "DiLoCo"}), ("csc", "diloco"))
    assert tells(text, "ring is fastest", "1.000 s", "2.00x vanilla", ". DiLoCo and csc are", "All 4 points")
    swept = [
        replace(each, parameters={**each.parameters, "rate": rate}) for each in rows[:3] for rate in ("1gbit", "2gbit")
    ]
    text = conclusion(swept, Labels({}), ("csc", "diloco"))
    assert tells(text, "Ring is fastest", "both rates", "Csc is not compared")


def test_a_strategy_that_is_alone_is_compared_with_itself() -> None:
    alone = [row(0.5, strategy="diloco")]
    assert tells(conclusion(alone, Labels({}), ("csc", "diloco")), "Diloco", "0.5000 s")
    swept = [row(0.5, strategy="diloco", rate="1gbit"), row(0.4, strategy="diloco", rate="2gbit")]
    assert tells(conclusion(swept, Labels({}), ("csc", "diloco")), "diloco", "0.4000 s (")
    options = [row(0.5, strategy="csc", options="share=0.1"), row(0.6, strategy="csc", options="share=0.2")]
    assert "share=0.1 is fastest" in conclusion(options, Labels({}), ("csc",))


def test_two_that_train_something_else_are_not_compared_with_each_other() -> None:
    text = conclusion([row(0.5, strategy="csc"), row(0.4, strategy="diloco")], Labels({}), ("csc", "diloco"))
    assert tells(text, "Diloco and csc are", "not compared", "All 2 points")
    assert "fastest" not in text


def test_windows_are_named_and_not_the_network() -> None:
    by_windows = replace(row(1.0, strategy="ring"), fluid_cause="windows")
    assert tells(concluded(by_windows), "Ring", "1.000 s", "windows", "(transport.buffer)", "80%", "point is valid")
    both = [
        row(1.0, strategy="ring", delay="1ms"),
        replace(row(2.0, strategy="ring", delay="2ms"), fluid_cause="windows"),
    ]
    by_network, by_buffer = (
        ("; the network", "delay = 1ms", "80%"),
        ("windows (transport.buffer)", "delay = 2ms", "40%"),
    )
    assert tells(concluded(*both), *by_network, *by_buffer)
    (_, alone), (_, other) = [(each, replace(each, fluid_cause="windows")) for each in both]
    assert tells(concluded(alone, other), "windows (transport.buffer)", "delay = 1ms", "80%", "delay = 2ms (40%)")
    assert "; the network" not in concluded(alone, other)


def sweep(*names_and_times: tuple[str, tuple[float, ...]]) -> list[PointResult]:
    rates = ("10gbit", "25gbit", "40gbit")
    return [
        row(time_s, strategy=name, rate=rate)
        for name, times in names_and_times
        for rate, time_s in zip(rates, times, strict=True)
    ]


def test_a_sweep_of_one_strategy_has_its_ends() -> None:
    text = concluded(*sweep(("ring", (2.0, 1.0, 0.82))))
    by_network, by_computation = ("; the network", "10gbit (", "40%", "25gbit (80%)"), ("; computation", "40gbit (98%")
    assert tells(text, "ring", "0.8200 s (40gbit)", "2.000 s (10gbit)", *by_network, *by_computation, "All 3 points")


def test_many_settings_with_one_limit_are_counted_and_their_range_is_given() -> None:
    rows = [row(time_s, strategy="ring", rate=f"{i}gbit") for i, time_s in enumerate((2.0, 1.6, 1.5, 1.2, 1.0))]
    assert tells(concluded(*rows), "; the network", "all 5 rates", "40% to 80%")
    other = row(0.82, strategy="ring", rate="9gbit")
    assert tells(concluded(*rows, other), "; computation", "9gbit (98%")


def test_a_sweep_of_several_says_who_is_fastest_where_and_by_how_much() -> None:
    rows = sweep(("ring", (1.0, 0.9, 0.82)), ("vanilla", (2.0, 1.5, 0.9)))
    text = concluded(*rows)
    assert tells(text, "Ring is fastest", "all 3 rates:", "1.10x to 2.00x", "vanilla", "10gbit")
    rows = sweep(("ring", (1.0, 0.9, 0.85)), ("p3", (1.2, 0.9, 0.82)), ("vanilla", (2.0, 1.5, 0.9)))
    text = concluded(*rows)
    assert tells(text, "Ring is fastest", "level", "2 of 3 rates", "p3 elsewhere", "1.06x to 2.00x", "vanilla")


def test_intervals_and_open_questions_are_told() -> None:
    rows = [
        replace(r, iteration_time_s=r.iteration_time_s * factor, parameters={**r.parameters, "seed": str(seed)})
        for r in sweep(("vanilla", (2.0, 1.5, 1.01)))
        for seed, factor in enumerate((0.9, 1.0, 1.1))
    ]
    text = conclusion([*rows, *sweep(("ring", (1.0, 0.9, 1.0)))], Labels({}), (), [True] * 9 + [False] * 3)
    assert tells(text, "1.01x to 2.00x", "(1.50 to 2.50)", "vanilla", "10gbit", "; 1 comparison", "seeds")
    single = conclusion(sweep(("vanilla", (2.0, 1.5, 1.01)), ("ring", (1.0, 0.9, 1.0))), Labels({}), (), [True] * 6)
    assert tells(single, "; random orders", "one seed", "All 6")


def test_a_parameter_of_some_strategies_alone_makes_no_setting_of_its_own() -> None:
    rows = [row(1.5, strategy="p3", unsent="256KB"), row(1.0)]
    assert tells(concluded(*rows), "ring is fastest", "1.000 s", "1.50x p3")


@pytest.mark.parametrize("rows", [[], [row(1.0, "invalid: drops")]])
def test_without_a_result_there_is_none(rows: list[PointResult]) -> None:
    assert "no result. " in concluded(*rows)


def test_invalid_points_are_counted_and_never_fastest() -> None:
    text = concluded(row(0.1, "invalid: drops", strategy="p3"), row(1.0), row(2.0, strategy="vanilla"))
    assert tells(text, "ring is fastest", "2 of 3 points")
    assert "p3" not in text


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


def test_a_ranking_has_its_own_sentence() -> None:
    rows = [row(1.0), row(2.0, strategy="vanilla")]
    ranking = rank(rows, {}, (), {})
    assert "ring is fastest:" in conclusion(rows, Labels({}), ranking=ranking)


def test_a_report_begins_with_the_answer_and_ends_its_summary_with_trust() -> None:
    rows = [replace(row(1.0), fluid_time_s=0.99), replace(row(2.0, strategy="kvstore"), fluid_time_s=2.0)]
    said = module.conclusion(rows, Labels({}))
    answer, limit = said.lines
    assert "ring is fastest:" in answer
    assert limit.startswith("The network is")
    verdict = Verdict(True, (Check("drops", "0", "0", True, "bytes were lost"),) * 3, "valid")
    assert tells(trust(said.validity, rows, [verdict, verdict]), "All 2 points", "all 6 checks", "1.000 to 1.010 times")
    doubtful = [rows[0], replace(rows[1], verdict="invalid: drops 3")]
    assert trust(validity(doubtful), doubtful, [verdict, verdict]) == validity(doubtful)
    (line,) = module.conclusion([doubtful[1]], Labels({})).lines
    assert "no result" in line
