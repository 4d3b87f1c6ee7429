"""Scenarios that name files: relative to the scenario or the current folder, under their own names, and read without the files later."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli_w

from gradwire.faults import InputFault
from gradwire.runs.stored.run_folder import folder_name
from gradwire.runs.stored.settings_in_words import settings_of
from gradwire.scenario.definitions.conversion import model_file, model_text
from gradwire.scenario.loading import Point, load_scenario
from gradwire.scenario.resolution.compilation import ResolvedPoint, compile_point
from gradwire.workloads.models import model
from tests.shared.parts import in_order, tells
from tests.unit.scenario.definitions.own_files import DEVICE, MODEL, write_own_files


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    return write_own_files(tmp_path)


def only(path: Path, *settings: str) -> Point:
    (point,) = load_scenario(path, settings).points
    return point


def digests(point: Point) -> list[str]:
    return [plan.digest() for plan in compile_point(point.section).plans.values()]


def test_files_are_relative_to_the_scenario_and_points_have_their_names(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    point = only(scenario)
    assert (point.parameters["model"], point.parameters["strategy"]) == ("tiny", "one-bucket")
    job = compile_point(point.section).job
    assert job.profile.parameters == 129_000
    assert job.compute_s == pytest.approx(3 * 2.001e9 * 8 / (100e12 * 0.4))
    assert "40%" in job.compute.source
    assert "measured" in job.compute.source


def test_files_on_the_command_line_are_relative_to_the_current_folder(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.toml").write_text(MODEL.replace('"tiny"', '"other"'))
    assert only(scenario, "model.name=other.toml").parameters["model"] == "other"
    swept = load_scenario(scenario, ['model.name=["other.toml", "mine/tiny.toml", "alexnet"]'])
    assert [point.parameters["model"] for point in swept.points] == ["other", "tiny", "alexnet"]


def test_files_stand_in_sweeps_and_cases_too(scenario: Path) -> None:
    text = scenario.read_text()
    both = """
