"""Swept tables are merged into the file's, nothing in a file is without effect or unchecked, and everything wrong is told at once."""

from __future__ import annotations

import tomllib
from collections.abc import Callable

import pytest

from gradwire.faults import InputFault
from gradwire.scenario.effective import common_settings, used_settings
from gradwire.scenario.loading import Point, load_scenario, resolve
from gradwire.scenario.resolution.compilation import ResolvedPoint
from tests.shared.parts import tells

Refusal = Callable[..., list[str]]
BASE = """
title = "A test"
[cluster]
workers = 4
workers_per_host = 2
[fabric]
rate = "10gbit"
[model]
name = "alexnet"
device = "k40"
[strategy]
name = "lazy-allreduce"
options = { threshold_bytes = 26214400, wire = "fp16" }
"""


def points(text: str) -> tuple[Point, ...]:
    return resolve(tomllib.loads(text), "test.toml", "test").points


@pytest.fixture
def refusal(tmp_path_factory: pytest.TempPathFactory) -> Refusal:
    """What is said against a file and settings, without the file's name, line by line."""

    def refused(text: str, *settings: str) -> list[str]:
        path = tmp_path_factory.mktemp("refused") / "test.toml"
        path.write_text(text)
        with pytest.raises(InputFault) as fault:
            load_scenario(path, settings)
        return [line.removeprefix(f"{path}: ") for line in str(fault.value).splitlines()]

    return refused


def test_a_swept_table_keeps_what_the_file_says_beside_it() -> None:
    found = points(BASE + '[sweep]\n"strategy.options" = [{ overlap = true }, { wire = "fp32" }]\n')
    assert [point.section.strategy.options for point in found] == [
        {"threshold_bytes": 26214400, "wire": "fp16", "overlap": True},
        {"threshold_bytes": 26214400, "wire": "fp32"},
    ]
    (point,) = points(BASE + "[sweep]\ncluster = [{ workers = 8 }]\n")
    assert (point.section.cluster.workers, point.section.cluster.workers_per_host) == (8, 2)


def test_tables_are_merged_at_every_depth() -> None:
    found = points(BASE + '[sweep]\nstrategy = [{ options = { overlap = false } }, { name = "csc", options = {} }]\n')
    assert [(point.section.strategy.name, point.section.strategy.options) for point in found] == [
        ("lazy-allreduce", {"threshold_bytes": 26214400, "wire": "fp16", "overlap": False}),
        ("csc", {"threshold_bytes": 26214400, "wire": "fp16"}),
    ]


@pytest.mark.parametrize(
    ("before", "after", "sweep", "said"),
    [
        ("4", '"four"', '"cluster.workers" = [2, 4]', "cluster.workers = 'four': must be a whole number"),
        ('"10gbit"', '"10gigs"', 'fabric = [{ rate = "1gbit" }]', "fabric.rate = '10gigs': must be a rate"),
        ('"alexnet"', '"alexnt"', '"model.name" = ["vgg19"]', "model.name: model 'alexnt' is not known; did you mean 'alexnet'"),
        ('"k40"', '"k41"', '"model.device" = ["v100"]', "model.device: device 'k41' is not known; did you mean 'k40'?"),
        ('"lazy-allreduce"', '"lasy-allreduce"', '"strategy.name" = ["csc"]', "strategy.name: strategy 'lasy-allreduce' is unknown"),
        ('wire = "fp16"', 'wire = "fp17"', '"strategy.options.wire" = ["fp16"]', "strategy.options.wire = 'fp17': must be"),
        ("wire", "wier", '"strategy.options" = [{ wire = "fp16" }]', "strategy.options.wier: 'lazy-allreduce' has no such option"),
        ("[model]", '[model]\nbtch = 3', '"model.name" = ["vgg19"]', "model.btch: unknown key; did you mean 'batch'?"),
    ],
)  # fmt: skip
def test_what_every_point_overrides_is_checked_all_the_same(
    refusal: Refusal, before: str, after: str, sweep: str, said: str
) -> None:
    changed = BASE.replace(before, after, 1)
    assert changed != BASE
    (line,) = refusal(f"{changed}[sweep]\n{sweep}\n")
    assert line.startswith(said)


def test_what_a_setting_overrides_is_checked_all_the_same(refusal: Refusal) -> None:
    (line,) = refusal(BASE.replace('"alexnet"', '"alexnt"'), "model.name=vgg19")
    assert line.startswith("model.name: model 'alexnt'")


