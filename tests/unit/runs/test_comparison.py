"""`gradwire compare`: which strategies take part and with which settings, and a comparison without a machine."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from gradwire.documents import Document
from gradwire.faults import InputFault
from gradwire.runs.comparing.planning import plan_comparison
from gradwire.runs.comparing.questions import AskedNetwork, Question
from gradwire.runs.compiling.ideal_times import fluid_times, held_rule
from gradwire.runs.estimation import estimate_points
from gradwire.runs.planned import plan_runs, virtual_clock
from gradwire.scenario.contenders import CONTENDERS, contenders, is_random, lineup
from gradwire.scenario.loading import Scenario, resolve
from gradwire.scenario.resolution.compilation import ResolvedPoint, compile_point
from gradwire.scenario.resolution.transport_fit import buffer_bytes
from gradwire.scenario.schema import TransportSection
from tests.shared.command_line import needs_no_kernel
from tests.shared.parts import in_order, tells
from tests.shared.small_jobs import training_strategies
from tests.unit.runs.stored.test_named_run import replaying_job
from tests.unit.runs.test_campaign import machine
from tests.unit.scenario.definitions.own_files import write_own_files


def scenario(question: Question, *names: str, seeds: int = 3) -> Scenario:
    return resolve(lineup(question.document(), contenders(names), seeds), "test", "test")


SMALL = Question("alexnet", 2, AskedNetwork("10gbit"))


def test_every_strategy_of_the_catalogue_takes_part() -> None:
    assert {contender.strategy for contender in CONTENDERS} == set(training_strategies())
    assert [contender.strategy for contender in contenders()] == [contender.strategy for contender in CONTENDERS]
    with pytest.raises(InputFault, match="'p4' is unknown"):
        contenders(["p4"])


@pytest.mark.parametrize("contender", CONTENDERS, ids=lambda contender: contender.strategy)
def test_a_strategy_is_called_random_just_if_its_plans_differ_by_seed(contender: Any) -> None:
    nested = Question("alexnet", 2, AskedNetwork("10gbit", leaf_spine=True), settings=("fabric.spines=1",))
    first = resolve(lineup(nested.document(), [contender], 2), "test", "test").points[0].section
    second = first.model_copy(update={"run": first.run.model_copy(update={"seed": 2})})
    digests = [[plan.digest() for plan in compile_point(section).plans.values()] for section in (first, second)]
    assert (digests[0] != digests[1]) == contender.random


def test_seeds_belong_to_strategies_with_random_orders() -> None:
    comparison = scenario(SMALL, "vanilla", "ring", "p3")
    seeds = {
        name: [p.section.run.seed for p in comparison.points if p.section.strategy.name == name]
        for name in ("vanilla", "ring", "p3")
    }
    assert seeds == {"vanilla": [1, 2, 3], "ring": [1], "p3": [1]}
    assert {p.section.transport for p in comparison.points} == {TransportSection()}
    assert comparison.chart == "ranking"


def test_where_spines_are_chosen_by_seed_every_strategy_has_several() -> None:
    comparison = scenario(
        Question("alexnet", 4, AskedNetwork("10gbit", oversubscription=2.0)), "ring", "hierarchical-ring"
    )
    assert sorted((p.section.strategy.name, p.section.run.seed) for p in comparison.points) == [
        (name, seed) for name in ("hierarchical-ring", "ring") for seed in (1, 2, 3)
    ]
    fabric = comparison.points[0].section.fabric
    assert (fabric.topology, fabric.leaves, fabric.spines, fabric.oversubscription) == ("leaf-spine", 2, 2, 2.0)
    assert comparison.points[3].section.strategy.options["group"] == 2


def test_the_question_names_the_folder_and_finds_a_device() -> None:
    assert SMALL.name == "compare-alexnet-2-10gbit"
    assert SMALL.document()["model"] == {"name": "alexnet", "device": "k40"}
    assert Question("gpt2-xl", 2, AskedNetwork("10gbit")).document()["model"]["device"] == "v100"
    asked = Question(
        "sockeye", 2, AskedNetwork("1gbit"), iteration_time="300ms", servers=1, settings=("model.batch=8",)
    )
    document = asked.document()
    assert asked.name == "compare-sockeye-300ms-2-1gbit-1servers-model.batch=8"
    assert document["cluster"] == {"workers": 2, "servers": 1}
    assert (document["model"]["iteration_time"], document["model"]["batch"]) == ("300ms", 8)


def settled(*settings: str, leaf_spine: bool = False) -> Question:
    return Question("alexnet", 4, AskedNetwork("10gbit", leaf_spine), settings=settings)


def test_the_model_and_the_device_may_be_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_own_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    asked = Question("mine/tiny.toml", 2, AskedNetwork("10gbit"), device="mine/gpu.toml")
    assert asked.name == "compare-tiny-gpu-2-10gbit"
    compared = scenario(asked, "ring", "vanilla")
    assert tells(compared.title, "tiny", "2 x my-gpu")
    assert {point.parameters["model"] for point in compared.points} == {"tiny"}
    assert Question("mine/tiny.toml", 2, AskedNetwork("10gbit")).document()["model"]["device"] == "v100"
    with pytest.raises(InputFault, match=r"model.name: .*none.toml: "):
        Question("none.toml", 2, AskedNetwork("10gbit")).document()


def test_a_title_says_what_is_set() -> None:
    nested = settled("fabric.oversubscription=4", "cluster.workers=8", leaf_spine=True)
    for question, parts in (
        (settled(), ["alexnet", "4 x k40", "10gbit"]),
        (settled("fabric.rate=25gbit", "model.name=vgg19"), ["vgg19", "4 x k40", "25gbit"]),
        (nested, ["alexnet", "8 x k40", "10gbit", "leaf/spine 4:1"]),
    ):
        assert tells(question.document()["title"], *parts)
    assert settled("title=mine").document()["title"] == "mine"


def test_a_seed_that_is_set_is_the_first() -> None:
    comparison = scenario(settled("run.seed=7"), "vanilla", "ring")
    assert [(p.section.strategy.name, p.section.run.seed) for p in comparison.points] == [
        *(("vanilla", seed) for seed in (7, 8, 9)),
        ("ring", 7),
    ]


def test_what_is_set_goes_before_what_senders_do() -> None:
    def unsent_bytes(*settings: str) -> list[int | None]:
        return [ResolvedPoint(p.section).unsent_bytes for p in scenario(settled(*settings), "p3", "ring").points]

    assert unsent_bytes("transport.send_ends=buffered", "transport.unsent=64KiB") == [65536, 65536]
    assert unsent_bytes("transport.send_ends=buffered") == [256_000, 1 << 20]
    assert unsent_bytes("transport.send_ends=departure") == [None, None]
    assert unsent_bytes("transport.buffer=1MiB") == [256_000, None]


def test_a_comparison_and_a_run_plan_the_same_point_where_their_settings_are_the_same(tmp_path: Path) -> None:
    """So that one question has one answer: the key has everything that decides a result, and a run repeats to the nanosecond."""
    question = settled("model.device=v100")
    _, compared = plan_comparison(question, contenders(["p3", "vanilla", "ring"]), 1, tmp_path)
    document: Document = {
        "title": "a question",
        "cluster": {"workers": 4},
        "fabric": {"rate": "10gbit"},
        "model": {"name": "alexnet", "device": "v100"},
        "strategy": {"name": "ring"},
        "sweep": {"strategy.name": ["p3", "ring", "vanilla"]},
    }
    points = resolve(document, "test", "test").points
    own = plan_runs(points, tmp_path, virtual_clock(points))
    assert {run.key for run in compared} == {run.key for run in own}
    estimates = estimate_points(points, jobs=1)
    for planned, estimate in zip(own, estimates, strict=True):
        (plan,) = planned.plans.values()
        rule = held_rule(planned.unsent_bytes, planned.fabric, buffer_bytes(planned.point.section, planned.fabric))
        assert estimate.iteration_time_s == fluid_times(plan, planned.fabric, rule).iteration_s


@pytest.mark.parametrize(
    ("setting", "key"),
    [
        ("strategy.name=p3", "strategy.name"),
        ("strategy=p3", "strategy"),
        ("chart=auto", "chart"),
    ],
)
def test_what_the_line_up_decides_cannot_be_set(setting: str, key: str) -> None:
    with pytest.raises(InputFault, match=f"--set {key}: `gradwire compare`"):
        settled(setting).document()


def test_options_are_varied_for_those_that_have_them(tmp_path: Path) -> None:
    question = settled('strategy.options.wire=["fp32","fp16"]', "strategy.options.buffer_bytes=1000000")
    comparison, prepared = plan_comparison(question, contenders(["ring", "horovod", "vanilla"]), 2, tmp_path)
    taking_part = [(p.section.strategy.name, p.section.strategy.options, p.section.run.seed) for p in comparison.points]
    assert taking_part == [
        ("ring", {"wire": "fp32"}, 1),
        ("ring", {"wire": "fp16"}, 1),
        ("horovod", {"wire": "fp32", "buffer_bytes": 1000000}, 1),
        ("horovod", {"wire": "fp16", "buffer_bytes": 1000000}, 1),
        ("vanilla", {}, 1),
        ("vanilla", {}, 2),
    ]
    assert [ready.point for ready in prepared] == list(comparison.points)
    assert {name: reason.partition(":")[0] for name, reason in comparison.left_out.items()} == {
        "ring with buffer_bytes": "no option 'buffer_bytes'",
        "vanilla with wire": "no option 'wire'",
        "vanilla with buffer_bytes": "no option 'buffer_bytes'",
    }
    assert (
        question.name
        == "compare-alexnet-4-10gbit-strategy.options.wire=fp32,fp16-strategy.options.buffer_bytes=1000000"
    )


def test_a_value_that_an_option_does_not_take_is_left_out_by_name(tmp_path: Path) -> None:
    question = settled('strategy.options.wire=["fp16","fp8"]')
    comparison, _ = plan_comparison(question, contenders(["ring"]), 2, tmp_path)
    assert [p.section.strategy.options["wire"] for p in comparison.points] == ["fp16"]
    assert list(comparison.left_out) == ["ring (wire=fp8)"]
    assert "strategy.options.wire" in comparison.left_out["ring (wire=fp8)"]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("strategy.options.wier=fp16", "no strategy that takes part has this option; did you mean 'wire'"),
        ("strategy.options.wire=[]", "the list of values is empty"),
        ('strategy.name=["ring","p3"]', "strategies are ranked at one setting"),
    ],
)
def test_an_option_that_nothing_has_is_refused(tmp_path: Path, setting: str, message: str) -> None:
    with pytest.raises(InputFault, match=message):
        plan_comparison(settled(setting), contenders(["ring"]), 2, tmp_path)


def test_an_option_that_makes_an_order_random_brings_seeds(tmp_path: Path) -> None:
    question = settled('strategy.options.order=["random","reverse"]')
    comparison, _ = plan_comparison(question, contenders(["tictac"]), 3, tmp_path)
    taking_part = [(p.section.strategy.options["order"], p.section.run.seed) for p in comparison.points]
    assert taking_part == [("random", 1), ("random", 2), ("random", 3), ("reverse", 1)]


def test_where_workers_times_are_drawn_every_strategy_has_several_seeds() -> None:
    comparison = scenario(settled('costs.compute_variation={value=0.1,source="made up"}'), "ring", "p3")
    assert [p.section.run.seed for p in comparison.points] == [1, 1, 2, 2, 3, 3]
    assert all(is_random(p.section) for p in comparison.points)


def test_what_cannot_win_by_its_estimate_is_left_out(tmp_path: Path) -> None:
    question = Question("alexnet", 4, AskedNetwork("10gbit"))
    chosen = contenders(["ring", "butterfly", "halving-doubling"])
    comparison, prepared = plan_comparison(question, chosen, 2, tmp_path, estimate_first=True)
    assert [ready.point.section.strategy.name for ready in prepared] == ["ring", "halving-doubling"]
    assert [point.section.strategy.name for point in comparison.points] == ["ring", "halving-doubling"]
    (reason,) = comparison.left_out.values()
    assert re.match(r"not run: .* [\d.]+ s .*, 1\.\d\d times", reason)
    _, all_run = plan_comparison(question, chosen, 2, tmp_path)
    assert len(all_run) == len(chosen)


def test_what_cannot_run_is_left_out_with_its_reason(tmp_path: Path) -> None:
    question = Question("alexnet", 3, AskedNetwork("10gbit"))
    comparison, prepared = plan_comparison(
        question, contenders(["ring", "butterfly", "hierarchical-ring"]), 2, tmp_path
    )
    assert [ready.point.section.strategy.name for ready in prepared] == ["ring"]
    assert "power of two" in comparison.left_out["butterfly"]
    assert "--leaf-spine" in comparison.left_out["hierarchical-ring"]
    with pytest.raises(InputFault, match=in_order("no strategy", "power of two")):
        plan_comparison(question, contenders(["butterfly"]), 2, tmp_path)


def test_what_is_wrong_for_all_is_said_without_what_one_lacks_besides(tmp_path: Path) -> None:
    question = Question("alexnet", 4, AskedNetwork("10gbit"), device="k04")
    with pytest.raises(InputFault, match="'k04' is not") as raised:
        plan_comparison(question, contenders(["ring", "hierarchical-ring"]), 2, tmp_path)
    assert "--leaf-spine" not in str(raised.value)


def test_strategies_are_ranked_at_one_setting() -> None:
    with pytest.raises(InputFault, match=in_order("--set cluster.workers:", "one setting")):
        scenario(Question("alexnet", 2, AskedNetwork("10gbit"), settings=("cluster.workers=[2,4]",)), "ring")
    document = {**lineup(SMALL.document(), contenders(["ring"]), 2), "sweep": {"fabric.rate": ["1gbit", "2gbit"]}}
    with pytest.raises(InputFault, match=in_order('chart = "ranking"', "one setting")):
        resolve(document, "test", "test")


@pytest.mark.parametrize(
    ("words", "messages"),
    [
        (["--model", "alexnte"], ["model 'alexnte' is not known", "did you mean 'alexnet'"]),
        (["--device", "k41"], ["device 'k41' is not known", "Devices with a time for 'alexnet': k40"]),
        (["--device", "p4000"], ["device 'p4000' has no time for model 'alexnet'", "Devices with a time"]),
        (["--rate", "fast"], ["gradwire compare: fabric.rate", "10gbit"]),
        (["--workers", "0"], ["cluster.workers = 0"]),
        (["--strategy", "rign"], ["strategy 'rign' is unknown", "did you mean 'ring'"]),
        (["--workers", "3", "--leaf-spine"], ["must divide"]),
        (["--seeds", "1"], ["--seeds"]),
        (["--set", "defined=5"], ["defined = 5"]),
        (["--set", "defined.models=5"], ["defined.models = 5"]),
        (["--set", "model=5"], ["model = 5"]),
        (["--set", "fabric.spines=x"], ["gradwire compare: fabric.spines = 'x'", "whole number"]),
        (["--leaf-spine", "--set", "fabric.leaves=x", "--strategy", "hierarchical-ring"], ["fabric.leaves = 'x'"]),
        (["--set", "fabric.oversubscription=4"], ["fabric.oversubscription = 4: needs fabric.topology = 'leaf-spine'"]),
        (["--oversubscription", "inf"], ["gradwire compare: fabric.oversubscription = inf", "finite"]),
        (["--set", "run.seed=x"], ["gradwire compare: run.seed = 'x'"]),
        (["--set", "transport=x"], ["gradwire compare: transport = 'x'"]),
    ],
)
def test_wrong_input_ends_with_2_before_anything_runs(
    call: Any, tmp_path: Path, words: list[str], messages: list[str]
) -> None:
    status, out, err = call("compare", *_with_defaults(words))
    assert (status, out) == (2, "")
    for text in messages:
        assert text in err
    assert not (tmp_path / "runs").exists()


def _with_defaults(words: list[str]) -> list[str]:
    defaults = {"--model": "alexnet", "--workers": "2", "--rate": "10gbit", "--strategy": "ring"}
    return [*(word for key, value in defaults.items() if key not in words for word in (key, value)), *words]


def test_a_comparison_runs_reports_and_resumes(call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine(monkeypatch, replaying_job)
    needs_no_kernel(monkeypatch)
    words = ["compare", "--model", "alexnet", "--workers", "3", "--rate", "10gbit", "--seeds", "2"]
    words += ["--strategy", "vanilla", "--strategy", "ring", "--strategy", "butterfly"]
    status, out, err = call(*words)
    assert (status, err) == (0, "")
    folder = tmp_path / "runs" / "compare-alexnet-3-10gbit"
    assert tells(out, "butterfly left out", "cluster.workers = 3:")
    assert "Ring is fastest" in out
    assert len(list((folder / "points").iterdir())) == 3
    for name in ("report.html", "chart.png", "chart.svg", "points.csv", "table.md"):
        assert (folder / name).stat().st_size > 0
    assert "power of two" in tomllib.loads((folder / "scenario.toml").read_text())["left_out"]["butterfly"]
    status, again, _ = call(*words)
    assert status == 0
    assert again.count("already there") == 3
    status, reported, _ = call("report", str(folder))
    assert status == 0
    answer = next(line for line in out.splitlines() if line.startswith("Ring is fastest"))
    assert answer in again
    assert answer in reported