[[cases]]
"strategy.name" = ["ring", "one_bucket.py"]
[[cases]]
strategy = [{ name = "one_bucket.py", options = { wire = "bf16" } }]
"""
    scenario.write_text(text + both)
    points = load_scenario(scenario).points
    assert [point.parameters["strategy"] for point in points] == ["ring", "one-bucket", "one-bucket"]
    assert len({digest for point in points for digest in digests(point)}) == 3


def test_the_copy_in_a_run_folder_needs_no_files(scenario: Path, tmp_path: Path) -> None:
    loaded = load_scenario(scenario)
    copy = tmp_path / "run" / "scenario.toml"
    copy.parent.mkdir()
    copy.write_text(tomli_w.dumps(loaded.document))
    (before,) = loaded.points
    computed = ResolvedPoint(before.section).compute
    for file in (*(tmp_path / "mine").iterdir(), tmp_path / "asked" / "one_bucket.py"):
        file.unlink()
    (after,) = load_scenario(copy, as_run=True).points
    assert (after.parameters, after.section) == (before.parameters, before.section)
    assert folder_name(after) == folder_name(before)
    assert ResolvedPoint(after.section).compute == computed
    told = settings_of(after)
    assert tells(str(told["defined.models.tiny"].value), "2", "made up")
    assert told["defined.strategies.one-bucket"].value == str(tmp_path / "asked" / "one_bucket.py")


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("mine/tiny.toml", "1 GMAC", "2 GMAC"),
        ("mine/tiny.toml", "[64, 1000]", "[64, 1001]"),
        ("mine/gpu.toml", "0.4", "0.5"),
        ("asked/one_bucket.py", "fused(backward_order(job))", "replace(fused(backward_order(job)), copy_in_s=1.0)"),
    ],
)
def test_what_matters_in_a_file_changes_the_plan(scenario: Path, tmp_path: Path, file: str, old: str, new: str) -> None:
    before = digests(only(scenario))
    path = tmp_path / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    assert digests(only(scenario)) != before


def test_comments_and_units_change_nothing(scenario: Path, tmp_path: Path) -> None:
    before = only(scenario)
    path = tmp_path / "mine" / "tiny.toml"
    path.write_text("# a comment\n" + path.read_text().replace("1 GMAC", "2000 MFLOP"))
    assert digests(only(scenario)) == digests(before)


def test_a_points_folder_does_not_depend_on_what_other_points_define(scenario: Path, tmp_path: Path) -> None:
    alone = folder_name(only(scenario))
    (tmp_path / "mine" / "other.toml").write_text(MODEL.replace('"tiny"', '"other"'))
    scenario.write_text(scenario.read_text() + '[sweep]\n"model.name" = ["../mine/other.toml", "../mine/tiny.toml"]\n')
    points = load_scenario(scenario).points
    assert [point.section.defined.models.keys() for point in points] == [{"other"}, {"tiny"}]
    assert folder_name(points[1]).rpartition("-")[2] == alone.rpartition("-")[2]


def test_times_of_an_alike_model_that_is_defined_too(scenario: Path, tmp_path: Path) -> None:
    device = DEVICE.replace(
        "[peak]", '[[facts]]\nmodel = "tiny"\nbatch = 8\niteration_time = "8ms"\nsource = "timed"\n\n[peak]'
    )
    (tmp_path / "mine" / "gpu.toml").write_text(device.replace("memory", 'alike = { double = "tiny" }\nmemory'))
    (tmp_path / "mine" / "double.toml").write_text(
        MODEL.replace('"tiny"', '"double"').replace("1 MFLOP", "2 MFLOP").replace("1 GMAC", "2 GMAC")
    )
    scenario.write_text(scenario.read_text() + '[sweep]\n"model.name" = ["../mine/tiny.toml", "../mine/double.toml"]\n')
    tiny, double = (ResolvedPoint(point.section).compute for point in load_scenario(scenario).points)
    assert tiny.iteration_s == pytest.approx(0.008)
    assert double.iteration_s == pytest.approx(0.016)
    assert "FLOPs from tiny" in double.source


def test_a_built_in_model_from_a_file_is_the_same_and_a_changed_one_is_refused(scenario: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine" / "tiny.toml"
    path.write_text(model_text(model_file(model("alexnet"))))
    on_k40 = ("model.device=k40", "strategy.name=ring")
    assert digests(only(scenario, *on_k40)) == digests(only(scenario, *on_k40, "model.name=alexnet"))
    path.write_text(path.read_text().replace("[4096, 4096]", "[4096, 4097]"))
    with pytest.raises(InputFault, match=r"tiny\.toml: name = 'alexnet'"):
        load_scenario(scenario)


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        ("mine/tiny.toml", "batch = 8", "", "model.name: .*tiny.toml: batch: missing"),
        ("mine/gpu.toml", "0.4", "4", "model.device: .*gpu.toml: peak.efficiency = 4:"),
        ("mine/gpu.toml", '"my-gpu"', '"k40"', "gradwire has another device of this name"),
        ("asked/one_bucket.py", 'name="one-bucket"', 'name="ring"', "'ring' is a strategy of gradwire"),
        ("asked/tiny.toml", "../mine/tiny.toml", "tiny2.toml", "model.name: .*tiny2.toml: no such model file"),
        ("asked/tiny.toml", "one_bucket.py", "two.py", "strategy.name: .*two.py: no such file"),
        ("asked/tiny.toml", "one_bucket.py", "one_bucket.py:two", "has no strategy 'two'; its STRATEGIES: one-bucket"),
    ],
)
def test_what_is_wrong_is_told_with_scenario_key_and_file(
    scenario: Path, tmp_path: Path, file: str, old: str, new: str, complaint: str
) -> None:
    path = tmp_path / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(InputFault, match=complaint) as fault:
        load_scenario(scenario)
    assert all(line.startswith(f"{scenario}: ") for line in str(fault.value).splitlines())
    assert "is not known" not in str(fault.value)


def test_two_files_of_one_name_are_refused(scenario: Path, tmp_path: Path) -> None:
    (tmp_path / "mine" / "again.toml").write_text(MODEL.replace("batch = 8", "batch = 9"))
    scenario.write_text(scenario.read_text() + '[sweep]\n"model.name" = ["../mine/tiny.toml", "../mine/again.toml"]\n')
    with pytest.raises(InputFault, match=in_order("again.toml:", "'tiny'", "tiny.toml")):
        load_scenario(scenario)


def test_a_value_in_place_of_the_table_of_definitions_is_refused(scenario: Path) -> None:
    scenario.write_text(scenario.read_text() + "[defined]\nmodels = 5\n")
    with pytest.raises(InputFault, match=in_order("defined.models: is a value, not a table", "defined.models = 5")):
        load_scenario(scenario)


def test_definitions_may_stand_in_the_scenario_itself(scenario: Path) -> None:
    inline = MODEL.replace('name = "tiny"\n', "").replace("[[layers]]", "[[defined.models.inline.layers]]")
    text = scenario.read_text().replace("../mine/tiny.toml", "inline") + f"[defined.models.inline]\n{inline}"
    scenario.write_text(text)
    assert compile_point(only(scenario).section).job.profile.parameters == 129_000
    scenario.write_text(text.replace('"1 GMAC"', "1"))
    with pytest.raises(InputFault, match=r"defined\.models\.inline\.layers\.1\.flops = 1:"):
        load_scenario(scenario)


def test_one_of_several_strategies_of_a_file_is_said(scenario: Path, tmp_path: Path) -> None:
    path = tmp_path / "asked" / "one_bucket.py"
    path.write_text(path.read_text().replace("(STRATEGY,)", '(STRATEGY, replace(STRATEGY, name="other"))'))
    with pytest.raises(InputFault, match=in_order("(one-bucket, other):", "one_bucket.py:one")):
        load_scenario(scenario)
    scenario.write_text(scenario.read_text().replace("one_bucket.py", "one_bucket.py:other"))
    assert only(scenario).parameters["strategy"] == "other"
