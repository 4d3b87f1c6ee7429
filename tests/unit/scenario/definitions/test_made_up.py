"""Made-up models: sizes and times are the scenario's own, and what does not fit together is refused."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from gradwire.faults import InputFault
from gradwire.scenario.loading import Scenario, resolve
from gradwire.scenario.resolution.compilation import compile_point

TOY = """
title = "A toy"
[cluster]
workers = 2
[fabric]
rate = "10gbit"
[model]
name = "toy"
[[model.layers]]
name = "small"
kind = "conv"
size = ["4MB"]
forward = "10ms"
backward = "20ms"
[[model.layers]]
name = "large"
kind = "fc"
size = ["8MB", "4B"]
forward = "1ms"
backward = "2ms"
[strategy]
name = "geryon"
"""


def toy(old: str = "", new: str = "") -> Scenario:
    return resolve(tomllib.loads(TOY.replace(old, new) if old else TOY), "toy.toml", "toy")


def test_sizes_and_times_come_from_the_scenario() -> None:
    (point,) = toy().points
    assert point.parameters["model"] == "toy"
    job = compile_point(point.section).job
    assert [layer.parameters for layer in job.profile.layers] == [1_000_000, 2_000_001]
    assert [layer.inputs for layer in job.profile.layers] == [(), (0,)]
    assert job.compute_s == pytest.approx(0.033)
    assert job.samples == 2


def test_layers_may_branch() -> None:
    (point,) = toy('name = "large"', 'name = "large"\ninputs = []').points
    assert compile_point(point.section).job.profile.layers[1].inputs == ()


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('name = "toy"', 'name = "toy"\ndevice = "k40"', "leave out device"),
        ('name = "large"', 'name = "small"', "two layers are called 'small'"),
        ('name = "small"', 'name = "small"\ninputs = ["large"]', "not an earlier layer; earlier ones: none"),
        ("4MB", "3B", "multiple of 4"),
        ('forward = "1ms"', "forward = 1", "forward"),
    ],
)
def test_refuses_what_does_not_fit(old: str, new: str, complaint: str) -> None:
    with pytest.raises(InputFault, match=complaint):
        compile_point(toy(old, new).points[0].section)


def test_a_known_model_needs_its_device(tmp_path: Path) -> None:
    document = tomllib.loads(TOY)
    document["model"] = {"name": "vgg19"}
    with pytest.raises(InputFault, match="device: missing"):
        resolve(document, "toy.toml", "toy")
