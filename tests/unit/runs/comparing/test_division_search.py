"""The search for divisions: order, pruning, and what a question says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradwire.cli import division_answer, terminal
from gradwire.cli.division_search import ByPackets, prepared_divisions
from gradwire.faults import InputFault
from gradwire.runs.comparing import division_packets
from gradwire.runs.comparing.division_question import DivisionQuestion
from gradwire.runs.comparing.division_search import (
    MEMORY,
    Candidate,
    FoundDivisions,
    candidates,
    estimated_times,
    search,
)
from gradwire.runs.compiling.ideal_times import ideal_times, rule_of
from gradwire.runs.compiling.part_of_job import compiled_part
from gradwire.runs.executing.executor_choice import Where
from gradwire.scenario.loading import scenario_of
from gradwire.workloads.divisions.job_memory import job_memory
from tests.shared.parts import in_order, tells

SMALL = DivisionQuestion("llama3-8b", 64, device="h100", samples=64)


@pytest.fixture(scope="module")
def found() -> FoundDivisions:
    return search(SMALL, 1)


def test_nothing_that_is_left_out_could_be_among_the_best(found: FoundDivisions, tmp_path: Path) -> None:
    times = [each.time_s for each in found.estimated]
    assert times == sorted(times)
    for each in found.estimated:
        assert each.candidate.least(1.0).iteration_s <= each.time_s * (1 + 1e-9)
        assert each.times_s[2.0] <= each.time_s <= each.times_s[0.5]
        assert 0 < (found.mfu(each) or 0) < 0.4
    known = {each.candidate.choice for each in found.estimated}
    last_s = found.best[:10][-1].time_s
    others = [each for each in candidates(SMALL)[0] if each.choice not in known]
    assert others
    assert all(each.least(1.0).iteration_s >= last_s for each in others)
    division_answer.write_files(found, tmp_path)
    kept = json.loads((tmp_path / division_answer.JSON_FILE).read_text())
    assert [row["place"] for row in kept["divisions"]][:10] == list(range(1, 11))
    assert {path.name for path in tmp_path.iterdir()} >= {
        division_answer.CSV_FILE,
        division_answer.SCENARIO_FILE,
        "chart.png",
    }
    assert "lower bound" in " ".join(division_answer.describe(found))


def test_the_conclusion_names_the_fastest_what_is_level_and_what_needs_less_memory(found: FoundDivisions) -> None:
    first, *others = found.best
    level = [each for each in others if each.time_s <= 1.01 * first.time_s]
    smallest = min((first, *level), key=lambda each: each.candidate.memory.total_bytes)
    concluded = division_answer.describe(found)[0]
    assert concluded.startswith(f"Fastest: {first.candidate.choice}: {first.time_s:.4g} s")
    assert (f"Rows 2 to {1 + len(level)} are" in concluded) == (len(level) > 1)
    assert (f"({smallest.candidate.choice.title})" in concluded) == (smallest is not first)
    alone = division_answer.describe(replace(found, estimated=(first,)))[0]
    assert "ow 2" not in alone


def test_columns_that_are_the_same_in_all_divisions_are_left_out(found: FoundDivisions) -> None:
    table = division_answer.make_table(found)
    rows = division_answer.list_rows(found)
    assert ("EP" in table.headers) == any(row["experts"] > 1 for row in rows)
    assert ("CP" in table.headers) == any(row["context"] > 1 for row in rows)
    assert {"microb.", "time (s)", "GB"} <= set(table.headers)
    assert set(table.gives_way) <= set(table.headers)
    assert {len(row) for row in table.rows} == {len(table.headers)}


def test_sharded_data_parallelism_is_among_the_rows(found: FoundDivisions) -> None:
    families = [each.candidate.choice.family for each in found.best]
    assert {"FSDP", "HSDP"} <= set(families)
    slow = [each for each in found.estimated if each.candidate.choice.family == "HSDP"][:1]
    others = [each for each in found.estimated if each.candidate.choice.family != "HSDP"]
    behind = replace(found, estimated=(*others, *others, *slow))
    assert behind.best[10:] == tuple(slow)
    rows = division_answer.list_rows(behind)
    assert [row["place"] for row in rows] == [*range(1, 11), None]
    assert rows[-1]["division"].startswith("HSDP 8 x 8")


def test_a_scenario_of_a_sharded_division_is_the_point_that_was_estimated(found: FoundDivisions) -> None:
    sharded = next(each for each in found.best if each.candidate.choice.family == "HSDP")
    (point,) = scenario_of(SMALL.scenario(sharded.candidate.choice), ()).points
    assert point.section == SMALL.section_of(sharded.candidate.choice)
    memory = job_memory(point.resolved.job, point.resolved.strategy, point.resolved.options)
    assert memory.total_bytes == pytest.approx(sharded.candidate.memory.total_bytes)


def test_the_fastest_run_in_part_as_points_of_a_scenario(found: FoundDivisions) -> None:
    chosen = division_packets.chosen_divisions(found, 2, None)
    assert [part.place for part in chosen.parts] == [1, 2]
    scenario = scenario_of(division_packets.scenario_of(found, chosen.parts), ())
    assert set(scenario.labels.values()) == {"division 1", "division 2"}
    for part, point in zip(chosen.parts, scenario.points, strict=True):
        assert point.section.strategy.options == part.options
        assert (point.section.run.iterations, point.section.run.fidelity) == (1, 0.01)
        compiled = compiled_part(point.resolved)
        (plan,) = compiled.plans.values()
        assert len(plan.workers) < SMALL.gpus
        took_s = ideal_times(plan, compiled.fabric, rule_of(compiled.unsent_bytes)).iteration_s
        assert took_s == pytest.approx(part.division.time_s, rel=0.01)


def test_divisions_whose_copies_cannot_run_are_said(found: FoundDivisions) -> None:
    question = replace(found.question, settings=("transport.connections=2",))
    chosen = division_packets.chosen_divisions(replace(found, question=question), 2, None)
    assert not chosen.parts
    assert all("several connections (transport.connections)" in each.reason for each in chosen.refused)
    rows = division_packets.measured_rows(chosen, [])
    assert [(row["place"], row["measured_s"], row["verdict"]) for row in rows] == [
        (1, None, "not run"),
        (2, None, "not run"),
    ]
    first, _ = division_answer.describe_measured(rows, [])
    assert first == f"Not run: {chosen.refused[0].division.candidate.choice}: {chosen.refused[0].reason}"


def test_a_division_that_cannot_run_does_not_end_the_others(found: FoundDivisions, tmp_path: Path) -> None:
    chosen = division_packets.chosen_divisions(found, 2, None)
    first, second = chosen.parts
    of_all = replace(first, copies=8)
    able, prepared = prepared_divisions(
        found, replace(chosen, parts=(of_all, second)), tmp_path / "packets", terminal.screen()
    )
    assert able.parts == (second,)
    assert [run.point.section.strategy.options for run in prepared.planned] == [second.options]
    (refused,) = able.refused
    assert refused.place == 1
    assert tells(refused.reason, "part.copies = 8:", "8 copies", "take 2")
    with pytest.raises(InputFault, match=in_order("--run 1:", "none", "part.copies = 8")):
        prepared_divisions(found, replace(chosen, parts=(of_all,)), tmp_path / "packets", terminal.screen())


def test_a_table_has_measured_and_estimated_times() -> None:
    row = {"place": 1, "division": "data=8", "estimated_s": 2.0, "measured_s": 2.02, "difference": 0.01}
    other = {"place": 2, "division": "data=4", "estimated_s": 2.1, "measured_s": 2.01, "difference": -0.04}
    invalid = {"place": 3, "division": "data=2", "estimated_s": 2.2, "measured_s": None, "difference": None}
    rows = [{**row, "verdict": "valid"}, {**other, "verdict": "valid"}, {**invalid, "verdict": "invalid: drops"}]
    assert division_answer.make_measured_table(rows).rows[0] == ("1", "data=8", "2", "2.02", "+1.00", "valid")
    assert division_answer.make_measured_table(rows).rows[2] == ("3", "data=2", "2.2", "–", "–", "invalid: drops")
    not_run = {**invalid, "place": 4, "verdict": "not run", "reason": "it has no classes"}
    order, of_invalid, of_others = division_answer.describe_measured([*rows, not_run], [])
    assert tells(order, "2, 1", "not that of")
    assert tells(of_invalid, "1 of 3", "invalid")
    assert tells(of_others, "Not run:", "data=2:", "no classes")


@pytest.mark.parametrize(("model", "key"), [("mixtral-8x7b", "experts"), ("llama3-8b", "context")])
def test_bounds_of_exchanges_between_replicas_are_below_estimates(model: str, key: str) -> None:
    """Of the divisions with the least bounds that have such exchanges."""
    tokens = 32_768 if key == "context" else None
    question = DivisionQuestion(model, 64, rate="100gbit", device="h100", samples=64, tokens=tokens)
    divided = [each for each in candidates(question)[0] if getattr(each.choice, key) > 1]
    of_count: dict[int, Candidate] = {}
    for each in sorted(divided, key=lambda each: each.quick_s(1.0)):
        of_count.setdefault(getattr(each.choice, key), each)
    assert len(of_count) >= 3
    for each in of_count.values():
        result = estimated_times(question.section_of(each.choice))
        assert not isinstance(result, str), result
        assert all(each.least(factor).iteration_s <= time_s * (1 + 1e-9) for factor, time_s in result[0].items())


def test_too_little_memory_leaves_nothing() -> None:
    with pytest.raises(InputFault, match=MEMORY):
        search(DivisionQuestion("llama3-405b", 64, device="h100"), 1)


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"gpus": 8}, "--gpus 8"), ({"gpus": 100}, "--machine-gpus 8: must divide")],
)
def test_numbers_that_cannot_be(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputFault, match=reason):
        DivisionQuestion("llama3-8b", **options)


def test_a_question_has_sequences_of_other_lengths() -> None:
    question = DivisionQuestion("llama3-8b", 64, device="h100", tokens=16384)
    assert (question.sample_tokens, question.batch) == (16384, 1024)
    assert question.asked().shape.heads == 32


@pytest.mark.parametrize(
    ("copies", "where", "said"),
    [(2, Where(), "--copies"), (None, Where(None, "dask", "tcp://10.0.0.1:8786"), "--executor, --scheduler")],
)
def test_how_to_run_says_how_many_run(copies: int | None, where: Where, said: str) -> None:
    with pytest.raises(InputFault, match=in_order(f"{said}:", "(--run 3)")):
        ByPackets(None, copies, where)
