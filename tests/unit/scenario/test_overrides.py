"""`--set` against a file's own sweeps and cases: it takes effect in all of them, or is refused."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from gradwire.documents import DocumentValue
from gradwire.faults import InputFault
from gradwire.scenario.loading import Point, load_scenario, resolve, scenario_of
from gradwire.scenario.overrides import apply_setting, setting_words, value_of_setting

SCENARIOS = Path(__file__).resolve().parents[3] / "scenarios"
MINIMAL = """
title = "A test"
[cluster]
workers = 4
[fabric]
rate = "10gbit"
[model]
name = "alexnet"
device = "k40"
[strategy]
name = "vanilla"
"""
CASES = """
[[cases]]
"strategy.name" = ["vanilla", "partition-slicing"]
"run.seed" = [1, 2, 3]
[[cases]]
"strategy.name" = ["ring"]
"""
TABLES = """
[sweep]
fabric = [{ rate = "1gbit" }, { rate = "2gbit" }, { rate = "2gbit", topology = "leaf-spine", leaves = 2, spines = 2 }]
"""


def document(text: str, *settings: str) -> dict[str, Any]:
    found = tomllib.loads(text)
    for setting in settings:
        apply_setting(found, setting)
    return found


def points(text: str, *settings: str) -> tuple[Point, ...]:
    """Of the scenario, which must be the same when read from what a run writes."""
    changed = document(text, *settings)
    found = resolve(changed, "test.toml", "test").points
    assert resolve(tomllib.loads(tomli_w.dumps(changed)), "test.toml", "test").points == found
    return found


def networks(text: str, *settings: str) -> list[tuple[float, str]]:
    return [(point.section.fabric.rate, point.section.fabric.topology) for point in points(text, *settings)]


def runs(text: str, *settings: str) -> list[tuple[str, int]]:
    return [(point.section.strategy.name, point.section.run.seed) for point in points(text, *settings)]


def test_a_value_goes_into_every_swept_table_and_equal_tables_are_one() -> None:
    assert networks(MINIMAL + TABLES, "fabric.rate=40gbit") == [(40e9, "single"), (40e9, "leaf-spine")]
    assert [point.parameters["fabric"] for point in points(MINIMAL + TABLES, "fabric.rate=40gbit")] == [
        "rate=40gbit",
        "rate=40gbit, topology=leaf-spine, leaves=2, spines=2",
    ]


def test_a_list_multiplies_swept_tables() -> None:
    wanted = [(rate, topology) for rate in (1e9, 4e9) for topology in ("single", "leaf-spine")]
    assert networks(MINIMAL + TABLES, 'fabric.rate=["1gbit","4gbit"]') == wanted
    once_more = ('fabric.rate=["1gbit","4gbit"]', "fabric.rate=3gbit")
    assert networks(MINIMAL + TABLES, *once_more) == [(3e9, "single"), (3e9, "leaf-spine")]


def test_a_table_replaces_what_the_file_sweeps_inside_it() -> None:
    swept = MINIMAL + '[sweep]\n"fabric.rate" = ["1gbit", "2gbit"]\n"cluster.workers" = [2, 4]\n'
    assert networks(swept, 'fabric={rate="3gbit"}') == [(3e9, "single")] * 2
    assert networks(MINIMAL + TABLES, 'fabric={rate="3gbit"}') == [(3e9, "single")]


def test_a_setting_without_a_value_unsets_its_key() -> None:
    text = MINIMAL + '[transport]\nbuffer = "1MiB"\n[sweep]\n"run.seed" = [1, 2]\n'
    (one,) = points(text, "transport.buffer=", "run.seed=")
    assert (one.section.transport.buffer, one.section.run.seed) == (None, 1)
    assert networks(MINIMAL + TABLES, "fabric.leaves=", "fabric.spines=", "fabric.topology=") == [
        (1e9, "single"),
        (2e9, "single"),
    ]
    with pytest.raises(InputFault, match="buffer"):
        points(MINIMAL, "transport.buffer=")


def test_a_setting_decides_in_every_case() -> None:
    text = MINIMAL + CASES
    assert runs(text, "run.seed=9") == [("vanilla", 9), ("partition-slicing", 9), ("ring", 9)]
    assert sorted(runs(text, "run.seed=[7,8]")) == [
        (name, seed) for name in ("partition-slicing", "ring", "vanilla") for seed in (7, 8)
    ]
    assert runs(text, "strategy.name=ring") == [("ring", 1), ("ring", 2), ("ring", 3)]
    assert runs(text, "strategy.name=ring", "run.seed=1") == [("ring", 1)]
    assert runs(text, "fabric.rate=1gbit") == runs(text)


def test_a_setting_goes_into_tables_of_cases() -> None:
    text = MINIMAL + '[[cases]]\nstrategy = [{ name = "p3" }, { name = "p3", options = { slice_parameters = 9 } }]\n'
    (point,) = points(text, "strategy.options.slice_parameters=5")
    assert point.section.strategy.options == {"slice_parameters": 5}


def test_values_that_are_alike_are_one_point() -> None:
    assert runs(MINIMAL, "run.seed=[7,7]") == [("vanilla", 7)]


@pytest.mark.parametrize(
    ("name", "settings", "count"),
    [
        ("geryon-larger", ["cluster.workers=4", "fabric.rate=40gbit"], 4),
        ("geryon-fig7", ["strategy.name=p3", "run.seed=1"], 7),
        ("geryon-table4", ["strategy.options.slice_parameters=5000", "run.seed=1"], 2),
        ("geryon-fig7", ['strategy={name="ring"}', "run.seed=1"], 1),
    ],
)
def test_settings_of_shipped_scenarios_take_effect(name: str, settings: list[str], count: int) -> None:
    found = load_scenario(SCENARIOS / f"{name}.toml", settings).points
    assert len(found) == count
    if "fabric.rate=40gbit" in settings:
        assert {point.section.fabric.rate for point in found} == {40e9}
    if "strategy.name=p3" in settings:
        assert {point.section.strategy.name for point in found} == {"p3"}


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("model.name.first=x", "--set model.name.first=x: the file sweeps 'model.name' over values like 'alexnet'"),
        ("model.device.first=x", "--set model.device.first=x: model.device.first: 'device' is a value, not a table"),
        ("cases=[1]", "a sweep is set by a list for its key"),
    ],
)
def test_what_cannot_be_set_is_refused(setting: str, said: str) -> None:
    with pytest.raises(InputFault) as refused:
        document(MINIMAL + '[sweep]\n"model.name" = ["alexnet", "vgg19"]\n', setting)
    assert said in str(refused.value)


def test_a_file_whose_cases_are_no_tables_is_refused_whatever_is_set() -> None:
    with pytest.raises(InputFault, match="cases: must be"):
        document("cases = [3]\n" + MINIMAL, "run.seed=2")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("fabric.rate=25gbit", "fabric.rate = 25gbit"),
        ('strategy.name=["ring", "p3"]', "strategy.name = ring or p3"),
        ("run.iterations = 3", "run.iterations = 3"),
        ('fabric=[{rate="10gbit"}, {rate="25gbit"}]', 'fabric=[{rate="10gbit"}, {rate="25gbit"}]'),
    ],
)
def test_a_setting_in_words(setting: str, words: str) -> None:
    assert setting_words(setting) == words


def on_hosts(*settings: str, cluster: str = "workers_per_host = 2", more: str = "") -> list[int]:
    text = MINIMAL.replace('"vanilla"', '"ring"').replace("workers = 4", f"workers = 4\n{cluster}") + more
    found = scenario_of(tomllib.loads(text), settings)
    return [point.section.cluster.workers_per_host for point in found.points]


@pytest.mark.parametrize(
    ("settings", "cluster", "more"),
    [
        ((), "gpus_per_host = 2", ""),
        (("cluster.gpus_per_host=2",), "", ""),
        (("cluster.gpus_per_host=2",), "workers_per_host = 4", ""),
        (("cluster={workers=8, gpus_per_host=2}",), "workers_per_host = 4", ""),
        ((), "", '[sweep]\n"cluster.gpus_per_host" = [2]'),
        ((), "", "[sweep]\ncluster = [{ workers = 8, gpus_per_host = 2 }]"),
        ((), "", "[sweep.cluster]\ngpus_per_host = [2]"),
        ((), "", '[[cases]]\n"cluster.gpus_per_host" = [2]'),
        (("cluster.workers_per_host=2",), "", '[sweep]\n"cluster.gpus_per_host" = [1, 4]'),
    ],
)
def test_gpus_per_host_is_another_name_of_workers_per_host(settings: tuple[str, ...], cluster: str, more: str) -> None:
    assert on_hosts(*settings, cluster=cluster, more=more) == [2]


def test_both_names_of_a_key_are_refused() -> None:
    told = r"cluster\.gpus_per_host: is another name of cluster\.workers_per_host; leave out one of the two"
    with pytest.raises(InputFault, match=rf"^scenario: {told}$"):
        on_hosts(cluster="workers_per_host = 2\ngpus_per_host = 2")
    with pytest.raises(InputFault, match=rf"^--set cluster=.*: {told}$"):
        on_hosts("cluster={workers=8, gpus_per_host=2, workers_per_host=2}")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[10gbit, 25gbit]", ["10gbit", "25gbit"]),
        (" [vgg16] ", ["vgg16"]),
        ("[ecmp, 5, true]", ["ecmp", 5, True]),
        ("[[0.5]]", [[0.5]]),
        ("10gbit", "10gbit"),
        ("[10gbit,,25gbit]", "[10gbit,,25gbit]"),
        ("[10gbit", "[10gbit"),
        ("['a', b]", "['a', b]"),
    ],
)
def test_words_need_no_quotes_in_a_list_either(text: str, value: DocumentValue) -> None:
    assert value_of_setting(text) == value