def test_an_option_of_the_file_that_a_swept_strategy_lacks_is_refused_with_what_to_write(refusal: Refusal) -> None:
    (line,) = refusal(
        BASE.replace(', wire = "fp16"', "") + '[sweep]\n"strategy.name" = ["lazy-allreduce", "horovod"]\n'
    )
    assert line.startswith("strategy.options.threshold_bytes: no option of 'horovod'")
    example = 'strategy = [{ name = "lazy-allreduce", options = { threshold_bytes = 26214400 } }, { name = "horovod" }]'
    assert example in line
    mended = BASE.replace("options = { threshold_bytes = 26214400", "options = { overlap = false")
    assert len(points(f"{mended}[sweep]\n{example}\n")) == 2


@pytest.mark.parametrize(
    ("sweep", "said"),
    [
        (
            '[sweep]\nstrategy = [{ options = { wire = "fp32" } }]\n"strategy.options.wire" = ["fp16"]\n',
            "sweep.strategy: options.wire has no effect here, because sweep.strategy.options.wire replaces it",
        ),
        (
            '[sweep]\n"run.seed" = [1, 2]\n[[cases]]\n"run.seed" = [3]\n',
            "sweep.run.seed: has no effect, because every case sweeps run.seed itself; leave it out",
        ),
    ],
)
def test_sweeps_that_override_one_another_are_refused(refusal: Refusal, sweep: str, said: str) -> None:
    (line,) = refusal(BASE + sweep)
    assert line.startswith(said)


def test_a_sweep_of_too_many_points_is_refused_before_it_is_expanded(refusal: Refusal) -> None:
    lists = "".join(f'"{key}" = {list(range(1, 501))}\n' for key in ("run.seed", "model.batch", "run.warmup"))
    (line,) = refusal(f"{BASE}[sweep]\n{lists}")
    assert tells(line, "sweep:", "125,000,000 points", "10,000")


def test_everything_wrong_is_told_at_once(refusal: Refusal) -> None:
    wrong = BASE
    for right, mistake in (
        ("workers = 4", 'workers = "four"'),
        ('"10gbit"', '"10gigs"\nlos = 0.1'),
        ('"alexnet"', '"alexnt"'),
        ('"k40"', '"k41"'),
        ('wire = "fp16"', "wire = 16, wier = 1"),
    ):
        wrong = wrong.replace(right, mistake, 1)
    lines = refusal(wrong)
    assert sorted(line.split(":")[0].split(" =")[0] for line in lines) == [
        "cluster.workers",
        "fabric.los",
        "fabric.rate",
        "model.device",
        "model.name",
        "strategy.options.wier",
        "strategy.options.wire",
    ]


def test_parts_that_do_not_fit_are_told_without_the_others() -> None:
    text = (
        BASE.replace('"k40"', '"p4000"')
        .replace("workers = 4", "workers = 6")
        .replace('"10gbit"', '"10gbit"\ngso = "1kB"')
    )
    (point,) = points(text.replace("_per_host = 2", "_per_host = 3"))
    assert [line.split(":")[0] for line in ResolvedPoint(point.section).misfits] == [
        "model.device",
        "fabric.gso = 1000",
    ]
    (point,) = points(text.replace("_per_host = 2", "_per_host = 4"))
    assert [line.split(":")[0] for line in ResolvedPoint(point.section).misfits] == [
        "model.device",
        "cluster.workers_per_host = 4",
    ]


def test_what_a_point_uses_is_shown_as_a_scenario_may_say_it() -> None:
    found = points(
        BASE
        + '[sweep]\n"strategy.options" = [{ overlap = false }, {}]\n[costs]\ncopy_rate = { value = "2 GB/s", source = "x" }\n'
    )
    used = [used_settings(point.section, ResolvedPoint(point.section).options) for point in found]
    assert (
        used[0]
        | {
            "fabric.rate": "10gbit",
            "fabric.gso": "unset",
            "run.time_limit": "30min",
            "costs.copy_rate.value": "2GB/s",
            "cluster.servers": "unset",
            "model.speedup": "{}",
            "run.capture": "[]",
            "strategy.options.wire": "fp16",
            "strategy.options.algorithm": "ring",
        }
        == used[0]
    )
    common = common_settings(used)
    assert [{key: text for key, text in each.items() if key not in common} for each in used] == [
        {"strategy.options.overlap": "false"},
        {"strategy.options.overlap": "true"},
    ]
